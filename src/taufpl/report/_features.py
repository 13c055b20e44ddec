"""Weights of features, and the features that moved the score of a row most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_outlier_detector
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array, gen_batches

from taufpl._types import Vector
from taufpl.estimators import known_positive, steps_and_last, transformed
from taufpl.operators import as_operator
from taufpl.report._format import shortened
from taufpl.report._scored_rows import ScoredRows, lowest

_BLOCK = 65_536
_NAME_LENGTH = 80


@dataclass(frozen=True, slots=True)
class LinearScore:
    """A linear score of some rows: coefficients, and mean and standard deviation of each feature on them."""

    rows: Any
    coef: Vector
    mean: Vector
    deviation: Vector


@dataclass(frozen=True, slots=True)
class Features:
    """Weights of features: coefficients times standard deviations ("linear"), "importances" of the scorer, or "none".

    "recall" is what the model itself says of its columns: the recall that is lost without each.

    Features without names are numbered. `linear` holds the linear scores whose mean is the score.
    """

    kind: str
    weights: Vector
    names: Sequence[str] | None
    linear: tuple[LinearScore, ...] = ()

    @property
    def n_weights(self) -> int:
        """How many weights are not zero."""
        return int(np.count_nonzero(self.weights))

    def heaviest(self, n: int) -> list[tuple[str, float]]:
        """Names and weights of the features that weigh most."""
        return self._largest(self.weights, n)

    def reasons(self, row: int, n: int) -> list[tuple[str, float]]:
        """The features that moved the score of a row most away from that of the mean row, and by how much."""
        if not self.linear:
            return []
        moves = [each.coef * (as_operator(each.rows).rmatvec_rows([1.0], [row]) - each.mean) for each in self.linear]
        return self._largest(np.mean(moves, axis=0), n)

    def _largest(self, values: Vector, n: int) -> list[tuple[str, float]]:
        """Names and values of the n features with the largest values in size, largest first, without zeros."""
        order = lowest(-np.abs(values), n).tolist()
        names = {i: f"feature {i}" if self.names is None else self.names[i] for i in order if values[i]}
        return [(shortened(name, _NAME_LENGTH), float(values[i])) for i, name in names.items()]


def features_of(rows: ScoredRows, feature_names: Any) -> Features:
    """Find weights: of a linear score on standardised features, else what the scorer calls importances."""
    own = getattr(rows.final, "feature_importances_", None)
    if own is not None:
        return Features("recall", np.asarray(own, dtype=np.float64), _names(rows, feature_names, rows.final, len(own)))
    parts = [_stages(model, rows) for model in _scorers(rows.final)]
    linear = tuple(_linear(*part) for part in parts) if all(_is_linear(model) for model, _, _ in parts) else ()
    last, inner, _ = parts[0]
    width = np.shape(inner)[1] if len(np.shape(inner)) > 1 else 1
    n_features = linear[0].coef.size if linear else int(getattr(last, "n_features_in_", width))
    names = _names(rows, feature_names, last, n_features)
    if linear and len({each.coef.size for each in linear}) == 1:
        weights = np.mean([each.coef * each.deviation for each in linear], axis=0)
        return Features("linear", weights, names, linear)
    importances = [np.asarray(getattr(model, "feature_importances_", ()), dtype=np.float64) for model, _, _ in parts]
    if all(each.size and each.shape == importances[0].shape for each in importances):
        return Features("importances", np.mean(importances, axis=0), names)
    return Features("none", np.empty(0), names)


def _scorers(final: Any) -> list[Any]:
    """The models whose mean score counts."""
    return getattr(final, "estimators_", [final])


def _stages(model: Any, rows: ScoredRows) -> tuple[Any, Any, float]:
    """The last step of a scorer, the rows as it sees them, and 1 or -1 where its positives are the others."""
    steps, last = steps_and_last(model)
    known = getattr(last, "classes_", None)
    turned = is_outlier_detector(last) or (known is not None and known[-1] != known_positive(last, rows.final.classes_))
    return last, transformed(steps, rows.inner), -1.0 if turned else 1.0


def _is_linear(model: Any) -> bool:
    """Whether the score is linear: probabilities are not, even of a linear model."""
    coef = getattr(model, "coef_", None)
    if coef is None or not hasattr(model, "decision_function"):
        return False
    return np.ndim(coef) <= 2 and np.size(coef) == np.shape(coef)[-1]


def _linear(model: Any, rows: Any, sign: float) -> LinearScore:
    array = check_array(rows, accept_sparse="csr", dtype=[np.float64, np.float32], accept_large_sparse=True)
    scaler = StandardScaler(with_mean=False)
    for block in gen_batches(array.shape[0], _BLOCK):
        scaler.partial_fit(array[block])
    mean, deviation = np.asarray(scaler.mean_), np.sqrt(np.asarray(scaler.var_))
    return LinearScore(array, sign * np.asarray(model.coef_, dtype=np.float64).ravel(), mean, deviation)


def _names(rows: ScoredRows, given: Any, last: Any, n_features: int) -> Sequence[str] | None:
    """Names of the features that `last`, the last step of the first scorer, sees."""
    given = None if given is None else [str(each) for each in given]
    if given is not None and len(given) == n_features:
        return given
    columns = getattr(rows.outer, "columns", None) if given is None else given
    names = None if columns is None else [str(each) for each in columns]
    for model in (rows.model, _scorers(rows.final)[0]):
        names = _passed_on(steps_and_last(model)[0], names)
    if names is not None and len(names) == n_features:
        return names
    if given is not None:
        raise ValueError(
            f"feature_names must hold one name a feature, {n_features}; got {len(given)}. The features are those that "
            "the last step of the model sees, or those of X where the steps before it can name what they make of them."
        )
    own = getattr(last, "feature_names_in_", getattr(rows.final, "feature_names_in_", None))
    return None if own is None or len(own) != n_features else [str(each) for each in own]


def _passed_on(steps: tuple[Any, ...], names: list[str] | None) -> list[str] | None:
    """What the steps before the last make of names; None where they cannot tell."""
    if not steps:
        return names
    for arguments in ((names,), ()):
        try:
            return [str(each) for each in make_pipeline(*steps).get_feature_names_out(*arguments)]
        except (AttributeError, ValueError, TypeError):
            continue
    return None
