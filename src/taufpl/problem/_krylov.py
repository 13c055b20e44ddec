"""Newton directions by conjugate gradients, in which the generalised Hessian H of `_oracle.py` is only multiplied.

They are preconditioned by the diagonal of H, as long as that takes less time than the exact inverse from a matrix of
the size of the active and free rows (Woodbury); the iteration around this one only repairs the rounding that a tiny reg
brings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from taufpl._types import Matrix, RowIndices, Vector
from taufpl.problem._oracle import Oracle, factor_lower, rank_one, solve_factored

if TYPE_CHECKING:
    from taufpl.problem._memory_oracle import MemoryOracle

LinearMap = Callable[[Vector], Vector]

# Largest matrix that the Woodbury way may form.
_MOST_WOODBURY_ROWS = 2000
_MOST_ITERATIONS = 300
# Residuals at which conjugate gradients stop, beside the gradient; short steps lower the first, long ones raise it.
_LOOSE = 0.1
_LOOSEST = 0.5
_TIGHTEST = 1e-4
_TIGHTER = 0.4
_LOOSER = 3.0
_SHORT_STEP = 0.45
# After this many steps in a row that hardly move, conjugate gradients are expected to take this many iterations.
_STUCK_STEP = 0.1
_MOST_STUCK = 2
_HOPELESS = 1000.0
_EXACT = 1e-3
# An exact step leads further than one by conjugate gradients: they get this share of the time of the Woodbury way.
_PATIENCE = 0.5
# How fast the iterations that a system took are forgotten while the Woodbury way is gone.
_FORGETTING = 0.9


@dataclass(slots=True)
class KrylovEffort:
    """What the systems of a solve have taught so far: how exactly to solve, and how many iterations that takes.

    At a small reg, what conjugate gradients leave of a system lies where H curves least, and steps come out short: the
    next system is then solved further, and after steps that hardly moved, exactly if rows are few enough for that.
    """

    forcing: float = _LOOSE
    expected: float = 0.0
    n_stuck: int = 0

    def see_step(self, t: float) -> None:
        """Take note of a step length."""
        if t < _SHORT_STEP:
            self.forcing = max(_TIGHTER * self.forcing, _TIGHTEST)
        else:
            self.forcing = min(_LOOSER * self.forcing, _LOOSE)
        self.n_stuck = self.n_stuck + 1 if t < _STUCK_STEP else 0
        if self.n_stuck >= _MOST_STUCK:
            self.expected = max(self.expected, _HOPELESS)


def forcing_for(gradient: Vector, enough: float, least: float = _LOOSE) -> float:
    """Residual, beside the gradient, at which ``|gradient|^2 <= enough`` can be hoped for after the step."""
    wanted = 0.5 * math.sqrt(enough / max(float(gradient @ gradient), 1e-300))
    return min(max(wanted, least), _LOOSEST * least / _LOOSE)


def krylov_direction(product: LinearMap, diagonal: Vector, gradient: Vector, enough: float) -> Vector:
    """-H^-1 gradient by conjugate gradients, so far that ``|gradient|^2 <= enough`` can be hoped for.

    Preconditioned by a vector like the diagonal of H.
    """
    return -conjugate_gradients(product, lambda r: r / diagonal, gradient, forcing_for(gradient, enough))


def estimated_diagonal(oracle: Oracle, ridge: float, squares: tuple[Vector, Vector], counts: tuple[int, int]) -> Vector:
    """About the diagonal of H, as if A and F were fair samples of positives and negatives with these mean squares."""
    diagonal = squares[0] * (counts[0] / oracle.curvature)
    diagonal += squares[1] * (counts[1] * oracle.sigma)
    diagonal += ridge
    return diagonal


class KrylovSystem:
    """H at the pair of an oracle over rows in memory, as a product: nothing of size d x d.

    Xc' Xc p needs no centred rows: take the mean off the vector X p instead.
    """

    def __init__(self, oracle: MemoryOracle) -> None:
        problem, operator = oracle.problem, oracle.problem.operator
        loaded = np.flatnonzero(oracle.beta)
        at_cap = oracle.beta[loaded] >= oracle.thresholds.cap
        active, free = np.flatnonzero(oracle.alpha), loaded[~at_cap]
        self.oracle, self.operator, self.ridge = oracle, operator, problem.ridge
        self.n_active, self.n_free = len(active), len(free)
        self.rows = np.concatenate((problem.positive_rows[active], problem.negative_rows[free]))
        self.weights = np.repeat((1.0 / oracle.curvature, oracle.sigma), (self.n_active, self.n_free))
        # z = X' z_rows + z_rest, where the rest comes from the capped rows.
        self.z_rows = np.zeros(len(self.rows))
        self.z_rest = np.zeros(problem.n_features)
        self.z_weight = self._rank_one(problem.negative_rows[loaded[at_cap]])

    def _rank_one(self, capped_rows: RowIndices) -> float:
        """Set up z and return sigma/rho; 0 where the term is absent."""
        oracle, n_capped, (e0, e1, e2) = self.oracle, len(capped_rows), np.eye(3)
        k = oracle.problem.k
        last = rank_one((self.n_active, self.n_free, n_capped), (e0, e1, e2), k, oracle.weight)
        if last is None:
            return 0.0
        of_means, inverse_rho = last  # z in terms of the three means
        self.z_rows[: self.n_active] = of_means[0] / self.n_active
        self.z_rows[self.n_active :] = of_means[1] / max(1, self.n_free)
        if n_capped:
            self.z_rest = self.operator.rmatvec_rows(np.full(n_capped, of_means[2] / n_capped), capped_rows)
        return oracle.sigma * inverse_rho

    def centred(self, values: Matrix) -> Matrix:
        """Take off the mean of the active part and that of the free part, in place."""
        for part in (values[: self.n_active], values[self.n_active :]):
            if len(part):
                part -= part.mean(axis=0)
        return values

    def product(self, vector: Vector) -> Vector:
        """H p. Two products with the active and free rows."""
        inner = self.operator.matvec_rows(vector, self.rows)
        along = self.z_weight * (float(self.z_rows @ inner) + float(self.z_rest @ vector))
        self.centred(inner)
        inner *= self.weights
        inner += along * self.z_rows
        out = self.operator.rmatvec_rows(inner, self.rows)
        out += self.ridge * vector
        out += along * self.z_rest
        return out

    def solve(self, gradient: Vector, enough: float, squares: tuple[Vector, Vector], effort: KrylovEffort) -> Vector:
        """-H^-1 gradient; the mean squares of positives and negatives precondition conjugate gradients."""
        worth = self._iterations_worth_woodbury()
        if effort.expected < worth:
            diagonal = estimated_diagonal(self.oracle, self.ridge, squares, (self.n_active, self.n_free))
            forcing = forcing_for(gradient, enough, effort.forcing)
            most = _MOST_ITERATIONS if worth == math.inf else math.ceil(worth)
            step, n_iter, is_solved = _iterate(self.product, lambda r: r / diagonal, gradient, forcing, most)
            effort.expected = n_iter if is_solved else 2.0 * n_iter
            if is_solved or worth == math.inf:
                return -step
        else:
            effort.expected *= _FORGETTING
        return -conjugate_gradients(self.product, self._woodbury(), gradient, _EXACT)

    def _iterations_worth_woodbury(self) -> float:
        """Iterations of conjugate gradients to try before the Woodbury way; infinitely many where it is closed.

        The numbers are nanoseconds, measured: calls around the arithmetic, a pass over a matrix of the size of the
        rows, its factorisation, inner products of rows; and of an iteration, calls, features and stored values.
        """
        n_rows, n_features = len(self.rows), len(self.z_rest)
        if n_rows > min(n_features, _MOST_WOODBURY_ROWS):
            return math.inf
        if self.operator.knows_row_gram:
            return 0.0
        n_stored = self.operator.n_stored(self.rows)
        woodbury = 3e5 + 8.0 * n_rows**2 + n_rows**3 / 90.0 + n_rows * n_stored / 35.0
        return _PATIENCE * woodbury / (7.5e4 + 4.0 * n_features + 2.4 * n_stored)

    def _fill_centred(self, out: Matrix, gram: Matrix) -> None:
        """Inner products of centred rows times the roots of their weights, from those of the rows."""
        parts = [part for part in (slice(0, self.n_active), slice(self.n_active, None)) if len(self.weights[part])]
        means = [gram[:, part].mean(axis=1) for part in parts]  # products with the mean row of each part
        for i, left in enumerate(parts):
            for j, right in enumerate(parts):
                block = np.subtract(gram[left, right], means[j][left, None], out=out[left, right])
                block -= means[i][right] - means[i][right].mean()
                block *= math.sqrt(self.weights[left][0] * self.weights[right][0])

    def _woodbury(self) -> LinearMap:
        """(m reg I + B'B)^-1 r = (r - B' (m reg I + BB')^-1 B r) / (m reg), for the rows B of the square root of H."""
        n_rows = len(self.rows)
        few = self.operator.take_rows(self.rows)
        z = few.rmatvec(self.z_rows) + self.z_rest
        scale, z_scale = np.sqrt(self.weights), np.sqrt(self.z_weight)
        kernel = np.empty((n_rows + 1, n_rows + 1))
        self._fill_centred(kernel[:-1, :-1], few.row_gram(np.arange(n_rows)))
        kernel[:-1, -1] = kernel[-1, :-1] = scale * self.centred(few.matvec(z)) * z_scale
        kernel[-1, -1] = self.z_weight * float(z @ z)
        kernel[np.diag_indices(n_rows + 1)] += self.ridge
        factor = factor_lower(kernel)

        def apply(vector: Vector) -> Vector:
            left = np.append(scale * self.centred(few.matvec(vector)), z_scale * float(z @ vector))
            left = solve_factored(factor, left)
            right = few.rmatvec(self.centred(scale * left[:-1])) + (z_scale * left[-1]) * z
            return np.asarray((vector - right) / self.ridge)

        return apply


def conjugate_gradients(product: LinearMap, precondition: LinearMap, rhs: Vector, forcing: float) -> Vector:
    """Solve a positive definite system up to a residual of `forcing` times rhs, both in the preconditioner's norm."""
    return _iterate(product, precondition, rhs, forcing, _MOST_ITERATIONS)[0]


def _iterate(
    product: LinearMap, precondition: LinearMap, rhs: Vector, forcing: float, most: int
) -> tuple[Vector, int, bool]:
    """At most this many iterations of conjugate gradients: the solution, their number, and whether they were enough."""
    solution = np.zeros_like(rhs)
    residual = rhs.copy()
    direction = preconditioned = precondition(residual)
    energy = float(residual @ preconditioned)
    enough = forcing * forcing * energy
    for n_iter in range(most):
        image = product(direction)
        curvature = float(direction @ image)
        if not curvature > 0:
            return solution, n_iter, True
        length = energy / curvature
        solution += length * direction
        residual -= length * image
        preconditioned = precondition(residual)
        energy, before = float(residual @ preconditioned), energy
        if not energy > enough:
            return solution, n_iter + 1, True
        direction = preconditioned + (energy / before) * direction
    return solution, most, False
