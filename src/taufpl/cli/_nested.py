"""Models held against each other on the rows of one file: each row is scored once, by models that have not seen it."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taufpl._row_hashes import copies_among
from taufpl._sklearn import safe_indexing
from taufpl._types import Mask, RowIndices
from taufpl.cli._output import Move
from taufpl.cli._pipelines import FitOptions, FitRows, fit
from taufpl.cli._training import SourceRows, plan_rows, rows_that_train
from taufpl.estimators import last_step, steps_within, watching


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """The decisions of a model on every row of a file, each made by a fit without the rows of its fold."""

    name: str
    flagged: Mask
    guaranteed: tuple[bool, ...]  # of each fit
    caveats: tuple[str, ...]
    strategies: tuple[str, ...]
    seconds: float  # of planning the columns, fitting and predicting in all folds


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Rows that count, their classes and folds, and what each model says of them.

    Of the rows of a group or, without groups, of the copies of a row, one of each class counts.
    """

    is_positive: Mask
    is_counted: Mask
    folds: RowIndices
    models: tuple[EvaluatedModel, ...]

    @property
    def n_folds(self) -> int:
        """How often each model was fitted."""
        return int(self.folds.max()) + 1


def evaluate(source: SourceRows, options: FitOptions, models: list[str], n_folds: int, move: Move) -> Evaluation:
    """Fit every model without each fold, preprocessing and threshold included, and let it decide on the fold's rows.

    Rows of one group or, without groups, copies of a row lie in the same fold.
    """
    is_positive = source.y == source.positive
    units = _units(source, options)
    folds = _assign_folds(source, units, is_positive, n_folds, options.seed)
    evaluated = []
    for place, name in enumerate(models):
        own_move = steps_within(move, place, len(models), name)
        evaluated.append(_evaluate_model(source, replace(options, model=name), folds, n_folds, own_move))
    move(len(models), len(models), "done")
    _, first = np.unique(np.column_stack((units, is_positive)), axis=0, return_index=True)
    return Evaluation(is_positive, np.isin(np.arange(folds.size), first), folds, tuple(evaluated))


def _evaluate_model(
    source: SourceRows, options: FitOptions, folds: RowIndices, n_folds: int, move: Move
) -> EvaluatedModel:
    """The decisions of one model on all rows."""
    began, flagged, found = time.perf_counter(), np.zeros(folds.size, np.bool_), []
    for fold in range(n_folds):
        text = f"fold {fold + 1} of {n_folds}"
        move(fold, n_folds, text)
        with watching(steps_within(move, fold, n_folds, text)):
            head, flagged[folds == fold] = _evaluate_fold(source, options, folds == fold)
        found.append((head.evidence_, str(head.strategy_)))
    return EvaluatedModel(
        options.model,
        flagged,
        tuple(bool(evidence.guaranteed) for evidence, _ in found),
        tuple(dict.fromkeys(caveat for evidence, _ in found for caveat in evidence.caveats)),
        tuple(dict.fromkeys(strategy for _, strategy in found)),
        time.perf_counter() - began,
    )


def _evaluate_fold(source: SourceRows, options: FitOptions, held_out: Mask) -> tuple[Any, Mask]:
    """A model without some rows, and which of them it flags."""
    rows = np.flatnonzero(~held_out)
    y = source.y[rows]
    groups = None if source.groups is None else source.groups[rows]
    train = rows_that_train(replace(source, columns=None, y=y, groups=groups, times=None), options)
    # A copy of the record, not of the rows: planning gives up what it holds.
    planned = plan_rows(replace(source), options, rows if train is None else rows[train])
    part = FitRows(safe_indexing(planned.X, rows), y, planned.layout, source.positive, groups, train=train)
    held_out_X = safe_indexing(planned.X, np.flatnonzero(held_out))
    del planned
    with warnings.catch_warnings():
        # What is worth saying of a fit stands in its evidence.
        warnings.simplefilter("ignore")
        model = fit(part, options)
    return last_step(model), np.asarray(model.decision_function(held_out_X)) > 0


def _units(source: SourceRows, options: FitOptions) -> RowIndices:
    """A code for each row, which it shares with those of its group, or else with its copies."""
    if source.groups is not None:
        return np.unique(source.groups, return_inverse=True)[1]
    alone = np.arange(source.y.size)
    copies = copies_among(plan_rows(replace(source), options, None).X)
    return alone if copies is None else np.where(copies < 0, copies.max() + 1 + alone, copies)


def _assign_folds(source: SourceRows, units: RowIndices, is_positive: Mask, n_folds: int, seed: int) -> RowIndices:
    """The fold of each row: units with positives, and units with negatives, are spread evenly and at random."""
    codes, places = np.unique(units, return_inverse=True)
    has_positive = np.isin(codes, units[is_positive])
    has_negative = np.isin(codes, units[~is_positive])
    what = "" if source.groups is None else " groups with"
    for name, n_units in (("positives", int(has_positive.sum())), ("negatives", int(has_negative.sum()))):
        if n_units < 2 * n_folds:
            raise ValueError(
                f"{source.file.name}: {n_units:,}{what} {name} are too few for {n_folds} folds, each of which needs "
                "two. Take a smaller --folds, or more rows."
            )
    # Units of either class lie one after the other here, so that taking turns spreads both classes evenly.
    folds, rng = np.empty(codes.size, np.intp), np.random.default_rng(seed)
    strata = (~has_negative, has_positive & has_negative, ~has_positive)
    order = np.concatenate([rng.permutation(np.flatnonzero(stratum)) for stratum in strata])
    folds[order] = np.arange(order.size) % n_folds
    return folds[places]
