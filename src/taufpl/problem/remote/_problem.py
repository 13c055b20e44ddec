"""The ranking problem over remote rows, in blocks, and its oracle: from reductions alone, in as few rounds as can be.

The mathematics is that of `problem/_ranking.py` and `problem/_oracle.py`. Two things are bounds here instead of values,
on the safe side each:

- T_k, from above, by candidates for the k-th largest score (`projection/remote/_top_mean.py`). The loss falls in the
  margin, so that the primal value is bounded from above with it.
- The pair of a projection, whose sums agree up to rounding, is made feasible by a factor: with
  beta' = min([beta0 - mu]_+, cap) and S_b = sum beta' >= k cap, beta = beta' (sum alpha) / S_b. So the dual value
  belongs to a feasible pair.

The loss is taken as the one whose conjugate is (c/2) a^2 - b a on a >= 0, which is l(u) = [b - u]_+^2 / (2 c): a
block describes it by a count and two sums.

Nothing with an entry a row is on this side. A step of a solver costs:

1. one pass for its scores; the same round looks for the thresholds of the projection at full length;
2. one round, mostly, in which the few entries near the thresholds come here: the slope of psi is then exact. A shorter
   or longer step is tried by two rounds more;
3. one round that evaluates the pair: its dual direction and the sums of a certificate, reading rows with weight only;
4. one for Gram matrices of those rows; with the model, another one for the rows that it follows.

Where the centre moves, a projection around the new one, another two or three rounds, comes before the next step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from taufpl._types import Matrix, Vector
from taufpl.operators import as_operator, stacked
from taufpl.operators.remote import Blocks, DeferredReduction, Reduction, Sums
from taufpl.problem._oracle import (
    HeldRows,
    Moments,
    Oracle,
    Point,
    WorkingSet,
    estimated_diagonal,
    krylov_direction,
    newton_direction,
    rank_one,
)
from taufpl.problem._ranking import BaseRankingProblem, Certificate, Loss, spread_about
from taufpl.problem.remote._tasks import (
    Begin,
    Both,
    ClassSums,
    Curvature,
    EvaluatePair,
    HeldMoments,
    HessianProduct,
    Keep,
    KeptPair,
    Losses,
    Near,
    NearRows,
    Pair,
    Recentre,
    Rescore,
    RowSums,
    Squares,
    Step,
)
from taufpl.projection import Thresholds
from taufpl.projection.remote import (
    AROUND,
    FirstRound,
    LookAtTop,
    Projection,
    ProjectionTask,
    Samples,
    Source,
    TopMean,
    project_by_rounds,
    top_mean_by_rounds,
)

# T_k counts as known when its bounds are this close, relative to the scores' size.
_EXACT = 1e-12
# Features up to which H is formed and factored: its Gram matrices travel, from every block.
_MOST_FEATURES = 2000
# A Gram matrix of this many rows a feature, and of this many at least, is accurate to two or three per cent.
_ROWS_PER_FEATURE = 2000
_LEAST_ROWS = 50_000
# Rows and values of a working set that travel at most.
_MOST_NEAR = 6000
_MOST_NEAR_VALUES = 4_000_000
# From the coefficients of other rows, sigma is larger by this factor than from w = 0.
_BOLDER = 5.0
_KEY = "oracle"


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


@dataclass(frozen=True, slots=True)
class _Kept:
    """The end of a solve, without the problem: the point that the states of the blocks belong to."""

    totals: Totals
    coef: Vector
    t: float
    direction: Vector
    point: BlockPoint
    sigma: float


class BlockOracle(Oracle):
    """psi over blocks of rows. The point is `coef` + `t` `direction`, as the blocks have it.

    Its Hessian, of few features, is formed from the Gram matrices of active and of free rows. Of very many rows a fair
    part stands for all: the gradient stays exact, so that the step is one of descent, and it is a Newton step up to a
    few per cent. Many features: conjugate gradients, a round a product.
    """

    model_is_cheap = False
    point: BlockPoint

    def __init__(self, problem: BlockRankingProblem) -> None:
        super().__init__(problem)
        self.problem, self.blocks = problem, problem.blocks
        self.factored = problem.n_features <= _MOST_FEATURES
        self._most_rows = max(_LEAST_ROWS, _ROWS_PER_FEATURE * problem.n_features)
        self._squares: tuple[Vector, Vector] | None = None
        self._known_at: BlockPoint | None = None
        self.coef = self.direction = np.zeros(problem.n_features)
        self.t = 0.0
        self.tried: dict[float, Projection] = {}

    @property
    def here(self) -> Vector:
        """The present point."""
        return self.coef + self.t * self.direction

    def start(self, start: Any | None, sigma: float) -> None:
        """Go to w = 0 with the even pair; or, given a start, on from where the last solve on these blocks ended.

        Where there was none, the start is the coefficients of other rows, with the even pair as the centre: the pair
        that the scores of such a point have, beta on the k highest alone, is a bad one, and takes more steps.
        """
        problem, kept = self.problem, self.problem.kept.get(_KEY)
        if start is None or not isinstance(kept, _Kept):
            self.sigma = sigma * problem.full_total / problem.k
            if start is not None and start.coef.any():
                self._start_at(start.coef)
                return
            self.totals: Totals = problem.begin()
            self._forget(self.totals)
            self.point = problem.first_point(self.totals, self.sigma)
            return
        self.totals, self.coef, self.t, self.direction = kept.totals, kept.coef, kept.t, kept.direction
        self._forget(self.totals)
        self.point, self.sigma = kept.point, kept.sigma
        cap = max(self.point.theta * self.point.total, 1e-300) / problem.k
        self._recentre(None, self.warm_sigma(sigma * cap, cap, kept.sigma))
        self._evaluate(self.point.top)

    def _start_at(self, coef: Vector) -> None:
        """Go to a point, around the even pair."""
        self.totals, self.coef = self.problem.begin(coef), coef
        self._forget(self.totals)
        self.sigma *= _BOLDER
        _, top = self.problem.exact_primal(coef, 0.0, Top(0.0, 0.0, 1.0))
        self._project(None)
        self._evaluate(top)

    def finish(self) -> tuple[None, None]:
        """Leave the point to the next solve; the pair stays with the blocks."""
        end = (self.totals, self.coef, self.t, self.direction, self.point, self.sigma)
        self.problem.kept[_KEY] = _Kept(*end)
        return None, None

    # Values.

    def _evaluate(self, top: Top, *, curvature: bool = False) -> None:
        """Take the last projection as the point's."""
        also = self._curvature_task(self.projection, self.point.counts) if curvature else None
        self.point, found = self.problem.evaluate(self.here, self.projection, self.t, top, also)
        if curvature:
            self._take(self.point, found)

    def tighten(self) -> None:
        """Make the present primal value exact. A few rounds, no pass."""
        point = self.point
        primal, top = self.problem.exact_primal(point.coef, self.t, point.top, point.samples)
        self.point = replace(point, primal=primal, slack=0.0, top=top)

    def settle(self, coef: Vector, tol: float) -> Certificate:
        """Let the blocks keep the pair, and make both values exact; go on from the point where the gap does not hold.

        Scores of single-precision rows are computed anew for it, rows converted first.
        """
        problem, point = self.problem, self.point
        self.blocks.change(Keep(point.pair))
        anew = not (self.totals.exact and np.array_equal(coef, self.here))
        if anew:
            problem.rescore(coef)
            self.coef, self.t, self.direction = coef, 0.0, np.zeros_like(coef)
        primal, top = problem.exact_primal(coef, self.t, point.top, None if anew else point.samples)
        self.point = replace(point, coef=coef, primal=primal, slack=0.0, top=top)
        certificate = Certificate(primal, point.dual)
        if anew and certificate.gap > tol:
            self._project(point.projection.thresholds)
            self._evaluate(top)
        return certificate

    # Projections.

    def _project(self, guess: Thresholds | None, first: FirstRound | None = None) -> None:
        self.n_projections += 1
        task = self.problem.task(self.sigma, self.t, with_moves=False)
        self.projection = project_by_rounds(self.blocks, task, guess, first)

    def _recentre(self, pair: Pair | None, sigma: float) -> None:
        """The pair, or the one that blocks have kept, becomes the centre; project around it.

        Free entries then have about the score of the k-th, which tells where the thresholds are.
        """
        old, grown = self.point.projection.thresholds, sigma / self.sigma
        self.sigma = sigma
        guess = None
        if old.total > 0:
            middle, spread = self.sigma * self.point.top.at, max(grown, 1.0) * old.cap
            width = (max(old.widths[0], 1e-3), 0.25 * spread, 0.25 * spread)
            guess = Thresholds(old.lam * grown, middle, old.cap, old.total, width)
        self._project(guess, lambda task: self.blocks.change_and_reduce(Recentre(pair, task)))

    def adapt(self, sigma: float, *, recentre: bool, curvature: bool) -> None:
        point = self.point
        if recentre:
            self._recentre(Pair(point.projection, point.cap, point.ratio, point.ratio), sigma)
        else:
            self.sigma = sigma
            self._project(None)
        self._evaluate(point.top, curvature=curvature)

    def step(self, direction: Vector, expected: Thresholds | None) -> None:
        """Note a step; its pass is part of the first projection along it."""
        self.gone, self.coef, self.t, self.direction = self.t, self.here, 0.0, direction
        self.expected, self.tried = expected, {}

    def project(self, t: float) -> float:
        guess, first = self.expected, self._take_step if not self.tried else None
        if self.tried:
            nearest = min(self.tried, key=lambda other: abs(other - t))
            guess = _between(self.point.projection.thresholds, nearest, self.tried[nearest].thresholds, t)
        self.n_projections += 1
        task = self.problem.task(self.sigma, t)
        found = self.tried[t] = project_by_rounds(self.blocks, task, guess, first)
        return found.moved[0] - found.moved[1]

    def _take_step(self, task: Reduction) -> Sums:
        self.blocks.count(1.0)
        return self.blocks.change_and_reduce(Step(self.gone, self.direction, task))

    def accept(self, t: float) -> None:
        top, self.t = self.point.top, t
        if t not in self.tried:
            self._project(self.point.projection.thresholds)
            self._evaluate(top)
            return
        self.projection = self.tried[t]
        total = self.projection.thresholds.total
        drift = t * self.projection.moved[1] / total if total > 0 else 0.0
        self._evaluate(Top(top.mean + drift, top.at + drift, max(top.width, abs(drift), 1e-9)))

    # The generalised Hessian.

    def _forget(self, totals: Totals) -> None:
        """Know no more than the mean rows of both classes."""
        d = self.problem.n_features
        empty = np.zeros((d, d) if self.factored else (0, 0))
        self._active = Moments(0, totals.positive / self.problem.n_positive, empty)
        self._free = Moments(0, totals.negative / self.problem.n_negative, empty)

    def _strides(self, counts: tuple[int, int, int]) -> tuple[int, int]:
        return max(1, counts[0] // self._most_rows), max(1, counts[1] // self._most_rows)

    def _curvature_task(self, projection: Projection, counts: tuple[int, int, int]) -> DeferredReduction:
        """The reduction that blocks are asked for; the counts of the classes need only be about right."""
        if not self.factored:
            return RowSums(projection)
        return Curvature(projection, (self._active.mean, self._free.mean), self._strides(counts))

    def _take(self, point: BlockPoint, found: Sums) -> None:
        """Take in the answer of the blocks."""
        self._known_at = point
        n_active, n_free, _ = point.counts
        n_rows = self.blocks.shape[0]
        if self.factored:
            taken = found[0]
            self._active = _scaled_moments(n_active, taken[0], self._active.mean, found[1], found[2])
            self._free = _scaled_moments(n_free, taken[1], self._free.mean, found[3], found[4])
            self.blocks.count(2.0 * float(taken.sum()) / n_rows)
        else:
            self._active = Moments(n_active, found[0] / max(1, n_active), self._active.gram)
            self._free = Moments(n_free, found[1] / max(1, n_free), self._free.gram)
            self.blocks.count((n_active + n_free) / n_rows)

    def newton_step(self, gradient: Vector, enough: float) -> tuple[Vector, Thresholds | None]:
        """-H^-1 gradient, factored or by conjugate gradients, and the thresholds if no row changed its class."""
        point = self.point
        if self._known_at is not point:
            self._take(point, self.blocks.reduce(self._curvature_task(point.projection, point.counts)))
        step = self._direction(point, gradient, enough)
        return step, self._foresee(point, step)

    def _direction(self, point: BlockPoint, gradient: Vector, enough: float) -> Vector:
        problem, active, free = self.problem, self._active, self._free
        n_capped = point.counts[2]
        capped = (n_capped, point.at_cap / max(1, n_capped))
        if self.factored:
            shape = (problem.k, self.sigma, self.curvature, problem.ridge)
            return newton_direction(gradient, active, free, capped, *shape)
        counts, means = (active.count, free.count, n_capped), (active.mean, free.mean, capped[1])
        last = rank_one(counts, means, problem.k, self.weight)
        share = 2.0 * (active.count + free.count) / self.blocks.shape[0]

        def product(vector: Vector) -> Vector:
            up, down, up_sum, down_sum = self.blocks.reduce(HessianProduct(point.projection, vector))
            self.blocks.count(share)
            out = problem.ridge * vector
            out += (up - active.mean * up_sum) / self.curvature
            if free.count:
                out += self.sigma * (down - free.mean * down_sum)
            if last is not None:
                out += (self.sigma * last[1] * float(last[0] @ vector)) * last[0]
            return out

        return krylov_direction(product, self._diagonal(counts[:2]), gradient, enough)

    def _diagonal(self, counts: tuple[int, int]) -> Vector:
        if self._squares is None:
            positive, negative = self.blocks.reduce(Squares())
            self.blocks.count(1.0)
            self._squares = (positive / self.problem.n_positive, negative / self.problem.n_negative)
        return estimated_diagonal(self, self.problem.ridge, self._squares, counts)

    def _foresee(self, point: BlockPoint, step: Vector) -> Thresholds | None:
        """Thresholds after a full step if no row changed its class: three linear equations.

        ::

            C = sum_A (alpha0 - u)    (1 - |D|/k) C = sum_F (beta0 - mu)    a u + mu + sum_D (beta0 - mu - C/k) / k = 0
        """
        now = point.projection.thresholds
        if not now.total > 0:
            return None
        n_active, n_free, n_capped = point.counts
        k, weight, sigma = self.problem.k, self.weight, self.sigma
        share = 1.0 - n_capped / k
        matrix = np.array([[n_active, 0.0, 1.0], [0.0, n_free, share], [weight, share, -n_capped / k**2]])
        moves = (self._active.mean @ step, self._free.mean @ step, point.at_cap @ step)
        right = [-n_active * moves[0] / self.curvature, sigma * n_free * moves[1], -sigma / k * moves[2]]
        u, mu, total = map(float, np.linalg.lstsq(matrix, np.array(right), rcond=None)[0])
        changes = (abs(u), abs(mu), abs(mu + total / k))
        a, b, c = (max(0.25 * change, 0.5 * width) for change, width in zip(changes, now.widths, strict=True))
        cap = now.cap + total / k
        if not (cap > 0 and math.isfinite(u + mu + total)):
            return now
        return Thresholds(now.lam + weight * u, now.mu + mu, cap, k * cap, (a, b, c))

    def working_set(self, size: int) -> WorkingSet:
        """Fetch about `size` negatives near a change of class, and the moments of the others."""
        problem, blocks, point = self.problem, self.blocks, self.point
        projection, now = point.projection, point.projection.thresholds
        size = min(size, _MOST_NEAR, max(200, _MOST_NEAR_VALUES // problem.n_features))
        n_below = projection.n_held - point.counts[1] - point.counts[2]
        # The entries that blocks hold anyway are enough, or else all within reach of one step from zero to the cap.
        floor = projection.floor if n_below >= size else projection.local[1] - now.cap
        share, floor = size / blocks.shape[0], min(floor, projection.floor)
        near = Near(projection, self.sigma, self.curvature, self.t, share, floor)
        shifts = (self._active.mean, self._free.mean)
        counts, distances, *sums = blocks.reduce(HeldMoments(near, shifts, self._strides(point.counts)))
        active_gram, active_sum, free_gram, free_sum, active_direction, free_direction, capped_sum = sums
        fetched = blocks.gather(NearRows(near))
        rows = as_operator(stacked([part[i] for i in (0, 1) for part in fetched]))
        positive, negative, centre = (np.concatenate([part[i] for part in fetched]) for i in (2, 3, 4))
        blocks.count((2.0 * float(counts[3:].sum()) + float(counts[:3].sum())) / blocks.shape[0])
        n_active, n_free, n_capped = (int(x) for x in counts[:3])
        above = distances / np.maximum(counts[:3], 1.0)
        u = now.lam / self.weight
        active = _scaled_moments(n_active, counts[3], shifts[0], active_gram, active_sum)
        free = _scaled_moments(n_free, counts[4], shifts[1], free_gram, free_sum)
        alpha = np.maximum((self.slope - positive) / self.curvature - u, 0.0)
        beta = np.clip(centre + self.sigma * negative - now.mu, 0.0, now.cap)
        return WorkingSet(
            rows, positive, negative, alpha, beta, centre, now,
            HeldRows(active, u + float(above[0]), -1.0 / self.curvature, active_direction),
            HeldRows(free, now.mu + float(above[1]), self.sigma, free_direction),
            n_capped, capped_sum / max(1, n_capped), now.mu + float(above[2]),
            problem.k, self.sigma, self.curvature, self.slope, problem.ridge,
        )  # fmt: skip


def _scaled_moments(count: int, n_taken: float, shift: Vector, gram: Matrix, total: Vector) -> Moments:
    """Moments of `count` rows, from the sums around a shift over `n_taken` of them."""
    if count == 0 or n_taken == 0:
        return Moments(0, shift, np.zeros_like(gram))
    apart = total / n_taken
    gram = gram - n_taken * np.outer(apart, apart)
    return Moments(count, shift + apart, gram * (count / n_taken))


def _between(before: Thresholds, tried: float, there: Thresholds, t: float) -> Thresholds | None:
    """Thresholds at t, on the line through those at 0 and at a step length that was tried."""
    if not (before.total > 0 and there.total > 0):
        return None
    share = t / tried
    pairs = ((before.lam, there.lam), (before.mu, there.mu), (before.cap, there.cap))
    lam, mu, cap = (x + share * (y - x) for x, y in pairs)
    cap = max(cap, 0.1 * before.cap)
    change = 0.25 * abs(share - 1.0)
    steps = (abs(there.mu - before.mu), abs(there.mu + there.cap - before.mu - before.cap))
    widths = [max(change * step, width) for step, width in zip(steps, there.widths[1:], strict=True)]
    return Thresholds(lam, mu, cap, cap, (there.widths[0], widths[0], widths[1]))
