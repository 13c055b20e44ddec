"""Proximal point on the dual, inner problems by semismooth Newton."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from taufpl.operators import one_blas_thread
from taufpl.problem import BaseRankingProblem, RankingProblem
from taufpl.projection import project_topk_simplex
from taufpl.solvers._line_search import line_search
from taufpl.solvers._model import FrozenModel, WorkingSet
from taufpl.solvers._moments import RunningMoments
from taufpl.solvers._newton_system import DiagonalEstimate, KrylovSystem
from taufpl.solvers._result import Callback, Result, Status, Tracker
from taufpl.solvers._row_space import Reduction, is_wide
from taufpl.solvers._smoothing import Maximiser, Smoothing, Vector
from taufpl.solvers._warm_start import Memory

# An inner problem that takes more steps than this, or many short ones in a row, is made easier by a smaller sigma.
_MOST_INNER_STEPS = 12
_SHORT_STEP = 0.3
_EASIER = 0.2
# After so many iterations without a better gap, rounding has the last word.
_PATIENCE = 60
# The sigma that a warm start finds counts up to this many times the largest beta.
_WARM_SIGMA = 1e6
# A warm start begins so much of the way, in decades, from a cold start's sigma to that.
_WARM_SHARE = 0.65
# The movement of a row's score in past steps fades by this factor, squared, from step to step.
_FADING = 0.8
# Share of the negatives that the model follows at least.
_LEAST_FOLLOWED = 0.015
# H is formed and factored where that costs at most so many passes in arithmetic, or has few features anyway.
_FEW_FEATURES = 1000
_MOST_FEATURES = 5000
_FACTOR_PASSES = 40.0
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
        Sigma grows by this factor after an inner problem that took up to so many steps.
    slow_growth : float
        And by this one after any longer.
    short_steps : int
        After so many short steps in a row sigma is lowered.
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

    The loop:

    1. maximise: project, so that (alpha, beta) is the maximiser of psi's inner problem at the current w;
       v = X+' alpha - X-' beta reads only rows with weight;
    2. certify: w gives a primal value, (alpha, beta) at its best scale a dual one; stop when the gap is small.
       The gap splits exactly into ``|m reg w - v|^2 / (2 m reg)``, the *inner share*, which more Newton steps
       would remove, and the rest, the *proximal share*, which only a move of the centre can remove;
    3. move the centre to beta if the inner share is small beside the proximal one; sigma grows, and the faster
       the easier the last inner problem was;
    4. propose a step: from the piecewise model of psi for few features, or by conjugate gradients for many;
    5. search along it: one pass for its scores, none for the search itself, since scores are linear in its length.

    Where rows are few, and fewer than features, the loop first runs in coordinates of the rows' span (`_reduce.py`);
    what comes back is certified, and gone on with if need be, on the problem itself.

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
        Followed negatives in the model, as a multiple of the number of features, and 1.5 % of the negatives at least:
        the steps that it takes would otherwise grow with the rows.
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
        """Solve a problem, from w = 0 or from the result of a neighbouring one (other reg or k)."""
        if not isinstance(problem, RankingProblem):
            from taufpl.solvers._block_newton import BlockNewton

            settings = BlockNewton(self.tol, self.max_iter, self.max_passes, self.pace)
            return settings.solve(cast("Any", problem), start, callback)
        factored = _prefers_factoring(problem)
        threads_help = factored and problem.n_features > _ONE_THREAD_FEATURES
        with nullcontext() if threads_help else one_blas_thread:
            tracker = Tracker(problem, self.tol, callback)
            n_iter = 0
            if is_wide(problem):
                start, n_iter = self._solve_reduced(problem, start, tracker)
            return _Run(self, problem, start, tracker, factored=factored, n_iter=n_iter).run()

    def _solve_reduced(self, problem: RankingProblem, start: Result | None, tracker: Tracker) -> tuple[Result, int]:
        """Solve in coordinates of the rows' span: where the run on the problem itself starts, and as a rule ends."""
        reduction = Reduction(problem)
        small = None if start is None else reduction.shrink(start)
        left = self.max_passes - tracker.n_passes
        settings = replace(self, tol=_SMALL_TOL * self.tol, max_passes=left, pace=self.pace or _WIDE)
        inner = Tracker(reduction.problem, settings.tol, tracker.foretell)
        result = _Run(settings, reduction.problem, small, inner, factored=True).run()
        return reduction.lift(result), result.n_iter


class _Run:
    """Mutable state of one solve."""

    def __init__(
        self,
        settings: Newton,
        problem: RankingProblem,
        start: Result | None,
        tracker: Tracker,
        *,
        factored: bool,
        n_iter: int = 0,
    ) -> None:
        self.settings = settings
        self.problem = problem
        self.tracker = tracker
        self.n_iter = n_iter
        self.n_inner = 0
        self.n_short = 0
        self.factored = factored
        self.pace = settings.pace or (_FACTORED if factored else _KRYLOV)
        self.diagonal: DiagonalEstimate | None = None
        self.model_steps = settings.model_steps
        self.mobility = (np.full(problem.n_positive, 1e-300), np.full(problem.n_negative, 1e-300))
        self.running: tuple[RunningMoments, RunningMoments] | None = None
        if start is None:
            self._start_cold()
        else:
            self._start_warm(start)

    def _start_cold(self) -> None:
        problem = self.problem
        self.coef = np.zeros(problem.n_features)
        self.positive = np.zeros(problem.n_positive)
        self.negative = np.zeros(problem.n_negative)
        total = -float(problem.loss.derivative(np.zeros(1))[0]) * problem.n_positive
        centre = np.full(problem.n_negative, total / problem.n_negative)
        self.smoothing = Smoothing(problem, centre, self.pace.sigma * total / problem.k)

    def _start_warm(self, start: Result) -> None:
        """Take over the pair, made feasible and rescaled, and the point; read no row for what is remembered."""
        problem, memory = self.problem, Memory.of(self.problem)
        scores = None
        if memory is not None:
            scores = memory.scores(start)
            self.running, self.mobility = memory.moments(), memory.mobility()
        if memory is not None and memory.has_pair(start, problem.k):
            alpha, beta, squared = start.alpha, start.beta.copy(), memory.squared_norm
        else:
            alpha, beta = project_topk_simplex(start.alpha, start.beta, problem.k)
            dual_direction = problem.combine(alpha, beta)
            squared = float(dual_direction @ dual_direction)
        self.tracker.see_dual(alpha, beta, squared)
        _, theta = problem.dual(alpha, squared)
        beta *= theta
        self.coef = start.coef.copy()
        positive, negative = problem.scores(self.coef) if scores is None else scores
        self.positive, self.negative = positive.copy(), negative.copy()
        self.smoothing = Smoothing(problem, beta, self._warm_sigma(start, max(float(beta.sum()), 1e-300) / problem.k))

    def _warm_sigma(self, start: Result, cap: float) -> float:
        sigma = self.pace.sigma * cap
        if start.sigma is None:
            return sigma
        # Between a cold start and where the neighbour ended: there psi had lost most of its smoothness.
        return sigma * (max(sigma, min(start.sigma, _WARM_SIGMA * cap)) / sigma) ** _WARM_SHARE

    def run(self) -> Result:
        settings = self.settings
        best, waited = math.inf, 0
        while True:
            now, dual_direction = self._maximise()
            shares = self._certify(now, dual_direction)
            if self.tracker.record():
                return self._result(Status.CONVERGED)
            best, waited = (self.tracker.gap, 0) if self.tracker.gap < best else (best, waited + 1)
            if waited >= _PATIENCE:
                return self._result(Status.STALLED)
            if self.n_iter >= settings.max_iter:
                return self._result(Status.MAX_ITER)
            if self.tracker.n_passes >= settings.max_passes:
                return self._result(Status.MAX_PASSES)
            if self._adapt(now, shares):
                now, dual_direction = self._maximise()
            gradient = self.problem.ridge * self.coef - dual_direction
            enough = self.pace.inner * max(shares[1], 0.1 * settings.tol * self.tracker.primal)
            self._advance(now, dual_direction, gradient, enough)

    def _result(self, status: Status) -> Result:
        result = self.tracker.result(status, self.n_iter, self.smoothing.sigma)
        Memory(
            coef=self.coef,
            scores_of_coef=(self.positive, self.negative),
            alpha=result.alpha.copy(),
            beta=result.beta.copy(),
            k=self.problem.k,
            squared_norm=self.tracker.squared_norm,
            running=self.running,
            moved=self.mobility,
        ).keep(self.problem)
        return result

    def _maximise(self) -> tuple[Maximiser, Vector]:
        now = self.smoothing.maximise(self.positive, self.negative)
        return now, self.problem.combine(now.alpha, now.beta)

    def _certify(self, now: Maximiser, dual_direction: Vector) -> tuple[float, float]:
        """Report both values; return the inner and the proximal share of the gap P - D."""
        problem = self.problem
        top = problem.top_mean(self.negative)
        primal = problem.primal(self.positive, top, float(self.coef @ self.coef))
        self.tracker.see_primal(self.coef, primal)
        squared = float(dual_direction @ dual_direction)
        self.tracker.see_dual(now.alpha, now.beta, squared)
        conjugates = float(problem.loss.conjugate(now.alpha).sum())
        dual = -(squared / (2.0 * problem.ridge) + conjugates) / problem.n_positive
        residual = problem.ridge * self.coef - dual_direction
        inner = float(residual @ residual) / (2.0 * problem.ridge * problem.n_positive)
        return inner, max(primal - dual - inner, 0.0)

    def _adapt(self, now: Maximiser, shares: tuple[float, float]) -> bool:
        """Move the centre if the inner problem is solved; lower sigma if it is too hard. True if either."""
        smoothing = self.smoothing
        if self.n_iter and shares[0] <= self.pace.inner * shares[1]:
            growth = next((f for steps, f in self.pace.growth if self.n_inner <= steps), self.pace.slow_growth)
            smoothing.move_centre(now.beta, smoothing.sigma * growth)
        elif self.n_inner >= _MOST_INNER_STEPS or self.n_short >= self.pace.short_steps:
            smoothing.sigma *= _EASIER
        else:
            return False
        self.n_inner = self.n_short = 0
        return True

    def _advance(self, now: Maximiser, dual_direction: Vector, gradient: Vector, enough: float) -> None:
        """Propose a step and search along it."""
        squared_enough = 2.0 * self.problem.ridge * self.problem.n_positive * enough
        if not now.thresholds.total > 0:
            step = gradient / -self.problem.ridge  # no row pulls: psi is its penalty alone
        elif self.factored:
            step = self._propose_by_model(now, dual_direction, gradient, 0.1 * squared_enough)
        else:
            step = self._propose_by_krylov(now, gradient, squared_enough)
        t = self._search(step, gradient)
        # A model that led astray is followed less far next time.
        self.model_steps = min(2 * self.model_steps, self.settings.model_steps) if t > 0.1 else 1
        self.n_short = self.pace.short_steps if t == 0.0 else self.n_short + 1 if t < _SHORT_STEP else 0
        self.n_iter += 1
        self.n_inner += 1

    def _propose_by_model(self, now: Maximiser, dual_direction: Vector, gradient: Vector, enough: float) -> Vector:
        problem = self.problem
        if self.running is None:
            self.running = (RunningMoments(problem.operator), RunningMoments(problem.operator))
        mobility = np.sqrt(self.mobility[0]), np.sqrt(self.mobility[1])
        size = int(max(self.settings.working_set * problem.n_features, _LEAST_FOLLOWED * problem.n_negative)) + 50
        chosen = WorkingSet.nearest(self.smoothing, now, mobility, size)
        scores = (self.positive, self.negative)
        model = FrozenModel(self.smoothing, chosen, scores, now, dual_direction, self.running)
        step, _ = model.minimise(self.coef, gradient, enough, self.model_steps)
        return step

    def _propose_by_krylov(self, now: Maximiser, gradient: Vector, enough: float) -> Vector:
        if self.diagonal is None:
            self.diagonal = DiagonalEstimate(self.problem)
        system = KrylovSystem(self.smoothing, now)
        forcing = 0.5 * math.sqrt(enough / max(float(gradient @ gradient), 1e-300))
        diagonal = self.diagonal.at(system, self.smoothing)
        return system.solve(gradient, min(max(forcing, 0.1), 0.5), diagonal)

    def _search(self, step: Vector, gradient: Vector) -> float:
        slope_at_zero = float(gradient @ step)
        if not (slope_at_zero < 0 and math.isfinite(slope_at_zero)):
            return 0.0
        positive, negative = self.problem.scores(step)
        ridge = self.problem.ridge
        linear, quadratic = ridge * float(self.coef @ step), ridge * float(step @ step)

        def slope(t: float) -> float:
            now = self.smoothing.maximise(self.positive + t * positive, self.negative + t * negative)
            return linear + t * quadratic - float(now.alpha @ positive) + float(now.beta @ negative)

        t = line_search(slope, slope_at_zero)
        if t > 0:
            self.coef = self.coef + t * step
            self.positive += t * positive
            self.negative += t * negative
            for mobility, moves in zip(self.mobility, (positive, negative), strict=True):
                mobility *= _FADING
                mobility += np.square(t * moves)
        return t


def _prefers_factoring(problem: RankingProblem) -> bool:
    """Whether a d x d matrix is cheap beside the products with the data, and beside one of the rows with weight."""
    d = problem.n_features
    if problem.operator.knows_row_gram:
        return False
    if d <= _FEW_FEATURES:
        return True
    return d <= _MOST_FEATURES and d**3 / 3.0 <= _FACTOR_PASSES * problem.operator.n_stored()
