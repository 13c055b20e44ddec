"""What a guarantee takes and leaves: a plan for labels, and the recall at every tolerance (NP-ROC).

The threshold that leaves a - 1 of n fresh negatives above it has a false-positive rate F ~ Beta(a, n + 1 - a) where
scores are continuous. Of the N negatives at hand, J ~ Binomial(N, F) lie above it. With these sorted downward, x_1 >=
x_2 >= ..., the threshold lies between x_(J+1) and x_J, and the positives that it finds between those above x_J and
those above x_(J+1). The expected recall is the mean over J, which is beta-binomial, of the middle of the two shares.

Its interval knows what both samples leave open. Given F at several quantiles of its distribution, the counts J at all
of them together are cumulative sums of a multinomial draw; given that k of M positives lie above a threshold, the true
recall lies between the k-th and the (k + 1)-th of M sorted uniform variables, whose gaps are those of Gamma variables.
So a draw of the mean recall is bounded from both sides, and the interval reaches from a low quantile of the lower
bounds to a high quantile of the upper ones.

A ROC curve shows, for every false-positive rate *on these rows*, the recall. Whoever needs a guarantee gets less: the
threshold that keeps a tolerance with probability 1 - delta leaves fewer negatives above it. With k of n negatives above
the threshold, the smallest tolerance that it proves is the upper confidence bound on FPR,

    tau_k = max { p : P(Binomial(n, p) <= k) >= delta }

so that NP-ROC steps at every tau_k to the share of positives above the (k + 1)-th largest negative. Given the
negatives, positives above a threshold are binomial: Clopper and Pearson's interval for the recall holds there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from taufpl._checks import check_count, check_delta, check_scores, check_tau
from taufpl._types import Counts, Vector
from taufpl.estimators.strategies import Plan, held_out_size, most_held_out, snapped
from taufpl.thresholding import USUAL_DELTA, fpr_upper_bound, simultaneous_ranks

# Quantiles of F at which its distribution is represented, and draws for the interval.
_N_QUANTILES, _N_DRAWS = 64, 1000
# Numbers of negatives that a plan compares, as multiples of those at hand, and points of the curve over their number.
_MULTIPLES, _N_POINTS = (1, 2, 10), 40
# NP-ROC has all numbers of negatives above the threshold up to this one, and as many more at equal ratios.
_N_ALL = 500


@dataclass(frozen=True, slots=True)
class RecallForecast:
    """Scores of rows that a scorer has not seen, seen as counts.

    `caught[j]` positives lie above the j-th largest of the `n` negatives; none above the 0th, all above the last but
    one more.
    """

    caught: Counts
    n: int
    m: int

    @classmethod
    def from_scores(cls, negative_scores: ArrayLike, positive_scores: ArrayLike) -> RecallForecast:
        """Count the positives above every negative."""
        negative = np.sort(check_scores("negative_scores", negative_scores))[::-1]
        positive = np.sort(check_scores("positive_scores", positive_scores))
        above = positive.size - np.searchsorted(positive, negative, side="right")
        return cls(np.concatenate(([0], above, [positive.size])), negative.size, positive.size)

    def expect(self, n_fresh: int, n_above: int) -> float:
        """Mean recall of the threshold that leaves `n_above` of `n_fresh` negatives above it."""
        a, b = n_above + 1, n_fresh - n_above
        # All but a negligible share of the distributions of F, and of J given F.
        means = self.n * special.betaincinv(float(a), float(b), (1e-12, 1.0 - 1e-12))
        reach = 8.0 * np.sqrt(means) + 30.0
        places = np.arange(max(0, int(means[0] - reach[0])), min(self.n, int(means[1] + reach[1])) + 1)
        weights = stats.betabinom.pmf(places, self.n, a, b)
        middle = (self.caught[places] + self.caught[places + 1]) / 2.0
        return float(weights @ middle / weights.sum() / self.m)

    def interval(self, n_fresh: int, n_above: int, delta: float, seed: int = 0) -> tuple[float, float]:
        """Interval for that mean at confidence 1 - delta; approximate."""
        rng = np.random.default_rng(seed)
        quantiles = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
        rates = special.betaincinv(n_above + 1.0, float(n_fresh - n_above), quantiles)
        slices = np.diff(rates, prepend=0.0, append=1.0)
        places = np.cumsum(rng.multinomial(self.n, slices, size=_N_DRAWS)[:, :-1], axis=1)
        low = self._mean_recall(rng, self.caught[places])
        high = self._mean_recall(rng, self.caught[places + 1] + 1)
        return float(np.quantile(low, delta / 2.0)), float(np.quantile(high, 1.0 - delta / 2.0))

    def _mean_recall(self, rng: np.random.Generator, ranks: Counts) -> Vector:
        """Mean over a draw of the uniform variables with these ranks among m; the 0th is 0, the last but one more 1."""
        gaps = rng.standard_gamma(np.diff(ranks, prepend=0, append=self.m + 1, axis=1))
        total = gaps.sum(axis=1, keepdims=True)
        return np.asarray((np.cumsum(gaps[:, :-1], axis=1) / total).mean(axis=1))


@dataclass(frozen=True, slots=True)
class PlannedLabels:
    """What a number of negatives brings.

    Attributes
    ----------
    n_negative : int
        Negatives in all.
    n_threshold : int
        Those that choose the threshold; the others teach the scorer.
    n_above : int or None
        How many of those may lie above the threshold; None where they are too few for a proof.
    usable_share : float
        Mean false-positive rate, over draws of the negatives that choose, as a share of the tolerance; 0 without a
        proof. The rest of the tolerance is the price of certainty.
    recall : float or None
        Mean recall over such draws, of the scorer whose scores were given.
    recall_interval : tuple of two floats, or None
        Interval for that mean at confidence 1 - delta; approximate.
    """

    n_negative: int
    n_threshold: int
    n_above: int | None
    usable_share: float
    recall: float | None = None
    recall_interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """How many negatives a proof needs, and what several numbers of them bring.

    Attributes
    ----------
    tau, delta : float
    n_needed : int
        Negatives that a proof needs, none of which may lie above the threshold.
    held_out : tuple of PlannedLabels
        For n, 2 n and 10 n negatives, where a fit holds about half of them out to choose the threshold.
    all_choose : tuple of PlannedLabels
        The same where all of them choose it, as they do when a fitted scorer gets its threshold.
    curve : tuple of PlannedLabels
        More numbers, from `n_needed` on, where all of them choose, for the plot: the smallest with as many above the
        threshold, since those between bring nothing (not at every look, where more will follow).
    """

    tau: float
    delta: float
    n_needed: int
    held_out: tuple[PlannedLabels, ...]
    all_choose: tuple[PlannedLabels, ...]
    curve: tuple[PlannedLabels, ...]


def plan_labels(
    tau: float,
    delta: float = USUAL_DELTA,
    negatives: int | None = None,
    *,
    negative_scores: ArrayLike | None = None,
    positive_scores: ArrayLike | None = None,
    every_look: bool = False,
) -> LabelPlan:
    """Plan how many negatives to label for a tolerance.

    Parameters
    ----------
    tau : float
        Tolerance, strictly between 0 and 1.
    delta : float, default=0.05
        Probability with which it may be exceeded.
    negatives : int, default=None
        Negatives at hand, n: the plan compares n, 2 n and 10 n. None for the number that a proof needs.
    negative_scores, positive_scores : array-like, default=None
        Scores of labelled rows that their scorer has not seen, to tell the recall that each number would give.
    every_look : bool, default=False
        Whether thresholds shall hold at every look at negatives that grow, as those of ``looks="any"`` do. Numbers of
        negatives are then those of all looks so far.

    Returns
    -------
    LabelPlan

    Notes
    -----
    With j = `n_above` of m negatives above the threshold, FPR is Beta(j + 1, m - j) for continuous scores, and its mean
    (j + 1) / (m + 1). The recall is the mean over that distribution, and over where the threshold then lies among the
    given negatives. It is of the scorer as it is: a scorer that is fitted anew on more rows may find more.

    Examples
    --------
    >>> from taufpl.planning import plan_labels
    >>> plan = plan_labels(tau=0.001, negatives=10_000)
    >>> plan.n_needed
    2995
    >>> [(each.n_threshold, each.n_above, round(each.usable_share, 2)) for each in plan.held_out]
    [(4742, 1, 0.42), (9151, 4, 0.55), (49803, 38, 0.78)]
    >>> [(each.n_threshold, each.n_above, round(each.usable_share, 2)) for each in plan.all_choose]
    [(10000, 4, 0.5), (20000, 12, 0.65), (100000, 83, 0.84)]
    """
    tau, delta = check_tau(tau), check_delta(delta)
    plan = Plan((tau,), delta, sequences=() if every_look else None)
    needed = plan.n_needed
    n = needed if negatives is None else check_count("negatives", negatives, 1)
    if (negative_scores is None) != (positive_scores is None):
        raise ValueError("negative_scores and positive_scores go together: recall is that of both classes.")
    forecast = None
    if negative_scores is not None and positive_scores is not None:
        forecast = RecallForecast.from_scores(negative_scores, positive_scores)
    planned = partial(_planned, plan, forecast)
    sizes = [times * n for times in _MULTIPLES]
    points = np.geomspace(needed, max(sizes[-1], 30 * needed), _N_POINTS).round().astype(int).tolist()
    if not every_look:
        points = [snapped(each, (tau,), delta) for each in points]
    return LabelPlan(
        tau,
        delta,
        needed,
        tuple(planned(total, _held_out(total, plan)) for total in sizes),
        tuple(planned(total, total) for total in sizes),
        tuple(planned(total, total) for total in sorted(set(points))),
    )


def _held_out(total: int, plan: Plan) -> int:
    """How many of the negatives a fit holds out."""
    return held_out_size(total, plan) if plan.n_needed <= most_held_out(total) else total // 2


def _planned(plan: Plan, forecast: RecallForecast | None, total: int, n_threshold: int) -> PlannedLabels:
    (rank,), (tau,) = plan.guarantee.ranks(n_threshold), plan.taus
    if rank is None:
        return PlannedLabels(total, n_threshold, None, 0.0)
    above = n_threshold - rank
    share = (above + 1) / (n_threshold + 1) / tau
    if forecast is None:
        return PlannedLabels(total, n_threshold, above, share)
    interval = forecast.interval(n_threshold, above, plan.bound_delta)
    return PlannedLabels(total, n_threshold, above, share, forecast.expect(n_threshold, above), interval)


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
    n_above: Counts
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
        above = _counts_above(n)
        tolerances = np.asarray(fpr_upper_bound(above, n, delta), dtype=np.float64)
    else:
        distinct = np.unique(np.asarray(taus, dtype=np.float64))
        ranks = simultaneous_ranks(n, distinct, delta)
        proven = np.array([rank is not None for rank in ranks])
        above = np.array([n - rank for rank in ranks if rank is not None], dtype=np.int64)
        tolerances, level = distinct[proven], delta / distinct.size
    thresholds = negative[above]
    caught = m - np.searchsorted(positive, thresholds, side="right")
    low, high = share_intervals(caught, m, level)
    return NPRoc(tolerances, thresholds, above, caught / m, low, high, delta, taus is not None)


def share_intervals(counts: Counts, total: int, delta: float) -> tuple[Vector, Vector]:
    """Both ends of Clopper and Pearson's intervals for shares, each at confidence 1 - delta."""
    low = 1.0 - np.asarray(fpr_upper_bound(total - counts, total, delta / 2.0))
    return low, np.asarray(fpr_upper_bound(counts, total, delta / 2.0))


def _counts_above(n: int) -> Counts:
    """Numbers of n negatives above a threshold: few of many, all of few."""
    first = np.arange(min(n, _N_ALL))
    rest = np.geomspace(_N_ALL, n - 1, _N_ALL).astype(np.int64) if n > _N_ALL else np.empty(0, np.int64)
    return np.unique(np.concatenate((first, rest)))
