"""The layout of a table: what becomes of each column, told when a model is fitted and kept in its file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._records import read_record
from taufpl._types import Array, RowIndices
from taufpl.cli._tables import arrow, guess_type
from taufpl.persistence import ModelHeader

# Levels of a category that get a feature of their own: the most frequent ones, if they have this many rows.
MAX_LEVELS = 50
MIN_ROWS = 5
DATE = "a date or time: make numbers of it to use it, or name it by --time"
# A text with this share of different values tells rows apart rather than describing them.
_IDENTIFIER = 0.5
_FEW = 20
# Where a column counts all rows and some of them are held out, its steps are at most this large on average.
_MOST_GAP = 6

# "open": a column of a model that no command has fitted, taken as it is found.
KINDS = ("number", "boolean", "category", "dropped", "open")

_IS_ID = re.compile(r"(?:^|[_\W])(?:id|uuid|guid|key)$|[a-z]I[dD]$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LayoutColumn:
    """A column, what is done with it (`kind`), why (`note`), and what the training rows have in it."""

    name: str
    kind: str
    note: str = ""
    n_missing: int = 0
    n_levels: int | None = None
    low: float | None = None
    high: float | None = None
    levels: tuple[str, ...] = ()  # the most frequent ones


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows of a file become rows of X."""

    columns: tuple[LayoutColumn, ...]  # without the target; none for sparse rows, whose columns have numbers only
    target: str | None
    n_columns: int = 0  # of sparse rows
    is_sparse: bool = False
    zero_based: bool = False  # whether the indices of LIBSVM's text begin at 0
    group: str | None = None
    time: str | None = None
    n_rows: int = 0  # rows that ranges and missing values were counted on; 0 in older model files

    @property
    def used(self) -> tuple[LayoutColumn, ...]:
        """Columns of X in their order: numbers first, then categories."""
        kept = [column for column in self.columns if column.kind != "dropped"]
        return tuple(sorted(kept, key=lambda column: column.kind == "category"))

    @property
    def numbers(self) -> list[str]:
        """Names of numbers and booleans."""
        return [column.name for column in self.columns if column.kind in ("number", "boolean")]

    @property
    def categories(self) -> list[str]:
        """Names of categories."""
        return [column.name for column in self.columns if column.kind == "category"]

    @property
    def has_missing(self) -> bool:
        """Whether a number is missing anywhere."""
        return any(column.n_missing for column in self.columns if column.kind in ("number", "boolean"))

    def types(self) -> dict[str, Any]:
        """The types that columns of a CSV file are read as."""
        pa = arrow()
        known = {"number": pa.float64(), "boolean": pa.bool_(), "category": pa.string(), "open": None}
        return {column.name: known[column.kind] for column in self.used}


def layout_of(header: ModelHeader, model: Any) -> Layout:
    """The layout in a model file, or, of a model that no command has fitted, its columns as they are found.

    A layout that makes no sense is a ValueError, which says where.
    """
    kept = header.training.get("layout")
    if kept is not None:
        return _read_layout(kept)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{place}" for place in range(int(getattr(model, "n_features_in_", 0)))]
    return Layout(tuple(LayoutColumn(str(name), "open") for name in names), None)


def _read_layout(kept: Any) -> Layout:
    layout = read_record(Layout, kept, "its layout")
    for column in layout.columns:
        if column.kind not in KINDS:
            raise ValueError(f"its layout has a column of the kind {column.kind!r}; known are {', '.join(KINDS)}")
    if len({column.name for column in layout.columns}) < len(layout.columns):
        raise ValueError("its layout has two columns of one name")
    return layout


def plan_columns(
    table: Any, target: str, unused: Mapping[str, str], rows: RowIndices | None, *, guess_types: bool
) -> tuple[LayoutColumn, ...]:
    """Tell what each column of a pyarrow.Table is, from its type and its values; labels are not looked at.

    `unused` says which columns are no features, and why. Only the `rows`, or all (None), are looked at, so that what
    is decided is independent of the others; `guess_types` says that types were guessed from the values of all rows, as
    those of a CSV file are.
    """
    types, columns = arrow().types, []
    for name in table.column_names:
        if name in unused:
            columns.append(LayoutColumn(name, "dropped", unused[name]))
        elif name != target:
            values = table.column(name)
            if rows is not None:
                values = values.take(arrow().array(rows))
                # Texts alone can suggest another type: where all rows read as numbers or dates, some of them do, too.
                values = guess_type(values) if guess_types and types.is_string(values.type) else values
            columns.append(_plan(name, values))
    return tuple(columns)


def _plan(name: str, values: Any) -> LayoutColumn:
    types = arrow().types
    kind = values.type
    if values.null_count == len(values):
        return LayoutColumn(name, "dropped", "no value in any row", len(values))
    if types.is_boolean(kind):
        if not values.null_count and len(values.unique()) == 1:
            return LayoutColumn(name, "dropped", "the same value in every row")
        return LayoutColumn(name, "boolean", n_missing=values.null_count, low=0.0, high=1.0)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        if values.null_count or types.is_decimal(kind):
            values = values.cast(arrow().float64(), safe=False)
        return plan_numbers(name, values.to_numpy(), may_be_identifier=True)
    if types.is_temporal(kind):
        return LayoutColumn(name, "dropped", DATE, values.null_count)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind) or types.is_string_view(kind):
        return _category(name, values)
    if types.is_binary(kind) or types.is_large_binary(kind):
        raise ValueError(
            f"column {name!r} holds bytes that are not UTF-8. Save the file in UTF-8, for example by iconv -f latin1 "
            f"-t utf-8, or leave the column out by --drop {name}."
        )
    return LayoutColumn(name, "dropped", f"values of type {kind} are not used", values.null_count)


def plan_numbers(name: str, values: Array, *, may_be_identifier: bool) -> LayoutColumn:
    """Tell whether numbers, of which NaN is a missing one, can be learned from."""
    n_missing = int(np.count_nonzero(np.isnan(values)))
    if n_missing == values.size:
        return LayoutColumn(name, "dropped", "no value in any row", n_missing)
    low, high = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
    if low == high and not n_missing:
        return LayoutColumn(name, "dropped", "the same value in every row")
    if may_be_identifier and not n_missing and _is_identifier(name, values, low, high):
        return LayoutColumn(name, "dropped", "a number for every row, in order or by its name: an identifier")
    return LayoutColumn(name, "number", n_missing=n_missing, low=low, high=high)


def _is_identifier(name: str, values: Array, low: float, high: float) -> bool:
    """Whether whole numbers count the rows, or are all different under the name of an identifier.

    Rows that were held out leave gaps in a count.
    """
    if len(values) < _FEW or not np.all(values == np.rint(values)):
        return False
    if high - low < _MOST_GAP * len(values) and np.all(np.diff(values) >= 1):
        return True
    return bool(_IS_ID.search(name)) and np.unique(values).size == len(values)


def _category(name: str, values: Any) -> LayoutColumn:
    pa = arrow()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        values = values.cast(pa.string())
    counts = values.drop_null().value_counts().to_pylist()
    counts.sort(key=lambda each: (-each["counts"], each["values"]))
    n_levels, n_missing = len(counts), values.null_count
    if n_levels == 1 and not n_missing:
        return LayoutColumn(name, "dropped", "the same value in every row", n_levels=1)
    if n_levels > max(_FEW, _IDENTIFIER * (len(values) - n_missing)):
        note = f"{n_levels:,} different texts in {len(values) - n_missing:,} rows: an identifier or free text"
        return LayoutColumn(name, "dropped", note, n_missing, n_levels)
    own = [each["values"] for each in counts if each["counts"] >= MIN_ROWS][:MAX_LEVELS]
    rare = n_levels - len(own)
    note = f"{rare:,} of {n_levels:,} levels are rare and count as one" if rare > 1 else ""
    return LayoutColumn(name, "category", note, n_missing, n_levels, levels=tuple(own))
