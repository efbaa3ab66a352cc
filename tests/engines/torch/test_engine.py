"""What the torch engine promises beyond the conformance suite."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from helpers.engines import Subject, counted_tokens, make_subject
from helpers.requests import GREEDY, drawn, fresh, resumed, table
from helpers.tiny_model import CONTEXT_LENGTH, SIZES, write_model
from helpers.tiny_tokenizer import write_tokenizer
from refork.engines.torch.dynamic.cache import RESERVE
from refork.engines.torch.engine import TorchEngine
from refork.engines.torch.snapshots import Snapshots
from refork.errors import EngineError

GROUPED = SIZES | {
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": CONTEXT_LENGTH,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}
ARCHITECTURES = {
    "qwen2": transformers.Qwen2Config(**GROUPED),
    "mistral-sliding": transformers.MistralConfig(**GROUPED, sliding_window=8),
    "gemma3-mixed": transformers.Gemma3TextConfig(
        **GROUPED,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
        query_pre_attn_scalar=12,
    ),
    "gpt2": transformers.GPT2Config(
        vocab_size=260,
        n_embd=48,
        n_layer=2,
        n_head=4,
        n_positions=CONTEXT_LENGTH,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=1,
    ),
    "bloom": transformers.BloomConfig(
        vocab_size=260, hidden_size=48, n_layer=2, n_head=4, eos_token_id=1, initializer_range=0.3
    ),
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_rollouts_are_those_of_transformers(architecture: str, tmp_path: Path) -> None:
    write_model(tmp_path, ARCHITECTURES[architecture])
    subject = make_subject("torch", "float32", tmp_path, 0.0)
    requests = fresh(subject.prompts, rollouts=1, max_tokens=RESERVE + 20, **GREEDY)
    results = subject.engine.run_group(requests, None, None).to_pylist()
    model: Any = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    for prompt, result in zip(subject.prompts, results, strict=True):
        generated = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
            max_new_tokens=RESERVE + 20,
            do_sample=False,
            eos_token_id=sorted(subject.end_tokens),
        )
        assert result["token_ids"] == generated[0, len(prompt) :].tolist()


def test_tokens_that_the_model_lacks_are_refused(tiny_subject: Subject) -> None:
    vocabulary = 260
    tiny_subject.engine.run_group(fresh([[1, 2, vocabulary - 1]], rollouts=1), None, None)
    requests = fresh([[1, 2, vocabulary]], rollouts=1)
    words = f"question q0, rollout 0: token id {vocabulary} is not in the model's vocabulary"
    with pytest.raises(EngineError, match=words):
        tiny_subject.engine.run_group(requests, None, None)


def test_log_probabilities_are_the_models_own(tiny_subject: Subject) -> None:
    requests = fresh(tiny_subject.prompts, rollouts=3)
    results = tiny_subject.engine.run_group(requests, None, None)
    model = AutoModelForCausalLM.from_pretrained(
        tiny_subject.folder, dtype=torch.float32, attn_implementation="eager"
    )
    differences = []
    for request, result in zip(requests.to_pylist(), results.to_pylist(), strict=True):
        sequence = torch.tensor([request["token_ids"] + result["token_ids"]])
        with torch.no_grad():
            logits = model(sequence).logits[0, request["prompt_length"] - 1 : -1]
        own = logits.log_softmax(dim=-1)
        chosen = own.gather(-1, torch.tensor(result["token_ids"])[:, None])
        best = own.topk(5).values
        found = np.column_stack([result["logprobs"], result["top_logprobs"]])
        differences.append(np.abs(found - torch.cat([chosen, best], dim=-1).numpy()))
    if tiny_subject.settings.dtype == "float32":
        assert np.concatenate(differences).max() < 1e-4
    else:
        assert np.concatenate(differences).mean() < 0.15


def test_what_is_fed_is_what_is_counted(tiny_subject: Subject, tmp_path: Path) -> None:
    run, snapshots = tiny_subject.engine.run_group, tmp_path / "snapshots"
    requests = fresh(tiny_subject.prompts, rollouts=3, keep_snapshot=True)
    with counted_tokens(tiny_subject) as fed:
        results = run(requests, None, snapshots)
    drawn = sum(len(tokens) for tokens in results["token_ids"].to_pylist())
    # Each prompt once; the last token that a rollout draws is not fed.
    assert sum(fed) == sum(map(len, tiny_subject.prompts)) + drawn - requests.num_rows

    for state in ("snapshot", "decode_replay", "prefill"):
        rows = resumed(requests, results, state).to_pylist()
        twice = table([row for row in rows for _ in range(2)])
        with counted_tokens(tiny_subject) as fed:
            again = run(twice, snapshots, None)
        drawn = sum(len(tokens) for tokens in again["token_ids"].to_pylist())
        prefixes = [len(row["token_ids"]) for row in rows]
        decoded = drawn - twice.num_rows
        if state == "snapshot":
            assert sum(fed) == twice.num_rows + decoded
        elif state == "prefill":  # one for both requests, with the forced token
            assert sum(fed) == sum(prefixes) + len(rows) + decoded
        else:  # one for both requests; side by side, prompts are fed once a question
            prompts = [row["prompt_length"] for row in rows]
            questions = {row["question_id"]: row["prompt_length"] for row in rows}
            replayed = sum(prefixes)
            if not tiny_subject.invariant:
                replayed += sum(questions.values()) - sum(prompts)
            assert sum(fed) == replayed + twice.num_rows + decoded


def test_snapshots_hold_what_the_decode_wrote(tiny_subject: Subject, tmp_path: Path) -> None:
    requests = fresh(tiny_subject.prompts, rollouts=2, keep_snapshot=True)
    results = tiny_subject.engine.run_group(requests, None, tmp_path / "file")
    assert isinstance(tiny_subject.engine, TorchEngine)
    decoder = tiny_subject.engine._decoder
    bound = 1e-4 if tiny_subject.settings.dtype == "float32" else 0.5
    feed = decoder.feed if decoder.invariant else decoder.prefill
    with Snapshots(tmp_path / "file", decoder.kind) as snapshots:
        for request, result in zip(requests.to_pylist(), results.to_pylist(), strict=True):
            sequence = request["token_ids"] + result["token_ids"][:-1]
            name = f"{request['question_id']}/{request['rollout']}"
            state = snapshots.load(name, len(sequence))
            refed = decoder.prefill(sequence, request["prompt_length"]).state.cpu()
            assert state.shape == refed.shape
            assert (state.float() - refed.float()).abs().max() < bound
            # The prompt itself was fed in the same way, so it is the same to the bit.
            prompt = feed(request["token_ids"], request["prompt_length"]).state
            assert torch.equal(state[:, :, :, : request["prompt_length"]], prompt.cpu())


def test_a_replayed_decode_is_the_recorded_one_bit_for_bit(tiny_subject: Subject) -> None:
    requests = fresh(tiny_subject.prompts, rollouts=4, max_tokens=6, **GREEDY)
    results = tiny_subject.engine.run_group(requests, None, None)
    assert set(results["finish_reason"].to_pylist()) == {"length"}
    again = resumed(requests, results, "decode_replay")
    replayed = tiny_subject.engine.run_group(again, None, None)
    assert set(replayed["fidelity"].to_pylist()) == {0.0}


def test_states_mix_in_a_group(tiny_subject: Subject, tmp_path: Path) -> None:
    requests = fresh(tiny_subject.prompts, rollouts=2, keep_snapshot=True)
    results = tiny_subject.engine.run_group(requests, None, tmp_path / "file")
    groups = [
        resumed(requests, results, state).to_pylist()
        for state in ("snapshot", "prefill", "decode_replay")
    ]
    mixed = table([row for group in groups for row in group])
    whole = tiny_subject.engine.run_group(mixed, tmp_path / "file", None)
    apart = [
        tiny_subject.engine.run_group(table(group), tmp_path / "file", None) for group in groups
    ]
    tiny_subject.assert_same(drawn(whole), [row for results in apart for row in drawn(results)])
    counted = ["cached_tokens", "recomputed_tokens"]
    # Beside other rows, stock kernels are another distance from the recording.
    for name in [*counted, "fidelity"] if tiny_subject.invariant else counted:
        assert whole[name].to_pylist() == [
            count for results in apart for count in results[name].to_pylist()
        ]


def test_the_same_tokens_behind_another_prompt_are_another_request(tiny_subject: Subject) -> None:
    (row,) = fresh(tiny_subject.prompts[:1], rollouts=1, state="prefill").to_pylist()
    tokens = row["token_ids"]
    # Where the prompt ends is where the recording begins that fidelity is measured against.
    recorded = {length: [-1.0] * (len(tokens) - length) for length in (2, 5)}
    rows = [
        {**row, "rollout": length, "prompt_length": length, "logprobs": logprobs}
        for length, logprobs in recorded.items()
    ]
    alone = [tiny_subject.engine.run_group(table([one]), None, None) for one in rows]
    distances = [results["fidelity"][0].as_py() for results in alone]
    assert None not in distances
    for order in (rows, rows[::-1]):
        together = tiny_subject.engine.run_group(table(order), None, None)["fidelity"].to_pylist()
        expected = distances if order is rows else distances[::-1]
        assert together == expected


def test_a_snapshot_of_another_dtype_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    fine, coarse = (
        make_subject("torch", dtype, tiny_model, 0.0) for dtype in ("float32", "bfloat16")
    )
    requests = fresh(fine.prompts, rollouts=1, keep_snapshot=True)
    results = coarse.engine.run_group(requests, None, tmp_path / "file")
    again = resumed(requests, results, "snapshot")
    with pytest.raises(EngineError, match="dtype is 'bfloat16', not 'float32'"):
        fine.engine.run_group(again, tmp_path / "file", None)


def test_a_snapshot_of_another_model_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(tiny_model)
    with torch.no_grad():
        model.lm_head.weight[0, 0] += 1
    model.save_pretrained(tmp_path / "other")
    write_tokenizer(tmp_path / "other")
    one, other = (
        make_subject("torch", "float32", folder, 0.0) for folder in (tiny_model, tmp_path / "other")
    )
    requests = fresh(one.prompts, rollouts=1, keep_snapshot=True)
    results = one.engine.run_group(requests, None, tmp_path / "file")
    again = resumed(requests, results, "snapshot")
    with pytest.raises(EngineError, match="another kind than this engine's: model is"):
        other.engine.run_group(again, tmp_path / "file", None)


def test_the_engine_says_what_it_is(tiny_subject: Subject) -> None:
    facts = tiny_subject.engine.facts
    assert facts.context_length == CONTEXT_LENGTH
    settings = tiny_subject.settings
    assert facts.fingerprint["dtype"] == settings.dtype
    assert facts.fingerprint["kernels"] == settings.kernels
    assert facts.fingerprint["torch"] == torch.__version__
    assert ("numba" in facts.fingerprint) == (settings.device == "cpu")


def test_every_end_token_of_the_generation_config_ends(tiny_model: Path, tmp_path: Path) -> None:
    subject = make_subject("torch", "float32", tiny_model, 0.0)
    requests = fresh(subject.prompts, rollouts=1)
    tokens = subject.engine.run_group(requests, None, None)["token_ids"][0].as_py()
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    model.generation_config.eos_token_id = [*subject.end_tokens, tokens[5]]
    model.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    ended = make_subject("torch", "float32", tmp_path, 0.0).engine
    first = ended.run_group(requests, None, None).to_pylist()[0]
    assert first["token_ids"] == tokens[: tokens.index(tokens[5]) + 1]
    assert first["finish_reason"] == "stop"


@pytest.mark.parametrize("state", ["fresh", "prefill"])
def test_a_model_without_numbers_is_said(tiny_model: Path, tmp_path: Path, state: str) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(tiny_model)
    with torch.no_grad():
        model.lm_head.weight[5] = torch.nan
    model.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    engine = make_subject("torch", "float32", tmp_path, 0.0).engine
    requests = fresh([[40, 41, 42]], rollouts=1, state=state, prompt_length=2)
    requests = table([{**row, "logprobs": [-1.0]} for row in requests.to_pylist()])
    with pytest.raises(EngineError, match=r"question q0, rollout 0: .*NaN"):
        engine.run_group(requests, None, None)
