"""Tables as people have them, as one matrix of doubles: columns are planned, filled, scaled and encoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from taufpl._sklearn import check_feature_names_in
from taufpl._types import Array, Matrix, RowIndices
from taufpl.preprocessing._column_plan import (
    MAX_LEVELS,
    MIN_ROWS,
    ColumnPlan,
    reasons_against,
)
from taufpl.preprocessing._date_encoder import DATE_PARTS, DateEncoder
from taufpl.preprocessing._level_encoder import LevelEncoder
from taufpl.preprocessing._table_columns import TableColumns, first_too_large, is_frame

# Sparse rows with more columns stay sparse.
MOST_DENSE = 2000
# The largest number in single precision, in which forests hold features.
_LARGEST_ENCODED = float(np.finfo(np.float32).max)
# Which part of an encoder a kind of column goes through.
PART_OF = {"number": "numbers", "boolean": "numbers", "date": "dates", "category": "categories"}


class TableEncoder(TransformerMixin, BaseEstimator):
    """A table of numbers, truth values, categories and dates as one matrix of doubles.

    What each column is, is told from its type and its values in `fit`; labels are not looked at:

    ==========  ===========================================================================================
    number      missing values filled by the mean, with a feature that marks them where training rows had
                some; scaled to mean 0 and standard deviation 1. Truth values count as 0 and 1.
    category    texts and categories: :class:`LevelEncoder`, one feature a level for the 50 most frequent
                with 5 rows or more; the others have one together. A missing text is a level where training
                rows had one. A level that training never saw counts as the average over the training rows, with
                an :class:`~taufpl.exceptions.UnseenValuesWarning` that counts them by column.
    date        :class:`DateEncoder`: four numbers, filled, marked and scaled.
    dropped     the same value in every row, or none; in frames also identifiers and free text.
    ==========  ===========================================================================================

    Sparse matrices with more than 2,000 columns stay sparse: they become CSR, and each column is divided by its largest
    absolute value, so that zeros stay zeros. Narrower ones become dense.

    Attributes
    ----------
    columns_ : tuple of ColumnPlan
        What is done with each column, and why; empty for wide sparse matrices.
    parts_ : list of (str, transformer, ndarray of int)
        The fitted transformers with the columns that each gets: "numbers", "dates" and "categories", or "sparse".
    sources_ : ndarray of int
        The column of X that each output feature comes from.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where all columns of X have names.

    Examples
    --------
    >>> import pandas as pd
    >>> from taufpl.preprocessing import TableEncoder
    >>> X = pd.DataFrame({"age": [20.0, 30.0, None, 40.0] * 10, "city": ["bonn", "oslo"] * 20, "one": 1})
    >>> encoder = TableEncoder().fit(X)
    >>> [(column.name, column.kind) for column in encoder.columns_]
    [('age', 'number'), ('city', 'category'), ('one', 'dropped')]
    >>> encoder.transform(pd.DataFrame({"age": [None], "city": ["oslo"], "one": [1]})).round(3).tolist()
    [[0.0, 1.732, 0.0, 1.0]]
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'missingindicator_age', 'city_bonn', 'city_oslo']
    """

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Plan the columns, and learn what fills, scales and encodes them.

        Parameters
        ----------
        X : dataframe of pandas or polars, array-like or sparse matrix of shape (n_samples, n_features)
            NaN, None, NaT and NA are missing values. An infinite number is a ValueError.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        self._learn(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and encode the same rows.

        Parameters
        ----------
        X : dataframe of pandas or polars, array-like or sparse matrix of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        ndarray or CSR matrix of shape (n_samples, n_features_out)
        """
        return self._learn(X)

    def transform(self, X: Any) -> Any:
        """Encode rows.

        Parameters
        ----------
        X : dataframe of pandas or polars, array-like or sparse matrix of shape (n_samples, n_features)
            With the columns of `fit`, in their order; whether a frame is of pandas or of polars does not matter. A
            column of another type, such as texts where numbers are expected, is a ValueError that names both. Among
            Python objects, single values of another type count as missing, with a UserWarning. A number that
            is beyond 3.4e38 once it is scaled is a ValueError.

        Returns
        -------
        ndarray or CSR matrix of shape (n_samples, n_features_out)
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if not self.columns_:
            return self._checked(self.parts_[0][1].transform(_csr(X)), X)
        table = TableColumns(_dense(X), [each.name for each in self.columns_], [each.kind for each in self.columns_])
        return self._checked(_joined([self._encoded(part, table) for part in self.parts_]), X)

    def _encoded(self, part: tuple[str, Any, RowIndices], table: TableColumns) -> Any:
        """The features of the columns that one part gets."""
        name, step, places = part
        values = table.values(places)
        if name != "categories":
            return step.transform(values)
        return step._encoded(values, [table.names[each] for each in places])

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the output features, made of the column and, of dates and categories, the part or level.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; None takes those that were seen in `fit`.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names = check_feature_names_in(self, input_features)
        return np.concatenate([each.get_feature_names_out(names[indices]) for _, each, indices in self.parts_])

    def _learn(self, X: Any) -> Any:
        """Fit on rows, and give them encoded."""
        X = self._validated(X, reset=True)
        if hasattr(X, "toarray") and X.shape[1] > MOST_DENSE:
            return self._learn_sparse(_csr(X))
        table = TableColumns(_dense(X), check_feature_names_in(self))
        # The columns of an array have no names that could tell an identifier, and are numbers that somebody has chosen.
        self.columns_: tuple[ColumnPlan, ...] = table.plan(may_be_identifier=hasattr(self, "feature_names_in_"))
        if all(each.kind == "dropped" for each in self.columns_):
            reasons = reasons_against(self.columns_) or "there are no columns"
            raise ValueError(f"no column is left to learn from (n_samples={X.shape[0]}; {reasons}).")
        kinds = np.array([PART_OF.get(each.kind, "") for each in self.columns_])
        parts = encoding_parts(self.columns_)
        self.parts_ = [(name, each, np.flatnonzero(kinds == name)) for name, each in parts]
        made = [each.fit_transform(table.values(indices)) for _, each, indices in self.parts_]
        self.sources_ = np.concatenate([_sources(*part) for part in self.parts_])
        return _joined(made)

    def _learn_sparse(self, X: Any) -> Any:
        scaler = MaxAbsScaler().set_output(transform="default")
        self.columns_ = ()
        self.sources_ = np.arange(X.shape[1])
        self.parts_ = [("sparse", scaler, self.sources_)]
        return scaler.fit_transform(X)

    def _checked(self, encoded: Any, X: Any) -> Any:
        """Encoded rows, once none of their numbers is too large for single precision."""
        found = first_too_large(encoded.data[np.newaxis] if hasattr(encoded, "tocoo") else encoded, _LARGEST_ENCODED)
        if found is None:
            return encoded
        row, place = found
        if hasattr(encoded, "tocoo"):
            entries = encoded.tocoo()
            row, place = int(entries.row[place]), int(entries.col[place])
        column = int(self.sources_[place])
        rows = X.tocsr() if hasattr(X, "tocsr") else getattr(X, "iloc", X)
        name, value = check_feature_names_in(self)[column], float(rows[row, column])
        raise ValueError(
            f"column {name!r} holds {value:g}, first in row {row} of those given: scaled as in fit, it is "
            f"{encoded[row, place]:g}, and forests take at most {_LARGEST_ENCODED:.2g}. Leave the row out, or "
            "set the value to NaN, which counts as missing."
        )

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """A frame as it is, an array or a sparse matrix, once shape and names are checked."""
        if is_frame(X):
            validate_data(self, X=X, reset=reset, skip_check_array=True)
            if not X.shape[0]:
                raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
            return X
        if not hasattr(X, "dtype") and np.asarray(X).dtype.kind == "U":
            # A list of rows with texts may have numbers beside them, which NumPy would make texts of.
            X = np.asarray(X, dtype=object)
        return validate_data(
            self, X=X, reset=reset, dtype=None, accept_sparse=True, ensure_all_finite=False, ensure_min_samples=1
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags


def encoding_parts(columns: Sequence[ColumnPlan], *, sparse_levels: bool = False) -> list[tuple[str, Any]]:
    """The transformers, not fitted, that columns need: "numbers", "dates" and "categories", in this order."""
    kinds = {PART_OF.get(each.kind) for each in columns}
    has_missing = any(each.n_missing for each in columns if PART_OF.get(each.kind) == "numbers")
    # A value that is missing where none was missing counts as the average over the training rows, as an unknown level
    # does. Where some were missing, the mark has a weight of its own, and what fills the gap matters little.
    numbers = [("fill", SimpleImputer(strategy="mean", add_indicator=has_missing)), ("scale", StandardScaler())]
    dates = [("parts", DateEncoder()), ("fill", SimpleImputer(strategy="mean")), ("scale", StandardScaler())]
    levels = LevelEncoder(min_frequency=MIN_ROWS, max_categories=MAX_LEVELS + 1, sparse_output=sparse_levels)
    parts = (("numbers", Pipeline(numbers)), ("dates", Pipeline(dates)), ("categories", levels))
    return [(name, each.set_output(transform="default")) for name, each in parts if name in kinds]


def _sources(name: str, part: Any, columns: RowIndices) -> RowIndices:
    """The column that each feature of a fitted part comes from."""
    if name == "categories":
        return np.repeat(columns, part.encoder_._n_features_outs)
    if name == "dates":
        return np.append(np.repeat(columns, len(DATE_PARTS)), columns[part[0].marked_])
    indicator = part[0].indicator_
    return columns if indicator is None else np.append(columns, columns[indicator.features_])


def _csr(X: Any) -> Any:
    """Rows of numbers as a CSR matrix; missing and infinite values are refused."""
    csr = X.tocsr() if hasattr(X, "tocsr") else csr_matrix(X)
    if not np.isfinite(csr.data).all():
        raise ValueError(
            f"a sparse matrix with more than {MOST_DENSE:,} columns must not hold missing or infinite values: what is "
            "not stored is 0. Set them to 0, or leave their rows out."
        )
    return csr


def _dense(X: Any) -> Any:
    return X.toarray(order="C") if hasattr(X, "toarray") else X


def _joined(parts: list[Any]) -> Matrix:
    return np.ascontiguousarray(parts[0] if len(parts) == 1 else np.hstack(parts))
