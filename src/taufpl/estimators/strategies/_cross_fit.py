"""Threshold by `cross`: the model is fitted on all rows, and models of folds tell how much that flatters it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from taufpl._types import Vector
from taufpl.estimators._reading import possible_folds
from taufpl.estimators._table import Table
from taufpl.estimators.strategies._base import (
    CHECKING,
    STRATEGIES,
    Fitter,
    Outcome,
    Plan,
    Span,
    Strategy,
    fit_whole,
    span_of,
)
from taufpl.thresholding import CrossFitRule, TopSample

# Mean and deviation of scores that stay as they are.
_OWN_SCALE = (0.0, 1.0)


def cross_fit(fitter: Fitter, table: Table, plan: Plan) -> Outcome:
    """Fit on all rows, and correct the counts of false alarms by models of folds (`CrossFitRule`).

    Scores without a scale of their own are brought to that of the model that is fitted on all rows, by the mean and the
    standard deviation that each model gives to the negatives it was fitted on: a ranking has no intercept, and
    shrinkage makes linear scores of fewer rows smaller. Others stay as they are: a forest, which knows its training
    rows by heart, says nothing of its scale by them.
    """
    model = fit_whole(fitter, table)
    scored = fitter.scores(model, table.negatives(plan.seed))
    scores = scored.negative
    n_folds = possible_folds(plan.n_folds, table)
    rule = CrossFitRule(plan.taus, plan.bound_delta, n_folds if fitter.is_linear(model) else None)
    span = None if fitter.has_scale(model) else span_of(scores)
    fit = partial(_cross_fit_fold, fitter=fitter, near=model, span=span, lowest=rule.lowest(scores), seed=plan.seed)
    with table.folds(n_folds, plan.seed) as parts:
        tops, sizes = zip(*parts.map(fit, what=CHECKING), strict=True)
    positive, held_out, fold_train = (
        TopSample(np.concatenate(top), sum(size))
        for top, size in zip(zip(*tops, strict=True), zip(*sizes, strict=True), strict=True)
    )
    chosen = rule.choose_all(scores, held_out, fold_train)
    evidence = tuple(each.raised(scored.rounding.raised).with_recall(positive) for each in chosen)
    return Outcome((model,), evidence, scored.rounding)


def _cross_fit_fold(
    train: Table, held_out: Table, *, fitter: Fitter, near: Any, span: Span | None, lowest: float, seed: int
) -> tuple[list[Vector], list[int]]:
    """Scores above the lowest threshold, on the scale of the model of all rows, and how many scores there are.

    They are those of a fold's positives, of its negatives, and of the negatives that its model was fitted on.
    """
    model = fitter.fit(train, near)
    held = fitter.scores(model, held_out)
    own = fitter.scores(model, train.negatives(seed)).negative
    samples = (held.positive, held.negative, own)
    (at, width), (to, target) = (_OWN_SCALE, _OWN_SCALE) if span is None else (span_of(own), span)
    factor = target / width
    # Asked for with some room for rounding, and then compared on the new scale.
    bound = at + (lowest - to) / factor
    tops = [to + factor * (each.above(bound - 1e-9 * (abs(bound) + abs(at))) - at) for each in samples]
    return [top[top > lowest] for top in tops], [each.size for each in samples]


STRATEGIES["cross"] = Strategy(cross_fit)
