"""The columns of a file: what becomes of each, kept as a layout, and their values as frames, labels and segments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from taufpl._extras import require
from taufpl._records import read_record
from taufpl._types import Array, Labels, Matrix, RowIndices, Vector
from taufpl.cli._data_file import DataFile, arrow, doubles_of, guess_type, is_number, timestamps_of
from taufpl.cli._errors import note
from taufpl.estimators import NeymanPearsonClassifier, ScoreScreen, ScreeningClassifier, StackedScorer, last_step
from taufpl.operators import LARGEST_VALUE
from taufpl.persistence import ModelHeader
from taufpl.preprocessing import (
    ColumnPlan,
    TableEncoder,
    first_too_large,
    odd_values_note,
    plan_numbers,
    plan_texts,
    seconds_of,
    unused,
)
from taufpl.thresholding import MISSING_LEVEL, canonical, level_text

KINDS = ("number", "boolean", "date", "category", "dropped")


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows of a file become rows of X."""

    columns: tuple[ColumnPlan, ...]  # without the target; none for sparse rows, whose columns have numbers only
    target: str | None
    n_columns: int = 0  # of sparse rows
    is_sparse: bool = False
    zero_based: bool = False  # whether the indices of LIBSVM's text begin at 0
    group: str | None = None
    time: str | None = None
    segment: str | None = None  # the column with the labels of segments, where the model has limits by segment
    score: str | None = None  # the column of scores that the threshold is on: no row may lack it
    n_rows: int = 0  # rows that ranges and missing values were counted on; 0 in older model files

    @property
    def used(self) -> tuple[ColumnPlan, ...]:
        """Columns of X in their order: numbers first, then dates, then categories."""
        kept = [column for column in self.columns if column.kind != "dropped"]
        return tuple(sorted(kept, key=lambda column: {"date": 1, "category": 2}.get(column.kind, 0)))

    @property
    def numbers(self) -> list[str]:
        """Names of numbers and booleans."""
        return [column.name for column in self.columns if column.kind in ("number", "boolean")]

    @property
    def dates(self) -> list[str]:
        """Names of dates."""
        return [column.name for column in self.columns if column.kind == "date"]

    @property
    def categories(self) -> list[str]:
        """Names of categories."""
        return [column.name for column in self.columns if column.kind == "category"]

    def types(self) -> dict[str, Any]:
        """The types that columns of a CSV file are read as."""
        pa = arrow()
        # Whether dates have a time zone is seen when all of a batch are there.
        texts = dict.fromkeys(("category", "date"), pa.string())
        known = {"number": pa.float64(), "boolean": pa.bool_(), **texts}
        return {column.name: known[column.kind] for column in self.used}


@dataclass(frozen=True, slots=True)
class FoundLayout(Layout):
    """The columns of a model that no command has fitted, which takes them all, in their order.

    Their kind is "open" where the model says nothing of it: then they are taken as they are found.
    """

    @property
    def used(self) -> tuple[ColumnPlan, ...]:
        """All columns: those that an encoder drops are columns of X for scikit-learn."""
        return self.columns

    def types(self) -> dict[str, Any]:
        """The types that columns of a CSV file are read as; what texts are, no guess may change."""
        pa = arrow()
        known = {"number": pa.float64(), "boolean": pa.bool_(), "category": pa.string()}
        # An identifier that was a text is one, although it is dropped.
        return {
            column.name: pa.string() if column.n_levels is not None else known.get(column.kind)
            for column in self.columns
        }


def layout_of(header: ModelHeader, model: Any) -> Layout:
    """The layout in a model file, or, of a model that no command has fitted, what its encoder knows of its columns.

    Without an encoder columns are taken as they are found. A layout that makes no sense is a ValueError, which says
    where.
    """
    kept = header.training.get("layout")
    if kept is not None:
        layout = _read_layout(kept)
        # Older files do not name the score.
        is_score = isinstance(last_step(model), ScoreScreen) and layout.used
        return replace(layout, score=layout.used[0].name) if is_score else layout
    model = getattr(model, "best_estimator_", model)
    encoders = _encoders(model)
    if encoders and all(each.columns_ for each in encoders):
        plans = zip(*(each.columns_ for each in encoders), strict=True)
        n_rows = min(int(last_step(each.parts_[0][1]).n_samples_seen_) for each in encoders)
        columns = tuple(map(_joined, plans))
        return FoundLayout(columns, None, segment=_segment_of(model, columns), n_rows=n_rows)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{place}" for place in range(int(getattr(model, "n_features_in_", 0)))]
    columns = tuple(ColumnPlan(str(name), "open") for name in names)
    return FoundLayout(columns, None, segment=_segment_of(model, columns))


def _segment_of(model: Any, columns: tuple[ColumnPlan, ...]) -> str | None:
    """The column of X with the labels of segments, of a model that takes X as it is."""
    which = getattr(model, "segments", None)
    if isinstance(which, int):
        return columns[which].name if which < len(columns) else None
    return which if isinstance(which, str) else None


def _encoders(model: Any) -> list[TableEncoder]:
    """The encoders that get the rows of a fitted model as they are, one for each of its scorers."""
    if isinstance(model, Pipeline):
        parts = [model.steps[0][1]]
    elif isinstance(model, NeymanPearsonClassifier | ScreeningClassifier):
        parts = model.estimators_
    elif isinstance(model, StackedScorer):
        parts = [model.encoder_]
    else:
        return [model] if isinstance(model, TableEncoder) else []
    return [encoder for part in parts for encoder in _encoders(part)]


def _joined(plans: tuple[ColumnPlan, ...]) -> ColumnPlan:
    """One plan of a column from those of several fits: of the first that uses it, with the range of all."""
    used = [plan for plan in plans if plan.kind != "dropped"] or list(plans)
    lows = [plan.low for plan in used if plan.low is not None]
    highs = [plan.high for plan in used if plan.high is not None]
    return replace(used[0], low=min(lows, default=None), high=max(highs, default=None))


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
) -> tuple[ColumnPlan, ...]:
    """Tell what each column of a pyarrow.Table is, from its type and its values; labels are not looked at.

    `unused` says which columns are no features, and why. Only the `rows`, or all (None), are looked at, so that what
    is decided is independent of the others; `guess_types` says that types were guessed from the values of all rows, as
    those of a CSV file are.
    """
    types, columns = arrow().types, []
    for name in table.column_names:
        if name in unused:
            columns.append(ColumnPlan(name, "dropped", unused[name]))
        elif name != target:
            values = table.column(name)
            if rows is not None:
                values = values.take(arrow().array(rows))
                # Texts alone can suggest another type: where all rows read as numbers or dates, some of them do, too.
                values = guess_type(values) if guess_types and types.is_string(values.type) else values
            columns.append(_plan(name, values))
    return tuple(columns)


def _plan(name: str, values: Any) -> ColumnPlan:
    pa = arrow()
    types, kind = pa.types, values.type
    if values.null_count == len(values):
        return plan_texts(name, (), len(values))
    if types.is_boolean(kind):
        return _plan_doubles(name, "boolean", doubles_of(values.cast(pa.uint8())))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _plan_doubles(name, "number", doubles_of(values))
    if types.is_date(kind) or types.is_timestamp(kind):
        return _plan_doubles(name, "date", seconds_of(timestamps_of(values)))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind) or types.is_string_view(kind):
        return _plan_texts(name, values)
    if types.is_binary(kind) or types.is_large_binary(kind):
        raise ValueError(
            f"column {name!r} holds bytes that are not UTF-8. Save the file in UTF-8, for example by iconv -f latin1 "
            f"-t utf-8, or leave the column out by --drop {name}."
        )
    return unused(name, str(kind), values.null_count)


def _plan_doubles(name: str, kind: str, values: Vector) -> ColumnPlan:
    return plan_numbers([name], [kind], values[:, np.newaxis], may_be_identifier=True)[0]


def _plan_texts(name: str, values: Any) -> ColumnPlan:
    pa = arrow()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        values = values.cast(pa.string())
    counts = values.drop_null().value_counts().to_pylist()
    return plan_texts(name, ((each["values"], each["counts"]) for each in counts), values.null_count)


def frame_of(numbers: Matrix, names: list[str], others: dict[str, Array]) -> Any:
    """A frame on a matrix, which is not copied, with columns of dates and texts after it."""
    pandas = require("pandas", "cli", "to hold tables")
    frame = pandas.DataFrame(numbers, columns=names, copy=False)
    for name, values in others.items():
        frame[name] = pandas.Series(values, dtype=values.dtype)
    return frame


def frame_of_batches(file: DataFile, batches: list[Any], layout: Layout, first_row: int = 0) -> Any:
    """All batches in one frame. The list is emptied on the way, so that no row is held twice for long.

    A value that is no number or date where one is expected, or infinite, is a ValueError, which says where.
    """
    names, start, n_rows = layout.numbers, 0, sum(batch.num_rows for batch in batches)
    matrix = np.empty((n_rows, len(names)))
    dates = {name: np.empty(n_rows, dtype="datetime64[us]") for name in layout.dates}
    texts = {name: np.empty(n_rows, dtype=object) for name in layout.categories}
    batches.reverse()
    while batches:
        batch = batches.pop()
        stop = start + batch.num_rows
        for place, name in enumerate(names):
            matrix[start:stop, place] = _doubles(file, name, batch.column(name), first_row + start)
        check_finite(file, names, matrix[start:stop], first_row + start)
        for name, values in dates.items():
            values[start:stop] = _timestamps(file, name, batch.column(name), first_row + start)
        for name, values in texts.items():
            values[start:stop] = _texts(batch.column(name))
        start = stop
    return frame_of(matrix, names, dates | texts)


def texts_as_planned(file: DataFile, table: Any, layout: Layout) -> Any:
    """A table whose texts are numbers or dates where the layout, which was told from some of its rows, says so.

    What is neither in the other rows counts as missing, with a note.
    """
    pa = arrow()
    for place, name in enumerate(table.column_names):
        values = table.column(name)
        if name not in layout.numbers + layout.dates or not pa.types.is_string(values.type):
            continue
        coded = values.combine_chunks().dictionary_encode()
        texts = coded.dictionary.to_pylist()
        if name in layout.dates:
            read = pa.array([_date_in(text) for text in texts], pa.timestamp("us"))
        else:
            read = pa.array([_number_in(text) for text in texts], pa.float64())
        odd = [text for text, is_read in zip(texts, read.is_valid().to_pylist(), strict=True) if not is_read]
        read = read.take(coded.indices)
        if odd:
            kind, n_odd = "date" if name in layout.dates else "number", read.null_count - values.null_count
            note(f"{file.name}: {odd_values_note(name, kind, odd[0], n_odd)}")
        table = table.set_column(place, name, read)
    return table


def _date_in(text: str) -> Any:
    """A date of NumPy, or None for anything else."""
    try:
        return timestamps_of(arrow().array([text]))[0]
    except ValueError:
        return None


def _number_in(text: str) -> float | None:
    """A number, or 0 and 1 for truth values; None for anything else."""
    truth = {"true": 1.0, "false": 0.0}.get(text.strip().lower())
    try:
        # pyarrow reads whole numbers in hexadecimal digits, too.
        return truth if truth is not None else float(int(text, 16) if "x" in text.lower() else float(text))
    except ValueError:
        return None


def check_finite(file: DataFile, names: list[str], matrix: Matrix, first_row: int) -> None:
    """Refuse infinite values, and those whose squares are; NaN stands for a missing one."""
    found = first_too_large(matrix)
    if found is not None:
        row, place = found
        value = float(matrix[row, place])
        what = (
            "is infinite" if np.isinf(value) else f"{value:g} is too large: beyond {LARGEST_VALUE:g} squares overflow"
        )
        raise ValueError(
            f"{file.name}, row {first_row + row + 1:,}, column {names[place]!r}: the value {what}. "
            "Leave the row out, or the column by --drop when the model is fitted."
        )


def _doubles(file: DataFile, name: str, values: Any, first_row: int) -> Vector:
    pa = arrow()
    try:
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.uint8())
        return doubles_of(values)
    except (ValueError, NotImplementedError) as error:
        for row, value in enumerate(values.to_pylist(), first_row + 1):
            if value is not None and not is_number(value):
                where = f"{file.name}, row {row:,}, column {name!r}"
                raise ValueError(f"{where}: {value!r} is not a number, which the model expects there.") from error
        raise ValueError(f"{file.name}, column {name!r}: is of type {values.type}, not numbers.") from error


def _timestamps(file: DataFile, name: str, values: Any, first_row: int) -> Array:
    try:
        return timestamps_of(values)
    except (ValueError, NotImplementedError) as error:
        for row, value in enumerate(values.to_pylist(), first_row + 1):
            if value is not None and (not isinstance(value, str) or _date_in(value) is None):
                where = f"{file.name}, row {row:,}, column {name!r}"
                raise ValueError(
                    f"{where}: {value!r} is not a date, which the model expects there. Write dates as 2024-12-31 or "
                    "2024-12-31 23:59:00."
                ) from error
        raise ValueError(f"{file.name}, column {name!r}: some dates have a time zone, and others not.") from error


def _texts(values: Any) -> Array:
    """Texts as objects; equal ones are the same object, and missing ones None."""
    pa = arrow()
    if not pa.types.is_dictionary(values.type):
        values = (values if pa.types.is_string(values.type) else values.cast(pa.string())).dictionary_encode()
    found = [None if each is None else str(each) for each in values.dictionary.to_pylist()]
    levels = np.array([*found, None], dtype=object)
    return levels[values.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)]


# Pairs of words of which everybody knows the positive one.
_WORDS = {"no": "yes", "n": "y", "false": "true", "f": "t", "neg": "pos", "negative": "positive", "off": "on"}
NEGATIVE, POSITIVE, MISSING = 0, 1, -1


def _distinct(values: Any) -> tuple[list[Any], Labels]:
    """Different labels of a pyarrow column or a NumPy array, and the place of each row's among them; -1: missing."""
    column = arrow().array(values) if isinstance(values, np.ndarray) else values
    joined = column.combine_chunks() if hasattr(column, "chunks") else column
    if not arrow().types.is_dictionary(joined.type):
        joined = joined.dictionary_encode()
    different = joined.dictionary.to_pylist()
    codes = joined.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    # NaN is not a label, wherever it comes from.
    for place, label in enumerate(different):
        if label is None or label != label:
            codes[codes == place] = -1
    return different, codes


def read_levels(values: Any) -> Array:
    """The level of each row of a pyarrow column, as canonical text."""
    different, codes = _distinct(values)
    return np.array([*map(level_text, different), MISSING_LEVEL], dtype=object)[codes]


def event_names(values: Any) -> list[str | None]:
    """The event of each row of a pyarrow column: the same text in every format, None where it is missing."""
    return [None if text == MISSING_LEVEL else text for text in read_levels(values).tolist()]


def read_labels(file: DataFile, name: str, values: Any, positive: str | None) -> tuple[Array, Any]:
    """The labels of rows that train, and which of the two is that of positives.

    Refused are labels of which one is missing, more or fewer than two, and two of which nobody can tell which is
    looked for.
    """
    different, codes = _distinct(values)
    n_missing = int(np.count_nonzero(codes < 0))
    if n_missing:
        first = int(np.argmax(codes < 0)) + 1
        raise ValueError(
            f"{file.name}: the target {name!r} is missing in {n_missing:,} rows, first in row {first:,}. Leave those "
            "rows out."
        )
    places = np.unique(codes).tolist()
    labels = [_plain_label(different[place]) for place in places]
    if len(labels) != 2:
        shown = ", ".join(repr(label) for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
        raise ValueError(
            f"{file.name}: the target {name!r} must have two labels; it has {len(labels):,}: {shown}."
            + (" Choose the column by --target." if len(labels) > 2 else " There is nothing to tell apart.")
        )
    found = _positive(file, name, labels, positive)
    return np.array(labels)[(codes == places[1]).astype(np.intp)], labels[found]


def match_labels(file: DataFile, name: str, values: Any, classes: list[Any], first_row: int = 0) -> Labels:
    """Labels of a column as NEGATIVE, POSITIVE or MISSING; a label that the model does not know is refused."""
    known = {canonical(label): code for label, code in zip(classes, (NEGATIVE, POSITIVE), strict=True)}
    different, codes = _distinct(values)
    texts = [canonical(label) for label in different]
    for place in np.unique(codes[codes >= 0]).tolist():
        if texts[place] not in known:
            row = first_row + int(np.argmax(codes == place)) + 1
            raise ValueError(
                f"{file.name}, row {row:,}: the label {different[place]!r} in {name!r} is none of the model's, "
                f"{classes[0]!r} and {classes[1]!r}. Write labels as the model knows them."
            )
    meaning = np.array([*(known.get(text, MISSING) for text in texts), MISSING])
    return meaning[codes]


def _positive(file: DataFile, name: str, labels: list[Any], wanted: str | None) -> int:
    """Which of two labels is looked for."""
    texts = [canonical(label) for label in labels]
    if wanted is not None:
        if canonical(wanted) not in texts:
            raise ValueError(
                f"{file.name}: the target {name!r} has the labels {labels[0]!r} and {labels[1]!r}, and not "
                f"{wanted!r}, which --positive names."
            )
        return texts.index(canonical(wanted))
    if not isinstance(labels[0], str) and not isinstance(labels[1], str):
        return int(np.argmax(labels))
    words = [text.lower() for text in texts]
    for place in (0, 1):
        if _WORDS.get(words[1 - place]) == words[place]:
            return place
    raise ValueError(
        f"{file.name}: which of the labels {labels[0]!r} and {labels[1]!r} of {name!r} is looked for? Say so by "
        f"--positive {labels[0]} or --positive {labels[1]}."
    )


def _plain_label(label: Any) -> Any:
    """Whole numbers as such: LIBSVM's labels are floats."""
    if isinstance(label, bool) or not isinstance(label, int | float):
        return label if isinstance(label, bool | str) else str(label)
    return int(label) if float(label).is_integer() else label


def take_segments(file: DataFile, table: Any, name: str) -> tuple[Any, Array]:
    """A table, and the segment of each row: numbers where the column has some, else canonical texts.

    The column of a CSV file comes as the texts that later commands read, too. In the table it then has its type, since
    it may be a feature.
    """
    texts, types = table.column(name), arrow().types
    values, labels = guess_type(texts) if file.format == "csv" else texts, read_levels(texts)
    if types.is_floating(values.type) or (types.is_integer(values.type) and not values.null_count):
        labels = as_numbers(labels)
    return table.set_column(table.column_names.index(name), name, values), labels


def as_numbers(labels: Array) -> Array:
    """Canonical texts of numbers as those, with all their digits; texts where one is none."""
    try:
        return np.array([_number_of(text) for text in labels.tolist()], dtype=object)
    except ValueError:
        return labels


def _number_of(text: str) -> float:
    if text == MISSING_LEVEL:
        return math.nan
    return int(text) if text.removeprefix("-").isdigit() else float(text)
