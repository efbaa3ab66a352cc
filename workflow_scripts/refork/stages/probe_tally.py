"""The count of a probe: rollouts that were run again, held against the recorded ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refork.data.probe_record import Way, WayName
from refork.data.schemas import RolloutKey
from refork.data.tables import Row
from refork.engines.interface import ROLLOUT_ID
from refork.stages.probe_states import LayerDistance, StateFile, state_distance


def rollout_key(row: Row) -> RolloutKey:
    """Return which rollout a request is of."""
    return row["question_id"], row["rollout"]


@dataclass(frozen=True)
class Recorded:
    """The rollouts that others are held against: results by rollout, and their states."""

    results: Mapping[RolloutKey, Row]
    states: StateFile


@dataclass
class Tally:
    """What was compared so far in one way."""

    name: WayName
    rollouts: int = 0
    tokens: int = 0
    equal_tokens: int = 0
    bit_equal: int = 0
    states: int = 0
    _delta: float = 0.0
    _layers: LayerDistance | None = None

    def add(self, recorded: Recorded, request: Row, result: Row, states: StateFile) -> None:
        """Compare one rollout, behind the token that was forced where one was."""
        whole = recorded.results[rollout_key(request)]
        first = len(request["token_ids"]) - request["prompt_length"]
        first += request["forced_token"] is not None
        before, after = whole["token_ids"][first:], result["token_ids"]
        equal = _equal(before, after)
        bits = [
            np.array(logprobs[:equal], dtype="<f4")
            for logprobs in (whole["logprobs"][first:], result["logprobs"])
        ]
        same = bits[0].view("<u4") == bits[1].view("<u4")
        with np.errstate(invalid="ignore"):
            gaps = np.abs(bits[0].astype(np.float64) - bits[1])[~same]
        self.rollouts += 1
        self.tokens += max(len(before), len(after))
        self.equal_tokens += equal
        self.bit_equal += int(same.sum())
        self._delta = float(np.maximum(self._delta, gaps.max(initial=0.0)))
        self._add_state(recorded, request, states, request["prompt_length"] + first + equal)

    def _add_state(self, recorded: Recorded, request: Row, states: StateFile, tokens: int) -> None:
        name = ROLLOUT_ID.format(question_id=request["question_id"], rollout=request["rollout"])
        before, after = recorded.states.state(name), states.state(name)
        if before is None or after is None:
            return
        distance = state_distance(before, after, tokens)
        if distance is not None:
            self.states += 1
            self._layers = distance.join(self._layers)

    def way(self, left_out: str = "") -> Way:
        """Give the record of the way; `left_out` says why nothing was run."""
        reasons = {"rollouts": left_out} if left_out else {}
        delta = self._finite("largest_delta", self._delta, reasons)
        if not self.equal_tokens:
            delta, reasons["largest_delta"] = None, left_out or "no token is equal"
        first = by = None
        if self._layers is None:
            reasons["first_layer"] = left_out or "the engine keeps no keys and values by layer"
        elif not self._layers.differs.any():
            reasons["first_layer"] = "no layer differs"
        else:
            first = int(np.argmax(self._layers.differs))
            by = self._finite("layer_delta", float(self._layers.largest[first]), reasons)
        if first is None:
            reasons["layer_delta"] = reasons["first_layer"]
        return Way(
            way=self.name,
            rollouts=self.rollouts,
            tokens=self.tokens,
            equal_tokens=self.equal_tokens,
            bit_equal=self.bit_equal,
            largest_delta=delta,
            states=self.states,
            first_layer=first,
            layer_delta=by,
            reasons=reasons,
        )

    @staticmethod
    def _finite(key: str, distance: float, reasons: dict[str, str]) -> float | None:
        if np.isfinite(distance):
            return distance
        reasons[key] = "a number is not finite"
        return None


def _equal(before: Sequence[int], after: Sequence[int]) -> int:
    """Count the tokens before the first that differs: behind it the contexts differ too."""
    for place, (one, other) in enumerate(zip(before, after, strict=False)):
        if one != other:
            return place
    return min(len(before), len(after))
