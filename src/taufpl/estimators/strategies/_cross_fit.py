"""Threshold by `cross`: the model is fitted on all rows, and models of folds tell how much that flatters it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.estimators._table import Table, possible_folds
from taufpl.estimators.strategies._base import Fitter, Outcome, Plan, Span, largest, span_of
from taufpl.thresholding import CrossFitRule, Sample, TopSample

Vector = NDArray[np.float64]


def cross_fit(fitter: Fitter, table: Table, plan: Plan) -> Outcome:
    """Fit on all rows, and correct the counts of false alarms by models of folds (`CrossFitRule`).

    Scores without a scale of their own are brought to that of the model that is fitted on all rows, by the mean and the
    standard deviation that each model gives to the negatives it was fitted on: a ranking has no intercept, and
    shrinkage makes linear scores of fewer rows smaller. Others stay as they are: a forest, which knows its training
    rows by heart, says nothing of its scale by them.
    """
    fitter.prepare(table)
    model = fitter.fit(table)
    scores = fitter.scores(model, table.negatives(plan.seed)).negative
    n_folds = possible_folds(plan.n_folds, table)
    rule = CrossFitRule(plan.taus, plan.bound_delta, n_folds if fitter.is_linear(model) else None)
    span = None if fitter.has_scale(model) else span_of(scores)
    fit = partial(_cross_fit_fold, fitter=fitter, near=model, span=span, lowest=rule.lowest(scores), seed=plan.seed)
    with table.folds(n_folds, plan.seed) as parts:
        tops, sizes, scales = zip(*parts.map(fit), strict=True)
    positive, held_out, fold_train = (
        TopSample(np.concatenate(top), sum(size))
        for top, size in zip(zip(*tops, strict=True), zip(*sizes, strict=True), strict=True)
    )
    evidence = tuple(each.with_recall(positive) for each in rule.choose_all(scores, held_out, fold_train))
    return Outcome((model,), evidence, max(largest(scores), *scales))


def _cross_fit_fold(
    train: Table, held_out: Table, *, fitter: Fitter, near: Any, span: Span | None, lowest: float, seed: int
) -> tuple[list[Vector], list[int], float]:
    """Scores above the lowest threshold, on the scale of the model of all rows, and how many scores there are.

    They are those of a fold's positives, of its negatives, and of the negatives that its model was fitted on; and the
    size of the largest score of its negatives.
    """
    model = fitter.fit(train, near)
    held = fitter.scores(model, held_out)
    own = fitter.scores(model, train.negatives(seed)).negative
    samples = (held.positive, held.negative, own)
    move = Rescaling.between(span_of(own), span) if span is not None else Rescaling()
    ends = move(np.array(held.negative.ends()))
    return [move.above(lowest, each) for each in samples], [each.size for each in samples], float(np.abs(ends).max())


@dataclass(frozen=True, slots=True)
class Rescaling:
    """Scores of one model on the scale of another: to + factor (score - at)."""

    at: float = 0.0
    to: float = 0.0
    factor: float = 1.0

    @classmethod
    def between(cls, own: Span, target: Span) -> Rescaling:
        """Bring the mean and the standard deviation of the first to those of the second."""
        return cls(own[0], target[0], target[1] / own[1])

    def __call__(self, scores: Vector) -> Vector:
        """Rescale scores."""
        return scores if self == Rescaling() else self.to + self.factor * (scores - self.at)

    def above(self, lowest: float, sample: Sample) -> Vector:
        """The rescaled scores of a sample that are strictly greater."""
        # Asked for with some room for rounding, and then compared on the new scale.
        bound = self.at + (lowest - self.to) / self.factor
        found = self(sample.above(bound - 1e-9 * (abs(bound) + abs(self.at))))
        return found[found > lowest]
