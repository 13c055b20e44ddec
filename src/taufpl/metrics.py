"""Metrics of classification under a tolerance on the false-positive rate, and scorers for model selection.

The positive class is the one that `pos_label` names. Without it, metrics take the larger of the two labels, as
scikit-learn does, and scorers the positive class of the estimator, `classes_[1]`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taufpl._checks import check_scores, check_tau
from taufpl._sklearn import Scorer, check_sample_weight
from taufpl.thresholding import (
    MOST_LEVELS,
    USUAL_DELTA,
    LevelRates,
    fpr_upper_bound,
    level_counts,
    level_texts,
    rates_of_levels,
    share_above,
)

__all__ = [
    "false_positive_rate",
    "fpr_upper_bound",
    "np_score",
    "np_scorer",
    "rates_by_level",
    "tpr_at_fpr",
    "tpr_at_fpr_scorer",
]

Mask = NDArray[np.bool_]


def np_score(
    y_true: ArrayLike, y_pred: ArrayLike, tau: float, *, pos_label: Any = None, sample_weight: ArrayLike | None = None
) -> float:
    """Neyman-Pearson score: lower is better, 0 is perfect.

    ::

        max(FPR, tau) / tau - TPR

    FPR under the tolerance earns nothing; above it, it costs 1/tau times the excess.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Labels, and predicted labels.
    tau : float
        Tolerance, strictly between 0 and 1.
    pos_label : label, default=None
        The positive class; the larger of the two labels if None.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in both rates.

    Examples
    --------
    >>> from taufpl.metrics import np_score
    >>> np_score([0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0], tau=0.25)
    0.5
    >>> np_score([0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0], tau=0.125)
    1.5
    """
    tau = check_tau(tau)
    is_positive, flagged = _as_masks(y_true, y_pred, pos_label)
    fpr = _rate(flagged, ~is_positive, sample_weight, "negative")
    tpr = _rate(flagged, is_positive, sample_weight, "positive")
    return max(fpr, tau) / tau - tpr


def false_positive_rate(
    y_true: ArrayLike, y_pred: ArrayLike, *, pos_label: Any = None, sample_weight: ArrayLike | None = None
) -> float:
    """Share of negatives that are predicted positive.

    ::

        # { j : y_j negative, predicted positive } / #{ j : y_j negative }

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Labels, and predicted labels. If `pos_label` is given, y_true may hold negatives alone.
    pos_label : label, default=None
        The positive class; the larger of the two labels if None.
    sample_weight : array-like of shape (n_samples,), default=None

    Examples
    --------
    >>> from taufpl.metrics import false_positive_rate
    >>> false_positive_rate([0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0])
    0.25
    """
    is_positive, flagged = _as_masks(y_true, y_pred, pos_label)
    return _rate(flagged, ~is_positive, sample_weight, "negative")


def rates_by_level(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    levels: ArrayLike,
    tau: float,
    *,
    delta: float = USUAL_DELTA,
    most: int = MOST_LEVELS,
    pos_label: Any = None,
) -> list[LevelRates]:
    """False-positive rate and recall for each level of a column, with bounds that hold for all levels together.

    Levels are disjoint, so that their counts are independent, given the classifier and the labels. Each of G levels
    gets delta_g = 1 - (1 - delta)^(1/G): then all lower bounds on FPR hold together with probability 1 - delta, and so
    do all upper bounds.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        Labels, and predicted labels, of rows that the classifier has not seen.
    levels : array-like of shape (n_samples,)
        The column: any values. 1, 1.0 and "1" are one level, and missing values are the level "missing".
    tau : float
        Tolerance, strictly between 0 and 1.
    delta : float, default=0.05
        Probability that any of the upper bounds fails, and the same for the lower bounds.
    most : int, default=50
        Beyond this number of levels, those with the fewest negatives count as one.
    pos_label : label, default=None
        The positive class; the larger of the two labels if None.

    Returns
    -------
    list of LevelRates
        Those with the most negatives first.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.metrics import rates_by_level
    >>> y_pred = np.repeat([0, 1, 0, 1], [990, 10, 960, 40])
    >>> country = np.repeat(["EU", "US"], 1000)
    >>> for found in rates_by_level(np.zeros(2000), y_pred, country, tau=0.02, pos_label=1):
    ...     print(found.level, found.fpr, round(found.fpr_upper_bound, 4), found.verdict)
    EU 0.01 0.0183 kept
    US 0.04 0.054 broken
    """
    tau = check_tau(tau)
    is_positive, flagged = _as_masks(y_true, y_pred, pos_label)
    texts = level_texts(levels)
    _check_lengths(is_positive, texts, "levels")
    names, codes = np.unique(texts, return_inverse=True)
    counts = level_counts(codes, names.size, is_positive, flagged)
    return rates_of_levels(names.tolist(), counts, lambda _: tau, delta, most)


def tpr_at_fpr(y_true: ArrayLike, y_score: ArrayLike, tau: float, *, pos_label: Any = None) -> float:
    """True-positive rate at the lowest threshold that keeps FPR on these very negatives at or under tau.

    ::

        (1 / m)  # { i positive : s_i > s_[k] },   s_[k] the (floor(tau n) + 1)-th largest negative score

    A measure of ranking alone: it needs no threshold, and ties with a negative count as misses.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels.
    y_score : array-like of shape (n_samples,)
        Scores, higher for the positive class.
    tau : float
        Tolerance, strictly between 0 and 1.
    pos_label : label, default=None
        The positive class; the larger of the two labels if None.

    Examples
    --------
    >>> from taufpl.metrics import tpr_at_fpr
    >>> tpr_at_fpr([0, 0, 0, 0, 1, 1], [0.1, 0.2, 0.3, 0.9, 0.8, 0.2], tau=0.25)
    0.5
    """
    tau = check_tau(tau)
    labels, scores = _as_labels("y_true", y_true), check_scores("y_score", y_score)
    _check_lengths(labels, scores, "y_score")
    is_positive = labels == _positive_label(np.unique(labels), pos_label)
    for name, rows in (("positive", is_positive), ("negative", ~is_positive)):
        _check_present(rows, name)
    return share_above(scores[is_positive], scores[~is_positive], tau)


def np_scorer(tau: float, *, pos_label: Any = None) -> Callable[..., float]:
    """Scorer for model selection by the negative of :func:`np_score`, from predicted labels.

    Parameters
    ----------
    tau : float
        Tolerance, strictly between 0 and 1.
    pos_label : label, default=None
        The positive class; that of the estimator, `classes_[1]`, if None.

    Returns
    -------
    callable
        `scorer(estimator, X, y_true)`, as scikit-learn's `scoring` takes it.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from taufpl.metrics import np_scorer
    >>> search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=np_scorer(tau=0.05))
    """
    return ToleranceScorer(np_score, -1, _settings(tau, pos_label), "predict")


def tpr_at_fpr_scorer(tau: float, *, pos_label: Any = None) -> Callable[..., float]:
    """Scorer for model selection by :func:`tpr_at_fpr`, from `decision_function` or else `predict_proba`.

    Parameters
    ----------
    tau, pos_label
        As in :func:`np_scorer`.

    Returns
    -------
    callable
        `scorer(estimator, X, y_true)`, as scikit-learn's `scoring` takes it.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from taufpl.metrics import tpr_at_fpr_scorer
    >>> search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=tpr_at_fpr_scorer(tau=0.05))
    """
    return ToleranceScorer(tpr_at_fpr, 1, _settings(tau, pos_label), ("decision_function", "predict_proba"))


class ToleranceScorer(Scorer):
    """A scorer of scikit-learn that takes the positive class of the estimator where none is named."""

    def _score(self, method_caller: Any, estimator: Any, X: Any, y_true: Any, **kwargs: Any) -> float:
        classes = getattr(estimator, "classes_", ())
        if "pos_label" not in self._kwargs and len(classes) == 2:
            kwargs.setdefault("pos_label", np.asarray(classes).tolist()[1])
        return float(super()._score(method_caller, estimator, X, y_true, **kwargs))


def _settings(tau: float, pos_label: Any) -> dict[str, Any]:
    named = {} if pos_label is None else {"pos_label": pos_label}
    return {"tau": check_tau(tau), **named}


def _as_masks(y_true: ArrayLike, y_pred: ArrayLike, pos_label: Any) -> tuple[Mask, Mask]:
    """Which rows are positive, and which are predicted to be."""
    true, predicted = _as_labels("y_true", y_true), _as_labels("y_pred", y_pred)
    _check_lengths(true, predicted, "y_pred")
    kinds = {"text" if x.dtype.kind in "US" else "numbers" for x in (true, predicted) if x.dtype.kind != "O"}
    if len(kinds) == 2:
        raise TypeError(f"y_pred must hold labels of the kind of y_true's, {true.dtype}; got {predicted.dtype}.")
    classes = np.unique(true)
    positive = _positive_label(classes, pos_label)
    known = classes.tolist() if pos_label is None else {*classes.tolist(), pos_label}
    # With one class in y_true, what else is predicted can only be the other class.
    unknown = [label for label in np.unique(predicted).tolist() if label not in known]
    if len(known) + len(unknown) > 2:
        raise ValueError(f"y_pred must hold the labels of y_true, {list(known)}; got {unknown[0]!r} too.")
    return true == positive, predicted == positive


def _as_labels(name: str, labels: ArrayLike) -> NDArray[Any]:
    x = np.asarray(labels)
    if x.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got an array of shape {x.shape}.")
    if x.size == 0:
        raise ValueError(f"{name} must have at least one entry, got none.")
    # NaN differs from itself, in arrays of objects too.
    n_missing = int(np.count_nonzero(x != x))
    if n_missing:
        raise ValueError(f"{name} must hold labels, got {n_missing} NaN among them. Leave those rows out.")
    return x


def _positive_label(classes: NDArray[Any], pos_label: Any) -> Any:
    found = classes.tolist()
    if len(found) > 2:
        raise ValueError(
            f"y_true must hold two classes, got {len(found)}: {found[:5]}. For one class against the rest, pass "
            "y_true == label and y_pred == label."
        )
    if pos_label is None:
        if len(found) == 1:
            raise ValueError(
                f"y_true must hold both classes, got {found[0]!r} alone. Pass rows of both classes, or name the "
                "positive class by pos_label where negatives alone are enough."
            )
        return found[1]
    if len(found) == 2 and pos_label not in found:
        raise ValueError(f"pos_label must be one of the labels in y_true, {found}; got {pos_label!r}.")
    return pos_label


def _check_lengths(labels: NDArray[Any], others: NDArray[Any], name: str) -> None:
    if labels.size != others.size:
        raise ValueError(f"{name} must have as many entries as y_true, {labels.size}; got {others.size}.")


def _check_present(rows: Mask, name: str) -> None:
    if not rows.any():
        raise ValueError(f"y_true must hold at least one {name}, got none. Pass rows of both classes.")


def _rate(flagged: Mask, rows: Mask, sample_weight: ArrayLike | None, name: str) -> float:
    """Weighted share of the rows that are flagged."""
    _check_present(rows, name)
    weights = check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    total = float(weights[rows].sum())
    if total == 0:
        raise ValueError(f"sample_weight must not be 0 on every {name}.")
    return float(weights[rows & flagged].sum()) / total
