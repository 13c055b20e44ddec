"""The tasks behind a working set: rows near a change of class come to the caller, moments stand for all others.

Every block sends its share of near rows, the nearest that it has: the rule is the same in both tasks, so that every
row counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._types import Vector
from taufpl.operators.remote import Block, Deferred, State, Sums
from taufpl.projection.remote import Projection


@dataclass(frozen=True, slots=True)
class Near:
    """The rule: the negatives nearest to a threshold, and the positives that are as near.

    A row's distance is the change of its score that it takes, divided by how far the last step has moved that score:
    features of very different scales make all scores alike a bad judge. Free rows are all near, where they are few.
    """

    projection: Projection
    sigma: float  # beta0 follows the scores by this factor
    curvature: float  # and alpha0 by one over this
    t: float  # length of the last step, whose moves the blocks still have
    share: float  # near negatives among the rows of a block
    floor: float  # only negatives above it are looked at

    def split(self, block: Block, state: State) -> Split:
        """Sort rows of a block into near and held ones; kept by the block."""
        (u, mu), cap = self.projection.local, self.projection.thresholds.cap
        alpha = self.projection.sources[0].above(block, state, -np.inf, "alpha")
        beta = self.projection.sources[1].above(block, state, self.floor, "beta")
        kept = block.scratch.get("near")
        if kept is not None and kept[0] is alpha and kept[1] is beta and kept[2] == self:
            found: Split = kept[3]
            return found
        xp = block.xp
        over = beta.values - mu
        is_free, is_capped = (over > 0) & (over < cap), over >= cap
        away = xp.where(xp.abs(over) < xp.abs(over - cap), xp.abs(over), xp.abs(over - cap)) / self.sigma
        away = away / self._mobility(block, xp.take(state["moves"], beta.rows, axis=0))
        count = min(int(np.ceil(self.share * block.shape[0])), beta.rows.shape[0])
        n_free = int(block.to_host(xp.sum(xp.astype(is_free, xp.int64)))[0])
        if 2 * n_free <= count:
            away = xp.where(is_free, xp.zeros_like(away), away)
        is_near = _nearest(xp, away, count)
        reach = xp.max(xp.where(is_near, away, xp.zeros_like(away))) if count else 0.0
        rise = alpha.values - u
        near = xp.abs(rise) * self.curvature / self._mobility(block, xp.take(state["own_moves"], alpha.rows, axis=0))
        chosen = _nearest(xp, near, min(count, near.shape[0])) & (near <= reach)
        new = Split(
            positive=xp.nonzero(chosen)[0],
            negative=xp.take(beta.rows, xp.nonzero(is_near)[0], axis=0),
            active=xp.nonzero((rise > 0) & ~chosen)[0],
            alpha=rise,
            free=xp.nonzero(is_free & ~is_near)[0],
            beta=over,
            rows=beta.rows,
            capped=xp.nonzero(is_capped & ~is_near)[0],
        )
        block.scratch["near"] = (alpha, beta, self, new)
        return new

    def _mobility(self, block: Block, moves: Any) -> Any:
        xp = block.xp
        moved = xp.abs(moves) * abs(self.t)
        if not moved.shape[0]:
            return moved
        return moved + 0.3 * xp.sum(moved) / moved.shape[0] + 1e-300


def _nearest(xp: Any, distance: Any, count: int) -> Any:
    """Mask of about `count` smallest entries."""
    if count >= distance.shape[0]:
        return xp.ones_like(distance, dtype=xp.bool)
    if count == 0:
        return xp.zeros_like(distance, dtype=xp.bool)
    return distance <= xp.sort(distance)[count - 1]


@dataclass(frozen=True, slots=True)
class Split:
    """Near and held rows of one block."""

    positive: Any  # near: places among the positives
    negative: Any  # near: rows
    active: Any  # held: places among the positives with alpha > 0
    alpha: Any  # of all positives, how far above their threshold
    free: Any  # held: places among the largest negatives
    beta: Any  # of the largest negatives, how far above their threshold
    rows: Any  # of the largest negatives
    capped: Any  # held: places among the largest negatives


@dataclass(frozen=True, slots=True)
class HeldMoments:
    """Reduction: counts, sums of distances, Gram matrices, sums and weighted sums of the rows that are held.

    Shifts and strides are those of `Curvature`.
    """

    near: Near
    shifts: tuple[Vector, Vector]
    strides: tuple[int, int]

    def __call__(self, block: Block, state: State) -> Sums:
        """Counts (active, free, capped, taken, taken), distances, Gram and sum twice, three sums of rows."""
        xp, split = block.xp, self.near.split(block, state)
        active = xp.take(state["positive"], split.active, axis=0)
        free, capped = (xp.take(split.rows, places, axis=0) for places in (split.free, split.capped))
        alpha, beta = xp.take(split.alpha, split.active, axis=0), xp.take(split.beta, split.free, axis=0)
        taken = [rows[::stride] for rows, stride in zip((active, free), self.strides, strict=True)]
        counts = np.array([x.shape[0] for x in (active, free, capped, *taken)], dtype=np.float64)
        above = xp.take(split.beta, split.capped, axis=0)
        distances, own, other, *directions = block.settle(
            Deferred.stacked(*map(xp.sum, (alpha, beta, above))),
            *map(block.moments, taken, self.shifts),
            block.add(alpha, active),
            block.add(beta, free),
            block.add(xp.ones_like(above), capped),
        )
        return (counts, distances, *own, *other, *directions)


@dataclass(frozen=True, slots=True)
class NearRows:
    """Task, to be gathered: the near rows with scores and, for negatives, centres."""

    near: Near

    def __call__(self, block: Block, state: State) -> tuple[Any, Any, Vector, Vector, Vector]:
        """Rows of positives and of negatives, scores of both, centres."""
        xp, split, t = block.xp, self.near.split(block, state), self.near.t
        own = xp.take(state["positive"], split.positive, axis=0)
        scores = []
        for rows in (own, split.negative):
            start, moved = (xp.take(state[name], rows, axis=0) for name in ("scores", "moves"))
            scores.append(start + t * moved)
        host = block.to_host(*scores, xp.take(state["centre"], split.negative, axis=0))
        return block.take(own), block.take(split.negative), host[0], host[1], host[2]
