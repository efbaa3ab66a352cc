"""The fast path against transformers' own forward, for every family."""

from functools import cache

import pytest
import torch

from helpers.tiny_llama import CONFIGS, make_decoder, make_model, make_tokens
from refork.errors import EngineError

PROMPT, TOKENS = 70, make_tokens(150)
"""More than a tile of tokens, and a prompt that ends within the second."""
KERNELS = ("stock", "batch_invariant")


@cache
def expected(name: str) -> torch.Tensor:
    """Logits [tokens, vocabulary] of transformers in float32."""
    with torch.no_grad():
        logits: torch.Tensor = make_model(CONFIGS[name])(torch.tensor([TOKENS])).logits[0]
    return logits


@cache
def expected_state(name: str) -> torch.Tensor:
    """Keys and values [layers, 2, key heads, tokens, width] of transformers in float32."""
    with torch.no_grad():
        cache = make_model(CONFIGS[name])(torch.tensor([TOKENS]), use_cache=True).past_key_values
    return torch.stack([torch.cat([layer.keys, layer.values]) for layer in cache.layers])


def assert_logprobs(name: str, logprobs: list[float], bound: float) -> None:
    behind = torch.tensor(TOKENS[PROMPT:])
    own = expected(name)[PROMPT - 1 : -1].log_softmax(dim=-1)
    chosen = own.gather(-1, behind[:, None])[:, 0]
    assert logprobs == pytest.approx(chosen.tolist(), abs=bound)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_family_is_that_of_transformers(name: str, kernels: str, compiled: bool) -> None:
    decoder = make_decoder(name, torch.float32, kernels, compiled)
    logits = expected(name)
    ways = [decoder.prefill] + ([decoder.feed] if decoder.invariant else [])
    for way in ways:
        fed = way(TOKENS, PROMPT)
        assert torch.allclose(fed.logits, logits[-1], atol=2e-4)
        assert torch.allclose(fed.state, expected_state(name), atol=1e-4)
        assert_logprobs(name, fed.logprobs, 2e-4)

    state = ways[-1](TOKENS[:PROMPT], PROMPT).state
    rows = decoder.rows(3)
    starts = (PROMPT, 5, 40)
    for start in starts:
        rows.enter(state, start)
    for step in range(40):
        stepped = rows.step([TOKENS[start + step] for start in starts])
        assert stepped.dtype == torch.float32
        wanted = torch.stack([logits[start + step] for start in starts])
        assert torch.allclose(stepped, wanted, atol=2e-4)
    for row, start in enumerate(starts):
        wanted = expected_state(name)[:, :, :, : start + 40]
        assert torch.allclose(rows.state(row), wanted, atol=1e-4)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", ["smollm2", "qwen2", "qwen3"])
def test_bfloat16_is_near_float32(name: str, kernels: str, compiled: bool) -> None:
    decoder = make_decoder(name, torch.bfloat16, kernels, compiled)
    with torch.no_grad():
        own = make_model(CONFIGS[name], torch.bfloat16)(torch.tensor([TOKENS])).logits[0].float()
    # As near to transformers' float32 as its own bfloat16 is, by and large.
    bound = 1.5 * float((own - expected(name)).abs().mean())
    rows, logits = decoder.rows(2), []
    state = decoder.prefill(TOKENS[:PROMPT], PROMPT).state
    for _ in range(2):
        rows.enter(state, PROMPT)
    for token in TOKENS[PROMPT:]:
        logits.append(rows.step([token, token])[1])
    assert float((torch.stack(logits) - expected(name)[PROMPT:]).abs().mean()) < bound


def test_a_decoder_says_what_it_is() -> None:
    decoder = make_decoder("qwen3", torch.bfloat16, "batch_invariant")
    assert decoder.invariant
    assert decoder.facts == {
        "path": "llama",
        "kernels": "batch_invariant",
        "attention": "compiled, by position",
    }
    kind = decoder.kind
    assert (kind.dtype, kind.layers, kind.heads, kind.width) == ("bfloat16", 2, 2, 16)
    assert decoder.prefill(TOKENS, PROMPT).state.shape == (2, 2, 2, len(TOKENS), 16)


def test_a_prompt_alone_has_no_log_probabilities() -> None:
    decoder = make_decoder("llama", torch.float32, "batch_invariant")
    for way in (decoder.prefill, decoder.feed):
        for count in (1, 64, 65):
            fed = way(TOKENS[:count], count)
            assert fed.logprobs == []
            assert torch.allclose(fed.logits, expected("llama")[count - 1], atol=2e-4)


def test_stock_kernels_do_not_feed_a_sequence() -> None:
    decoder = make_decoder("llama", torch.float32, "stock")
    with pytest.raises(EngineError, match="stock kernels"):
        decoder.feed(TOKENS, PROMPT)
