"""Grouped attention against its definition."""

import pytest
import torch

from refork.engines.torch.dynamic.attention import grouped_attention


@pytest.mark.parametrize("heads", [2, 6])
def test_grouped_attention_is_attention(heads: int) -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn((3, heads, 1, 8), generator=generator)
    key, value = torch.randn((2, 3, 2, 11, 8), generator=generator)
    mask = torch.arange(11) >= torch.tensor([[0], [4], [10]])
    module = torch.nn.Module()
    module.num_key_value_groups = heads // 2  # type: ignore[assignment]
    output, _ = grouped_attention(module, query, key, value, mask[:, None, None], scaling=0.3)
    for row in range(3):
        for head in range(heads):
            keys, values = (part[row, head * 2 // heads, mask[row]] for part in (key, value))
            weights = torch.softmax(0.3 * keys @ query[row, head, 0], dim=0)
            assert output[row, 0, head] == pytest.approx((weights @ values).numpy(), abs=1e-6)
