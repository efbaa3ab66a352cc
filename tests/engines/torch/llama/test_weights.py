"""Weights, linear maps, memory and rotary tables of the fast path."""

import gc
import weakref

import pytest
import torch
from torch.nn.functional import linear

from helpers.tiny_llama import CONFIGS, CONTEXT_LENGTH, make_model
from refork.engines.tiles import TILE_ROWS
from refork.engines.torch.llama import rotary, weights
from refork.engines.torch.llama.architecture import Architecture, read_architecture
from refork.engines.torch.llama.linears import TiledLinear, WideLinear
from refork.engines.torch.llama.rotary import Rotary
from refork.engines.torch.llama.weights import take_weights


@pytest.mark.parametrize("name", ["llama", "llama-tied", "qwen2"])
def test_the_model_is_left_empty(name: str) -> None:
    model, architecture = make_model(CONFIGS[name]), read_architecture(CONFIGS[name])
    assert isinstance(architecture, Architecture)
    matrices = {
        key: weakref.ref(weight) for key, weight in model.named_parameters() if weight.dim() == 2
    }
    taken = take_weights(model, architecture)
    gc.collect()
    assert [key for key, weight in matrices.items() if weight() is not None] == []
    assert list(model.parameters()) == []
    assert len(taken.layers) == architecture.layers


def test_a_large_head_that_is_the_embedding_is_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    config = CONFIGS["llama-tied"]
    architecture = read_architecture(config)
    assert isinstance(architecture, Architecture)
    rows = torch.randn((3, architecture.hidden))
    small = take_weights(make_model(config), architecture)
    monkeypatch.setattr(weights, "SECOND_COPY", 0)
    large = take_weights(make_model(config), architecture)
    assert isinstance(large.head, WideLinear)
    assert large.head._weight.data_ptr() == large.embedding.data_ptr()
    assert torch.allclose(large.head(rows), small.head(rows), atol=1e-5)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_linear_maps(dtype: torch.dtype, biased: bool, packed: bool) -> None:
    torch.manual_seed(0)
    weight = torch.randn((24, 40)).to(dtype)
    bias = torch.randn(24).to(dtype) if biased else None
    wide = WideLinear(weight, bias, packed)
    tiled = TiledLinear(wide)
    rows = torch.randn((TILE_ROWS * 2 + 5, 40)).to(dtype)
    bound = 2.0**-5 if dtype == torch.bfloat16 else 1e-5
    for count in (1, 5, TILE_ROWS, TILE_ROWS + 1, len(rows)):
        wanted = linear(rows[:count], weight, bias)
        for mapped in (wide(rows[:count]), tiled(rows[:count])):
            assert mapped.shape == (count, 24)
            assert torch.allclose(mapped, wanted, atol=bound, rtol=bound)
        # Whatever stands beside a row, and wherever it stands.
        assert torch.equal(tiled(rows[:count]), tiled(rows)[:count])
        assert torch.equal(tiled(rows[:count].flip(0)).flip(0), tiled(rows)[:count])


@pytest.mark.parametrize("name", ["llama", "llama-yarn", "llama-3", "qwen3"])
def test_rotary_tables_grow(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotary, "GROWTH", 32)
    model = make_model(CONFIGS[name])
    embedding = model.model.rotary_emb
    table = Rotary(embedding, CONTEXT_LENGTH, torch.device("cpu"))
    lengths = []
    for positions in (1, 33, 100, CONTEXT_LENGTH, CONTEXT_LENGTH + 1):
        cosines, sines = table.table(positions)
        lengths.append(len(cosines))
        assert len(cosines) >= positions
        wanted = embedding(torch.empty(0), torch.arange(len(cosines))[None])
        for part, whole in zip((cosines, sines), wanted, strict=True):
            assert torch.equal(torch.cat([part, part], dim=-1), whole[0])
    assert lengths == [32, 64, 128, 256, 288]
