"""From chunks of dask collections to blocks: what runs on the workers, or in this process where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from taufpl._extras import require
from taufpl._types import Array
from taufpl.operators.remote._backends import LazyRows, as_rows
from taufpl.operators.remote._blocks import State
from taufpl.operators.remote._numpy import NumpyBlock, stack_rows


@dataclass(frozen=True)
class Loader:
    """Some consecutive chunks, and the part of a graph that they come from, computed in the thread that calls it."""

    graph: dict[Any, Any]
    keys: list[Any]

    def __call__(self) -> Any:
        """Compute the chunks, and join them to one array of rows."""
        dask = require("dask", "dask", "for dask collections")
        return join_rows(dask.get(self.graph, self.keys))


def join_rows(chunks: Sequence[Any]) -> Any:
    """Chunks below each other, as a float array or a CSR matrix."""
    return stack_rows([_rows(chunk) for chunk in chunks])


def _rows(chunk: Any) -> Any:
    if hasattr(chunk, "dtypes"):
        # Missing values become NaN.
        chunk = np.asarray(chunk.to_numpy(dtype=float_type(chunk.dtypes), na_value=np.nan))
    elif scipy.sparse.issparse(chunk):
        chunk = chunk.tocsr()
    else:
        chunk = np.asarray(chunk)
    return chunk.astype(float_type([chunk.dtype]), copy=False)


def float_type(types: Sequence[Any]) -> type[np.floating[Any]]:
    """float32 where nothing is lost by it, else float64."""
    names = {str(getattr(kind, "numpy_dtype", kind)) for kind in types}
    return np.float32 if names <= {"float32", "float16"} else np.float64


def hold_rows(chunks: Sequence[Any], shape: tuple[int, int]) -> NumpyBlock:
    """A block that stays in a worker's memory."""
    rows = join_rows(chunks)
    if rows.shape != shape:
        raise ValueError(
            f"The chunks of X are not what X says they are: {shape} was expected, {rows.shape} was computed. "
            "Does a function of map_blocks drop rows? compute_chunk_sizes() counts them."
        )
    return NumpyBlock(as_rows(rows))


def lazy_block(loader: Loader, shape: tuple[int, int]) -> NumpyBlock:
    """A block that is read anew for every task that needs it."""
    return NumpyBlock(LazyRows(loader, shape))


def first_state(number: int, start: int, n_rows: int, chunks: Sequence[Any] | None) -> State:
    """What is known of a block before anything is computed: its place among the others, and its labels."""
    state: dict[str, Any] = {"number": number, "start": start}
    if chunks is not None:
        labels = np.concatenate([label_values(chunk) for chunk in chunks])
        if len(labels) != n_rows:
            raise ValueError(
                f"y must have one label for each row of X: from row {start} on, X has {n_rows} rows and y has "
                f"{len(labels)} labels. Cut them in the same places, with rechunk or repartition."
            )
        state["labels"] = labels
    return state


def held_state(place: tuple[int, int, int], chunks: Sequence[Any] | None) -> tuple[State, None]:
    """The same as workers hold it, beside sums that there are none of yet."""
    return first_state(*place, chunks), None


def label_values(chunk: Any) -> Array:
    """One label a row."""
    values = np.asarray(chunk)
    return values[:, 0] if values.ndim == 2 else values


def measure(chunk: Any) -> tuple[int, int]:
    """Rows of a chunk, and its bytes."""
    if scipy.sparse.issparse(chunk):
        stored = chunk.tocsr()
        return chunk.shape[0], stored.data.nbytes + stored.indices.nbytes + stored.indptr.nbytes
    if hasattr(chunk, "dtypes") and chunk.ndim == 2:
        return len(chunk), len(chunk) * chunk.shape[1] * np.dtype(float_type(chunk.dtypes)).itemsize
    return len(chunk), np.asarray(chunk).nbytes
