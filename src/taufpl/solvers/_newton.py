"""Proximal point on the dual, inner problems by semismooth Newton."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace

from taufpl._types import Vector
from taufpl.operators import one_blas_thread
from taufpl.problem import BaseRankingProblem, Oracle, RowSpace
from taufpl.projection import Thresholds
from taufpl.solvers._model import FrozenModel, line_search
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
