"""What the report calls single rows: an id that was given, the label in a frame's index, or a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._sklearn import num_samples, safe_indexing


@dataclass(frozen=True, slots=True)
class RowNames:
    """Names of rows, one a row of the report, and what they are called: "case_id", "Row"."""

    values: Any
    title: str
    note: str  # a sentence, or nothing

    def name(self, row: int) -> str:
        """The name of a row, by its position."""
        return str(self.values[row])


def name_rows(ids: Any, X: Any, kept: Any) -> RowNames:
    """Names of the rows of X, of which `kept` are reported on, or all (None).

    `ids` is a column of X, or one id a row; without it the index of a frame names them, or their number from 0.
    """
    n_rows, title, note = num_samples(X), "Row", ""
    if isinstance(ids, str):
        if ids not in getattr(X, "columns", ()):
            raise ValueError(f"ids={ids!r} is no column of X: give a frame with that column, or one id a row.")
        title, ids = ids, X[ids]
    elif ids is not None:
        title = str(getattr(ids, "name", None) or "Id")
        if num_samples(ids) != n_rows:
            raise ValueError(f"ids must hold one id a row of X, {n_rows}; got {num_samples(ids)}.")
    else:
        index = getattr(X, "index", None)
        ids, note = index, "Rows are named by the index of the frame."
        if index is None or callable(index):
            ids, note = np.arange(n_rows), "Rows are numbered from 0, in the order in which they were given."
    values = np.asarray(ids, dtype=object)
    return RowNames(values if kept is None else safe_indexing(values, kept), title, note)
