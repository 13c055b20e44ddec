"""The inputs of an exported model, and a sample of rows to try it out on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._row_hashes import is_missing
from taufpl.estimators import ScoreScreen
from taufpl.exceptions import ExportError
from taufpl.persistence._unwrap import UnwrappedModel
from taufpl.persistence.onnx._graph import OUTPUTS, Columns, ColumnTensor, Graph
from taufpl.preprocessing import ColumnPlan, TableEncoder, as_kind, read_column, seconds_of

# ONNX has no missing texts.
MISSING_TEXT = ""
# A column that is taken as it is found.
_OPEN = "open"
# Rows of the sample, and numbers in it at most.
_ROWS, _CELLS = 256, 1 << 22


def add_inputs(graph: Graph, model: UnwrappedModel, X: Any, kept: str | None = None) -> tuple[Any, Columns]:
    """Add one input for a matrix, or one for each column of a frame; a few rows as the model takes them come back too.

    The column `kept` is an input even where no scorer uses it. An X with other columns than those that the model was
    fitted on is a ValueError.
    """
    count = len(model.names)
    n_rows = max(4, min(_ROWS, _CELLS // max(1, count)))
    if isinstance(X, int | np.integer):
        if model.named:
            raise ExportError(
                f"the model was fitted on a frame with the columns {list(model.names)}: give some of its rows as X, so "
                "that their types are known."
            )
        X = np.random.default_rng(0).normal(size=(n_rows, int(X)))
    X = (X.tocsr() if hasattr(X, "tocsr") else X)[:n_rows]
    if hasattr(X, "columns"):
        return _add_columns(graph, model, X, kept)
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if X.ndim != 2 or X.shape[1] != count:
        raise ValueError(f"X must have the {count} columns that the model was fitted on; got shape {X.shape}.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold numbers, or be a frame with a type for each column; got dtype {X.dtype}.")
    if model.named:
        raise ExportError("the model was fitted on a frame: give X as a frame with the same columns.")
    X = X if X.dtype == np.float32 else X.astype(np.float64)
    return X, (graph.input("X", X),)


def _add_columns(graph: Graph, model: UnwrappedModel, X: Any, kept: str | None) -> tuple[Any, Columns]:
    missing = [name for name in model.names if name not in list(X.columns)]
    if model.named and missing:
        raise ValueError(f"X must have the columns that the model was fitted on; missing are {missing}.")
    rows = X[list(model.names)] if model.named else X
    if len(rows.columns) != len(model.names):
        raise ValueError(
            f"X must have the {len(model.names)} columns that the model was fitted on; got {list(X.columns)}."
        )
    columns = []
    for name, kind in zip(rows.columns, _planned_kinds(model), strict=True):
        if kind == "dropped" and name == kept:
            kind = _OPEN
        if kind == "dropped":
            # No scorer uses the column, and nobody has to give it: its place is kept.
            columns.append(ColumnTensor("", 1))
            continue
        values = rows[name].to_numpy() if kind == _OPEN else as_kind(read_column(rows[name]), kind, str(name))
        # Many a column of scores is called score, as the output is.
        clashes = isinstance(model.head, ScoreScreen) and name in OUTPUTS
        column = graph.input("X" if clashes else str(name), as_fed(values.reshape(-1, 1)))
        nones = frozenset(value is None for value in values.tolist() if is_missing(value))
        columns.append(replace(column, nones=nones) if column.is_text else column)
    return rows, tuple(columns)


def _planned_kinds(model: UnwrappedModel) -> list[str]:
    """The kind that table encoders have planned for each column; "dropped" where all drop it.

    Where something else gets the columns of X, they are taken as they are found. Encoders of several folds may differ
    in what they drop; where they differ in the kind of a column, no input could serve all of them.
    """
    first = [next(iter((*model.steps, *scorer.steps)), None) for scorer in model.scorers]
    plans = [step.columns_ for step in first if isinstance(step, TableEncoder)]
    if len(plans) < len(first) or not all(plans):
        return [_OPEN] * len(model.names)
    return [_planned_kind(each) for each in zip(*plans, strict=True)]


def _planned_kind(plans: Sequence[ColumnPlan]) -> str:
    kinds = {plan.kind for plan in plans} - {"dropped"}
    if len(kinds) > 1 and kinds != {"number", "boolean"}:
        raise ExportError(
            f"column {plans[0].name!r} holds values of several types, and is a {' and a '.join(sorted(kinds))} to "
            "parts of the model: an input of ONNX has one type. Give the column one type, and fit again."
        )
    return max(kinds, default="dropped")


def as_fed(column: NDArray[Any]) -> NDArray[Any]:
    """A column as a session takes it: 32-bit floats, doubles, 64-bit integers, booleans, or strings.

    Dates are doubles, seconds since 1970.
    """
    if column.dtype.kind in "iu":
        return column.astype(np.int64)
    if column.dtype.kind == "b" or column.dtype == np.float32:
        return column
    if column.dtype.kind == "f":
        return column.astype(np.float64)
    if column.dtype.kind == "M":
        return seconds_of(column)
    values = [MISSING_TEXT if is_missing(value) else value for value in column.ravel().tolist()]
    strange = {type(value).__name__ for value in values if not isinstance(value, str)}
    if strange:
        raise ExportError(f"a column of X holds {', '.join(sorted(strange))}: ONNX takes numbers and strings.")
    return np.array(values, dtype=object).reshape(-1, 1)
