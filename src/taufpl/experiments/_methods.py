"""The systems that the experiments compare: the search of their hyper-parameters, and the fit of their scorers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold

from taufpl._types import Labels, Vector
from taufpl.baselines import (
    BiasShiftedSVM,
    CostSensitiveLogisticRegression,
    CostSensitiveSVM,
    RankSVM,
    partial_auc_path,
    range_count,
)
from taufpl.estimators import ArrayTable, AutoFitter, TauFPLRankerCV, split_labels, tau_path
from taufpl.experiments._box_search import N_FOLDS, BoxSearch, DecisionRule, FitPoints, GridAxis, Params, ranking_score
from taufpl.experiments._early_end import early_ends
from taufpl.operators import Operator, as_operator
from taufpl.problem import RankingProblem, top_count

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
