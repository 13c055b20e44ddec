"""Labels, checks and order statistics of rows in blocks: what has an entry a row stays in the state of its block.

A block begins with ``labels`` (and ``number`` and ``start``, its place). `divide` puts in their place what a solver
asks for: ``positive``, the indices of positives, and the masks ``is_positive`` and ``is_negative``.

Order statistics are exact, by few rounds of small messages. A sample of the entries gives candidates around the wanted
rank; counts over all blocks say between which two of them it lies. Few entries lie there, and they come to the caller;
or a sample of them gives the next candidates. Candidates are entries themselves, so that ties are met exactly, however
many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._types import Array, Vector
from taufpl.operators._array_api import is_foreign_array, namespace, to_numpy
from taufpl.operators._values import LARGEST_VALUE
from taufpl.operators.remote._blocks import Block, Blocks, State, Sums

# Distinct labels of a block that are reported; more of them are a mistake, or a regression.
_MOST_LABELS = 32
# Rows that an error names.
_MOST_NAMED = 5
# A score with this weight, in double or in single precision, is finite exactly where the row is: it does not overflow.
_TINY, _TINY_SINGLE = 1e-200, 1e-30
# Entries that come to the caller in a round: the least number from each block, and about how many in all.
_LEAST_SAMPLE, _MOST_ENTRIES = 32, 8192
# Entries of a sample on a device, which sorts them in no time.
_DEVICE_SAMPLE = 1 << 16
# Candidates, in standard errors of the sample around the wanted rank.
_SPREAD = np.array([-8.0, -4.0, -2.0, -1.0, -0.4, 0.0, 0.4, 1.0, 2.0, 4.0, 8.0])


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


@dataclass(frozen=True)
class Entries:
    """The entries of a vector in the state, all or those that a mask names."""

    name: str
    among: str | None = None

    def __call__(self, block: Block, state: State) -> Any:
        """Read them from a block's state."""
        return state[self.name] if self.among is None else state[self.name][state[self.among]]


def order_statistic(blocks: Blocks, entries: Callable[[Block, State], Any], rank: int) -> float:
    """The rank-th smallest of all entries, counted from 1; ValueError if there are fewer.

    `entries` gives a block's entries, numbers without NaN: :class:`Entries`, or any task that can be pickled.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.operators.remote import Entries, LocalBlocks, order_statistic
    >>> rows, scores = np.ones((3, 1)), [np.array([5.0, 1.0, 3.0]), np.array([4.0, 3.0, 3.0])]
    >>> blocks = LocalBlocks([rows, rows], [{"scores": part} for part in scores])
    >>> [order_statistic(blocks, Entries("scores"), rank) for rank in range(1, 7)]
    [1.0, 3.0, 3.0, 3.0, 4.0, 5.0]
    """
    if blocks.in_one_place:
        return float(blocks.gather(_AtRank(entries, rank))[0])
    low = high = None  # the entry lies strictly between these
    n_below, share, seed = 0, _LEAST_SAMPLE, 0
    while True:
        samples = blocks.gather(_Sample(entries, low, high, share, seed))
        counts = np.array([count for count, _ in samples])
        if not 1 <= rank <= n_below + counts.sum():
            raise _no_such_rank(rank, int(counts.sum()))
        if all(len(values) == count for count, values in samples):
            return float(np.sort(np.concatenate([values for _, values in samples]))[rank - n_below - 1])
        candidates = _candidates(samples, counts, rank - n_below)
        below, up_to = blocks.reduce(_CandidateCounts(entries, candidates))
        place = int(np.searchsorted(up_to, rank))  # the first candidate with enough entries up to it
        if place < len(candidates) and below[place] < rank:
            return float(candidates[place])
        if place:
            low, n_below = float(candidates[place - 1]), int(up_to[place - 1])
        if place < len(candidates):
            high = float(candidates[place])
        share, seed = max(_LEAST_SAMPLE, _MOST_ENTRIES // len(samples)), seed + 1


def _no_such_rank(rank: int, count: int) -> ValueError:
    return ValueError(f"rank must lie between 1 and the number of entries, {count}, got {rank}.")


@dataclass(frozen=True)
class _AtRank:
    """The rank-th smallest entry, where all of them lie in one place."""

    entries: Callable[[Block, State], Any]
    rank: int

    def __call__(self, block: Block, state: State) -> float:
        values = self.entries(block, state)
        if not 1 <= self.rank <= values.shape[0]:
            raise _no_such_rank(self.rank, int(values.shape[0]))
        found = self._among_few(block, values)
        return block.to_host(block.xp.sort(values)[self.rank - 1])[0] if found is None else found

    def _among_few(self, block: Block, values: Any) -> float | None:
        """What a sample leaves to be sorted, unless entries are few or the sample misleads."""
        xp, stride = block.xp, values.shape[0] // _DEVICE_SAMPLE
        if stride < 4:
            return None
        sample = xp.sort(values[::stride])
        size = int(sample.shape[0])
        middle, apart = self.rank * size // int(values.shape[0]), int(4.0 * size**0.5)
        low, high = sample[max(0, middle - apart)], sample[min(size - 1, middle + apart)]
        inside = xp.sort(values[(values >= low) & (values <= high)])
        n_below = int(block.to_host(xp.count_nonzero(values < low))[0])
        place = self.rank - 1 - n_below
        return block.to_host(inside[place])[0] if 0 <= place < inside.shape[0] else None


def _candidates(samples: list[tuple[int, Vector]], counts: NDArray[np.int64], rank: int) -> Vector:
    """Sampled entries whose ranks are close to the wanted one, as far as the sample can tell."""
    values = np.concatenate([entries for _, entries in samples])
    # Every sampled entry stands for several of its block.
    weights = np.concatenate([np.full(len(entries), count / max(1, len(entries))) for count, entries in samples])
    order = np.argsort(values, kind="stable")
    ranks = np.cumsum(weights[order])
    share = rank / counts.sum()
    error = counts.sum() * np.sqrt(max(share * (1 - share), 1 / len(values)) / len(values))
    places = np.searchsorted(ranks, rank + _SPREAD * error)
    return np.unique(values[order[np.minimum(places, len(values) - 1)]])


@dataclass(frozen=True)
class _Sample:
    """How many entries lie between `low` and `high` (None: no bound), and `size` of them at random, or all of fewer."""

    entries: Callable[[Block, State], Any]
    low: float | None
    high: float | None
    size: int
    seed: int

    def __call__(self, block: Block, state: State) -> tuple[int, Vector]:
        values = self.entries(block, state)
        values = values if self.low is None else values[values > self.low]
        values = values if self.high is None else values[values < self.high]
        count = int(values.shape[0])
        if count > self.size:
            # What is drawn shows in the number of rounds alone. Seeded, so that a repeated task returns the same.
            rng = np.random.default_rng((self.seed, count))
            values = block.xp.take(values, block.asarray(rng.integers(0, count, self.size)), axis=0)
        return count, np.asarray(block.to_host(values)[0], dtype=np.float64)


@dataclass(frozen=True)
class _CandidateCounts:
    """How many entries lie below each candidate, and how many up to it."""

    entries: Callable[[Block, State], Any]
    candidates: Vector

    def __call__(self, block: Block, state: State) -> Sums:
        xp, values = block.xp, self.entries(block, state)
        below = [xp.count_nonzero(values < float(candidate)) for candidate in self.candidates]
        up_to = [xp.count_nonzero(values <= float(candidate)) for candidate in self.candidates]
        counts = np.asarray([int(count) for count in block.to_host(*below, *up_to)])
        return counts[: len(below)], counts[len(below) :]
