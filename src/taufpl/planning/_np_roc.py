"""NP-ROC: for every tolerance, the recall of the screen that has the guarantee there.

A ROC curve shows, for every false-positive rate *on these rows*, the recall. Whoever needs a guarantee gets less: the
threshold that keeps a tolerance with probability 1 - delta leaves fewer negatives above it. With k of n negatives above
the threshold, the smallest tolerance that it proves is the upper confidence bound on FPR,

    tau_k = max { p : P(Binomial(n, p) <= k) >= delta }

so that the curve steps at every tau_k to the share of positives above the (k + 1)-th largest negative. Given the
negatives, positives above a threshold are binomial: Clopper and Pearson's interval for the recall holds there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taufpl._checks import check_delta, check_scores, check_tau
from taufpl._types import Vector
from taufpl.thresholding import USUAL_DELTA, fpr_upper_bound, simultaneous_ranks

# All numbers of negatives above the threshold up to this one, and as many more at equal ratios.
_FIRST = 500


@dataclass(frozen=True, slots=True, eq=False)
class NPRoc:
    """Recall of screens with a guarantee, one entry a tolerance at which it steps.

    Attributes
    ----------
    tolerances : ndarray of shape (n_points,)
        Ascending: from each of them on, until the next, the threshold beside it is proven.
    thresholds : ndarray of shape (n_points,)
        Positive is what scores strictly more.
    n_above : ndarray of shape (n_points,)
        Negatives at most above the threshold.
    recall, recall_low, recall_high : ndarray of shape (n_points,)
        Share of positives above it, and the interval for it at confidence 1 - delta.
    delta : float
        Probability with which a tolerance may be exceeded, and a recall missed by its interval.
    simultaneous : bool
        Whether that is for all tolerances together; else for each by itself.
    """

    tolerances: Vector
    thresholds: Vector
    n_above: NDArray[np.int64]
    recall: Vector
    recall_low: Vector
    recall_high: Vector
    delta: float
    simultaneous: bool

    def at(self, tau: float) -> tuple[float, float, float] | None:
        """Recall of the screen with the guarantee at a tolerance, with its interval; None where nothing is proven."""
        tau = check_tau(tau)
        # A tolerance that is named may lie a rounding under the same number as it was found.
        place = int(np.searchsorted(self.tolerances, tau * (1.0 + 1e-12), side="right")) - 1
        if place < 0:
            return None
        return float(self.recall[place]), float(self.recall_low[place]), float(self.recall_high[place])


def np_roc(
    negative_scores: ArrayLike,
    positive_scores: ArrayLike,
    delta: float = USUAL_DELTA,
    *,
    taus: ArrayLike | None = None,
) -> NPRoc:
    """Recall that a screen with the guarantee has, for every tolerance.

    Parameters
    ----------
    negative_scores, positive_scores : array-like
        Scores of labelled rows that their scorer has not seen: fresh ones, or those that were held out.
    delta : float, default=0.05
        Probability with which a tolerance may be exceeded.
    taus : array-like of float, default=None
        Tolerances between which one wants to choose after a look. None for all that the negatives can prove, each by
        itself.

    Returns
    -------
    NPRoc

    Notes
    -----
    Without `taus` the statements are **pointwise**: for a tolerance that was settled beforehand, P(FPR > tau) <= delta,
    and the interval misses the recall with probability at most delta. Whoever reads the curve and then chooses the
    tolerance that looks best has no such promise: the negatives that prove it have chosen it, too. Name the candidates
    beforehand by `taus`: their thresholds hold **together** (:func:`taufpl.thresholding.simultaneous_ranks`), as do
    the intervals (delta is divided by their number), so that any of them may be taken after a look.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.planning import np_roc
    >>> rng = np.random.default_rng(0)
    >>> negative, positive = rng.normal(size=2000), rng.normal(2.5, size=200)
    >>> curve = np_roc(negative, positive)
    >>> [round(float(each), 3) for each in curve.at(0.01)]
    [0.505, 0.434, 0.576]
    >>> curve.at(0.001) is None  # that takes 2,995 negatives
    True
    >>> joint = np_roc(negative, positive, taus=[0.005, 0.01, 0.02])
    >>> joint.n_above.tolist()
    [3, 11, 28]
    """
    delta = check_delta(delta)
    negative = np.sort(check_scores("negative_scores", negative_scores))[::-1]
    positive = np.sort(check_scores("positive_scores", positive_scores))
    n, m = negative.size, positive.size
    level = delta
    if taus is None:
        above = _counts(n)
        tolerances = np.asarray(fpr_upper_bound(above, n, delta), dtype=np.float64)
    else:
        distinct = np.unique(np.asarray(taus, dtype=np.float64))
        ranks = simultaneous_ranks(n, distinct, delta)
        proven = np.array([rank is not None for rank in ranks])
        above = np.array([n - rank for rank in ranks if rank is not None], dtype=np.int64)
        tolerances, level = distinct[proven], delta / distinct.size
    thresholds = negative[above]
    caught = m - np.searchsorted(positive, thresholds, side="right")
    low = 1.0 - np.asarray(fpr_upper_bound(m - caught, m, level / 2.0))
    high = np.asarray(fpr_upper_bound(caught, m, level / 2.0))
    return NPRoc(tolerances, thresholds, above, caught / m, low, high, delta, taus is not None)


def _counts(n: int) -> NDArray[np.int64]:
    """Numbers of n negatives above a threshold: few of many, all of few."""
    first = np.arange(min(n, _FIRST))
    rest = np.geomspace(_FIRST, n - 1, _FIRST).astype(np.int64) if n > _FIRST else np.empty(0, np.int64)
    return np.unique(np.concatenate((first, rest)))
