"""The ranking problem over remote rows, in blocks: its certificates from reductions alone.

The mathematics is that of `_ranking.py`. Two things are bounds here instead of values, on the safe side each:

- T_k, from above, by candidates for the k-th largest score (`projection/remote/_top_mean.py`). The loss falls in the
  margin, so that the primal value is bounded from above with it.
- The pair of a projection, whose sums agree up to rounding, is made feasible by a factor: with
  beta' = min([beta0 - mu]_+, cap) and S_b = sum beta' >= k cap, beta = beta' (sum alpha) / S_b. So the dual value
  belongs to a feasible pair.

The loss is taken as the one whose conjugate is (c/2) a^2 - b a on a >= 0, which is l(u) = [b - u]_+^2 / (2 c): a
block describes it by a count and two sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from taufpl._types import Vector
from taufpl.operators.remote import Blocks, DeferredReduction, Sums
from taufpl.problem._loss import Loss
from taufpl.problem._oracle import Oracle, Point
from taufpl.problem._ranking import BaseRankingProblem, Certificate, spread_about
from taufpl.problem.remote._tasks import Begin, Both, ClassSums, EvaluatePair, KeptPair, Losses, Pair, Rescore, Squares
from taufpl.projection import Thresholds
from taufpl.projection.remote import (
    AROUND,
    LookAtTop,
    Projection,
    ProjectionTask,
    Samples,
    Source,
    TopMean,
    top_mean_by_rounds,
)

# T_k counts as known when its bounds are this close, relative to the scores' size.
_EXACT = 1e-12


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums of the rows of both classes, and whether all products are in double precision."""

    positive: Vector
    negative: Vector
    exact: bool


@dataclass(frozen=True, slots=True)
class Top:
    """Where the k highest scores begin, as far as it is known: T_k, and the k-th largest score up to a width."""

    mean: float
    at: float
    width: float


@dataclass(frozen=True, slots=True)
class BlockPoint(Point):
    """A point, with the sums over all blocks that describe its pair."""

    projection: Projection
    counts: tuple[int, int, int]  # rows that are active, free, capped
    at_cap: Vector  # sum of the capped rows
    theta: float  # best scale of the pair
    ratio: float  # makes beta's sum that of alpha
    cap: float  # before both factors
    top: Top
    samples: Samples  # counts and excesses of scores that T_k was bounded with

    @property
    def pair(self) -> Pair:
        """The pair at its best scale."""
        return Pair(self.projection, self.cap, self.theta, self.theta * self.ratio)


class BlockRankingProblem(BaseRankingProblem):
    """The primal and dual ranking problem over the rows of blocks.

    Parameters
    ----------
    blocks : Blocks
        With `positive` and `is_negative` in the state of each.
    n_positive, n_negative : int
        Rows of both kinds over all blocks.
    k : int
        How many of the highest negatives count.
    reg : float
        Positive weight of the penalty.
    loss : Loss, default=None
        With a quadratic conjugate; SquaredHinge if None.

    """

    def __init__(
        self, blocks: Blocks, n_positive: int, n_negative: int, k: int, reg: float, loss: Loss | None = None
    ) -> None:
        self.blocks = blocks
        self.n_features = blocks.shape[1]
        for name, count in (("positives", n_positive), ("negatives", n_negative)):
            if count < 1:
                raise ValueError(f"there must be {name} among the rows, got none.")
        super().__init__(n_positive, n_negative, k, reg, loss)
        if self.loss.conjugate_curvature is None:
            raise ValueError(f"the loss must have a quadratic conjugate, got {type(self.loss).__name__}.")
        self.curvature: float = self.loss.conjugate_curvature
        self.slope: float = self.loss.conjugate_slope

    @property
    def full_total(self) -> float:
        """Sum of alpha at w = 0 where no margin counts: m times minus the slope of the loss there."""
        return self.n_positive * self.slope / self.curvature

    @property
    def cost(self) -> tuple[float, int]:
        """Passes over the data and rounds so far."""
        return self.blocks.n_passes, self.blocks.n_rounds

    def oracle(self) -> Oracle:
        """The dual problem by rounds of reductions."""
        from taufpl.problem.remote._oracle import BlockOracle

        return BlockOracle(self)

    def _posed(self, k: int, reg: float) -> Self:
        return type(self)(self.blocks, self.n_positive, self.n_negative, k, reg, self.loss)

    # Sources of vectors at w + t step.

    def scores(self, t: float) -> tuple[Source, Source]:
        """Scores of the positives and of the negatives."""
        own = Source(0.0, ((1.0, "own_scores"), (t, "own_moves")), moves="own_moves")
        return own, Source(0.0, ((1.0, "scores"), (t, "moves")), "is_negative", "moves")

    def task(self, sigma: float, t: float, *, with_moves: bool = True) -> ProjectionTask:
        """The projection whose answer maximises psi's inner problem (`problem/_oracle.py`).

        Its products with moves are the slope of psi along the step, where that is wanted.
        """
        c = self.curvature
        own_moves, moves = ("own_moves", "moves") if with_moves else (None, None)
        alpha = Source(self.slope / c, ((-1.0 / c, "own_scores"), (-t / c, "own_moves")), moves=own_moves)
        terms = ((1.0, "centre"), (sigma, "scores"), (sigma * t, "moves"))
        beta = Source(0.0, terms, "is_negative", moves)
        return ProjectionTask(alpha, beta, (self.n_positive, self.n_negative), self.k, sigma * c)

    # Rounds.

    def begin(self, coef: Vector | None = None) -> Totals:
        """Start from w = 0, or from another point, and the even pair. One pass."""
        task = Begin(self.full_total / self.n_negative, ClassSums(), coef)
        counts, positive, negative = self.blocks.change_and_reduce(task)
        self.blocks.count(1.0)
        if (int(counts[0]), int(counts[1])) != (self.n_positive, self.n_negative):
            raise ValueError(
                f"the blocks hold {int(counts[0])} positives and {int(counts[1])} negatives, "
                f"expected {self.n_positive} and {self.n_negative}."
            )
        return Totals(positive, negative, counts[2] == 0)

    def first_point(self, totals: Totals, sigma: float) -> BlockPoint:
        """The point w = 0 with the constant centre as its beta, from the sums of the rows."""
        m, n, d, total = self.n_positive, self.n_negative, self.n_features, self.full_total
        is_capped = self.k == n
        mu, cap = -math.inf if is_capped else 0.0, total / self.k
        task = self.task(sigma, 0.0)
        thresholds = Thresholds(0.0, mu, cap, total, (0.0, 0.0, 0.0))
        projection = Projection(thresholds, (0.0, 0.0), (task.alpha, task.beta), (0.0, mu))
        dual_direction = (total / m) * (totals.positive - (m / n) * totals.negative)
        dual, plain, theta = self._duals(np.array([total, total**2 / m]), dual_direction)
        counts, at_cap = ((m, 0, n), totals.negative) if is_capped else ((m, n, 0), np.zeros(d))
        known = Samples(np.zeros(1), np.zeros(1), np.full(1, float(n)), np.zeros(1))
        return BlockPoint(
            np.zeros(d), dual_direction, total, self.primal_at_zero, 0.0, dual, plain,
            projection, counts, at_cap, theta, 1.0, cap, Top(0.0, 0.0, 1e-3), known,
        )  # fmt: skip

    def evaluate(
        self, coef: Vector, projection: Projection, t: float, top: Top, also: DeferredReduction | None = None
    ) -> tuple[BlockPoint, Sums]:
        """Values of the pair of a projection at w + t step, and the answer to something else, in one round."""
        own, scores = self.scores(t)
        edges = np.unique(top.at + AROUND * max(top.width, 1e-12 * abs(top.at), 1e-300))
        look = LookAtTop(scores, edges, self.k if self.blocks.in_one_place else None)
        task = EvaluatePair(projection, look, own, self.slope, top.mean)
        found = self.blocks.reduce(task if also is None else Both(task, also))
        sums, counts, up, down, at_cap, tally = found[:6]
        cap = projection.thresholds.cap
        total_beta = float(sums[2]) + cap * float(counts[2])
        if self.k * cap > total_beta and counts[2] < self.k:
            # Rounding has made the cap too large for the sum: lower it until both agree.
            excess = (self.k * cap - total_beta) / (self.k - float(counts[2]))
            cap, down = cap - excess, down - excess * at_cap
            total_beta -= excess * float(counts[2])
        ratio = float(sums[0]) / total_beta if total_beta > 0 else 1.0
        dual_direction = up - ratio * down
        dual, plain, theta = self._duals(sums[:3], dual_direction)
        samples = look.samples(tally)
        bound = TopMean.of(samples, self.k)
        # Where the k-th largest score was found, the losses are those at the lowest bound.
        mean = bound.lower if len(tally) == 4 else top.mean
        primal, slack = self._primal(coef, sums[3:], mean, bound)
        n_active, n_free, n_capped = (int(x) for x in counts)
        self.blocks.count((n_active + n_free + n_capped) / self.blocks.shape[0])
        new_top = Top(bound.upper, bound.at, max(2.0 * abs(bound.at - top.at), 0.25 * top.width))
        point = BlockPoint(
            coef, dual_direction, projection.thresholds.total, primal, slack, dual, plain,
            projection, (n_active, n_free, n_capped), at_cap, theta, ratio, cap, new_top, samples,
        )  # fmt: skip
        return point, found[6:]

    def rescore(self, coef: Vector) -> None:
        """Scores of a point anew, in double precision. One pass."""
        self.blocks.change(Rescore(coef))
        self.blocks.count(1.0)

    def exact_primal(self, coef: Vector, t: float, top: Top, known: Samples | None = None) -> tuple[float, Top]:
        """P(w + t step) up to rounding; a few rounds, no pass."""
        own, scores = self.scores(t)
        size = max(abs(top.mean), abs(top.at), self.slope)
        near = (top.at, top.width, _EXACT * size)
        bound = top_mean_by_rounds(self.blocks, scores, self.k, self.n_negative, *near, known)
        sums = self.blocks.reduce(Losses(own, self.slope + bound.upper))[0]
        primal, _ = self._primal(coef, sums, bound.upper, bound)
        return primal, Top(bound.upper, bound.at, max(abs(bound.at - top.at), 1e-6 * size))

    def certify(self, coef: Vector, alpha: Vector | None = None, beta: Vector | None = None) -> Certificate:
        """Recompute P(w), and D of the pair that the blocks keep, from scratch. Two passes.

        The states of the blocks stay as they are.
        """
        up, down, sums = self.blocks.reduce(KeptPair())
        _, dual, _ = self._duals(sums, up - down)
        forked = self.blocks.fork(Rescore(coef))
        scored = type(self)(forked, self.n_positive, self.n_negative, self.k, self.reg, self.loss)
        try:
            primal, _ = scored.exact_primal(coef, 0.0, Top(0.0, 0.0, 1.0))
        finally:
            forked.release()
        self.blocks.count(2.0)
        return Certificate(primal, dual)

    def positive_spread(self) -> float:
        """Mean squared distance of the positives from the mean negative. One pass."""
        _, positive, negative, squares, _ = self.blocks.reduce(Both(ClassSums(), Squares()))
        self.blocks.count(1.0)
        m, n = self.n_positive, self.n_negative
        return spread_about(float(squares.sum()) / m, positive / m, negative / n)

    def _primal(self, coef: Vector, sums: Vector, mean: float, bound: TopMean) -> tuple[float, float]:
        """Upper bound on P from losses at a nearby T_k, and how far above P it may be.

        With z = [b + T - s]_+ at T, a change by e adds at most 2 z e + e^2 to z^2, also where z = 0 and e > 0.
        """
        count, total, squares = (float(x) for x in sums)
        change = bound.upper - mean
        most = squares + 2.0 * change * total + (self.n_positive if change > 0 else count) * change**2
        scale = 1.0 / (2.0 * self.curvature * self.n_positive)
        primal = scale * max(most, 0.0) + 0.5 * self.reg * float(coef @ coef)
        spread = min(bound.upper - bound.lower, 1e300)
        slack = scale * (2.0 * spread * (total + count * abs(change)) + (self.n_positive - count) * change**2)
        slack += scale * count * change**2 if change < 0 else 0.0
        return primal, slack

    def _duals(self, sums: Vector, dual_direction: Vector) -> tuple[float, float, float]:
        """D at the best scale and at scale 1, and that scale, from sums of alpha and alpha^2."""
        total, squares = float(sums[0]), float(sums[1])
        quadratic = float(dual_direction @ dual_direction) / (2.0 * self.ridge) + 0.5 * self.curvature * squares
        linear = self.slope * total
        theta = 0.5 * linear / quadratic if quadratic > 0 else 1.0
        values = [-(s * s * quadratic - s * linear) / self.n_positive for s in (theta, 1.0)]
        return values[0], values[1], theta
