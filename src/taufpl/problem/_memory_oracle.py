"""The oracle over rows in memory: the compiled projection on whole vectors."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from taufpl._types import RowIndices, Vector
from taufpl.problem._oracle import HeldRows, KrylovEffort, KrylovSystem, Oracle, Point, RunningMoments, WorkingSet
from taufpl.projection import Thresholds, project_topk_simplex_into

if TYPE_CHECKING:
    from taufpl.problem._ranking import RankingProblem

Pair = tuple[Vector, Vector]

_KEY = "oracle"
# The movement of a row's score in past steps fades by this factor, squared, from step to step.
_FADING = 0.8
# Share of the negatives that a working set has at least: the steps of the solver would otherwise grow with the rows.
_LEAST_FOLLOWED = 0.015
# H is formed and factored for few features, and for more where that costs no more arithmetic than this many passes.
_FEW_FEATURES = 1000
_MOST_FEATURES = 5000
_FACTOR_PASSES = 40.0


@dataclass(frozen=True, slots=True)
class _Kept:
    """The end of a solve, without the problem: `RankingProblem.kept` must not keep the rows alive."""

    k: int
    coef: Vector
    scores: Pair
    alpha: Vector
    beta: Vector
    squared_norm: float
    running: tuple[RunningMoments, RunningMoments] | None
    mobility: Pair


class BestPair:
    """The feasible pair with the highest dual value so far, at its best scale; (0, 0), where D = -l*(0), at first."""

    def __init__(self, problem: RankingProblem) -> None:
        self.problem = problem
        self.alpha: Vector = np.zeros(problem.n_positive)
        self.beta: Vector = np.zeros(problem.n_negative)
        self.squared_norm = 0.0
        self.dual = -float(problem.loss.conjugate(np.zeros(1))[0])

    def see(self, alpha: Vector, beta: Vector, squared_norm: float) -> float:
        """Keep a pair if it is the best so far; return its best scale. The norm is that of its dual direction."""
        value, theta = self.problem.dual(alpha, squared_norm)
        if value > self.dual:
            self.dual, self.squared_norm = value, theta * theta * squared_norm
            np.multiply(alpha, theta, out=self.alpha)
            np.multiply(beta, theta, out=self.beta)
        return theta


class MemoryOracle(Oracle):
    """psi over the rows of one operator; buffers of targets and of the pair are overwritten by the next ones.

    What it knows at the end of a solve stays with the rows (`RankingProblem.kept`), so that a warm start there reads no
    row again: scores, moments and the norm of the dual direction are taken over where they belong to the given start.
    """

    model_is_cheap = True

    def __init__(self, problem: RankingProblem) -> None:
        super().__init__(problem)
        self.problem = problem
        self.factored = prefers_factoring(problem)
        self.best = BestPair(problem)
        self.guess: Thresholds | None = None
        sizes = (problem.n_positive, problem.n_negative)
        self.targets: Pair = (np.empty(sizes[0]), np.empty(sizes[1]))
        self.alpha, self.beta = np.empty(sizes[0]), np.empty(sizes[1])
        # How far scores have moved in the last steps, squared.
        self.mobility: Pair = (np.full(sizes[0], 1e-300), np.full(sizes[1], 1e-300))
        self.running: tuple[RunningMoments, RunningMoments] | None = None
        self._squares: Pair | None = None
        self._effort = KrylovEffort()

    def start(self, start: Any | None, sigma: float) -> None:
        """Go to w = 0 with the even pair, or to a result, whose pair is made feasible and rescaled."""
        problem = self.problem
        if start is None:
            total = -float(problem.loss.derivative(np.zeros(1))[0]) * problem.n_positive
            self.coef = np.zeros(problem.n_features)
            self.scores: Pair = (np.zeros(problem.n_positive), np.zeros(problem.n_negative))
            self.centre = np.full(problem.n_negative, total / problem.n_negative)
            self.sigma = sigma * total / problem.k
        else:
            self._start_warm(start, sigma)
        self._move()

    def _start_warm(self, start: Any, sigma: float) -> None:
        problem, kept = self.problem, self.problem.kept.get(_KEY)
        sizes, given = (problem.n_positive, problem.n_negative), (np.size(start.alpha), np.size(start.beta))
        if given != sizes:
            raise ValueError(
                f"start must have a pair of {sizes[0]} and {sizes[1]} entries, got {given[0]} and {given[1]}."
            )
        before = kept if isinstance(kept, _Kept) else None
        if before is not None:
            self.running = None if before.running is None else (copy(before.running[0]), copy(before.running[1]))
            self.mobility = before.mobility[0].copy(), before.mobility[1].copy()
        if (
            before is not None
            and before.k == problem.k
            and np.array_equal(before.alpha, start.alpha)
            and np.array_equal(before.beta, start.beta)
        ):
            alpha, beta, squared = start.alpha, start.beta, before.squared_norm
        else:
            alpha, beta = np.empty_like(self.alpha), np.empty_like(self.beta)
            project_topk_simplex_into(start.alpha, start.beta, problem.k, 1.0, None, (alpha, beta))
            dual_direction = problem.combine(alpha, beta)
            squared = float(dual_direction @ dual_direction)
        self.centre = self.best.see(alpha, beta, squared) * beta
        self.coef = start.coef.copy()
        if before is not None and np.array_equal(before.coef, start.coef):
            self.scores = before.scores[0].copy(), before.scores[1].copy()
        else:
            positive, negative = problem.scores(self.coef)
            self.scores = positive.copy(), negative.copy()
        cap = max(float(self.centre.sum()), 1e-300) / problem.k
        self.sigma = self.warm_sigma(sigma * cap, cap, start.sigma)

    def finish(self) -> Pair:
        """Leave what is known to the next solve on these rows; return a copy of the best pair."""
        best = self.best
        pair = (best.alpha, best.beta)
        end = (self.problem.k, self.coef, self.scores, *pair, best.squared_norm, self.running, self.mobility)
        self.problem.kept[_KEY] = _Kept(*end)
        return best.alpha.copy(), best.beta.copy()

    # Projections.

    def maximise(self, positive_scores: Vector, negative_scores: Vector) -> None:
        """Find the maximising pair at these scores; `targets` then holds (alpha0, beta0)."""
        alpha, beta = self.targets
        np.subtract(self.slope, positive_scores, out=alpha)
        alpha /= self.curvature
        np.multiply(negative_scores, self.sigma, out=beta)
        beta += self.centre
        pair = (self.alpha, self.beta)
        self.guess = project_topk_simplex_into(alpha, beta, self.problem.k, self.weight, self.guess, pair)
        self.n_projections += 1

    @property
    def thresholds(self) -> Thresholds:
        """Thresholds of the last projection."""
        assert self.guess is not None
        return self.guess

    def step(self, direction: Vector, expected: Thresholds | None) -> None:
        """Take the scores of a step. The last thresholds serve as guess as well as those expected."""
        self._direction = direction
        self._moves = self.problem.scores(direction)

    def project(self, t: float) -> float:
        self._tried = t
        (positive, negative), (up, down) = self.scores, self._moves
        self.maximise(positive + t * up, negative + t * down)
        return float(self.alpha @ up) - float(self.beta @ down)

    def accept(self, t: float) -> None:
        if t > 0:
            self.coef = self.coef + t * self._direction
            for scores, moves, mobility in zip(self.scores, self._moves, self.mobility, strict=True):
                scores += t * moves
                mobility *= _FADING
                mobility += np.square(t * moves)
        self._effort.see_step(t)
        self._move(projected=t == self._tried)

    def adapt(self, sigma: float, *, recentre: bool, curvature: bool) -> None:
        if recentre:
            np.copyto(self.centre, self.beta)
        self.sigma = sigma
        self.maximise(*self.scores)
        self._evaluate(self.point.primal)

    def _move(self, *, projected: bool = False) -> None:
        if not projected:
            self.maximise(*self.scores)
        problem, (positive, negative) = self.problem, self.scores
        self._evaluate(problem.primal(positive, problem.top_mean(negative), float(self.coef @ self.coef)))

    def _evaluate(self, primal: float) -> None:
        problem = self.problem
        dual_direction = problem.combine(self.alpha, self.beta)
        squared = float(dual_direction @ dual_direction)
        self.best.see(self.alpha, self.beta, squared)
        conjugates = float(problem.loss.conjugate(self.alpha).sum())
        plain = -(squared / (2.0 * problem.ridge) + conjugates) / problem.n_positive
        self.point = Point(self.coef, dual_direction, self.thresholds.total, primal, 0.0, self.best.dual, plain)

    # The generalised Hessian.

    def newton_step(self, gradient: Vector, enough: float) -> tuple[Vector, Thresholds | None]:
        """-H^-1 gradient by conjugate gradients."""
        problem = self.problem
        if self._squares is None:
            rows = ((problem.positive_rows, problem.n_positive), (problem.negative_rows, problem.n_negative))
            positive, negative = (problem.operator.column_squares(chosen) / count for chosen, count in rows)
            self._squares = positive, negative
        return KrylovSystem(self).solve(gradient, enough, self._squares, self._effort), None

    def working_set(self, size: int) -> WorkingSet:
        return self.nearest(max(size, int(_LEAST_FOLLOWED * self.problem.n_negative) + 50))

    def nearest(self, size: int) -> WorkingSet:
        """The `size` negatives nearest to a change of class, and as many positives at most that are as near.

        A row's distance is the change of its score that it takes, divided by how much its score has moved in the steps
        before: features of very different scales make the norm of a row a bad judge of that. All free rows are near as
        long as they do not fill half of the set.
        """
        alpha, beta, now = self.alpha, self.beta, self.thresholds
        away = np.abs(self.targets[1] - now.mu)
        np.minimum(away, np.abs(self.targets[1] - (now.mu + now.cap)), out=away)
        away /= self.sigma * np.sqrt(self.mobility[1])
        is_loaded = beta > 0
        is_capped = is_loaded & (beta >= now.cap)
        is_free = is_loaded & ~is_capped
        if 2 * np.count_nonzero(is_free) <= size:
            away[is_free] = 0.0
        negative = _smallest(away, size)
        near = np.abs(self.targets[0] - now.lam / self.weight) * self.curvature / np.sqrt(self.mobility[0])
        positive = _smallest(near, size)
        positive = positive[near[positive] <= away[negative].max()]
        is_active = alpha > 0
        is_active[positive] = is_free[negative] = is_capped[negative] = False
        held = [np.flatnonzero(x) for x in (is_active, is_free, is_capped)]
        return self._describe(positive, negative, held)

    def _describe(self, positive: RowIndices, negative: RowIndices, held: list[RowIndices]) -> WorkingSet:
        problem, operator, now = self.problem, self.problem.operator, self.thresholds
        active, free, capped = held
        if self.running is None:
            self.running = (RunningMoments(operator), RunningMoments(operator))
        rows = (problem.positive_rows, problem.negative_rows)
        followed = operator.take_rows(np.concatenate((rows[0][positive], rows[1][negative])))
        alpha, beta = self.alpha[positive], self.beta[negative]
        capped_sum = _sum_rows(operator, rows[1][capped], np.ones(len(capped)))
        free_direction = _sum_rows(operator, rows[1][free], self.beta[free])
        # What is left of the whole sum belongs to the positives that are held: their rows need not be read.
        weights = np.concatenate((alpha, -beta))
        loaded = np.flatnonzero(weights)
        active_direction = self.point.dual_direction - followed.rmatvec_rows(weights[loaded], loaded) + free_direction
        active_direction += now.cap * capped_sum
        moments = [self.running[i].update(np.sort(rows[i][chosen])) for i, chosen in enumerate((active, free))]
        targets = [_mean(self.targets[0][active]), *(_mean(self.targets[1][chosen]) for chosen in (free, capped))]
        return WorkingSet(
            followed, self.scores[0][positive], self.scores[1][negative], alpha, beta, self.centre[negative], now,
            HeldRows(moments[0], targets[0], -1.0 / self.curvature, active_direction),
            HeldRows(moments[1], targets[1], self.sigma, free_direction),
            len(capped), capped_sum / max(1, len(capped)), targets[2],
            problem.k, self.sigma, self.curvature, self.slope, problem.ridge,
        )  # fmt: skip


def prefers_factoring(problem: RankingProblem) -> bool:
    """Whether a d x d matrix is cheap beside the products with the data, and beside one of the rows with weight."""
    d = problem.n_features
    if problem.operator.knows_row_gram:
        return False
    if d <= _FEW_FEATURES:
        return True
    return d <= _MOST_FEATURES and d**3 / 3.0 <= _FACTOR_PASSES * problem.operator.n_stored()


def _smallest(values: Vector, count: int) -> RowIndices:
    """Indices of the smallest values, in order of the index."""
    if count >= len(values):
        return np.arange(len(values))
    return np.sort(np.argpartition(values, count - 1)[:count])


def _mean(values: Vector) -> float:
    return float(values.mean()) if len(values) else 0.0


def _sum_rows(operator: Any, rows: RowIndices, weights: Vector) -> Vector:
    return np.asarray(operator.rmatvec_rows(weights, rows)) if len(rows) else np.zeros(operator.shape[1])
