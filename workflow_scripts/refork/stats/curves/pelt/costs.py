"""Costs of a segment of counts, as ruptures takes them.

Each is a `ruptures.base.BaseCost`: ruptures falls back to its own L2 without a word where a custom
cost is none. The same compiled function is behind a cost in ruptures and in the compiled search.
All are on the scale of a log-likelihood, in nats, so one list of penalties serves them.
"""

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from ruptures.base import BaseCost

from refork.stats.curves.pelt import kernels

Floats = NDArray[np.float64]

TABLE = 2**20
"""Largest whole number whose x log x is looked up."""


class Cost(BaseCost):  # type: ignore[misc]
    """Cost of rows start..end of counts [rows, categories], from running sums.

    Attributes
    ----------
    model
        Name of the cost.
    min_size
        Rows of a segment at least.
    sums
        Running sums [rows + 1, terms] of what the cost needs.
    table
        x log x of whole numbers from 0.
    """

    model: str
    min_size: int
    signal: Floats
    sums: Floats
    table: Floats
    _kind: int

    def __init__(self, positions: NDArray[np.int64] | None = None) -> None:
        """Take the positions of the rows; without them they are 0, 1 and so on."""
        self.positions = positions
        self.table = np.zeros(1)

    def fit(self, signal: Floats) -> "Cost":
        """Take counts [rows, categories]; they need not be whole."""
        self.signal = np.asarray(signal, dtype=np.float64)
        terms = self._terms(self.signal)
        self.sums = np.concatenate([np.zeros((1, terms.shape[1])), np.cumsum(terms, axis=0)])
        return self

    def error(self, start: int, end: int) -> float:
        """Cost of rows start..end, the end left out."""
        return float(kernels.error(self._kind, self.sums, self.table, start, end))

    def search(self, penalties: Floats, min_size: int) -> NDArray[np.int64]:
        """Find for each end and penalty [rows + 1, penalties] where the last segment begins."""
        found: NDArray[np.int64] = kernels.search(
            self._kind, self.sums, self.table, penalties, min_size
        )
        return found

    @abstractmethod
    def _terms(self, counts: Floats) -> Floats:
        """Give what is added up [rows, terms]."""


class Multinomial(Cost):
    """−Σ_k c_k log(c_k/n): minus the log-likelihood of one distribution for the segment."""

    model = "multinomial"
    min_size = 1
    _kind = kernels.MULTINOMIAL

    def _terms(self, counts: Floats) -> Floats:
        most = int(min(counts.sum(), TABLE)) + 1
        whole = np.arange(most, dtype=np.float64)
        self.table = whole * np.log(np.maximum(whole, 1))
        return counts


class L2(Cost):
    """Σ_t n_t Σ_k (c_tk/n_t − mean_k)², the mean weighted by n: rows without draws weigh nothing.

    Where all rows have n draws it is ruptures' own L2 of c/√n.
    """

    model = "weighted l2"
    min_size = 1
    _kind = kernels.L2

    def _terms(self, counts: Floats) -> Floats:
        total = counts.sum(axis=1)
        squares = (counts**2).sum(axis=1) / np.where(total > 0, total, 1)
        return np.column_stack([total, squares, counts])


class LogitLinear(Cost):
    """Logits that move along a line: ½ Σ_k Σ_t w_tk (z_tk − a_k − b_k t)², the best a and b.

    z is the empirical logit log((c + ½)/(n − c + ½)) (Haldane 1956, Anscombe 1956). With
    w = n p (1 − p)², p = (c + ½)/(n + 1), the sum over categories is to second order minus the
    log-likelihood of the multinomial, as n p (1 − p) is the information of one logit and Pearson's
    Σ (c − np)²/(np) counts category k with 1 − p_k times its own binomial statistic.
    """

    model = "logit linear"
    min_size = 3  # two rows lie on a line whatever they are
    _kind = kernels.LOGIT_LINEAR

    def _terms(self, counts: Floats) -> Floats:
        total = counts.sum(axis=1, keepdims=True)
        share = (counts + 0.5) / (total + 1)
        weight = total * share * (1 - share) ** 2
        logit = np.log((counts + 0.5) / (total - counts + 0.5))
        time = self._time(len(counts))[:, None]
        terms = [weight, weight * time, weight * time**2]
        terms += [weight * logit, weight * logit * time, weight * logit**2]
        return np.stack(terms, axis=2).reshape(len(counts), -1)

    def _time(self, rows: int) -> Floats:
        """Give positions in [−1, 1], where running sums of squares lose least."""
        given = np.arange(rows) if self.positions is None else self.positions
        span = max(given[-1] - given[0], 1)
        scaled: Floats = (2.0 * given - given[0] - given[-1]) / span
        return scaled


COSTS: dict[str, type[Cost]] = {
    "multinomial": Multinomial,
    "l2": L2,
    "logit_linear": LogitLinear,
}
