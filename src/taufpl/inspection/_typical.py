"""Typical negatives: what rows are held against, and how a model file keeps it without keeping anybody's row."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from taufpl._extras import require
from taufpl._records import read_record
from taufpl._types import Array, RowIndices, Vector
from taufpl.estimators import in_memory
from taufpl.exceptions import ModelFileError
from taufpl.persistence import ModelHeader
from taufpl.preprocessing import MIN_ROWS, columns_of, read_column

# The entry of a header that holds the record, and how many values of a column stand for all.
TYPICAL_NEGATIVES = "typical_negatives"
N_TYPICAL = 5
_KINDS = ("number", "boolean", "date", "category", "unused")


@dataclass(frozen=True, slots=True, eq=False)
class TypicalNegatives:
    """Negatives as reasons need them, from :func:`typical_negatives` or the header of a model file.

    Attributes
    ----------
    n_rows : int
        Negatives that this was told from.
    names : tuple of str
        Names of the columns; x0, x1, ... where the model knows none.
    means : ndarray of shape (n_columns,) or None
        Of a linear model: what each column adds to the score, on average over the negatives.
    rows : table of five rows or None
        Of other models: values of each column that stand for all, of numbers and dates those at 10, 30, 50, 70 and 90 %
        of their order, of texts those at these places where the most common come first. A missing value is one of them
        where enough are missing. Each column is taken by itself: no row of the table is a row of the data.

    Examples
    --------
    See :func:`typical_negatives`.
    """

    n_rows: int
    names: tuple[str, ...]
    means: Vector | None = None
    rows: Any = None

    def record(self) -> dict[str, Any]:
        """Plain values, for the `training` entries of :func:`taufpl.persistence.save_model`.

        Returns
        -------
        dict
            With the one entry `typical_negatives`.
        """
        means = () if self.means is None else tuple(self.means.tolist())
        columns = () if self.rows is None else tuple(map(_kept_column, columns_of(self.rows)))
        names = () if self.names == numbered(len(self.names)) else self.names
        return {TYPICAL_NEGATIVES: asdict(_Record(self.n_rows, names, means, columns))}

    @classmethod
    def of_header(cls, header: ModelHeader) -> TypicalNegatives:
        """Read the record in the header of a model file.

        Parameters
        ----------
        header : ModelHeader

        Returns
        -------
        TypicalNegatives

        Raises
        ------
        ModelFileError
            The header has no such record, or a damaged one.
        """
        kept = header.training.get(TYPICAL_NEGATIVES)
        if kept is None:
            raise ModelFileError(
                "the model file has no record of typical negatives, which reasons are told against: an older version "
                "has written it, or the data have too many columns. Fit the model anew by taufpl fit, or in Python "
                "save it with typical_negatives(model, X).record()."
            )
        try:
            record = read_record(_Record, kept, "its record of typical negatives")
            return cls(record.n_rows, record.known_names, record.read_means(), record.read_rows())
        except ValueError as error:
            raise ModelFileError(f"the model file is damaged: {error}.") from error


@dataclass(frozen=True, slots=True)
class _KeptColumn:
    """Typical values of one column: numbers, seconds since 1970, or texts; None where a value is missing."""

    kind: str
    numbers: tuple[float | None, ...] = ()
    levels: tuple[str | None, ...] = ()

    def values(self) -> Array:
        if self.kind not in _KINDS:
            raise ValueError(f"it has a column of the kind {self.kind!r}; known are {', '.join(_KINDS)}")
        numbers = np.array([np.nan if each is None else each for each in self.numbers], dtype=np.float64)
        if self.kind == "date":
            # What is beyond these dates is no date.
            is_date = np.abs(numbers) < 1e12
            micros = np.where(is_date, numbers * 1e6, 0.0).astype(np.int64)
            return np.where(is_date, micros.astype("datetime64[us]"), np.datetime64("NaT", "us"))
        return np.array(self.levels, dtype=object) if self.kind == "category" else numbers


@dataclass(frozen=True, slots=True)
class _Record:
    """What JSON holds of typical negatives."""

    n_rows: int
    names: tuple[str, ...]  # none where they are numbers only
    means: tuple[float, ...] = ()
    columns: tuple[_KeptColumn, ...] = ()

    @property
    def known_names(self) -> tuple[str, ...]:
        return self.names or numbered(len(self.means or self.columns))

    def read_means(self) -> Vector | None:
        means = np.array(self.means, dtype=np.float64)
        if not np.isfinite(means).all():
            raise ValueError("its record of typical negatives has a mean that is not a number")
        return means if self.means else None

    def read_rows(self) -> Any:
        if not self.columns:
            return None
        values = [each.values() for each in self.columns]
        if {each.size for each in values} != {N_TYPICAL} or len(values) != len(self.known_names):
            raise ValueError(f"its record of typical negatives must have {N_TYPICAL} values of every named column")
        pandas = require("pandas", "cli", "to hold tables")
        frame = pandas.DataFrame({place: pandas.Series(each, dtype=each.dtype) for place, each in enumerate(values)})
        return frame.set_axis(list(self.known_names), axis=1)


def numbered(n_columns: int) -> tuple[str, ...]:
    """Names of columns without names: x0, x1, ..."""
    return tuple(f"x{place}" for place in range(n_columns))


def _kept_column(values: Any) -> _KeptColumn:
    column = read_column(values)
    if column.kind == "category":
        return _KeptColumn(column.kind, levels=tuple(column.values.tolist()))
    numbers = tuple(None if np.isnan(each) else each for each in column.values.tolist())
    return _KeptColumn(column.kind, numbers)


def typical_rows(X: Any) -> Any:
    """A table of few rows whose columns, each by itself, stand for those of all rows."""
    return cells(X, np.column_stack([_places(values) for values in columns_of(X)]))


def _places(values: Any) -> RowIndices:
    """Rows that hold the values at 10, 30, ... % of the order of a column."""
    column = read_column(values)
    if column.kind == "category":
        # Levels that few have could tell who is meant.
        counts = Counter(column.values.tolist())
        order = sorted(counts, key=lambda level: (-counts[level], str(level)))
        order = [level for level in order if counts[level] >= MIN_ROWS] or order[:1]
        first = {level: row for row, level in reversed(list(enumerate(column.values.tolist())))}
        return _spaced(np.array([first[level] for level in order]), [counts[level] for level in order], N_TYPICAL)
    # Missing values sort last; beside them the others keep their own quantiles.
    rows, n_missing = np.argsort(column.values, kind="stable"), int(np.isnan(column.values).sum())
    n_gaps = round(N_TYPICAL * n_missing / rows.size)
    present = rows[: rows.size - n_missing]
    return np.append(_spaced(present, [1] * present.size, N_TYPICAL - n_gaps), np.repeat(rows[-1:], n_gaps))


def _spaced(rows: RowIndices, counts: list[int], n: int) -> RowIndices:
    """The rows at 1/2n, 3/2n, ... of their order, in which each counts by its number."""
    middles = (np.arange(n) + 0.5) / max(n, 1) * sum(counts)
    return rows[np.searchsorted(np.cumsum(counts), middles, side="right")]


def read_rows(X: Any, name: str) -> Any:
    """Rows in memory as a frame of pandas, an array or a CSR matrix; `name` is what an error calls them."""
    X, _ = in_memory("taufpl.inspection", X)
    X = X.to_pandas() if hasattr(X, "to_pandas") else X
    X = X.tocsr() if hasattr(X, "tocsr") else X
    X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2 or not X.shape[0]:
        raise ValueError(f"{name} must be rows of shape (n_samples, n_features), at least one; got shape {X.shape}.")
    return X


def cells(X: Any, index: Array) -> Any:
    """A table in which the cell of row i and column j is that of row index[i, j] of X."""
    if not hasattr(X, "iloc"):
        return X[index, np.arange(X.shape[1])]
    made = type(X)({place: X.iloc[:, place].take(rows).array for place, rows in enumerate(index.T)})
    made.columns = X.columns
    return made


def joined(X: Any, others: Any) -> Any:
    """The rows of one table, then those of another, as the first holds them."""
    if hasattr(X, "iloc"):
        others = others if hasattr(others, "iloc") else type(X)(others)
        parts = [X, others.set_axis(X.columns, axis=1)]
        return require("pandas", "cli", "to hold tables").concat(parts, ignore_index=True)
    return np.vstack([X, others.to_numpy() if hasattr(others, "iloc") else others])
