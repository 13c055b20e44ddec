"""Limits by segment at the command line: their options, and the labels of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taufpl._types import Array
from taufpl.cli._data_file import DataFile
from taufpl.cli._labels import read_levels
from taufpl.cli._tables import arrow, guess_type
from taufpl.thresholding import MISSING_LEVEL


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
        return np.array([_number_in(text) for text in labels.tolist()], dtype=object)
    except ValueError:
        return labels


def _number_in(text: str) -> float:
    if text == MISSING_LEVEL:
        return math.nan
    return int(text) if text.removeprefix("-").isdigit() else float(text)
