"""Grouped-query attention of one decode step, without copying the keys once a query head."""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

GROUPED = "refork_grouped"
"""Name under which transformers knows this attention."""


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attend with a group's query heads as queries of the one key head that they share.

    A decode step has one query a row, so the heads that share a key head can stand where a prompt's
    queries would, under one mask. Whatever is not such a step goes to the stock `sdpa` attention.

    Parameters
    ----------
    query
        [rows, query heads, queries, width]
    key, value
        [rows, key heads, tokens, width]
    attention_mask
        [rows, 1, queries, tokens], or None

    Returns
    -------
    The output [rows, queries, query heads, width], and None for the weights.
    """
    rows, heads, queries, width = query.shape
    key_heads = key.shape[1]
    if queries > 1 or key_heads == heads or kwargs.get("position_bias") is not None:
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return output, None
    grouped = query.reshape(rows, key_heads, heads // key_heads, width)
    output = scaled_dot_product_attention(
        grouped, key, value, attn_mask=attention_mask, scale=kwargs.get("scaling")
    )
    return output.reshape(rows, 1, heads, value.shape[-1]), None


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, sdpa_mask)
