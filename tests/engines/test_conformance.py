"""What every engine promises, whatever runs behind it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.stats import chisquare

from helpers.engines import RESUMED, Subject
from helpers.requests import GREEDY, SAMPLED, drawn, fresh, remainders, resumed, table
from refork.data.schemas import REQUESTS, RESULTS
from refork.engines.interface import Engine, replayed_tokens
from refork.errors import EngineError


@dataclass(frozen=True)
class Base:
    """Base rollouts and their snapshots."""

    requests: pa.Table
    results: pa.Table
    snapshots: Path | None  # None where the engine keeps none


@pytest.fixture(scope="module", params=[SAMPLED, GREEDY], ids=["sampled", "greedy"])
def base(
    request: pytest.FixtureRequest, subject: Subject, tmp_path_factory: pytest.TempPathFactory
) -> Base:
    keeps = subject.keeps_snapshots
    snapshots = tmp_path_factory.mktemp("base") / "snapshots.safetensors" if keeps else None
    requests = fresh(subject.prompts, rollouts=4, keep_snapshot=keeps, **request.param)
    return Base(requests, subject.engine.run_group(requests, None, snapshots), snapshots)


@pytest.fixture(params=RESUMED)
def state(request: pytest.FixtureRequest) -> str:
    """Return each state that the engine can resume from; conftest leaves out the others."""
    return str(request.param)


def test_results_stand_in_the_order_of_their_requests(subject: Subject, base: Base) -> None:
    rows = [{**row, "keep_snapshot": False} for row in base.requests.to_pylist()]
    results = subject.engine.run_group(table(rows[::-1]), None, None)
    assert results.schema.equals(RESULTS)
    assert results["request"].to_pylist() == list(range(len(rows)))
    subject.assert_same(drawn(results), drawn(base.results)[::-1])


def test_rollouts_end_as_they_say(subject: Subject, base: Base) -> None:
    for request, result in zip(base.requests.to_pylist(), base.results.to_pylist(), strict=True):
        tokens = result["token_ids"]
        assert 1 <= len(tokens) <= request["max_tokens"]
        assert len(result["logprobs"]) == len(result["top_token_ids"]) == len(tokens)
        if result["finish_reason"] == "length":
            assert len(tokens) == request["max_tokens"]
        else:
            assert result["finish_reason"] == "stop"
            assert tokens[-1] in subject.end_tokens
        assert not subject.end_tokens & {*tokens[:-1]}


def test_log_probabilities_are_ranked_and_raw(base: Base) -> None:
    for result in base.results.to_pylist():
        for token, logprob, best, logprobs in zip(
            result["token_ids"],
            result["logprobs"],
            result["top_token_ids"],
            result["top_logprobs"],
            strict=True,
        ):
            assert len(best) == len(set(best)) == 5
            assert logprobs == sorted(logprobs, reverse=True)
            assert sum(np.exp(logprobs)) < 1 + 1e-5
            if token in best:
                assert logprob == logprobs[best.index(token)]
            else:
                assert logprob <= logprobs[-1]


def test_the_same_requests_draw_the_same(subject: Subject, base: Base, tmp_path: Path) -> None:
    other = resumed(base.requests, base.results, "prefill")
    subject.engine.run_group(other, None, None)
    again = tmp_path / "again.safetensors"
    assert subject.engine.run_group(base.requests, None, again).equals(base.results)
    if base.snapshots:
        assert again.read_bytes() == base.snapshots.read_bytes()


def test_another_seed_draws_other_tokens(subject: Subject) -> None:
    requests = fresh(subject.prompts, rollouts=2)
    seeds = [seed ^ 1 for seed in requests["seed"].to_pylist()]
    other = table(
        [{**row, "seed": seed} for row, seed in zip(requests.to_pylist(), seeds, strict=True)]
    )
    first, second = (subject.engine.run_group(group, None, None) for group in (requests, other))
    assert not first["token_ids"].equals(second["token_ids"])


def test_resumed_rollouts_draw_what_the_original_drew(
    subject: Subject, base: Base, state: str
) -> None:
    requests = resumed(base.requests, base.results, state)
    results = subject.engine.run_group(requests, base.snapshots, None)
    original = remainders(base.requests, base.results, requests)
    subject.assert_same(drawn(results), original, state)


def test_fidelity_is_bounded(subject: Subject, base: Base, state: str) -> None:
    requests = resumed(base.requests, base.results, state)
    fidelity = subject.engine.run_group(requests, base.snapshots, None)["fidelity"]
    if not subject.measures(state):
        assert fidelity.null_count == requests.num_rows
        return
    assert fidelity.null_count == 0
    largest = pc.max(fidelity).as_py()
    exact = state == "snapshot" or (state == "decode_replay" and subject.invariant)
    assert largest == 0 if exact else largest <= subject.fidelity


def test_token_counts_are_true(subject: Subject, base: Base, state: str) -> None:
    requests = resumed(base.requests, base.results, state)
    results = subject.engine.run_group(requests, base.snapshots, None)
    prefixes = pc.list_value_length(requests["token_ids"]).to_pylist()
    cached = [subject.cached(row) for row in requests.to_pylist()]
    recomputed = [prefix - taken for prefix, taken in zip(prefixes, cached, strict=True)]
    assert results["cached_tokens"].to_pylist() == cached
    assert results["recomputed_tokens"].to_pylist() == recomputed
    if subject.settings.kind != "synthetic":  # which computes what others have to decode again
        prompts = requests["prompt_length"].to_pylist()
        again = [prefix - prompt for prefix, prompt in zip(prefixes, prompts, strict=True)]
        assert replayed_tokens(results) == (sum(again) if state == "decode_replay" else 0)


def test_base_rollouts_take_nothing_over(base: Base) -> None:
    assert set(base.results["cached_tokens"].to_pylist()) == {0}
    assert set(base.results["recomputed_tokens"].to_pylist()) == {0}
    assert base.results["fidelity"].null_count == base.results.num_rows


def test_without_a_forced_token_the_next_one_is_drawn(
    subject: Subject, base: Base, state: str
) -> None:
    forced = resumed(base.requests, base.results, state)
    requests = table(
        [
            {**row, "forced_token": None, "max_tokens": row["max_tokens"] + 1}
            for row in forced.to_pylist()
        ]
    )
    results = subject.engine.run_group(requests, base.snapshots, None)
    fed = pc.list_value_length(requests["token_ids"])
    assert pc.add(results["cached_tokens"], results["recomputed_tokens"]).equals(fed)
    original = remainders(base.requests, base.results, requests)
    subject.assert_same(drawn(results), original, state)


def test_nothing_follows_a_forced_end(subject: Subject, base: Base, state: str) -> None:
    rows = resumed(base.requests, base.results, state, forced_token=max(subject.end_tokens))
    results = subject.engine.run_group(rows, base.snapshots, None)
    assert set(results["finish_reason"].to_pylist()) == {"stop"}
    assert pc.max(pc.list_value_length(results["token_ids"])).as_py() == 0
    assert results["fidelity"].null_count == (0 if subject.measures(state) else rows.num_rows)


@pytest.fixture(scope="module")
def narrow(subject: Subject) -> Engine:
    return subject.open(batch_rows=3)


@pytest.mark.parametrize("state", ["snapshot", "decode_replay"], indirect=True)
def test_narrow_batches_draw_the_same(
    subject: Subject, narrow: Engine, base: Base, state: str
) -> None:
    requests = resumed(base.requests, base.results, state)
    results = narrow.run_group(requests, base.snapshots, None)
    original = remainders(base.requests, base.results, requests)
    subject.assert_same(drawn(results), original, state)


def test_order_and_batch_leave_no_trace(
    subject: Subject, narrow: Engine, base: Base, tmp_path: Path
) -> None:
    backwards = table(base.requests.to_pylist()[::-1])
    results = narrow.run_group(backwards, None, tmp_path / "file")
    subject.assert_same(drawn(results), drawn(base.results)[::-1])
    if subject.invariant and base.snapshots:
        assert (tmp_path / "file").read_bytes() == base.snapshots.read_bytes()


def test_draws_follow_top_k_and_top_p(subject: Subject) -> None:
    count, temperature, top_k, top_p = 1500, 1.3, 12, 0.8
    requests = fresh(
        subject.prompts[:1],
        rollouts=count,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        max_tokens=1,
        top_logprobs=top_k,
    )
    results = subject.engine.run_group(requests, None, None).to_pylist()
    tokens, logprobs = (np.array(results[0][name][0]) for name in ("top_token_ids", "top_logprobs"))
    weights = np.exp(logprobs / temperature)
    weights /= weights.sum()
    weights = weights[np.cumsum(weights) - weights < top_p]
    first = [result["token_ids"][0] for result in results]
    counts = [first.count(token) for token in tokens[: len(weights)]]
    assert sum(counts) == count
    assert chisquare(counts, count * weights / weights.sum()).pvalue > 1e-3


def test_a_request_longer_than_the_context_is_refused(subject: Subject) -> None:
    context = subject.engine.facts.context_length
    fitting = fresh(subject.prompts, rollouts=1).to_pylist()
    fitting[1]["max_tokens"] = context - len(fitting[1]["token_ids"]) + 1
    with pytest.raises(EngineError, match="question q1"):
        subject.engine.run_group(table(fitting), None, None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": "resumed"}, "state 'resumed' is not one of"),
        ({"max_tokens": 0}, "at least 1"),
        ({"prompt_length": 10_000}, "a prompt of 10000 tokens"),
        ({"logprobs": [-1.0]}, "1 log-probabilities for 0 generated tokens"),
        ({"state": "snapshot"}, "needs a snapshot file"),
        ({"keep_snapshot": True}, "needs a file to write to"),
    ],
)
def test_faulty_requests_are_refused(
    subject: Subject, change: dict[str, object], words: str
) -> None:
    requests = fresh(subject.prompts[:1], rollouts=1, **change)
    with pytest.raises(EngineError, match=f"question q0, rollout 0: .*{words}"):
        subject.engine.run_group(requests, None, None)


def test_another_schema_is_refused(subject: Subject) -> None:
    requests = fresh(subject.prompts[:1], rollouts=1).drop_columns("seed")
    with pytest.raises(EngineError, match="columns"):
        subject.engine.run_group(requests, None, None)


def test_states_that_an_engine_lacks_are_refused(
    subject: Subject, base: Base, tmp_path: Path
) -> None:
    run = subject.engine.run_group
    lacking = [state for state in RESUMED if state not in subject.states]
    assert lacking == ([] if subject.keeps_snapshots else ["snapshot"])
    for name in lacking:
        requests = resumed(base.requests, base.results, name)
        with pytest.raises(
            EngineError, match=rf"question q\d, rollout \d: state {name}: .*neither"
        ):
            run(requests, tmp_path / "file", None)
    if not subject.keeps_snapshots:
        requests = fresh(subject.prompts[:1], rollouts=1, keep_snapshot=True)
        with pytest.raises(EngineError, match=r"q0, rollout 0: keep_snapshot: .*neither"):
            run(requests, None, tmp_path / "file")


@pytest.mark.parametrize("state", ["snapshot"], indirect=True)
def test_a_rollout_without_a_snapshot_is_refused(subject: Subject, base: Base, state: str) -> None:
    rows = resumed(base.requests, base.results, state, rollout=99).to_pylist()
    with pytest.raises(EngineError, match=r"rollout q\d/99"):
        subject.engine.run_group(table(rows[:1]), base.snapshots, None)


def test_an_empty_group_has_no_results(subject: Subject) -> None:
    results = subject.engine.run_group(REQUESTS.empty_table(), None, None)
    assert results.num_rows == 0
    assert results.schema.equals(RESULTS)
