"""Columns of pyarrow as the frames that models take: one matrix of doubles, and texts beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._extras import require
from taufpl.cli._errors import note
from taufpl.cli._layout import Layout
from taufpl.cli._source import Source
from taufpl.cli._tables import arrow
from taufpl.operators import LARGEST_VALUE

Floats = NDArray[np.float64]


def frame_of(numbers: Floats, names: list[str], texts: dict[str, NDArray[Any]]) -> Any:
    """A frame on a matrix, which is not copied, with columns of texts after it."""
    pandas = require("pandas", "cli", "to hold tables")
    frame = pandas.DataFrame(numbers, columns=names, copy=False)
    for name, values in texts.items():
        frame[name] = pandas.Series(values, dtype=object)
    return frame


def whole_frame(source: Source, batches: list[Any], n_rows: int, layout: Layout) -> Any:
    """All batches in one frame. The list is emptied on the way, so that no row is held twice for long."""
    names, categories = layout.numbers, layout.categories
    matrix = np.empty((n_rows, len(names)))
    texts = {name: np.empty(n_rows, dtype=object) for name in categories}
    start = 0
    batches.reverse()
    while batches:
        batch = batches.pop()
        stop = start + batch.num_rows
        fill_numbers(source, batch, names, matrix[start:stop], start)
        for name in categories:
            texts[name][start:stop] = _texts(batch.column(name))
        start = stop
    del batch
    release()
    return frame_of(matrix, names, texts)


def as_planned(source: Source, table: Any, layout: Layout) -> Any:
    """A table whose texts are numbers where the layout, which was told from some of its rows, says so.

    What is no number in the other rows counts as missing, with a note.
    """
    pa = arrow()
    for place, name in enumerate(table.column_names):
        values = table.column(name)
        if name not in layout.numbers or not pa.types.is_string(values.type):
            continue
        coded = values.combine_chunks().dictionary_encode()
        texts = coded.dictionary.to_pylist()
        numbers = pa.array([_number_in(text) for text in texts], pa.float64()).take(coded.indices)
        n_lost = numbers.null_count - values.null_count
        note(
            f"{source.name}: column {name!r} holds numbers in the rows that the model learns from, and other texts in "
            f"some of the others ({n_lost:,}), where it counts as missing."
        )
        table = table.set_column(place, name, numbers)
    return table


def _number_in(text: str) -> float | None:
    """A number, or 0 and 1 for truth values; None for anything else."""
    truth = {"true": 1.0, "false": 0.0}.get(text.strip().lower())
    try:
        # pyarrow reads whole numbers in hexadecimal digits, too.
        return truth if truth is not None else float(int(text, 16) if "x" in text.lower() else float(text))
    except ValueError:
        return None


def release() -> None:
    """Give memory that pyarrow has no more use for back to the system."""
    arrow().default_memory_pool().release_unused()


def batch_frame(source: Source, batch: Any, layout: Layout, first_row: int) -> Any:
    """A batch as a frame."""
    if any(column.kind == "open" for column in layout.used):
        return batch.select([column.name for column in layout.used]).to_pandas()
    matrix = np.empty((batch.num_rows, len(layout.numbers)))
    fill_numbers(source, batch, layout.numbers, matrix, first_row)
    return frame_of(matrix, layout.numbers, {name: _texts(batch.column(name)) for name in layout.categories})


def fill_numbers(source: Source, batch: Any, names: list[str], out: Floats, first_row: int) -> None:
    """Write columns into a matrix; missing values become NaN.

    Raises
    ------
    ValueError
        A value is no number, or infinite; the message says where.
    """
    for place, name in enumerate(names):
        out[:, place] = _doubles(source, name, batch.column(name), first_row)
    check_finite(source, names, out, first_row)


def check_finite(source: Source, names: list[str], matrix: Floats, first_row: int) -> None:
    """Refuse infinite values, and those whose squares are; NaN stands for a missing one."""
    if not matrix.size:
        return
    # No array of the size of the matrix is made, unless there is something to find; NaN is passed over.
    if np.fmax.reduce(matrix, axis=None) <= LARGEST_VALUE and np.fmin.reduce(matrix, axis=None) >= -LARGEST_VALUE:
        return
    is_wrong = np.abs(matrix) > LARGEST_VALUE
    row, place = np.unravel_index(np.argmax(is_wrong), matrix.shape)
    if is_wrong[row, place]:
        value = float(matrix[row, place])
        what = (
            "is infinite" if np.isinf(value) else f"{value:g} is too large: beyond {LARGEST_VALUE:g} squares overflow"
        )
        raise ValueError(
            f"{source.name}, row {first_row + int(row) + 1:,}, column {names[int(place)]!r}: the value {what}. "
            "Leave the row out, or the column by --drop when the model is fitted."
        )


def _doubles(source: Source, name: str, values: Any, first_row: int) -> Floats:
    pa = arrow()
    try:
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.uint8())
        return values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (ValueError, NotImplementedError) as error:
        for row, value in enumerate(values.to_pylist(), first_row + 1):
            if not _is_number(value):
                where = f"{source.name}, row {row:,}, column {name!r}"
                raise ValueError(f"{where}: {value!r} is not a number, which the model expects there.") from error
        raise ValueError(f"{source.name}, column {name!r}: is of type {values.type}, not numbers.") from error


def _is_number(value: Any) -> bool:
    try:
        return value is None or float(value) == float(value) or True
    except (TypeError, ValueError):
        return False


def _texts(values: Any) -> NDArray[Any]:
    """Texts as objects; equal ones are the same object, and missing ones None."""
    pa = arrow()
    if not pa.types.is_dictionary(values.type):
        values = (values if pa.types.is_string(values.type) else values.cast(pa.string())).dictionary_encode()
    found = [None if each is None else str(each) for each in values.dictionary.to_pylist()]
    levels = np.array([*found, None], dtype=object)
    return levels[values.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)]
