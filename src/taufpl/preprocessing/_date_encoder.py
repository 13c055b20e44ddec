"""Dates as numbers, by arithmetic alone, so that every export can do the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from taufpl._sklearn import check_feature_names_in
from taufpl._types import Array, Matrix
from taufpl.preprocessing._table_columns import as_kind, columns_of, is_frame, read_column, seconds_of

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
