"""Ranks for several tolerances at once, that hold together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from taufpl._checks import check_count, check_delta, check_tau
from taufpl.thresholding._order import most_above

# Entries of all transition matrices together; above it (80 MB) the error is shared equally.
_MOST_ENTRIES = 10_000_000
# Share of delta that the windows may cut off. It is counted as failure.
_CUT = 1e-9
# The common level is found to this relative accuracy, from below.
_LEVEL_ACCURACY = 1e-4


def simultaneous_ranks(n: int, taus: ArrayLike, delta: float = 0.05) -> tuple[int | None, ...]:
    """Ranks whose order statistics keep every one of several tolerances, all together, with probability 1 - delta.

    ::

        r_i = order_rank(n, tau_i, level),   level the highest with   P(FPR(s_(r_i)) > tau_i for some i) <= delta

    Parameters
    ----------
    n : int
        How many negatives there are.
    taus : array-like of float
        Tolerances strictly between 0 and 1, in any order.
    delta : float, default=0.05
        Probability with which one or more of them may be exceeded.

    Returns
    -------
    tuple of int or None
        One rank a tolerance, in the order given, ascending from 1; None where n is too small for that tolerance, so
        that its threshold must be +inf.

    Notes
    -----
    Let N_i count the negatives above the (1 - tau_i) quantile of their distribution. Tolerance i is exceeded only if
    N_i <= j_i = n - r_i, and for continuous scores exactly then. With tau_1 < ... < tau_K the counts are a Markov
    chain, since the n - N_i others fall into the next slice independently::

        N_1 ~ Binomial(n, tau_1),   N_(i+1) - N_i | N_i ~ Binomial(n - N_i, (tau_(i+1) - tau_i) / (1 - tau_i))

    so that the probability of a first failure at i is a sum over the paths with N_1 > j_1, ..., N_(i-1) > j_(i-1),
    N_i <= j_i, taken step by step. Paths with a count beyond a far quantile are counted as failures: the sum is an
    upper bound, and exact to a share of 1e-9 of delta. It increases with the level, which is found by bisection.

    The counts go together, so that the level lies above the equal share delta/K, which would do by the
    union bound and is the answer where the sums are too long (spreads of several thousand counts).

    Examples
    --------
    >>> from taufpl.thresholding import order_rank, simultaneous_ranks
    >>> simultaneous_ranks(1000, [0.05, 0.1, 0.001])
    (964, 918, None)
    >>> [order_rank(1000, tau, 0.05 / 3) for tau in (0.05, 0.1, 0.001)]
    [965, 921, None]
    """
    n, delta = check_count("n", n), check_delta(delta)
    given = np.asarray(taus)
    if given.ndim != 1 or given.size == 0:
        raise ValueError(f"taus must be a list of one or more tolerances, got an array of shape {given.shape}.")
    values = [check_tau(tau, f"taus[{i}]") for i, tau in enumerate(given.tolist())]
    distinct, place = np.unique(values, return_inverse=True)
    above = _counts_above(n, distinct.tolist(), delta)
    return tuple(None if above[i] < 0 else n - above[i] for i in place)


def _counts_above(n: int, taus: list[float], delta: float) -> list[int]:
    """Difference of n and the ranks, -1 where there is none, for ascending tolerances."""
    least = delta / len(taus)
    if len(taus) == 1 or n == 0:
        return [most_above(n, tau, least) for tau in taus]
    chain = _Chain.build(n, taus, least, delta * _CUT)
    low, high = least, delta
    while chain is not None and high - low > _LEVEL_ACCURACY * low:
        level = 0.5 * (low + high)
        if chain.failure([most_above(n, tau, level) for tau in taus]) <= delta:
            low = level
        else:
            high = level
    return [most_above(n, tau, low) for tau in taus]


class _Chain:
    """The counts N_1 <= N_2 <= ... on windows that hold all but a negligible share of their probability."""

    def __init__(
        self, starts: list[int], first: NDArray[np.float64], steps: list[NDArray[np.float64]], rounding: float
    ) -> None:
        self.starts = starts  # lowest count of each window
        self.first = first  # probabilities of the first count
        self.steps = steps  # steps[i][a, b]: from the a-th count of window i to the b-th of window i + 1
        self.rounding = rounding  # how far a probability may be off

    @classmethod
    def build(cls, n: int, taus: Sequence[float], least: float, cut: float) -> _Chain | None:
        """Windows and transitions; None if they would be too large."""
        # A count that fails at the least level fails at every level: below it a path has ended anyway.
        starts = [most_above(n, tau, least) + 1 for tau in taus]
        ends = [_upper_quantile(n, tau, cut / len(taus)) for tau in taus]
        widths = [end - start + 1 for start, end in zip(starts, ends, strict=True)]
        if sum(a * b for a, b in pairwise(widths)) > _MOST_ENTRIES:
            return None
        counts = [np.arange(start, end + 1) for start, end in zip(starts, ends, strict=True)]
        steps = [
            _binomial(n - counts[i][:, None], counts[i + 1] - counts[i][:, None], (taus[i + 1] - tau) / (1.0 - tau))
            for i, tau in enumerate(taus[:-1])
        ]
        # Logarithms of factorials carry a relative error; their difference in the exponent carries it in full.
        rounding = len(taus) * 8 * float(np.finfo(np.float64).eps * special.gammaln(n + 2.0))
        return cls(starts, _binomial(np.array(n), counts[0], taus[0]), steps, rounding)

    def failure(self, above: Sequence[int]) -> float:
        """P(N_i <= above_i for some i), from above."""
        alive = self._cut_below(0, self.first, above[0])
        for i, step in enumerate(self.steps, start=1):
            alive = self._cut_below(i, alive @ step, above[i])
        # What left a window upwards is missing from the sum, and so counts as failure.
        return 1.0 - float(alive.sum()) + self.rounding

    def _cut_below(self, i: int, probabilities: NDArray[np.float64], above: int) -> NDArray[np.float64]:
        kept = probabilities.copy()
        kept[: max(above + 1 - self.starts[i], 0)] = 0.0
        return kept


def _upper_quantile(n: int, tau: float, cut: float) -> int:
    """A count that Binomial(n, tau) exceeds with probability at most `cut`."""
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        if special.betainc(middle + 1.0, n - middle, tau) <= cut:
            high = middle
        else:
            low = middle
    return high


def _binomial(n: NDArray[np.int64], x: NDArray[np.int64], p: float) -> NDArray[np.float64]:
    """P(Binomial(n, p) = x), 0 where x is out of range; n and x are broadcast."""
    inside = (x >= 0) & (x <= n)
    x = np.where(inside, x, 0)
    logs = special.gammaln(n + 1.0) - special.gammaln(x + 1.0) - special.gammaln(n - x + 1.0)
    logs += x * np.log(p) + (n - x) * np.log1p(-p)
    return np.where(inside, np.exp(logs), 0.0)
