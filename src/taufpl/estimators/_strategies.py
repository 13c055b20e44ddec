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

from taufpl.estimators._holdout import HoldOut, divide, recall_folds
from taufpl.estimators._labels import split_rows
from taufpl.estimators._plan import Plan
from taufpl.estimators._repeats import repeats_caveat
from taufpl.estimators._search import possible_folds
from taufpl.estimators._units import Rows, Units
from taufpl.thresholding import (
    CrossFitRule,
    Evidence,
    JointOrderStatistic,
    NPScoreRule,
    OrderStatistic,
    Rounds,
    ThresholdRule,
    TrainQuantile,
    fpr_upper_bound,
    stratified_rounds,
)

Vector = NDArray[np.float64]


# So many positives that were held out with their groups tell the recall without further fits.
_MANY = 100


class Fitter(Protocol):
    """Data of two classes, a way to fit models on some rows, and to score others.

    Attributes
    ----------
    positive_rows, negative_rows : ndarray of int
    units : Units
        Which rows belong together.
    learns_from_neighbours : bool
        Whether a fit gains from the model of a neighbouring set of rows.
    learns_from_positives : bool
        Whether a fit looks at positives; an outlier detector does not.
    """

    positive_rows: Rows
    negative_rows: Rows
    units: Units
    learns_from_neighbours: bool
    learns_from_positives: bool

    def prepare(self, rows: Rows) -> None:
        """Choose what is chosen once before any fit, from these rows alone."""

    def fit(self, rows: Rows, near: Any = None) -> Any:
        """Fit a model on these rows, starting from the model of a neighbouring set of rows."""

    def scores(self, model: Any, rows: Rows) -> Vector:
        """Scores of these rows."""

    def is_linear(self, model: Any) -> bool:
        """Whether scores are linear in the features."""

    def has_scale(self, model: Any) -> bool:
        """Whether models of other rows score on the same scale, as probabilities and log-odds are."""


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

    def without_guarantee(self, caveat: str) -> Outcome:
        """The same, for a reason that voids the guarantee."""
        return replace(self, evidence=tuple(each.without_guarantee(caveat) for each in self.evidence))


def hold_out(fitter: Fitter, plan: Plan) -> Outcome:
    """`np`: negatives that are held out, and never fitted on, choose the threshold with a guarantee."""
    rows = (fitter.positive_rows, fitter.negative_rows)
    held = divide(*rows, fitter.units, plan, needs_positives=fitter.learns_from_positives)
    fitter.prepare(held.train)
    model = fitter.fit(held.train)
    scores = fitter.scores(model, held.negatives)
    rule = JointOrderStatistic(plan.taus, plan.bound_delta, plan.insufficient)
    outcome = Outcome((model,), _with_recall(fitter, plan, held, model, rule.choose_all(scores)), largest(scores))
    caveat = repeats_caveat(fitter.units.repeats, held.train, held.negatives)
    return outcome if caveat is None else outcome.without_guarantee(caveat)


def _with_recall(
    fitter: Fitter, plan: Plan, held: HoldOut, model: Any, evidence: tuple[Evidence, ...]
) -> tuple[Evidence, ...]:
    """Evidence with the recall on positives that a model has not seen, if there are any, or else by folds over them.

    A fold's model is fitted without the positives of the fold, the same negatives as before choose its threshold, and
    the positives of the fold are counted above it.
    """
    units = fitter.units
    fresh = units.one_each(held.positives if fitter.learns_from_positives else fitter.positive_rows, plan.seed)
    positive, _ = split_rows(held.train, fitter.positive_rows)
    # Late ones tell more of tomorrow than early ones; a few that are held out with their groups tell little.
    if fresh.size and (units.times is not None or fresh.size >= min(_MANY, units.count(positive))):
        scores = fitter.scores(model, fresh)
        return tuple(each.with_recall(scores) for each in evidence)
    n_folds, n_fitted = recall_folds(units.count(positive), plan)
    if not n_folds:
        return evidence
    folds = units.deal(positive, np.ones(positive.size, dtype=bool), n_folds, plan.seed)
    ranks = tuple(each.rank for each in evidence)
    jobs = ((fitter, held, positive[folds == fold], model, ranks, plan.seed) for fold in range(n_fitted))
    caught, n_counted = np.sum(_parallel(plan, _count_caught, jobs), axis=0), units.count(positive[folds < n_fitted])
    return tuple(each.with_caught(int(count), n_counted) for each, count in zip(evidence, caught, strict=True))


def _count_caught(
    fitter: Fitter, held: HoldOut, fold: Rows, near: Any, ranks: tuple[int | None, ...], seed: int
) -> NDArray[np.int64]:
    """How many positives of a fold, one of each unit, lie above the thresholds of a model fitted without the fold."""
    model = fitter.fit(held.train[~fitter.units.with_all(fold, held.train)], near)
    negative = np.sort(fitter.scores(model, held.negatives))
    positive = fitter.scores(model, fitter.units.one_each(fold, seed))
    # Without a rank the threshold is infinite.
    return np.array([0 if rank is None else np.sum(positive > negative[rank - 1]) for rank in ranks])


def cross_fit(fitter: Fitter, plan: Plan) -> Outcome:
    """`cross`: the model is fitted on all rows; models of folds tell how much that flatters it (`CrossFitRule`).

    Scores without a scale of their own are brought to that of the model that is fitted on all rows, by the mean and the
    standard deviation that each model gives to the negatives it was fitted on: a ranking has no intercept, and
    shrinkage makes linear scores of fewer rows smaller. Others stay as they are: a forest, which knows its training
    rows by heart, says nothing of its scale by them.
    """
    rows = _all_rows(fitter)
    fitter.prepare(rows)
    model = fitter.fit(rows)
    negatives = fitter.units.one_each(fitter.negative_rows, plan.seed)
    scores = fitter.scores(model, negatives)
    target = None if fitter.has_scale(model) else span(scores)
    splits = _folds(fitter, plan)
    jobs = ((fitter, train, held_out, model, negatives, target) for train, held_out in splits)
    positive, held_out, fold_train = map(np.concatenate, zip(*_parallel(plan, _cross_fit_fold, jobs), strict=True))
    rule = CrossFitRule(plan.taus, plan.bound_delta, len(splits) if fitter.is_linear(model) else None)
    found = rule.choose_all(scores, held_out, fold_train)
    evidence = tuple(each.with_recall(positive) for each in found)
    return Outcome((model,), evidence, max(largest(scores), largest(held_out)))


def _cross_fit_fold(
    fitter: Fitter, train: Rows, held_out: Rows, near: Any, negatives: Rows, target: tuple[float, float] | None
) -> tuple[Vector, ...]:
    """Scores of a fold's positives, of its negatives, and of the negatives that its model was fitted on."""
    model, held = _fit_and_score(fitter, train, held_out, near)
    own = fitter.scores(model, np.intersect1d(train, negatives, assume_unique=True))
    found = (held.positive, held.negative, own)
    if target is None:
        return found
    at, width = span(own)
    return tuple(target[0] + target[1] / width * (scores - at) for scores in found)


def train_quantile(fitter: Fitter, plan: Plan) -> Outcome:
    """`train`: the quantile of the negatives that the model was fitted on; folds tell what that is worth."""
    rows = _all_rows(fitter)
    fitter.prepare(rows)
    model = fitter.fit(rows)
    scores = fitter.scores(model, fitter.negative_rows)
    jobs = ((fitter, train, held_out, model, plan.taus) for train, held_out in _folds(fitter, plan))
    counts = np.sum(_parallel(plan, _count_above_train_quantile, jobs), axis=0)
    n_negative, n_positive = fitter.units.count(fitter.negative_rows), fitter.positive_rows.size
    evidence = []
    for tau, (n_false, n_caught) in zip(plan.taus, counts, strict=True):
        threshold = TrainQuantile(tau).choose(scores).threshold
        evidence.append(evidence_from_counts(threshold, tau, plan, (n_false, n_negative), (n_caught, n_positive)))
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
    splits = _random_rounds(fitter, plan)
    parts = _parallel(plan, _fit_and_score, ((fitter, train, held_out, whole) for train, held_out in splits))
    rounds = [_rounds(parts, rule) for rule in round_rules(plan)]
    evidence = tuple(_out_of_bag(fitter, parts, each, tau, plan) for tau, each in zip(plan.taus, rounds, strict=True))
    scale = max(largest(scores.negative) for _, scores in parts)
    if plan.combine == "mean":
        return Outcome(tuple(model for model, _ in parts), evidence, scale)
    spans = [span(fitter.scores(model, fitter.negative_rows)) for model, _ in (*parts, (whole, None))]
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
    false = (int(np.sum(total[negative] > 0)), negative.size)
    caught = (int(np.sum(total[positive] > 0)), positive.size)
    return evidence_from_counts(float(rounds.thresholds.mean()), tau, plan, false, caught, rounds)


def span(scores: Vector) -> tuple[float, float]:
    """Mean and standard deviation of some scores; (0, 1) where they say nothing."""
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
    """Rows to fit on, and rows to score: all positives of the fold, and of each of its units one negative."""
    rows, is_positive = _all_rows(fitter), _is_positive(fitter)
    sizes = (fitter.units.count(fitter.positive_rows), fitter.units.count(fitter.negative_rows))
    n_folds = possible_folds(plan.n_folds, *sizes)
    if fitter.units.groups is not None:
        folds = fitter.units.deal(rows, is_positive, n_folds, plan.seed)
        return [(rows[folds != fold], _one_negative_each(fitter, plan, rows[folds == fold])) for fold in range(n_folds)]
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=plan.seed)
    return [(rows[train], rows[test]) for train, test in splitter.split(np.zeros((rows.size, 1)), is_positive)]


def _random_rounds(fitter: Fitter, plan: Plan) -> list[tuple[Rows, Rows]]:
    """The same for the rounds of `oob`."""
    rows, is_positive = _all_rows(fitter), _is_positive(fitter)
    # A group is positive if one of its rows is, and goes as a whole.
    codes, places = np.unique(fitter.units.of(rows), return_inverse=True)
    of_units = np.zeros(codes.size, dtype=bool)
    of_units[places[is_positive]] = True
    rounds = stratified_rounds(of_units, plan.n_rounds, plan.train_share, plan.seed)
    return [
        (rows[np.isin(places, train)], _one_negative_each(fitter, plan, rows[np.isin(places, held_out)]))
        for train, held_out in rounds
    ]


def _one_negative_each(fitter: Fitter, plan: Plan, held_out: Rows) -> Rows:
    """All positives among these rows, and of each unit one negative."""
    positive, negative = split_rows(held_out, fitter.positive_rows)
    return np.sort(np.concatenate((positive, fitter.units.one_each(negative, plan.seed))))


def _is_positive(fitter: Fitter) -> NDArray[np.bool_]:
    """Of all rows."""
    return np.isin(_all_rows(fitter), fitter.positive_rows, assume_unique=True)


def evidence_from_counts(
    threshold: float,
    tau: float,
    plan: Plan,
    false_positives: tuple[int, int],
    true_positives: tuple[int, int],
    rounds: Rounds | None = None,
) -> Evidence:
    """Evidence from counts among rows that were not fitted on, each above the threshold and of how many."""
    n_false, n_negative = (int(each) for each in false_positives)
    bound = fpr_upper_bound(n_false, n_negative, plan.bound_delta)
    share = n_false / n_negative
    found = Evidence(
        threshold, tau, plan.delta, n_negative, n_false, share, bound, rank=None, guaranteed=False, rounds=rounds
    )
    return found.with_caught(int(true_positives[0]), int(true_positives[1]))


def _parallel(plan: Plan, function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> list[Any]:
    return list(Parallel(n_jobs=plan.n_jobs)(delayed(function)(*job) for job in jobs))
