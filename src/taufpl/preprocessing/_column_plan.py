"""What becomes of each column of a table, told from its values in the training rows; labels are not looked at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from taufpl._records import with_named_state
from taufpl._types import Matrix, Vector

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
