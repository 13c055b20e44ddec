"""A piecewise quadratic model of psi that needs only a few rows.

psi is quadratic as long as no entry of alpha or beta changes its class: alpha zero or active, beta zero, free or
capped. A Newton step minimises that quadratic; where many rows lie near a change of class it does not get far. The
model here follows such rows, the *working set*, exactly, and holds all others in the class that they have now. What
a class held fixed contributes depends on its moments alone: its count, mean row and Gram matrix. So the model can be
minimised by many Newton steps of its own, at the cost of one or two over all rows. At the point where it is made, model
and psi agree in value and gradient, and both are convex: the minimiser of the model lies in a direction of descent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taufpl.operators import add_square
from taufpl.problem import RankingProblem
from taufpl.projection import Thresholds
from taufpl.projection._project import project_topk_simplex_into
from taufpl.solvers._line_search import line_search
from taufpl.solvers._moments import Moments, RunningMoments
from taufpl.solvers._newton_system import solve_dense
from taufpl.solvers._smoothing import Maximiser, Rows, Smoothing, Vector, rank_one

_LEAST_STEP = 1e-9


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers that shape psi: its sigma, the curvature and slope of the loss's conjugate, and the ridge m reg."""

    sigma: float
    curvature: float
    slope: float
    ridge: float

    @classmethod
    def of(cls, smoothing: Smoothing) -> Shape:
        """Read them off."""
        problem = smoothing.problem
        return cls(smoothing.sigma, smoothing.curvature, problem.loss.conjugate_slope, problem.ridge)

    @property
    def weight(self) -> float:
        """Weight of alpha in the projection."""
        return self.sigma * self.curvature


@dataclass(frozen=True, slots=True)
class Held:
    """Rows held in a class whose entries are ``target_i + rate x_i . delta - threshold``.

    Attributes
    ----------
    moments : Moments
    target : float
        Mean target of the projection at delta = 0.
    rate : float
        How fast targets follow the scores.
    dual_direction : ndarray
        Sum of entry times row at delta = 0.
    """

    moments: Moments
    target: float
    rate: float
    dual_direction: Vector

    def target_at(self, delta: Vector) -> float:
        """Mean target at w + delta."""
        return self.target + self.rate * float(self.moments.mean @ delta)

    def pull_at(self, delta: Vector, shift: float) -> Vector:
        """Sum of entry times row at w + delta, when the threshold has grown by shift."""
        count, mean = self.moments.count, self.moments.mean
        moved = self.rate * float(mean @ delta) - shift
        return self.dual_direction + self.rate * (self.moments.gram @ delta) + (count * moved) * mean

    def pull_along(self, step: Vector, delta: Vector) -> tuple[float, float, float]:
        """Constant, slope in t, and slope in the shift, of step . pull_at(delta + t step, shift)."""
        along = self.moments.count * float(self.moments.mean @ step)
        image = self.rate * (self.moments.gram @ step + along * self.moments.mean)
        return float(self.dual_direction @ step + image @ delta), float(image @ step), -along


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Indices among positives and negatives that the model follows, and those that it holds in a class."""

    positive: Rows
    negative: Rows
    active: Rows
    free: Rows
    capped: Rows

    @classmethod
    def nearest(
        cls,
        smoothing: Smoothing,
        maximiser: Maximiser,
        mobility: tuple[Vector, Vector],
        size: int,
    ) -> WorkingSet:
        """The `size` negatives nearest to a change of class, and as many positives at most that are as near.

        A row's distance is the change of its score that it takes, divided by how much its score has moved in the steps
        before: features of very different scales make the norm of a row a bad judge of that. All free rows are near as
        long as they do not fill half of the set.
        """
        alpha, beta, thresholds = maximiser.alpha, maximiser.beta, maximiser.thresholds
        targets = smoothing.targets
        away = np.abs(targets[1] - thresholds.mu)
        np.minimum(away, np.abs(targets[1] - (thresholds.mu + thresholds.cap)), out=away)
        away /= smoothing.sigma * mobility[1]
        is_loaded = beta > 0
        is_capped = is_loaded & (beta >= thresholds.cap)
        is_free = is_loaded & ~is_capped
        if 2 * np.count_nonzero(is_free) <= size:
            away[is_free] = 0.0
        negative = _smallest(away, size)
        reach = away[negative].max()
        near = np.abs(targets[0] - thresholds.lam / smoothing.weight) * smoothing.curvature / mobility[0]
        positive = _smallest(near, size)
        positive = positive[near[positive] <= reach]
        is_active = alpha > 0
        is_active[positive] = is_free[negative] = is_capped[negative] = False
        held = (np.flatnonzero(x) for x in (is_active, is_free, is_capped))
        return cls(positive, negative, *held)


class FrozenModel:
    """The model at one point of the solver.

    The loop of :meth:`minimise`, which reads the working set only:

    1. direction: form the generalised Hessian from held and followed rows, factor it, solve;
    2. scores of the direction for the followed rows;
    3. line search on the model's slope, which stays inside the region where held classes keep their members'
       mean in its class;
    4. gradient of the model at the new point; stop when it is small enough.
    """

    def __init__(
        self,
        smoothing: Smoothing,
        chosen: WorkingSet,
        scores: tuple[Vector, Vector],
        maximiser: Maximiser,
        dual_direction: Vector,
        running: tuple[RunningMoments, RunningMoments],
    ) -> None:
        problem, thresholds = smoothing.problem, maximiser.thresholds
        self.shape = Shape.of(smoothing)
        self.k = problem.k
        self.start = thresholds
        self.guess = thresholds
        self.n_positive = len(chosen.positive)
        followed = np.concatenate((problem.positive_rows[chosen.positive], problem.negative_rows[chosen.negative]))
        self.rows = problem.operator.take_rows(followed)
        self.positive_scores = scores[0][chosen.positive]
        self.negative_scores = scores[1][chosen.negative]
        self.centre = smoothing.centre[chosen.negative]
        self.now = Maximiser(maximiser.alpha[chosen.positive], maximiser.beta[chosen.negative], thresholds)
        # The last step length that was tried, with scores and maximiser there: mostly the one that is taken.
        self.tried: tuple[float, Vector, Vector, Maximiser | None] = (0.0, *scores, None)
        self._hold_capped(smoothing, chosen.capped, scores[1])
        self.free = self._hold_free(smoothing, chosen.free, scores[1], maximiser.beta, running[1])
        self.active = self._hold_active(problem, chosen.active, scores[0], dual_direction, running[0])

    def _hold_capped(self, smoothing: Smoothing, capped: Rows, scores: Vector) -> None:
        problem = smoothing.problem
        self.n_capped = len(capped)
        self.capped_mean = np.zeros(problem.n_features)
        self.capped_target = 0.0
        if self.n_capped:
            weights = np.full(self.n_capped, 1.0 / self.n_capped)
            self.capped_mean = problem.operator.rmatvec_rows(weights, problem.negative_rows[capped])
            self.capped_target = _mean_target(smoothing, scores, capped)

    def _hold_free(
        self, smoothing: Smoothing, free: Rows, scores: Vector, beta: Vector, running: RunningMoments
    ) -> Held:
        problem = smoothing.problem
        rows = problem.negative_rows[free]
        dual_direction = problem.operator.rmatvec_rows(beta[free], rows) if len(rows) else np.zeros(problem.n_features)
        target = _mean_target(smoothing, scores, free)
        return Held(running.update(np.sort(rows)), target, smoothing.sigma, dual_direction)

    def _hold_active(
        self, problem: RankingProblem, active: Rows, scores: Vector, dual_direction: Vector, running: RunningMoments
    ) -> Held:
        """What is left of the whole sum belongs to the positives that are held: their rows need not be read."""
        dual_direction = (
            dual_direction - self._followed_direction(self.now.alpha, self.now.beta) + self.free.dual_direction
        )
        dual_direction += (self.start.cap * self.n_capped) * self.capped_mean
        rate = -1.0 / self.shape.curvature
        target = -rate * (self.shape.slope - _mean(scores[active]))
        return Held(running.update(np.sort(problem.positive_rows[active])), target, rate, dual_direction)

    def minimise(self, coef: Vector, gradient: Vector, enough: float, max_iter: int) -> tuple[Vector, int]:
        """Go from w until |gradient|^2 <= enough; return the way gone and the number of steps."""
        ridge = self.shape.ridge
        delta = np.zeros_like(coef)
        n_iter = 0
        while n_iter < max_iter and float(gradient @ gradient) > enough:
            step = self._direction(gradient)
            moves = self.rows.matvec(step)
            t = self._search(step, moves, delta, coef, float(gradient @ step))
            if not t > _LEAST_STEP:
                break
            if t != self.tried[0]:
                self._try(t, step, moves, delta)
            _, positive, negative, now = self.tried
            if now is None:
                break
            delta = delta + t * step
            self.positive_scores, self.negative_scores, self.now = positive, negative, now
            gradient = ridge * (coef + delta) - self._pull(delta, now)
            n_iter += 1
        return delta, n_iter

    def _maximise(self, delta: Vector, positive: Vector, negative: Vector) -> Maximiser | None:
        """Project; a held class enters as often as it has rows, each with their mean. None if one changes class."""
        shape = self.shape
        n_active, n_free = self.active.moments.count, self.free.moments.count
        free_end = len(negative) + n_free
        alpha = np.empty(len(positive) + n_active)
        beta = np.empty(free_end + self.n_capped)
        alpha[: len(positive)] = (shape.slope - positive) / shape.curvature
        alpha[len(positive) :] = self.active.target_at(delta)
        beta[: len(negative)] = self.centre + shape.sigma * negative
        beta[len(negative) : free_end] = self.free.target_at(delta)
        beta[free_end:] = self.capped_target + shape.sigma * float(self.capped_mean @ delta)
        if not np.isfinite(alpha.sum() + beta.sum()):
            return None
        pair = (np.empty_like(alpha), np.empty_like(beta))
        self.guess = project_topk_simplex_into(alpha, beta, self.k, shape.weight, self.guess, pair)
        alpha, beta = pair
        cap = self.guess.cap
        inside = (
            (n_active == 0 or alpha[-1] > 0)
            and (n_free == 0 or 0 < beta[free_end - 1] < cap)
            and (self.n_capped == 0 or beta[-1] >= cap)
        )
        return Maximiser(alpha[: len(positive)], beta[: len(negative)], self.guess) if inside else None

    def _try(self, t: float, step: Vector, moves: Vector, delta: Vector) -> Maximiser | None:
        """The maximiser at a step length."""
        positive = self.positive_scores + t * moves[: self.n_positive]
        negative = self.negative_scores + t * moves[self.n_positive :]
        now = self._maximise(delta + t * step, positive, negative)
        self.tried = (t, positive, negative, now)
        return now

    def _shifts(self, thresholds: Thresholds) -> tuple[float, float]:
        """How far the thresholds of alpha and of beta have moved since the model was made."""
        return (thresholds.lam - self.start.lam) / self.shape.weight, _difference(thresholds.mu, self.start.mu)

    def _followed_direction(self, alpha: Vector, beta: Vector) -> Vector:
        weights = np.concatenate((alpha, -beta))
        rows = np.flatnonzero(weights)
        return self.rows.rmatvec_rows(weights[rows], rows)

    def _pull(self, delta: Vector, now: Maximiser) -> Vector:
        """X+' alpha - X-' beta in the model."""
        shift_active, shift_free = self._shifts(now.thresholds)
        total = self._followed_direction(now.alpha, now.beta)
        if self.active.moments.count:
            total += self.active.pull_at(delta, shift_active)
        if self.free.moments.count:
            total -= self.free.pull_at(delta, shift_free)
        total -= (now.thresholds.cap * self.n_capped) * self.capped_mean
        return total

    def _search(self, step: Vector, moves: Vector, delta: Vector, coef: Vector, slope_at_zero: float) -> float:
        if not slope_at_zero < 0:
            return 0.0
        ridge = self.shape.ridge
        moves_positive, moves_negative = moves[: self.n_positive], moves[self.n_positive :]
        active, free = self.active.pull_along(step, delta), self.free.pull_along(step, delta)
        capped = self.n_capped * float(self.capped_mean @ step)
        linear, quadratic = ridge * float((coef + delta) @ step), ridge * float(step @ step)

        def slope(t: float) -> float | None:
            now = self._try(t, step, moves, delta)
            if now is None:
                return None
            shift_active, shift_free = self._shifts(now.thresholds)
            pulled = float(now.alpha @ moves_positive) - float(now.beta @ moves_negative)
            if self.active.moments.count:
                pulled += active[0] + t * active[1] + shift_active * active[2]
            if self.free.moments.count:
                pulled -= free[0] + t * free[1] + shift_free * free[2]
            return linear + t * quadratic - pulled + now.thresholds.cap * capped

        return line_search(slope, slope_at_zero)

    def _direction(self, gradient: Vector) -> Vector:
        """Newton direction of the model at the current maximiser."""
        now, shape = self.now, self.shape
        cap = now.thresholds.cap
        loaded = np.flatnonzero(now.beta)
        at_cap = now.beta[loaded] >= cap
        active = self._with_held(self.active, np.flatnonzero(now.alpha))
        free = self._with_held(self.free, loaded[~at_cap] + self.n_positive)
        capped_rows = loaded[at_cap] + self.n_positive
        n_capped = self.n_capped + len(capped_rows)
        capped_mean = self.n_capped * self.capped_mean
        if len(capped_rows):
            capped_mean = capped_mean + self.rows.rmatvec_rows(np.ones(len(capped_rows)), capped_rows)
        capped_mean = capped_mean / max(n_capped, 1)

        hessian = active.gram * (1.0 / shape.curvature)
        if free.count:
            hessian += shape.sigma * free.gram
        last = rank_one(
            (active.count, free.count, n_capped), (active.mean, free.mean, capped_mean), self.k, shape.weight
        )
        if last is not None:
            z, inverse_rho = last
            add_square(hessian, shape.sigma * inverse_rho, z)
        np.einsum("ii->i", hessian)[:] += shape.ridge
        return solve_dense(hessian, gradient)

    def _with_held(self, held: Held, rows: Rows) -> Moments:
        return held.moments.joined(Moments.of(self.rows, rows)) if len(rows) else held.moments


def _smallest(values: Vector, count: int) -> Rows:
    """Indices of the smallest values, in order of the index."""
    if count >= len(values):
        return np.arange(len(values))
    return np.sort(np.argpartition(values, count - 1)[:count])


def _mean(values: Vector) -> float:
    return float(values.mean()) if len(values) else 0.0


def _mean_target(smoothing: Smoothing, scores: Vector, rows: Rows) -> float:
    return _mean(smoothing.centre[rows]) + smoothing.sigma * _mean(scores[rows])


def _difference(now: float, before: float) -> float:
    # Both are -inf while every entry is at its cap, and then no entry is free.
    return now - before if np.isfinite(now) and np.isfinite(before) else 0.0
