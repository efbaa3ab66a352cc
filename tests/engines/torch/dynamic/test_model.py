"""The decoder on a model's own forward."""

import pytest
import torch

from refork.engines.interface import EngineSettings
from refork.engines.torch.dynamic.model import DynamicDecoder
from refork.engines.torch.loading import load
from refork.errors import EngineError

SETTINGS = EngineSettings(kind="torch", device="cpu", dtype="float32", threads=1, batch_rows=4)
TOKENS = [72, 101, 32, 115, 97, 121, 115, 32, 104, 105]


@pytest.fixture(params=["tiny_neox", "tiny_model"])
def decoder(request: pytest.FixtureRequest) -> DynamicDecoder:
    """Return decoders, one of a model that the fast path would run."""
    return DynamicDecoder(load(SETTINGS, request.getfixturevalue(request.param)))


def test_a_prefill_is_the_models_own_forward(decoder: DynamicDecoder) -> None:
    fed = decoder.prefill(TOKENS, 6)
    with torch.no_grad():
        own = decoder.model(torch.tensor([TOKENS])).logits[0].log_softmax(dim=-1)
    assert fed.logits.log_softmax(dim=-1) == pytest.approx(own[-1].numpy(), abs=1e-5)
    behind = [float(own[place - 1, TOKENS[place]]) for place in range(6, len(TOKENS))]
    assert fed.logprobs == pytest.approx(behind, abs=1e-5)
    kind = decoder.kind
    assert fed.state.shape == (kind.layers, 2, kind.heads, len(TOKENS), kind.width)


def test_steps_from_any_cut_give_the_logits_of_the_whole(decoder: DynamicDecoder) -> None:
    whole = decoder.prefill(TOKENS, 1)
    rows = decoder.rows(3)
    fed = [2, 7, 5]
    for tokens in fed:
        rows.enter(whole.state, tokens)
    while fed:
        logits = rows.step([TOKENS[tokens] for tokens in fed])
        fed = [tokens + 1 for tokens in fed]
        for place in reversed(range(len(fed))):
            if fed[place] == len(TOKENS):
                assert logits[place] == pytest.approx(whole.logits.numpy(), abs=1e-4)
                assert rows.state(place) == pytest.approx(whole.state.numpy(), abs=1e-4)
                rows.drop(place)
                fed[place] = fed[-1]
                fed.pop()


def test_entering_and_stepping_leave_a_state_as_it_is(decoder: DynamicDecoder) -> None:
    fed = decoder.prefill(TOKENS, 1)
    before = fed.state.clone()
    rows = decoder.rows(2)
    rows.enter(fed.state, 4)
    rows.enter(fed.state, 9)
    rows.step([1, 2])
    assert torch.equal(fed.state, before)


def test_feeding_by_decode_kernels_is_refused(decoder: DynamicDecoder) -> None:
    assert not decoder.invariant
    with pytest.raises(EngineError, match="stock kernels, whose numbers depend on the batch"):
        decoder.feed(TOKENS, 6)
