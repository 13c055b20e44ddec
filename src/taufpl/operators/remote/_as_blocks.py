"""Remote rows as users give them: blocks of them for a fit, and scores and labels where the rows are."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from taufpl._extras import require
from taufpl._types import Vector
from taufpl.operators._array_api import is_collection, is_foreign_array, like, namespace, plain, to_numpy
from taufpl.operators._formats import as_operator
from taufpl.operators._threads import n_threads
from taufpl.operators.remote._arrays import is_sparse_tensor
from taufpl.operators.remote._blocks import Blocks
from taufpl.operators.remote._dask_blocks import place_on_workers, workers_room
from taufpl.operators.remote._dask_chunks import (
    BlockPlan,
    Chunks,
    Room,
    check_frame,
    check_kind,
    check_reachable,
    first_state,
    is_array,
    is_frame,
    join_rows,
    lazy_block,
    plan_blocks,
    read_labels,
    read_rows,
    settle_shared,
)
from taufpl.operators.remote._local import LocalBlocks, as_block

# Without a cluster every thread holds one block at a time, of a sixteenth of this: 128 MiB.
_MEMORY_A_THREAD = 1 << 31


def header(X: Any) -> Any:
    """Something without rows that has the columns of X, and their names where there are any."""
    if is_collection(X):
        check_kind(X)
    return X._meta if is_frame(X) else X


def as_blocks(
    X: Any, y: Any = None, *, persist: bool | None = None, block_bytes: int | None = None, client: Any = None
) -> Blocks:
    """Blocks of a dask array or dataframe, on the current cluster or in this process; or of an array on a device.

    Every block begins with a state of up to three entries: ``number`` and ``start``, its place among the blocks and its
    first row, and ``labels`` where y is given.

    Parameters
    ----------
    X : dask array of shape (n, d), dask dataframe, or array of any library
        Rows of a collection may be cut anywhere; chunks are NumPy arrays or SciPy sparse matrices. Columns of a
        dataframe must hold numbers. An array becomes one block, where it is.
    y : dask array or series, or array-like, of shape (n,), optional
        Labels. Where their chunks differ from those of X, they are cut like X.
    persist : bool, optional
        Whether rows are kept in the workers' memory, or read from their source in every pass over them. None keeps
        them if they take, with all that a solver needs beside them, at most half of that memory. Without a cluster
        they are always read.
    block_bytes : int, optional
        Chunks are joined until a block has this size. None takes two blocks a thread, of 8 MiB at least and, if they
        are read in every pass, a sixteenth of the memory of a thread at most.
    client : distributed.Client, optional
        None takes the current one, if there is any.

    Returns
    -------
    Blocks
        To be closed at the end, by ``close()`` or ``with``: workers then forget rows and states.

    Examples
    --------
    >>> import dask.array as da
    >>> from taufpl.operators import as_blocks
    >>> with as_blocks(da.ones((1000, 3), chunks=(300, 3))) as blocks:
    ...     blocks.gather(lambda block, state: (state["start"], block.shape))
    [(0, (1000, 3))]
    """
    if not is_collection(X):
        state = {"number": 0, "start": 0} if y is None else {"number": 0, "start": 0, "labels": y}
        return LocalBlocks([as_floats(X)], [state])
    client = current_client() if client is None else client
    if client is not None:
        # Sizes that are not known are computed where the rows are.
        with client.as_current():
            return _blocks(X, y, persist, block_bytes, client)
    check_reachable(X, "X")
    check_reachable(y, "y")
    return _blocks(X, y, persist, block_bytes, None)


def _blocks(X: Any, y: Any, persist: bool | None, block_bytes: int | None, client: Any) -> Blocks:
    room = Room(n_threads(), _MEMORY_A_THREAD * n_threads()) if client is None else workers_room(client)
    chunks, n_features = read_rows(X, room)
    n_rows = sum(chunks.sizes)
    if n_rows == 0 or n_features == 0:
        raise ValueError(f"X must have at least one row and one column, got shape {(n_rows, n_features)}.")
    labels = None if y is None else read_labels(y, chunks.sizes)
    keep = client is not None and (chunks.has_futures or (room.holds(chunks) if persist is None else persist))
    groups = plan_blocks(chunks, room, keep=keep, block_bytes=block_bytes)
    if not keep:
        chunks = settle_shared(chunks, groups)
        labels = settle_shared(labels, groups) if isinstance(labels, Chunks) and client is None else labels
    plan = BlockPlan(chunks, labels, groups, n_features)
    if client is not None:
        return place_on_workers(client, plan, keep)
    # Blocks that are computed one at a time by each thread; never the whole array.
    blocks = [lazy_block(plan.rows.loader(group), shape) for group, shape in zip(plan.groups, plan.shapes, strict=True)]
    states = [first_state(*plan.place(i), plan.load_labels(i)) for i in range(len(blocks))]
    return LocalBlocks(blocks, states)


def current_client() -> Any:
    """The client of the current cluster, if there is one; distributed is loaded wherever there is."""
    if "distributed" not in sys.modules:
        return None
    try:
        client = require("distributed", "dask", "for a cluster").get_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise TypeError(
            "A fit waits for its results, but the current Dask client is asynchronous. Make one that is not."
        )
    return client


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
        return as_block(as_floats(X)).dot(coef, exact=True) + intercept
    n_features = len(X.columns) if is_frame(X) else X.shape[1]
    if len(coef) != n_features:
        raise ValueError(f"X has {n_features} features, but {len(coef)} are expected.")
    if is_frame(X):
        check_frame(X)
    return map_rows(X, partial(chunk_scores, coef=coef, intercept=intercept))


def map_rows(X: Any, function: Callable[[Any], Vector], *, on_device: bool = False) -> Any:
    """A number for every row of X, where X is: a dask array, not computed yet, or an array like X.

    `function`, which can be pickled, gives the numbers of some rows: a chunk as it is, or all rows as a NumPy array or
    a CSR matrix, to which those of a device are copied; `on_device` says that it takes CuPy arrays instead.
    """
    if is_foreign_array(X):
        return like(X, function(device_rows(X) if on_device else rows_on_host(X)))
    check_kind(X)
    dask = require("dask", "dask", "for dask collections")
    # An entry of the graph by itself: a large model travels once to each worker, not with every chunk.
    shared = dask.delayed(function, traverse=False)
    if is_array(X):
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        options = {"dtype": np.float64, "drop_axis": 1, "meta": np.empty(0), "token": "scores"}
        return X.map_blocks(_apply, function=shared, **options)
    da = require("dask.array", "dask", "for dask collections")
    apply = dask.delayed(_apply, pure=True)
    parts = [da.from_delayed(apply(part, shared), (math.nan,), meta=np.empty(0)) for part in X.to_delayed()]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _apply(chunk: Any, function: Callable[[Any], Vector]) -> Vector:
    return function(chunk) if chunk.shape[0] else np.zeros(0)


def lazy_labels(scores: Any, classes: NDArray[Any]) -> Any:
    """The second class for scores above 0, the first for others: on the device of the scores, and as lazy."""
    if is_foreign_array(scores):
        if classes.dtype.kind not in "fiub":  # text can only be NumPy's
            return classes[to_numpy(scores > 0).astype(np.intp)]
        xp = namespace(scores)
        return xp.take(like(scores, classes), xp.astype(scores > 0, xp.int64), axis=0)
    return scores.map_blocks(chunk_labels, classes, dtype=classes.dtype, meta=classes[:0])


def fetched(*values: Any) -> tuple[Any, ...]:
    """Remote values as NumPy arrays, and the rest as it is; dask collections are computed together."""
    if any(map(is_collection, values)):
        # Dask warns of arrays and dataframes in one computation.
        arrays = [value.to_dask_array() if is_frame(value) else value for value in values]
        values = require("dask", "dask", "for dask collections").compute(*arrays)
    return tuple(to_numpy(value) if is_foreign_array(value) else value for value in values)


def chunk_scores(chunk: Any, coef: Vector, intercept: float) -> Vector:
    """Scores of one chunk, by the same arithmetic as those of rows in memory."""
    return as_operator(join_rows([chunk])).matvec(coef) + intercept


def chunk_labels(scores: Vector, classes: NDArray[Any]) -> NDArray[Any]:
    """Labels of one chunk."""
    return classes[(scores > 0).astype(np.intp)]


def as_floats(X: Any) -> Any:
    """The array itself, or one of double precision where it holds integers or truth values."""
    layout = str(getattr(X, "layout", "torch.strided"))
    if layout not in ("torch.strided", "torch.sparse_csr"):
        raise TypeError(
            f"X must be a dense tensor or a sparse one in CSR format, got {layout}: X.to_sparse_csr() makes it."
        )
    xp = namespace(X)
    X = plain(X)
    if xp.isdtype(X.dtype, "real floating") and X.dtype in (xp.float32, xp.float64):
        return X
    if xp.isdtype(X.dtype, "complex floating"):
        raise TypeError(f"X must hold real numbers, got dtype {X.dtype}.")
    return xp.astype(X, xp.float64)


def on_cuda(X: Any) -> bool:
    """Whether X is a dense array of floating-point numbers in the memory of a CUDA device."""
    # PyTorch raises where it is asked for sparse tensors, and for those that follow gradients.
    is_dense = str(getattr(X, "layout", "torch.strided")) == "torch.strided"
    return is_foreign_array(X) and is_dense and hasattr(plain(X), "__cuda_array_interface__")


def device_rows(X: Any) -> Any:
    """The same numbers in the same memory of a CUDA device, as a CuPy array; other arrays as they are."""
    if not on_cuda(X):
        return X
    return require("cupy", "gpu", "for rows on a CUDA device that another library learns from").from_dlpack(plain(X))


def rows_on_host(X: Any) -> Any:
    """X itself; or, of an array of another library, the same rows as a NumPy array or a SciPy CSR matrix of floats."""
    if not is_foreign_array(X):
        return X
    X = as_floats(X)
    if not is_sparse_tensor(X):
        return to_numpy(X)
    return sparse.csr_array(tuple(map(to_numpy, (X.values(), X.col_indices(), X.crow_indices()))), tuple(X.shape))


def named_rows(X: Any, names: Any | None) -> Any:
    """Rows of a block as other libraries take them: with names a dataframe, and sparse ones as a SciPy matrix."""
    if sparse.issparse(X):
        return sparse.csr_matrix(X)
    return X if names is None else require("pandas", "dask", "for rows with names").DataFrame(X, columns=names)
