"""The mean of the k largest entries of a vector that lies in blocks, from above and from below.

T_k(s) is the least value of t + (1/k) sum [s - t]_+ over t. So every candidate t gives an upper bound, and the tangents
of that convex function a lower one. Both meet after few rounds: an entry that occurs often is where two tangents meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._types import Matrix, Vector
from taufpl.operators.remote import ArraySelected, Block, Blocks, Deferred, Selected, State, Sums
from taufpl.projection.remote._distributed import Source
from taufpl.projection.remote._piecewise_linear import AROUND, INSIDE, Samples

_MOST_ROUNDS = 30
_OUTSIDE = 4.0 ** np.arange(8)
_ROUNDING = 1e-15


@dataclass(frozen=True, slots=True)
class TopMean:
    """Bounds on T_k, and the threshold of the upper one: about the k-th largest entry."""

    lower: float
    upper: float
    at: float

    @classmethod
    def of(cls, samples: Samples, k: int) -> TopMean:
        """What the excess over some thresholds tells."""
        heights = samples.at + samples.excess / k
        # Rounding counts against a candidate: below all entries, those far away are worse than those near.
        heights += _ROUNDING * (np.abs(samples.at) + samples.excess / k)
        best = int(np.argmin(heights))
        below = samples.tangents()
        lowest = float(np.min(below.at + below.value / k))
        if samples.n_from[0] <= k:  # entries further down may count
            lowest = -np.inf if samples.n_from[0] < k else lowest
        return cls(min(lowest, float(heights[best])), float(heights[best]), float(samples.at[best]))


@dataclass(frozen=True, slots=True)
class LookAtTop:
    """Task: counts and excesses over candidates for the k-th largest entry.

    Given k, where all entries lie in one place and enough of them above the lowest candidate, over that entry itself.
    """

    source: Source
    edges: Vector
    k: int | None = None

    def __call__(self, block: Block, state: State) -> Sums:
        """An array, to be added up over blocks."""
        return block.settle(self.deferred(block, state))

    def deferred(self, block: Block, state: State) -> Deferred:
        """The array, still with the block: a row more where the k-th largest entry was found."""
        above = self._above(block, state)
        found = self._with_kth(above)
        return above.tally(self.edges) if found is None else found[0].at_rank(found[1])

    def mean(self, block: Block, state: State) -> Any | None:
        """T_k, a number of the block's library, where the k-th largest entry can be found."""
        found = self._with_kth(self._above(block, state))
        return None if found is None else found[0].top_mean(found[1])

    def _above(self, block: Block, state: State) -> Selected:
        return self.source.above(block, state, float(self.edges[0]), "top")

    def _with_kth(self, above: Selected) -> tuple[ArraySelected, int] | None:
        enough = self.k is not None and isinstance(above, ArraySelected) and above.size >= self.k
        return (above, self.k) if enough else None  # type: ignore[return-value]

    def samples(self, told: Matrix) -> Samples:
        """The answer of all blocks."""
        return Samples(*told) if len(told) == 4 else Samples(self.edges, *told)


@dataclass(frozen=True, slots=True)
class SumOfAll:
    """Task: the sum of all entries."""

    source: Source

    def __call__(self, block: Block, state: State) -> Sums:
        """A number."""
        values = self.source.above(block, state, -np.inf, "top").values
        return (float(block.to_host(block.xp.sum(values))[0]),)


def top_mean_by_rounds(
    blocks: Blocks,
    source: Source,
    k: int,
    size: int,
    guess: float,
    width: float,
    accuracy: float,
    known: Samples | None = None,
) -> TopMean:
    """Bound T_k of a vector of `size` entries from both sides, until the bounds are no farther apart than `accuracy`.

    The k-th largest entry is expected at `guess`, up to about `width`; `known` are samples around it, where there are.
    """
    if k == size:
        mean = blocks.reduce(SumOfAll(source))[0] / size
        return TopMean(mean, mean, guess)
    samples = known
    edges = guess + AROUND * max(width, 1e-12 * abs(guess), 1e-300)
    for _ in range(_MOST_ROUNDS):
        if samples is not None:
            found = TopMean.of(samples, k)
            if found.upper - found.lower <= accuracy:
                return found
            edges = np.setdiff1d(_next_edges(samples, k), samples.at)
            if not len(edges):
                return found
        edges = np.unique(edges)
        task = LookAtTop(source, edges, k if blocks.in_one_place else None)
        new = task.samples(blocks.reduce(task)[0])
        samples = new if samples is None else samples.joined(new)
    assert samples is not None
    return TopMean.of(samples, k)


def _next_edges(samples: Samples, k: int) -> Vector:
    """Candidates where the bounds are apart: around the k-th largest entry, or beyond all candidates so far."""
    at = samples.at
    span = max(float(np.ptp(at)), 1e-12 * float(np.max(np.abs(at))), 1e-300)
    if samples.n_from[0] < k:
        return np.asarray(at[0] - span * _OUTSIDE)
    if samples.n_above[-1] >= k:
        return np.asarray(at[-1] + span * _OUTSIDE)
    i = int(np.count_nonzero(samples.n_above >= k)) - 1
    low, high = float(at[max(i, 0)]), float(at[i + 1])
    below = samples.tangents()
    corner = float(below.at[np.argmin(below.at + below.value / k)])
    return np.append(low + (high - low) * INSIDE, corner)
