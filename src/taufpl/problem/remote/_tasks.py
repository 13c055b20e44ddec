"""The tasks that the problem over remote rows, and its oracle, give to blocks.

The state of a block:

============  ==========================================================================
positive      indices of its positives
is_negative   mask of its negatives; rows that are neither take no part
scores        x_i . w for every row, at some point w
moves         x_i . step for every row
own_scores    the same two for the positives alone, in the order of their indices
own_moves
centre        proximal centre of beta, for every row; without meaning where not negative
alpha, beta   the dual pair that a solve has ended with
============  ==========================================================================

A point w + t step has the scores scores + t moves: t stays with the caller, so that no vector changes while step
lengths are tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._types import Matrix, Vector
from taufpl.operators.remote import Block, Deferred, DeferredReduction, Reduction, State, Sums
from taufpl.projection.remote import LookAtTop, Projection, Source

# Changes of the state, most of them with a reduction in the same round.


@dataclass(frozen=True, slots=True)
class Begin:
    """Change and reduction: scores of a point, or 0 everywhere, and a constant centre; then the reduction."""

    centre: float
    then: Reduction
    coef: Vector | None = None

    def __call__(self, block: Block, state: State) -> tuple[State, Sums]:
        xp = block.xp
        zeros = xp.zeros_like(xp.astype(state["is_negative"], xp.float64))
        none = xp.take(zeros, state["positive"], axis=0)
        scores = zeros if self.coef is None else block.dot(self.coef)
        own = none if self.coef is None else xp.take(scores, state["positive"], axis=0)
        new = {**state, "scores": scores, "moves": zeros, "own_scores": own, "own_moves": none}
        new["centre"] = xp.full_like(zeros, self.centre)
        return new, self.then(block, new)


@dataclass(frozen=True, slots=True)
class Rescore:
    """Change: scores of a point, in double precision throughout, and no moves. One pass."""

    coef: Vector

    def __call__(self, block: Block, state: State) -> State:
        xp = block.xp
        scores = block.dot(self.coef, exact=True)
        own = xp.take(scores, state["positive"], axis=0)
        zeros = xp.zeros_like(scores)
        return {**state, "scores": scores, "own_scores": own, "moves": zeros, "own_moves": xp.zeros_like(own)}


@dataclass(frozen=True, slots=True)
class Step:
    """Change and reduction: go t along the last step and take the scores of a new one; then the reduction. One pass."""

    t: float
    step: Vector
    then: Reduction

    def __call__(self, block: Block, state: State) -> tuple[State, Sums]:
        new = dict(state)
        if self.t:
            for scores, moves in (("scores", "moves"), ("own_scores", "own_moves")):
                new[scores] = block.combined(0.0, ((1.0, state[scores]), (self.t, state[moves])))
        new["moves"] = block.dot(self.step)
        new["own_moves"] = block.xp.take(new["moves"], state["positive"], axis=0)
        return new, self.then(block, new)


@dataclass(frozen=True, slots=True)
class Pair:
    """The dual pair that a projection describes: alpha = scale [alpha0 - u]_+, beta = ratio min([beta0 - mu]_+, cap).

    The cap is that of the projection, or a little less where rounding asks for it; the ratio makes beta's sum alpha's.
    """

    projection: Projection
    cap: float
    scale: float
    ratio: float

    def alpha(self, block: Block, state: State) -> Any:
        """Alpha of every positive of the block."""
        over = _dense(self.projection.sources[0], block, state) - self.projection.local[0]
        return self.scale * block.xp.clip(over, 0.0, None)

    def beta(self, block: Block, state: State) -> Any:
        """Beta of every row of the block."""
        xp = block.xp
        over = _dense(self.projection.sources[1], block, state) - self.projection.local[1]
        beta = self.ratio * xp.clip(over, 0.0, self.cap)
        return xp.where(state["is_negative"], beta, xp.zeros_like(beta))


def _dense(source: Source, block: Block, state: State) -> Any:
    return block.combined(source.offset, tuple((factor, state[name]) for factor, name in source.terms))


@dataclass(frozen=True, slots=True)
class Recentre:
    """Change and reduction: beta, of a pair or as it was kept, becomes the centre; then the reduction."""

    pair: Pair | None
    then: Reduction

    def __call__(self, block: Block, state: State) -> tuple[State, Sums]:
        new = {**state, "centre": state["beta"] if self.pair is None else self.pair.beta(block, state)}
        return new, self.then(block, new)


@dataclass(frozen=True, slots=True)
class Keep:
    """Change: the pair stays as `alpha` and `beta`."""

    pair: Pair

    def __call__(self, block: Block, state: State) -> State:
        return {**state, "alpha": self.pair.alpha(block, state), "beta": self.pair.beta(block, state)}


# Reductions; those with `deferred` can share a round and a transfer with others.


class _Settled:
    """A reduction that is its deferred answer, settled."""

    __slots__ = ()

    def __call__(self, block: Block, state: State) -> Sums:
        told: Sums = block.settle(self.deferred(block, state))[0]
        return told

    def deferred(self, block: Block, state: State) -> Deferred:
        """The answer, still with the block."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Both(_Settled):
    """Reduction: the answers of two in one round, and in one transfer."""

    first: DeferredReduction
    second: DeferredReduction

    def deferred(self, block: Block, state: State) -> Deferred:
        """The answer of the first, then that of the second."""
        asked = (self.first.deferred(block, state), self.second.deferred(block, state))
        return Deferred.together(asked, lambda first, second: (*first, *second))


@dataclass(frozen=True, slots=True)
class ClassSums(_Settled):
    """Reduction: counts of positives, negatives and inexact blocks; sums of the rows of both classes."""

    def deferred(self, block: Block, state: State) -> Deferred:
        """Three vectors; a block is inexact where its products are not in double precision."""
        xp, positive = block.xp, state["positive"]
        weights = xp.astype(state["is_negative"], xp.float64)
        ones = xp.ones_like(xp.take(weights, positive, axis=0))
        known = (float(positive.shape[0]), 0.0 if block.exact else 1.0)
        asked = (Deferred.plain(xp.sum(weights)), block.add(ones, positive), block.add(weights, None))
        return Deferred.together(asked, lambda n, up, down: (np.array([known[0], float(n[0]), known[1]]), up, down))


@dataclass(frozen=True, slots=True)
class Squares(_Settled):
    """Reduction: sums of squares of every column over positives and over negatives."""

    def deferred(self, block: Block, state: State) -> Deferred:
        """Two vectors, which are on the host already."""
        negative = block.xp.nonzero(state["is_negative"])[0]
        return Deferred.known((block.squares(state["positive"]), block.squares(negative)))


@dataclass(frozen=True, slots=True)
class KeptPair(_Settled):
    """Reduction: X+' alpha and X-' beta of the pair that blocks keep, and the sums of alpha and of alpha^2."""

    def deferred(self, block: Block, state: State) -> Deferred:
        """Three vectors."""
        xp, alpha = block.xp, state["alpha"]
        sums = Deferred.stacked(xp.sum(alpha), xp.matmul(alpha, alpha))
        asked = (block.add(alpha, state["positive"]), block.add(state["beta"], None), sums)
        return Deferred.together(asked, lambda *told: told)


@dataclass(frozen=True, slots=True)
class Classes:
    """Rows of one block with alpha > 0, with 0 < beta < cap and with beta = cap; alpha and beta of the first two."""

    active: Any
    alpha: Any
    free: Any
    beta: Any
    capped: Any

    @classmethod
    def of(cls, projection: Projection, block: Block, state: State) -> Classes:
        """Found among the largest entries that the block still holds; kept there in their turn."""
        kept = block.scratch.get("classes")
        (u, mu), cap = projection.local, projection.thresholds.cap
        key = (u, mu, cap)
        alpha = projection.sources[0].above(block, state, u, "alpha")
        beta = projection.sources[1].above(block, state, mu, "beta")
        if kept is not None and kept[0] is alpha and kept[1] is beta and kept[2] == key:
            found: Classes = kept[3]
            return found
        if not projection.thresholds.total > 0:
            u = mu = math.inf  # the pair is zero
        ours, theirs = block.settle(alpha.split(u, math.inf), beta.split(mu, cap))
        new = cls(block.xp.take(state["positive"], ours[0], axis=0), ours[1], *theirs)
        block.scratch["classes"] = (alpha, beta, key, new)
        return new


@dataclass(frozen=True, slots=True)
class EvaluatePair(_Settled):
    """Reduction: the dual direction of a pair, and the sums of a certificate.

    Positives that score less than slope + T_k have a loss: T_k is that of the scores of all negatives where it can be
    had at once, and else the mean that is given.
    """

    projection: Projection
    top: LookAtTop
    own_scores: Source
    slope: float
    mean: float

    def deferred(self, block: Block, state: State) -> Deferred:
        """Sums of alpha, alpha^2, beta, losses; counts; sums of alpha x, beta x, x at the cap; tally of candidates."""
        xp, cap = block.xp, self.projection.thresholds.cap
        classes = Classes.of(self.projection, block, state)
        sums = (xp.sum(classes.alpha), xp.matmul(classes.alpha, classes.alpha), xp.sum(classes.beta))
        counts = np.array([x.shape[0] for x in (classes.active, classes.free, classes.capped)], dtype=np.float64)
        mean = self.top.mean(block, state)
        bend = self.slope + (self.mean if mean is None else mean)
        asked = (
            Deferred.stacked(*sums, *_losses(self.own_scores, bend, block, state)),
            block.add(classes.alpha, classes.active),
            block.add(classes.beta, classes.free),
            block.add(xp.ones_like(classes.capped, dtype=xp.float64), classes.capped),
            self.top.deferred(block, state),
        )

        def finish(told: Vector, up: Vector, down: Vector, at_cap: Vector, top: Matrix) -> Sums:
            return told, counts, up, down + cap * at_cap, at_cap, top

        return Deferred.together(asked, finish)


def _losses(own_scores: Source, bend: Any, block: Block, state: State) -> tuple[Any, Any, Any]:
    """How many positives lie below a score, by how much in all, and the sum of squares of that."""
    xp = block.xp
    below = xp.clip(bend - _dense(own_scores, block, state), 0.0, None)
    return xp.count_nonzero(below), xp.sum(below), xp.matmul(below, below)


@dataclass(frozen=True, slots=True)
class Losses(_Settled):
    """Reduction: how many positives lie below a score, by how much in all, and the sum of squares of that."""

    own_scores: Source
    bend: float

    def deferred(self, block: Block, state: State) -> Deferred:
        """A vector of three numbers."""
        asked = Deferred.stacked(*_losses(self.own_scores, self.bend, block, state))
        return Deferred.together((asked,), lambda told: (told,))


@dataclass(frozen=True, slots=True)
class Curvature(_Settled):
    """Reduction: Gram matrices of active and of free rows around a shift each, and the sums of these rows.

    The shifts are about their mean rows; one row of `strides` stands for the others where there are very many.
    """

    projection: Projection
    shifts: tuple[Vector, Vector]
    strides: tuple[int, int]

    def deferred(self, block: Block, state: State) -> Deferred:
        """Counts of the rows taken, then Gram and sum of both kinds."""
        classes = Classes.of(self.projection, block, state)
        pairs = zip((classes.active, classes.free), self.strides, strict=True)
        taken = [rows if stride == 1 else rows[::stride] for rows, stride in pairs]
        counts = np.array([float(rows.shape[0]) for rows in taken])
        asked = tuple(map(block.moments, taken, self.shifts))
        return Deferred.together(asked, lambda active, free: (counts, *active, *free))


@dataclass(frozen=True, slots=True)
class RowSums(_Settled):
    """Reduction: sums of active and of free rows."""

    projection: Projection

    def deferred(self, block: Block, state: State) -> Deferred:
        """Two vectors."""
        xp, classes = block.xp, Classes.of(self.projection, block, state)
        pairs = ((classes.alpha, classes.active), (classes.beta, classes.free))
        return Deferred.together([block.add(xp.ones_like(x), rows) for x, rows in pairs], lambda *sums: sums)


@dataclass(frozen=True, slots=True)
class HessianProduct:
    """Reduction: X'X p over active and over free rows, and the sums of X p over them."""

    projection: Projection
    vector: Vector

    def __call__(self, block: Block, state: State) -> Sums:
        classes = Classes.of(self.projection, block, state)
        images = [block.dot(self.vector, rows) for rows in (classes.active, classes.free)]
        products = map(block.add, images, (classes.active, classes.free))
        up, down, sums = block.settle(*products, Deferred.plain(*map(block.xp.sum, images)))
        return up, down, float(sums[0]), float(sums[1])


# The tasks behind a working set: rows near a change of class come to the caller, moments stand for all others. Every
# block sends its share of near rows, the nearest that it has: the rule is the same in both tasks, so that every row
# counts once.


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
