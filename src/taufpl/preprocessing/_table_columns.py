"""The columns of a table: read, whatever holds them, as doubles, texts and dates, and what becomes of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from taufpl._records import with_named_state
from taufpl._row_hashes import is_missing
from taufpl._types import Array, Mask, Matrix, RowIndices, Vector
from taufpl._warnings import warn_user
from taufpl.operators import LARGEST_VALUE

# Levels of a category that get a feature of their own: the most frequent ones, if they have this many rows.
MAX_LEVELS = 50
MIN_ROWS = 5
# Reasons that an error lists, of columns that are not used.
_MOST_REASONS = 5
# A text with this share of different values tells rows apart rather than describing them.
_IDENTIFIER = 0.5
_FEW = 20
# Where a column counts all rows and some of them are held out, its steps are at most this large on average.
_MOST_GAP = 6

_IS_ID = re.compile(r"(?:^|[_\W])(?i:id|uuid|guid|key)$|[a-z](?:Id|ID)$")
_EMPTY, _CONSTANT = "no value in any row", "the same value in every row"


@with_named_state
@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """A column, what is done with it, why, and what the training rows have in it.

    Attributes
    ----------
    name : str
    kind : str
        "number", "boolean", "category", "date", or "dropped".
    note : str
        Why a column is dropped, or how many levels count as one.
    n_missing : int
        Training rows without a value.
    n_levels : int or None
        Different texts of a category.
    low, high : float or None
        Range of a number; of a date in seconds since the beginning of 1970.
    levels : tuple of str
        The most frequent levels of a category, which have a feature of their own.
    """

    name: str
    kind: str
    note: str = ""
    n_missing: int = 0
    n_levels: int | None = None
    low: float | None = None
    high: float | None = None
    levels: tuple[str, ...] = ()


def plan_numbers(
    names: Sequence[str], kinds: Sequence[str], values: Matrix, *, may_be_identifier: bool
) -> list[ColumnPlan]:
    """Tell which columns of a matrix, of the kind "number", "boolean" or "date", can be learned from.

    NaN is a missing value. All columns are looked at together, since rows lie one after the other.
    """
    n_missing = np.count_nonzero(np.isnan(values), axis=0).tolist()
    low, high = np.fmin.reduce(values, axis=0).tolist(), np.fmax.reduce(values, axis=0).tolist()
    plans = []
    for place, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        plan = _plan_range(name, kind, len(values), n_missing[place], low[place], high[place])
        if plan.kind == "number" and may_be_identifier and _is_identifier(plan, values[:, place]):
            plan = ColumnPlan(name, "dropped", "a number for every row, in order or by its name: an identifier")
        plans.append(plan)
    return plans


def _plan_range(name: str, kind: str, n_rows: int, n_missing: int, low: float, high: float) -> ColumnPlan:
    if n_missing == n_rows:
        return ColumnPlan(name, "dropped", _EMPTY, n_missing)
    if low == high and not n_missing:
        return ColumnPlan(name, "dropped", _CONSTANT)
    if kind == "boolean":
        low, high = 0.0, 1.0
    return ColumnPlan(name, kind, n_missing=n_missing, low=low, high=high)


def _is_identifier(plan: ColumnPlan, values: Vector) -> bool:
    """Whether whole numbers count the rows, or are all different under the name of an identifier.

    Rows that were held out leave gaps in a count.
    """
    if plan.n_missing or plan.low is None or plan.high is None:
        return False
    if len(values) < _FEW or not np.all(values == np.rint(values)):
        return False
    if plan.high - plan.low < _MOST_GAP * len(values) and np.all(np.diff(values) >= 1):
        return True
    return bool(_IS_ID.search(plan.name)) and np.unique(values).size == len(values)


def plan_texts(name: str, counts: Iterable[tuple[str, int]], n_missing: int) -> ColumnPlan:
    """Tell whether texts, of which the different ones come with their numbers of rows, are levels of a category."""
    ordered = sorted(counts, key=lambda each: (-each[1], each[0]))
    n_levels, n_present = len(ordered), sum(count for _, count in ordered)
    if not n_levels:
        return ColumnPlan(name, "dropped", _EMPTY, n_missing)
    if n_levels == 1 and not n_missing:
        return ColumnPlan(name, "dropped", _CONSTANT, n_levels=1)
    if n_levels > max(_FEW, _IDENTIFIER * n_present):
        note = f"{n_levels:,} different texts in {n_present:,} rows: an identifier or free text"
        return ColumnPlan(name, "dropped", note, n_missing, n_levels)
    own = [text for text, count in ordered if count >= MIN_ROWS][:MAX_LEVELS]
    rare = n_levels - len(own)
    note = f"{rare:,} of {n_levels:,} levels are rare and count as one" if rare > 1 else ""
    return ColumnPlan(name, "category", note, n_missing, n_levels, levels=tuple(own))


def unused(name: str, kind: str, n_missing: int = 0) -> ColumnPlan:
    """The plan of a column whose type no feature is made of."""
    return ColumnPlan(name, "dropped", f"values of type {kind} are not used", n_missing)


def reasons_against(plans: Sequence[ColumnPlan]) -> str:
    """Why columns are not used: the notes of the first few."""
    more = [f"and {len(plans) - _MOST_REASONS:,} more"] if len(plans) > _MOST_REASONS else []
    return "; ".join([f"{plan.name}: {plan.note}" for plan in plans[:_MOST_REASONS]] + more)


# What is expected where a value of another type stands.
_WORDS = {"number": "numbers", "boolean": "truth values", "category": "texts", "date": "dates"}
# Python objects that count as values of a kind. A text is no number, whatever it says: in fit, it makes a category.
_NUMBERS = (Real, Decimal, np.bool_)
_DATES = (date, np.datetime64)
_KNOWN = (str, *_NUMBERS, *_DATES)
_TYPES = {"number": _NUMBERS, "boolean": _NUMBERS, "category": _KNOWN, "date": _DATES}


@dataclass(frozen=True, slots=True)
class Column:
    """Values of a column by their kind.

    `kind` is "number", "boolean" or "date", of which the values are doubles (NaN is missing, dates are in seconds since
    the beginning of 1970); "category", of which they are objects, texts or None; or "unused", of a type of which no
    feature is made. `type` names the type as the frame does. `objects` are the Python objects of a column that holds
    several types, or one of which no feature is made; None is missing.
    """

    kind: str
    values: Array
    type: str
    objects: Sequence[Any] = ()


class TableColumns:
    """The columns of a table, read once: doubles in one matrix, texts beside it.

    The numbers of an array stay where they are. `kinds`, of columns that a fit has planned, are what the columns are
    held against; dropped ones are not looked at.
    """

    def __init__(self, X: Any, names: Sequence[str], kinds: Sequence[str] | None = None) -> None:
        self.names = [str(name) for name in names]
        self._unused: dict[int, str] = {}
        self._texts: dict[int, Array] = {}
        is_numeric = isinstance(X, np.ndarray) and X.dtype.kind in "biuf"
        if is_numeric and (kinds is None or {*kinds} <= {"number", "boolean", "dropped"}):
            self._doubles, self._places = X.astype(np.float64, copy=False), list(range(X.shape[1]))
            self._kinds = ["boolean" if X.dtype.kind == "b" else "number"] * X.shape[1]
        else:
            self._read(X, kinds)

    def _read(self, X: Any, kinds: Sequence[str] | None) -> None:
        self._kinds, self._places = [], []
        doubles = np.empty((X.shape[0], X.shape[1]))
        for place, values in enumerate(columns_of(X)):
            if kinds is not None and kinds[place] == "dropped":
                continue
            column = read_column(values)
            if kinds is not None:
                column = Column(kinds[place], as_kind(column, kinds[place], self.names[place]), column.type)
            if column.kind == "unused":
                self._unused[place] = column.type
            elif column.kind == "category":
                self._texts[place] = column.values
            else:
                doubles[:, len(self._places)] = column.values
                self._places.append(place)
                self._kinds.append(column.kind)
        self._doubles = doubles[:, : len(self._places)]

    def values(self, columns: RowIndices) -> Array:
        """The values of some columns, either all doubles or all texts."""
        if columns[0] in self._texts:
            return np.column_stack([self._texts[place] for place in columns])
        doubles = self._doubles
        if not np.array_equal(columns, self._places):
            doubles = doubles[:, np.searchsorted(self._places, columns)]
        _check_finite([self.names[place] for place in columns], doubles)
        return doubles

    def plan(self, *, may_be_identifier: bool) -> tuple[ColumnPlan, ...]:
        """Tell what becomes of each column."""
        names = [self.names[place] for place in self._places]
        _check_finite(names, self._doubles)
        numbers = plan_numbers(names, self._kinds, self._doubles, may_be_identifier=may_be_identifier)
        plans = dict(zip(self._places, numbers, strict=True))
        for place, texts in self._texts.items():
            counts = Counter(texts.tolist())
            n_missing = counts.pop(None, 0)
            plans[place] = plan_texts(self.names[place], counts.items(), n_missing)
        for place, kind in self._unused.items():
            plans[place] = unused(self.names[place], kind)
        return tuple(plans[place] for place in range(len(self.names)))


def is_frame(X: Any) -> bool:
    """Whether X is a frame of pandas or polars; frames of other libraries, and lazy ones, are refused."""
    if hasattr(X, "get_columns") or (hasattr(X, "iloc") and X.ndim == 2):
        return True
    if hasattr(type(X), "columns"):
        raise TypeError(
            "X must be a frame of pandas or polars in memory, an array or a sparse matrix; got "
            f"{type(X).__module__}.{type(X).__name__}. Convert it, for example by collect() or to_pandas()."
        )
    return False


def columns_of(X: Any) -> list[Any]:
    """The columns of a frame of pandas or polars, or of an array."""
    return [column_at(X, place) for place in range(X.shape[1])]


def column_at(X: Any, place: int) -> Any:
    """One column of a frame of pandas or polars, or of an array."""
    if hasattr(X, "iloc"):
        return X.iloc[:, place]
    return X.to_series(place) if hasattr(X, "get_columns") else X[:, place]


def read_column(values: Any) -> Column:
    """A series of pandas or polars, or an array of one dimension."""
    if hasattr(values, "iloc"):
        return _read_pandas(values)
    return _read_polars(values) if hasattr(values, "get_chunks") else _read_array(values)


def _read_pandas(series: Any) -> Column:
    kind = series.dtype.kind
    if hasattr(series.dtype, "categories"):
        levels = np.array([*map(_text_of, series.dtype.categories.tolist()), None], dtype=object)
        return Column("category", levels[series.cat.codes.to_numpy()], "category")
    if kind in "biuf":
        return _numbers(series.to_numpy(dtype=np.float64, na_value=np.nan), series.dtype)
    if kind == "M" and not str(series.dtype).startswith(("date32", "date64")):  # pandas hands these out as objects
        return Column("date", seconds_of(series.to_numpy(dtype="datetime64[us]")), str(series.dtype))
    if kind in "mc":
        return _unused(series.dtype, len(series))
    # Of dictionaries, which polars writes with unsigned indices, pandas hands out single values alone.
    is_dictionary = str(series.dtype).startswith("dictionary")
    values = _object_array(series.tolist()) if is_dictionary else series.to_numpy(dtype=object)
    return _read_objects(_with_gaps(values, series.isna().to_numpy()), str(series.dtype))


def _read_polars(series: Any) -> Column:
    name = series.dtype.base_type().__name__
    if series.dtype.is_numeric() or name == "Boolean":
        return _numbers(series.cast(float).to_numpy(), series.dtype)
    if name in ("String", "Categorical", "Enum"):
        return Column("category", series.cast(str).to_numpy(), name)
    if name in ("Date", "Datetime"):
        return Column("date", series.dt.epoch("us").to_numpy() / 1e6, name)
    if name in ("Null", "Object"):
        return _read_objects(_object_array(series.to_list()), name)
    return _unused(series.dtype, len(series))


def _read_array(values: Array) -> Column:
    kind = values.dtype.kind
    if kind in "biuf":
        return _numbers(values.astype(np.float64), values.dtype)
    if kind == "M":
        return Column("date", seconds_of(values), str(values.dtype))
    if kind in "OUT":
        return _read_objects(values.astype(object), str(values.dtype))
    return _unused(values.dtype, len(values))


def _numbers(values: Vector, dtype: Any) -> Column:
    return Column("boolean" if str(dtype).lower().startswith("bool") else "number", values, str(dtype))


def _unused(dtype: Any, n_rows: int) -> Column:
    return Column("unused", np.full(n_rows, np.nan), str(dtype))


def _read_objects(values: Array, name: str) -> Column:
    """Python objects: texts, numbers, dates, or texts and numbers together, which are taken as texts."""
    items = values.tolist()
    types = {each for each in set(map(type, items)) if not _is_missing_type(each)}
    if types <= {str}:
        return Column("category", values, name) if types else Column("number", np.full(len(items), np.nan), name)
    present = [None if _is_missing_object(each) else each for each in items]
    strange = [each for each in types if not issubclass(each, _KNOWN)]
    if strange:
        return Column("unused", np.full(len(items), np.nan), strange[0].__name__, present)
    types = {type(each) for each in present if each is not None}
    if all(issubclass(each, _DATES) for each in types):
        timestamps = np.array([np.datetime64("NaT", "us") if each is None else _in_utc(each) for each in present])
        return Column("date", seconds_of(timestamps.astype("datetime64[us]")), name)
    if all(issubclass(each, _NUMBERS) for each in types):
        numbers = np.array([np.nan if each is None else float(each) for each in present])
        return _numbers(numbers, "bool" if types and types <= {bool, np.bool_} else name)
    # No text is looked up by its value: True, 1 and 1.0 are one key, and would all be written as the first of them.
    return Column("category", _object_array([*map(_text_of, present)]), name, present)


def _is_missing_type(kind: type) -> bool:
    return kind.__name__ in ("NoneType", "NAType", "NaTType")


def _is_missing_object(value: Any) -> bool:
    # An object of another type, such as an array, may have no single answer to whether it equals itself.
    return _is_missing_type(type(value)) or (isinstance(value, _KNOWN) and is_missing(value))


def _object_array(items: Sequence[Any]) -> Array:
    """An array of one dimension, also where the items are sequences."""
    return np.array([*items, None], dtype=object)[:-1]


def _in_utc(value: Any) -> Any:
    """A date of Python or NumPy without a time zone, which NumPy does not know, to the microsecond."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")


def _text_of(value: Any) -> str | None:
    """A level as a text; a whole number is the same text as an integer and as a double."""
    if is_missing(value):
        return None
    is_whole = isinstance(value, float | np.floating) and value.is_integer()
    return str(int(value)) if is_whole else str(value)


def _with_gaps(values: Array, missing: Mask) -> Array:
    """A copy of objects, None where a value is missing."""
    changed = values.copy()
    changed[missing] = None
    return changed


def seconds_of(timestamps: Array) -> Vector:
    """Dates of NumPy in seconds since the beginning of 1970, to the microsecond; NaN where one is missing."""
    exact = timestamps.astype("datetime64[us]")
    return np.where(np.isnat(exact), np.nan, exact.view(np.int64) / 1e6)


def as_kind(column: Column, kind: str, name: str) -> Array:
    """The values of a column that a fit has planned as a kind; a column of another type is a ValueError.

    Truth values count as 0 and 1 where numbers are expected, numbers as texts where levels are, and a column without
    any value as anything. Among Python objects of which some are of the kind, the others count as missing, with a
    warning: a rare text among numbers may lie in rows that fit did not see.
    """
    if column.kind == kind or (column.kind in ("number", "boolean") and kind in ("number", "boolean")):
        return column.values
    kept = [each if isinstance(each, _TYPES[kind]) else None for each in column.objects]
    odd = [each for each in column.objects if each is not None and not isinstance(each, _TYPES[kind])]
    if odd and any(each is not None for each in kept):
        warn_user(odd_values_note(name, kind, odd[0], len(odd)), UserWarning)
        return as_kind(_read_objects(_object_array(kept), column.type), kind, name)
    missing = np.array([is_missing(each) for each in column.values.tolist()])
    if column.kind in ("number", "boolean") and kind == "category":
        whole = {"boolean": bool}.get(column.kind, float)
        levels, places = np.unique(np.where(missing, 0.0, column.values), return_inverse=True)
        texts = np.array([_text_of(whole(each)) for each in levels.tolist()], dtype=object)[places]
        return _with_gaps(texts, missing)
    if column.kind != "unused" and missing.all():
        return np.full(len(missing), None, dtype=object) if kind == "category" else np.full(len(missing), np.nan)
    raise ValueError(f"column {name!r} must hold {_WORDS[kind]}, as it did in fit; got {_first(column)}.")


def odd_values_note(name: str, kind: str, first: Any, n_odd: int) -> str:
    """A sentence on values of other types in a column that was planned as a kind from other rows."""
    return (
        f"column {name!r} holds {_WORDS[kind]} in the rows that the model learns from, and other values in rows beside "
        f"them ({n_odd:,}, the first is {first!r}), where it counts as missing."
    )


def _first(column: Column) -> str:
    """The first value that is not missing, and the type of its column."""
    values = [each for each in column.values.tolist() if each is not None and each == each]
    if column.kind == "date" and values:
        values = [str(np.datetime64(round(values[0] * 1e6), "us"))]
    return f"{values[0]!r} (type {column.type})" if values else f"values of type {column.type}"


def _check_finite(names: Sequence[str], doubles: Matrix) -> None:
    """Refuse infinite values, and those whose squares are, with the column; NaN stands for a missing one."""
    found = first_too_large(doubles)
    if found is not None:
        row, place = found
        raise ValueError(
            f"column {names[place]!r} holds {doubles[row, place]:g}, first in row {row}: infinite values, and those "
            f"beyond {LARGEST_VALUE:g}, whose squares are, cannot be learned from or scored. Leave the row out, or set "
            "the value to NaN, which counts as missing."
        )


def first_too_large(doubles: Matrix, limit: float = LARGEST_VALUE) -> tuple[int, int] | None:
    """Row and column of the first value that is infinite or too large, by default to be squared."""
    # No array of the size of the matrix is made, unless there is something to find; NaN is passed over.
    if not doubles.size or (
        np.fmax.reduce(doubles, axis=None) <= limit and np.fmin.reduce(doubles, axis=None) >= -limit
    ):
        return None
    is_wrong = np.abs(doubles) > limit
    row, place = np.unravel_index(np.argmax(is_wrong), doubles.shape)
    return (int(row), int(place)) if is_wrong[row, place] else None
