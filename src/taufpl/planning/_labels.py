"""A plan for labels: how many negatives a proof needs, and what more of them would bring."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from taufpl._checks import check_count, check_delta, check_scores, check_tau
from taufpl.estimators.strategies import Plan, held_out_size, most_held_out, snapped
from taufpl.planning._expected_recall import RecallForecast
from taufpl.thresholding import USUAL_DELTA

# Numbers of negatives that a plan compares, as multiples of those at hand.
MULTIPLES = (1, 2, 10)
# Points of the curve over the number of negatives.
_N_POINTS = 40


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
        negative = check_scores("negative_scores", negative_scores)
        forecast = RecallForecast.from_scores(negative, check_scores("positive_scores", positive_scores))

    def planned(total: int, n_threshold: int) -> PlannedLabels:
        return _planned(total, n_threshold, plan, forecast)

    sizes = [times * n for times in MULTIPLES]
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


def _planned(total: int, n_threshold: int, plan: Plan, forecast: RecallForecast | None) -> PlannedLabels:
    (rank,), (tau,) = plan.guarantee.ranks(n_threshold), plan.taus
    if rank is None:
        return PlannedLabels(total, n_threshold, None, 0.0)
    above = n_threshold - rank
    share = (above + 1) / (n_threshold + 1) / tau
    if forecast is None:
        return PlannedLabels(total, n_threshold, above, share)
    interval = forecast.interval(n_threshold, above, plan.bound_delta)
    return PlannedLabels(total, n_threshold, above, share, forecast.expect(n_threshold, above), interval)
