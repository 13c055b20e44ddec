"""Newton directions and working sets from reductions over blocks.

The generalised Hessian is that of `problem/_oracle.py`. Few features: it is formed from the Gram matrices of active
and free rows. Of very many rows a fair part stands for all: the gradient stays exact, so that the step is one of
descent, and it is a Newton step up to a few per cent. Many features: conjugate gradients, a round a product.
"""

from __future__ import annotations

import math

import numpy as np

from taufpl._types import Matrix, Vector
from taufpl.operators import as_operator, stacked
from taufpl.operators.remote import DeferredReduction, Sums
from taufpl.problem._krylov import estimated_diagonal, krylov_direction
from taufpl.problem._oracle import HeldRows, Moments, Oracle, WorkingSet, newton_direction, rank_one
from taufpl.problem.remote._problem import BlockPoint, BlockRankingProblem, Totals
from taufpl.problem.remote._tasks import Curvature, HessianProduct, RowSums, Squares
from taufpl.problem.remote._working_set import HeldMoments, Near, NearRows
from taufpl.projection import Thresholds
from taufpl.projection.remote import Projection

# Features up to which H is formed and factored: its Gram matrices travel, from every block.
_MOST_FEATURES = 2000
# A Gram matrix of this many rows a feature, and of this many at least, is accurate to two or three per cent.
_ROWS_PER_FEATURE = 2000
_LEAST_ROWS = 50_000
# Rows and values of a working set that travel at most.
_MOST_NEAR = 6000
_MOST_NEAR_VALUES = 4_000_000


class BlockHessian(Oracle):
    """The half of the oracle that knows second derivatives, from moments of the active and of the free rows."""

    point: BlockPoint
    t: float

    def __init__(self, problem: BlockRankingProblem) -> None:
        super().__init__(problem)
        self.problem, self.blocks = problem, problem.blocks
        self.factored = problem.n_features <= _MOST_FEATURES
        self._most_rows = max(_LEAST_ROWS, _ROWS_PER_FEATURE * problem.n_features)
        self._squares: tuple[Vector, Vector] | None = None
        self._known_at: BlockPoint | None = None

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
