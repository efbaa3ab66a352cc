"""The synthetic engine against what is known of it in closed form."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from refork.data.schemas import REQUESTS, RESULTS
from refork.engines import open_engine
from refork.engines.interface import Engine, EngineSettings, SyntheticSettings
from refork.engines.seeds import request_seed
from refork.engines.synthetic.chain import (
    TRUNCATED,
    Chain,
    credit,
    outcome_distribution,
    sampling_probabilities,
)
from refork.engines.synthetic.model import read_chain
from refork.errors import EngineError
from refork.tasks.graders.grading import GradingSettings, grade
from refork.tasks.questions import Question

PROMPT = [40, 41, 42, 43]
SAMPLING = {"temperature": 0.7, "top_p": 0.95, "top_k": 0}
DRAWS = 40_000


@pytest.fixture(scope="module")
def chain(synthetic_model: Path) -> Chain:
    return read_chain(synthetic_model)[0]


@pytest.fixture(scope="module")
def probabilities(chain: Chain) -> np.ndarray[Any, Any]:
    return sampling_probabilities(chain.transitions, SAMPLING["temperature"], SAMPLING["top_p"])


def engine(folder: Path, shuffled: bool = False, **noise: float) -> Engine:
    return open_engine(
        EngineSettings(
            kind="synthetic",
            device="cpu",
            dtype="float32",
            threads=1,
            batch_rows=64,
            shuffled=shuffled,
            synthetic=SyntheticSettings(**noise),
        ),
        folder,
    )


def requests(count: int, **given: Any) -> pa.Table:
    row = {
        "question_id": "q",
        "state": "fresh",
        "prompt_length": len(PROMPT),
        "token_ids": PROMPT,
        "logprobs": None,
        "forced_token": None,
        **SAMPLING,
        "max_tokens": 200,
        "top_logprobs": 0,
        "keep_snapshot": False,
        **given,
    }
    seeds = (request_seed(0, "q", index, 0, 0) for index in range(count))
    rows = [
        {"request": index, "rollout": index, "seed": seed, **row}
        for index, seed in enumerate(seeds)
    ]
    return pa.Table.from_pylist(rows, schema=REQUESTS)


def outcomes(chain: Chain, results: pa.Table, forced: int | None = None) -> Iterator[str]:
    """Yield the conclusion that each continuation ends with."""
    for tokens, reason in zip(
        results["token_ids"].to_pylist(), results["finish_reason"].to_pylist(), strict=True
    ):
        known = [*([] if forced is None else [forced]), *tokens]
        last = chain.indices(known[-2:])[0]
        yield chain.conclusions[int(last)] if reason == "stop" else TRUNCATED


@pytest.mark.parametrize("max_tokens", [3, 8, 200])
def test_outcomes_follow_the_closed_form(
    synthetic_model: Path, chain: Chain, probabilities: Any, max_tokens: int
) -> None:
    results = engine(synthetic_model).run_group(requests(DRAWS, max_tokens=max_tokens), None, None)
    counted = Counter(outcomes(chain, results))
    expected = outcome_distribution(chain, probabilities, chain.start(PROMPT), max_tokens)
    for label, probability in expected.items():
        error = 5 * np.sqrt(max(probability * (1 - probability), 1e-4) / DRAWS)
        assert counted[label] / DRAWS == pytest.approx(probability, abs=error)


def test_sampled_credit_is_the_closed_form_one(
    synthetic_model: Path, chain: Chain, probabilities: Any
) -> None:
    actual, alt = 6, 11  # words of two groups
    right = {}
    for index in (actual, alt):
        forced = int(chain.token_ids[index])
        table = requests(DRAWS, state="prefill", forced_token=forced)
        results = engine(synthetic_model).run_group(table, None, None)
        right[index] = Counter(outcomes(chain, results, forced))["A"] / DRAWS
    expected = credit(chain, probabilities, actual=actual, alt=alt, right="A", max_tokens=200)
    assert expected > 0.5
    assert right[actual] - right[alt] == pytest.approx(expected, abs=0.015)


@given(state=st.integers(0, 45), limit=st.integers(0, 60))
@settings(max_examples=50)
def test_outcomes_sum_to_one_and_converge(
    chain: Chain, probabilities: Any, state: int, limit: int
) -> None:
    limited = outcome_distribution(chain, probabilities, state, limit)
    unlimited = outcome_distribution(chain, probabilities, state)
    assert sum(limited.values()) == pytest.approx(1)
    assert sum(unlimited.values()) == pytest.approx(1)
    assert unlimited[TRUNCATED] == 0
    later = outcome_distribution(chain, probabilities, state, limit + 400)
    assert all(later[label] == pytest.approx(unlimited[label], abs=1e-6) for label in later)
    # One step of the chain leads from the outcomes of the next states to those of this one.
    if state < len(chain.token_ids) or limit == 0:
        return
    mixed = sum(
        probabilities[state, token] * np.array([*_from(chain, probabilities, token, limit - 1)])
        for token in range(len(chain.token_ids))
        if token != chain.end
    )
    assert mixed == pytest.approx(np.array([*limited.values()]))


def _from(chain: Chain, probabilities: Any, state: int, limit: int) -> list[float]:
    return [*outcome_distribution(chain, probabilities, state, limit).values()]


@given(temperature=st.floats(0.2, 2), top_p=st.floats(0.05, 1), top_k=st.integers(0, 30))
@settings(max_examples=50)
def test_sampling_keeps_the_most_probable_tokens(
    chain: Chain, temperature: float, top_p: float, top_k: int
) -> None:
    drawn = sampling_probabilities(chain.transitions, temperature, top_p, top_k)
    assert drawn.sum(axis=1) == pytest.approx(1)
    assert top_k == 0 or ((drawn > 0).sum(axis=1) <= top_k).all()
    kept = drawn > 0
    least_kept = np.where(kept, chain.transitions, np.inf).min(axis=1)
    most_dropped = np.where(kept, 0, chain.transitions).max(axis=1)
    assert (least_kept >= most_dropped).all()


def test_temperature_one_draws_from_the_transitions(chain: Chain) -> None:
    assert sampling_probabilities(chain.transitions, 1.0) == pytest.approx(chain.transitions)


def test_greedy_is_the_most_probable_token(synthetic_model: Path) -> None:
    table = requests(2, temperature=0.0, top_p=1.0, top_logprobs=1)
    first, second = engine(synthetic_model).run_group(table, None, None).to_pylist()
    assert first["token_ids"] == second["token_ids"]
    assert [[token] for token in first["token_ids"]] == first["top_token_ids"]
    assert first["finish_reason"] == "stop"


def test_logprobs_are_the_chains_own(synthetic_model: Path, chain: Chain) -> None:
    table = requests(20, top_logprobs=5)
    results = engine(synthetic_model).run_group(table, None, None)
    assert results.schema == RESULTS
    for row in results.to_pylist():
        indices = chain.indices(row["token_ids"])
        states = [chain.start(PROMPT), *indices[:-1]]
        exact = np.log(chain.transitions[states, indices])
        assert row["logprobs"] == pytest.approx(exact, rel=1e-6)
        for state, tokens, logprobs in zip(
            states, row["top_token_ids"], row["top_logprobs"], strict=True
        ):
            best = np.sort(chain.transitions[state])[::-1][:5]
            assert np.exp(logprobs) == pytest.approx(best, rel=1e-5)
            assert logprobs == sorted(logprobs, reverse=True)
            assert len(set(tokens)) == 5


@pytest.mark.parametrize("state", ["snapshot", "decode_replay", "prefill"])
def test_resumed_rollouts_draw_what_they_drew(
    synthetic_model: Path, tmp_path: Path, state: str
) -> None:
    file = tmp_path / "snapshots.safetensors"
    noisy = engine(synthetic_model, replay_noise=0.0 if state == "prefill" else 1.0)
    fresh = requests(50, keep_snapshot=True)
    rollouts = noisy.run_group(fresh, None, file).to_pylist()
    resumed = []
    for request, rollout in zip(fresh.to_pylist(), rollouts, strict=True):
        cut = len(rollout["token_ids"]) // 2
        changes = {
            "state": state,
            "token_ids": PROMPT + rollout["token_ids"][:cut],
            "logprobs": rollout["logprobs"][:cut],
            "forced_token": rollout["token_ids"][cut],
            "keep_snapshot": False,
        }
        resumed.append({**request, **changes})
    table = pa.Table.from_pylist(resumed, schema=REQUESTS)
    results = noisy.run_group(table, file, None).to_pylist()
    for request, rollout, result in zip(resumed, rollouts, results, strict=True):
        cut = len(request["token_ids"]) - len(PROMPT)
        assert result["token_ids"] == rollout["token_ids"][cut + 1 :]
        assert not result["fidelity"]
        fed = len(request["token_ids"])
        cached = fed if state == "snapshot" else 0
        assert (result["cached_tokens"], result["recomputed_tokens"]) == (cached, fed - cached)


@pytest.mark.parametrize(
    ("state", "shuffled", "noise"),
    [
        ("prefill", False, {"replay_noise": 0.3}),
        ("decode_replay", True, {"batch_noise": 0.3}),
    ],
)
def test_noise_redraws_the_share_that_it_says(
    synthetic_model: Path, state: str, shuffled: bool, noise: dict[str, float]
) -> None:
    table = requests(DRAWS, state=state)
    still = engine(synthetic_model).run_group(table, None, None)["token_ids"].to_pylist()
    noisy = engine(synthetic_model, shuffled, **noise)
    first, again = (noisy.run_group(table, None, None)["token_ids"].to_pylist() for _ in range(2))
    assert first == again
    # Rollouts that are drawn anew are seldom the same by chance.
    changed = np.mean([one != other for one, other in zip(still, first, strict=True)])
    assert 0.27 < changed <= 0.31


def test_the_other_passes_see_no_noise(synthetic_model: Path) -> None:
    table = requests(500, state="decode_replay")
    still = engine(synthetic_model).run_group(table, None, None)
    noisy = engine(synthetic_model, replay_noise=1.0, batch_noise=1.0)
    assert noisy.run_group(table, None, None) == still


def test_results_do_not_depend_on_the_group(synthetic_model: Path) -> None:
    table = requests(300, top_logprobs=3)
    whole = engine(synthetic_model).run_group(table, None, None)
    part = engine(synthetic_model).run_group(table.slice(100, 50), None, None)
    assert part == whole.slice(100, 50)


def test_questions_have_different_chains(chain: Chain) -> None:
    starts = {chain.start([40, question]) for question in range(100)}
    assert len(starts) == chain.starts


def test_snapshots_are_held_against_the_requests(synthetic_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "snapshots.safetensors"
    runner = engine(synthetic_model)
    runner.run_group(requests(1, keep_snapshot=True), None, file)
    with pytest.raises(EngineError, match="rollout q/1"):
        runner.run_group(requests(2, state="snapshot"), file, None)
    other = {"state": "snapshot", "token_ids": [*PROMPT[:-1], 99]}
    with pytest.raises(EngineError, match="other tokens"):
        runner.run_group(requests(1, **other), file, None)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(EngineError, match="not a snapshot file"):
        runner.run_group(requests(1, state="snapshot"), file, None)


def test_another_models_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"synthetic\.json"):
        engine(tmp_path)


def test_text_is_gradable_and_not_encoded_back(synthetic_model: Path, chain: Chain) -> None:
    tokenizer = Tokenizer.from_file(str(synthetic_model / "tokenizer.json"))
    choice = Question("c", "choice", "Which?", "A", ("one", "two", "three", "four"))
    number = Question("n", "number", "How many?", "1", None)
    results = engine(synthetic_model).run_group(requests(100), None, None)
    rows = zip(results["token_ids"].to_pylist(), outcomes(chain, results), strict=True)
    for tokens, label in rows:
        text = tokenizer.decode(tokens)
        assert grade(text, choice, GradingSettings()) == label
        assert grade(text, number, GradingSettings()) == str("ABCD".index(label) + 1)
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
        assert tokenizer.encode(text).ids != tokens


def test_the_chat_template_is_encoded_and_decoded_whole(synthetic_model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(synthetic_model)
    turns = [{"role": "user", "content": "Which one? é"}]
    text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    expected = "<|start|>user\nWhich one? é<|end|>\n<|start|>assistant\n"
    assert text == expected
    assert tokenizer.decode(tokenizer.encode(expected)) == expected
    assert tokenizer.eos_token == "<|end|>"
