"""What strategies fit: a linear ranking, or any scikit-learn scorer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_outlier_detector
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from taufpl._sklearn import BaseSearchCV, check_method_params, routing_enabled, safe_indexing
from taufpl.estimators._labels import TwoClasses, split_rows
from taufpl.estimators._linear import AccuracyMixin
from taufpl.estimators._search import FoldWalker, RankingSearch, make_folds, make_grid, make_settings
from taufpl.estimators._solve import Ranking, SolverChoice, solve_ranking
from taufpl.operators import Operator, to_numpy
from taufpl.problem import RankingProblem, top_count
from taufpl.solvers import Result

Vector = NDArray[np.float64]
Rows = NDArray[np.intp]

# Shares of positives above a threshold do not tell finer gaps apart.
SEARCH_TOL = 1e-3
MOST_EXTENSIONS = 20

# Labels that a classifier for 0 and 1 takes as they are.
_CODED = ([0, 1], [1, 0])


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A fitted ranking.

    Attributes
    ----------
    coef : ndarray of shape (d,)
    ranking, duals
        What a neighbouring fit can start from: the ranking, and the dual weight of every row of X.
    """

    coef: Vector
    ranking: Ranking | None = None
    duals: Vector | None = None


class LinearFitter:
    """Fits the ranking of the paper, with reg given or searched for."""

    learns_from_neighbours = True
    learns_from_positives = True

    def __init__(
        self,
        operator: Operator,
        labels: TwoClasses,
        tau: float,
        tau_scale: float | str,
        reg: float | str,
        choice: SolverChoice,
        *,
        regs: int | ArrayLike,
        cv: Any,
        n_jobs: int | None,
    ) -> None:
        self.operator = operator
        self.positive_rows, self.negative_rows, self.units = labels.positive_rows, labels.negative_rows, labels.units
        self.tau = tau
        self.given = (reg, tau_scale)
        self.reg, self.tau_scale = (math.nan if isinstance(each, str) else float(each) for each in self.given)
        self.choice = choice
        self.regs, self.cv, self.n_jobs = regs, cv, n_jobs
        # What the search found, and the first fit: that on all rows, or on all that may be fitted on.
        self.cv_results: dict[str, NDArray[Any]] | None = None
        self.first: tuple[Ranking, RankingProblem] | None = None

    def prepare(self, rows: Rows) -> None:
        """Choose reg and tau_scale on folds of these rows, where they are not given."""
        if "cv" not in self.given:
            return
        folds = make_folds(self.cv, *split_rows(rows, self.positive_rows), self.units)
        rough = replace(self.choice, tol=max(self.choice.tol, SEARCH_TOL))
        settings = make_settings(self.tau, self.given[1], 1.0)
        regs = make_grid(self.regs if self.given[0] == "cv" else [self.reg])
        search = RankingSearch(FoldWalker(self.operator, folds, self.tau, rough, self.n_jobs))
        best = search.run(settings, regs, MOST_EXTENSIONS).best()
        self.cv_results = search.table()
        self.reg, self.tau_scale = best.best_reg(), best.setting.tau_scale

    def fit(self, rows: Rows, near: LinearModel | None = None) -> LinearModel:
        """Solve on a copy of these rows, or on X itself where they are all of it."""
        positive, negative = split_rows(rows, self.positive_rows)
        k = top_count(self.tau_scale * self.tau, negative.size)
        whole = rows.size == self.operator.shape[0]
        if whole:
            problem = RankingProblem(self.operator, positive, negative, k, self.reg)
        else:
            part = self.operator.take_rows(np.concatenate((positive, negative)))
            cut = positive.size
            problem = RankingProblem(part, np.arange(cut), np.arange(cut, rows.size), k, self.reg)
        ranking = solve_ranking(problem, self.choice, _start(near, positive, negative))
        self.first = self.first or (ranking, problem)
        if not whole:  # nothing will start from it
            return LinearModel(ranking.result.coef)
        duals = np.empty(rows.size)
        duals[positive], duals[negative] = ranking.result.alpha, ranking.result.beta
        return LinearModel(ranking.result.coef, ranking, duals)

    def scores(self, model: LinearModel, rows: Rows) -> Vector:
        """Products of w with each of the rows."""
        return self.operator.matvec_rows(model.coef, rows)

    def is_linear(self, model: LinearModel) -> bool:
        """Always."""
        return True

    def has_scale(self, model: LinearModel) -> bool:
        """Never: a ranking has no intercept."""
        return False


def _start(near: LinearModel | None, positive: Rows, negative: Rows) -> Result | None:
    """The neighbour's result, cut down to these rows; a solver makes the pair feasible again."""
    if near is None or near.ranking is None or near.duals is None or near.ranking.collapsed:
        return None
    return replace(near.ranking.result, alpha=near.duals[positive], beta=near.duals[negative], history=())


class EstimatorFitter:
    """Fits clones of a scikit-learn classifier, or of an outlier detector, which sees negatives only.

    A classifier that refuses the labels is given 0 for negatives and 1 for positives.
    """

    learns_from_neighbours = False

    def __init__(self, estimator: Any, X: Any, y: Any, labels: TwoClasses, params: dict[str, Any]) -> None:
        self.estimator = estimator
        self.X, self.y = X, y
        self.classes = labels.classes
        self.positive_rows, self.negative_rows, self.units = labels.positive_rows, labels.negative_rows, labels.units
        self.learns_from_positives = not is_outlier_detector(estimator)
        self.params = params

    def prepare(self, rows: Rows) -> None:
        """Nothing is chosen beforehand."""

    def fit(self, rows: Rows, near: Any = None) -> Any:
        """Fit a clone."""
        if not self.learns_from_positives:
            return self._fit(self.y, np.intersect1d(rows, self.negative_rows, assume_unique=True))
        if find_own(self.estimator) is not None or self.classes.tolist() in _CODED:
            return self._fit(self.y, rows)
        # Nothing tells which classifiers take 0 and 1 alone, as XGBoost does, but that they refuse other labels.
        try:
            return self._fit(self.y, rows)
        except (TypeError, ValueError) as refusal:
            try:
                return self._fit((self.y == self.classes[1]).astype(np.int64), rows)
            except Exception:
                raise refusal from None

    def _fit(self, y: Any, rows: Rows) -> Any:
        model = clone(self.estimator)
        # One of this package must learn to find what is positive here: a score turned round finds the others.
        own = find_own(model)
        if own is not None and own.pos_label is None:
            own.set_params(pos_label=self.classes.tolist()[1])
        params = {**check_method_params(self.X, self.params, indices=rows), **self._groups_for(model, rows)}
        return model.fit(safe_indexing(self.X, rows), safe_indexing(y, rows), **params)

    def _groups_for(self, model: Any, rows: Rows) -> dict[str, Any]:
        """The groups of these rows under the name by which an estimator of this package that searches gets them."""
        last = last_step(model)
        if self.units.groups is None or not has_fit_parameter(last, "groups") or not _is_own(last):
            return {}
        name = "groups"
        if last is not model and routing_enabled():
            last.set_fit_request(groups=True)
        elif last is not model:
            name = f"{model.steps[-1][0]}__groups"
        return {name: self.units.groups[rows]}

    def scores(self, model: Any, rows: Rows) -> Vector:
        """Higher for the positive class."""
        return scores_of(model, safe_indexing(self.X, rows), known_positive(model, self.classes))

    def is_linear(self, model: Any) -> bool:
        """Whether the last step has coefficients; probabilities are not linear even then."""
        return hasattr(model, "decision_function") and hasattr(last_step(model), "coef_")

    def has_scale(self, model: Any) -> bool:
        """Not if scores are linear: shrinkage makes those of fewer rows smaller."""
        return not self.is_linear(model)


def _is_own(model: Any) -> bool:
    """Whether it is an estimator of this package."""
    return isinstance(model, AccuracyMixin)


def last_step(model: Any) -> Any:
    """The model itself, or the last step of a pipeline."""
    return model[-1] if isinstance(model, Pipeline) else model


def find_own(model: Any) -> Any:
    """The estimator of this package that a pipeline, a search or a freezer ends in, or that the model is; or None."""
    while True:
        if isinstance(model, Pipeline):
            model = last_step(model)
        elif isinstance(model, BaseSearchCV | FrozenEstimator):
            model = model.estimator
        else:
            return model if _is_own(model) else None


def wanted_positive(estimator: Any, pos_label: Any) -> Any:
    """The label that is to be positive: the one given, else that of an estimator of this package, else None.

    Raises
    ------
    ValueError
        If the two differ.
    """
    wanted = getattr(find_own(estimator), "pos_label", None)
    if pos_label is None:
        return wanted
    if wanted is not None and wanted != pos_label:
        raise ValueError(
            f"pos_label of the estimator is {wanted!r}, but positives are {pos_label!r} here. "
            "Give the same pos_label to both."
        )
    return pos_label


def known_positive(model: Any, classes: NDArray[Any]) -> Any:
    """What a fitted scorer calls the second of the two classes: 1 where it was given 0 and 1 in place of them."""
    known = getattr(model, "classes_", None)
    is_coded = known is not None and set(to_numpy(known).tolist()) == {0, 1} != set(to_numpy(classes).tolist())
    return 1 if is_coded else classes[1]


def scores_of(model: Any, X: Any, positive: Any) -> Vector:
    """Score of a fitted classifier, or minus that of an outlier detector: higher means positive.

    Raises
    ------
    TypeError
        If it has neither decision_function nor predict_proba.
    """
    if is_outlier_detector(model):
        return -np.asarray(model.decision_function(X), dtype=np.float64)
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(X), dtype=np.float64)
        if scores.ndim == 1:
            return scores if model.classes_[1] == positive else -scores
    elif hasattr(model, "predict_proba"):
        scores = np.asarray(model.predict_proba(X), dtype=np.float64)
    else:
        raise TypeError(
            f"estimator must have decision_function or predict_proba, {type(model).__name__} has neither. "
            "For an SVC, say, decision_function is there; for a regressor, wrap it so that it gives scores."
        )
    return scores[:, int(np.flatnonzero(model.classes_ == positive)[0])]
