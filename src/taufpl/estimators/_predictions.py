"""Scores and labels where the rows are, and what scores them: steps of pipelines, estimators of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, is_outlier_detector
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import check_is_fitted

from taufpl._sklearn import BaseSearchCV, check_y, is_fitted, num_samples, safe_indexing
from taufpl._types import Array, Vector
from taufpl.operators import as_operator, is_foreign_array, is_remote, like, to_numpy
from taufpl.thresholding import FIT, Evidence

# Probabilities below this count as this.
LEAST_SHARE = float(np.finfo(np.float64).eps)
# What makes `predict` give log-odds, by the library of the classifier: probabilities of XGBoost are in single precision
# and tie near 1, where a small tolerance looks.
_RAW: dict[str, dict[str, Any]] = {
    "lightgbm": {"raw_score": True},
    "xgboost": {"output_margin": True},
    "catboost": {"prediction_type": "RawFormulaVal"},
}


def log_odds(model: Any, X: Any) -> Vector:
    """Log-odds of label 1 by a classifier that was fitted on the labels 0 and 1, or what it decides by.

    A forest of T trees of which a share p votes for 1 has log((p T + 1/2) / ((1 - p) T + 1/2)), which is finite.
    """
    steps, model = steps_and_last(model)
    X, library = transformed(steps, X), library_of(model)
    if library in _RAW:
        return np.asarray(model.predict(X, **_RAW[library]), dtype=np.float64).ravel()
    if isinstance(model, RandomForestClassifier | ExtraTreesClassifier):
        votes = len(model.estimators_) * model.predict_proba(X)
        return np.log((votes[:, 1] + 0.5) / (votes[:, 0] + 0.5))
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X), dtype=np.float64)
    shares = np.clip(np.asarray(model.predict_proba(X), dtype=np.float64), LEAST_SHARE, 1.0)
    return np.log(shares[:, 1] / shares[:, 0])


LIGHTGBM = ("lightgbm.sklearn", "LGBMClassifier")
XGBOOST = ("xgboost.sklearn", "XGBClassifier")
BOOSTERS = (LIGHTGBM, XGBOOST, ("xgboost.sklearn", "XGBRFClassifier"), ("catboost.core", "CatBoostClassifier"))
DASK_XGBOOST = ("xgboost.dask", "DaskXGBClassifier")
DASK_LIGHTGBM = ("lightgbm.dask", "DaskLGBMClassifier")


def is_a(model: Any, *names: tuple[str, str]) -> bool:
    """Whether the class of a model, or one that it is derived from, has one of these names in its module."""
    return any((kind.__module__, kind.__name__) in names for kind in type(model).__mro__)


def library_of(model: Any) -> str:
    """The package whose `predict` a model has: a class derived from one of a library may have its own."""
    return getattr(getattr(type(model), "predict", None), "__module__", "").partition(".")[0]


def learns_on_cluster(model: Any) -> bool:
    """Whether a classifier takes Dask collections alone."""
    return is_a(model, DASK_XGBOOST, DASK_LIGHTGBM)


def refuse_memory(model: Any) -> None:
    """Refuse rows in memory for a classifier that takes Dask collections alone."""
    if learns_on_cluster(model):
        name = type(model).__name__
        raise TypeError(
            f"{name} takes Dask arrays and dataframes, and X is in memory. Take {name.removeprefix('Dask')} for it; or "
            "make a Dask collection of X, with dask.array.from_array, say."
        )


def local_model(model: Any) -> Any:
    """The classifier for rows in memory in place of one for clusters, fitted or not; any other as it is."""
    if isinstance(model, FrozenEstimator):
        inner = local_model(model.estimator)
        return model if inner is model.estimator else FrozenEstimator(inner)
    if not learns_on_cluster(model):
        return model
    from taufpl.estimators.remote import to_local

    return to_local(model)


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
    """Rows after fitted steps; "passthrough" and samplers, which change rows of a fit alone, have no `transform`."""
    for step in steps:
        X = step.transform(X) if hasattr(step, "transform") else X
    return X


def wrapped_head(model: Any) -> Any:
    """The last estimator of pipelines, searches and freezers, with what these leave of its evidence.

    It is a copy where they void the guarantee, which the estimator itself cannot know.
    """
    _, head = steps_and_last(model)
    # A threshold that was proven anew rests on rows that came after the wrapping.
    is_anew = any(each.event != FIT and each.delta_spent > 0 for each in getattr(head, "threshold_history_", ()))
    caveats = _wrapping_caveats(model) if hasattr(head, "evidence_") and not is_anew else []
    if not caveats:
        return head

    def void(evidence: Evidence) -> Evidence:
        return evidence.without_guarantee(*caveats)

    told, evidence = copy(head), head.evidence_
    told.evidence_ = tuple(map(void, evidence)) if isinstance(evidence, tuple) else void(evidence)
    if head.segments_ is not None:
        told.segments_ = head.segments_.with_evidence(void)
    return told


def _wrapping_caveats(model: Any) -> list[str]:
    """Why a threshold is not proven for the pipelines and searches around its estimator."""
    found: list[str] = []
    while True:
        if isinstance(model, Pipeline):
            learned = [type(step).__name__ for _, step in model.steps[:-1] if _has_learned(step)]
            model = model.steps[-1][1]
            if learned and not getattr(steps_and_last(model)[1], "_steps_divided", False):
                found.append(
                    f"{', '.join(learned)} before the classifier learned outside of it, and whether from negatives "
                    "that choose the threshold cannot be told"
                )
        elif isinstance(model, BaseSearchCV):
            n_candidates = len(model.cv_results_["params"])
            model = model.best_estimator_
            if n_candidates > 1:
                found.append(
                    f"a search around it chose among {n_candidates:,} candidates by rows that choose the threshold, too"
                )
        elif isinstance(model, FrozenEstimator):
            model = model.estimator
        else:
            return found


def _has_learned(step: Any) -> bool:
    """Whether a fitted step of a pipeline holds what rows have taught it."""
    if step is None or isinstance(step, str):
        return False
    if isinstance(step, FrozenEstimator):
        return _has_learned(step.estimator)
    for kind, name in ((Pipeline, "steps"), (FeatureUnion, "transformer_list"), (ColumnTransformer, "transformers_")):
        if isinstance(step, kind):
            return any(_has_learned(each) for _, each, *_ in getattr(step, name))
    if isinstance(step, PolynomialFeatures):  # which counts columns
        return False
    is_learner = not isinstance(step, BaseEstimator) or get_tags(step).requires_fit
    return is_learner or any(map(was_fitted_before, step.get_params().values()))


def was_fitted_before(part: Any) -> bool:
    """Whether a parameter is a frozen estimator, or a method of a fitted one."""
    owner = getattr(part, "__self__", None)
    return isinstance(part, FrozenEstimator) or (isinstance(owner, BaseEstimator) and is_fitted(owner))


_LARGEST = float(np.finfo(np.float64).max)
# Differences between scores of the same rows that are rounding: a part of their span, and of their size in last digits.
_SMALL, _ROUNDINGS = 1e-5, 1e3
# Less than half a rounding in single precision, which rounds it away.
_HALF_A_ROUNDING = 1.0 + 2.0**-26
# Rows of a fit that are scored once more.
_LOOKED_AT = 64


class PredictionMixin(ClassifierMixin):
    """The predictions of a classifier of this package, which may be remote, and their accuracy."""

    def predict(self, X: Any) -> Array:
        """The label of each row: positive where the score is strictly above the threshold.

        Parameters
        ----------
        X : rows of shape (n_samples, n_features)
            As `decision_function` takes them.

        Returns
        -------
        array of shape (n_samples,)
            Where X is; labels that are text are a NumPy array where X is a tensor.
        """
        return labels_of(self.decision_function(X), self.classes_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows whose label is predicted.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
        y : {array-like, dask collection, tensor} of shape (n_samples,)
        sample_weight : {array-like, dask collection, tensor} of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        return accuracy(y, self.predict(X), sample_weight)


def accuracy(y: Any, predicted: Any, sample_weight: Any) -> float:
    """Share of rows whose label is predicted, wherever the labels are."""
    values = (y, predicted, sample_weight)
    if any(map(is_remote, values)):
        from taufpl.operators.remote import fetched

        values = fetched(*values)
    return float(accuracy_score(*values[:2], sample_weight=values[2]))


def indexed(estimator: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Rows in memory and their labels, checked to be as many; remote ones as they are."""
    if is_remote(X):
        return X, y
    X, y = indexable(X, y)
    if num_samples(X) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: X and y must hold rows.")
    return X, check_y(y, estimator=estimator)


def linear_scores(estimator: Any, X: Any, intercept: float = 0.0) -> Any:
    """X w + b by a fitted linear estimator, with the columns of X checked."""
    coef = to_numpy(estimator.coef_)[0]
    if not is_remote(X):
        return as_operator(estimator._checked(X, reset=False)).matvec(coef) + intercept
    from taufpl.estimators.remote import check_header
    from taufpl.operators import remote

    check_header(estimator, X, reset=False)
    return remote.linear_scores(X, coef, max(intercept, -_LARGEST))


def scores_of(model: Any, X: Any, positive: Any) -> Any:
    """Score of a fitted classifier, or minus that of an outlier detector: higher means positive."""
    if not is_remote(X):
        return _scores_in_memory(model, X, positive)
    inner = model.estimator if isinstance(model, FrozenEstimator) else model
    if hasattr(inner, "_takes_remote"):  # one of this package that scores remote rows itself
        scores = inner.decision_function(X)
        return scores if inner.classes_[1] == positive else -scores
    from taufpl.operators.remote import map_rows, on_cuda

    on_device = on_cuda(X) and is_a(inner, XGBOOST)
    return map_rows(X, partial(_scores_in_memory, model, positive=positive), on_device=on_device)


def _scores_in_memory(model: Any, X: Any, positive: Any) -> Vector:
    if is_outlier_detector(model):
        return -_a_score_a_row(model, X, model.decision_function(X))
    if hasattr(model, "decision_function"):
        scores = _a_score_a_row(model, X, model.decision_function(X))
        if scores.ndim == 1:
            return scores if model.classes_[1] == positive else -scores
    elif hasattr(model, "predict_proba"):
        last = steps_and_last(model)[1]
        if library_of(last) == "xgboost" and last.objective == "binary:logistic":
            # Its probabilities are of single precision, in which many of the highest are the same.
            shares = expit(log_odds(model, X))
            return shares if model.classes_[1] == positive else 1.0 - shares
        scores = _a_score_a_row(model, X, model.predict_proba(X))
    else:
        raise TypeError(
            f"estimator must have decision_function or predict_proba, {type(model).__name__} has neither. "
            "For an SVC, say, decision_function is there; for a regressor, wrap it so that it gives scores."
        )
    return scores[:, int(np.flatnonzero(model.classes_ == positive)[0])]


def _a_score_a_row(model: Any, X: Any, scores: Any) -> Any:
    """Scores as doubles, once there is one for each row, or one for each row and class."""
    found, n_rows = np.asarray(scores, dtype=np.float64), num_samples(X)
    if found.shape != (n_rows,) and not (found.ndim == 2 and found.shape[0] == n_rows and found.shape[1] > 1):
        raise ValueError(
            f"estimator must give one score a row, shape ({n_rows},), or one a row and class, ({n_rows}, 2); the "
            f"scores of {type(steps_and_last(model)[1]).__name__} have shape {found.shape}."
        )
    return found


def some_rows(X: Any) -> Any:
    """Up to 64 rows from all over X, which are scored once more to see what their scores hang on."""
    (X,) = indexable(X)
    return safe_indexing(X, np.unique(np.linspace(0, num_samples(X) - 1, _LOOKED_AT).astype(np.intp)).tolist())


def batch_caveat(what: str, call: Callable[[Any], Array], rows: Any, rounding: float = 0.0) -> str | None:
    """What voids a proof, which needs a function of the row: rows in reverse, alone or once more differ."""
    n_rows = num_samples(rows)
    first = call(rows)
    agree = partial(_agree, tolerance=max(_rounding_of(first), rounding))
    if not agree(call(safe_indexing(rows, list(range(n_rows))[::-1]))[::-1], first):
        return f"{what} {'hang on the order of the rows' if agree(call(rows), first) else 'change from call to call'}"
    one = [n_rows // 2]
    return None if agree(call(safe_indexing(rows, one)), first[one]) else f"{what} hang on the other rows of a batch"


def _rounding_of(scores: Array) -> float:
    """How far scores may lie apart that are the same but for rounding: a small part of their span; 0 for labels."""
    if scores.dtype.kind != "f":
        return 0.0
    known = scores[np.isfinite(scores)]
    if not known.size:
        return 0.0
    return _SMALL * float(np.ptp(known)) + _ROUNDINGS * float(np.finfo(np.float64).eps * np.abs(known).max())


def _agree(a: Array, b: Array, tolerance: float) -> bool:
    if a.shape != b.shape or not tolerance:
        return bool(np.array_equal(a, b))
    return bool(np.allclose(a, b, rtol=0.0, atol=tolerance, equal_nan=True))


def precision_of(X: Any) -> Array:
    """Bytes of the floating-point numbers of each column of a frame, or of all of an array; 0 for what are none."""
    dtypes = X.dtypes if hasattr(getattr(X, "dtypes", None), "__iter__") else [getattr(X, "dtype", np.float64)]
    return np.array([_float_bytes(str(each).lower()) for each in dtypes])


def _float_bytes(dtype: str) -> int:
    if not any(each in dtype for each in ("float", "double")):
        return 0
    if any(each in dtype for each in ("16", "half")):
        return 2
    return 8 if any(each in dtype for each in ("64", "96", "128", "double")) else 4


def in_other_precision(rows: Any) -> Any:
    """Rows with doubles in single precision, and other numbers as doubles that would be rounded to them."""
    if hasattr(rows, "columns"):
        sizes = dict(zip(rows.columns, precision_of(rows), strict=True))
        moved = {name: in_other_precision(np.asarray(rows[name])) for name, size in sizes.items() if size}
        if not hasattr(rows, "iloc"):
            return rows.with_columns(**moved)
        rows = rows.copy()
        for name, values in moved.items():
            rows[name] = values
        return rows
    return rows.astype(np.float32) if rows.dtype == np.float64 else rows.astype(np.float64) * _HALF_A_ROUNDING


def differs_in_precision(X: Any, precision: Array) -> bool:
    """Whether numbers of X are of another precision than this, unless they are the same in both."""
    own = precision_of(X)
    if own.size != precision.size and 1 not in (own.size, precision.size):
        return False
    differs = (own != precision) & (own > 0) & (precision > 0)
    if not differs.any() or is_remote(X):
        return bool(differs.any())
    own, precision = np.broadcast_arrays(own, precision)
    if hasattr(X, "columns"):
        parts = [np.asarray(X[name]) for name, size in zip(X.columns, differs, strict=True) if size]
    else:
        parts = [X.data if hasattr(X, "tocsr") else np.asarray(X)]
    with np.errstate(over="ignore", invalid="ignore"):
        pairs = zip(parts, own[differs], precision[differs], strict=False)
        return not all(_is_same(values, int(now), int(before)) for values, now, before in pairs)


def _is_same(values: Array, now: int, before: int) -> bool:
    """Whether numbers of this precision were the same in the other: what it holds of doubles, whole ones of others."""
    other = values.astype(f"f{before}") if now > before else np.rint(values)
    return bool(np.array_equal(values, other, equal_nan=True))


def mean_scores(scores: list[Any]) -> Any:
    """Mean of the scores of several models."""
    return sum(scores[1:], scores[0]) / len(scores) if is_remote(scores[0]) else np.mean(scores, axis=0)


def decisions_of(scores: Any, threshold: Any) -> Any:
    """Scores minus threshold, one for all rows or, in memory, one a row.

    They are without the infinities, which metrics refuse, that a threshold of +inf would make; an infinite score is not
    above that.
    """
    with np.errstate(invalid="ignore"):
        return finite(scores - (min(threshold, _LARGEST) if is_remote(scores) else threshold))


def finite(decisions: Any) -> Any:
    """Decisions without infinities and NaN, as low or as high as can be instead; remote ones as they are."""
    if is_remote(decisions):
        return decisions
    return np.nan_to_num(decisions, nan=-_LARGEST, posinf=_LARGEST, neginf=-_LARGEST)


def above_each(scores: Any, thresholds: Any) -> Any:
    """Whether each score lies above each threshold, of shape (n_scores, n_thresholds)."""
    column = scores[:, np.newaxis]
    return column > (like(column, thresholds) if is_foreign_array(column) else thresholds)


def labels_of(decisions: Any, classes: Any) -> Any:
    """The second class where a decision is above 0, the first class otherwise."""
    if not is_remote(decisions):
        return classes[(decisions > 0).astype(np.intp)]
    from taufpl.operators.remote import lazy_labels

    return lazy_labels(decisions, to_numpy(classes))
