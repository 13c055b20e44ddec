"""The segment of each row: read from a column of X, told by a function of X, or given with the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._checks import near_or_all
from taufpl._types import RowIndices
from taufpl.operators import is_remote
from taufpl.preprocessing import column_at
from taufpl.thresholding import level_codes, segment_tolerances


@dataclass(frozen=True, slots=True)
class RowSegments:
    """The segments of some rows by their codes, and the tolerance of each segment in the order of the codes.

    `column` of X and `is_number` are as in :class:`taufpl.thresholding.SegmentThresholds`.
    """

    codes: RowIndices
    taus: dict[str, float]
    is_number: bool
    column: str | int | None = None


def labels_of_rows(source: Any, X: Any, given: Any) -> Any:
    """The label of each row's segment: those given, else from the column or the function that `source` is; or None."""
    if given is None and source is None:
        return None
    if is_remote(X):
        raise TypeError(
            "segments are for rows in memory, and X is remote. Fit the scorer on the remote rows, and choose its "
            "thresholds by NeymanPearsonClassifier(scorer, cv='prefit') on a sample in memory, with segments."
        )
    if given is not None:
        return given
    labels = source(X) if callable(source) else _column(source, X)
    if labels is None:
        raise ValueError("the function that segments= is must give one label a row of X; got None.")
    return labels


def read_segments(labels: Any, tau: Any, n_rows: int, known: Sequence[str] = ()) -> RowSegments | None:
    """Labels as codes, with the tolerance of every segment; None where there are no labels.

    Segments that are `known` may have no row.
    """
    if labels is None:
        if isinstance(tau, Mapping):
            raise ValueError(
                "tau has a tolerance for each segment, but nothing says of which segment a row is: name a column by "
                "the parameter segments, or give segments= with the rows, one label a row."
            )
        return None
    if np.ndim(tau):
        raise ValueError(
            f"tau must be a number, or have a number for each segment, where there are segments; got {tau!r}. Fit a "
            "classifier for each tolerance."
        )
    found = level_codes(labels, "segments", n_rows)
    names = sorted({*found.names, *known})
    place = {name: code for code, name in enumerate(names)}
    codes = np.array([place[name] for name in found.names], dtype=np.intp)[found.codes]
    return RowSegments(codes, segment_tolerances(tau, names), found.is_number)


def _column(which: str | int, X: Any) -> Any:
    """A column of a frame by its name or position, or of an array or matrix by its position."""
    names = getattr(X, "columns", None)
    if isinstance(which, str):
        if names is None:
            raise ValueError(
                f"segments={which!r} names a column, and X is {type(X).__name__}, whose columns have no names: give "
                "the position of the column, or give segments= with the rows."
            )
        if which not in list(names):
            raise ValueError(f"segments={which!r} is no column of X.{near_or_all(which, map(str, names), 'columns')}")
        return X[which]
    table: Any = X if hasattr(X, "shape") else np.asarray(X, dtype=object)
    n_columns = table.shape[1] if len(table.shape) == 2 else 0
    if not 0 <= which < n_columns:
        raise ValueError(f"segments={which} is no column of X, whose columns have the positions 0 to {n_columns - 1}.")
    return table[:, [which]].toarray().ravel() if hasattr(table, "tocsr") else column_at(table, which)
