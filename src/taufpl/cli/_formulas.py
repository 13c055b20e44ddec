"""Texts that a spreadsheet would run as a formula when it opens a CSV file."""

from __future__ import annotations

from typing import Any

from taufpl._extras import require
from taufpl.cli._tables import arrow

# What begins a formula in one spreadsheet or another; tabs and line ends before it are skipped by some.
_FORMULA = r"^[=+\-@\t\r\n]"
# A sign with a number after it is that number.
_NUMBER = r"^[+\-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+\-]?[0-9]+)?$"


def guard_formulas(table: Any) -> tuple[Any, int]:
    """Put an apostrophe before every text that begins a formula, names of columns included.

    Parameters
    ----------
    table : pyarrow.Table

    Returns
    -------
    table : pyarrow.Table
        Numbers, and texts that are numbers, are as they were.
    n_guarded : int
        How many cells have an apostrophe now.
    """
    columns, total = [], 0
    for column in table.columns:
        guarded, n_guarded = _guarded(column)
        columns.append(guarded)
        total += n_guarded
    names, _ = _guarded(arrow().array(table.column_names))
    return arrow().table(columns, names=names.to_pylist()), total


def _guarded(values: Any) -> tuple[Any, int]:
    pa, compute = arrow(), require("pyarrow.compute", "cli", "to write CSV")
    types = pa.types
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (types.is_string(values.type) or types.is_large_string(values.type) or types.is_string_view(values.type)):
        return values, 0
    values = values.cast(pa.large_string())
    is_formula = compute.and_not(
        compute.match_substring_regex(values, _FORMULA), compute.match_substring_regex(values, _NUMBER)
    )
    n_formulas = compute.sum(is_formula).as_py() or 0
    if not n_formulas:
        return values, 0
    marked = compute.binary_join_element_wise(
        pa.scalar("'", pa.large_string()), values, pa.scalar("", pa.large_string())
    )
    return compute.if_else(is_formula, marked, values), n_formulas
