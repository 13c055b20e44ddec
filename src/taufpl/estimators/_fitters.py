"""What strategies fit: the ranking of the paper, or clones of any scikit-learn scorer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_outlier_detector
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from taufpl._sklearn import BaseSearchCV, check_method_params, check_sample_weight, routing_enabled, safe_indexing
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._predictions import AccuracyMixin, scores_of
from taufpl.estimators._search import search_ranking
from taufpl.estimators._solve import Ranking, SolverChoice, solve_ranking
from taufpl.estimators._table import LinearModel, Scores, Table
from taufpl.estimators.strategies import Fitter
from taufpl.operators import to_numpy
from taufpl.problem import BaseRankingProblem, top_count

Vector = NDArray[np.float64]

# Shares of positives above a threshold do not tell finer gaps apart.
SEARCH_TOL = 1e-3
_MOST_EXTENSIONS = 20

# Labels that a classifier for 0 and 1 takes as they are.
_CODED = ([0, 1], [1, 0])


class LinearFitter(Fitter):
    """Fits linear rankings of some kind."""

    def scores(self, model: LinearModel, table: Table) -> Scores:
        """Products with w."""
        return table.scores(model.coef)

    def is_linear(self, model: LinearModel) -> bool:
        """Whether scores are linear in the features: always."""
        return True


class PaperFitter(LinearFitter):
    """Fits the ranking of the paper, with reg and tau_scale given or searched for."""

    learns_from_neighbours = True

    def __init__(
        self,
        tau: float,
        tau_scale: float | str,
        reg: float | str,
        choice: SolverChoice,
        *,
        regs: int | ArrayLike,
        cv: Any,
    ) -> None:
        self.tau = tau
        self.given = (reg, tau_scale)
        self.reg, self.tau_scale = (math.nan if isinstance(each, str) else float(each) for each in self.given)
        self.choice = choice
        self.regs, self.cv = regs, cv
        # What the search found, and the first fit: that on all rows, or on all that may be fitted on.
        self.cv_results: dict[str, NDArray[Any]] | None = None
        self.first: tuple[Ranking, BaseRankingProblem] | None = None

    def prepare(self, table: Table) -> None:
        """Choose reg and tau_scale on folds of these rows, where they are not given."""
        if "cv" not in self.given:
            return
        search = search_ranking(
            table,
            self.tau,
            replace(self.choice, tol=max(self.choice.tol, SEARCH_TOL)),
            tau_scale=self.given[1],
            regs=self.regs if self.given[0] == "cv" else [self.reg],
            cv=self.cv,
            max_extensions=_MOST_EXTENSIONS,
        )
        best = search.best()
        self.cv_results = search.table()
        self.reg, self.tau_scale = best.best_reg(), best.setting.tau_scale

    def fit(self, table: Table, near: LinearModel | None = None) -> LinearModel:
        """Solve on these rows."""
        with table.problem(top_count(self.tau_scale * self.tau, table.n_negative), self.reg) as problem:
            ranking = solve_ranking(problem, self.choice, table.start(near))
        self.first = self.first or (ranking, problem)
        return table.model(ranking)


class CloneFitter(Fitter):
    """Fits clones of a scikit-learn classifier, or of an outlier detector, which sees negatives only.

    A classifier that refuses the labels is given 0 for negatives and 1 for positives.

    Parameters
    ----------
    estimator : estimator
    classes : ndarray of shape (2,)
    """

    def __init__(self, estimator: Any, classes: NDArray[Any]) -> None:
        self.estimator, self.classes = estimator, classes
        self.learns_from_positives = not is_outlier_detector(estimator)

    def prepare(self, table: Any) -> None:
        """Choose nothing beforehand."""

    def fit(self, table: Any, near: Any = None) -> Any:
        """Fit a clone."""
        if not table.in_memory:
            return table.fit_clone(self._clone(), self.classes)
        if not self.learns_from_positives:
            return self._fit(table.negatives(), self.classes)
        if find_own(self.estimator) is not None or self.classes.tolist() in _CODED:
            return self._fit(table, self.classes)
        # Nothing tells which classifiers take 0 and 1 alone, as XGBoost does, but that they refuse other labels.
        try:
            return self._fit(table, self.classes)
        except (TypeError, ValueError) as refusal:
            try:
                return self._fit(table, np.arange(2))
            except Exception:
                raise refusal from None

    def _clone(self) -> Any:
        """A clone; an estimator of this package is told which label is positive, or it would rank the other class."""
        model = clone(self.estimator)
        own = find_own(model)
        if own is not None and own.pos_label is None:
            own.set_params(pos_label=self.classes.tolist()[1])
        return model

    def _fit(self, table: ArrayTable, classes: NDArray[Any]) -> Any:
        model, rows = self._clone(), table.rows
        params = {**check_method_params(table.X, table.params, indices=rows), **self._groups_for(model, table)}
        return model.fit(safe_indexing(table.X, rows), classes[table.is_positive.astype(np.intp)], **params)

    def _groups_for(self, model: Any, table: ArrayTable) -> dict[str, Any]:
        """The groups of these rows under the name by which an estimator of this package that searches gets them."""
        last, groups = last_step(model), table.units.groups
        if groups is None or not has_fit_parameter(last, "groups") or not _is_own(last):
            return {}
        name = "groups"
        if last is not model and routing_enabled():
            last.set_fit_request(groups=True)
        elif last is not model:
            name = f"{model.steps[-1][0]}__groups"
        return {name: groups[table.rows]}

    def scores(self, model: Any, table: Any) -> Scores:
        """Higher for the positive class."""
        if not table.in_memory:
            return table.scores(model.coef_[0], float(model.intercept_[0]))
        rows = safe_indexing(table.X, table.by_class)
        return table.with_scores(scores_of(model, rows, known_positive(model, self.classes)))

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


def steps_and_last(model: Any) -> tuple[tuple[Any, ...], Any]:
    """The fitted transformers before the last estimator of pipelines, searches and freezers, and that estimator."""
    steps: tuple[Any, ...] = ()
    while True:
        if isinstance(model, Pipeline):
            steps += tuple(step for _, step in model.steps[:-1])
            model = model.steps[-1][1]
        elif isinstance(model, BaseSearchCV):
            check_is_fitted(model)
            model = model.best_estimator_
        elif isinstance(model, FrozenEstimator):
            model = model.estimator
        else:
            return steps, model


def transformed(steps: tuple[Any, ...], X: Any) -> Any:
    """Rows after fitted steps."""
    return make_pipeline(*steps).transform(X) if steps else X


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


def refuse_pairwise(estimator: Any) -> None:
    """A matrix of pairs has a column for each row: models on some of the rows would need other columns later."""
    if get_tags(estimator).input_tags.pairwise:
        raise ValueError(
            f"{type(estimator).__name__} takes a matrix of k(x_i, x_j), whose columns would have to be cut too. "
            'Take KernelTauFPLClassifier(kernel="precomputed", threshold="np"), which does that; or fit the estimator '
            "first and give it with cv='prefit', and k of other rows with those that it was fitted on."
        )


def without_weightless(
    X: Any, y: NDArray[Any], own: dict[str, Any], params: dict[str, Any]
) -> tuple[Any, NDArray[Any], dict[str, Any], dict[str, Any]]:
    """Drop rows whose sample_weight is 0: they must not choose a threshold either."""
    # Under its own name, or under that of a step of a pipeline.
    given = [each for name, each in params.items() if name.split("__")[-1] == "sample_weight" and each is not None]
    if not given:
        return X, y, own, params
    weights = check_sample_weight(given[0], X, ensure_non_negative=True)
    rows = np.flatnonzero(weights > 0)
    if rows.size == len(weights):
        return X, y, own, params
    if len(np.unique(y[rows])) < 2:
        raise ValueError(
            f"sample_weight must leave rows of both classes: {len(rows)} rows have a positive weight, all of one class."
        )
    cut = [check_method_params(X, each, indices=rows) for each in (own, params)]
    return safe_indexing(X, rows), y[rows], cut[0], cut[1]
