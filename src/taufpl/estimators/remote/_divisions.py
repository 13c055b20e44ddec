"""Which rows train and which are held out, where rows live in blocks: a code that stays with every row.

A row is known by its place among the rows of its class, counted over all blocks in order, or, in a random division, by
such a place after the rows of its class were shuffled within their block. A division is a rule from places to codes. So
the parts have the sizes that they should have to the row, every block gives its share, and nothing depends on when or
where a block is worked on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from taufpl.operators import device_of, namespace
from taufpl.operators.remote import Block, State

# Of negatives, then of positives.
Pair = tuple[int, int]
# Where the code of every row in a division is kept.
CODES = "part"


class Division(ABC):
    """A rule from the places of rows to the codes of parts."""

    seed: int | None

    @abstractmethod
    def codes(self, kind: int, first: int, steps: Any) -> Any:
        """Codes of the places `first` + steps, integers of any library, of negatives (kind 0) or positives (kind 1)."""


@dataclass(frozen=True)
class Consecutive(Division):
    """Folds of rows that follow each other, as scikit-learn's StratifiedKFold makes them without shuffling."""

    # For negatives and for positives, the place after the last one of each fold.
    ends: tuple[tuple[int, ...], tuple[int, ...]]
    seed: None = None

    @classmethod
    def folds(cls, n_folds: int, counts: Pair, first_kind: int) -> Consecutive:
        """Folds of rows that are counted by class, where the first row of all is of the given kind."""
        # As if all rows of the kind that comes first were dealt to the folds in turn, and then the others.
        before = (0, counts[0]) if first_kind == 0 else (counts[1], 0)
        sizes = [
            [len(range((fold - before[kind]) % n_folds, counts[kind], n_folds)) for fold in range(n_folds)]
            for kind in (0, 1)
        ]
        ends = [tuple(np.cumsum(each).tolist()) for each in sizes]
        return cls((ends[0], ends[1]))

    def codes(self, kind: int, first: int, steps: Any) -> Any:
        xp = namespace(steps)
        ends = xp.asarray([end - first for end in self.ends[kind]], dtype=xp.int64, device=device_of(steps))
        return xp.searchsorted(ends, steps, side="right")


@dataclass(frozen=True)
class Dealt(Division):
    """Random folds: shuffled rows are dealt out in turn, from a random fold on."""

    n_folds: int
    shifts: Pair
    seed: int

    @classmethod
    def folds(cls, n_folds: int, seed: int) -> Self:
        """A random division into this many folds."""
        shifts = np.random.default_rng(seed).integers(n_folds, size=2).tolist()
        return cls(n_folds, (shifts[0], shifts[1]), seed)

    def codes(self, kind: int, first: int, steps: Any) -> Any:
        return (steps + (first + self.shifts[kind]) % self.n_folds) % self.n_folds


@dataclass(frozen=True)
class DealtPositives(Dealt):
    """Random folds of the positives; negatives are in none of them, and have code -1."""

    def codes(self, kind: int, first: int, steps: Any) -> Any:
        return super().codes(kind, first, steps) if kind else 0 * steps - 1


@dataclass(frozen=True)
class HeldOut(Division):
    """A random part of each class, code 1; the rest has code 0. Held-out places are spread evenly from a random one."""

    held: Pair
    counts: Pair
    starts: Pair
    seed: int

    @classmethod
    def draw(cls, held: Pair, counts: Pair, seed: int) -> HeldOut:
        """A random division that holds out this many rows of each class."""
        starts = np.random.default_rng(seed).integers(np.maximum(counts, 1)).tolist()
        return cls(held, counts, (starts[0], starts[1]), seed)

    def codes(self, kind: int, first: int, steps: Any) -> Any:
        """1 where floor((held place + start) / count) steps up, which over all places it does `held` times."""
        held, total = self.held[kind], self.counts[kind]
        reached = held * steps + (held * first + self.starts[kind]) % total  # the latter in whole numbers of any size
        return (reached + held) // total - reached // total


@dataclass(frozen=True)
class AssignParts:
    """A task: write the code of every row into the state."""

    division: Division
    # For each block, how many negatives and positives there are in the blocks before it.
    first: tuple[Pair, ...]

    @classmethod
    def of(cls, division: Division, counts: Sequence[Pair]) -> AssignParts:
        """The task for blocks with these counts of negatives and positives."""
        before = np.cumsum([(0, 0), *counts], axis=0)[:-1].tolist()
        return cls(division, tuple((each[0], each[1]) for each in before))

    def __call__(self, block: Block, state: State) -> State:
        """Codes in the place of earlier ones; rows of neither class have code -1."""
        xp = block.xp
        masks = [state[name] for name in ("is_negative", "is_positive")]
        codes = xp.astype(masks[0], xp.int32) * 0 - 1
        for kind, count in enumerate(block.to_host(*map(xp.count_nonzero, masks))):
            if count:
                places = xp.cumulative_sum(xp.astype(masks[kind], xp.int64)) - 1
                own = self._codes(block, state["number"], kind, int(count))
                codes = xp.where(masks[kind], xp.take(own, xp.clip(places, 0, None), axis=0), codes)
        return {**state, CODES: codes}

    def _codes(self, block: Block, number: int, kind: int, count: int) -> Any:
        codes = self.division.codes(kind, self.first[number][kind], block.counting(count))
        codes = block.xp.astype(codes, block.xp.int32)
        return codes if self.division.seed is None else block.shuffled(codes, (self.division.seed, number, kind))
