"""Newton directions from reductions over blocks.

The generalised Hessian is that of `_newton_system.py`. Few features: it is formed from the Gram matrices of active and
free rows and factored. Of very many rows a fair part stands for all: the gradient stays exact, so that the step is one
of descent, and it is a Newton step up to a few per cent. Many features: conjugate gradients, a round a product.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from taufpl.operators import add_square
from taufpl.operators.remote import DeferredReduction, Sums
from taufpl.problem.remote._problem import BlockRankingProblem, Point, Totals
from taufpl.problem.remote._tasks import Curvature, HessianProduct, RowSums, Squares
from taufpl.projection import Thresholds
from taufpl.projection.remote._distributed import Projection
from taufpl.solvers._block_model import BlockModel, scaled_moments
from taufpl.solvers._moments import Moments
from taufpl.solvers._newton_system import conjugate_gradients, solve_dense
from taufpl.solvers._smoothing import rank_one

Vector = NDArray[np.float64]

# A Gram matrix of so many rows a feature, and so many in any case, is accurate to two or three per cent.
_ROWS_PER_FEATURE = 2000
_LEAST_ROWS = 50_000
# Negatives that the piecewise model follows: in terms of features, and at most so many rows and values.
_NEAR_PER_FEATURE = 3
_MOST_NEAR = 6000
_MOST_NEAR_VALUES = 4_000_000


class BlockSystem:
    """The linear system at the current point.

    Parameters
    ----------
    problem : BlockRankingProblem
    totals : Totals
    factored : bool
        Whether H is formed.
    """

    def __init__(self, problem: BlockRankingProblem, totals: Totals, *, factored: bool) -> None:
        self.problem = problem
        self.factored = factored
        means = (totals.positive / problem.n_positive, totals.negative / problem.n_negative)
        empty = np.zeros((problem.n_features, problem.n_features)) if factored else np.zeros((0, 0))
        self._active, self._free = (Moments(0, mean, empty) for mean in means)
        self._diagonals: tuple[Vector, Vector] | None = None
        self.point: Point | None = None

    def task(self, projection: Projection, counts: tuple[int, int, int]) -> DeferredReduction:
        """What to ask blocks for; the counts of the classes need only be about right."""
        if not self.factored:
            return RowSums(projection)
        most = self._most_rows()
        strides = (max(1, counts[0] // most), max(1, counts[1] // most))
        return Curvature(projection, (self._active.mean, self._free.mean), strides)

    def take(self, point: Point, found: Sums) -> None:
        """Take in what blocks have answered."""
        self.point = point
        n_active, n_free, _ = point.counts
        n_rows = self.problem.blocks.shape[0]
        if self.factored:
            taken = found[0]
            self._active = scaled_moments(n_active, taken[0], self._active.mean, found[1], found[2])
            self._free = scaled_moments(n_free, taken[1], self._free.mean, found[3], found[4])
            self.problem.blocks.count(2.0 * float(taken.sum()) / n_rows)
        else:
            self._active = Moments(n_active, found[0] / max(1, n_active), self._active.gram)
            self._free = Moments(n_free, found[1] / max(1, n_free), self._free.gram)
            self.problem.blocks.count((n_active + n_free) / n_rows)

    def refresh(self, point: Point) -> None:
        """Ask blocks at a point that was weighed already."""
        self.take(point, self.problem.blocks.reduce(self.task(point.projection, point.counts)))

    def direction(self, point: Point, sigma: float, gradient: Vector, enough: float) -> Vector:
        """-H^-1 gradient; by conjugate gradients only so far that ``|gradient|^2 <= enough`` can be hoped for."""
        problem = self.problem
        n_capped = point.counts[2]
        counts = (self._active.count, self._free.count, n_capped)
        means = (self._active.mean, self._free.mean, point.at_cap / max(1, n_capped))
        last = rank_one(counts, means, problem.k, sigma * problem.curvature)
        if not self.factored:
            return self._krylov(point, sigma, gradient, enough, last)
        hessian = self._active.gram * (1.0 / problem.curvature)
        if self._free.count:
            hessian += sigma * self._free.gram
        if last is not None:
            add_square(hessian, sigma * last[1], last[0])
        np.einsum("ii->i", hessian)[:] += problem.ridge
        return solve_dense(hessian, gradient)

    def _krylov(
        self, point: Point, sigma: float, gradient: Vector, enough: float, last: tuple[Vector, float] | None
    ) -> Vector:
        problem, active, free = self.problem, self._active, self._free
        share = 2.0 * (active.count + free.count) / problem.blocks.shape[0]

        def product(vector: Vector) -> Vector:
            up, down, up_sum, down_sum = problem.blocks.reduce(HessianProduct(point.projection, vector))
            problem.blocks.count(share)
            out = problem.ridge * vector
            out += (up - active.mean * up_sum) / problem.curvature
            if free.count:
                out += sigma * (down - free.mean * down_sum)
            if last is not None:
                out += (sigma * last[1] * float(last[0] @ vector)) * last[0]
            return out

        forcing = 0.5 * math.sqrt(enough / max(float(gradient @ gradient), 1e-300))
        inverse = 1.0 / self._diagonal(sigma)
        return -conjugate_gradients(product, lambda r: inverse * r, gradient, min(max(forcing, 0.1), 0.5))

    def _diagonal(self, sigma: float) -> Vector:
        """As if active and free rows were a fair sample of their kind."""
        problem = self.problem
        if self._diagonals is None:
            positive, negative = problem.blocks.reduce(Squares())
            problem.blocks.count(1.0)
            self._diagonals = (positive / problem.n_positive, negative / problem.n_negative)
        positive, negative = self._diagonals
        diagonal = positive * (self._active.count / problem.curvature)
        diagonal += negative * (self._free.count * sigma)
        diagonal += problem.ridge
        return diagonal

    def by_model(
        self, point: Point, sigma: float, gradient: Vector, enough: float, t: float, steps: int
    ) -> tuple[Vector, Thresholds]:
        """The way to the minimum of the piecewise model, and the thresholds there."""
        d = self.problem.n_features
        size = min(_NEAR_PER_FEATURE * d + 50, _MOST_NEAR, max(200, _MOST_NEAR_VALUES // d))
        shifts = (self._active.mean, self._free.mean)
        model = BlockModel(self.problem, sigma, point, t, size, shifts, self._most_rows())
        step, _ = model.minimise(point.coef, gradient, enough, steps)
        return step, model.now.thresholds

    def _most_rows(self) -> int:
        return max(_LEAST_ROWS, _ROWS_PER_FEATURE * self.problem.n_features)

    def foresee(self, point: Point, sigma: float, step: Vector) -> Thresholds | None:
        """Thresholds after a full step if no row changed its class: three linear equations.

        ::

            C = sum_A (alpha0 - u)    (1 - |D|/k) C = sum_F (beta0 - mu)    a u + mu + sum_D (beta0 - mu - C/k) / k = 0
        """
        now, problem = point.projection.thresholds, self.problem
        if not now.total > 0:
            return None
        n_active, n_free, n_capped = point.counts
        k, weight = problem.k, sigma * problem.curvature
        share = 1.0 - n_capped / k
        matrix = np.array([[n_active, 0.0, 1.0], [0.0, n_free, share], [weight, share, -n_capped / k**2]])
        pulls = (self._active.mean @ step, self._free.mean @ step, point.at_cap @ step)
        right = [-n_active * pulls[0] / problem.curvature, sigma * n_free * pulls[1], -sigma / k * pulls[2]]
        u, mu, total = map(float, np.linalg.lstsq(matrix, np.array(right), rcond=None)[0])
        moved = (abs(u), abs(mu), abs(mu + total / k))
        before = now.widths
        widths = tuple(max(0.25 * step, 0.5 * width) for step, width in zip(moved, before, strict=True))
        cap = now.cap + total / k
        if not (cap > 0 and math.isfinite(u + mu + total)):
            return now
        return Thresholds(now.lam + weight * u, now.mu + mu, cap, k * cap, (widths[0], widths[1], widths[2]))
