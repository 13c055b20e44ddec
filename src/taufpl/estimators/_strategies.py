"""Where a model and its threshold come from: one data set, four ways to divide it.

A strategy sees a :class:`Fitter`, which fits models on some rows and scores others. It returns one or more models,
whose mean score counts, and a threshold on that mean for each tolerance. The evidence for it rests on negatives that
the model that scored them had not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.parallel import Parallel, delayed

from taufpl.estimators._labels import split_rows
from taufpl.estimators._search import possible_folds
from taufpl.thresholding import (
    USUAL_DELTA,
    Evidence,
    JointOrderStatistic,
    NPScoreRule,
    OrderStatistic,
    Rounds,
    ThresholdRule,
    TrainQuantile,
    fpr_upper_bound,
    negatives_needed,
    stratified_rounds,
)

Vector = NDArray[np.float64]
Rows = NDArray[np.intp]


class Fitter(Protocol):
    """Data of two classes, a way to fit models on some rows, and to score others.

    Attributes
    ----------
    positive_rows, negative_rows : ndarray of int
    learns_from_neighbours : bool
        Whether a fit gains from the model of a neighbouring set of rows.
    """

    positive_rows: Rows
    negative_rows: Rows
    learns_from_neighbours: bool

    def prepare(self, rows: Rows) -> None:
        """Choose what is chosen once before any fit, from these rows alone."""

    def fit(self, rows: Rows, near: Any = None) -> Any:
        """Fit a model on these rows, starting from the model of a neighbouring set of rows."""

    def scores(self, model: Any, rows: Rows) -> Vector:
        """Scores of these rows."""

    def is_linear(self, model: Any) -> bool:
        """Whether scores are linear in the features."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings that strategies share.

    Attributes
    ----------
    taus : tuple of float
    delta : float or None
    n_rounds, train_share, rule, combine
        Of out-of-bootstrap thresholding: how many rounds, which share of the rows trains, how a round picks its
        threshold ("np_score" or "quantile"), and what becomes of the rounds ("mean" or "refit").
    holdout : float
        Share of the negatives that `np` holds out.
    n_folds : int
        Of `cross`, and of the check of `train`.
    insufficient : {"raise", "infinite"}
        What `np` does with too few negatives.
    seed : int
    n_jobs : int or None
    """

    taus: tuple[float, ...]
    delta: float | None = USUAL_DELTA
    n_rounds: int = 10
    train_share: float = 2 / 3
    rule: str = "np_score"
    combine: str = "mean"
    holdout: float = 0.5
    n_folds: int = 5
    insufficient: Any = "raise"
    seed: int = 0
    n_jobs: int | None = None

    @property
    def bound_delta(self) -> float:
        """Level of the upper bounds that are reported."""
        return USUAL_DELTA if self.delta is None else self.delta


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


def hold_out(fitter: Fitter, plan: Plan) -> Outcome:
    """`np`: negatives that are held out, and never fitted on, choose the threshold with a guarantee."""
    if fitter.negative_rows.size < 2:
        raise ValueError("threshold='np' needs at least 2 negatives, one to fit on and one to hold out; got 1.")
    negatives = np.random.default_rng(plan.seed).permutation(fitter.negative_rows)
    n_held = max(1, min(round(plan.holdout * negatives.size), negatives.size - 1))
    if plan.insufficient == "raise":
        check_held_out(n_held, negatives.size, plan)
    train = np.sort(np.concatenate((fitter.positive_rows, negatives[n_held:])))
    fitter.prepare(train)
    model = fitter.fit(train)
    scores = fitter.scores(model, np.sort(negatives[:n_held]))
    rule = JointOrderStatistic(plan.taus, plan.bound_delta, plan.insufficient)
    return Outcome((model,), rule.choose_all(scores), largest(scores))


def check_held_out(n_held: int, n_negative: int, plan: Plan) -> None:
    """Refuse before anything is fitted, with the numbers that would do."""
    level = plan.bound_delta / len(plan.taus)
    needed = negatives_needed(min(plan.taus), level)
    # Sharing delta equally is not the best that can be done; where it just fails, the rule itself decides.
    if n_held >= negatives_needed(min(plan.taus), plan.bound_delta):
        return
    advice = (
        f"holdout={min(0.99, 1.01 * needed / n_negative):.2g} would hold out enough"
        if 1.2 * needed < n_negative
        else f"about {2 * needed} negatives in all are needed"
    )
    raise ValueError(
        f"tau={min(plan.taus):g} at delta={plan.bound_delta:g} needs at least {needed} negatives held out, got "
        f"{n_held} of {n_negative} (holdout={plan.holdout:g}): {advice}. Or raise tau or delta, take "
        "threshold='cross', which uses all negatives, or set insufficient='infinite' to predict nobody positive."
    )


def cross_fit(fitter: Fitter, plan: Plan) -> Outcome:
    """`cross`: every row is scored by a model that has not seen it; the model itself is fitted on all rows.

    Scores of folds are brought to the scale of the model that is fitted on all rows, by the mean and the standard
    deviation that each gives to the negatives it was fitted on: shrinkage, for one, makes scores of fewer rows smaller.
    That is right for linear scores. A forest knows its training rows by heart, and they say little of its scale, so
    that for other scores the higher threshold counts, with and without it.
    """
    rows = _all_rows(fitter)
    fitter.prepare(rows)
    model = fitter.fit(rows)
    splits = _folds(fitter, plan)
    parts = _parallel(plan, _fit_and_score, ((fitter, train, held_out, model) for train, held_out in splits))
    target = _span(fitter, model, fitter.negative_rows)
    spans = [
        _span(fitter, own, np.intersect1d(train, fitter.negative_rows, assume_unique=True))
        for (own, _), (train, _) in zip(parts, splits, strict=True)
    ]
    views = [_pooled(parts, spans, target)]
    if not fitter.is_linear(model):
        views.append(_pooled(parts, [target] * len(parts), target))
    rule = JointOrderStatistic(plan.taus, plan.bound_delta, "largest")
    found = [
        [replace(each, guaranteed=False).with_recall(positive) for each in rule.choose_all(negative)]
        for positive, negative in views
    ]
    evidence = tuple(max(same_tau, key=lambda each: each.threshold) for same_tau in zip(*found, strict=True))
    return Outcome((model,), evidence, max(largest(negative) for _, negative in views))


def _pooled(
    parts: list[tuple[Any, Held]], spans: list[tuple[float, float]], target: tuple[float, float]
) -> tuple[Vector, Vector]:
    """Scores of all held-out positives and negatives, moved from the spans of their folds to the target's."""
    moved = []
    for (at, width), (_, scores) in zip(spans, parts, strict=True):
        factor = target[1] / width
        moved.append([target[0] + factor * (own - at) for own in (scores.positive, scores.negative)])
    positive, negative = zip(*moved, strict=True)
    return np.concatenate(positive), np.concatenate(negative)


def train_quantile(fitter: Fitter, plan: Plan) -> Outcome:
    """`train`: the quantile of the negatives that the model was fitted on; folds tell what that is worth."""
    rows = _all_rows(fitter)
    fitter.prepare(rows)
    model = fitter.fit(rows)
    scores = fitter.scores(model, fitter.negative_rows)
    jobs = ((fitter, train, held_out, model, plan.taus) for train, held_out in _folds(fitter, plan))
    counts = np.sum(_parallel(plan, _count_above_train_quantile, jobs), axis=0)
    evidence = []
    for tau, (n_false, n_caught) in zip(plan.taus, counts, strict=True):
        threshold = TrainQuantile(tau).choose(scores).threshold
        recall = float(n_caught / fitter.positive_rows.size)
        evidence.append(counted(threshold, tau, plan, int(n_false), fitter.negative_rows.size, tpr_estimate=recall))
    return Outcome((model,), tuple(evidence), largest(scores))


def _count_above_train_quantile(
    fitter: Fitter, train: Rows, held_out: Rows, near: Any, taus: tuple[float, ...]
) -> NDArray[np.int64]:
    model, scores = _fit_and_score(fitter, train, held_out, near)
    own = fitter.scores(model, np.intersect1d(train, fitter.negative_rows, assume_unique=True))
    thresholds = [TrainQuantile(tau).choose(own).threshold for tau in taus]
    return np.array([[np.sum(scores.negative > t), np.sum(scores.positive > t)] for t in thresholds])


def out_of_bootstrap(fitter: Fitter, plan: Plan) -> Outcome:
    """`oob`, the paper's: in each round a random part trains and the rest picks a threshold; the mean is taken.

    The models are those of the rounds, or one fitted on all rows. In the second case a round's threshold is brought to
    that model's scale by the mean and the standard deviation that both models give to the negatives.
    """
    rows = _all_rows(fitter)
    fitter.prepare(rows)
    whole = fitter.fit(rows) if plan.combine == "refit" or fitter.learns_from_neighbours else None
    is_positive = np.isin(rows, fitter.positive_rows, assume_unique=True)
    splits = [
        (rows[train], rows[held_out])
        for train, held_out in stratified_rounds(is_positive, plan.n_rounds, plan.train_share, plan.seed)
    ]
    parts = _parallel(plan, _fit_and_score, ((fitter, train, held_out, whole) for train, held_out in splits))
    rounds = [_rounds(parts, rule) for rule in round_rules(plan)]
    evidence = tuple(_out_of_bag(fitter, parts, each, tau, plan) for tau, each in zip(plan.taus, rounds, strict=True))
    scale = max(largest(scores.negative) for _, scores in parts)
    if plan.combine == "mean":
        return Outcome(tuple(model for model, _ in parts), evidence, scale)
    spans = [_span(fitter, model, fitter.negative_rows) for model, _ in (*parts, (whole, None))]
    return Outcome((whole,), tuple(replace(each, threshold=rescaled(each, spans)) for each in evidence), scale)


def round_rules(plan: Plan) -> list[ThresholdRule]:
    if plan.delta is not None:
        return [OrderStatistic(tau, plan.delta, "largest") for tau in plan.taus]
    kind = NPScoreRule if plan.rule == "np_score" else TrainQuantile
    return [kind(tau) for tau in plan.taus]


def _rounds(parts: list[tuple[Any, Held]], rule: ThresholdRule) -> Rounds:
    found = [rule.choose(scores.negative, scores.positive).threshold for _, scores in parts]
    fpr = [np.mean(scores.negative > t) for t, (_, scores) in zip(found, parts, strict=True)]
    tpr = [np.mean(scores.positive > t) for t, (_, scores) in zip(found, parts, strict=True)]
    return Rounds(np.array(found), np.array(fpr), np.array(tpr))


def _out_of_bag(fitter: Fitter, parts: list[tuple[Any, Held]], rounds: Rounds, tau: float, plan: Plan) -> Evidence:
    """Count a row as positive where the rounds that held it out say so on average."""
    n_rows = int(max(fitter.positive_rows.max(), fitter.negative_rows.max())) + 1
    total, count = np.zeros(n_rows), np.zeros(n_rows)
    for threshold, (_, scores) in zip(rounds.thresholds, parts, strict=True):
        total[scores.rows] += np.concatenate((scores.positive, scores.negative)) - threshold
        count[scores.rows] += 1
    negative = fitter.negative_rows[count[fitter.negative_rows] > 0]
    positive = fitter.positive_rows[count[fitter.positive_rows] > 0]
    return counted(
        float(rounds.thresholds.mean()),
        tau,
        plan,
        int(np.sum(total[negative] > 0)),
        negative.size,
        tpr_estimate=float(np.mean(total[positive] > 0)),
        rounds=rounds,
    )


def _span(fitter: Fitter, model: Any, rows: Rows) -> tuple[float, float]:
    """Mean and standard deviation of the scores of some rows; (0, 1) where they say nothing."""
    scores = fitter.scores(model, rows)
    at, width = float(scores.mean()), float(scores.std())
    return (at, width) if np.isfinite(at) and np.isfinite(width) and width > 0 else (0.0, 1.0)


def rescaled(evidence: Evidence, spans: list[tuple[float, float]]) -> float:
    """The mean of the rounds' thresholds, each in standard deviations from its own mean, on the last scale."""
    assert evidence.rounds is not None
    *own, (mean, deviation) = spans
    standard = [(t - at) / width for t, (at, width) in zip(evidence.rounds.thresholds, own, strict=True)]
    return mean + deviation * float(np.mean(standard))


STRATEGIES: dict[str, Callable[[Fitter, Plan], Outcome]] = {
    "train": train_quantile,
    "oob": out_of_bootstrap,
    "cross": cross_fit,
    "np": hold_out,
}


@dataclass(frozen=True, slots=True)
class Held:
    """Scores of the held-out rows, which are named positives first."""

    rows: Rows
    positive: Vector
    negative: Vector


def _fit_and_score(fitter: Fitter, train: Rows, held_out: Rows, near: Any) -> tuple[Any, Held]:
    model = fitter.fit(train, near)
    positive, negative = split_rows(held_out, fitter.positive_rows)
    rows = np.concatenate((positive, negative))
    scores = fitter.scores(model, rows)
    return model, Held(rows, scores[: positive.size], scores[positive.size :])


def largest(scores: Vector) -> float:
    """Size of the largest finite score."""
    return float(np.max(np.abs(scores), where=np.isfinite(scores), initial=0.0))


def _all_rows(fitter: Fitter) -> Rows:
    return np.sort(np.concatenate((fitter.positive_rows, fitter.negative_rows)))


def _folds(fitter: Fitter, plan: Plan) -> list[tuple[Rows, Rows]]:
    rows = _all_rows(fitter)
    is_positive = np.isin(rows, fitter.positive_rows, assume_unique=True)
    n_folds = possible_folds(plan.n_folds, fitter.positive_rows.size, fitter.negative_rows.size)
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=plan.seed)
    return [(rows[train], rows[test]) for train, test in splitter.split(np.zeros((rows.size, 1)), is_positive)]


def counted(
    threshold: float,
    tau: float,
    plan: Plan,
    n_false: int,
    n_negative: int,
    *,
    tpr_estimate: float,
    rounds: Rounds | None = None,
) -> Evidence:
    """Evidence from a count among rows that were not fitted on."""
    bound = fpr_upper_bound(n_false, n_negative, plan.bound_delta)
    return Evidence(
        threshold,
        tau,
        plan.delta,
        n_negative,
        n_false,
        n_false / n_negative,
        bound,
        rank=None,
        guaranteed=False,
        rounds=rounds,
        tpr_estimate=tpr_estimate,
    )


def _parallel(plan: Plan, function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> list[Any]:
    return list(Parallel(n_jobs=plan.n_jobs)(delayed(function)(*job) for job in jobs))
