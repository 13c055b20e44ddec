"""Remote scores, in the blocks of their rows: exact order statistics and counts, by few small messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._checks import Scores
from taufpl.operators.remote import Block, Blocks, State, Sums, order_statistic
from taufpl.thresholding._sample import Sample

# Scores that `above` may bring into memory: 80 MB.
_MOST_ABOVE = 10_000_000

# The scores that count, of one block: a one-dimensional array of its library.
Pick = Callable[[Block, State], Any]


class BlockSample(Sample):
    """Scores in the states of blocks.

    Parameters
    ----------
    blocks : Blocks
    pick : callable
        A task, which can be pickled, that gives the scores of one block.
    name : str, default="negative_scores"
        What the scores are called in errors.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.operators import LocalBlocks
    >>> from taufpl.thresholding import TrainQuantile
    >>> from taufpl.thresholding.remote import BlockSample
    >>> rows = np.zeros((2, 1))
    >>> blocks = LocalBlocks([rows, rows], [{"scores": np.array([0.1, 0.9])}, {"scores": np.array([0.3, 0.5])}])
    >>> TrainQuantile(tau=0.25).choose(BlockSample(blocks, lambda block, state: state["scores"])).threshold
    0.5
    """

    def __init__(self, blocks: Blocks, pick: Pick, name: str = "negative_scores") -> None:
        self.blocks = blocks
        self.pick = pick
        sizes, n_missing, lows, highs = zip(*blocks.gather(_Summarise(pick)), strict=True)
        self.size, n_nan = sum(sizes), sum(n_missing)
        low, high = min(lows), max(highs)
        self._ends = (low, high) if low <= high else (0.0, 0.0)
        if n_nan:
            raise ValueError(
                f"{name} must not hold NaN, got {n_nan} of them. "
                "A NaN has no rank: repair the scorer or leave those rows out."
            )

    def at_rank(self, rank: int) -> float:
        """The rank-th smallest score."""
        return order_statistic(self.blocks, self.pick, rank)

    def n_above(self, threshold: float) -> int:
        """How many scores are strictly greater."""
        return int(self.blocks.reduce(_CountAbove(self.pick, float(threshold)))[0])

    def above(self, threshold: float) -> Scores:
        """The scores that are strictly greater, if they are not too many to travel."""
        count = self.n_above(threshold)
        if count > _MOST_ABOVE:
            raise ValueError(
                f"{count} scores lie above {threshold:g}, more than the {_MOST_ABOVE} that may be collected in one "
                "place. Choose the threshold by 'np', or by 'oob' with a delta or rule='quantile': ranks will do there."
            )
        return np.concatenate(self.blocks.gather(_Above(self.pick, float(threshold))))

    def ends(self) -> tuple[float, float]:
        """The smallest and the largest finite score."""
        return self._ends

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation. Two rounds."""
        mean = float(self.blocks.reduce(_SumOfPowers(self.pick, 0.0, 1))[0]) / self.size
        return mean, math.sqrt(float(self.blocks.reduce(_SumOfPowers(self.pick, mean, 2))[0]) / self.size)


@dataclass(frozen=True)
class _Summarise:
    """How many scores there are, how many of them are NaN, and the smallest and the largest finite one."""

    pick: Pick

    def __call__(self, block: Block, state: State) -> tuple[int, int, float, float]:
        xp, scores = block.xp, self.pick(block, state)
        if not scores.shape[0]:
            return 0, 0, math.inf, -math.inf
        first, last = map(float, block.to_host(xp.min(scores), xp.max(scores)))
        if math.isfinite(first) and math.isfinite(last):  # NaN would be both
            return int(scores.shape[0]), 0, first, last
        finite = xp.isfinite(scores)
        low = xp.min(xp.where(finite, scores, xp.full_like(scores, math.inf)))
        high = xp.max(xp.where(finite, scores, xp.full_like(scores, -math.inf)))
        n_nan, *ends = block.to_host(xp.count_nonzero(xp.isnan(scores)), low, high)
        return int(scores.shape[0]), int(n_nan), float(ends[0]), float(ends[1])


@dataclass(frozen=True)
class _SumOfPowers:
    """Sum of (score - shift)^power."""

    pick: Pick
    shift: float
    power: int

    def __call__(self, block: Block, state: State) -> Sums:
        apart = self.pick(block, state) - self.shift
        return (float(block.to_host(block.xp.sum(apart**self.power))[0]),)


@dataclass(frozen=True)
class _CountAbove:
    pick: Pick
    threshold: float

    def __call__(self, block: Block, state: State) -> Sums:
        (count,) = block.to_host(block.xp.count_nonzero(self.pick(block, state) > self.threshold))
        return (int(count),)


@dataclass(frozen=True)
class _Above:
    pick: Pick
    threshold: float

    def __call__(self, block: Block, state: State) -> Scores:
        scores = self.pick(block, state)
        return np.asarray(block.to_host(scores[scores > self.threshold])[0], dtype=np.float64)
