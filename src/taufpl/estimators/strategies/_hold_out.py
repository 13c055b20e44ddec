"""Threshold by `np`: negatives that are held out, and never fitted on, choose it with a guarantee."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._types import Labels
from taufpl.estimators._reading import enough_folds
from taufpl.estimators._table import Strata, Table
from taufpl.estimators.strategies._base import (
    LEAST_TRAIN_SHARE,
    STRATEGIES,
    Fitter,
    Outcome,
    Plan,
    Strategy,
    fit_whole,
)
from taufpl.estimators.strategies._limits import (
    CommonLimits,
    Limits,
    SegmentLimits,
    limits_of,
    negatives_by_segment,
    warn_rounding,
)
from taufpl.thresholding import Evidence, negatives_needed, simultaneous_ranks

# Positives that a model without them has to score: they tell the recall to three percentage points either way.
_ENOUGH_POSITIVES = 1000
# Share of the negatives that is held out, and the most where a proof needs more and there are segments.
_SHARE = 0.5
_MOST_SHARE = 1.0 - LEAST_TRAIN_SHARE
# This many positives that were held out with their groups tell the recall without further fits.
_MANY = 100


def hold_out(fitter: Fitter, table: Table, plan: Plan) -> Outcome:
    """Fit on a part of the rows, and let the negatives of the other part choose the threshold."""
    with hold_out_rows(table, plan, needs_positives=fitter.learns_from_positives) as (train, held_out, limits):
        model = fit_whole(fitter, train)
        scores = fitter.scores(model, held_out)
        warn_rounding(scores)
        evidence = limits.choose(held_out, scores)
        # Late ones tell more of tomorrow than early ones; a few that are held out with their groups tell little.
        enough = 1 if table.is_ordered else min(_MANY, train.n_positive_units)
        counts: Labels | None
        if held_out.n_positive >= max(1, enough):
            counts = limits.count([each.threshold for each in evidence], held_out, scores)
        else:
            counts = _caught_by_folds(fitter, train, held_out, model, evidence, limits)
        outcome = limits.outcome((model,), evidence, counts, scores.rounding)
        outcome = replace(outcome, sequences=limits.grown(held_out, scores))
        return outcome.without_guarantee(held_out.copies(train))


@contextmanager
def hold_out_rows(table: Any, plan: Plan, *, needs_positives: bool) -> Iterator[tuple[Any, Any, Limits]]:
    """Rows to fit on, rows that are held out, and the limits whose thresholds the latter choose."""
    held: int | Strata
    limits: Limits | None = None
    if plan.segments is None:
        held, limits = held_out_count(table, plan), CommonLimits(plan)
    elif table.is_ordered or table.units.groups is not None:
        held = _held_out_units(table.n_negative_units, plan)
    else:
        limits = _attainable_limits(table, plan)
        held = Strata(limits.limit_of[table.units.segments], _held_out_sizes(table, limits))
    with table.hold_out(held, plan.seed, needs_positives=needs_positives) as (train, held_out):
        yield train, held_out, limits_of(plan, held_out) if limits is None else limits


def _held_out_units(n_units: int, plan: Plan) -> int:
    """How many units are held out whose segments cannot be chosen: one half, or what one limit for all needs."""
    assert plan.segments is not None
    needed = negatives_needed(max(plan.segments.taus.values()), plan.bound_delta)
    wanted = max(round(_SHARE * n_units), needed) if plan.holdout == "auto" else round(float(plan.holdout) * n_units)
    return max(1, min(wanted, n_units - 1))


def _attainable_limits(table: Any, plan: Plan) -> SegmentLimits:
    """The limits that segments can have if they hold out what they can spare."""
    most = _MOST_SHARE if plan.holdout == "auto" else float(plan.holdout)
    return SegmentLimits.divide(plan, [int(most * n) for n in negatives_by_segment(plan, table)])


def _held_out_sizes(table: Any, limits: SegmentLimits) -> list[int]:
    """How many negatives each limit holds out; none for one without alarms, which needs no proof."""
    division, places = limits.division, limits.places(table, table.negative_rows)
    counts = np.bincount(places[places >= 0], minlength=len(division.limits)).tolist()
    sizes = []
    for name, rule, n_negative in zip(division.limits, division.rules, counts, strict=True):
        own = replace(limits.plan, taus=(rule.tau,), delta=rule.delta)
        sizes.append(0 if division.is_infinite(name) else held_out_size(n_negative, own))
    return sizes


def held_out_count(table: Table, plan: Plan) -> int:
    """How many units with a negative `np` holds out; too few for the guarantee are refused."""
    n_units = table.n_negative_units
    if n_units < 2:
        raise ValueError("threshold='np' needs at least 2 negatives, one to fit on and one to hold out; got 1.")
    n_held = held_out_size(n_units, plan)
    if plan.insufficient == "raise":
        check_held_out(n_held, n_units, plan)
    return n_held


def _caught_by_folds(
    fitter: Fitter, train: Table, held_out: Table, model: Any, evidence: tuple[Evidence, ...], limits: Limits
) -> Labels | None:
    """Positives above their threshold, and in all, by folds over the positives.

    A fold's model is fitted without the positives of the fold, unless the fit has left such models. The same negatives
    as before choose its threshold, and the positives of the fold are counted above it: a threshold of another model
    would flatter or blame it.
    """
    ranks, plan = [each.rank for each in evidence], limits.plan
    count = partial(_count_caught, fitter=fitter, negatives=held_out, ranks=ranks, limits=limits)
    unseen, (n_folds, n_fitted) = fitter.unseen_parts(model, train), recall_folds(train.n_positive_units, plan)
    if unseen is not None:
        return np.sum([count(*pair) for pair in unseen], axis=0)
    if not n_folds:
        return None
    with train.positive_folds(n_folds, n_fitted, plan.seed) as parts:
        refit = partial(_refit_and_count, fitter=fitter, near=model, count=count)
        return np.sum(list(parts.map(refit, what="measuring the recall, fold")), axis=0)


def _refit_and_count(train: Table, fold: Table, *, fitter: Fitter, near: Any, count: Callable[..., Labels]) -> Labels:
    """The counts of a fold for which there is no model yet."""
    return count(fitter.fit(train, near), fold)


def _count_caught(
    model: Any, fold: Table, *, fitter: Fitter, negatives: Table, ranks: list[int | None], limits: Limits
) -> Labels:
    """How many positives of a fold lie above the thresholds of a model fitted without them, and how many there are."""
    thresholds = limits.at_ranks(ranks, negatives, fitter.scores(model, negatives))
    return limits.count(thresholds, fold, fitter.scores(model, fold))


def held_out_size(n_units: int, plan: Plan) -> int:
    """How many of the units with a negative are held out, at least 1 and at most all but one.

    "auto" is one half, or as many as the guarantee needs, snapped: of all sizes that leave as many negatives above the
    threshold, the smallest. What it saves trains the scorer, and the guarantee is as tight as before. Where more
    negatives will follow, none is in vain, and the size is not snapped.
    """
    if plan.holdout != "auto":
        return max(1, min(round(float(plan.holdout) * n_units), n_units - 1))
    size = max(1, min(max(round(_SHARE * n_units), plan.n_needed), n_units - 1))
    return size if plan.sequences is not None else snapped(size, plan.taus, plan.bound_delta)


def snapped(size: int, taus: Sequence[float], delta: float) -> int:
    """The smallest sample whose thresholds leave at least as many negatives above them as a sample of this size."""
    wanted = _above(size, taus, delta)
    if wanted.min() < 0:  # a guarantee cannot be had for one of the tolerances
        return size
    return bisect_left(range(size), True, lo=1, key=lambda n: bool(np.all(_above(n, taus, delta) >= wanted)))


def _above(size: int, taus: Sequence[float], delta: float) -> NDArray[np.int64]:
    """How many of `size` negatives the threshold of each tolerance leaves above it; -1 where there is no threshold."""
    return np.array([-1 if rank is None else size - rank for rank in simultaneous_ranks(size, taus, delta)])


def recall_folds(n_positive: int, plan: Plan) -> tuple[int, int]:
    """Folds into which the positives are divided to measure the recall, and how many folds a model is fitted without.

    Few positives are all scored by a model without them; of many, as few folds as hold 1,000 of them. (0, 0) where the
    recall is not measured.
    """
    n_folds = min(plan.n_folds, n_positive)
    if not plan.measure_recall or n_folds < 2:
        return 0, 0
    return n_folds, enough_folds(n_folds, n_positive, _ENOUGH_POSITIVES)


def check_held_out(n_held: int, n_units: int, plan: Plan) -> None:
    """Refuse to hold out too few negatives, before anything is fitted, with the numbers that would do."""
    # Sharing delta equally is not the best that can be done; where it just fails, the rule itself decides.
    needed = plan.n_needed
    if n_held >= (needed if plan.sequences is not None else negatives_needed(min(plan.taus), plan.bound_delta)):
        return
    advice = (
        f"holdout={min(0.99, 1.01 * needed / n_units):.2g} would hold out enough"
        if 1.2 * needed < n_units
        else f"about {2 * needed:,} negatives in all are needed"
    )
    raise ValueError(
        f"tau={min(plan.taus):g} at delta={plan.bound_delta:g} needs at least {needed:,} negatives held out, got "
        f"{n_held:,} of {n_units:,} (holdout={plan.holdout!r}): {advice}. Or raise tau or delta, take "
        "threshold='cross', which uses all negatives, or set insufficient='infinite' to predict nobody positive."
    )


STRATEGIES["np"] = Strategy(hold_out, holds_out=True)
