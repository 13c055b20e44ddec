"""The systems that the experiments compare: the search of their hyper-parameters, and the fit of their scorers."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold

from taufpl._types import Labels, Mask, Vector
from taufpl.estimators import ArrayTable, AutoFitter, TauFPLRankerCV, split_labels, tau_path
from taufpl.operators import Operator, as_operator
from taufpl.paper._linear_baselines import BiasShiftedSVM, CostSensitiveLogisticRegression, CostSensitiveSVM
from taufpl.paper._partial_auc import partial_auc_path, range_count
from taufpl.paper._ranking_baselines import RankSVM
from taufpl.problem import RankingProblem, top_count
from taufpl.projection import project_topk_simplex
from taufpl.thresholding import share_above, top_threshold

LatticePoint = tuple[int, ...]
Params = dict[str, Any]  # the values are numbers

N_FOLDS = 5
# Steps by which a box may grow at each end of an axis.
_MOST_GROWTH = 4


@dataclass(frozen=True, slots=True)
class GridAxis:
    """A hyper-parameter on the lattice ``step**i``, searched for i from `low` to `high` and beyond if need be."""

    name: str
    step: float
    low: int
    high: int

    def coarser(self) -> GridAxis:
        """About half as many values over the same range."""
        return GridAxis(self.name, self.step**2, int(np.floor(self.low / 2)), int(np.ceil(self.high / 2)))


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """A fitted scorer, with the threshold that its method gives it at each tolerance.

    The threshold is the tau quantile of `train_negatives`, scores of training negatives, or 0 where they are None.
    """

    model: Any
    train_negatives: Vector | None = None

    def scores(self, X: Any) -> Vector:
        """The scores that the model ranks by."""
        return self.model.decision_function(X)

    def threshold(self, tau: float) -> float:
        """The score strictly above which a row is predicted positive."""
        return 0.0 if self.train_negatives is None else top_threshold(self.train_negatives, tau)


# Fits a model for each set of parameters on the same rows.
FitPoints = Callable[[Any, Labels, Sequence[Params]], list[DecisionRule]]


def ranking_score(rule: DecisionRule, X: Any, y: Labels, taus: Sequence[float]) -> Vector:
    """Share of positives above the (floor(tau n) + 1)-th largest negative, for each tolerance."""
    scores = rule.scores(X)
    return np.array([share_above(scores[y == 1], scores[y == 0], tau) for tau in taus])


def share_with_ties(rule: DecisionRule, X: Any, y: Labels, tau: float) -> float:
    """The ranking score if rows that tie with the quantile came in random order: what sorting does, on average."""
    scores = rule.scores(X)
    positives, negatives = scores[y == 1], scores[y == 0]
    level = top_threshold(negatives, tau)
    room = (top_count(tau, negatives.size) - 1 - np.sum(negatives > level)) / np.sum(negatives == level)
    return float(np.mean(positives > level) + room * np.mean(positives == level))


def minus_np_score(rule: DecisionRule, X: Any, y: Labels, taus: Sequence[float]) -> Vector:
    """Minus the NP-score of the method's own decisions, for each tolerance."""
    scores = rule.scores(X)
    return np.array([-np_score(*rates(scores > rule.threshold(tau), y), tau) for tau in taus])


def rates(alarms: Mask, y: Labels) -> tuple[float, float]:
    """False-positive rate and true-positive rate."""
    return float(alarms[y == 0].mean()), float(alarms[y == 1].mean())


def np_score(fpr: float, tpr: float, tau: float) -> float:
    """The Neyman-Pearson score of two rates; less is better."""
    return max(fpr, tau) / tau - tpr


_CRITERIA = {"ranking": ranking_score, "np": minus_np_score}


class BoxSearch:
    """Five-fold search over a box of the lattice, for several tolerances at once.

    A model that does not depend on the tolerance is fitted once and evaluated at all of them. The box grows by one step
    along an axis while, for some tolerance, a point at its edge is better than all points inside. The criterion is
    "ranking" or "np".
    """

    def __init__(self, fit_points: FitPoints, axes: Sequence[GridAxis], taus: Sequence[float], criterion: str) -> None:
        self.fit_points = fit_points
        self.axes = tuple(axes)
        self.taus = tuple(taus)
        self.criterion = _CRITERIA[criterion]
        self.limits = [(axis.low - _MOST_GROWTH, axis.high + _MOST_GROWTH) for axis in axes]
        self.box = [(axis.low, axis.high) for axis in axes]
        self.scores: dict[LatticePoint, Vector] = {}

    def run(self, X: Any, y: Labels, seed: int) -> BoxSearch:
        """Evaluate every point of the box on the held-out parts of the folds, and grow it as long as that pays."""
        splits = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(np.zeros(y.size), y))
        parts = [(X[train], y[train], X[test], y[test]) for train, test in splits]
        while new := [point for point in self._points() if point not in self.scores]:
            self._evaluate(parts, new)
            self._grow()
        return self

    def params(self, point: LatticePoint) -> Params:
        """The hyper-parameters at a point of the lattice."""
        return {axis.name: axis.step**place for axis, place in zip(self.axes, point, strict=True)}

    def best(self, number: int) -> LatticePoint:
        """The best point for a tolerance, by its number; of equals, the one with the most regularisation."""
        return max(sorted(self.scores, reverse=True), key=lambda point: self.scores[point][number])

    def _points(self) -> list[LatticePoint]:
        # The most regularised first, as methods that solve along a path want it.
        return list(itertools.product(*(range(high, low - 1, -1) for low, high in self.box)))

    def _evaluate(self, parts: list[tuple[Any, Any, Any, Any]], points: list[LatticePoint]) -> None:
        every = [self.params(point) for point in points]
        totals = np.zeros((len(points), len(self.taus)))
        for X, y, held_out_X, held_out_y in parts:
            rules = self.fit_points(X, y, every)
            totals += [self.criterion(rule, held_out_X, held_out_y, self.taus) for rule in rules]
        self.scores.update(zip(points, totals / N_FOLDS, strict=True))

    def _grow(self) -> None:
        for number in range(len(self.taus)):
            best = self.best(number)
            for axis, place in enumerate(best):
                low, high = self.box[axis]
                if place in (low, high) and self._beats_inside(number, axis, best):
                    lowest, highest = self.limits[axis]
                    grown = (max(low - 1, lowest), high) if place == low else (low, min(high + 1, highest))
                    self.box[axis] = grown

    def _beats_inside(self, number: int, axis: int, best: LatticePoint) -> bool:
        place, best_score = best[axis], self.scores[best][number]
        return all(score[number] < best_score for point, score in self.scores.items() if point[axis] != place)


def early_ends(problem: RankingProblem, ends: Sequence[float], norm: float, max_iter: int = 1000) -> list[Vector]:
    """Where the paper's Algorithm 1 ends on its way to the optimum, one point for each end; nothing is certified.

    Accelerated projected gradient on the dual from zero, with constant steps and without restarts. It ends where a step
    changes the dual value by less than `end` times that value, or after `max_iter` steps. `ends` descend; `norm` is the
    spectral norm of the rows, or a bound on it.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.operators import as_operator
    >>> X = as_operator(np.array([[2.0], [3.0], [0.0], [1.0]]))
    >>> problem = RankingProblem(X, [0, 1], [2, 3], k=1, reg=0.1)
    >>> rough, close = early_ends(problem, [0.1, 1e-9], X.spectral_norm())
    >>> bool(0 < rough[0] < close[0])
    True
    """
    step = 1.0 / (norm * norm / problem.ridge + problem.loss.conjugate_smoothness)
    alpha, beta = before = np.zeros(problem.n_positive), np.zeros(problem.n_negative)
    dual_direction = direction_before = np.zeros(problem.n_features)
    momentum, carry, last = 1.0, 0.0, math.nan
    guess = None
    found: list[Vector] = []
    for _ in range(max_iter):
        ahead = alpha + carry * (alpha - before[0]), beta + carry * (beta - before[1])
        direction_ahead = dual_direction + carry * (dual_direction - direction_before)
        positive, negative = problem.scores(direction_ahead / problem.ridge)
        slope = positive + problem.loss.conjugate_derivative(ahead[0])
        before, direction_before = (alpha, beta), dual_direction
        alpha, beta, guess = project_topk_simplex(
            ahead[0] - step * slope, ahead[1] + step * negative, problem.k, guess=guess, return_thresholds=True
        )
        dual_direction = problem.combine(alpha, beta)
        squared = float(dual_direction @ dual_direction)
        value = squared / (2.0 * problem.ridge) + float(problem.loss.conjugate(alpha).sum())
        while len(found) < len(ends) and abs(value - last) <= ends[len(found)] * abs(value):
            found.append(dual_direction / problem.ridge)
        if len(found) == len(ends):
            break
        following = 0.5 + math.sqrt(0.25 + momentum * momentum)
        momentum, carry, last = following, (momentum - 1.0) / following, value
    return found + [dual_direction / problem.ridge] * (len(ends) - len(found))


# Factors of the square root of 10, wider than the factors of 3 from 1e-3 to 1e3 that the paper's first author used in
# public experiments; boxes grow beyond these ends.
_REG = GridAxis("reg", 10**0.5, -10, 6)
# With two hyper-parameters the grid is coarser, or its search would take most of the time of the experiment.
_COARSE_REG = GridAxis("reg", 10.0, -3, 0)
_COST = GridAxis("negative_cost", 4.0, 0, 3)
_PARTIAL_REG = GridAxis("reg", 10.0, -4, 2)
# The paper's algorithm has two inputs besides tau: reg, and the change of the dual value at which it ends. Each of its
# fits takes up to a thousand steps.
_EARLY_REGS = (10.0, 1.0, 0.1, 0.01, 0.001)
_ENDS = (1e-3, 1e-4)
# Shares and rates on held-out rows do not tell finer solutions apart.
_TOL = 1e-3
_ROUGH: Params = {"tol": _TOL, "max_iter": 200}


@dataclass(frozen=True, slots=True)
class ChosenScorer:
    """The result of a search for one tolerance: the scorer fitted on all rows that the search was given.

    Where `shared`, one search served all tolerances: its fits and its time must not be added up over them.
    """

    rule: DecisionRule
    params: Params
    n_params: int
    n_fits: int
    search_seconds: float
    fit_seconds: float = 0.0
    shared: bool = False

    @property
    def search(self) -> tuple[Params, int, float]:
        """The chosen hyper-parameters, with the fits and the seconds that choosing them took."""
        return self.params, self.n_fits, self.search_seconds


# Data, labels, tolerances, criterion ("ranking" or "np"), seed, whether to search a coarser grid.
Chooser = Callable[[Any, Labels, Sequence[float], str, int, bool], list[ChosenScorer]]
# The same for one tolerance, always by the ranking: the rule, its hyper-parameters, and the number of fits.
ChooseOne = Callable[[Any, Labels, float, int, bool], tuple[DecisionRule, Params, int]]


class KnownLinearScore(ClassifierMixin, BaseEstimator):
    """A linear score with known coefficients."""

    def __init__(self, coef: Vector) -> None:
        self.coef = coef
        self.classes_ = np.array([0, 1])

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing is left to fit: thresholds only ask whether there is such a method."""
        return self

    def decision_function(self, X: Any) -> Vector:
        """X w."""
        return X @ self.coef


def _linear_rules(coefs: Iterable[Vector]) -> list[DecisionRule]:
    return [DecisionRule(KnownLinearScore(coef)) for coef in coefs]


def _ranking_problem(operator: Operator, y: Labels, k: int, reg: float = 1.0) -> RankingProblem:
    return RankingProblem(operator, np.flatnonzero(y == 1), np.flatnonzero(y == 0), k, reg)


def _each(make: Callable[..., Any], X: Any, y: Labels, points: Sequence[Params]) -> list[DecisionRule]:
    return [DecisionRule(make(**params).fit(X, y)) for params in points]


def _each_shifted(X: Any, y: Labels, points: Sequence[Params]) -> list[DecisionRule]:
    """The SVM does not depend on the tolerance, its threshold does, so that one fit serves them all."""
    models = (BiasShiftedSVM(**params, **_ROUGH).fit(X, y) for params in points)
    return [DecisionRule(model, model.decision_function(X[y == 0])) for model in models]


def _top_push_points(X: Any, y: Labels, points: Sequence[Params]) -> list[DecisionRule]:
    """TopPush is the case k = 1: the path of a tolerance under 1/n, on which each fit starts from the last."""
    return _linear_rules(tau_path(X, y, 0.5 / y.size, [params["reg"] for params in points], tol=_TOL).coefs[0])


def _partial_auc_points(tau: float, X: Any, y: Labels, points: Sequence[Params]) -> list[DecisionRule]:
    """One bundle of cutting planes serves every reg."""
    problem = _ranking_problem(as_operator(X), y, range_count(tau, int(np.sum(y == 0))))
    path = partial_auc_path(problem, [params["reg"] for params in points])
    return _linear_rules(minimum.coef for minimum in path)


def _search(
    fit_points: FitPoints,
    axes: Sequence[GridAxis],
    X: Any,
    y: Labels,
    taus: Sequence[float],
    criterion: str,
    seed: int,
    coarse: bool,
) -> list[ChosenScorer]:
    """One box for all tolerances, then the chosen points fitted on all rows."""
    began = time.perf_counter()
    axes = [axis.coarser() for axis in axes] if coarse else axes
    search = BoxSearch(fit_points, axes, taus, criterion).run(X, y, seed)
    seconds, n_fits = time.perf_counter() - began, N_FOLDS * len(search.scores)
    fitted: dict[Any, tuple[DecisionRule, float]] = {}
    choices = []
    for number in range(len(taus)):
        point = search.best(number)
        params = search.params(point)
        if point not in fitted:
            began = time.perf_counter()
            [rule] = fit_points(X, y, [params])
            fitted[point] = (rule, time.perf_counter() - began)
        rule, fit_seconds = fitted[point]
        choices.append(ChosenScorer(rule, params, len(axes), n_fits, seconds, fit_seconds, len(taus) > 1))
    return choices


def _partial_auc(
    X: Any, y: Labels, taus: Sequence[float], criterion: str, seed: int, coarse: bool
) -> list[ChosenScorer]:
    """SVM-pAUC's objective depends on the tolerance, so that each needs a search of its own."""
    choices = []
    for tau in taus:
        choices += _search(partial(_partial_auc_points, tau), (_PARTIAL_REG,), X, y, [tau], criterion, seed, coarse)
    return choices


def _one_by_one(
    choose: ChooseOne, X: Any, y: Labels, taus: Sequence[float], criterion: str, seed: int, coarse: bool
) -> list[ChosenScorer]:
    """A search of its own for each tolerance, whatever the criterion."""
    choices = []
    for tau in taus:
        began = time.perf_counter()
        rule, params, n_fits = choose(X, y, tau, seed, coarse)
        choices.append(ChosenScorer(rule, params, len(params), n_fits, time.perf_counter() - began))
    return choices


def _tau_rank(scale: float, X: Any, y: Labels, tau: float, seed: int, coarse: bool) -> tuple[DecisionRule, Params, int]:
    """The paper's ranking, trained at `scale` times tau; chosen by the share of positives at the top."""
    axis = _REG.coarser() if coarse else _REG
    regs = [axis.step**place for place in range(axis.low, axis.high + 1)]
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    model = TauFPLRankerCV(tau, regs, folds, tau_scale=scale).fit(X, y)
    return DecisionRule(model), {"reg": model.reg_}, N_FOLDS * model.cv_results_["param_reg"].size


def _early_rules(tau: float, X: Any, y: Labels, points: Sequence[tuple[float, float]]) -> list[DecisionRule]:
    """Rankings by the paper's algorithm for some pairs of reg and end."""
    operator = as_operator(X)
    norm, k = operator.spectral_norm(), top_count(tau, int(np.sum(y == 0)))
    found: dict[tuple[float, float], Vector] = {}
    for reg in {reg for reg, _ in points}:
        ends = sorted({end for own, end in points if own == reg}, reverse=True)
        coefs = early_ends(_ranking_problem(operator, y, k, reg), ends, norm)
        found.update(((reg, end), coef) for end, coef in zip(ends, coefs, strict=True))
    return _linear_rules(found[point] for point in points)


def _tau_rank_early(
    scale: float, X: Any, y: Labels, tau: float, seed: int, coarse: bool
) -> tuple[DecisionRule, Params, int]:
    """The paper's ranking with the end of its solver chosen on the folds as well; the optimum is one of the choices."""
    points = [(reg, end) for reg in (_EARLY_REGS[::2] if coarse else _EARLY_REGS) for end in _ENDS]
    rule, params, n_fits = _tau_rank(scale, X, y, tau, seed, coarse)
    totals = np.zeros(len(points))
    for train, test in StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(np.zeros(y.size), y):
        rules = _early_rules(scale * tau, X[train], y[train], points)
        totals += [ranking_score(each, X[test], y[test], [tau])[0] for each in rules]
    n_fits += N_FOLDS * len(points)
    best = int(np.argmax(totals))
    if totals[best] / N_FOLDS <= rule.model.cv_results_["mean_test_score"].max():
        return rule, {**params, "end": 0.0}, n_fits
    [rule] = _early_rules(scale * tau, X, y, [points[best]])
    return rule, dict(zip(("reg", "end"), points[best], strict=True)), n_fits


def _automatic(X: Any, y: Labels, tau: float, seed: int, coarse: bool) -> tuple[DecisionRule, Params, int]:
    """The default ranking of this library, which has nothing left to search; without a threshold."""
    fitter, labels = AutoFitter(tau, N_FOLDS), split_labels(y, None)
    table = ArrayTable(X, labels.positive_rows, labels.negative_rows, operator=as_operator(X))
    fitter.prepare(table)
    return DecisionRule(KnownLinearScore(fitter.fit(table).coef)), {}, 0


CHOOSERS: dict[str, Chooser] = {
    "CS-SVM": partial(_search, partial(_each, partial(CostSensitiveSVM, **_ROUGH)), (_COARSE_REG, _COST)),
    "CS-LR": partial(_search, partial(_each, partial(CostSensitiveLogisticRegression, **_ROUGH)), (_COARSE_REG, _COST)),
    "BS-SVM": partial(_search, _each_shifted, (_REG,)),
    "RankSVM": partial(_search, partial(_each, partial(RankSVM, tol=_TOL)), (_REG.coarser(),)),
    "TopPush": partial(_search, _top_push_points, (_REG,)),
    "SVM-pAUC-tight": _partial_auc,
    "tau-Rank": partial(_one_by_one, partial(_tau_rank, 1.0)),
    "2tau-Rank": partial(_one_by_one, partial(_tau_rank, 2.0)),
    "tau-Rank-early": partial(_one_by_one, partial(_tau_rank_early, 1.0)),
    "2tau-Rank-early": partial(_one_by_one, partial(_tau_rank_early, 2.0)),
    "automatic": partial(_one_by_one, _automatic),
}
