"""Small recorded stores: a curve that jumps once, two branches at every other position."""

from typing import Any

import numpy as np

from refork.data.store import Store

CATEGORIES = ["A", "B", "Other"]


def store_record(
    row: int = 0, *, positions: int = 12, draws: int = 40, jump: int = 6, track: str = "made"
) -> dict[str, Any]:
    """Make the JSON of a store: before `jump` the answer is mostly A, then mostly B."""
    random = np.random.default_rng(row)

    def branch(token: int, token_id: int, probability: float, is_base: bool) -> dict[str, Any]:
        share = [0.8, 0.2, 0.0] if token < jump else [0.1, 0.8, 0.1]
        return {
            "t": token,
            "tok_id": token_id,
            "tok_p": probability,
            "is_base": is_base,
            "answers": random.choice(CATEGORIES, size=draws, p=share).tolist(),
            "cont_lens": random.integers(1, 50, size=draws).tolist(),
        }

    branches = []
    for token in range(positions):
        if token % 2:
            branches.append(branch(token, 900 + token, 0.25, is_base=False))
        branches.append(branch(token, 100 + token, 0.5 if token % 2 else 1.0, is_base=True))
    return {
        "meta": {"row_id": row, "track": track, "question": "Which?", "model": "made"},
        "s": draws,
        "idxs": list(range(positions)),
        "categories": CATEGORIES,
        "base": {"gen_ids": [100 + token for token in range(positions)], "base_text": "…"},
        "branches": branches,
        "timing": {"total_secs": 1.5},
    }


def made_store(row: int = 0, **changes: Any) -> Store:
    """Make a store."""
    return Store.model_validate(store_record(row, **changes))
