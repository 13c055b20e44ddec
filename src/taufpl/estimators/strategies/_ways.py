"""Strategies: negatives that are held out, counts of folds, random rounds, or the training quantile."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from numbers import Integral, Real
from typing import Any, ClassVar, ParamSpec

import numpy as np
from numpy.typing import NDArray

from taufpl._checks import check_tau
from taufpl._sklearn import Interval, StrOptions
from taufpl._types import Labels, Vector
from taufpl._warnings import warn_user
from taufpl.estimators._reading import enough_folds, possible_folds
from taufpl.estimators._table import NO_ROUNDING, Scores, Strata, Table
from taufpl.estimators.strategies._base import (
    CHECKING,
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
from taufpl.exceptions import TooFewNegativesWarning
from taufpl.thresholding import (
    CrossFitRule,
    Evidence,
    NPScoreRule,
    OrderStatistic,
    PlainQuantile,
    Rounds,
    ScoresLike,
    ThresholdRule,
    TopSample,
    negatives_needed,
    simultaneous_ranks,
)

# threshold="auto" takes "cross" where "np" would leave the scorer less than this share of the negatives, or fewer than
# this number.
_LEAST_TRAIN_SHARE = 0.2
_LEAST_TRAIN_COUNT = 10
# Positives that a model without them has to score: they tell the recall to three percentage points either way.
_ENOUGH_POSITIVES = 1000
# Share of the negatives that is held out, and the most where a proof needs more and there are segments.
_SHARE = 0.5
_MOST_SHARE = 1.0 - _LEAST_TRAIN_SHARE
# This many positives that were held out with their groups tell the recall without further fits.
_MANY = 100


P = ParamSpec("P")


class HeldOut(Strategy):
    """Negatives that are held out of everything else choose the threshold: ``threshold="np"``.

    It is the order statistic that keeps P(FPR > tau) <= delta. Proven, whatever the distribution; the scorer sees fewer
    negatives. Too few of them are refused, with the number that it takes, unless `insufficient` of the classifier says
    otherwise.

    Parameters
    ----------
    share : "auto" or float, default="auto"
        Share of the negatives that is held out. "auto" is one half, or more where the guarantee needs more, cut to the
        smallest number that leaves as many negatives above the threshold.
    measure_recall : bool, default=True
        Whether to estimate the recall: by up to `cv` more fits, each without some of the positives, until 1,000 of them
        have been scored by a model that had not seen them.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from taufpl import NeymanPearsonClassifier
    >>> from taufpl.thresholding import HeldOut
    >>> NeymanPearsonClassifier(LogisticRegression(), threshold=HeldOut(share=0.4))
    NeymanPearsonClassifier(estimator=LogisticRegression(),
                            threshold=HeldOut(share=0.4))
    """

    name = "np"
    holds_out = True
    has_segments = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "share": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto"})],
        "measure_recall": ["boolean"],
    }

    def __init__(self, share: float | str = "auto", measure_recall: bool = True) -> None:
        self.share = share
        self.measure_recall = measure_recall

    def run(self, fitter: Fitter, table: Table, plan: Plan) -> Outcome:
        """Fit on a part of the rows, and let the negatives of the other part choose the thresholds."""
        with self.divide(table, plan, needs_positives=fitter.learns_from_positives) as (train, held_out, limits):
            model = fit_whole(fitter, train)
            scores = fitter.scores(model, held_out)
            warn_rounding(scores)
            evidence = limits.choose(held_out, scores)
            # Late ones tell more of tomorrow than early ones; a few that are held out with their groups tell little.
            enough = 1 if table.is_ordered else min(_MANY, train.n_positive_units)
            counts: Labels | None = None
            if held_out.n_positive >= max(1, enough):
                counts = limits.count([each.threshold for each in evidence], held_out, scores)
            elif self.measure_recall:
                counts = _caught_by_folds(fitter, train, held_out, model, evidence, limits)
            outcome = limits.outcome((model,), evidence, counts, scores.rounding)
            outcome = replace(outcome, sequences=limits.grown(held_out, scores))
            return outcome.without_guarantee(held_out.copies(train))

    @contextmanager
    def divide(self, table: Any, plan: Plan, *, needs_positives: bool) -> Iterator[tuple[Any, Any, Limits]]:
        """Rows to fit on, rows that are held out, and the limits whose thresholds the latter choose."""
        held: int | Strata
        limits: Limits | None = None
        if plan.segments is None:
            held, limits = _held_out_count(table, plan, self.share), CommonLimits(plan)
        elif table.is_ordered or table.units.groups is not None:
            held = _held_out_units(table.n_negative_units, plan, self.share)
        else:
            limits = _attainable_limits(table, plan, self.share)
            held = Strata(limits.limit_of[table.units.segments], _held_out_sizes(table, limits, self.share))
        with table.hold_out(held, plan.seed, needs_positives=needs_positives) as (train, held_out):
            yield train, held_out, limits_of(plan, held_out) if limits is None else limits


def _held_out_units(n_units: int, plan: Plan, share: float | str) -> int:
    """How many units are held out whose segments cannot be chosen: one half, or what one limit for all needs."""
    assert plan.segments is not None
    needed = negatives_needed(max(plan.segments.taus.values()), plan.bound_delta)
    wanted = max(round(_SHARE * n_units), needed) if share == "auto" else round(float(share) * n_units)
    return max(1, min(wanted, n_units - 1))


def _attainable_limits(table: Any, plan: Plan, share: float | str) -> SegmentLimits:
    """The limits that segments can have if they hold out what they can spare."""
    most = _most_share(share)
    return SegmentLimits.divide(plan, [int(most * n) for n in negatives_by_segment(plan, table)])


def _most_share(share: float | str) -> float:
    """The largest share of the negatives that is held out."""
    return _MOST_SHARE if share == "auto" else float(share)


def _held_out_sizes(table: Any, limits: SegmentLimits, share: float | str) -> list[int]:
    """How many negatives each limit holds out; none for one without alarms, which needs no proof."""
    division, places = limits.division, limits.places(table, table.negative_rows)
    counts = np.bincount(places[places >= 0], minlength=len(division.limits)).tolist()
    sizes = []
    for name, rule, n_negative in zip(division.limits, division.rules, counts, strict=True):
        own = replace(limits.plan, taus=(rule.tau,), delta=rule.delta)
        sizes.append(0 if division.is_infinite(name) else held_out_size(n_negative, own, share))
    return sizes


def _held_out_count(table: Table, plan: Plan, share: float | str) -> int:
    """How many units with a negative `np` holds out; too few for the guarantee are refused."""
    n_units = table.n_negative_units
    if n_units < 2:
        raise ValueError("threshold='np' needs at least 2 negatives, one to fit on and one to hold out; got 1.")
    n_held = held_out_size(n_units, plan, share)
    if plan.insufficient == "raise":
        _check_held_out(n_held, n_units, plan, share)
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
    unseen, (n_folds, n_fitted) = fitter.unseen_parts(model, train), _recall_folds(train.n_positive_units, plan)
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


def held_out_size(n_units: int, plan: Plan, share: float | str = "auto") -> int:
    """How many of the units with a negative are held out, at least 1 and at most all but one.

    "auto" is one half, or as many as the guarantee needs, snapped: of all sizes that leave as many negatives above the
    threshold, the smallest. What it saves trains the scorer, and the guarantee is as tight as before. Where more
    negatives will follow, none is in vain, and the size is not snapped.
    """
    if share != "auto":
        return max(1, min(round(float(share) * n_units), n_units - 1))
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


def _recall_folds(n_positive: int, plan: Plan) -> tuple[int, int]:
    """Folds into which the positives are divided to measure the recall, and how many folds a model is fitted without.

    Few positives are all scored by a model without them; of many, as few folds as hold 1,000 of them. (0, 0) where they
    cannot be divided.
    """
    n_folds = min(plan.n_folds, n_positive)
    if n_folds < 2:
        return 0, 0
    return n_folds, enough_folds(n_folds, n_positive, _ENOUGH_POSITIVES)


def _check_held_out(n_held: int, n_units: int, plan: Plan, share: float | str) -> None:
    """Refuse to hold out too few negatives, before anything is fitted, with the numbers that would do."""
    # Sharing delta equally is not the best that can be done; where it just fails, the rule itself decides.
    needed = plan.n_needed
    if n_held >= (needed if plan.sequences is not None else negatives_needed(min(plan.taus), plan.bound_delta)):
        return
    advice = (
        f"threshold=HeldOut(share={min(0.99, 1.01 * needed / n_units):.2g}) would hold out enough"
        if 1.2 * needed < n_units
        else f"about {2 * needed:,} negatives in all are needed"
    )
    raise ValueError(
        f"tau={min(plan.taus):g} at delta={plan.bound_delta:g} needs at least {needed:,} negatives held out, got "
        f"{n_held:,} of {n_units:,} (share={share!r}): {advice}. Or raise tau or delta, take "
        "threshold='cross', which uses all negatives, or set insufficient='infinite' to predict nobody positive."
    )


# Mean and deviation of scores that stay as they are.
_OWN_SCALE = (0.0, 1.0)


class CrossFit(Strategy):
    """A model of all rows, whose false alarms are counted with the help of models of folds: ``threshold="cross"``.

    Its false positives among the rows that it was fitted on are counted, and corrected by what models of folds lose on
    negatives that they have not seen (:class:`CrossFitRule`). Uses all data. Measured rather than proven.

    Parameters
    ----------
    folds : int or None, default=None
        Folds; None is `cv` of the classifier.

    Notes
    -----
    Scores without a scale of their own are brought to that of the model that is fitted on all rows, by the mean and the
    standard deviation that each model gives to the negatives it was fitted on: a ranking has no intercept, and
    shrinkage makes linear scores of fewer rows smaller. Others stay as they are: a forest, which knows its training
    rows by heart, says nothing of its scale by them.

    Examples
    --------
    >>> from taufpl import TauFPLClassifier
    >>> from taufpl.thresholding import CrossFit
    >>> TauFPLClassifier(threshold=CrossFit(folds=10))
    TauFPLClassifier(threshold=CrossFit(folds=10))
    """

    name = "cross"
    _parameter_constraints: ClassVar[dict[str, Any]] = {"folds": [Interval(Integral, 2, None, closed="left"), None]}

    def __init__(self, folds: int | None = None) -> None:
        self.folds = folds

    def run(self, fitter: Fitter, table: Table, plan: Plan) -> Outcome:
        """Fit on all rows, and on those of each fold's others."""
        model = fit_whole(fitter, table)
        scored = fitter.scores(model, table.negatives(plan.seed))
        scores = scored.negative
        n_folds = possible_folds(self.folds or plan.n_folds, table)
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


class OutOfBootstrap(Strategy):
    """The paper's out-of-bootstrap: the mean of the thresholds of random rounds, ``threshold="oob"``.

    In each of `n_rounds` rounds a random `train_share` of the rows trains, and the rest picks a threshold by `rule`,
    or, where the classifier has a `delta`, by the order statistic. Nothing is proven; with ``delta=None`` up to six of
    ten fits exceed the tolerance.

    Parameters
    ----------
    n_rounds : int, default=10
        How many rounds.
    train_share : float, default=2/3
        Share of the rows that trains in a round.
    rule : {"np_score", "quantile"}, default="np_score"
        How a round picks its threshold if `delta` is None: by the lowest max(FPR, tau)/tau - TPR, the paper's choice
        (:class:`NPScoreRule`), or as the plain quantile.
    combine : {"mean", "refit"}, default="mean"
        What comes out: the mean of the rounds' decision functions, or a model fitted on all rows, with the mean
        threshold brought to its scale by the mean and the standard deviation that both models give to the negatives.

    Examples
    --------
    >>> from taufpl import TauFPLClassifier
    >>> from taufpl.thresholding import OutOfBootstrap
    >>> paper = TauFPLClassifier(ranking="paper", tau_scale=2, threshold=OutOfBootstrap(n_rounds=20), delta=None)
    >>> paper.set_params(threshold__rule="quantile").threshold
    OutOfBootstrap(n_rounds=20, rule='quantile')
    """

    name = "oob"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "train_share": [Interval(Real, 0, 1, closed="neither")],
        "rule": [StrOptions({"np_score", "quantile"})],
        "combine": [StrOptions({"mean", "refit"})],
    }

    def __init__(
        self, n_rounds: int = 10, train_share: float = 2 / 3, rule: str = "np_score", combine: str = "mean"
    ) -> None:
        self.n_rounds = n_rounds
        self.train_share = train_share
        self.rule = rule
        self.combine = combine

    def promises(self, plan: Plan) -> bool:
        """Whether rounds take the order statistic of a delta."""
        return plan.delta is not None

    def rule_for(self, tau: float, plan: Plan) -> ThresholdRule:
        """How a round picks its threshold."""
        if plan.delta is not None:
            return OrderStatistic(tau, plan.delta, "largest")
        return NPScoreRule(tau) if self.rule == "np_score" else PlainQuantile(tau)

    def run(self, fitter: Fitter, table: Table, plan: Plan) -> Outcome:
        """Fit in every round; a row counts as positive where the rounds that held it out say so on average."""
        _check_classes(table)
        with table.rounds(self.n_rounds, self.train_share, plan.seed) as parts, table.tally(len(plan.taus)) as tally:
            fitter.prepare(table)
            whole = fitter.fit(table) if self.combine == "refit" or fitter.learns_from_neighbours else None
            models, found, rounding = [], [], NO_ROUNDING
            run = partial(_one_round, fitter=fitter, near=whole, rules=[self.rule_for(tau, plan) for tau in plan.taus])
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
        if self.combine == "mean":
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


def _rescaled(evidence: Evidence, spans: list[Span]) -> float:
    """The mean of the rounds' thresholds, each in standard deviations from its own mean, on the last scale."""
    assert evidence.rounds is not None
    *own, (mean, deviation) = spans
    standard = [(t - at) / width for t, (at, width) in zip(evidence.rounds.thresholds, own, strict=True)]
    return mean + deviation * float(np.mean(standard))


class TrainQuantile(Strategy):
    """The plain quantile (Proposition 1 of the paper): at most a share tau of the given negatives above it.

    ::

        t = s_[k],   k = floor(tau n) + 1,   s_[1] >= s_[2] >= ... >= s_[n]

    It holds the tolerance on the negatives that it was given. On new ones it exceeds it about every other time, even
    if the scorer never saw the given ones, and more often if it did. As a rule it chooses among scores; as the
    `threshold` of a classifier, ``threshold="train"``, among those of the negatives that the model was fitted on.

    Parameters
    ----------
    tau : float or None, default=None
        Tolerance of the rule, at least 0 and below 1. None as the `threshold` of a classifier, which has its own.

    Examples
    --------
    >>> from taufpl.thresholding import TrainQuantile
    >>> evidence = TrainQuantile(tau=0.25).choose([0.1, 0.9, 0.3, 0.5])
    >>> evidence.threshold, evidence.fpr_estimate, evidence.guaranteed
    (0.5, 0.25, False)
    """

    name = "train"

    def __init__(self, tau: float | None = None) -> None:
        if tau is not None:
            check_tau(tau, zero=True)
        self.tau = tau

    def check(self) -> None:
        """Refuse a tolerance beside that of the classifier."""
        if self.tau is not None:
            raise ValueError(f"threshold=TrainQuantile() takes the tau of the classifier: leave it out, got {self!r}.")

    def choose(self, negative_scores: ScoresLike, positive_scores: ScoresLike | None = None) -> Evidence:
        """Choose the quantile of the negatives; positives play no part.

        Parameters
        ----------
        negative_scores : array-like of shape (n_negative,), or Sample
        positive_scores : array-like of shape (n_positive,), or Sample, default=None

        Returns
        -------
        Evidence
        """
        if self.tau is None:
            raise ValueError("TrainQuantile() chooses among scores with a tau: TrainQuantile(tau=0.05), say.")
        return PlainQuantile(self.tau).choose(negative_scores, positive_scores)

    def promises(self, plan: Plan) -> bool:
        """Nothing."""
        return False

    def run(self, fitter: Fitter, table: Table, plan: Plan) -> Outcome:
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
    return [scores.rounding.raised(PlainQuantile(tau).choose(scores.negative).threshold) for tau in taus]


STRATEGIES: dict[str, type[Strategy]] = {each.name: each for each in (HeldOut, CrossFit, OutOfBootstrap, TrainQuantile)}


class Automatic(Strategy):
    """Held-out negatives where there are enough for a proof, else folds, with a warning: ``threshold="auto"``."""

    name = "auto"
    has_segments = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {"held_out": [HeldOut, None]}

    def __init__(self, held_out: HeldOut | None = None) -> None:
        self.held_out = held_out

    def check(self) -> None:
        """Refuse settings that have no meaning."""
        super().check()
        self.for_fitted.check()

    @property
    def for_fitted(self) -> HeldOut:
        """Held-out negatives, which is what rows are for a scorer that is fitted already."""
        return self.held_out or HeldOut()

    def for_rows(self, table: Table, plan: Plan, *, warns: bool = True) -> Strategy:
        """Held-out negatives or folds."""
        n_units, held_out, ordered = table.n_negative_units, self.for_fitted, table.is_ordered
        enough = max(math.ceil(plan.n_needed / _most_share(held_out.share)), plan.n_needed + _LEAST_TRAIN_COUNT)
        if plan.segments is not None or n_units >= enough or plan.insufficient == "infinite":
            return held_out
        if warns:
            warn_user(
                f"tau={min(plan.taus):g} at delta={plan.bound_delta:g} needs {plan.n_needed:,} negatives held out for "
                f"a proof, at least {enough:,} in all; there are {n_units:,}. The threshold was chosen by 'cross', "
                f"which is measured, not proven{', and which does not respect the order of the rows' * ordered}. "
                "Collect more negatives, raise tau or delta, or set threshold='cross'"
                f"{' and leave order out' * ordered} to accept this.",
                TooFewNegativesWarning,
            )
        return CrossFit()

    def run(self, fitter: Fitter, table: Table, plan: Plan) -> Outcome:
        """Run what the rows allow."""
        return self.for_rows(table, plan).run(fitter, table, plan)


def most_held_out(n_units: int, share: float | str = "auto") -> int:
    """The most negatives that held-out ones may be of some, so that "auto" takes them."""
    return min(int(_most_share(share) * n_units), n_units - _LEAST_TRAIN_COUNT)


def strategy_of(threshold: str | Strategy) -> Strategy:
    """The strategy that the parameter `threshold` of a classifier names or is."""
    kinds: dict[str, type[Strategy]] = {"auto": Automatic, **STRATEGIES}
    found = threshold if isinstance(threshold, Strategy) else kinds[threshold]()
    found.check()
    return found


def check_segment_strategy(strategy: Strategy) -> None:
    """Refuse limits by segment by a strategy that has none."""
    if not strategy.has_segments:
        raise ValueError(
            f"segments are for threshold='np', or 'auto', which then is 'np'; got threshold={strategy.name!r}, which "
            "has no limits by segment."
        )


# The parameters of classifiers of 0.1 that strategies have now, to be removed in 0.4.
_EARLIER: dict[str, tuple[type[Strategy], str]] = {
    "holdout": (HeldOut, "share"),
    "measure_recall": (HeldOut, "measure_recall"),
    **{name: (OutOfBootstrap, name) for name in ("n_rounds", "train_share", "rule", "combine")},
}


def takes_earlier_parameters(*names: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Let the constructor of a classifier take parameters of 0.1, those named or all, beside those of its signature."""

    def decorate(init: Callable[P, None]) -> Callable[P, None]:
        @wraps(init)
        def wrapper(*args: Any, **given: Any) -> None:
            earlier = {name: given.pop(name) for name in names or _EARLIER if name in given}
            if earlier:
                given["threshold"] = _with_earlier_parameters(given.get("threshold", "auto"), earlier)
            init(*args, **given)

        return wrapper

    return decorate


def _with_earlier_parameters(threshold: Any, given: dict[str, Any]) -> Any:
    """The parameter `threshold` that parameters of 0.1 stand for, with a warning that says what to write."""
    found, idle = _translated(threshold, given)
    moved = given.keys() - idle
    if moved and not isinstance(threshold, str):
        raise TypeError(f"{_listed(given, moved)} must be given as a setting of threshold={threshold!r}.")
    if found == threshold:
        advice = f"leave it out, threshold={threshold!r} does the same"
    elif isinstance(found, Automatic):
        advice = f"write threshold={found.held_out!r}, which refuses too few negatives where 'auto' takes 'cross'"
    else:
        advice = f"write threshold={found!r}"
    for names, then in ((moved, advice), (idle, f"leave it out, it has no effect where threshold={threshold!r}")):
        if names:
            which = f"{_listed(given, names)} {'is' if len(names) == 1 else 'are'}"
            warn_user(f"{which} deprecated: {then}. Version 0.4 will refuse that.", FutureWarning)
    return found


def without_earlier_parameters(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a classifier, which may be of 0.1 and have its parameters."""
    given = {name: state[name] for name in _EARLIER if name in state}
    if not given:
        return state
    state = {name: each for name, each in state.items() if name not in given}
    name, is_fitted = state["threshold"], "evidence_" in state
    # The first files do not say by name how the threshold was chosen.
    known = {"strategy_": name} if is_fitted and "strategy_" not in state else {}
    return {**state, **known, "threshold": _translated(name, given)[0]}


def _translated(threshold: Any, given: dict[str, Any]) -> tuple[Any, set[str]]:
    """What `threshold` is with parameters of 0.1, as a name where they are its defaults, and those without effect."""
    kinds: dict[Any, Any] = {"auto": HeldOut, **STRATEGIES}
    kind: Any = kinds.get(threshold) if isinstance(threshold, str) else type(threshold)
    own = {name: each for name, each in given.items() if _EARLIER[name][0] is kind}
    idle = given.keys() - own
    if not own or not isinstance(threshold, str):
        return threshold, idle
    found = kind(**{_EARLIER[name][1]: each for name, each in own.items()})
    if found.get_params() == kind().get_params():
        return threshold, idle
    return Automatic(found) if threshold == "auto" else found, idle


def _listed(given: dict[str, Any], names: Any) -> str:
    return " and ".join(f"{name}={each!r}" for name, each in given.items() if name in names)
