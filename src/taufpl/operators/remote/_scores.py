"""Scores and labels where the rows are: on a device, or chunk by chunk and not before they are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._extras import require
from taufpl.operators._compat import is_foreign_array, like, to_numpy
from taufpl.operators._convert import as_operator
from taufpl.operators._remote import is_collection
from taufpl.operators.remote._foreign import array_labels, array_scores, rows_on_host
from taufpl.operators.remote.dask import _source as source
from taufpl.operators.remote.dask._chunks import join_rows

Vector = NDArray[np.float64]


def linear_scores(X: Any, coef: Vector, intercept: float) -> Any:
    """X w + b as a dask array, not computed yet, or as an array on the device of X.

    Parameters
    ----------
    X : dask array of shape (n, d), dask dataframe, or array of any library
    coef : ndarray of shape (d,)
    intercept : float

    Returns
    -------
    dask array of shape (n,), or array of the library of X
        Chunks as those of X. The length is unknown where that of X is, as with dataframes.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from taufpl.operators import linear_scores
    >>> linear_scores(da.ones((6, 2), chunks=(4, 1)), np.array([1.0, 2.0]), -0.5).compute()
    array([2.5, 2.5, 2.5, 2.5, 2.5, 2.5])
    """
    if is_foreign_array(X):
        return array_scores(X, coef, intercept)
    n_features = len(X.columns) if source.is_frame(X) else X.shape[1]
    if len(coef) != n_features:
        raise ValueError(f"X has {n_features} features, but {len(coef)} are expected.")
    if source.is_frame(X):
        source.check_frame(X)
    return map_rows(X, partial(chunk_scores, coef=coef, intercept=intercept))


def map_rows(X: Any, function: Callable[[Any], Vector]) -> Any:
    """A number for every row of X, where X is: a dask array, not computed yet, or an array like X.

    Parameters
    ----------
    X : dask array of shape (n, d), dask dataframe, or array of any library
    function : callable
        Gives the numbers of some rows: a chunk as it is, or all rows as a NumPy array or a CSR matrix, to which those
        of a device are copied. Must be picklable.
    """
    if is_foreign_array(X):
        return like(X, function(rows_on_host(X)))
    source.check_kind(X)
    apply = partial(_apply, function)
    if source.is_array(X):
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        return X.map_blocks(apply, dtype=np.float64, drop_axis=1, meta=np.empty(0), token="scores")
    da = require("dask.array", "dask", "for dask collections")
    apply = require("dask", "dask", "for dask collections").delayed(apply, pure=True)
    parts = [da.from_delayed(apply(part), (math.nan,), meta=np.empty(0)) for part in X.to_delayed()]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _apply(function: Callable[[Any], Vector], chunk: Any) -> Vector:
    return function(chunk) if chunk.shape[0] else np.zeros(0)


def lazy_labels(scores: Any, classes: NDArray[Any]) -> Any:
    """The second class where a score is above 0, the first elsewhere: where the scores are, and as lazy."""
    if is_foreign_array(scores):
        return array_labels(scores, classes)
    return scores.map_blocks(chunk_labels, classes, dtype=classes.dtype, meta=classes[:0])


def fetched(*values: Any) -> tuple[Any, ...]:
    """NumPy arrays of what lies elsewhere, and the rest as it is; what waits is computed in one go."""
    if any(map(is_collection, values)):
        # Dask warns of arrays and dataframes in one computation.
        arrays = [value.to_dask_array() if source.is_frame(value) else value for value in values]
        values = require("dask", "dask", "for dask collections").compute(*arrays)
    return tuple(to_numpy(value) if is_foreign_array(value) else value for value in values)


def chunk_scores(chunk: Any, coef: Vector, intercept: float) -> Vector:
    """Scores of one chunk, by the same arithmetic as those of rows in memory."""
    rows = join_rows([chunk])
    return as_operator(rows).matvec(coef) + intercept


def chunk_labels(scores: Vector, classes: NDArray[Any]) -> NDArray[Any]:
    """Labels of one chunk."""
    return classes[(scores > 0).astype(np.intp)]
