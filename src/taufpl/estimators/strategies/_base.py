"""What threshold strategies share: their settings, what they fit, and what they return."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from taufpl.estimators._table import Scores
from taufpl.thresholding import USUAL_DELTA, Evidence, Rounds, Sample, fpr_upper_bound

# Mean and standard deviation of some scores.
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """How rows are divided between model and threshold: the settings that strategies share.

    Attributes
    ----------
    taus : tuple of float
    delta : float or None
    n_rounds, train_share, rule, combine
        Of out-of-bootstrap thresholding: how many rounds, which share of the rows trains, how a round picks its
        threshold ("np_score" or "quantile"), and what becomes of the rounds ("mean" or "refit").
    holdout : float or "auto"
        Share of the negatives that `np` holds out; "auto" is about one half (`held_out_size`).
    measure_recall : bool
        Whether `np` estimates its recall by more fits.
    n_folds : int
        Of `cross`, of the check of `train`, and of the recall of `np`.
    insufficient : {"raise", "infinite"}
        What `np` does with too few negatives.
    seed : int
    """

    taus: tuple[float, ...]
    delta: float | None = USUAL_DELTA
    n_rounds: int = 10
    train_share: float = 2 / 3
    rule: str = "np_score"
    combine: str = "mean"
    holdout: float | str = "auto"
    measure_recall: bool = True
    n_folds: int = 5
    insufficient: Any = "raise"
    seed: int = 0

    @property
    def bound_delta(self) -> float:
        """Level of the upper bounds that are reported."""
        return USUAL_DELTA if self.delta is None else self.delta


class Fitter(ABC):
    """A way to fit models on tables, and to score others; what is not said otherwise holds for rankings.

    Attributes
    ----------
    learns_from_neighbours : bool
        Whether a fit gains from the model of all rows, which is then fitted and reported even where it is not used.
    learns_from_positives : bool
        Whether a fit looks at positives; an outlier detector does not.
    """

    learns_from_neighbours: bool = False
    learns_from_positives: bool = True

    @abstractmethod
    def prepare(self, table: Any) -> None:
        """Choose parameters once before any fit, from these rows alone."""

    @abstractmethod
    def fit(self, table: Any, near: Any = None) -> Any:
        """Fit a model on these rows, starting from the model of a neighbouring set of rows."""

    @abstractmethod
    def scores(self, model: Any, table: Any) -> Scores:
        """Scores of these rows, higher for the positive class."""

    def is_linear(self, model: Any) -> bool:
        """Whether scores are linear in the features."""
        return False

    def has_scale(self, model: Any) -> bool:
        """Whether models of other rows score on the same scale, as probabilities and log-odds do; rankings do not."""
        return False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Models, whose mean score counts, and for each tolerance the evidence with the threshold on that mean.

    Attributes
    ----------
    models : tuple
    evidence : tuple of Evidence
    scale : float
        Size of the largest score that was seen, to which rounding is relative.
    """

    models: tuple[Any, ...]
    evidence: tuple[Evidence, ...]
    scale: float

    def without_guarantee(self, caveat: str | None) -> Outcome:
        """The outcome without its guarantee, where there is a reason that voids it."""
        if caveat is None:
            return self
        return replace(self, evidence=tuple(each.without_guarantee(caveat) for each in self.evidence))


def span_of(scores: Sample) -> Span:
    """Mean and standard deviation of some scores; (0, 1) where they say nothing."""
    at, width = scores.moments()
    return (at, width) if math.isfinite(at) and math.isfinite(width) and width > 0 else (0.0, 1.0)


def largest(scores: Sample) -> float:
    """Size of the largest finite score."""
    return max(map(abs, scores.ends()))


def evidence_from_counts(
    threshold: float,
    tau: float,
    plan: Plan,
    n_false: int,
    n_negative: int,
    n_caught: int,
    n_positive: int,
    rounds: Rounds | None = None,
) -> Evidence:
    """Evidence from counts, above the threshold and in all, among rows that were not fitted on."""
    bound = fpr_upper_bound(n_false, n_negative, plan.bound_delta)
    found = Evidence(
        threshold,
        tau,
        plan.delta,
        n_negative,
        n_false,
        n_false / n_negative,
        bound,
        None,
        guaranteed=False,
        rounds=rounds,
    )
    return found.with_caught(n_caught, n_positive)
