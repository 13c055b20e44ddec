"""Thresholds by name: negatives that are held out, counts of folds, random rounds, or the training quantile."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._types import Labels, Vector
from taufpl.estimators._reading import enough_folds, possible_folds
from taufpl.estimators._table import NO_ROUNDING, Scores, Strata, Table
from taufpl.estimators.strategies._base import (
    CHECKING,
    LEAST_TRAIN_SHARE,
    STRATEGIES,
    Fitter,
    Outcome,
    Plan,
    Span,
    Strategy,
    evidence_from_counts,
    fit_whole,
    span_of,
)
from taufpl.estimators.strategies._limits import (
    CommonLimits,
    Limits,
    SegmentLimits,
    limits_of,
    negatives_by_segment,
    warn_rounding,
)
from taufpl.thresholding import (
    CrossFitRule,
    Evidence,
    NPScoreRule,
    OrderStatistic,
    Rounds,
    ThresholdRule,
    TopSample,
    TrainQuantile,
    negatives_needed,
    simultaneous_ranks,
)

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


def out_of_bootstrap(fitter: Fitter, table: Table, plan: Plan) -> Outcome:
    """Take the mean of the thresholds of random rounds.

    The models are those of the rounds, or one fitted on all rows. In the second case a round's threshold is brought to
    that model's scale by the mean and the standard deviation that both models give to the negatives. A row counts as
    positive where the rounds that held it out say so on average.
    """
    _check_classes(table)
    with table.rounds(plan.n_rounds, plan.train_share, plan.seed) as parts, table.tally(len(plan.taus)) as tally:
        fitter.prepare(table)
        whole = fitter.fit(table) if plan.combine == "refit" or fitter.learns_from_neighbours else None
        models, found, rounding = [], [], NO_ROUNDING
        run = partial(_one_round, fitter=fitter, near=whole, rules=_rules(plan))
        for model, scores, figures in parts.map(run, what="round"):
            models.append(model)
            found.append(figures)
            tally.add(scores, figures[0])
            rounding = max(rounding, scores.rounding, key=lambda each: each.sums)
        by_tolerance = np.ascontiguousarray(np.transpose(found, (2, 1, 0)))
        evidence = []
        for which, (tau, figures) in enumerate(zip(plan.taus, by_tolerance, strict=True)):
            rounds = Rounds(*figures)
            mean = float(rounds.thresholds.mean())
            evidence.append(evidence_from_counts(plan, tau, mean, tally.counts(which), rounds))
    if plan.combine == "mean":
        return Outcome(tuple(models), tuple(evidence), rounding)
    spans = [span_of(fitter.scores(model, table.negatives()).negative) for model in (*models, whole)]
    return Outcome((whole,), tuple(replace(each, threshold=_rescaled(each, spans)) for each in evidence), rounding)


def _check_classes(table: Table) -> None:
    for name, count in (("positive", table.n_positive), ("negative", table.n_negative)):
        if count < 2:
            raise ValueError(
                f"threshold='oob' needs at least 2 {name}s, one to train on and one to hold out; got {count}. "
                "Give more of them, or choose a threshold that needs no split."
            )


def _one_round(
    train: Table, held_out: Table, *, fitter: Fitter, near: Any, rules: list[ThresholdRule]
) -> tuple[Any, Scores, list[list[float]]]:
    """A model, its held-out scores, and for each tolerance the threshold and the shares of both classes above it."""
    model = fitter.fit(train, near)
    scores = fitter.scores(model, held_out)
    chosen = [rule.choose(scores.negative, scores.positive).threshold for rule in rules]
    thresholds = [scores.rounding.raised(each) for each in chosen]
    shares = [[sample.share_above(each) for each in thresholds] for sample in (scores.negative, scores.positive)]
    return model, scores, [thresholds, *shares]


def _rules(plan: Plan) -> list[ThresholdRule]:
    """How a round picks its threshold, for each tolerance."""
    if plan.delta is not None:
        return [OrderStatistic(tau, plan.delta, "largest") for tau in plan.taus]
    kind = round_rule(plan)
    return [kind(tau) for tau in plan.taus]


def round_rule(plan: Plan) -> type[NPScoreRule | TrainQuantile]:
    """The rule of a round without a delta."""
    return NPScoreRule if plan.rule == "np_score" else TrainQuantile


def _rescaled(evidence: Evidence, spans: list[Span]) -> float:
    """The mean of the rounds' thresholds, each in standard deviations from its own mean, on the last scale."""
    assert evidence.rounds is not None
    *own, (mean, deviation) = spans
    standard = [(t - at) / width for t, (at, width) in zip(evidence.rounds.thresholds, own, strict=True)]
    return mean + deviation * float(np.mean(standard))


STRATEGIES["oob"] = Strategy(
    out_of_bootstrap,
    promises=lambda plan: plan.delta is not None,
    rule=round_rule,
)


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
