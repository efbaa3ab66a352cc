"""What the worker is told about a request of vLLM, and what it writes down."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

ARGUMENT = "refork"
"""Name in `SamplingParams.extra_args`."""


@dataclass(frozen=True)
class Instructions:
    """Which tokens come out of a request: forced ones, then drawn ones.

    The seed is a uint64 carried as two's complement int64.
    """

    key: int  # of the request within its batch group
    position: int  # absolute, of the first token that comes out
    forced: list[int]
    seed: int
    temperature: float
    top_p: float
    top_k: int
    recorded: int  # most probable tokens to write down beside a drawn one

    def packed(self) -> dict[str, Any]:
        """Give it as `SamplingParams.extra_args`."""
        return {ARGUMENT: asdict(self)}

    @classmethod
    def unpacked(cls, arguments: Mapping[str, Any] | None) -> "Instructions | None":
        """Read it from `SamplingParams.extra_args`; None where a request has none."""
        packed = (arguments or {}).get(ARGUMENT)
        return None if packed is None else cls(**packed)


@dataclass(frozen=True)
class Transfer:
    """Which state a request leaves behind, and from which one it goes on."""

    rollout: str
    keeps: bool = False  # whether a state is left behind
    file: str | None = None  # of snapshots; None: it goes on from nothing
    tokens: int = 0  # of the state that it goes on from

    def packed(self) -> dict[str, Any]:
        """Give it as part of `SamplingParams.extra_args`; the name is vLLM's."""
        return {"kv_transfer_params": asdict(self)}

    @classmethod
    def unpacked(cls, parameters: Mapping[str, Any] | None) -> "Transfer | None":
        """Read it from the `kv_transfer_params` of a request; None where it has none."""
        return cls(**parameters) if parameters else None


@dataclass(frozen=True)
class Record:
    """What came out of a request: an element a token in each list.

    Log-probabilities are raw. Forced tokens have no most probable tokens beside them.
    """

    tokens: list[int]
    logprobs: list[float]
    top_tokens: list[list[int]]
    top_logprobs: list[list[float]]
