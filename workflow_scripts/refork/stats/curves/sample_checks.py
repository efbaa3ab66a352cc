"""What makes arrays a sample of draws; every fault in words."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

_TOLERANCE = 1e-6  # of sums and of probabilities that were stored in single precision


class Sample(Protocol):
    """The arrays of a `CurveSample`, unchecked."""

    @property
    def positions(self) -> NDArray[np.int64]: ...  # noqa: D102
    @property
    def place(self) -> NDArray[np.int64]: ...  # noqa: D102
    @property
    def branch(self) -> NDArray[np.int64]: ...  # noqa: D102
    @property
    def outcome(self) -> NDArray[np.int64]: ...  # noqa: D102
    @property
    def weight(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def categories(self) -> int: ...  # noqa: D102
    @property
    def base_probability(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def dropped(self) -> NDArray[np.float64]: ...  # noqa: D102


def shape_faults(sample: Sample) -> Iterator[str]:
    """Find arrays of another shape or kind; only without such faults can values be looked at."""
    if sample.positions.ndim != 1 or not np.issubdtype(sample.positions.dtype, np.integer):
        yield "positions: a row of whole numbers is wanted"
        return
    if len(sample.positions) < 2:
        yield f"positions: {len(sample.positions)}; a curve needs two at least"
    order = list(_order_faults(sample.positions))
    yield from order
    if len(sample.place) == 0:
        yield "no draws: an empty question has no curve"
    if sample.categories < 1:
        yield f"categories: {sample.categories}; one at least is wanted"
    for name in ("place", "branch", "outcome"):
        values = getattr(sample, name)
        if values.shape != sample.place.shape or not np.issubdtype(values.dtype, np.integer):
            yield f"{name}: a whole number a draw is wanted"
    if sample.weight.shape != sample.place.shape:
        yield f"weight: shape {sample.weight.shape}; one a draw is wanted"
    if order or len(sample.positions) == 0:
        return
    tokens = int(sample.positions[-1]) + 1
    for name in ("base_probability", "dropped"):
        if getattr(sample, name).shape != (tokens,):
            yield (
                f"{name}: shape {getattr(sample, name).shape}; a value for each of the "
                f"{tokens} tokens up to the last position is wanted"
            )


def _order_faults(positions: NDArray[np.int64]) -> Iterator[str]:
    if len(positions) and positions[0] < 0:
        yield f"positions: {positions[0]}; the first token is 0"
    wrong = np.diff(positions) <= 0
    if wrong.any():
        at = int(np.argmax(wrong)) + 1
        yield f"positions out of order: {positions[at]} stands behind {positions[at - 1]}"


def value_faults(sample: Sample) -> Iterator[str]:
    """Find values that are out of order or out of range."""
    if np.any(np.diff(sample.place) < 0):
        yield "place: draws are not in the order of their positions"
    bounds = {
        "place": (len(sample.positions), "positions"),
        "outcome": (sample.categories, "categories"),
        "branch": (None, "branches"),
    }
    for name, (bound, of_what) in bounds.items():
        values = getattr(sample, name)
        wrong = (values < 0) | (False if bound is None else values >= bound)
        if wrong.any():
            there_are = "" if bound is None else f"; there are {bound} {of_what}, from 0"
            yield f"{name}: {values[np.argmax(wrong)]} is out of range{there_are}"
            return
    yield from _weight_faults(sample)
    for name in ("base_probability", "dropped"):
        values = getattr(sample, name)
        wrong = (values < -_TOLERANCE) | (values > 1 + _TOLERANCE)
        if wrong.any():
            at = int(np.argmax(wrong))
            yield f"{name} of token {at}: {values[at]:g}; a probability is from 0 to 1"


def _weight_faults(sample: Sample) -> Iterator[str]:
    wrong = ~(np.isfinite(sample.weight) & (sample.weight >= 0))
    if wrong.any():
        yield f"weight: {sample.weight[np.argmax(wrong)]:g}; finite and not negative is wanted"
        return
    size = len(sample.positions)
    total = np.bincount(sample.place, sample.weight, minlength=size)
    draws = np.bincount(sample.place, minlength=size)
    off = np.abs(total - draws) > _TOLERANCE * np.maximum(draws, 1)
    if off.any():
        at = int(np.argmax(off))
        yield (
            f"weight: those of position {sample.positions[at]} add to {total[at]:g}, "
            f"not to its {draws[at]} draws"
        )


def count_faults(counts: NDArray[np.number[Any]]) -> Iterator[str]:
    """Find the first count of each kind that is no whole number from 0."""
    finite = np.isfinite(counts)
    for wrong, what in (
        (~finite, "not finite"),
        (finite & (counts < 0), "negative"),
        (finite & (counts != np.floor(np.where(finite, counts, 0))), "not whole"),
    ):
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            yield f"counts: {counts[row, column]} of category {column} in row {row} is {what}"
            return
