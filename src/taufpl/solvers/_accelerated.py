"""The paper's Algorithm 1: projected gradient on the dual with Nesterov's acceleration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from taufpl._types import Vector
from taufpl.problem import BaseRankingProblem, BestPair, RankingProblem
from taufpl.projection import Thresholds, project_topk_simplex
from taufpl.solvers._result import Callback, Result, Status, Tracker


@dataclass(frozen=True)
class Accelerated:
    """First-order solver, two passes an iteration.

    It minimises g = -m D, whose gradient at a pair with w = v/(m reg) is (X+ w + l*'(-alpha), -X- w). The loop:

    1. extrapolate: y = x + momentum (x - x before); scores follow along, because they are linear;
    2. step: x = projection of y - gradient(y) / L;
    3. two passes: v at the new x, and the scores of w = v/(m reg);
    4. certify: x is feasible, so that w and x give a gap each time; stop when it is small;
    5. restart the momentum where the step just made points back against it.

    Parameters
    ----------
    tol : float, default=1e-6
        Relative gap at which to stop.
    max_iter : int, default=100_000
        Bound on the number of iterations.
    max_passes : float, default=np.inf
        Bound on the passes over the data.
    step : {"spectral", "backtracking"}, default="spectral"
        ``L = |X|_2^2/(m reg)`` + the smoothness of the conjugate, from a seeded Lanczos iteration; or the smallest L
        seen to work, from a small start upwards, at one more pass for every failed trial.
    seed : int, default=0
        Of the Lanczos iteration.
    """

    tol: float = 1e-6
    max_iter: int = 100_000
    max_passes: float = math.inf
    step: Literal["spectral", "backtracking"] = "spectral"
    seed: int = 0

    def solve(
        self, problem: BaseRankingProblem, start: Result | None = None, callback: Callback | None = None
    ) -> Result:
        """Solve a problem over rows in memory, from w = 0 or from the dual pair of a neighbouring one."""
        if not isinstance(problem, RankingProblem):
            raise TypeError(f"problem must be a RankingProblem, over rows in memory; got a {type(problem).__name__}.")
        return _Run(self, problem, start, callback).run()


@dataclass(frozen=True, slots=True)
class _Point:
    """A dual pair, its dual direction v, and the scores of w = v/(m reg): two passes."""

    alpha: Vector
    beta: Vector
    dual_direction: Vector
    positive: Vector
    negative: Vector

    def beyond(self, before: _Point, momentum: float) -> _Point:
        """The pair itself + momentum times the way from the one before."""
        now = (self.alpha, self.beta, self.dual_direction, self.positive, self.negative)
        was = (before.alpha, before.beta, before.dual_direction, before.positive, before.negative)
        return _Point(*(x + momentum * (x - y) for x, y in zip(now, was, strict=True)))


class _Run:
    """Mutable state of one solve."""

    def __init__(
        self, settings: Accelerated, problem: RankingProblem, start: Result | None, callback: Callback | None
    ) -> None:
        self.settings = settings
        self.problem = problem
        self.tracker = Tracker(problem, settings.tol, callback)
        self.best = BestPair(problem)
        smoothness = problem.loss.conjugate_smoothness
        if not math.isfinite(smoothness):
            raise ValueError(
                f"the accelerated solver needs a loss with a smooth conjugate, got {type(problem.loss).__name__}."
            )
        self.guess: Thresholds | None = None
        self.backtracks = settings.step == "backtracking"
        if self.backtracks:
            self.bound = smoothness
        else:
            self.bound = smoothness + problem.operator.spectral_norm(seed=settings.seed) ** 2 / problem.ridge
        self.point = self._first(start)

    def _first(self, start: Result | None) -> _Point:
        problem = self.problem
        if start is None:
            alpha, beta = np.zeros(problem.n_positive), np.zeros(problem.n_negative)
            return _Point(alpha, beta, np.zeros(problem.n_features), np.zeros_like(alpha), np.zeros_like(beta))
        alpha, beta = project_topk_simplex(start.alpha, start.beta, problem.k)
        dual_direction = problem.combine(alpha, beta)
        _, theta = problem.dual(alpha, float(dual_direction @ dual_direction))
        return self._finish(theta * alpha, theta * beta, theta * dual_direction)

    def _finish(self, alpha: Vector, beta: Vector, dual_direction: Vector) -> _Point:
        positive, negative = self.problem.scores(dual_direction / self.problem.ridge)
        return _Point(alpha, beta, dual_direction, positive, negative)

    def run(self) -> Result:
        settings = self.settings
        at = before = self.point
        momentum = 1.0
        n_iter = 0
        while True:
            self._certify(at)
            if self.tracker.record():
                return self._result(Status.CONVERGED, n_iter)
            if n_iter >= settings.max_iter:
                return self._result(Status.MAX_ITER, n_iter)
            if self.tracker.n_passes >= settings.max_passes:
                return self._result(Status.MAX_PASSES, n_iter)
            following = 0.5 + math.sqrt(0.25 + momentum * momentum)
            ahead = at.beyond(before, (momentum - 1.0) / following)
            reached = self._step(ahead)
            momentum = 1.0 if _points_back(ahead, reached, at) else following
            at, before = reached, at
            n_iter += 1

    def _certify(self, at: _Point) -> None:
        problem = self.problem
        squared = float(at.dual_direction @ at.dual_direction)
        coef = at.dual_direction / problem.ridge
        value = problem.primal(at.positive, problem.top_mean(at.negative), squared / problem.ridge**2)
        self.best.see(at.alpha, at.beta, squared)
        self.tracker.see(coef, value, self.best.dual)

    def _result(self, status: Status, n_iter: int) -> Result:
        return self.tracker.result(status, n_iter, self.best.alpha, self.best.beta)

    def _step(self, ahead: _Point) -> _Point:
        """Projected gradient step from an extrapolated point."""
        problem = self.problem
        slope = ahead.positive + problem.loss.conjugate_derivative(ahead.alpha)
        while True:
            alpha, beta = ahead.alpha - slope / self.bound, ahead.beta + ahead.negative / self.bound
            alpha, beta, self.guess = project_topk_simplex(
                alpha, beta, problem.k, guess=self.guess, out=(alpha, beta), return_thresholds=True
            )
            dual_direction = problem.combine(alpha, beta)
            if not self.backtracks or self._bounds(ahead, alpha, beta, dual_direction):
                return self._finish(alpha, beta, dual_direction)
            self.bound *= 2.0

    def _bounds(self, ahead: _Point, alpha: Vector, beta: Vector, dual_direction: Vector) -> bool:
        """Whether g stays under its upper model: |dv|^2/(m reg) + c|d alpha|^2 <= L |(d alpha, d beta)|^2."""
        moved, moved_alpha = dual_direction - ahead.dual_direction, alpha - ahead.alpha
        moved_beta = beta - ahead.beta
        alphas, betas = float(moved_alpha @ moved_alpha), float(moved_beta @ moved_beta)
        curvature = float(moved @ moved) / self.problem.ridge
        curvature += self.problem.loss.conjugate_smoothness * alphas
        return curvature <= self.bound * (alphas + betas) * (1.0 + 1e-12)


def _points_back(ahead: _Point, reached: _Point, at: _Point) -> bool:
    """Gradient scheme of O'Donoghue and Candes: (y - x) . (x - x before) > 0."""
    along = float((ahead.alpha - reached.alpha) @ (reached.alpha - at.alpha))
    return along + float((ahead.beta - reached.beta) @ (reached.beta - at.beta)) > 0.0
