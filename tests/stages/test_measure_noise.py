"""From graded draws to credits and noise."""

from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from refork.data.schemas import ARMS, CONTINUATIONS, CREDITS, OUTCOMES, PIVOTS
from refork.errors import ReforkError
from refork.stages.measure_noise import MeasuredNoise, measure_noise
from refork.study.config import Comparison, Noise

PASSES = ("exact", "replica", "refeed")
STATES = {"exact": "snapshot", "replica": "snapshot", "refeed": "prefill"}
DRAWS = 2
PLACES = (("a", 0, 20), ("a", 1, 20), ("b", 0, 33))

# Right draws by pass, pivot and arm.
RIGHT = {
    ("exact", 0, "actual"): 2,
    ("replica", 0, "actual"): 1,
    ("refeed", 0, "alt"): 2,
    ("exact", 2, "alt"): 1,
}


def key(place: int) -> dict[str, Any]:
    return dict(zip(("question_id", "rollout", "position"), PLACES[place], strict=True))


def pivots() -> pa.Table:
    rest = {"actual_token": 1, "alt_token": 2, "actual_logprob": -0.7, "alt_logprob": -0.8}
    rows = [key(place) | rest | {"margin": place / 8} for place in range(len(PLACES))]
    return pa.Table.from_pylist(rows, PIVOTS)


def outcome_rows() -> list[dict[str, Any]]:
    base = {"question_id": "a", "rollout": 0, "outcome": "A", "correct": True}
    return [base] + [
        key(place)
        | {"pass": name, "arm": arm, "draw": draw, "outcome": "A"}
        | {"correct": draw < RIGHT.get((name, place, arm), 0)}
        for name, place, arm, draw in product(PASSES, range(len(PLACES)), ARMS, range(DRAWS))
    ]


def continuation_rows() -> list[dict[str, Any]]:
    """Draws and probes; re-fed, pivot 1's probes diverge and pivot 2's are 1/8 nat apart."""
    rows = []
    for name, place, arm, draw in product(PASSES, range(len(PLACES)), ARMS, (0, 1, None)):
        probe = draw is None
        other_token = probe and (name, place, arm) == ("refeed", 1, "alt")
        other_logprob = probe and (name, place, arm) == ("refeed", 2, "actual")
        rows.append(
            key(place)
            | {"pass": name, "arm": arm, "draw": draw, "seed": 7, "state": STATES[name]}
            | {"token_ids": [5, 7 if other_token else 6, 8][: 1 + place], "finish_reason": "stop"}
            | {"first_logprob": -0.5 - other_logprob / 8}
            | {"cached_tokens": PLACES[place][2] if name != "refeed" else 0}
            | {"recomputed_tokens": 0}
        )
    return rows


def stage(settings: Noise, block_size: int = 1) -> dict[str, Any]:
    return {
        "settings": {"noise": settings.model_dump(), "passes": [*PASSES]},
        "lock": {"block_size": block_size},
    }


def measured(
    outcomes: list[dict[str, Any]] | None = None,
    continuations: list[dict[str, Any]] | None = None,
    settings: Noise | None = None,
    block_size: int = 1,
) -> MeasuredNoise:
    return measure_noise(
        stage(settings or Noise(), block_size),
        pivots(),
        pa.Table.from_pylist(outcome_rows() if outcomes is None else outcomes, OUTCOMES),
        pa.Table.from_pylist(
            continuation_rows() if continuations is None else continuations, CONTINUATIONS
        ),
    )


def column(table: pa.Table, name: str) -> dict[str, list[Any]]:
    rows = table.to_pylist()
    return {one: [row[name] for row in rows if row["pass"] == one] for one in PASSES}


def test_credits_of_known_draws() -> None:
    credits = measured().credits
    assert credits.schema == CREDITS
    assert column(credits, "credit") == {
        "exact": [1.0, 0.0, -0.5],
        "replica": [0.5, 0.0, 0.0],
        "refeed": [-1.0, 0.0, 0.0],
    }
    assert column(credits, "right_actual")["exact"] == [2, 0, 0]
    assert column(credits, "draws_alt")["refeed"] == [DRAWS] * 3
    assert column(credits, "margin")["replica"] == [0.0, 0.125, 0.25]


def test_noise_of_known_draws() -> None:
    (record,) = measured().noise["comparisons"]
    assert (record["n_pivots"], record["n_problems"], record["eligible"]) == (3, 2, 2)
    assert (record["refeed"]["zero_crossings"], record["refeed"]["polarity_reversals"]) == (1, 1)
    assert record["replica"]["flips"] == 1
    assert record["excess_pp"] == 50.0
    assert record["clustered_mean"] == 0.5
    assert record["passes"]["exact"]["cached_share"] == 1.0
    assert record["probes"]["refeed"]["divergence_rate"] == pytest.approx(1 / 3)
    assert record["probes"]["exact2"]["bit_exact_rate"] == 1.0


def test_probes_stand_against_the_first_pass() -> None:
    credits = measured().credits
    assert column(credits, "probe_diverged") == {
        "exact": [None] * 3,
        "replica": [False] * 3,
        "refeed": [False, True, False],
    }
    assert column(credits, "probe_delta")["refeed"] == [0.0, 0.0, 0.125]


def test_probes_of_other_lengths_diverge() -> None:
    rows = continuation_rows()
    probe = next(row for row in rows if row["pass"] == "replica" and row["draw"] is None)
    probe["token_ids"] = []
    assert column(measured(continuations=rows).credits, "probe_diverged")["replica"][0]


def test_without_probes_there_are_none() -> None:
    rows = [row for row in continuation_rows() if row["draw"] is not None]
    found = measured(continuations=rows)
    assert found.credits.column("probe_diverged").null_count == 9
    (record,) = found.noise["comparisons"]
    assert record["probes"]["n_pivots"] == 0
    assert record["reasons"]["probes/refeed/p90_delta"] == "no greedy probes"


def test_the_instrument_counts_whole_blocks() -> None:
    rows = continuation_rows()
    late = [row for row in rows if row["pass"] == "exact" and row["position"] == 33]
    late[0]["cached_tokens"] = 32
    assert column(measured(continuations=rows).credits, "cached") == {
        "exact": [True, True, False],
        "replica": [True, True, True],
        "refeed": [None, None, None],
    }
    whole = measured(continuations=rows, block_size=16).credits
    assert column(whole, "cached")["exact"] == [True, True, True]


def test_an_engine_that_replays_its_decode_is_held_to_its_blocks() -> None:
    rows = continuation_rows()
    for row in rows:
        if row["state"] == "snapshot":
            row["state"] = "decode_replay"
            row["cached_tokens"] = row["position"] // 16 * 16
    next(row for row in rows if row["pass"] == "replica")["cached_tokens"] = 0

    def cached(**lock: Any) -> dict[str, list[Any]]:
        held = {**stage(Noise()), "lock": lock}
        outcomes = pa.Table.from_pylist(outcome_rows(), OUTCOMES)
        continuations = pa.Table.from_pylist(rows, CONTINUATIONS)
        return column(measure_noise(held, pivots(), outcomes, continuations).credits, "cached")

    assert cached(block_size=16, exact="decode_replay") == {
        "exact": [True, True, True],
        "replica": [False, True, True],
        "refeed": [None, None, None],
    }
    assert cached(block_size=1)["exact"] == [None, None, None]  # resumes snapshots, here none


def test_rows_may_come_in_any_order() -> None:
    upside_down = measured(outcome_rows()[::-1], continuation_rows()[::-1])
    assert upside_down.credits.equals(measured().credits)
    assert upside_down.noise == measured().noise


def test_an_absent_draw_is_no_wrong_answer() -> None:
    rows = outcome_rows()
    gone = next(row for row in rows if row.get("pass") == "refeed" and row["arm"] == "alt")
    words = r"question 'a', rollout 0, position 20: pass 'refeed' has 1 graded draws of arm 'alt'"
    with pytest.raises(ReforkError, match=words):
        measured([row for row in rows if row is not gone])


def test_no_draws_at_all() -> None:
    with pytest.raises(ReforkError, match="pass 'exact' has 0 graded draws of arm 'actual'"):
        measured(outcome_rows()[:1])


def test_a_draw_that_stands_at_no_pivot() -> None:
    stray = outcome_rows()[1] | {"position": 21}
    with pytest.raises(ReforkError, match="no pivot: question 'a', rollout 0, position 21"):
        measured([*outcome_rows(), stray])


def test_a_comparison_of_a_pass_that_is_not_there() -> None:
    settings = Noise(comparisons=[Comparison(treatment="shuffled", floor="replica")])
    with pytest.raises(ReforkError, match="no pass named 'shuffled'"):
        measured(settings=settings)


def test_a_study_without_pivots() -> None:
    empty = [schema.empty_table() for schema in (PIVOTS, OUTCOMES, CONTINUATIONS)]
    found = measure_noise(stage(Noise()), *empty)
    assert found.credits.num_rows == 0
    assert found.noise["comparisons"][0]["eligible"] == 0


def test_the_flat_table_names_the_comparison() -> None:
    table = measured().table
    assert set(table.column("comparison").to_pylist()) == {"refeed/replica"}
