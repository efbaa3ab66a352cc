"""Estimators as the command line names them."""

import pytest

from refork.cli.estimators import named_estimators
from refork.errors import ReforkError
from refork.stats.curves.forkhmm import ForkHMM
from refork.stats.curves.full import Full
from refork.stats.curves.raw import Raw


def test_names_keep_their_order() -> None:
    assert list(named_estimators("raw,full,forkhmm")) == ["raw", "full", "forkhmm"]
    assert isinstance(named_estimators("raw")["raw"], Raw)


def test_hyper_parameters_stand_behind_colons() -> None:
    text = "full:penalty=64:bandwidth=32.5:cost=l2,forkhmm:labels=true"
    full, forkhmm = named_estimators(text).values()
    assert full == Full(penalty=64, bandwidth=32.5, cost="l2")
    assert isinstance(forkhmm, ForkHMM)
    assert forkhmm.labels is True


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no estimator ''; allowed: "),
        ("raw,forkhm", "no estimator 'forkhm'; allowed: .*; did you mean 'forkhmm'"),
        ("raw,full,raw", "'raw' is there twice"),
        ("raw:width=3", "no hyper-parameter 'width' of raw"),
        ("full:bandwith=3", "did you mean 'bandwidth'"),
        ("full:bandwidth", "full:bandwidth: a value is missing: bandwidth=VALUE"),
        ("full:penalty=x", "full:penalty=x: 'x': Input should be a valid number"),
        ("forkhmm:labels=maybe", "Input should be a valid boolean"),
    ],
)
def test_unknown_names_are_said_in_words(text: str, words: str) -> None:
    with pytest.raises(ReforkError, match=words):
        named_estimators(text)
