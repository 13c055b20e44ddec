"""What becomes of each column: told once, when a model is fitted, and kept in its file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._extras import require
from taufpl._records import read_record
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

KINDS = ("number", "boolean", "category", "dropped", "open")

_IS_ID = re.compile(r"(?:^|[_\W])(?:id|uuid|guid|key)$|[a-z]I[dD]$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, and what is done with it.

    Attributes
    ----------
    name : str
    kind : str
        One of KINDS; "open": taken as it is found, for models that no command has fitted.
    note : str
        Why it was dropped, or what else there is to say.
    n_missing : int
    n_levels : int or None
        Of a category.
    low, high : float or None
        Range of a number.
    levels : tuple of str
        The most frequent ones of a category.
    """

    name: str
    kind: str
    note: str = ""
    n_missing: int = 0
    n_levels: int | None = None
    low: float | None = None
    high: float | None = None
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows of a file become rows of X.

    Attributes
    ----------
    columns : tuple of Column
        Without the target; empty for sparse data, whose columns have numbers only.
    target : str or None
    n_columns : int
        Of sparse data.
    is_sparse, zero_based : bool
        Of LIBSVM's text and sparse archives.
    group, time : str or None
        Columns that said which rows belong together, and when they came.
    n_rows : int
        Rows that ranges and missing values were counted on; 0 in older model files.
    """

    columns: tuple[Column, ...]
    target: str | None
    n_columns: int = 0
    is_sparse: bool = False
    zero_based: bool = False
    group: str | None = None
    time: str | None = None
    n_rows: int = 0

    @property
    def used(self) -> tuple[Column, ...]:
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

    def record(self) -> dict[str, Any]:
        """As plain values, for the header of a model file."""
        return asdict(self)


def layout_of(header: ModelHeader, model: Any) -> Layout:
    """The layout in a model file, or, of a model that no command has fitted, its columns as they are found.

    Raises
    ------
    ValueError
        The file has a layout that makes no sense; the message says where.
    """
    kept = header.training.get("layout")
    if kept is not None:
        return _read_layout(kept)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{place}" for place in range(int(getattr(model, "n_features_in_", 0)))]
    return Layout(tuple(Column(str(name), "open") for name in names), None)


def _read_layout(kept: Any) -> Layout:
    layout = read_record(Layout, kept, "its layout")
    for column in layout.columns:
        if column.kind not in KINDS:
            raise ValueError(f"its layout has a column of the kind {column.kind!r}; known are {', '.join(KINDS)}")
    if len({column.name for column in layout.columns}) < len(layout.columns):
        raise ValueError("its layout has two columns of one name")
    return layout


def plan_columns(
    table: Any, target: str, unused: Mapping[str, str], rows: NDArray[np.intp] | None, *, guess_types: bool
) -> list[Column]:
    """Tell what each column of a table is, from its type and its values; labels are not looked at.

    Parameters
    ----------
    table : pyarrow.Table
    target : str
    unused : mapping of str to str
        Columns that are no features, and why.
    rows : ndarray of int or None
        The rows that may be looked at, so that what is decided is independent of the others; None: all.
    guess_types : bool
        Whether types were guessed from the values of all rows, as those of a CSV file are.
    """
    return [
        Column(name, "dropped", unused[name]) if name in unused else _plan(name, _look(table, name, rows, guess_types))
        for name in table.column_names
        if name != target
    ]


def _look(table: Any, name: str, rows: NDArray[np.intp] | None, guess_types: bool) -> Any:
    """The values of some rows, of the type that these rows alone suggest.

    Only texts can suggest another type: what all rows allow to read as numbers or dates, some of them do, too.
    """
    values = table.column(name)
    if rows is None:
        return values
    values = values.take(arrow().array(rows))
    return guess_type(values) if guess_types and arrow().types.is_string(values.type) else values


def _plan(name: str, values: Any) -> Column:
    types = arrow().types
    kind = values.type
    if values.null_count == len(values):
        return Column(name, "dropped", "no value in any row", len(values))
    if types.is_boolean(kind):
        return _boolean(name, values)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _number(name, values)
    if types.is_temporal(kind):
        return Column(name, "dropped", DATE, values.null_count)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind) or types.is_string_view(kind):
        return _category(name, values)
    if types.is_binary(kind) or types.is_large_binary(kind):
        raise ValueError(
            f"column {name!r} holds bytes that are not UTF-8. Save the file in UTF-8, for example by iconv -f latin1 "
            f"-t utf-8, or leave the column out by --drop {name}."
        )
    return Column(name, "dropped", f"values of type {kind} are not used", values.null_count)


def _boolean(name: str, values: Any) -> Column:
    compute = _compute()
    if compute.min_max(values)["min"].as_py() == compute.min_max(values)["max"].as_py() and not values.null_count:
        return Column(name, "dropped", "the same value in every row")
    return Column(name, "boolean", n_missing=values.null_count, low=0.0, high=1.0)


def _number(name: str, values: Any) -> Column:
    compute = _compute()
    n_missing = values.null_count
    if arrow().types.is_floating(values.type):
        n_missing += compute.sum(compute.is_nan(values)).as_py() or 0
    ends = compute.min_max(values)
    low, high = (math.nan if ends[end].as_py() is None else float(ends[end].as_py()) for end in ("min", "max"))
    if n_missing == len(values) or math.isnan(low):
        return Column(name, "dropped", "no value in any row", n_missing)
    if low == high and not n_missing:
        return Column(name, "dropped", "the same value in every row")
    if not n_missing and _is_identifier(name, values.to_numpy(), low, high):
        return Column(name, "dropped", "a number for every row, in order or by its name: an identifier")
    return Column(name, "number", n_missing=n_missing, low=low, high=high)


def _is_identifier(name: str, values: NDArray[Any], low: float, high: float) -> bool:
    """Whether whole numbers count the rows, or are all different under the name of an identifier.

    Rows that were held out leave gaps in a count.
    """
    if len(values) < _FEW or not np.all(values == np.rint(values)):
        return False
    if high - low < _MOST_GAP * len(values) and np.all(np.diff(values) >= 1):
        return True
    return bool(_IS_ID.search(name)) and np.unique(values).size == len(values)


def _category(name: str, values: Any) -> Column:
    pa, compute = arrow(), _compute()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        values = values.cast(pa.string())
    counts = compute.value_counts(values.drop_null()).to_pylist()
    counts.sort(key=lambda each: (-each["counts"], each["values"]))
    n_levels, n_missing = len(counts), values.null_count
    if n_levels == 1 and not n_missing:
        return Column(name, "dropped", "the same value in every row", n_levels=1)
    if n_levels > max(_FEW, _IDENTIFIER * (len(values) - n_missing)):
        note = f"{n_levels:,} different texts in {len(values) - n_missing:,} rows: an identifier or free text"
        return Column(name, "dropped", note, n_missing, n_levels)
    own = [each["values"] for each in counts if each["counts"] >= MIN_ROWS][:MAX_LEVELS]
    rare = n_levels - len(own)
    note = f"{rare:,} of {n_levels:,} levels are rare and count as one" if rare > 1 else ""
    return Column(name, "category", note, n_missing, n_levels, levels=tuple(own))


def _compute() -> Any:
    return require("pyarrow.compute", "cli", "to read tables")
