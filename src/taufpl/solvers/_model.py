"""A piecewise quadratic model of psi that needs only a few rows.

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
from dataclasses import dataclass

import numpy as np

from taufpl._types import Vector
from taufpl.problem import RunningMoments, WorkingSet, newton_direction
from taufpl.projection import Thresholds, project_topk_simplex_into

_LEAST_STEP = 1e-9
# A line search tries no step closer to an end of its bracket than this share of it.
_MARGIN = 0.05


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
