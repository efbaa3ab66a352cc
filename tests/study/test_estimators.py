"""Estimators by name."""

import pytest

from refork.errors import ReforkError
from refork.stats.curves.forkhmm import ForkHMM
from refork.stats.curves.full import Full
from refork.stats.curves.raw import Raw
from refork.study.estimators import named_estimator


def test_hyper_parameters_stand_behind_colons() -> None:
    assert named_estimator("raw") == Raw()
    text = "full:penalty=64:bandwidth=32.5:cost=l2"
    assert named_estimator(text) == Full(penalty=64, bandwidth=32.5, cost="l2")
    forkhmm = named_estimator("forkhmm:labels=false")
    assert isinstance(forkhmm, ForkHMM)
    assert forkhmm.labels is False


def test_defaults_go_where_they_are_known_and_not_given() -> None:
    assert named_estimator("full", folds=3) == Full(folds=3)
    assert named_estimator("full:folds=4", folds=3) == Full(folds=4)
    assert named_estimator("raw", folds=3) == Raw()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no estimator ''; allowed: "),
        ("forkhm", "no estimator 'forkhm'; allowed: .*; did you mean 'forkhmm'"),
        ("raw:width=3", "raw:width=3: no hyper-parameter 'width' of raw"),
        ("full:bandwith=3", "did you mean 'bandwidth'"),
        ("full:bandwidth", "full:bandwidth: a value is missing: bandwidth=VALUE"),
        ("full:penalty=x", "full:penalty=x: 'x': Input should be a valid number"),
        ("forkhmm:labels=maybe", "Input should be a valid boolean"),
        ("forkhmm:point=mode", "forkhmm:point=mode: point: 'mode'; allowed: "),
    ],
)
def test_what_is_wrong_is_said_in_words(text: str, words: str) -> None:
    with pytest.raises(ReforkError, match=words):
        named_estimator(text)
