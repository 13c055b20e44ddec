"""Names and weights of features, and what moved the score of a row most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_outlier_detector
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array, gen_batches

from taufpl._row_hashes import is_missing
from taufpl._sklearn import safe_indexing
from taufpl._types import RowIndices, Vector
from taufpl.estimators import known_positive, steps_and_last, transformed
from taufpl.exceptions import ExportError
from taufpl.inspection import reasons_either_way, recall_lost
from taufpl.operators import as_operator
from taufpl.persistence import visit
from taufpl.preprocessing import DATE_PARTS
from taufpl.report._format import shortened
from taufpl.report._scored_rows import ScoredRows, lowest

_BLOCK = 65_536
_NAME_LENGTH = 80
# Negatives that rows are held against, and values that are replaced, five times each, to tell what moved a score that
# is not linear.
_MOST_REFERENCES = 10_000
_MOST_MOVES = 50_000
# What rows that are no table, or a table that is too wide, end in.
_NO_TABLE = (ImportError, TypeError, ValueError)
# What scikit-learn calls the rare levels of a column, which have one feature together.
_RARE = "infrequent_sklearn"


@dataclass(frozen=True, slots=True)
class LinearScore:
    """A linear score of some rows: coefficients, and the standard deviation of each feature on the rows."""

    rows: Any
    coef: Vector
    deviation: Vector

    def moves(self, row: int, mean: Vector) -> Vector:
        """How far each feature moved the score of a row away from that of a mean row."""
        return self.coef * (as_operator(self.rows).rmatvec_rows([1.0], [row]) - mean)


@dataclass(frozen=True, slots=True)
class Features:
    """Weights of features: coefficients times standard deviations ("linear"), "importances" of the scorer, or "none".

    "recall" is the recall that is lost without each column, as the model itself says; "recall here" the same, measured
    on the rows of the report.

    Features without names are numbered. `linear` holds the linear scores whose mean is the score.
    """

    kind: str
    weights: Vector
    names: Sequence[str] | None
    linear: tuple[LinearScore, ...] = ()

    @property
    def is_recall(self) -> bool:
        """Whether weights are recall that is lost."""
        return self.kind.startswith("recall")

    @property
    def n_weights(self) -> int:
        """How many weights are not zero."""
        return int(np.count_nonzero(self.weights))

    def heaviest(self, n: int) -> list[tuple[str, float]]:
        """Names and weights of the features that weigh most."""
        return self.largest(self.weights, n)

    def largest(self, values: Vector, n: int) -> list[tuple[str, float]]:
        """Names and values of the n features with the largest values in size, largest first, without zeros."""
        order = lowest(-np.abs(values), n).tolist()
        names = {i: f"feature {i}" if self.names is None else self.names[i] for i in order if values[i]}
        return [(shortened(name, _NAME_LENGTH), float(values[i])) for i, name in names.items()]


def features_of(rows: ScoredRows, given: Any) -> Features:
    """Find weights: of a linear score on standardised features, else recall lost by column, else importances.

    `given` are names of the features or of the columns, or None.
    """
    own = getattr(rows.final, "feature_importances_", None)
    if own is not None:
        return Features("recall", np.asarray(own, dtype=np.float64), _names(rows, given, (), rows.final, len(own)))
    parts = [_stages(model, rows) for model in _scorers(rows.final)]
    linear = tuple(_linear(*part) for part in parts) if all(_is_linear(model) for model, _, _ in parts) else ()
    last, inner, _ = parts[0]
    n_features = linear[0].coef.size if linear else int(getattr(last, "n_features_in_", _width(inner) or 1))
    names = _names(rows, given, steps_and_last(_scorers(rows.final)[0])[0], last, n_features)
    if linear and len({each.coef.size for each in linear}) == 1:
        weights = np.mean([each.coef * each.deviation for each in linear], axis=0)
        return Features("linear", weights, names, linear)
    lost = _recall_lost(rows)
    if lost is not None:
        return Features("recall here", lost, _column_names(rows, given, lost.size))
    importances = [np.asarray(getattr(model, "feature_importances_", ()), dtype=np.float64) for model, _, _ in parts]
    if all(each.size and each.shape == importances[0].shape for each in importances):
        return Features("importances", np.mean(importances, axis=0), names)
    return Features("none", np.empty(0), names)


def reasons_for(
    rows: ScoredRows, features: Features, given: Any, places: RowIndices, n: int
) -> list[list[tuple[str, float]]]:
    """What moved the score of each of some rows most away from that of negatives, and by how much.

    Columns with their values, where X is a table; else features, as the words of a text are. Nothing where the score
    of neither is known, or the rows are too wide.
    """
    negatives = np.flatnonzero(~rows.is_positive) if rows.negative.size else np.arange(rows.scores.size)
    n_columns = _width(rows.outer)
    if n_columns and (features.linear or places.size * n_columns <= _MOST_MOVES):
        sample = negatives[:: -(-negatives.size // _MOST_REFERENCES)]
        X, others = (safe_indexing(rows.outer, some) for some in (places, sample))
        names = _column_names(rows, given, n_columns) or [f"feature {i}" for i in range(n_columns)]
        try:
            with np.errstate(all="ignore"):
                found = reasons_either_way(rows.model, X, others, n, names)
            return [[(shortened(each.condition, _NAME_LENGTH), each.change) for each in own] for own in found]
        except _NO_TABLE:
            pass
    if not features.linear:
        return [[] for _ in places]
    share = np.zeros(rows.scores.size)
    share[negatives] = 1.0 / negatives.size
    scores = [(each, as_operator(each.rows).rmatvec(share)) for each in features.linear]
    moves = (np.mean([each.moves(row, mean) for each, mean in scores], axis=0) for row in places.tolist())
    return [features.largest(own, n) for own in moves]


def _width(X: Any) -> int:
    """The number of columns; 0 where X is no table."""
    shape = getattr(X, "shape", None) or np.shape(X)
    return int(shape[1]) if len(shape) == 2 else 0


def _recall_lost(rows: ScoredRows) -> Vector | None:
    """Recall lost by column; None where X is no table, or no positive row raises an alarm."""
    if not np.any(rows.is_flagged & rows.is_positive):
        return None
    try:
        with np.errstate(all="ignore"):
            return recall_lost(rows.model, rows.outer, rows.is_positive, rows.scores - rows.threshold)
    except _NO_TABLE:
        return None


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
    deviation = np.sqrt(np.asarray(scaler.var_))
    return LinearScore(array, sign * np.asarray(model.coef_, dtype=np.float64).ravel(), deviation)


def _names(rows: ScoredRows, given: Any, steps: tuple[Any, ...], last: Any, n_features: int) -> Sequence[str] | None:
    """Names of the features that `last` sees, behind the steps of the model and those of its scorer."""
    given = None if given is None else [str(each) for each in given]
    if given is not None and len(given) == n_features:
        return given
    columns = getattr(rows.outer, "columns", None) if given is None else given
    names = None if columns is None else [str(each) for each in columns]
    made = feature_names((*steps_and_last(rows.model)[0], *steps), names)
    if made is not None and len(made) == n_features:
        return made
    if given is not None:
        raise ValueError(
            f"feature_names must hold one name a feature, {n_features}; got {len(given)}. The features are those that "
            "the last step of the model sees, or those of X where the steps before it can name what they make of them."
        )
    own = getattr(last, "feature_names_in_", getattr(rows.final, "feature_names_in_", None))
    return None if own is None or len(own) != n_features else [str(each) for each in own]


def _column_names(rows: ScoredRows, given: Any, n_columns: int) -> Sequence[str] | None:
    """Names of the columns of X; None where nobody has named them."""
    known = (given, getattr(rows.outer, "columns", None), getattr(rows.model, "feature_names_in_", None))
    found = (list(map(str, names)) for names in known if names is not None)
    return next((names for names in found if len(names) == n_columns), None)


def feature_names(steps: Iterable[Any], columns: Sequence[str] | None) -> list[str] | None:
    """Names of the features that fitted steps make of columns: "city = Oslo", "age is missing", "created: weekday".

    Steps of other kinds name what they make themselves, without the prefixes of those around them. None where they
    cannot, or where there are no columns, as before a vectorizer of texts, and no step gives names.
    """
    try:
        return visit(steps, None if columns is None else list(columns), _NameVisitor())
    except (AttributeError, ExportError, IndexError, TypeError, ValueError):
        return None


class _NameVisitor:
    """Features by their names; None where they have none."""

    def take(self, features: list[str] | None, columns: Sequence[int]) -> list[str] | None:
        return None if features is None else [features[column] for column in columns]

    def join(self, parts: Sequence[list[str] | None]) -> list[str] | None:
        known = [part for part in parts if part is not None]
        return [name for part in known for name in part] if len(known) == len(parts) else None

    def scale(self, features: list[str] | None, step: Any, scaling: Any) -> list[str] | None:
        return features

    def impute(
        self, features: list[str] | None, step: Any, fills: dict[int, Any], marked: list[int]
    ) -> list[str] | None:
        if features is None:
            return None
        return [*(features[column] for column in fills), *(f"{features[column]} is missing" for column in marked)]

    def encode(self, features: list[str] | None, step: Any, encodings: Iterable[Any]) -> list[str] | None:
        if features is None:
            return None
        encoder = copy(getattr(step, "encoder_", step))
        encoder.feature_name_combiner = _level_name
        encoder.__dict__.pop("feature_names_in_", None)  # else it takes no other names
        return [str(name) for name in encoder.get_feature_names_out(features)]

    def split_dates(self, features: list[str] | None, step: Any) -> list[str] | None:
        if features is None:
            return None
        parts = [f"{name}: {part}" for name in features for part in DATE_PARTS]
        return [*parts, *(f"{features[place]} is missing" for place in step.marked_)]

    def convert(self, features: list[str] | None, step: Any) -> list[str] | None:
        given = None if features is None else np.array(features, dtype=object)
        return [str(name) for name in step.get_feature_names_out(given)]


def _level_name(column: Any, level: Any) -> str:
    if is_missing(level):
        return f"{column} is missing"
    return f"{column} is rare" if level == _RARE else f"{column} = {level}"
