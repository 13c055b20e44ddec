"""The evidence that a threshold rests on, and the history of a model's thresholds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._records import read_record, set_named_state, with_named_state
from taufpl.thresholding._order import USUAL_DELTA
from taufpl.thresholding._sample import ArraySample, Sample
from taufpl.thresholding._verdict import share_interval


@with_named_state
@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """What the rounds of out-of-bootstrap thresholding found, one entry a round.

    Attributes
    ----------
    thresholds : ndarray of shape (n_rounds,)
        The threshold that the round's held-out part chose.
    fpr, tpr : ndarray of shape (n_rounds,)
        Shares of the held-out negatives and positives strictly above it. The threshold was chosen on the same rows,
        so that these lean to the good side.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.thresholding import Rounds
    >>> rounds = Rounds(np.array([1.0, 2.0, 3.0]), np.zeros(3), np.ones(3))
    >>> len(rounds), rounds.spread
    (3, 1.0)
    """

    thresholds: NDArray[np.float64]
    fpr: NDArray[np.float64]
    tpr: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.thresholds)

    @property
    def spread(self) -> float:
        """Standard deviation of the thresholds: 0 for a single round, infinite if one of them is."""
        if not np.all(np.isfinite(self.thresholds)):
            return float("inf")
        return float(np.std(self.thresholds, ddof=1)) if len(self) > 1 else 0.0


@with_named_state
@dataclass(frozen=True, slots=True)
class Evidence:
    """A threshold, and what is known about its false-positive rate from the negatives that chose it.

    Attributes
    ----------
    threshold : float
        Positive is what scores strictly more.
    tau : float
        The tolerance that was asked for.
    delta : float or None
        The probability with which the tolerance may be exceeded; None for rules that promise nothing.
    n_negative : int
        How many negatives the threshold rests on; where groups were given, one of each group.
    n_false_positive : int
        How many of those score strictly more than the threshold; for "cross" an estimate, rounded down
        (:class:`CrossFitRule`).
    fpr_estimate : float
        n_false_positive / n_negative. The rule looked at these negatives, so this is a description of them rather
        than an unbiased estimate: for an order statistic of rank r without ties it is (n - r)/n, whatever the scores.
        `expected_fpr` is the mean over such samples.
    fpr_upper_bound : float
        Upper confidence bound at delta (0.05 if None). For a fixed rank r it is Clopper-Pearson with n - r false
        positives, which holds for the order statistic itself, ties or not; fewer false positives because of ties do
        not lower it. For a rule that searches for its threshold it takes the count as if the threshold had been fixed
        beforehand, which leans to the good side.
    rank : int or None
        Rank of the threshold among the negatives, ascending from 1; None if it is not an order statistic of fixed
        rank.
    guaranteed : bool
        True only if P(FPR > tau) <= delta is proven, provided that the scorer never saw these negatives. Whoever
        uses the rule on other scores (pooled over folds, or of training rows) has to set it to False.
    rounds : Rounds or None
        The rounds behind a mean threshold.
    tpr_estimate : float or None
        Share of positives that their scorer had not seen strictly above the threshold; None if there were none. For
        "np" every positive is scored by a model of a fold that was fitted without it.
    n_positive, n_true_positive : int or None
        How many such positives there were, and how many of them were above; for "np" with groups, one of each group.
    caveats : tuple of str
        Why the guarantee does not hold although the rule has one: a sentence each.
    looks : int or "any"
        What `delta` is for. 1: this threshold alone. A number n: this one of n thresholds, all of which hold together
        with probability 1 - n delta. "any": all thresholds that are chosen while the negatives grow, together.
    """

    threshold: float
    tau: float
    delta: float | None
    n_negative: int
    n_false_positive: int
    fpr_estimate: float
    fpr_upper_bound: float
    rank: int | None
    guaranteed: bool
    rounds: Rounds | None = None
    tpr_estimate: float | None = None
    n_positive: int | None = None
    n_true_positive: int | None = None
    caveats: tuple[str, ...] = ()
    looks: int | str = 1

    def with_recall(self, positive_scores: NDArray[np.float64] | Sample) -> Evidence:
        """Evidence with the share of these positives above the threshold, if there are any."""
        if not positive_scores.size:
            return self
        sample = positive_scores if isinstance(positive_scores, Sample) else ArraySample(positive_scores)
        return self.with_caught(sample.n_above(self.threshold), sample.size)

    def with_caught(self, n_true_positive: int, n_positive: int) -> Evidence:
        """Evidence with the recall from a count of positives above the threshold."""
        share = n_true_positive / n_positive
        return replace(self, tpr_estimate=share, n_positive=n_positive, n_true_positive=n_true_positive)

    def raised(self, change: Callable[[float], float], negative: Sample | None = None) -> Evidence:
        """Evidence at a threshold raised by a function; the negatives that chose it are counted anew, if given."""
        found = replace(self, threshold=change(self.threshold))
        if negative is None or not self.n_false_positive:
            return found
        n_false = negative.n_above(found.threshold)
        return replace(found, n_false_positive=n_false, fpr_estimate=n_false / self.n_negative)

    def without_guarantee(self, *caveats: str) -> Evidence:
        """Evidence without its guarantee, for a reason that voids it."""
        return replace(self, guaranteed=False, caveats=self.caveats + caveats)

    @property
    def tpr_interval(self) -> tuple[float, float] | None:
        """Confidence interval for the recall at 1 - delta (Clopper-Pearson); None where no positives were counted.

        It is of the positives that were drawn, as if one model had scored them all; it does not hold for what a
        change of the positives does.
        """
        if self.n_positive is None or self.n_true_positive is None:
            return None
        return share_interval(self.n_true_positive, self.n_positive, USUAL_DELTA if self.delta is None else self.delta)

    @property
    def expected_fpr(self) -> float | None:
        """Mean of the true FPR over samples of fresh negatives: (n - r + 1)/(n + 1), less with ties.

        None where there is no rank.
        """
        return None if self.rank is None else (self.n_negative - self.rank + 1) / (self.n_negative + 1)


FIT, RECALIBRATE, RESTART = "fit", "recalibrate", "restart"
_EVENTS = (FIT, RECALIBRATE, RESTART)


@with_named_state
@dataclass(frozen=True, slots=True)
class ThresholdRecord:
    """One entry of `threshold_history_`: a threshold that was chosen.

    Attributes
    ----------
    event : {"fit", "recalibrate", "restart"}
        What chose it; "restart" begins a new sequence of negatives (``looks="any"``).
    at : str or None
        When, in UTC, in ISO 8601; None where that is not known any more.
    n_negative : int
        How many negatives it rests on.
    threshold_before : float or None
        The threshold until then; None for a fit, and where it is not known any more.
    threshold : float
        The threshold that was chosen; with several tolerances or segments that of the strictest.
    delta_spent : float
        Probability of failure that this threshold adds to those before it: 0 where nothing is promised, and where it
        holds together with the earlier thresholds of its sequence.
    source : str or None
        Where the rows came from, such as the name of a file.

    Examples
    --------
    >>> from taufpl.thresholding import ThresholdRecord
    >>> record = ThresholdRecord.now("fit", 969, None, 0.83, delta_spent=0.05, source="history.csv")
    >>> record.event, record.at[-6:]
    ('fit', '+00:00')
    """

    event: str
    at: str | None
    n_negative: int
    threshold_before: float | None
    threshold: float
    delta_spent: float
    source: str | None = None

    @classmethod
    def now(
        cls,
        event: str,
        n_negative: int,
        threshold_before: float | None,
        threshold: float,
        *,
        delta_spent: float,
        source: str | None = None,
    ) -> ThresholdRecord:
        """A record of what has just happened."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        # Bytes of a file's name that are no text could not be written into a file.
        source = None if source is None else source.encode(errors="replace").decode()
        return cls(event, at, n_negative, threshold_before, threshold, delta_spent, source)

    def _set_state(self, state: dict[str, Any]) -> None:
        """The state out of a model file, which somebody else may have written."""
        set_named_state(self, state)
        read_record(ThresholdRecord, state, "a record of its history")
        if self.event not in _EVENTS or math.isnan(self.threshold) or not 0 <= self.delta_spent <= 1:
            raise ValueError(f"a record of its history makes no sense: {self}")
        if self.at is not None:
            datetime.fromisoformat(self.at)
