"""Change points of counts for a list of penalties, by the compiled search or by ruptures."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from ruptures.detection import Pelt

from refork.errors import ReforkError
from refork.stats.curves.pelt.costs import Cost
from refork.stats.curves.pelt.kernels import on_grid

MIN_SIZE = 2
"""Rows of a segment at least, as ruptures has it."""

Integers = NDArray[np.int64]
Detector = Callable[[Cost, NDArray[np.float64], int], list[Integers]]


def change_points(
    cost: Cost,
    counts: NDArray[np.float64],
    penalties: Sequence[float],
    detector: str = "compiled",
    min_size: int = MIN_SIZE,
) -> list[Integers]:
    """Find the segmentation of least cost plus penalty a segment, for each penalty.

    Parameters
    ----------
    cost
        Cost of a segment; it is fitted to the counts.
    counts
        Draws by row and category [rows, categories].
    penalties
        In nats, above 0; kept to a multiple of 2⁻²⁴.
    detector
        `compiled`, or `ruptures` for the reference, which is much slower.
    min_size
        Rows of a segment at least; the cost may ask for more.

    Returns
    -------
    list
        For each penalty the rows at which a new segment begins, ascending, without row 0.

    Raises
    ------
    ReforkError
        A penalty is not above 0, or there is no such detector.
    """
    if detector not in DETECTORS:
        raise ReforkError(f"detector is {detector!r}; allowed: {', '.join(DETECTORS)}")
    rounded = np.array([on_grid(float(penalty)) for penalty in penalties])
    if not (np.isfinite(rounded).all() and (rounded > 0).all()):
        raise ReforkError("a penalty must be a finite number above 0")
    cost.fit(counts)
    if len(counts) < max(min_size, cost.min_size):
        return [np.empty(0, dtype=np.int64) for _ in rounded]
    return DETECTORS[detector](cost, rounded, max(min_size, cost.min_size))


def compiled(cost: Cost, penalties: NDArray[np.float64], min_size: int) -> list[Integers]:
    """Search for all penalties at once."""
    previous = cost.search(penalties, min_size)
    found = []
    for number in range(len(penalties)):
        begins = []
        end = previous[-1, number]
        while end > 0:
            begins.append(end)
            end = previous[end, number]
        found.append(np.array(begins[::-1], dtype=np.int64))
    return found


def reference(cost: Cost, penalties: NDArray[np.float64], min_size: int) -> list[Integers]:
    """Search by ruptures, every row a place where a segment may begin."""
    search = Pelt(custom_cost=cost, min_size=min_size, jump=1)
    if search.cost is not cost:
        raise TypeError("ruptures took another cost than it was given")
    # `search.fit` would do no more than fit the cost once again.
    search.n_samples = len(cost.signal)
    return [np.array(search.predict(float(p))[:-1], dtype=np.int64) for p in penalties]


DETECTORS: dict[str, Detector] = {"compiled": compiled, "ruptures": reference}
