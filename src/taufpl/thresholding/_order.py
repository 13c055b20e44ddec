"""Binomial tails: which order statistic carries the guarantee, how many negatives it takes, what a count proves.

A negative exceeds the (1 - tau) quantile of its distribution with probability tau. So with N ~ Binomial(n, tau) the
r-th smallest of n scores lies below that quantile, and its false-positive rate above tau, only if N <= n - r::

    P(FPR(s_(r)) > tau) <= P(N <= n - r) = P(Binomial(n, 1 - tau) >= r)

with equality for continuous scores. Tails are taken in terms of tau, because 1 - tau rounds a small tau away.
"""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from taufpl._checks import check_count, check_delta, check_tau

# Level of bounds and intervals where no delta is given.
USUAL_DELTA = 0.05

# Tails in floating point are good to about 1e-11 at n = 1e8, and to 1e-13 in closed form (j = 0).
# Closer to delta than this, they do not decide.
_MOST_SLACK, _DOUBT_AT_0 = 1e-9, 1e-12
# Exact integers decide up to this many bits (some milliseconds); beyond, primal_slack counts as "no", the careful side.
_MOST_BITS = 150_000


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
    if n == 0 or not _tail_within(0, n, tau, delta):
        return -1
    low, high = 0, n  # the tail at low is within delta, at high, where it is 1, it is not
    while high - low > 1:
        middle = (low + high) // 2
        if _tail_within(middle, n, tau, delta):
            low = middle
        else:
            high = middle
    return low


def _tail_within(j: int, n: int, tau: float, delta: float) -> bool:
    """True if P(Binomial(n, tau) <= j) is at most delta."""
    # The library's tail loses digits at j = 0, where a closed form is at hand.
    tail = math.exp(n * math.log1p(-tau)) if j == 0 else float(special.betaincc(j + 1.0, n - j, tau))
    if abs(tail - delta) > (_MOST_SLACK if j else _DOUBT_AT_0) * delta:
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
    # The quotient may be rounded to either side of a whole number.
    while n > 1 and _tail_within(0, n - 1, tau, delta):
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
