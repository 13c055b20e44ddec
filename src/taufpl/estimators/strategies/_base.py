"""What threshold strategies share: their registry, their settings, what they fit, and what they return."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from taufpl._types import RowIndices
from taufpl.estimators._progress import tell
from taufpl.estimators._reading import RowSegments
from taufpl.estimators._table import LinearModel, Rounding, Scores, Table, score_rounding
from taufpl.thresholding import (
    USUAL_DELTA,
    Evidence,
    JointOrderStatistic,
    NegativeSequence,
    PlainQuantile,
    Rounds,
    Sample,
    SegmentDivision,
    SegmentOrderStatistics,
    SegmentThresholds,
    SequenceStatistic,
    ThresholdRule,
    fpr_upper_bound,
)

# What a fold is called that tells what the threshold of all rows is worth.
CHECKING = "checking the threshold, fold"

# Mean and standard deviation of some scores.
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """What every strategy is told: tolerances, the delta of this look, folds, seed and segments."""

    taus: tuple[float, ...]
    delta: float | None = USUAL_DELTA
    n_folds: int = 5
    insufficient: Any = "raise"
    seed: int = 0
    segments: RowSegments | None = None  # None: tolerances are for all rows
    segments_before: SegmentThresholds | None = None  # the limits that are to be chosen anew
    # Where thresholds hold at every look: negatives so far, one sequence for all rows or one a limit; none at first.
    sequences: tuple[NegativeSequence, ...] | None = None
    division: SegmentDivision | None = None  # the limits of these sequences

    @property
    def bound_delta(self) -> float:
        """Level of the upper bounds that are reported."""
        return USUAL_DELTA if self.delta is None else self.delta

    @property
    def n_needed(self) -> int:
        """Held-out negatives that a guarantee takes; of several tolerances, what sharing delta equally would take."""
        return self.guarantee.n_needed

    @property
    def guarantee(self) -> JointOrderStatistic | SequenceStatistic:
        """The rule that chooses all thresholds with a guarantee."""
        rule = JointOrderStatistic if self.sequences is None else SequenceStatistic
        return rule(self.taus, self.bound_delta, self.insufficient)

    @property
    def segment_guarantee(self) -> SegmentOrderStatistics:
        """The rule that chooses the thresholds of segments with a guarantee."""
        assert self.segments is not None
        return SegmentOrderStatistics(
            self.segments.taus, self.bound_delta, self.insufficient, every_look=self.sequences is not None
        )

    @property
    def segment_codes(self) -> RowIndices | None:
        """The segment of each row; None where tolerances are for all rows."""
        return None if self.segments is None else self.segments.codes


class Fitter(ABC):
    """A way to fit models on tables, and to score others; what is not said otherwise holds for rankings."""

    # Whether a fit gains from the model of all rows, which is then fitted and reported even where it is not used.
    learns_from_neighbours: bool = False
    # Whether a fit looks at positives; an outlier detector does not.
    learns_from_positives: bool = True

    @abstractmethod
    def prepare(self, table: Any) -> None:
        """Choose parameters once before any fit, from these rows alone."""

    @abstractmethod
    def fit(self, table: Any, near: Any = None) -> Any:
        """Fit a model on these rows, starting from the model of a neighbouring set of rows."""

    @abstractmethod
    def scores(self, model: Any, table: Any) -> Scores:
        """Scores of these rows, higher for the positive class, with their rounding."""

    def unseen_parts(self, model: Any, train: Any) -> list[tuple[Any, Any]] | None:
        """Parts of the model, each with positives that it has not seen; None where there are no such parts."""
        return None

    def is_linear(self, model: Any) -> bool:
        """Whether scores are linear in the features."""
        return False

    def has_scale(self, model: Any) -> bool:
        """Whether models of other rows score on the same scale, as probabilities and log-odds do; rankings do not."""
        return False


def fit_whole(fitter: Fitter, table: Any) -> Any:
    """The model of these rows, with parameters that are chosen on them."""
    fitter.prepare(table)
    tell(0, 1, f"fitting the model on {table.n_positive + table.n_negative:,} rows")
    return fitter.fit(table)


class LinearFitter(Fitter):
    """Fits linear rankings of some kind."""

    tau: float

    def scores(self, model: LinearModel, table: Table) -> Scores:
        # Of all but the longest rows: one huge row must not decide the rounding of the others.
        size = table.score_size(model.coef, 1.0 - 0.1 * self.tau)
        return table.scores(model.coef).with_rounding(score_rounding(size), 0.0)

    def is_linear(self, model: LinearModel) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Outcome:
    """Models, whose mean score counts, and for each tolerance the evidence with the threshold on that mean.

    Thresholds are raised by the rounding of the scores already. With limits by segment the evidence is one record for
    all rows, beside the thresholds of the segments. The sequences are those of all negatives so far, where thresholds
    hold at every look.
    """

    models: tuple[Any, ...]
    evidence: tuple[Evidence, ...]
    rounding: Rounding
    segments: SegmentThresholds | None = None
    sequences: tuple[NegativeSequence, ...] | None = None

    def without_guarantee(self, caveat: str | None) -> Outcome:
        """The outcome without its guarantee, where there is a reason that voids it."""
        if caveat is None:
            return self
        segments, sequences = self.segments, self.sequences
        if segments is not None:
            segments = segments.with_evidence(lambda each: each.without_guarantee(caveat))
        if sequences is not None:
            sequences = tuple(replace(each, caveats=(*each.caveats, caveat)) for each in sequences)
        evidence = tuple(each.without_guarantee(caveat) for each in self.evidence)
        return replace(self, evidence=evidence, segments=segments, sequences=sequences)


class Strategy(BaseEstimator, ABC):
    """A way to choose the threshold, with its settings: it divides a table, fits, and chooses."""

    name: ClassVar[str]
    # Whether fits learn from a part of the rows only, which can be the earlier ones.
    holds_out: ClassVar[bool] = False
    # Whether there are limits by segment.
    has_segments: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.get_params() == other.get_params()

    def __hash__(self) -> int:
        return hash(type(self))  # settings may change

    @abstractmethod
    def run(self, fitter: Fitter, table: Table, plan: Plan) -> Outcome:
        """Divide the table, fit, and choose the thresholds."""

    def check(self) -> None:
        """Refuse settings that have no meaning."""
        self._validate_params()

    def for_rows(self, table: Table, plan: Plan, *, warns: bool = True) -> Strategy:
        """The strategy itself, where it can do with the rows of a table."""
        if table.is_ordered and not self.holds_out:
            raise ValueError(
                f"order is for threshold='np', or 'auto' with enough negatives; got threshold={self.name!r}, whose "
                "folds mix earlier and later rows."
            )
        return self

    @property
    def for_fitted(self) -> Strategy:
        """The strategy for a scorer that is fitted already."""
        return self

    def promises(self, plan: Plan) -> bool:
        """Whether it aims at P(FPR > tau) <= delta, by proof or by measurement.

        Exact copies among the rows void that, and a fitted scorer then gets the order statistic with the guarantee.
        """
        return True

    def rule_for(self, tau: float, plan: Plan) -> ThresholdRule:
        """The rule by which a strategy that promises nothing chooses the threshold of a fitted scorer."""
        return PlainQuantile(tau)

    def calibrate(self, scores: Scores, plan: Plan) -> tuple[Evidence, ...] | None:
        """Thresholds of a fitted scorer by the strategy's own rule; None where the rule is that with the guarantee."""
        if self.promises(plan):
            return None
        positive = scores.positive if scores.positive.size else None
        return tuple(self.rule_for(tau, plan).choose(scores.negative, positive) for tau in plan.taus)


def span_of(scores: Sample) -> Span:
    """Mean and standard deviation of some scores; (0, 1) where they say nothing."""
    at, width = scores.moments()
    return (at, width) if math.isfinite(at) and math.isfinite(width) and width > 0 else (0.0, 1.0)


def evidence_from_counts(
    plan: Plan, tau: float, threshold: float, counts: tuple[int, int, int, int], rounds: Rounds | None = None
) -> Evidence:
    """Evidence from rows that were not fitted on: negatives above the threshold and in all, and positives likewise."""
    n_false, n_negative, n_caught, n_positive = counts
    bound, share = fpr_upper_bound(n_false, n_negative, plan.bound_delta), n_false / n_negative
    found = Evidence(
        threshold, tau, plan.delta, n_negative, n_false, share, bound, None, guaranteed=False, rounds=rounds
    )
    return found.with_caught(n_caught, n_positive)
