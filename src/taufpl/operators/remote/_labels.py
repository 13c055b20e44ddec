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
from taufpl.operators._storage import LARGEST_VALUE
from taufpl.operators.remote._blocks import Block, Blocks, State

# Distinct labels of a block that are reported; more of them are a mistake, or a regression.
_MOST_LABELS = 32
# Rows that an error names.
_MOST_NAMED = 5
# A score with this weight is finite exactly where the row is: too small to overflow, too large to vanish.
_TINY = 1e-200


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
        labels = _on_host(block, state["labels"])
        places = np.flatnonzero(_is_missing(labels))
        if len(places):
            return {}, len(places), state["start"] + int(places[0])
        values, counts = np.unique(labels, return_counts=True)
        return dict(zip(values[:_MOST_LABELS].tolist(), counts[:_MOST_LABELS].tolist(), strict=True)), 0, -1


@dataclass(frozen=True)
class _Divide:
    positive_label: Any

    def __call__(self, block: Block, state: State) -> State:
        positive = _on_host(block, state["labels"]) == self.positive_label
        kept = {name: value for name, value in state.items() if name != "labels"}
        is_positive, is_negative = block.asarray(positive), block.asarray(~positive)
        rows = block.xp.nonzero(is_positive)[0]
        return {**kept, "positive": rows, "is_positive": is_positive, "is_negative": is_negative}


@dataclass(frozen=True)
class _FindBad:
    def __call__(self, block: Block, state: State) -> tuple[int, tuple[int, list[int]], tuple[int, list[int]]]:
        """Number of the block, and count and first places of its rows that are not finite, and that are too large."""
        # Weights that differ: large numbers of both signs must not cancel.
        scores = block.dot(np.linspace(_TINY, 2.0 * _TINY, block.shape[1]), exact=True)
        finite = block.xp.isfinite(scores)
        masks = block.to_host(~finite, finite & (abs(scores) > _TINY * LARGEST_VALUE))
        places = [np.flatnonzero(mask) for mask in masks]
        gaps, large = ((len(rows), [state["start"] + int(row) for row in rows[:_MOST_NAMED]]) for rows in places)
        return state["number"], gaps, large


def _is_missing(labels: Array) -> Array:
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind != "O":
        return np.zeros(len(labels), dtype=bool)
    # None, NaN, and what dataframes have for either.
    return np.array([not isinstance(label, str) and str(label) in {"None", "nan", "<NA>", "NaT"} for label in labels])


def _on_host(block: Block, labels: Any) -> Array:
    """Labels as NumPy array; those of an array on a device come over once."""
    return labels if isinstance(labels, np.ndarray) else np.asarray(block.to_host(labels)[0])
