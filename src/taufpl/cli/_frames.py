"""Columns of pyarrow as the frames that models take: one matrix of doubles, dates and texts beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl._extras import require
from taufpl._types import Array, Matrix, Vector
from taufpl.cli._data_file import DataFile
from taufpl.cli._errors import note
from taufpl.cli._layout import Layout
from taufpl.cli._matrices import is_number
from taufpl.cli._tables import arrow, doubles_of, timestamps_of
from taufpl.operators import LARGEST_VALUE
from taufpl.preprocessing import first_too_large, odd_values_note


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
