"""Proximal point on the dual, inner problems by semismooth Newton, with a model of psi that needs only a few rows.

psi is quadratic as long as no entry of alpha or beta changes its class: alpha zero or active, beta zero, free or
capped. A Newton step minimises that quadratic; where many rows lie near a change of class it does not get far. The
model here follows such rows, the *working set*, exactly, and holds all others in the class that they have now. What
a class held fixed contributes depends on its moments alone: its count, mean row and Gram matrix. So the model can be
minimised by many Newton steps of its own, at the cost of one or two over all rows. At the point where it is made, model
and psi agree in value and gradient, and both are convex: the minimiser of the model lies in a direction of descent.

The line search on slopes serves the model and psi alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from taufpl._types import Vector
from taufpl.operators import one_blas_thread
from taufpl.problem import BaseRankingProblem, Oracle, RowSpace, RunningMoments, WorkingSet, newton_direction
from taufpl.projection import Thresholds, project_topk_simplex_into
from taufpl.solvers._result import Callback, Result, Status, Tracker

# An inner problem that takes more steps than this, or many short ones in a row, is made easier by a smaller sigma.
_MOST_INNER_STEPS = 12
_SHORT_STEP = 0.3
_EASIER = 0.2
# Iterations without a better gap after which rounding has the last word.
_PATIENCE = 60
# Where a step comes out shorter than this, or an inner problem takes this many steps, the piecewise model takes over.
# The first inner problem, on the way from w = 0, may take more of them.
_FULL_STEP = 0.45
_MANY_INNER_STEPS = 3
_MANY_FIRST_STEPS = 6
# A bound on P is made exact where it leaves more of the gap open than this share.
_MOST_SLACK = 0.1
# Certificates that rounding of single-precision scores may spoil before the solver gives up.
_MOST_CERTIFICATES = 6
# Threads of BLAS cost more than they bring in matrices up to this size.
_ONE_THREAD_FEATURES = 2000
# A reduced problem is solved a little further, so that rounding on the way back does not cost another step.
_SMALL_TOL = 0.9
# A line search tries no step closer to an end of its bracket than this share of it.
_MARGIN = 0.05
_LEAST_STEP = 1e-9


@dataclass(frozen=True, slots=True)
class Pace:
    """How boldly sigma is chosen: a step costs little where H is factored, and many products where it is not.

    Attributes
    ----------
    sigma : float
        First sigma, in units of the largest beta that the first pair could have.
    inner : float
        How large the inner share of the gap may be beside the proximal one when the centre moves.
    growth : tuple of pairs
        Numbers of steps and factors: sigma grows by the factor of the first number that the last inner problem kept to.
    slow_growth : float
        The factor after a longer one.
    short_steps : int
        Short steps in a row after which sigma is lowered.
    """

    sigma: float
    inner: float
    growth: tuple[tuple[int, float], ...]
    slow_growth: float
    short_steps: int


_FACTORED = Pace(sigma=3.0, inner=0.1, growth=((1, 10.0), (3, 3.0)), slow_growth=1.5, short_steps=5)
# As many features as rows: every row can be moved alone, and large steps of the centre undo each other.
_WIDE = Pace(sigma=0.1, inner=0.1, growth=((1, 3.0), (3, 2.0)), slow_growth=1.0, short_steps=3)
_KRYLOV = Pace(sigma=0.1, inner=0.01, growth=((1, 2.0),), slow_growth=1.0, short_steps=2)


@dataclass(frozen=True)
class Newton:
    """Second-order solver: certified to high accuracy in tens of passes.

    The loop, over the oracle of a problem (`problem/_oracle.py`), which alone knows where the rows are:

    1. certify: w gives a primal value, the pair (alpha, beta) that maximises psi's inner problem there a dual one;
       stop when the gap is small. The gap splits exactly into ``|m reg w - v|^2 / (2 m reg)``, the *inner share*, which
       more Newton steps would remove, and the rest, the *proximal share*, which only a move of the centre can remove;
    2. move the centre to beta if the inner share is small beside the proximal one; sigma grows, and the faster
       the easier the last inner problem was;
    3. propose a step: a Newton step, by factoring or by conjugate gradients; or the way to the minimum of the piecewise
       model of psi, in memory at once and for remote rows, where it costs rounds, once Newton steps come out short;
    4. search along it: one pass for its scores, none for the search itself, since scores are linear in its length.

    Where rows are few, and fewer than features, the loop first runs in coordinates of the rows' span, for sparse rows
    once it has stalled without; what comes back is certified, and gone on with if need be, on the problem itself. The
    certificate that ends a run rests on double precision alone: where remote rows multiply in single precision, their
    scores are computed anew for it.

    Parameters
    ----------
    tol : float, default=1e-6
        Relative gap at which to stop.
    max_iter : int, default=1000
        Bound on the number of steps.
    max_passes : float, default=np.inf
        Bound on the passes over the data, checked after each step.
    pace : Pace, default=None
        How sigma is chosen; None takes what suits the way the linear systems are solved.
    working_set : float, default=3.0
        Followed negatives in the model, as a multiple of the number of features; 1.5 % of the negatives at least in
        memory, and what can travel for remote rows.
    model_steps : int, default=30
        Bound on the Newton steps inside one model.
    """

    tol: float = 1e-6
    max_iter: int = 1000
    max_passes: float = math.inf
    pace: Pace | None = None
    working_set: float = 3.0
    model_steps: int = 30

    def solve(
        self, problem: BaseRankingProblem, start: Result | None = None, callback: Callback | None = None
    ) -> Result:
        """Solve a problem, from w = 0 or from the result of a neighbouring one (other reg or k).

        Parameters
        ----------
        problem : RankingProblem or BlockRankingProblem
        start : Result, default=None
            Remote rows, which keep the pair, go on from where the last solve on them ended; where there was none, from
            the coefficients.
        callback : callable, default=None
            Gets every record of the history as it is written.
        """
        oracle = problem.oracle()
        threads_help = oracle.factored and problem.n_features > _ONE_THREAD_FEATURES
        with nullcontext() if threads_help else one_blas_thread:
            tracker = Tracker(problem, self.tol, callback)
            space = problem.row_space()
            if space is not None:
                return self._solve_in_span(problem, space, start, tracker)
            result = _Run(self, problem, oracle, tracker).run(start)
            space = problem.row_space(stalled=True) if result.status is Status.STALLED else None
            return result if space is None else self._solve_in_span(problem, space, start, tracker, result.n_iter)

    def _solve_in_span(
        self, problem: BaseRankingProblem, space: RowSpace, start: Result | None, tracker: Tracker, n_iter: int = 0
    ) -> Result:
        """Solve in coordinates of the rows' span, and go on from there on the problem itself."""
        small = None if start is None else replace(start, coef=space.shrink(start.coef))
        left = self.max_passes - tracker.n_passes
        settings = replace(self, tol=_SMALL_TOL * self.tol, max_passes=left, pace=self.pace or _WIDE)
        inner = Tracker(space.problem, settings.tol, tracker.relay)
        found = _Run(settings, space.problem, space.problem.oracle(), inner).run(small)
        lifted = replace(found, coef=space.lift(found.coef))
        return _Run(self, problem, problem.oracle(), tracker, n_iter + found.n_iter).run(lifted)


class _Run:
    """Mutable state of one solve."""

    def __init__(
        self, settings: Newton, problem: BaseRankingProblem, oracle: Oracle, tracker: Tracker, n_iter: int = 0
    ) -> None:
        self.settings, self.problem, self.oracle, self.tracker = settings, problem, oracle, tracker
        self.pace = settings.pace or (_FACTORED if oracle.factored else _KRYLOV)
        self.n_iter = n_iter
        self.n_inner = self.n_short = self.n_certificates = 0
        self.follows = oracle.factored and oracle.model_is_cheap
        self.model_steps = settings.model_steps

    def run(self, start: Result | None) -> Result:
        settings, tracker = self.settings, self.tracker
        self.oracle.start(start, self.pace.sigma)
        best, waited = math.inf, 0
        while True:
            shares = self._certify()
            if tracker.record():
                if self._settle(settings.tol):
                    return self._result(Status.CONVERGED)
                self.n_certificates += 1
                shares = self._certify()
            best, waited = (tracker.gap, 0) if tracker.gap < best else (best, waited + 1)
            if waited >= _PATIENCE or self.n_certificates >= _MOST_CERTIFICATES:
                return self._result(Status.STALLED)
            if self.n_iter >= settings.max_iter:
                return self._result(Status.MAX_ITER)
            if tracker.n_passes >= settings.max_passes:
                return self._result(Status.MAX_PASSES)
            self._adapt(shares)
            self._advance(shares)

    def _certify(self) -> tuple[float, float]:
        """Report both values; return the inner and the proximal share of the gap P - D."""
        problem, point = self.problem, self.oracle.point
        least = 0.1 * self.settings.tol * point.primal
        if point.slack > _MOST_SLACK * max(point.primal - point.plain_dual, least):
            self.oracle.tighten()
            point = self.oracle.point
        self.tracker.see(point.coef, point.primal, point.dual)
        residual = problem.ridge * point.coef - point.dual_direction
        inner = float(residual @ residual) / (2.0 * problem.ridge * problem.n_positive)
        return inner, max(point.primal - point.plain_dual - inner, 0.0)

    def _settle(self, tol: float) -> bool:
        """Whether the gap holds in double precision."""
        certificate = self.oracle.settle(self.tracker.coef, tol)
        if certificate is not None:
            self.tracker.primal, self.tracker.dual = certificate.primal, certificate.dual
        return self.tracker.gap <= tol

    def _result(self, status: Status) -> Result:
        if status is not Status.CONVERGED:
            self._settle(math.inf)
        result = self.tracker.result(status, self.n_iter, *self.oracle.finish())
        return replace(result, sigma=self.oracle.sigma, n_projections=self.oracle.n_projections)

    def _adapt(self, shares: tuple[float, float]) -> None:
        """Move the centre if the inner problem is solved; lower sigma if it is too hard."""
        is_solved = self.n_iter > 0 and shares[0] <= self.pace.inner * shares[1]
        if is_solved:
            change = next((f for steps, f in self.pace.growth if self.n_inner <= steps), self.pace.slow_growth)
        elif self.n_inner >= _MOST_INNER_STEPS or self.n_short >= self.pace.short_steps:
            change = _EASIER
        else:
            return
        self.oracle.adapt(change * self.oracle.sigma, recentre=is_solved, curvature=not self.follows)
        self.n_inner = self.n_short = 0

    def _advance(self, shares: tuple[float, float]) -> None:
        """Propose a step and search along it."""
        problem, point = self.problem, self.oracle.point
        gradient = problem.ridge * point.coef - point.dual_direction
        enough = self.pace.inner * max(shares[1], 0.1 * self.settings.tol * self.tracker.primal)
        step, expected = self._propose(gradient, 2.0 * problem.ridge * problem.n_positive * enough)
        t = self._search(step, expected, gradient)
        # Where steps come out short, or many, rows near a change of class are in the way: follow them from now on.
        many = _MANY_INNER_STEPS if self.n_iter > self.n_inner else _MANY_FIRST_STEPS
        self.follows = self.follows or (self.oracle.factored and (t < _FULL_STEP or self.n_inner >= many))
        # A model that led astray is followed less far next time.
        self.model_steps = min(2 * self.model_steps, self.settings.model_steps) if t > 0.1 else 1
        self.n_short = self.pace.short_steps if t == 0.0 else self.n_short + 1 if t < _SHORT_STEP else 0
        self.n_iter += 1
        self.n_inner += 1

    def _propose(self, gradient: Vector, enough: float) -> tuple[Vector, Thresholds | None]:
        """A step, and the thresholds that its full length should lead to."""
        oracle = self.oracle
        if not oracle.point.total > 0:
            return gradient / -self.problem.ridge, None  # no row has weight: psi is its penalty alone
        if not self.follows:
            return oracle.newton_step(gradient, enough)
        model = FrozenModel(oracle.working_set(int(self.settings.working_set * self.problem.n_features) + 50))
        step = model.minimise(oracle.point.coef, gradient, 0.1 * enough, self.model_steps)
        return step, model.now.thresholds

    def _search(self, step: Vector, expected: Thresholds | None, gradient: Vector) -> float:
        slope_at_zero = float(gradient @ step)
        if not (slope_at_zero < 0 and math.isfinite(slope_at_zero)):
            return 0.0
        oracle, ridge = self.oracle, self.problem.ridge
        linear, quadratic = ridge * float(oracle.point.coef @ step), ridge * float(step @ step)
        oracle.step(step, expected)
        t = line_search(lambda t: linear + t * quadratic - oracle.project(t), slope_at_zero)
        oracle.accept(t)
        return t


@dataclass(frozen=True, slots=True)
class _State:
    """The followed rows at one point of the model: their scores and their entries of the pair, with its thresholds."""

    positive_scores: Vector
    negative_scores: Vector
    alpha: Vector
    beta: Vector
    thresholds: Thresholds


class FrozenModel:
    """The model at one point of the solver.

    The loop of :meth:`minimise`, which reads the working set only:

    1. direction: form the generalised Hessian from held and followed rows, factor it, solve;
    2. scores of the direction for the followed rows;
    3. line search on the model's slope, which stays inside the region where held classes keep their members'
       mean in its class;
    4. gradient of the model at the new point; stop when it is small enough.
    """

    def __init__(self, working_set: WorkingSet) -> None:
        self.set = rows = working_set
        self.guess = rows.thresholds
        self.n_positive = len(rows.alpha)
        self.weight = rows.sigma * rows.curvature
        self.now = _State(rows.positive_scores, rows.negative_scores, rows.alpha, rows.beta, rows.thresholds)
        # Of the followed rows with weight, which change a little from step to step.
        self.active, self.free = RunningMoments(rows.rows), RunningMoments(rows.rows)
        # The last step length that was tried, with the state there: mostly the one that is taken.
        self.tried: tuple[float, _State | None] = (0.0, None)

    def minimise(self, coef: Vector, gradient: Vector, enough: float, max_iter: int) -> Vector:
        """Go from w until |gradient|^2 <= enough; return the way gone."""
        delta = np.zeros_like(coef)
        for _ in range(max_iter):
            if float(gradient @ gradient) <= enough:
                break
            step = self.direction(gradient)
            moves = self.set.rows.matvec(step)
            t = self._search(step, moves, delta, coef, float(gradient @ step))
            if not t > _LEAST_STEP:
                break
            if t != self.tried[0]:
                self._try(t, step, moves, delta)
            now = self.tried[1]
            if now is None:
                break
            self.now, delta = now, delta + t * step
            gradient = self.set.ridge * (coef + delta) - self._dual_direction(delta)
        return delta

    def _try(self, t: float, step: Vector, moves: Vector, delta: Vector) -> _State | None:
        """The state at a step length; None where a held class would leave its class.

        A held class enters the projection as often as it has rows, each with their mean.
        """
        rows, delta = self.set, delta + t * step
        positive = self.now.positive_scores + t * moves[: self.n_positive]
        negative = self.now.negative_scores + t * moves[self.n_positive :]
        self.tried = (t, None)
        n_active, n_free = rows.active.moments.count, rows.free.moments.count
        free_end = len(negative) + n_free
        alpha = np.empty(len(positive) + n_active)
        beta = np.empty(free_end + rows.n_capped)
        alpha[: len(positive)] = (rows.slope - positive) / rows.curvature
        alpha[len(positive) :] = rows.active.target_at(delta)
        beta[: len(negative)] = rows.centre + rows.sigma * negative
        beta[len(negative) : free_end] = rows.free.target_at(delta)
        beta[free_end:] = rows.capped_target + rows.sigma * float(rows.capped_mean @ delta)
        if not np.isfinite(alpha.sum() + beta.sum()):
            return None
        pair = (np.empty_like(alpha), np.empty_like(beta))
        guess = self.guess = project_topk_simplex_into(alpha, beta, rows.k, self.weight, self.guess, pair)
        alpha, beta = pair
        if (
            (n_active == 0 or alpha[-1] > 0)
            and (n_free == 0 or 0 < beta[free_end - 1] < guess.cap)
            and (rows.n_capped == 0 or beta[-1] >= guess.cap)
        ):
            self.tried = (t, _State(positive, negative, alpha[: len(positive)], beta[: len(negative)], guess))
        return self.tried[1]

    def _shifts(self, thresholds: Thresholds) -> tuple[float, float]:
        """How far the thresholds of alpha and of beta have moved since the model was made."""
        first = self.set.thresholds
        # Both mu are -inf while every entry is at its cap, and then no entry is free.
        moved = thresholds.mu - first.mu if np.isfinite(thresholds.mu) and np.isfinite(first.mu) else 0.0
        return (thresholds.lam - first.lam) / self.weight, moved

    def _dual_direction(self, delta: Vector) -> Vector:
        """X+' alpha - X-' beta in the model, at its present state."""
        rows, now = self.set, self.now
        shift_active, shift_free = self._shifts(now.thresholds)
        weights = np.concatenate((now.alpha, -now.beta))
        loaded = np.flatnonzero(weights)
        total = rows.rows.rmatvec_rows(weights[loaded], loaded)
        total += rows.active.direction_at(delta, shift_active)
        total -= rows.free.direction_at(delta, shift_free)
        total -= (now.thresholds.cap * rows.n_capped) * rows.capped_mean
        return total

    def _search(self, step: Vector, moves: Vector, delta: Vector, coef: Vector, slope_at_zero: float) -> float:
        if not slope_at_zero < 0:
            return 0.0
        rows, ridge = self.set, self.set.ridge
        up, down = moves[: self.n_positive], moves[self.n_positive :]
        active, free = rows.active.along(step, delta), rows.free.along(step, delta)
        capped = rows.n_capped * float(rows.capped_mean @ step)
        linear, quadratic = ridge * float((coef + delta) @ step), ridge * float(step @ step)

        def slope(t: float) -> float | None:
            now = self._try(t, step, moves, delta)
            if now is None:
                return None
            shift_active, shift_free = self._shifts(now.thresholds)
            product = float(now.alpha @ up) - float(now.beta @ down) - now.thresholds.cap * capped
            product += active[0] + t * active[1] + shift_active * active[2]
            product -= free[0] + t * free[1] + shift_free * free[2]
            return linear + t * quadratic - product

        return line_search(slope, slope_at_zero)

    def direction(self, gradient: Vector) -> Vector:
        """Newton direction of the model at its present state."""
        rows, now = self.set, self.now
        loaded = np.flatnonzero(now.beta)
        at_cap = now.beta[loaded] >= now.thresholds.cap
        active = rows.active.moments.joined(self.active.update(np.flatnonzero(now.alpha)))
        free = rows.free.moments.joined(self.free.update(loaded[~at_cap] + self.n_positive))
        capped = loaded[at_cap] + self.n_positive
        n_capped = rows.n_capped + len(capped)
        capped_sum = rows.n_capped * rows.capped_mean
        if len(capped):
            capped_sum = capped_sum + rows.rows.rmatvec_rows(np.ones(len(capped)), capped)
        at_cap_now = (n_capped, capped_sum / max(n_capped, 1))
        return newton_direction(gradient, active, free, at_cap_now, rows.k, rows.sigma, rows.curvature, rows.ridge)


def line_search(
    slope: Callable[[float], float | None], slope_at_zero: float, *, tol: float = 0.3, max_eval: int = 14
) -> float:
    """Find t > 0 with ``|phi'(t)| <= tol |phi'(0)|`` for a convex phi with phi'(0) < 0.

    phi' grows, so that false position, with the Illinois rule, keeps a bracket, starting from t = 1 and going beyond
    while phi still falls. Slopes are used instead of values because near the optimum the values agree to rounding.
    `slope` is phi', or None where t lies too far out for phi to be defined. When the evaluations run out, the answer is
    the farthest t at which phi was seen to fall; 0 if there is none.

    Examples
    --------
    >>> line_search(lambda t: 2.0 * (t - 3.0), -6.0)
    3.0
    """
    low, slope_low = 0.0, slope_at_zero
    high, slope_high = math.inf, math.nan
    enough = tol * abs(slope_at_zero)
    t, side = 1.0, 0
    for _ in range(max_eval):
        value = slope(t)
        if value is not None and abs(value) <= enough:
            return t
        # The Illinois rule: an end that stays put while the other moves twice counts half.
        if value is not None and value < 0:
            slope_high *= 0.5 if side < 0 else 1.0
            low, slope_low, side = t, value, -1
        else:
            slope_low *= 0.5 if side > 0 else 1.0
            high, slope_high, side = t, math.nan if value is None else value, 1
        if high == math.inf:
            t *= 3.0
            continue
        fraction = 0.5 if math.isnan(slope_high) else slope_low / (slope_low - slope_high)
        t = low + (high - low) * min(max(fraction, _MARGIN), 1.0 - _MARGIN)
    return low
