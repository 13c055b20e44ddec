"""What a solver asks blocks of rows to do.

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

from taufpl.operators.remote import Block, Deferred, DeferredReduction, Matrix, Reduction, State, Sums, Vector
from taufpl.projection.remote import Projection, Source


def labelled(block: Block, is_positive: Any, is_used: Any | None = None) -> dict[str, Any]:
    """State of a block from a mask of its positives, among the rows that take part (None: all)."""
    xp = block.xp
    positive, used = block.asarray(is_positive), None if is_used is None else block.asarray(is_used)
    chosen = positive if used is None else positive & used
    others = ~positive if used is None else ~positive & used
    return {"positive": xp.nonzero(chosen)[0], "is_negative": others}


@dataclass(frozen=True, slots=True)
class Begin:
    """Change and reduction: all scores 0, a constant centre; sums of the rows of both classes, and inexact blocks."""

    centre: float

    def __call__(self, block: Block, state: State) -> tuple[State, Sums]:
        """Counts, sums of rows, and 1 where products are not in double precision."""
        xp, positive, mask = block.xp, state["positive"], state["is_negative"]
        weights = xp.astype(mask, xp.float64)
        zeros = xp.zeros_like(weights)
        own = xp.take(zeros, positive, axis=0)
        new = {**state, "scores": zeros, "moves": zeros, "own_scores": own, "own_moves": own}
        new["centre"] = xp.full_like(zeros, self.centre)
        asked = (
            block.add(own + 1.0, positive),
            block.add(weights, None),
            Deferred.plain(xp.sum(weights)),
        )
        *sums, (n_negative,) = block.settle(*asked)
        counts = np.array([positive.shape[0], float(n_negative), 0.0 if block.exact else 1.0])
        return new, (counts, *sums)


@dataclass(frozen=True, slots=True)
class Rescore:
    """Change: scores of a point, in double precision throughout."""

    coef: Vector

    def __call__(self, block: Block, state: State) -> State:
        """New scores, no moves."""
        xp = block.xp
        scores = block.dot(self.coef, exact=True)
        own = xp.take(scores, state["positive"], axis=0)
        zeros = xp.zeros_like(scores)
        return {**state, "scores": scores, "own_scores": own, "moves": zeros, "own_moves": xp.zeros_like(own)}


@dataclass(frozen=True, slots=True)
class Step:
    """Change and reduction: go t along the last step, then take the scores of a new one and do what follows."""

    t: float
    step: Vector
    then: Reduction

    def __call__(self, block: Block, state: State) -> tuple[State, Sums]:
        """One pass."""
        xp = block.xp
        new = dict(state)
        if self.t:
            for scores, moves in (("scores", "moves"), ("own_scores", "own_moves")):
                new[scores] = block.combined(0.0, ((1.0, state[scores]), (self.t, state[moves])))
        new["moves"] = block.dot(self.step)
        new["own_moves"] = xp.take(new["moves"], state["positive"], axis=0)
        return new, self.then(block, new)


@dataclass(frozen=True, slots=True)
class Pair:
    """The dual pair that a projection describes: alpha = scale [alpha0 - u]_+, beta = ratio min([beta0 - mu]_+, cap).

    Attributes
    ----------
    projection : Projection
    cap : float
        That of the projection, or a little less where rounding asks for it.
    scale, ratio : float
        That of beta makes its sum that of alpha.
    """

    projection: Projection
    cap: float
    scale: float = 1.0
    ratio: float = 1.0

    def alpha(self, block: Block, state: State) -> Any:
        """All of alpha."""
        over = _dense(self.projection.sources[0], block, state) - self.projection.local[0]
        return self.scale * block.xp.clip(over, 0.0, None)

    def beta(self, block: Block, state: State) -> Any:
        """Beta for every row of the block."""
        xp = block.xp
        over = _dense(self.projection.sources[1], block, state) - self.projection.local[1]
        beta = self.ratio * xp.clip(over, 0.0, self.cap)
        return xp.where(state["is_negative"], beta, xp.zeros_like(beta))


def _dense(source: Source, block: Block, state: State) -> Any:
    return block.combined(source.offset, tuple((factor, state[name]) for factor, name in source.terms))


@dataclass(frozen=True, slots=True)
class Recentre:
    """Change and reduction: beta, of a pair or as it was kept, becomes the centre; then what follows."""

    pair: Pair | None
    then: Reduction

    def __call__(self, block: Block, state: State) -> tuple[State, Sums]:
        """No pass."""
        centre = state["beta"] if self.pair is None else self.pair.beta(block, state)
        new = {**state, "centre": centre}
        return new, self.then(block, new)


@dataclass(frozen=True, slots=True)
class Keep:
    """Change: the pair stays as `alpha` and `beta`."""

    pair: Pair

    def __call__(self, block: Block, state: State) -> State:
        """No pass."""
        return {**state, "alpha": self.pair.alpha(block, state), "beta": self.pair.beta(block, state)}


@dataclass(frozen=True, slots=True)
class Classes:
    """Rows of one block by what the pair does with them.

    Attributes
    ----------
    active, alpha : arrays
        Rows with alpha > 0, and alpha.
    free, beta : arrays
        Rows with 0 < beta < cap, and beta.
    capped : array
        Rows with beta = cap.
    """

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
class EvaluatePair:
    """Reduction: what the pair pulls, and what a certificate takes.

    Attributes
    ----------
    projection : Projection
    scores, own_scores : Source
        Scores of all negatives and of the positives, as they are.
    edges : ndarray
        Candidates for the k-th largest score.
    bend : float
        Scores of positives below this number make a loss.
    """

    projection: Projection
    scores: Source
    own_scores: Source
    edges: Vector
    bend: float

    def __call__(self, block: Block, state: State) -> Sums:
        """Sums of alpha, alpha^2, beta, losses; counts; sums of alpha x, beta x, x at the cap; tally of candidates."""
        told: Sums = block.settle(self.deferred(block, state))[0]
        return told

    def deferred(self, block: Block, state: State) -> Deferred:
        """The same, together with other things."""
        xp, cap = block.xp, self.projection.thresholds.cap
        classes = Classes.of(self.projection, block, state)
        sums = (xp.sum(classes.alpha), xp.matmul(classes.alpha, classes.alpha), xp.sum(classes.beta))
        counts = np.array([x.shape[0] for x in (classes.active, classes.free, classes.capped)], dtype=np.float64)
        asked = (
            Deferred.stacked(*sums, *_losses(self.own_scores, self.bend, block, state)),
            block.add(classes.alpha, classes.active),
            block.add(classes.beta, classes.free),
            block.add(xp.ones_like(classes.capped, dtype=xp.float64), classes.capped),
            self.scores.above(block, state, float(self.edges[0]), "top").tally(self.edges),
        )

        def finish(told: Vector, up: Vector, down: Vector, at_cap: Vector, top: Matrix) -> Sums:
            return told, counts, up, down + cap * at_cap, at_cap, top

        return Deferred.together(asked, finish)


def _losses(own_scores: Source, bend: float, block: Block, state: State) -> tuple[Any, Any, Any]:
    """How many positives lie below a score, by how much in all, and the sum of squares of that."""
    xp = block.xp
    below = xp.clip(bend - _dense(own_scores, block, state), 0.0, None)
    return xp.count_nonzero(below), xp.sum(below), xp.matmul(below, below)


@dataclass(frozen=True, slots=True)
class Losses:
    """Reduction: how many positives lie below a score, by how much in all, and the sum of squares of that."""

    own_scores: Source
    bend: float

    def __call__(self, block: Block, state: State) -> Sums:
        """An array of three numbers."""
        return (np.stack(block.to_host(*_losses(self.own_scores, self.bend, block, state))),)


@dataclass(frozen=True, slots=True)
class Curvature:
    """Reduction: Gram matrices of active and of free rows around a shift each, and the sums of these rows.

    Attributes
    ----------
    projection : Projection
    shifts : pair of ndarray
        About their mean rows.
    strides : pair of int
        Every so many-th row of each block stands for the others where there are very many.
    """

    projection: Projection
    shifts: tuple[Vector, Vector]
    strides: tuple[int, int]

    def __call__(self, block: Block, state: State) -> Sums:
        """Counts of the rows taken, then Gram and sum of both kinds."""
        told: Sums = block.settle(self.deferred(block, state))[0]
        return told

    def deferred(self, block: Block, state: State) -> Deferred:
        """The same, together with other things."""
        classes = Classes.of(self.projection, block, state)
        pairs = zip((classes.active, classes.free), self.strides, strict=True)
        taken = [rows if stride == 1 else rows[::stride] for rows, stride in pairs]
        counts = np.array([float(rows.shape[0]) for rows in taken])
        asked = tuple(map(block.moments, taken, self.shifts))
        return Deferred.together(asked, lambda active, free: (counts, *active, *free))


@dataclass(frozen=True, slots=True)
class HessianProduct:
    """Reduction: X'X p and the sum of X p over active and over free rows."""

    projection: Projection
    vector: Vector

    def __call__(self, block: Block, state: State) -> Sums:
        """Two vectors and two numbers."""
        classes = Classes.of(self.projection, block, state)
        images = [block.dot(self.vector, rows) for rows in (classes.active, classes.free)]
        pulls = map(block.add, images, (classes.active, classes.free))
        up, down, sums = block.settle(*pulls, Deferred.plain(*map(block.xp.sum, images)))
        return up, down, float(sums[0]), float(sums[1])


@dataclass(frozen=True, slots=True)
class RowSums:
    """Reduction: sums of active and of free rows."""

    projection: Projection

    def __call__(self, block: Block, state: State) -> Sums:
        """Two vectors."""
        told: Sums = block.settle(self.deferred(block, state))[0]
        return told

    def deferred(self, block: Block, state: State) -> Deferred:
        """The same, together with other things."""
        xp, classes = block.xp, Classes.of(self.projection, block, state)
        pairs = ((classes.alpha, classes.active), (classes.beta, classes.free))
        return Deferred.together([block.add(xp.ones_like(x), rows) for x, rows in pairs], lambda *sums: sums)


@dataclass(frozen=True, slots=True)
class Squares:
    """Reduction: sums of squares of every column over positives and over negatives."""

    def __call__(self, block: Block, state: State) -> Sums:
        """Two vectors."""
        negative = block.xp.nonzero(state["is_negative"])[0]
        return block.squares(state["positive"]), block.squares(negative)


@dataclass(frozen=True, slots=True)
class ClassMoments:
    """Reduction: sums of the positives and of the negatives, and the sum of squares of all values of the positives."""

    def __call__(self, block: Block, state: State) -> Sums:
        """Two vectors and a number."""
        xp, positive = block.xp, state["positive"]
        weights = xp.astype(state["is_negative"], xp.float64)
        ones = xp.take(xp.ones_like(weights), positive, axis=0)
        sums = block.settle(block.add(ones, positive), block.add(weights, None))
        return (*sums, float(block.squares(positive).sum()))


@dataclass(frozen=True, slots=True)
class KeptPair:
    """Reduction: X+' alpha and X-' beta of the pair that blocks keep, and the sums of alpha and of alpha^2."""

    def __call__(self, block: Block, state: State) -> Sums:
        """Three vectors."""
        xp, alpha = block.xp, state["alpha"]
        told: Sums = block.settle(
            block.add(alpha, state["positive"]),
            block.add(state["beta"], None),
            Deferred.stacked(xp.sum(alpha), xp.matmul(alpha, alpha)),
        )
        return told


@dataclass(frozen=True, slots=True)
class Both:
    """Reduction: two in one round, and in one transfer."""

    first: DeferredReduction
    second: DeferredReduction

    def __call__(self, block: Block, state: State) -> Sums:
        """What the first returns, then the second."""
        first, second = block.settle(self.first.deferred(block, state), self.second.deferred(block, state))
        return (*first, *second)
