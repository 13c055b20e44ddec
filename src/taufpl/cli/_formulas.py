"""Texts that a spreadsheet would run as a formula when it opens a CSV file."""

from __future__ import annotations

from typing import Any

from taufpl.cli._tables import arrow

# What begins a formula in one spreadsheet or another; tabs and line ends before it are skipped by some.
_FORMULA = r"^[=+\-@\t\r\n]"
# A sign with a number after it is that number.
_NUMBER = r"^[+\-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+\-]?[0-9]+)?$"


def guard_formulas(table: Any) -> tuple[Any, int]:
    """Put an apostrophe before every text of a pyarrow.Table that begins a formula, names of columns included.

    Numbers, and texts that are numbers, stay as they are. The number of cells that were changed is returned, too.
    """
    columns, counts = zip(*map(_guarded, table.columns), strict=True)
    names, _ = _guarded(arrow().array(table.column_names))
    return arrow().table(list(columns), names=names.to_pylist()), sum(counts)


def _guarded(values: Any) -> tuple[Any, int]:
    pa, compute = arrow(), arrow(".compute")
    types = pa.types
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (types.is_string(values.type) or types.is_large_string(values.type) or types.is_string_view(values.type)):
        return values, 0
    values = values.cast(pa.large_string())
    is_formula = compute.and_not(
        compute.match_substring_regex(values, _FORMULA), compute.match_substring_regex(values, _NUMBER)
    )
    mark, nothing = (pa.scalar(text, pa.large_string()) for text in ("'", ""))
    marked = compute.binary_join_element_wise(mark, values, nothing)
    return compute.if_else(is_formula, marked, values), compute.sum(is_formula).as_py() or 0
