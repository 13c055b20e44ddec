"""Proximal point with semismooth Newton for rows that live in blocks."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from taufpl.operators import one_blas_thread
from taufpl.operators.remote import Reduction, Sums
from taufpl.problem.remote._problem import BlockRankingProblem, Point, Top, Totals
from taufpl.problem.remote._tasks import Keep, Pair, Recentre, Step
from taufpl.projection import Thresholds
from taufpl.projection._checks import LEAST_WEIGHT, MOST_WEIGHT
from taufpl.projection.remote._distributed import FirstRound, Projection, project_by_rounds
from taufpl.solvers._block_result import Book
from taufpl.solvers._block_system import BlockSystem
from taufpl.solvers._line_search import line_search
from taufpl.solvers._newton import (
    _EASIER,
    _MOST_INNER_STEPS,
    _PATIENCE,
    _SHORT_STEP,
    _WARM_SHARE,
    _WARM_SIGMA,
    Pace,
)
from taufpl.solvers._result import Callback, Result, Status

Vector = NDArray[np.float64]

# H is formed and factored up to so many features.
_MOST_FEATURES = 2000
# Where a step comes out shorter than this, or an inner problem takes so many, the piecewise model takes over. The first
# inner problem, on the way from w = 0, may take more of them.
_FULL_STEP = 0.45
_MANY_INNER_STEPS = 3
_MANY_FIRST_STEPS = 6
_MODEL_STEPS = 30
# A bound on P is made exact where it leaves more of the gap in doubt than this share.
_MOST_SLACK = 0.1
# Rounding of single-precision scores may spoil a certificate so many times before the solver gives up.
_MOST_CERTIFICATES = 6

_FACTORED = Pace(sigma=3.0, inner=0.1, growth=((1, 10.0), (3, 3.0)), slow_growth=1.5, short_steps=4)
_KRYLOV = Pace(sigma=0.1, inner=0.01, growth=((1, 2.0),), slow_growth=1.0, short_steps=2)


@dataclass(frozen=True)
class BlockNewton:
    """Second-order solver for blocks of rows: few passes, few rounds, nothing with an entry a row on this side.

    The loop is that of :class:`taufpl.solvers.Newton`, with plain Newton steps as long as these do well, and the
    piecewise model, for which a few rows are fetched, from then on. What a step costs:

    1. one pass for its scores; the same round looks for the thresholds of the projection at full length;
    2. one round, mostly, in which the few entries near the thresholds come here: the slope of psi is then exact. A
       shorter or longer step is tried by two rounds more;
    3. one round that weighs the pair: v and the sums of a certificate, reading rows with weight only;
    4. one for Gram matrices of those rows; with the model, another one for the rows that it follows.

    Where the centre moves, a projection around the new one, another two or three rounds, comes before the next step.

    The certificate that ends a run rests on double precision alone. Scores of single-precision rows are computed
    anew for it, rows converted first; where the gap does not hold, the run goes on from there.

    Parameters
    ----------
    tol : float, default=1e-6
        Relative gap at which to stop.
    max_iter : int, default=300
        Bound on the number of steps.
    max_passes : float, default=np.inf
        Bound on the passes over the data, checked after each step.
    pace : Pace, default=None
        How sigma is chosen; None takes what suits the way the linear systems are solved.
    """

    tol: float = 1e-6
    max_iter: int = 300
    max_passes: float = math.inf
    pace: Pace | None = None

    def solve(
        self,
        problem: BlockRankingProblem,
        start: Result | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Solve a problem, from w = 0; or, given a start, from where the last solve on the same blocks ended."""
        with nullcontext() if problem.n_features > _MOST_FEATURES else one_blas_thread:
            return _Run(self, problem, start, callback).run()


class _Run:
    """Mutable state of one solve. The point is `coef` + `t` `step`, as the blocks have it; `here` is the sum."""

    def __init__(
        self,
        settings: BlockNewton,
        problem: BlockRankingProblem,
        start: Result | None,
        callback: Callback | None,
    ) -> None:
        self.settings, self.problem, self.blocks = settings, problem, problem.blocks
        self.book = Book(problem, callback)
        self.factored = problem.n_features <= _MOST_FEATURES
        self.pace = settings.pace or (_FACTORED if self.factored else _KRYLOV)
        self.n_iter = self.n_inner = self.n_short = self.n_projections = self.n_certificates = 0
        self.follows = False
        self.model_steps = _MODEL_STEPS
        self.foreseen: Thresholds | None = None
        self.t = 0.0
        self.step = np.zeros(problem.n_features)
        kept = problem.kept.get("newton")
        if start is not None and isinstance(kept, _Kept):
            self._begin_warm(kept)
        else:
            self._begin_cold()

    def _begin_cold(self) -> None:
        problem = self.problem
        self.totals = problem.begin()
        self.system = BlockSystem(problem, self.totals, factored=self.factored)
        self.coef = np.zeros(problem.n_features)
        self.sigma = self._bounded(self.pace.sigma * problem.full_total / problem.k)
        self.point = problem.first_point(self.totals, self.sigma)

    def _begin_warm(self, kept: _Kept) -> None:
        """From the point that the blocks have the scores of, with the pair as the centre."""
        problem, point = self.problem, kept.point
        self.totals, self.coef, self.t, self.step = kept.totals, kept.coef, kept.t, kept.step
        self.system = BlockSystem(problem, self.totals, factored=self.factored)
        cap = max(point.theta * point.projection.thresholds.total, 1e-300) / problem.k
        sigma = self.pace.sigma * cap
        grown = max(sigma, min(kept.sigma, _WARM_SIGMA * cap)) / sigma
        self.sigma = kept.sigma
        self.point = point
        self._recentre(None, sigma * grown**_WARM_SHARE)
        self._weigh(self.point.top)

    def _bounded(self, sigma: float) -> float:
        c = self.problem.curvature
        return min(max(sigma, 2.0 * LEAST_WEIGHT / c), 0.5 * MOST_WEIGHT / c)

    @property
    def here(self) -> Vector:
        return self.coef + self.t * self.step

    def run(self) -> Result:
        settings, book = self.settings, self.book
        best, waited = math.inf, 0
        while True:
            shares = self._certify()
            book.write()
            if book.gap <= settings.tol:
                anew = self._settle()
                if book.gap <= settings.tol:
                    return self._result(Status.CONVERGED)
                self.n_certificates += 1
                if anew and self.n_certificates < _MOST_CERTIFICATES:
                    self._project(self.point.projection.thresholds)
                    self._weigh(self.point.top)
                    continue
            best, waited = (book.gap, 0) if book.gap < best else (best, waited + 1)
            if waited >= _PATIENCE or self.n_certificates >= _MOST_CERTIFICATES:
                return self._result(Status.STALLED)
            if self.n_iter >= settings.max_iter:
                return self._result(Status.MAX_ITER)
            if book.n_passes >= settings.max_passes:
                return self._result(Status.MAX_PASSES)
            if self._adapt(shares):
                self._weigh(self.point.top, with_curvature=not self.follows)
            self._advance(shares)

    def _certify(self) -> tuple[float, float]:
        """Report both values; return the inner and the proximal share of the gap P - D."""
        problem, point = self.problem, self.point
        primal = point.primal
        if point.primal_slack > _MOST_SLACK * max(primal - point.plain_dual, 0.1 * self.settings.tol * primal):
            primal, top = problem.exact_primal(self.here, self.t, point.top, point.samples)
            self.point = point = _with_primal(point, primal, top)
        self.book.see(self.here, primal, point.dual)
        residual = problem.ridge * self.here - point.dual_direction
        inner = float(residual @ residual) / (2.0 * problem.ridge * problem.n_positive)
        return inner, max(primal - point.plain_dual - inner, 0.0)

    def _settle(self) -> bool:
        """Let the blocks keep the pair, and make both values exact; True where scores had to be computed anew."""
        problem, book, point = self.problem, self.book, self.point
        self.blocks.change(Keep(point.pair))
        anew = not (self.totals.exact and np.array_equal(book.coef, self.here))
        if anew:
            problem.rescore(book.coef)
            self.coef, self.t, self.step = book.coef, 0.0, np.zeros_like(book.coef)
        book.primal, top = problem.exact_primal(book.coef, self.t, point.top, None if anew else point.samples)
        book.dual = point.dual
        self.point = _with_primal(point, book.primal, top)
        return anew

    def _result(self, status: Status) -> Result:
        book = self.book
        if status is not Status.CONVERGED:
            self._settle()
        result = Result(
            coef=book.coef,
            alpha=None,
            beta=None,
            primal=book.primal,
            dual=book.dual,
            gap=book.gap,
            n_iter=self.n_iter,
            n_projections=self.n_projections,
            n_rounds=book.n_rounds,
            n_passes=book.n_passes,
            status=status,
            history=tuple(book.history),
            sigma=self.sigma,
        )
        self.problem.kept["newton"] = _Kept(self.sigma, self.point, self.totals, self.coef, self.t, self.step)
        return result

    # Projections.

    def _project(self, guess: Thresholds | None, first: FirstRound | None = None) -> None:
        self.n_projections += 1
        task = self.problem.task(self.sigma, self.t, with_moves=False)
        self.projection = project_by_rounds(self.blocks, task, guess, first)

    def _weigh(self, top: Top, *, with_curvature: bool = False) -> None:
        """Take the last projection as the point's."""
        also = self.system.task(self.projection, self.point.counts) if with_curvature else None
        self.point, found = self.problem.weigh(self.here, self.projection, self.t, top, also)
        if with_curvature:
            self.system.take(self.point, found)

    def _adapt(self, shares: tuple[float, float]) -> bool:
        """Move the centre if the inner problem is solved; lower sigma if it is too hard. True if either."""
        if self.n_iter and shares[0] <= self.pace.inner * shares[1]:
            growth = next((f for steps, f in self.pace.growth if self.n_inner <= steps), self.pace.slow_growth)
            ratio = self.point.ratio
            self._recentre(Pair(self.point.projection, self.point.cap, ratio, ratio), self.sigma * growth)
        elif self.n_inner >= _MOST_INNER_STEPS or self.n_short >= self.pace.short_steps:
            self.sigma = self._bounded(self.sigma * _EASIER)
            self._project(None)
        else:
            return False
        self.n_inner = self.n_short = 0
        return True

    def _recentre(self, pair: Pair | None, sigma: float) -> None:
        """The pair, or the one that blocks have kept, becomes the centre; project around it.

        Free entries then have about the score of the k-th, which tells where the thresholds are.
        """
        old, grown = self.point.projection.thresholds, sigma / self.sigma
        self.sigma = self._bounded(sigma)
        guess = None
        if old.total > 0:
            middle, spread = self.sigma * self.point.top.at, max(grown, 1.0) * old.cap
            width = (max(old.widths[0], 1e-3), 0.25 * spread, 0.25 * spread)
            guess = Thresholds(old.lam * grown, middle, old.cap, old.total, width)
        self._project(guess, lambda task: self.blocks.change_and_reduce(Recentre(pair, task)))

    # Steps.

    def _advance(self, shares: tuple[float, float]) -> None:
        problem, point = self.problem, self.point
        gradient = problem.ridge * self.here - point.dual_direction
        if not point.projection.thresholds.total > 0:
            step, self.foreseen = gradient / -problem.ridge, None  # no row pulls: psi is its penalty alone
        else:
            enough = self.pace.inner * max(shares[1], 0.1 * self.settings.tol * self.book.primal)
            step = self._propose(gradient, 2.0 * problem.ridge * problem.n_positive * enough)
        t = self._search(step, gradient)
        # Where steps come out short, or many, rows near a change of class are in the way: follow them from now on.
        many = _MANY_INNER_STEPS if self.n_iter > self.n_inner else _MANY_FIRST_STEPS
        self.follows = self.follows or (self.factored and (t < _FULL_STEP or self.n_inner >= many))
        self.model_steps = min(2 * self.model_steps, _MODEL_STEPS) if t > 0.1 else 1
        self.n_short = self.pace.short_steps if t == 0.0 else self.n_short + 1 if t < _SHORT_STEP else 0
        self.n_iter += 1
        self.n_inner += 1

    def _propose(self, gradient: Vector, enough: float) -> Vector:
        """A Newton step, or the way to the minimum of the model; and the thresholds that it should lead to."""
        point, system = self.point, self.system
        if self.follows:
            step, self.foreseen = system.by_model(point, self.sigma, gradient, 0.1 * enough, self.t, self.model_steps)
            return step
        if system.point is not point:
            system.refresh(point)
        step = system.direction(point, self.sigma, gradient, enough)
        self.foreseen = system.foresee(point, self.sigma, step)
        return step

    def _search(self, step: Vector, gradient: Vector) -> float:
        slope_at_zero = float(gradient @ step)
        if not (slope_at_zero < 0 and math.isfinite(slope_at_zero)):
            return 0.0
        problem, blocks = self.problem, self.blocks
        origin, before, top = self.here, self.point.projection.thresholds, self.point.top
        linear, quadratic = problem.ridge * float(origin @ step), problem.ridge * float(step @ step)
        gone = self.t
        tried: dict[float, Projection] = {}

        def after_step(task: Reduction) -> Sums:
            return blocks.change_and_reduce(Step(gone, step, task))

        def slope(t: float) -> float:
            if tried:
                nearest = min(tried, key=lambda other: abs(other - t))
                guess = _between(before, nearest, tried[nearest].thresholds, t)
            else:
                guess = self.foreseen
                blocks.count(1.0)
            self.n_projections += 1
            found = project_by_rounds(blocks, problem.task(self.sigma, t), guess, None if tried else after_step)
            tried[t] = found
            return linear + t * quadratic - found.moved[0] + found.moved[1]

        t = line_search(slope, slope_at_zero)
        self.coef, self.step, self.t = origin, step, t
        if t in tried:
            self.projection = tried[t]
            total = self.projection.thresholds.total
            drift = t * self.projection.moved[1] / total if total > 0 else 0.0
            self._weigh(Top(top.mean + drift, top.at + drift, max(top.width, abs(drift), 1e-9)))
        else:
            self._project(before)
            self._weigh(top)
        return t


def _between(before: Thresholds, tried: float, there: Thresholds, t: float) -> Thresholds | None:
    """Thresholds at t, on the line through those at 0 and at a step length that was tried."""
    if not (before.total > 0 and there.total > 0):
        return None
    share = t / tried
    numbers = [
        (x + share * (y - x)) for x, y in ((before.lam, there.lam), (before.mu, there.mu), (before.cap, there.cap))
    ]
    cap = max(numbers[2], 0.1 * before.cap)
    change = abs(share - 1.0)
    steps = (abs(there.mu - before.mu), abs(there.mu + there.cap - before.mu - before.cap))
    widths = (there.widths[0], *(max(0.25 * change * step, w) for step, w in zip(steps, there.widths[1:], strict=True)))
    return Thresholds(numbers[0], numbers[1], cap, cap, (widths[0], widths[1], widths[2]))


def _with_primal(point: Point, primal: float, top: Top) -> Point:
    return replace(point, primal=primal, primal_slack=0.0, top=top)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The end of a solve: what the states of the blocks belong to."""

    sigma: float
    point: Point
    totals: Totals
    coef: Vector
    t: float
    step: Vector
