"""The fitter of any scikit-learn scorer, and what must be known of the scorer."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone, is_outlier_detector
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from taufpl._sklearn import BaseSearchCV, check_method_params, check_sample_weight, routing_enabled, safe_indexing
from taufpl._types import Array
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._predictions import PredictionMixin, scores_of
from taufpl.estimators._steps import last_step, steps_and_last
from taufpl.estimators._table import Scores, score_rounding
from taufpl.estimators.strategies import Fitter
from taufpl.operators import to_numpy
from taufpl.preprocessing import without_unseen_warnings

# Labels that a classifier for 0 and 1 takes as they are.
_CODED = ([0, 1], [1, 0])


class CloneFitter(Fitter):
    """Fits clones of a scikit-learn classifier, or of an outlier detector, which sees negatives only.

    A classifier that refuses the labels is given 0 for negatives and 1 for positives.
    """

    def __init__(self, estimator: Any, classes: Array) -> None:
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

    def _fit(self, table: ArrayTable, classes: Array) -> Any:
        model, rows = self._clone(), table.rows
        params = {**check_method_params(table.X, table.params, indices=rows), **self._groups_for(model, table)}
        with without_unseen_warnings:
            return model.fit(safe_indexing(table.X, rows), classes[table.is_positive.astype(np.intp)], **params)

    def _groups_for(self, model: Any, table: ArrayTable) -> dict[str, Any]:
        """The groups of these rows under the name by which an estimator of this package that searches gets them."""
        last, groups = last_step(model), table.units.groups
        if groups is None or not has_fit_parameter(last, "groups") or not isinstance(last, PredictionMixin):
            return {}
        name = "groups"
        if last is not model and routing_enabled():
            last.set_fit_request(groups=True)
        elif last is not model:
            name = f"{model.steps[-1][0]}__groups"
        return {name: groups[table.rows]}

    def scores(self, model: Any, table: Any) -> Scores:
        """Higher for the positive class."""
        positive = known_positive(model, self.classes)
        if not table.in_memory:
            return with_model_rounding(table.scores_by(model, positive), model)
        rows = safe_indexing(table.X, table.by_class)
        with without_unseen_warnings:
            return with_model_rounding(table.with_scores(scores_of(model, rows, positive)), model)

    def is_linear(self, model: Any) -> bool:
        """Whether the last step has coefficients; probabilities are not linear even then."""
        return hasattr(model, "decision_function") and hasattr(last_step(model), "coef_")

    def has_scale(self, model: Any) -> bool:
        """Not if scores are linear: shrinkage makes those of fewer rows smaller."""
        return not self.is_linear(model)


def with_model_rounding(scores: Any, model: Any) -> Any:
    """Scores by a model, with their rounding: a large intercept may hide terms that cancel in them."""
    last = steps_and_last(model)[1]
    scale = max(abs(end) for sample in (scores.negative, scores.positive) if sample.size for end in sample.ends())
    hidden = float(np.max(np.abs(to_numpy(getattr(last, "intercept_", 0.0))), initial=0.0))
    dtype = np.float32 if to_numpy(getattr(last, "coef_", 0.0)).dtype == np.float32 else np.float64
    return scores.with_rounding(score_rounding(scale + hidden, dtype), hidden if hasattr(last, "coef_") else None)


def find_own(model: Any) -> Any:
    """The estimator of this package that a pipeline, a search or a freezer ends in, or that the model is; or None."""
    while True:
        if isinstance(model, Pipeline):
            model = last_step(model)
        elif isinstance(model, BaseSearchCV | FrozenEstimator):
            model = model.estimator
        else:
            return model if isinstance(model, PredictionMixin) else None


def wanted_positive(estimator: Any, pos_label: Any) -> Any:
    """The label that is to be positive: the one given, else that of an estimator of this package, else None."""
    wanted = getattr(find_own(estimator), "pos_label", None)
    if pos_label is None:
        return wanted
    if wanted is not None and wanted != pos_label:
        raise ValueError(
            f"pos_label of the estimator is {wanted!r}, but positives are {pos_label!r} here. "
            "Give the same pos_label to both."
        )
    return pos_label


def known_positive(model: Any, classes: Array) -> Any:
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
    X: Any, y: Array, own: dict[str, Any], params: dict[str, Any]
) -> tuple[Any, Array, dict[str, Any], dict[str, Any]]:
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
