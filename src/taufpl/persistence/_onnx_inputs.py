"""What an exported model is fed with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.exceptions import ExportError
from taufpl.persistence._onnx_graph import Block, Graph
from taufpl.persistence._onnx_steps import MISSING_TEXT
from taufpl.persistence._steps import is_missing
from taufpl.persistence._unwrap import Anatomy

# Rows that are looked at, and numbers in them at most.
_ROWS, _CELLS = 256, 1 << 22


@dataclass(frozen=True, slots=True)
class Inputs:
    """A few rows, as the model takes them and as a session takes them.

    Attributes
    ----------
    rows : array or dataframe
    feed : dict of ndarray
        By name of input.
    columns : list of ndarray
        The content of each input: what a step of scikit-learn would be given.
    """

    rows: Any
    feed: dict[str, NDArray[Any]]
    columns: list[NDArray[Any]]


def read_inputs(anatomy: Anatomy, X: Any) -> Inputs:
    """Names and types of the inputs, and a sample.

    Raises
    ------
    ValueError
        X has other columns than those that the model was fitted on.
    """
    count = len(anatomy.names)
    if isinstance(X, int | np.integer):
        X = np.random.default_rng(0).normal(size=(_n_rows(count), int(X)))
        anonymous = True
    else:
        X, anonymous = (X.tocsr() if hasattr(X, "tocsr") else X)[: _n_rows(count)], False
    if hasattr(X, "columns"):
        return _frame(anatomy, X)
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if X.ndim != 2 or X.shape[1] != count:
        raise ValueError(f"X must have the {count} columns that the model was fitted on; got shape {X.shape}.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold numbers, or be a frame with a type for each column; got dtype {X.dtype}.")
    X = X if X.dtype == np.float32 else X.astype(np.float64)
    return Inputs(_as_fitted(anatomy, X, anonymous), {"X": X}, [X])


def _n_rows(count: int) -> int:
    return max(4, min(_ROWS, _CELLS // max(1, count)))


def _as_fitted(anatomy: Anatomy, X: NDArray[Any], anonymous: bool) -> Any:
    """Rows under the names that the model was fitted with, if any."""
    if not anatomy.named:
        return X
    if anonymous:
        raise ExportError(
            f"the model was fitted on a frame with the columns {list(anatomy.names)}: give some of its rows as X, so "
            "that their types are known."
        )
    raise ExportError("the model was fitted on a frame: give X as a frame with the same columns.")


def _frame(anatomy: Anatomy, X: Any) -> Inputs:
    missing = [name for name in anatomy.names if name not in list(X.columns)]
    if anatomy.named and missing:
        raise ValueError(f"X must have the columns that the model was fitted on; missing are {missing}.")
    names = anatomy.names if anatomy.named else tuple(str(name) for name in X.columns)
    rows = X[list(names)] if anatomy.named else X
    if len(names) != len(anatomy.names):
        raise ValueError(
            f"X must have the {len(anatomy.names)} columns that the model was fitted on; got {list(names)}."
        )
    columns = [rows[name].to_numpy().reshape(-1, 1) for name in rows.columns]
    return Inputs(rows, {name: _tensor(each) for name, each in zip(names, columns, strict=True)}, columns)


def _tensor(column: NDArray[Any]) -> NDArray[Any]:
    """A column as a session takes it: 32-bit floats, doubles, 64-bit integers, booleans, or strings."""
    if column.dtype.kind in "iu":
        return column.astype(np.int64)
    if column.dtype.kind == "b" or column.dtype == np.float32:
        return column
    if column.dtype.kind == "f":
        return column.astype(np.float64)
    values = [MISSING_TEXT if is_missing(value) else value for value in column.ravel().tolist()]
    strange = {type(value).__name__ for value in values if not isinstance(value, str)}
    if strange:
        raise ExportError(f"a column of X holds {', '.join(sorted(strange))}: ONNX takes numbers and strings.")
    return np.array(values, dtype=object).reshape(-1, 1)


def add_inputs(graph: Graph, inputs: Inputs) -> tuple[Block, ...]:
    """One input a matrix or column; numbers go on as doubles."""
    types = graph.types
    kinds = {"f4": types.FLOAT, "f8": types.DOUBLE, "i8": types.INT64, "b1": types.BOOL}
    blocks = []
    for (name, values), column in zip(inputs.feed.items(), inputs.columns, strict=True):
        is_text = values.dtype == object
        kind = types.STRING if is_text else kinds[values.dtype.str[1:]]
        tensor = graph.input(name, kind, values.shape[1])
        if not is_text and kind != types.DOUBLE:
            tensor = graph.cast(tensor, types.DOUBLE)
        blocks.append(Block(tensor, values.shape[1], is_text, column))
    return tuple(blocks)
