"""Labels and checks of rows in blocks: everything with an entry a row stays in the state of its block.

A block begins with ``labels`` (and ``number`` and ``start``, its place). `divide` puts in their place what a solver
asks for: ``positive``, the indices of positives, and the masks ``is_positive`` and ``is_negative``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._types import Array
from taufpl.operators._array_api import is_foreign_array, namespace, to_numpy
from taufpl.operators._values import LARGEST_VALUE
from taufpl.operators.remote._blocks import Block, Blocks, State

# Distinct labels of a block that are reported; more of them are a mistake, or a regression.
_MOST_LABELS = 32
# Rows that an error names.
_MOST_NAMED = 5
# A score with this weight, in double or in single precision, is finite exactly where the row is: it does not overflow.
_TINY, _TINY_SINGLE = 1e-200, 1e-30


def label_counts(blocks: Blocks) -> dict[Any, int]:
    """Distinct labels in ascending order, and how many rows have each; at most 33 are told apart. One round."""
    found = blocks.gather(_CountLabels())
    missing = [part for part in found if part[1]]
    if missing:
        raise ValueError(
            f"y must not have missing labels, got {sum(n for _, n, _ in missing)}, the first in row {missing[0][2]}. "
            "Drop these rows."
        )
    total: Counter[Any] = Counter()
    for counts, _, _ in found:
        total.update(counts)
    return dict(sorted(total.items()))


def divide(blocks: Blocks, positive_label: Any) -> None:
    """Tell positives from negatives: every block's labels give way to the rows of both. No round on a cluster."""
    blocks.change(_Divide(positive_label))


def check_rows(blocks: Blocks) -> None:
    """Refuse NaN, infinity and numbers whose squares are beyond double precision: one pass, in one round."""
    blocks.count(1.0)
    found = blocks.gather(_FindBad())
    gaps, large = ([(number, *parts[i]) for number, *parts in found if parts[i][0]] for i in (0, 1))
    if gaps:
        raise ValueError(
            f"X must hold finite numbers: NaN or infinity in {_in_words(gaps, blocks.shape[0])}. "
            "Drop these rows, or fill the gaps."
        )
    if large:
        raise ValueError(
            "X must hold numbers whose squares are finite too: "
            f"beyond {LARGEST_VALUE:g} in {_in_words(large, blocks.shape[0])}. Scale the features, or drop these rows."
        )


def _in_words(found: list[tuple[int, int, list[int]]], n_rows: int) -> str:
    """How many rows, in which blocks, and the first of them."""
    first = [row for _, _, rows in found for row in rows][:_MOST_NAMED]
    where = ", ".join(f"{n} in block {number}" for number, n, _ in found[:_MOST_NAMED])
    return (
        f"{sum(n for _, n, _ in found)} of {n_rows} rows ({where}{', ...' if len(found) > _MOST_NAMED else ''}), "
        f"the first in row{'s' * (len(first) > 1)} {', '.join(map(str, first))}"
    )


@dataclass(frozen=True)
class _CountLabels:
    def __call__(self, block: Block, state: State) -> tuple[dict[Any, int], int, int]:
        """Counts of labels, the number of missing labels, and the row of the first missing one."""
        labels = state["labels"]
        found = _count_two(block, labels) if is_foreign_array(labels) else None
        if found is not None:
            return found, 0, -1
        labels = to_numpy(labels)
        places = np.flatnonzero(_is_missing(labels))
        if len(places):
            return {}, len(places), state["start"] + int(places[0])
        values, counts = np.unique(labels, return_counts=True)
        return dict(zip(values[:_MOST_LABELS].tolist(), counts[:_MOST_LABELS].tolist(), strict=True)), 0, -1


def _count_two(block: Block, labels: Any) -> dict[Any, int] | None:
    """Counts of labels on a device, the smallest and the largest; None where there are others, or where one is NaN."""
    xp = namespace(labels)
    if labels.dtype not in (xp.bool, xp.uint8, xp.int8, xp.int16, xp.int32, xp.int64, xp.float32, xp.float64):
        return None  # a library may have no order for others
    numbers = xp.astype(labels, xp.uint8) if labels.dtype == xp.bool else labels
    ends = xp.stack((xp.min(numbers), xp.max(numbers)))
    n_low, n_high = (int(n) for n in block.to_host(*(xp.count_nonzero(numbers == ends[i]) for i in (0, 1))))
    low, high = to_numpy(xp.astype(ends, labels.dtype)).tolist()
    if low == high:
        return {low: n_low}
    return {low: n_low, high: n_high} if n_low + n_high == labels.shape[0] else None


@dataclass(frozen=True)
class _Divide:
    positive_label: Any

    def __call__(self, block: Block, state: State) -> State:
        is_positive = block.asarray(state["labels"] == self.positive_label)
        kept = {name: value for name, value in state.items() if name != "labels"}
        rows = block.xp.nonzero(is_positive)[0]
        return {**kept, "positive": rows, "is_positive": is_positive, "is_negative": ~is_positive}


@dataclass(frozen=True)
class _FindBad:
    def __call__(self, block: Block, state: State) -> tuple[int, tuple[int, list[int]], tuple[int, list[int]]]:
        """Number of the block, and count and first places of its rows that are not finite, and that are too large."""
        xp, tiny = block.xp, _TINY if block.exact else _TINY_SINGLE
        # Weights that differ: large numbers of both signs must not cancel.
        scores = block.dot(np.linspace(tiny, 2.0 * tiny, block.shape[1]))
        finite = xp.isfinite(scores)
        masks = (~finite, finite & (abs(scores) > tiny * LARGEST_VALUE))
        counts = [int(count) for count in block.to_host(*map(xp.count_nonzero, masks))]
        gaps, large = (
            (count, [] if not count else [state["start"] + int(row) for row in _first_places(block, mask)])
            for count, mask in zip(counts, masks, strict=True)
        )
        return state["number"], gaps, large


def _first_places(block: Block, mask: Any) -> Any:
    places = block.xp.nonzero(mask)[0]
    # An end beyond that of an array is an error in the array API's own words.
    return block.to_host(places[: min(_MOST_NAMED, places.shape[0])])[0]


def _is_missing(labels: Array) -> Array:
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind != "O":
        return np.zeros(len(labels), dtype=bool)
    # None, NaN, and what dataframes have for either.
    return np.array([not isinstance(label, str) and str(label) in {"None", "nan", "<NA>", "NaT"} for label in labels])
