"""Threshold by `train`: the quantile of the negatives that the model was fitted on; folds tell what that is worth."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from taufpl.estimators._reading import possible_folds
from taufpl.estimators._table import Scores, Table
from taufpl.estimators.strategies._base import (
    CHECKING,
    STRATEGIES,
    Fitter,
    Outcome,
    Plan,
    Strategy,
    evidence_from_counts,
    fit_whole,
)
from taufpl.thresholding import TrainQuantile


def train_quantile(fitter: Fitter, table: Table, plan: Plan) -> Outcome:
    """Fit on all rows, take the quantile of the negatives, and count what lies above it in folds."""
    model = fit_whole(fitter, table)
    scores = fitter.scores(model, table.negatives())
    thresholds = _train_thresholds(scores, plan.taus)
    count = partial(_count_above_train_quantile, fitter=fitter, near=model, taus=plan.taus)
    with table.folds(possible_folds(plan.n_folds, table), plan.seed) as parts:
        counts = np.sum(list(parts.map(count, what=CHECKING)), axis=0)
    evidence = tuple(
        evidence_from_counts(plan, tau, threshold, (n_false, table.n_negative_units, n_caught, table.n_positive))
        for threshold, tau, (n_false, n_caught) in zip(thresholds, plan.taus, counts.tolist(), strict=True)
    )
    return Outcome((model,), evidence, scores.rounding)


def _count_above_train_quantile(
    train: Table, held_out: Table, *, fitter: Fitter, near: Any, taus: tuple[float, ...]
) -> list[list[int]]:
    """For each tolerance, held-out negatives and positives above the quantile of the negatives that were fitted on."""
    model = fitter.fit(train, near)
    thresholds = _train_thresholds(fitter.scores(model, train.negatives()), taus)
    held = fitter.scores(model, held_out)
    return [[held.negative.n_above(threshold), held.positive.n_above(threshold)] for threshold in thresholds]


def _train_thresholds(scores: Scores, taus: tuple[float, ...]) -> list[float]:
    return [scores.rounding.raised(TrainQuantile(tau).choose(scores.negative).threshold) for tau in taus]


STRATEGIES["train"] = Strategy(train_quantile, promises=lambda plan: False)
