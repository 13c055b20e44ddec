"""Columns of every kind as one matrix of doubles: a table, its levels and its dates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from taufpl._sklearn import check_feature_names_in
from taufpl._types import Array, Matrix, RowIndices
from taufpl.preprocessing._table_columns import (
    MAX_LEVELS,
    MIN_ROWS,
    ColumnPlan,
    TableColumns,
    as_kind,
    columns_of,
    first_too_large,
    is_frame,
    read_column,
    reasons_against,
    seconds_of,
)
from taufpl.preprocessing._unseen import warn_unseen

# Sparse rows with more columns stay sparse.
_MOST_DENSE = 2000
# The largest number in single precision, in which forests hold features.
_LARGEST_ENCODED = float(np.finfo(np.float32).max)
# Which part of an encoder a kind of column goes through.
_PART_OF = {"number": "numbers", "boolean": "numbers", "date": "dates", "category": "categories"}


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
        if hasattr(X, "toarray") and X.shape[1] > _MOST_DENSE:
            return self._learn_sparse(_csr(X))
        table = TableColumns(_dense(X), check_feature_names_in(self))
        # The columns of an array have no names that could tell an identifier, and are numbers that somebody has chosen.
        self.columns_: tuple[ColumnPlan, ...] = table.plan(may_be_identifier=hasattr(self, "feature_names_in_"))
        if all(each.kind == "dropped" for each in self.columns_):
            reasons = reasons_against(self.columns_) or "there are no columns"
            raise ValueError(f"no column is left to learn from (n_samples={X.shape[0]}; {reasons}).")
        kinds = np.array([_PART_OF.get(each.kind, "") for each in self.columns_])
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
    kinds = {_PART_OF.get(each.kind) for each in columns}
    has_missing = any(each.n_missing for each in columns if _PART_OF.get(each.kind) == "numbers")
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
            f"a sparse matrix with more than {_MOST_DENSE:,} columns must not hold missing or infinite values: what is "
            "not stored is 0. Set them to 0, or leave their rows out."
        )
    return csr


def _dense(X: Any) -> Any:
    return X.toarray(order="C") if hasattr(X, "toarray") else X


def _joined(parts: list[Any]) -> Matrix:
    return np.ascontiguousarray(parts[0] if len(parts) == 1 else np.hstack(parts))


class LevelEncoder(TransformerMixin, BaseEstimator):
    """Columns of levels as one feature a level; a level that training never saw counts as the average training row.

    A known level l of a column becomes the unit vector e_l, as with :class:`sklearn.preprocessing.OneHotEncoder`. Any
    other value becomes the mean of these over the n training rows::

        (n_1 / n, ..., n_L / n),   n_l = training rows with level l

    A linear score of such a row is the mean of the scores that the row would have with the levels of the training rows.
    Zeros in its place, which ``OneHotEncoder(handle_unknown="ignore")`` gives, are no level at all: whatever the
    weights of all levels have in common is then missing from the score, and a threshold that was chosen on rows with
    known levels means nothing. `transform` warns of such levels (:class:`~taufpl.exceptions.UnseenValuesWarning`).

    Parameters
    ----------
    min_frequency : int or float, default=None
        Levels with fewer training rows, or a smaller share of them, are rare and have one feature together.
    max_categories : int, default=None
        The most features of a column, that of the rare levels included: the least frequent levels become rare.
    sparse_output : bool, default=True
        Whether `transform` gives a CSR matrix.

    Attributes
    ----------
    encoder_ : OneHotEncoder
        It knows the levels.
    categories_ : list of ndarray
        All levels of each column, rare ones included. A missing value is a level where training rows had one: None
        among the texts of a frame, whatever stood for it there; in arrays None and NaN are two levels.
    shares_ : ndarray of shape (n_features_out,)
        What an unknown level becomes: for every feature the share of training rows in which it is 1.
    n_samples_seen_ : int
        Training rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where all columns of X have names.

    Examples
    --------
    >>> from taufpl.preprocessing import LevelEncoder
    >>> encoder = LevelEncoder(sparse_output=False).fit([["bonn"], ["oslo"], ["oslo"], ["rome"]])
    >>> encoder.transform([["oslo"]])
    array([[0., 1., 0.]])
    >>> encoder.shares_  # what "paris" becomes, with a warning
    array([0.25, 0.5 , 0.25])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        name: OneHotEncoder._parameter_constraints[name]
        for name in ("min_frequency", "max_categories", "sparse_output")
    }

    def __init__(
        self, *, min_frequency: float | None = None, max_categories: int | None = None, sparse_output: bool = True
    ) -> None:
        self.min_frequency = min_frequency
        self.max_categories = max_categories
        self.sparse_output = sparse_output

    def fit(self, X: Any, y: Any = None) -> LevelEncoder:
        """Learn the levels and their shares.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self
        """
        self._learn(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn the levels, and encode the same rows.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        CSR matrix or ndarray of shape (n_samples, n_features_out)
        """
        return self._stored(self._learn(X))

    def transform(self, X: Any) -> Any:
        """Encode rows.

        Parameters
        ----------
        X : array-like or dataframe of shape (n_samples, n_features)

        Returns
        -------
        CSR matrix or ndarray of shape (n_samples, n_features_out)
        """
        check_is_fitted(self)
        return self._encoded(X, check_feature_names_in(self))

    def _encoded(self, X: Any, names: Sequence[str]) -> Any:
        """Encoded rows, with a warning that gives the columns with unknown levels their names."""
        if getattr(X, "ndim", 2) == 2:  # of anything else the encoder says what is wrong
            validate_data(self, X=X, reset=False, skip_check_array=True)
        X = _with_one_missing(X, [each.dtype for each in self.categories_])
        known = self.encoder_.transform(X)
        # A known level has exactly one 1 among the features of its column, an unknown one has none.
        columns = self._columns()
        unknown = 1.0 - (known @ columns).toarray()
        if unknown.any():
            warn_unseen(X, unknown > 0, names)
            shares = columns.multiply(self.shares_[:, np.newaxis]).T
            known = type(known)(known + csr_array(unknown) @ shares)
        return self._stored(known)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features, made of column and level.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; None takes those that were seen in `fit`.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names: NDArray[Any] = self.encoder_.get_feature_names_out(input_features)
        return names

    @property
    def categories_(self) -> list[NDArray[Any]]:
        """All levels of each column."""
        check_is_fitted(self)
        levels: list[NDArray[Any]] = self.encoder_.categories_
        return levels

    def _learn(self, X: Any) -> Any:
        """Fit on rows, and give them encoded, sparse."""
        self._validate_params()
        validate_data(self, X=X, reset=True, skip_check_array=True)
        encoder = OneHotEncoder(
            handle_unknown="ignore", min_frequency=self.min_frequency, max_categories=self.max_categories
        ).set_output(transform="default")
        encoded = encoder.fit_transform(_with_one_missing(X, getattr(X, "dtypes", ())))
        self.encoder_ = encoder
        self.n_features_in_ = encoder.n_features_in_
        self.n_samples_seen_ = int(encoded.shape[0])
        self.shares_ = np.asarray(encoded.mean(axis=0), dtype=np.float64).ravel()
        return encoded

    def _stored(self, encoded: Any) -> Any:
        return encoded if self.sparse_output else encoded.toarray()

    def _columns(self) -> Any:
        """Which feature belongs to which column: 0 or 1, shape (n_features_out, n_features_in)."""
        places = np.repeat(np.arange(self.n_features_in_), self.encoder_._n_features_outs)
        shape = (places.size, self.n_features_in_)
        return csr_array((np.ones(places.size), places, np.arange(places.size + 1)), shape=shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags


def _with_one_missing(X: Any, kinds: Any) -> Any:
    """A frame in which a missing text is None; pandas has NaN and NA too, and numbers where all texts are missing.

    Columns whose type, one of `kinds`, is no number hold texts. Anything but a frame is left as it is.
    """
    if not hasattr(X, "iloc"):
        return X
    changed = X.copy(deep=False)
    for place, kind in enumerate(kinds):
        if kind.kind not in "biuf":
            values = X.iloc[:, place].astype(object)
            changed.isetitem(place, values.where(values.notna(), None))
    return changed


SECONDS_OF_DAY = 86_400.0
DAYS_OF_YEAR = 365.2425
# The first of January 1970 was a Thursday: days after a Monday.
MONDAY = 3.0
DATE_PARTS = ("days", "time", "weekday", "season")


class DateEncoder(TransformerMixin, BaseEstimator):
    """Dates as four numbers each: days since 1970, time of day, weekday and season.

    Of s seconds since the beginning of 1970 (UTC), with d = s / 86,400::

        days     d
        time     d - floor(d), a share of 24 hours
        weekday  (floor(d) + 3) mod 7, Monday is 0
        season   (d mod 365.2425) / 365.2425, a share of the year

    where a mod m = a - floor(a / m) m. A missing date is NaN in all four; where training rows missed some, a fifth
    feature marks the rows without a date.

    Attributes
    ----------
    marked_ : list of int
        Columns of which training rows missed some.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where all columns of X have names.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.preprocessing import DateEncoder
    >>> dates = np.array([["1970-01-02T12:00"], ["2024-07-01T00:00"]], dtype="datetime64[s]")
    >>> DateEncoder().fit_transform(dates).round(3).tolist()
    [[1.5, 0.5, 4.0, 0.004], [19905.0, 0.0, 0.0, 0.498]]
    """

    def fit(self, X: Any, y: Any = None) -> DateEncoder:
        """Look where dates are missing.

        Parameters
        ----------
        X : dataframe or array of dates, or array-like of seconds since 1970, of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self
        """
        seconds = self._seconds(X, reset=True)
        self.marked_ = np.flatnonzero(np.isnan(seconds).any(axis=0)).tolist()
        return self

    def transform(self, X: Any) -> Matrix:
        """Make numbers of dates.

        Parameters
        ----------
        X : dataframe or array of dates, or array-like of seconds since 1970, of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            Four numbers of each column, then the marks.
        """
        check_is_fitted(self)
        seconds = self._seconds(X, reset=False)
        days = seconds / SECONDS_OF_DAY
        whole = np.floor(days)
        parts = (days, days - whole, _modulo(whole + MONDAY, 7.0), _modulo(days, DAYS_OF_YEAR) / DAYS_OF_YEAR)
        numbers = np.stack(parts, axis=2).reshape(len(seconds), -1)
        return np.hstack((numbers, np.isnan(seconds[:, self.marked_])))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the features, made of the column and the part of the date.

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
        parts = [f"{name}_{part}" for name in names for part in DATE_PARTS]
        return np.array(parts + [f"{names[place]}_missing" for place in self.marked_], dtype=object)

    def _seconds(self, X: Any, *, reset: bool) -> Matrix:
        if is_frame(X):
            validate_data(self, X=X, reset=reset, skip_check_array=True)
            columns = zip(map(str, X.columns), map(read_column, columns_of(X)), strict=True)
            return np.column_stack(
                [each.values if each.kind == "number" else as_kind(each, "date", name) for name, each in columns]
            )
        given = np.asarray(X)
        given = seconds_of(given) if given.dtype.kind == "M" else X
        numbers: Matrix = validate_data(self, X=given, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        return numbers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _modulo(values: Matrix, divisor: float) -> Matrix:
    return values - np.floor(values / divisor) * divisor
