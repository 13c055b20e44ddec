"""Threshold by `np`: negatives that are held out, and never fitted on, choose it with a guarantee."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.estimators._table import Table
from taufpl.estimators.strategies._base import STRATEGIES, Fitter, Outcome, Plan, Strategy, largest
from taufpl.estimators.strategies._other_tolerances import other_evidence, tell_others
from taufpl.thresholding import Evidence, negatives_needed, simultaneous_ranks

# Positives that a model without them has to score: they tell the recall to three percentage points either way.
_ENOUGH_POSITIVES = 1000
# This many positives that were held out with their groups tell the recall without further fits.
_MANY = 100


def hold_out(fitter: Fitter, table: Table, plan: Plan) -> Outcome:
    """Fit on a part of the rows, and let the negatives of the other part choose the threshold."""
    with table.hold_out(held_out_count(table, plan), plan.seed, needs_positives=fitter.learns_from_positives) as parts:
        train, held_out = parts
        fitter.prepare(train)
        model = fitter.fit(train)
        scores = fitter.scores(model, held_out)
        evidence = plan.guarantee.choose_all(scores.negative) + other_evidence(scores.negative, plan.bound_delta)
        scale = largest(scores.negative)
        # Late ones tell more of tomorrow than early ones; a few that are held out with their groups tell little.
        enough = 1 if table.is_ordered else min(_MANY, train.n_positive_units)
        if held_out.n_positive >= max(1, enough):
            evidence = tuple(each.with_recall(scores.positive) for each in evidence)
        else:
            evidence = _with_recall(fitter, train, held_out, model, evidence, plan)
        evidence, others = evidence[: len(plan.taus)], evidence[len(plan.taus) :]
        tell_others(others)
        return Outcome((model,), evidence, scale).without_guarantee(held_out.copies(train))


def held_out_count(table: Table, plan: Plan) -> int:
    """How many units with a negative `np` holds out; too few for the guarantee are refused."""
    n_units = table.n_negative_units
    if n_units < 2:
        raise ValueError("threshold='np' needs at least 2 negatives, one to fit on and one to hold out; got 1.")
    n_held = held_out_size(n_units, plan)
    if plan.insufficient == "raise":
        check_held_out(n_held, n_units, plan)
    return n_held


def _with_recall(
    fitter: Fitter, train: Table, held_out: Table, model: Any, evidence: tuple[Evidence, ...], plan: Plan
) -> tuple[Evidence, ...]:
    """Evidence with the recall by folds over the positives.

    A fold's model is fitted without the positives of the fold, unless the fit has left such models. The same negatives
    as before choose its threshold, and the positives of the fold are counted above it: a threshold of another model
    would flatter or blame it.
    """
    count = partial(_count_caught, fitter=fitter, negatives=held_out, ranks=[each.rank for each in evidence])
    unseen, (n_folds, n_fitted) = fitter.unseen_parts(model, train), recall_folds(train.n_positive_units, plan)
    if unseen is not None:
        counts = [count(*pair) for pair in unseen]
    elif n_folds:
        with train.positive_folds(n_folds, n_fitted, plan.seed) as parts:
            counts = list(parts.map(partial(_refit_and_count, fitter=fitter, near=model, count=count)))
    else:
        return evidence
    *caught, n_counted = np.sum(counts, axis=0).tolist()
    return tuple(each.with_caught(own, n_counted) for each, own in zip(evidence, caught, strict=True))


def _refit_and_count(
    train: Table, fold: Table, *, fitter: Fitter, near: Any, count: Callable[..., list[int]]
) -> list[int]:
    """The counts of a fold for which there is no model yet."""
    return count(fitter.fit(train, near), fold)


def _count_caught(model: Any, fold: Table, *, fitter: Fitter, negatives: Table, ranks: list[int | None]) -> list[int]:
    """How many positives of a fold lie above each threshold of a model fitted without them, and how many there are."""
    negative = fitter.scores(model, negatives).negative
    # Without a rank the threshold is infinite.
    thresholds = [math.inf if rank is None else negative.at_rank(rank) for rank in ranks]
    positive = fitter.scores(model, fold).positive
    return [*(positive.n_above(threshold) for threshold in thresholds), positive.size]


def held_out_size(n_units: int, plan: Plan) -> int:
    """How many of the units with a negative are held out, at least 1 and at most all but one.

    "auto" is one half, or as many as the guarantee needs, snapped: of all sizes that leave as many negatives above the
    threshold, the smallest. What it saves trains the scorer, and the guarantee is as tight as before.
    """
    if plan.holdout != "auto":
        return max(1, min(round(float(plan.holdout) * n_units), n_units - 1))
    size = max(1, min(max(round(0.5 * n_units), plan.n_needed), n_units - 1))
    return snapped(size, plan.taus, plan.bound_delta)


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
    return n_folds, min(n_folds, math.ceil(_ENOUGH_POSITIVES * n_folds / n_positive))


def check_held_out(n_held: int, n_units: int, plan: Plan) -> None:
    """Refuse to hold out too few negatives, before anything is fitted, with the numbers that would do."""
    # Sharing delta equally is not the best that can be done; where it just fails, the rule itself decides.
    if n_held >= negatives_needed(min(plan.taus), plan.bound_delta):
        return
    needed = plan.n_needed
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


STRATEGIES["np"] = Strategy(hold_out, "held-out negatives choose, with a guarantee", holds_out=True)
