"""An engine that is exact, but where it is told not to be: what a probe must tell apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from safetensors.numpy import save_file

from refork.data.schemas import RESULTS
from refork.engines.interface import EngineSettings
from refork.engines.synthetic.engine import SyntheticEngine

LAYERS = 3
Rows = list[dict[str, Any]]


class LayeredEngine:
    """The synthetic engine without noise, whose snapshots are keys and values by layer.

    Those of a token depend on the token and its position alone. `spoil` changes the results of a
    group and the states of its rollouts in place; it is given the requests, in their order.
    """

    spoil: Callable[[Rows, Rows, dict[str, NDArray[np.float32]]], None] = staticmethod(
        lambda requests, results, states: None
    )
    keeps = True

    def __init__(self, settings: EngineSettings, model_folder: Path) -> None:
        self._engine = SyntheticEngine(settings, model_folder)
        self.facts = self._engine.facts

    def run_group(
        self, requests: pa.Table, snapshots_in: Path | None, snapshots_out: Path | None
    ) -> pa.Table:
        """Run one batch group; see `interface.Engine`."""
        kept, written = _histories(snapshots_in), _histories(snapshots_out)
        results = self._engine.run_group(requests, kept, written).to_pylist()
        rows = requests.to_pylist()
        states = {
            f"{row['question_id']}/{row['rollout']}": _state(_tokens(row, result))
            for row, result in zip(rows, results, strict=True)
            if row["keep_snapshot"]
        }
        self.spoil(rows, results, states)
        if self.keeps:
            assert snapshots_out is not None
            save_file(states, snapshots_out)
        return pa.Table.from_pylist(results, schema=RESULTS)


def _histories(path: Path | None) -> Path | None:
    """Return where the synthetic engine's own snapshots lie: the tokens of each rollout."""
    return None if path is None else path.with_suffix(".histories")


def _tokens(request: dict[str, Any], result: dict[str, Any]) -> NDArray[np.int64]:
    forced = [] if request["forced_token"] is None else [request["forced_token"]]
    return np.array([*request["token_ids"], *forced, *result["token_ids"]])


def _state(tokens: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return keys and values [layers, 2, key heads, tokens, width]."""
    numbers = np.sin(tokens + 0.1 * np.arange(len(tokens)))
    state = np.zeros((LAYERS, 2, 2, len(tokens), 4), dtype=np.float32)
    return state + numbers[:, None].astype(np.float32)
