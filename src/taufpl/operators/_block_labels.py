"""Labels, checks and folds of rows in blocks: everything with an entry a row stays in the state of its block.

A block begins with ``labels`` (and ``number`` and ``start``, its place). `divide` puts in their place what a solver
asks for: ``positive``, the indices of positives, and the masks ``is_positive`` and ``is_negative``. `draw_folds` adds
``folds``, a small number for each row; `take_folds` makes blocks on the same rows in which only those of some folds
take part.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.operators._blocks import Block, Blocks, State

Array = NDArray[Any]

# Distinct labels of a block that are reported; more of them are a mistake, or a regression.
_MOST_LABELS = 32
# Rows that an error names.
_MOST_NAMED = 5
# A score with this weight is finite exactly where the row is: too small to overflow, too large to vanish.
_TINY = 1e-200


def label_counts(blocks: Blocks) -> dict[Any, int]:
    """Distinct labels in ascending order, and how many rows have each; at most 33 are told apart. One round.

    Raises
    ------
    ValueError
        If labels are missing.
    """
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
    """One pass over all rows, in one round.

    Raises
    ------
    ValueError
        If some rows hold NaN or infinity.
    """
    blocks.count(1.0)
    found = [part for part in blocks.gather(_FindBad()) if part[1]]
    if found:
        n_bad = sum(count for _, count, _ in found)
        first = [row for _, _, rows in found for row in rows][:_MOST_NAMED]
        where = ", ".join(f"{n} in block {number}" for number, n, _ in found[:_MOST_NAMED])
        raise ValueError(
            f"X must hold finite numbers: NaN or infinity in {n_bad} of {blocks.shape[0]} rows "
            f"({where}{', ...' if len(found) > _MOST_NAMED else ''}), the first in row{'s' * (len(first) > 1)} "
            f"{', '.join(map(str, first))}. Drop these rows, or fill the gaps."
        )


def draw_folds(blocks: Blocks, n_folds: int, seed: int) -> None:
    """Give every row a fold at random, each class of each block in equal shares.

    Blocks draw from ``(seed, number of the block)``, so that folds do not depend on where or when they are drawn, but
    do on how the rows are cut into blocks. Where a class does not divide evenly, the folds that get one more differ
    from block to block, so that they are about even over all.
    """
    if not 2 <= n_folds <= 255:
        raise ValueError(f"n_folds must lie between 2 and 255, got {n_folds}.")
    blocks.change(_DrawFolds(n_folds, seed))


def take_folds(blocks: Blocks, folds: tuple[int, ...]) -> Blocks:
    """Blocks on the same rows, of which only those of these folds take part. Release them when they are done with."""
    return blocks.fork(_TakeFolds(folds))


def class_counts(blocks: Blocks) -> tuple[int, int]:
    """How many positives and negatives take part."""
    positive, negative = blocks.reduce(_CountClasses())
    return int(positive), int(negative)


@dataclass(frozen=True)
class _CountLabels:
    def __call__(self, block: Block, state: State) -> tuple[dict[Any, int], int, int]:
        """Counts of labels, the number of missing ones, and the row of the first of those."""
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
        return {**kept, **_taking_part(block, block.asarray(positive), block.asarray(~positive))}


@dataclass(frozen=True)
class _FindBad:
    def __call__(self, block: Block, state: State) -> tuple[int, int, list[int]]:
        """Number of the block, how many of its rows are not finite, and the first of them."""
        scores = block.dot(np.full(block.shape[1], _TINY), exact=True)
        (bad,) = block.to_host(~block.xp.isfinite(scores))
        places = np.flatnonzero(bad)
        return state["number"], len(places), [state["start"] + int(row) for row in places[:_MOST_NAMED]]


@dataclass(frozen=True)
class _DrawFolds:
    n_folds: int
    seed: int

    def __call__(self, block: Block, state: State) -> State:
        rng = np.random.default_rng((self.seed, state["number"]))
        folds = np.zeros(block.shape[0], dtype=np.uint8)
        for mask in block.to_host(state["is_positive"], state["is_negative"]):
            rows = rng.permutation(np.flatnonzero(mask))
            folds[rows] = (np.arange(len(rows)) + rng.integers(self.n_folds)) % self.n_folds
        return {**state, "folds": block.asarray(folds)}


@dataclass(frozen=True)
class _TakeFolds:
    folds: tuple[int, ...]

    def __call__(self, block: Block, state: State) -> State:
        chosen = state["folds"] == self.folds[0]
        for fold in self.folds[1:]:
            chosen = chosen | (state["folds"] == fold)
        return {**state, **_taking_part(block, state["is_positive"] & chosen, state["is_negative"] & chosen)}


@dataclass(frozen=True)
class _CountClasses:
    def __call__(self, block: Block, state: State) -> tuple[Any, ...]:
        (negative,) = block.to_host(block.xp.count_nonzero(state["is_negative"]))
        return int(state["positive"].shape[0]), int(negative)


def _taking_part(block: Block, is_positive: Any, is_negative: Any) -> dict[str, Any]:
    positive = block.xp.nonzero(is_positive)[0]
    return {"positive": positive, "is_positive": is_positive, "is_negative": is_negative}


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
