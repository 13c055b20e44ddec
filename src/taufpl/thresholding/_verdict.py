"""What counts on labelled rows say about a tolerance: kept, broken or open, and how many rows would settle it."""

from __future__ import annotations

import math
from bisect import bisect_left

from scipy import special

from taufpl._checks import check_count, check_delta, check_tau
from taufpl.thresholding._order import USUAL_DELTA, fpr_upper_bound

KEPT, OPEN, BROKEN = "kept", "open", "broken"
# More negatives than this are more than anybody has, and than the tails of a float can tell apart.
_MOST = 2**53


def share_lower_bound(n_found: int, n: int, delta: float = USUAL_DELTA) -> float:
    """Lower confidence bound on a share, from a count (Clopper-Pearson).

    ::

        l = min { p : P(Binomial(n, p) >= x) >= delta } = the delta quantile of Beta(x, n - x + 1)

    Parameters
    ----------
    n_found, n : int
        x and n, 0 <= x <= n.
    delta : float, default=0.05
        Probability with which the bound may fail.

    Returns
    -------
    float
        0 where nothing was found: nothing is proven then.

    See Also
    --------
    fpr_upper_bound : The bound from above.

    Examples
    --------
    >>> from taufpl.thresholding import share_lower_bound
    >>> round(share_lower_bound(7, 1000), 5), share_lower_bound(0, 1000)
    (0.00329, 0.0)
    """
    found, total = _counts(n_found, n)
    delta = check_delta(delta)
    return float(special.betaincinv(found, total - found + 1.0, delta)) if found else 0.0


def share_interval(n_hits: int, n: int, delta: float = USUAL_DELTA) -> tuple[float, float]:
    """Two-sided confidence interval for a share, from a count (Clopper-Pearson), delta/2 on either side.

    Parameters
    ----------
    n_hits, n : int
        A count, and of how many: 0 <= n_hits <= n.
    delta : float, default=0.05
        Probability with which the interval may miss the true share.

    Returns
    -------
    tuple of float
        Lower and upper end.

    Examples
    --------
    >>> from taufpl.thresholding import share_interval
    >>> low, high = share_interval(80, 100)
    >>> round(low, 4), round(high, 4)
    (0.7082, 0.8733)
    """
    return share_lower_bound(n_hits, n, delta / 2), fpr_upper_bound(n_hits, n, delta / 2)


def tolerance_verdict(n_false_positive: int, n_negative: int, tau: float, delta: float = USUAL_DELTA) -> str:
    """Whether negatives that a classifier has not seen show that it keeps a tolerance.

    Parameters
    ----------
    n_false_positive, n_negative : int
        Counts, 0 <= n_false_positive <= n_negative.
    tau : float
        The tolerance.
    delta : float, default=0.05
        Probability with which either bound may fail.

    Returns
    -------
    {"kept", "broken", "open"}
        "kept" where the upper confidence bound on the false-positive rate is at most tau, "broken" where the lower one
        is above tau, "open" between the two.

    Examples
    --------
    >>> from taufpl.thresholding import tolerance_verdict
    >>> [tolerance_verdict(x, 1000, 0.01) for x in (4, 7, 20)]
    ['kept', 'open', 'broken']
    """
    found, n = _counts(n_false_positive, n_negative)
    tau = check_tau(tau)
    if fpr_upper_bound(found, n, delta) <= tau:
        return KEPT
    return BROKEN if share_lower_bound(found, n, delta) > tau else OPEN


def negatives_to_settle(n_false_positive: int, n_negative: int, tau: float, delta: float = USUAL_DELTA) -> int | None:
    """How many negatives would settle an open verdict, if their false-positive rate stays as observed.

    The smallest n at which the verdict is no longer "open" with r n false positives, r = n_false_positive / n_negative.
    Where r n is no whole number, the bounds are taken between those of its neighbours, by the same Beta quantiles.

    Parameters
    ----------
    n_false_positive, n_negative : int
        Counts, 0 <= n_false_positive <= n_negative, and at least one negative.
    tau : float
        The tolerance.
    delta : float, default=0.05
        Probability with which either bound may fail.

    Returns
    -------
    int or None
        All negatives together, those that were counted included; n_negative itself where the verdict is settled. None
        where no number would do, because the observed rate is the tolerance, or so close to it that it takes more than
        2^53.

    Examples
    --------
    >>> from taufpl.thresholding import negatives_to_settle
    >>> negatives_to_settle(7, 1000, 0.01), negatives_to_settle(10, 1000, 0.01)
    (3109, None)
    """
    found, n = _counts(n_false_positive, n_negative, least=1)
    tau, delta = check_tau(tau), check_delta(delta)
    if tolerance_verdict(found, n, tau, delta) != OPEN:
        return n
    rate = found / n
    if rate == tau or not _settled(_MOST, rate, tau, delta):
        return None
    return bisect_left(range(_MOST), True, lo=n + 1, key=lambda total: _settled(total, rate, tau, delta))


def _settled(n: int, rate: float, tau: float, delta: float) -> bool:
    """Whether the bound on the side of the observed rate passes the tolerance with n negatives."""
    found = rate * n
    if rate < tau:
        # P(Binomial(n, tau) <= x), between whole x too; in closed form at 0.
        tail = math.exp(n * math.log1p(-tau)) if found == 0 else special.betaincc(found + 1.0, n - found, tau)
    else:
        tail = special.betainc(found, n - found + 1.0, tau)
    return bool(tail <= delta)


def _counts(n_found: int, n: int, least: int = 0) -> tuple[int, int]:
    found, total = check_count("the count", n_found), check_count("n", n, least)
    if found > total:
        raise ValueError(f"the count must be at most the number of rows, got {found} of {total}.")
    return found, total
