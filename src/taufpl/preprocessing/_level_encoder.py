"""One-hot features of levels, in which a level that training never saw counts as the average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted, validate_data

from taufpl._sklearn import check_feature_names_in
from taufpl.preprocessing._unseen import warn_unseen


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
