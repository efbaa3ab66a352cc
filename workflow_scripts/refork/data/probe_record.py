"""What a probe measured of an engine: whether numbers depend on how they are reached."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from refork.errors import ReforkError, listed

WayName = Literal["alone", "order", "narrow", "resume", "replay", "refeed"]
WAYS: dict[WayName, str] = {
    "alone": "a group of its own",
    "order": "another order",
    "narrow": "fewer beside it",
    "resume": "from the kept state",
    "replay": "prefix decoded again",
    "refeed": "prefix fed at once",
}
"""Ways in which rollouts are run again; the last three go on from their middle."""
REQUIRED: tuple[WayName, ...] = ("alone", "order", "narrow", "resume", "replay")
"""Ways that must be bit-equal to the reference; prefill has kernels of its own."""

Count = Annotated[int, Field(ge=0)]
Distance = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Way(_Part):
    """Rollouts that were run again in one way, held against the reference, token by token.

    `tokens` counts those compared, `equal_tokens` those before the first that differs, `bit_equal`
    those of them whose log-probability has the same bits. `states` counts the rollouts whose keys
    and values were compared, as far as their tokens are equal. What is null has its reason.
    """

    way: WayName
    rollouts: Count
    tokens: Count
    equal_tokens: Count
    bit_equal: Count
    largest_delta: Distance | None  # nat, over the equal tokens
    states: Count
    first_layer: Count | None  # from 0, the first whose keys or values differ
    layer_delta: Distance | None  # largest |difference| in that layer
    reasons: dict[str, str]

    @property
    def same(self) -> bool:
        """Whether all that was compared is equal, bit for bit."""
        return self.bit_equal == self.tokens and self.first_layer is None

    @property
    def in_words(self) -> str:
        """Say how far the way is from the reference."""
        if not self.rollouts:
            return f"{self.way} was not run ({self.reasons['rollouts']})"
        if self.same:
            return f"{self.way} is bit-equal"
        said = [f"{self.equal_tokens} of {self.tokens} tokens equal, {self.bit_equal} bit-equal"]
        if self.largest_delta:
            said.append(f"log-probabilities up to {self.largest_delta:.3g} nat apart")
        if self.first_layer is not None:
            by = "" if self.layer_delta is None else f" (there by up to {self.layer_delta:.3g})"
            said.append(f"keys and values differ from layer {self.first_layer} on{by}")
        return f"{self.way} differs: {', '.join(said)}"


class ProbeRecord(_Part):
    """One probe: what was run, each way it was run again, and what follows.

    The reference is a batch group of `group` rollouts of which `rollouts` are compared; at most
    `batch_rows` of them are decoded side by side.
    """

    kernels: str
    questions: Count
    rollouts: Count
    tokens: Count
    group: Count
    batch_rows: Count
    ways: tuple[Way, ...]
    invariant: bool

    @property
    def verdict(self) -> str:
        """Say in one sentence whether the engine is invariant."""
        unequal = [way.way for way in self.differing]
        equal = [way.way for way in self.ways if way.way in REQUIRED and way.rollouts]
        found = "Invariant" if self.promised else "Equal here, though stock kernels promise nothing"
        said = (
            f"{found}: {_and(equal)} bit-equal"
            if self.invariant
            else f"Not invariant: {_and(unequal)} not bit-equal"
        )
        measured = (
            f"a batch of {self.side_by_side} ({self.rollouts} rollouts, {self.tokens} tokens)"
        )
        unrun = [way.in_words for way in self.ways if not way.rollouts]
        return "; ".join([f"{said} to {measured}", *unrun]) + "."

    @property
    def differing(self) -> list[Way]:
        """Return the ways that differ and must not."""
        return [way for way in self.ways if way.way in REQUIRED and not way.same]

    @property
    def promised(self) -> bool:
        """Whether the engine was asked for kernels that promise invariance."""
        return self.kernels == "batch_invariant"

    @property
    def side_by_side(self) -> int:
        """Number of rollouts that the reference decodes side by side."""
        return min(self.group, self.batch_rows)


def is_invariant(ways: tuple[Way, ...]) -> bool:
    """Whether every way that invariance asks for is bit-equal, as far as it could be run."""
    return all(way.same for way in ways if way.way in REQUIRED)


def read_probe(path: Path) -> ProbeRecord:
    """Read a probe's record.

    Raises
    ------
    ReforkError
        The file is absent or no such record; the message names its keys.
    """
    try:
        return ProbeRecord.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ReforkError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise listed([f"{path}: {fault}" for fault in _faults(error)]) from error


def _faults(error: ValidationError) -> Iterator[str]:
    found: list[Any] = error.errors(include_url=False)
    for fault in found:
        yield f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"


def _and(names: list[WayName]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
