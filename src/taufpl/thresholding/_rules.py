"""Rules that choose a threshold from held-out scores. Each is a record of settings with one method, `choose`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from taufpl._checks import Scores, check_delta, check_tau
from taufpl._warnings import warn_user
from taufpl.exceptions import TooFewNegativesWarning
from taufpl.problem import top_count
from taufpl.thresholding._evidence import Evidence
from taufpl.thresholding._order import USUAL_DELTA, fpr_upper_bound, negatives_needed, order_rank, simultaneous_ranks
from taufpl.thresholding._sample import Sample, ScoresLike, as_sample

Insufficient = Literal["raise", "infinite", "largest"]


class ThresholdRule(Protocol):
    """Scores in, threshold and its evidence out.

    Scores are an array, or a :class:`Sample` of remote scores.
    """

    def choose(self, negative_scores: ScoresLike, positive_scores: ScoresLike | None = None) -> Evidence:
        """Choose a threshold."""
        ...


@dataclass(frozen=True, slots=True)
class PlainQuantile:
    """The rule of `TrainQuantile`: at most a share tau of the given negatives above the threshold."""

    tau: float

    def __post_init__(self) -> None:
        check_tau(self.tau, zero=True)

    def choose(self, negative_scores: ScoresLike, positive_scores: ScoresLike | None = None) -> Evidence:
        """Choose the quantile of the negatives; positives play no part."""
        scores = as_sample("negative_scores", negative_scores)
        rank = scores.size - top_count(self.tau, scores.size) + 1
        return evidence_at_rank(scores, rank, self.tau, None, guaranteed=False)


@dataclass(frozen=True, slots=True)
class OrderStatistic:
    """The threshold with a finite-sample guarantee, from negatives that the scorer never saw.

    ::

        t = s_(r),   r = min { r : P(Binomial(n, 1 - tau) >= r) <= delta },   s_(1) <= ... <= s_(n)

    Then P(FPR > tau) <= delta over the draw of the n negatives, whatever their distribution, ties included. Without
    ties the probability is exactly the binomial tail, so that no lower order statistic would do.

    Parameters
    ----------
    tau : float
        Tolerance, strictly between 0 and 1.
    delta : float, default=0.05
        Probability with which the tolerance may be exceeded.
    insufficient : {"raise", "infinite", "largest"}, default="raise"
        What to do with fewer negatives than :func:`negatives_needed`: refuse; return the threshold +inf, which
        predicts nobody and keeps the guarantee; or warn and return the largest negative score, without guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.thresholding import OrderStatistic
    >>> evidence = OrderStatistic(tau=0.05).choose(np.arange(1000.0))
    >>> evidence.threshold, evidence.rank, evidence.fpr_estimate, evidence.guaranteed
    (961.0, 962, 0.038, True)
    """

    tau: float
    delta: float = USUAL_DELTA
    insufficient: Insufficient = "raise"

    def __post_init__(self) -> None:
        check_tau(self.tau)
        check_delta(self.delta)
        if self.insufficient not in ("raise", "infinite", "largest"):
            raise ValueError(f"insufficient must be 'raise', 'infinite' or 'largest', got {self.insufficient!r}.")

    def choose(self, negative_scores: ScoresLike, positive_scores: ScoresLike | None = None) -> Evidence:
        """Choose the order statistic of the negatives; positives play no part."""
        scores = as_sample("negative_scores", negative_scores)
        rank = order_rank(scores.size, self.tau, self.delta)
        if rank is None:
            return choose_from_too_few(scores, self, negatives_needed(self.tau, self.delta))
        return evidence_at_rank(scores, rank, self.tau, self.delta, guaranteed=True)


@dataclass(frozen=True, slots=True)
class JointOrderStatistic:
    """The thresholds of several tolerances, that keep them all together with probability 1 - delta.

    With one tolerance it is :class:`OrderStatistic`; with several, ranks come from :func:`simultaneous_ranks`.

    Parameters
    ----------
    taus : sequence of float
        Tolerances strictly between 0 and 1.
    delta : float, default=0.05
        Probability with which one or more of them may be exceeded.
    insufficient : {"raise", "infinite", "largest"}, default="raise"
        As in :class:`OrderStatistic`, for each tolerance by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.thresholding import JointOrderStatistic
    >>> found = JointOrderStatistic((0.05, 0.1)).choose_all(np.arange(1000.0))
    >>> [evidence.threshold for evidence in found]
    [963.0, 917.0]
    """

    taus: Sequence[float]
    delta: float = USUAL_DELTA
    insufficient: Insufficient = "raise"

    def choose_all(self, negative_scores: ScoresLike) -> tuple[Evidence, ...]:
        """Choose one threshold a tolerance."""
        scores = as_sample("negative_scores", negative_scores)
        rules = [OrderStatistic(tau, self.delta, self.insufficient) for tau in self.taus]
        if len(rules) == 1:
            return (rules[0].choose(scores),)
        return tuple(
            choose_from_too_few(scores, rule, negatives_needed(rule.tau, self.delta / len(rules)), len(rules))
            if rank is None
            else evidence_at_rank(scores, rank, rule.tau, self.delta, guaranteed=True)
            for rule, rank in zip(rules, self.ranks(scores.size), strict=True)
        )

    def ranks(self, n: int) -> tuple[int | None, ...]:
        """Ranks of the thresholds among n negatives, one a tolerance; None where n is too small."""
        return simultaneous_ranks(n, self.taus, self.delta)

    @property
    def n_needed(self) -> int:
        """Negatives that a guarantee takes; of several tolerances, what sharing delta equally would take."""
        return negatives_needed(min(self.taus), self.delta / len(self.taus))


@dataclass(frozen=True, slots=True)
class NPScoreRule:
    """The paper's rule for a round: the threshold with the lowest Neyman-Pearson score on the held-out part.

    ::

        t = argmin over t in the distinct scores of   max(FPR(t), tau) / tau - TPR(t)

    Of several minimisers the highest is taken, the most careful one. The score allows FPR above tau where that catches
    many more positives, so that this rule promises nothing.

    At the plain quantile the score is 1 at most, and beyond FPR = 2 tau more than 1. So no score under the
    (floor(2 tau n) + 1)-th largest negative is looked at, and of remote scores only those above it
    travel: about 2 tau n negatives, and as many positives as there are.

    Parameters
    ----------
    tau : float
        Tolerance, strictly between 0 and 1.

    Examples
    --------
    >>> from taufpl.thresholding import NPScoreRule
    >>> evidence = NPScoreRule(tau=0.25).choose([0.1, 0.9, 0.3, 0.5], [0.2, 0.6, 0.8, 1.0])
    >>> evidence.threshold, evidence.n_false_positive
    (0.5, 1)
    """

    tau: float

    def __post_init__(self) -> None:
        check_tau(self.tau)

    def choose(self, negative_scores: ScoresLike, positive_scores: ScoresLike | None = None) -> Evidence:
        """Choose by both classes; takes the time of a sort."""
        negatives = as_sample("negative_scores", negative_scores)
        if positive_scores is None:
            raise ValueError(
                "positive_scores must be given to NPScoreRule, got None: it weighs both rates. "
                "TrainQuantile and OrderStatistic need negatives only."
            )
        positives = as_sample("positive_scores", positive_scores)
        lowest = self._lowest_candidate(negatives, positives)
        negative, positive = negatives.above(lowest), positives.above(lowest)
        candidates = np.unique(np.concatenate(([lowest], negative, positive)))
        n = negatives.size
        fpr, tpr = counts_above(negative, candidates) / n, counts_above(positive, candidates) / positives.size
        values = np.maximum(fpr, self.tau) / self.tau - tpr
        # The lowest value is at most 1, its rounding error a few units in the last place: as close is a tie.
        best = int(np.flatnonzero(values <= values.min() + 8 * np.finfo(np.float64).eps)[-1])
        threshold = float(candidates[best])
        n_false = int(np.count_nonzero(negative > threshold))
        bound = fpr_upper_bound(n_false, n, USUAL_DELTA)
        return Evidence(threshold, self.tau, None, n, n_false, n_false / n, bound, rank=None, guaranteed=False)

    def _lowest_candidate(self, negatives: Sample, positives: Sample) -> float:
        """The lowest score of all, or one below which FPR exceeds 2 tau."""
        count = top_count(2.0 * self.tau, negatives.size)
        if count < negatives.size:
            return negatives.at_rank(negatives.size - count + 1)
        return min(negatives.at_rank(1), positives.at_rank(1))


def counts_above(scores: Scores, thresholds: Scores) -> Scores:
    """How many of the scores lie strictly above each threshold."""
    return scores.size - np.searchsorted(np.sort(scores), thresholds, side="right").astype(np.float64)


def no_alarms(n_negative: int, rule: OrderStatistic) -> Evidence:
    """Evidence of the threshold +inf: nothing scores more, so that FPR is 0 and known to be."""
    return Evidence(np.inf, rule.tau, rule.delta, n_negative, 0, 0.0, 0.0, rank=None, guaranteed=True)


def choose_from_too_few(scores: Sample, rule: OrderStatistic, n_needed: int, n_shared: int = 1) -> Evidence:
    """What `insufficient` of a rule says where there are too few negatives; several tolerances may share delta."""
    n, tau, delta = scores.size, rule.tau, rule.delta
    if rule.insufficient == "infinite":
        return no_alarms(n, rule)
    shared = f", shared among {n_shared} tolerances," if n_shared > 1 else ""
    shortage = (
        f"tau={tau:g} at delta={delta:g}{shared} needs at least {n_needed} negatives that the scorer has not seen, "
        f"got {n}."
    )
    if rule.insufficient == "raise":
        raise ValueError(
            f"{shortage} Hold out more negatives, raise tau or delta, or set insufficient='infinite' to predict "
            "nobody positive."
        )
    reached = fpr_upper_bound(0, n, delta)
    warn_user(
        f"{shortage} The largest negative score was taken as threshold: FPR is at most {reached:.3g}, not "
        f"{tau:g}, at that delta. Collect more negatives, or raise tau or delta.",
        TooFewNegativesWarning,
    )
    return evidence_at_rank(scores, n, tau, delta, guaranteed=False)


def evidence_at_rank(scores: Sample, rank: int, tau: float, delta: float | None, *, guaranteed: bool) -> Evidence:
    """Evidence of the rank-th smallest score."""
    n = scores.size
    threshold = scores.at_rank(rank)
    n_false = scores.n_above(threshold)
    bound = fpr_upper_bound(n - rank, n, USUAL_DELTA if delta is None else delta)
    return Evidence(threshold, tau, delta, n, n_false, n_false / n, bound, rank, guaranteed)
