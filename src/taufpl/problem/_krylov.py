"""Newton directions by conjugate gradients, in which the generalised Hessian H of `_oracle.py` is only multiplied.

They are preconditioned by the diagonal of H, or, where active and free rows are few, by the exact inverse from a matrix
of their size (Woodbury); the iteration around it then only repairs the rounding that a tiny reg brings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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


def krylov_direction(product: LinearMap, inverse: Vector | LinearMap, gradient: Vector, enough: float) -> Vector:
    """-H^-1 gradient by conjugate gradients, so far that ``|gradient|^2 <= enough`` can be hoped for.

    Preconditioned by a vector like the diagonal of H, or by a map that is all but H^-1 and then gets few iterations.
    """
    if callable(inverse):
        return -conjugate_gradients(product, inverse, gradient, 1e-3)
    scale = 1.0 / inverse
    forcing = 0.5 * math.sqrt(enough / max(float(gradient @ gradient), 1e-300))
    return -conjugate_gradients(product, lambda r: scale * r, gradient, min(max(forcing, 0.1), 0.5))


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

    def solve(self, gradient: Vector, enough: float, squares: tuple[Vector, Vector]) -> Vector:
        """-H^-1 gradient; the mean squares of positives and negatives serve where active rows are many."""
        if len(self.rows) <= min(len(gradient), _MOST_WOODBURY_ROWS):
            return krylov_direction(self.product, self._woodbury(), gradient, enough)
        diagonal = estimated_diagonal(self.oracle, self.ridge, squares, (self.n_active, self.n_free))
        return krylov_direction(self.product, diagonal, gradient, enough)

    def _woodbury(self) -> LinearMap:
        """(m reg I + B'B)^-1 r = (r - B' (m reg I + BB')^-1 B r) / (m reg), for the rows B of the square root of H."""
        n_rows = len(self.rows)
        few = self.operator.take_rows(self.rows)
        z = few.rmatvec(self.z_rows) + self.z_rest
        scale, z_scale = np.sqrt(self.weights), np.sqrt(self.z_weight)
        kernel = np.empty((n_rows + 1, n_rows + 1))
        gram = self.centred(few.row_gram(np.arange(n_rows)))
        kernel[:-1, :-1] = scale[:, None] * self.centred(np.ascontiguousarray(gram.T)) * scale
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
    solution = np.zeros_like(rhs)
    residual = rhs.copy()
    direction = preconditioned = precondition(residual)
    energy = float(residual @ preconditioned)
    enough = forcing * forcing * energy
    for _ in range(_MOST_ITERATIONS):
        image = product(direction)
        curvature = float(direction @ image)
        if not curvature > 0:
            break
        length = energy / curvature
        solution += length * direction
        residual -= length * image
        preconditioned = precondition(residual)
        energy, before = float(residual @ preconditioned), energy
        if not energy > enough:
            break
        direction = preconditioned + (energy / before) * direction
    return solution
