"""Binomial tails: which order statistic carries the guarantee, how many negatives it takes, what a count proves.

A negative exceeds the (1 - tau) quantile of its distribution with probability tau. So with N ~ Binomial(n, tau) the
r-th smallest of n scores lies below that quantile, and its false-positive rate above tau, only if N <= n - r::

    P(FPR(s_(r)) > tau) <= P(N <= n - r) = P(Binomial(n, 1 - tau) >= r)

with equality for continuous scores. Tails are taken in terms of tau, because 1 - tau rounds a small tau away.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from taufpl._checks import check_count, check_delta, check_tau
from taufpl._choices import USUAL_DELTA as USUAL_DELTA

# Tails in floating point are good to about 1e-11 at n = 1e8, and to 1e-13 in closed form (j = 0).
# Closer to delta than this, they do not decide.
_MOST_SLACK, _SLACK_AT_0 = 1e-9, 1e-12
# Exact integers decide up to this many bits (some milliseconds). Beyond that, undecided is "no": the careful side.
_MOST_BITS = 150_000
# Entries of all transition matrices together; above it (80 MB) the error is shared equally.
_MOST_ENTRIES = 10_000_000
# Share of delta that the windows may cut off. It is counted as failure.
_CUT = 1e-9
# The common level is found to this relative accuracy, from below.
_LEVEL_ACCURACY = 1e-4


def order_rank(n: int, tau: float, delta: float) -> int | None:
    """Smallest rank whose order statistic keeps FPR at or under tau with probability at least 1 - delta.

    ::

        r = min { r : P(Binomial(n, 1 - tau) >= r) <= delta }

    Parameters
    ----------
    n : int
        How many negatives there are.
    tau, delta : float
        Tolerance, and the probability with which it may be exceeded; strictly between 0 and 1.

    Returns
    -------
    int or None
        Rank in ascending order, from 1 to n: the threshold is the r-th smallest score. None if not even the largest
        score will do, that is, if n is less than :func:`negatives_needed`.

    Notes
    -----
    Where a tail is too close to delta for floating point, exact integers decide; where those would be too long, the
    next higher rank is taken. The bound therefore holds for tau and delta as given, to the last bit.

    Examples
    --------
    >>> from taufpl.thresholding import order_rank
    >>> order_rank(1000, tau=0.05, delta=0.05), order_rank(59, 0.05, 0.05), order_rank(58, 0.05, 0.05)
    (962, 59, None)
    """
    n, tau, delta = check_count("n", n), check_tau(tau), check_delta(delta)
    above = most_above(n, tau, delta)
    return None if above < 0 else n - above


def most_above(n: int, tau: float, delta: float) -> int:
    """Largest j with P(Binomial(n, tau) <= j) <= delta, or -1: n minus the rank. Arguments are not checked."""
    return bisect_left(range(n), True, key=lambda j: not _tail_within(j, n, tau, delta)) - 1


def _tail_within(j: int, n: int, tau: float, delta: float) -> bool:
    """True if P(Binomial(n, tau) <= j) is at most delta."""
    # The library's tail loses digits at j = 0, where a closed form is at hand.
    tail = math.exp(n * math.log1p(-tau)) if j == 0 else float(special.betaincc(j + 1.0, n - j, tau))
    if abs(tail - delta) > (_MOST_SLACK if j else _SLACK_AT_0) * delta:
        return tail < delta
    return _tail_within_exactly(j, n, tau, delta)


def _tail_within_exactly(j: int, n: int, tau: float, delta: float) -> bool:
    """The same in whole numbers: sum over i <= j of C(n, i) p^i q^(n-i), with tau = p / (p + q)."""
    p, total = tau.as_integer_ratio()
    q = total - p
    if n * total.bit_length() > _MOST_BITS:
        return False
    term = tail = q**n
    for i in range(1, j + 1):
        term = term * (n - i + 1) * p // (i * q)  # exact: the divisor is a factor of every such term
        tail += term
    numerator, denominator = delta.as_integer_ratio()
    return tail * denominator <= numerator * total**n


def negatives_needed(tau: float, delta: float = 0.05) -> int:
    """Smallest number of negatives from which a threshold with the guarantee can be had.

    ::

        n = min { n : (1 - tau)^n <= delta } = ceil( log(delta) / log(1 - tau) )

    With fewer, even the largest of them has FPR above tau with probability (1 - tau)^n > delta.

    Examples
    --------
    >>> from taufpl.thresholding import negatives_needed
    >>> [negatives_needed(tau, 0.05) for tau in (0.05, 0.01, 0.001)]
    [59, 299, 2995]
    """
    tau, delta = check_tau(tau), check_delta(delta)
    n = max(1, math.ceil(math.log(delta) / math.log1p(-tau)))
    # The quotient may be rounded to either side of a whole number. Of none at all the tail is 1, which is above delta.
    while _tail_within(0, n - 1, tau, delta):
        n -= 1
    while not _tail_within(0, n, tau, delta):
        n += max(1, n >> 44)  # where n has more digits than a float, steps of one would lead nowhere
    return n


@overload
def fpr_upper_bound(n_false_positive: int, n_negative: int, delta: float = ...) -> float: ...
@overload
def fpr_upper_bound(
    n_false_positive: ArrayLike, n_negative: ArrayLike, delta: float = ...
) -> float | NDArray[np.float64]: ...
def fpr_upper_bound(n_false_positive: Any, n_negative: Any, delta: float = 0.05) -> float | NDArray[np.float64]:
    """Upper confidence bound on a false-positive rate, from a count of false positives (Clopper-Pearson).

    ::

        u = max { p : P(Binomial(n, p) <= x) >= delta } = the (1 - delta) quantile of Beta(x + 1, n - x)

    If x of n negatives are false positives of a classifier that was made without them, its false-positive rate is at
    most u with probability at least 1 - delta. For a threshold that is itself the r-th smallest of n fresh negatives,
    the bound with x = n - r holds too, exactly where there are no ties.

    Parameters
    ----------
    n_false_positive, n_negative : int or array-like of int
        x and n, 0 <= x <= n. Arrays are broadcast against each other.
    delta : float, default=0.05
        Probability with which the bound may fail.

    Returns
    -------
    float or ndarray
        1 where there are no negatives, or only false positives: nothing is proven then.

    Examples
    --------
    >>> from taufpl.thresholding import fpr_upper_bound
    >>> round(fpr_upper_bound(0, 299), 5), round(fpr_upper_bound(7, 1000), 5)
    (0.00997, 0.01311)
    """
    delta = check_delta(delta)
    x, n = _whole("n_false_positive", n_false_positive), _whole("n_negative", n_negative)
    x, n = np.broadcast_arrays(x, n)
    if np.any(x > n):
        raise ValueError(
            f"n_false_positive must be at most n_negative, got {x[x > n].flat[0]} of {n[x > n].flat[0]} negatives."
        )
    is_open = x < n
    rest = np.where(is_open, n - x, 1)
    bound = np.where(is_open, special.betainccinv(x + 1.0, rest, delta), 1.0)
    # At 0 the quantile is in closed form, and good to the last digit.
    bound = np.where(is_open & (x == 0), -np.expm1(math.log(delta) / rest), bound)
    return float(bound) if bound.ndim == 0 else bound


def _whole(name: str, values: Any) -> NDArray[np.int64]:
    """Counts: whole numbers, not negative."""
    x = np.asarray(values)
    if x.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold whole numbers, got dtype {x.dtype}.")
    if np.any(x < 0):
        raise ValueError(f"{name} must not be negative, got {x.min()}.")
    return x.astype(np.int64)


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
    failure = _joint_failure(n, taus, least, delta * _CUT)
    low, high = least, delta
    while failure is not None and high - low > _LEVEL_ACCURACY * low:
        level = 0.5 * (low + high)
        if failure([most_above(n, tau, level) for tau in taus]) <= delta:
            low = level
        else:
            high = level
    return [most_above(n, tau, low) for tau in taus]


def _joint_failure(n: int, taus: list[float], least: float, cut: float) -> Callable[[list[int]], float] | None:
    """Function of counts j that bounds P(N_i <= j_i for some i) from above; None if its sums would be too long.

    The chain N_1 <= N_2 <= ... is followed on windows that hold all but a negligible share of its probability.
    """
    # A count that fails at the least level fails at every level: below it a path has ended anyway.
    starts = [most_above(n, tau, least) + 1 for tau in taus]
    counts = [
        np.arange(start, _upper_quantile(n, tau, cut / len(taus)) + 1) for start, tau in zip(starts, taus, strict=True)
    ]
    if sum(a.size * b.size for a, b in pairwise(counts)) > _MOST_ENTRIES:
        return None
    first = _binomial(np.array(n), counts[0], taus[0])
    # steps[i][a, b]: from the a-th count of window i to the b-th of window i + 1
    steps = [
        _binomial(n - counts[i][:, None], counts[i + 1] - counts[i][:, None], (taus[i + 1] - tau) / (1.0 - tau))
        for i, tau in enumerate(taus[:-1])
    ]
    # Logarithms of factorials carry a relative error; their difference in the exponent carries it in full.
    rounding = len(taus) * 8 * float(np.finfo(np.float64).eps * special.gammaln(n + 2.0))

    def failure(above: list[int]) -> float:
        alive = np.where(counts[0] > above[0], first, 0.0)
        for window, most, step in zip(counts[1:], above[1:], steps, strict=True):
            alive = np.where(window > most, alive @ step, 0.0)
        # What left a window upwards is missing from the sum, and so counts as failure.
        return 1.0 - float(alive.sum()) + rounding

    return failure


def _upper_quantile(n: int, tau: float, cut: float) -> int:
    """A count that Binomial(n, tau) exceeds with probability at most `cut`."""
    return bisect_left(range(n), True, key=lambda count: special.betainc(count + 1.0, n - count, tau) <= cut)


def _binomial(n: NDArray[np.int64], x: NDArray[np.int64], p: float) -> NDArray[np.float64]:
    """P(Binomial(n, p) = x), 0 where x is out of range; n and x are broadcast."""
    inside = (x >= 0) & (x <= n)
    x = np.where(inside, x, 0)
    logs = special.gammaln(n + 1.0) - special.gammaln(x + 1.0) - special.gammaln(n - x + 1.0)
    logs += x * np.log(p) + (n - x) * np.log1p(-p)
    return np.where(inside, np.exp(logs), 0.0)
