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

from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl.operators._blocks import Block, Reduction, State, Sums, Vector
from taufpl.projection._round_tasks import Source
from taufpl.projection._rounds import Projection


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
        sums = (block.add(own + 1.0, positive), block.add(weights, None))
        counts = np.array([positive.shape[0], float(block.to_host(xp.sum(weights))[0]), 0.0 if block.exact else 1.0])
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
            new["scores"] = state["scores"] + self.t * state["moves"]
            new["own_scores"] = state["own_scores"] + self.t * state["own_moves"]
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

    def values(self, block: Block, state: State) -> tuple[Any, Any]:
        """All of alpha, and beta for every row of the block."""
        xp, (u, mu), cap = block.xp, self.projection.local, self.cap
        alpha0, beta0 = (_dense(source, state) for source in self.projection.sources)
        alpha = self.scale * xp.where(alpha0 > u, alpha0 - u, xp.zeros_like(alpha0))
        beta = xp.where(beta0 > mu, beta0 - mu, xp.zeros_like(beta0))
        beta = self.ratio * xp.where(beta < cap, beta, xp.full_like(beta, cap))
        return alpha, xp.where(state["is_negative"], beta, xp.zeros_like(beta))


def _dense(source: Source, state: State) -> Any:
    (factor, name), *rest = source.terms
    total = source.offset + factor * state[name]
    for factor, name in rest:
        total = total + factor * state[name]
    return total


@dataclass(frozen=True, slots=True)
class Recentre:
    """Change and reduction: beta, of a pair or as it was kept, becomes the centre; then what follows."""

    pair: Pair | None
    then: Reduction

    def __call__(self, block: Block, state: State) -> tuple[State, Sums]:
        """No pass."""
        centre = state["beta"] if self.pair is None else self.pair.values(block, state)[1]
        new = {**state, "centre": centre}
        return new, self.then(block, new)


@dataclass(frozen=True, slots=True)
class Keep:
    """Change: the pair stays as `alpha` and `beta`."""

    pair: Pair

    def __call__(self, block: Block, state: State) -> State:
        """No pass."""
        alpha, beta = self.pair.values(block, state)
        return {**state, "alpha": alpha, "beta": beta}


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
        alpha = projection.sources[0].above(block, state, u, "alpha")
        beta = projection.sources[1].above(block, state, mu, "beta")
        if kept is not None and kept[0] is alpha and kept[1] is beta and kept[2] == (u, mu, cap):
            found: Classes = kept[3]
            return found
        xp = block.xp
        over, above = alpha.values - u, beta.values - mu
        if not projection.thresholds.total > 0:
            over, above = alpha.values * 0.0, beta.values * 0.0
        active = xp.nonzero(over > 0)[0]
        free = xp.nonzero((above > 0) & (above < cap))[0]
        capped = xp.nonzero((above > 0) & (above >= cap))[0]
        new = cls(
            xp.take(state["positive"], xp.take(alpha.rows, active, axis=0), axis=0),
            xp.take(over, active, axis=0),
            xp.take(beta.rows, free, axis=0),
            xp.take(above, free, axis=0),
            xp.take(beta.rows, capped, axis=0),
        )
        block.scratch["classes"] = (alpha, beta, (u, mu, cap), new)
        return new


@dataclass(frozen=True, slots=True)
class Weigh:
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
        """Sums of alpha, alpha^2, beta, counts; of alpha x, beta x, x at the cap; losses; excess over candidates."""
        xp, cap = block.xp, self.projection.thresholds.cap
        classes = Classes.of(self.projection, block, state)
        own = _dense(self.own_scores, state)
        below = xp.where(own < self.bend, self.bend - own, xp.zeros_like(own))
        sums = xp.stack(
            [
                xp.sum(classes.alpha),
                xp.sum(classes.alpha * classes.alpha),
                xp.sum(classes.beta),
                xp.sum(xp.astype(below > 0, xp.float64)),
                xp.sum(below),
                xp.sum(below * below),
            ]
        )
        counts = np.array([x.shape[0] for x in (classes.active, classes.free, classes.capped)], dtype=np.float64)
        at_cap = block.add(xp.astype(classes.capped * 0 + 1, xp.float64), classes.capped)
        pulls = block.add(classes.alpha, classes.active), block.add(classes.beta, classes.free) + cap * at_cap
        top = self.scores.above(block, state, float(self.edges[0]), "top").tally(self.edges)
        return (block.to_host(sums)[0], counts, *pulls, at_cap, top)


@dataclass(frozen=True, slots=True)
class Losses:
    """Reduction: how many positives lie below a score, by how much in all, and the sum of squares of that."""

    own_scores: Source
    bend: float

    def __call__(self, block: Block, state: State) -> Sums:
        """An array of three numbers."""
        xp, own = block.xp, _dense(self.own_scores, state)
        below = xp.where(own < self.bend, self.bend - own, xp.zeros_like(own))
        counted = xp.sum(xp.astype(below > 0, xp.float64))
        return (block.to_host(xp.stack([counted, xp.sum(below), xp.sum(below * below)]))[0],)


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
        classes = Classes.of(self.projection, block, state)
        found: list[Any] = []
        counts = []
        for rows, shift, stride in zip((classes.active, classes.free), self.shifts, self.strides, strict=True):
            taken = rows[::stride]
            gram, total = block.moments(taken, shift)
            found += [gram, total]
            counts.append(float(taken.shape[0]))
        return (np.array(counts), *found)


@dataclass(frozen=True, slots=True)
class HessianProduct:
    """Reduction: X'X p and the sum of X p over active and over free rows."""

    projection: Projection
    vector: Vector

    def __call__(self, block: Block, state: State) -> Sums:
        """Two vectors and two numbers."""
        classes = Classes.of(self.projection, block, state)
        images = [block.dot(self.vector, rows) for rows in (classes.active, classes.free)]
        pulls = [block.add(image, rows) for image, rows in zip(images, (classes.active, classes.free), strict=True)]
        sums = block.to_host(*(block.xp.sum(image) for image in images))
        return (*pulls, float(sums[0]), float(sums[1]))


@dataclass(frozen=True, slots=True)
class RowSums:
    """Reduction: sums of active and of free rows."""

    projection: Projection

    def __call__(self, block: Block, state: State) -> Sums:
        """Two vectors."""
        classes = Classes.of(self.projection, block, state)
        ones = (classes.alpha * 0.0 + 1.0, classes.beta * 0.0 + 1.0)
        return block.add(ones[0], classes.active), block.add(ones[1], classes.free)


@dataclass(frozen=True, slots=True)
class Squares:
    """Reduction: sums of squares of every column over positives and over negatives."""

    def __call__(self, block: Block, state: State) -> Sums:
        """Two vectors."""
        negative = block.xp.nonzero(state["is_negative"])[0]
        return block.squares(state["positive"]), block.squares(negative)


@dataclass(frozen=True, slots=True)
class Both:
    """Reduction: two in one round."""

    first: Reduction
    second: Reduction

    def __call__(self, block: Block, state: State) -> Sums:
        """What the first returns, then the second."""
        return (*self.first(block, state), *self.second(block, state))
