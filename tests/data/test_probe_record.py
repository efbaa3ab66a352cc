"""The record of a probe: its keys, its sentence, and a file that is none."""

import json
from pathlib import Path
from typing import Any

import pytest

from refork.data.files import write_json
from refork.data.probe_record import WAYS, ProbeRecord, Way, is_invariant, read_probe
from refork.errors import ReforkError

NONE_DIFFERS = {"first_layer": "no layer differs", "layer_delta": "no layer differs"}


def way(name: str, **changed: Any) -> dict[str, Any]:
    return {
        "way": name,
        "rollouts": 16,
        "tokens": 500,
        "equal_tokens": 500,
        "bit_equal": 500,
        "largest_delta": 0.0,
        "states": 16,
        "first_layer": None,
        "layer_delta": None,
        "reasons": NONE_DIFFERS,
        **changed,
    }


REFED = way(
    "refeed",
    equal_tokens=430,
    bit_equal=12,
    largest_delta=0.0625,
    first_layer=1,
    layer_delta=0.25,
    reasons={},
)
RECORD: dict[str, Any] = {
    "kernels": "batch_invariant",
    "questions": 4,
    "rollouts": 16,
    "tokens": 500,
    "group": 64,
    "batch_rows": 48,
    "ways": [*map(way, list(WAYS)[:-1]), REFED],
    "invariant": True,
}


def test_the_record_is_what_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "probe.json"
    write_json(path, RECORD)
    record = read_probe(path)
    assert record.model_dump(mode="json") == RECORD
    assert json.loads(path.read_text()) == RECORD
    assert is_invariant(record.ways)
    assert record.promised


def test_an_invariant_engine_in_words() -> None:
    record = ProbeRecord.model_validate_json(json.dumps(RECORD))
    assert record.verdict == (
        "Invariant: alone, order, narrow, resume and replay bit-equal to a batch of 48 "
        "(16 rollouts, 500 tokens)."
    )
    assert record.differing == []
    assert record.ways[-1].in_words == (
        "refeed differs: 430 of 500 tokens equal, 12 bit-equal, log-probabilities up to "
        "0.0625 nat apart, keys and values differ from layer 1 on (there by up to 0.25)"
    )
    stock = ProbeRecord.model_validate_json(json.dumps({**RECORD, "kernels": "stock"}))
    assert stock.verdict.startswith("Equal here, though stock kernels promise nothing: alone, ")
    assert not stock.promised


def test_an_engine_that_varies_in_words() -> None:
    order = way("order", bit_equal=499, largest_delta=1e-6)
    unrun = way("resume", rollouts=0, tokens=0, equal_tokens=0, bit_equal=0, states=0)
    unrun["reasons"] = {"rollouts": "the engine keeps no states"}
    ways = [way("alone"), order, way("narrow"), unrun, way("replay"), REFED]
    varying = {**RECORD, "ways": ways, "invariant": False}
    record = ProbeRecord.model_validate_json(json.dumps(varying))
    assert not is_invariant(record.ways)
    assert record.verdict == (
        "Not invariant: order not bit-equal to a batch of 48 (16 rollouts, 500 tokens); "
        "resume was not run (the engine keeps no states)."
    )
    assert [way.in_words for way in record.differing] == [
        "order differs: 500 of 500 tokens equal, 499 bit-equal, "
        "log-probabilities up to 1e-06 nat apart"
    ]
    assert Way.model_validate(unrun).in_words == "resume was not run (the engine keeps no states)"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "Invalid JSON"),
        (json.dumps({**RECORD, "invariant": "yes"}), "invariant: Input should be a valid boolean"),
        (json.dumps({**RECORD, "colour": 1}), "colour: Extra inputs are not permitted"),
        (json.dumps({**RECORD, "ways": [way("sideways")]}), "ways.0.way: Input should be 'alone'"),
    ],
)
def test_what_is_no_record_is_said(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "probe.json"
    path.write_text(content)
    with pytest.raises(ReforkError, match=f"probe.json: .*{words}"):
        read_probe(path)
    with pytest.raises(ReforkError, match=r"absent\.json: cannot be read"):
        read_probe(tmp_path / "absent.json")
