"""Linear systems H step = -gradient with the generalised Hessian of psi.

Three ways, chosen by cost:

- few features: H is formed and factored (`solve_dense`; the piecewise model of `_model.py` uses it);
- many features: conjugate gradients, in which H is only ever multiplied, with the active rows;
- preconditioned there by the diagonal of H, or, where the active rows are few, by the exact inverse from a matrix
  of their size (Woodbury); the iteration around it then only repairs the rounding that a tiny reg brings.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from taufpl.operators import Operator
from taufpl.problem import RankingProblem
from taufpl.solvers._smoothing import Activity, Matrix, Maximiser, Rows, Smoothing, Vector

# Largest matrix that the Woodbury way may form.
_MOST_WOODBURY_ROWS = 2000
_MOST_ITERATIONS = 300
_MOST_LIFTS = 8

LinearMap = Callable[[Vector], Vector]


def solve_dense(hessian: Matrix, gradient: Vector) -> Vector:
    """-H^-1 gradient by Cholesky. H is overwritten."""
    return -_solve(_factor(hessian), gradient)


def _solve(factor: Matrix, rhs: Vector) -> Vector:
    # LAPACK itself: SciPy's checks around it take longer than the arithmetic where there are few features.
    solution: Vector = dpotrs(factor, rhs, lower=1)[0]
    return solution


def _factor(matrix: Matrix) -> Matrix:
    """Lower Cholesky factor of a positive definite matrix; a diagonal that rounding spoilt is lifted until it works.

    Where nothing helps, because a feature is 1e8 times the others, say, and rounding has eaten them, the diagonal alone
    is factored: still a descent step.
    """
    diagonal = np.einsum("ii->i", matrix)
    # Of a sum of squares, rounding can leave less than nothing.
    np.maximum(diagonal, np.finfo(np.float64).eps * np.max(diagonal, initial=1e-300), out=diagonal)
    if np.isfinite(matrix).all():
        lift = 1e-15
        for _ in range(_MOST_LIFTS):
            diagonal *= 1.0 + lift  # relative to each entry, because features may differ in scale
            factor: Matrix
            factor, failed = dpotrf(matrix.T, lower=1, clean=0)
            if not failed:
                return factor
            lift *= 100.0
    return np.diag(np.sqrt(np.nan_to_num(diagonal, nan=1.0, posinf=1e300)))


class KrylovSystem:
    """H at one maximiser, as a product: nothing of size d x d.

    ::

        H p = m reg p + (1/c) Xc_A' Xc_A p + sigma Xc_F' Xc_F p + (sigma/rho) z (z . p)

    Xc' Xc p needs no centred rows: take the mean off the vector X p instead.

    Parameters
    ----------
    smoothing : Smoothing
    maximiser : Maximiser
        At the current point.
    """

    def __init__(self, smoothing: Smoothing, maximiser: Maximiser) -> None:
        problem, moving = smoothing.problem, Activity.of(maximiser)
        self.ridge = problem.ridge
        self.operator: Operator = problem.operator
        self.n_active, self.n_free = len(moving.active), len(moving.free)
        self.rows = np.concatenate((problem.positive_rows[moving.active], problem.negative_rows[moving.free]))
        self.weights = np.concatenate(
            (np.full(self.n_active, 1.0 / smoothing.curvature), np.full(self.n_free, smoothing.sigma))
        )
        # z = X' z_rows + z_rest, where the rest comes from the capped rows.
        self.z_rows = np.zeros(len(self.rows))
        self.z_rest = np.zeros(problem.n_features)
        self.z_weight = self._rank_one(smoothing, problem.negative_rows[moving.capped])

    def _rank_one(self, smoothing: Smoothing, capped_rows: Rows) -> float:
        """Set up z and return sigma/rho; 0 where the term is absent."""
        k, n_capped = smoothing.problem.k, len(capped_rows)
        if self.n_active == 0 or (self.n_free == 0 and n_capped != k):
            return 0.0
        share = 1.0 - n_capped / k
        rho = smoothing.weight / self.n_active + n_capped / k**2
        self.z_rows[: self.n_active] = -1.0 / self.n_active
        if self.n_free:
            rho += share * share / self.n_free
            self.z_rows[self.n_active :] = share / self.n_free
        if n_capped:
            self.z_rest = self.operator.rmatvec_rows(np.full(n_capped, 1.0 / k), capped_rows)
        return smoothing.sigma / rho

    def centred(self, values: Vector) -> Vector:
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

    def solve(self, gradient: Vector, forcing: float, diagonal: Vector) -> Vector:
        """-H^-1 gradient, up to a residual of `forcing` times the gradient, both in the preconditioner's norm.

        The diagonal is one like that of H; it is used where the active rows are many.
        """
        if len(self.rows) <= min(len(gradient), _MOST_WOODBURY_ROWS):
            return -conjugate_gradients(self.product, self._woodbury(), gradient, min(forcing, 1e-3))
        inverse = 1.0 / diagonal
        return -conjugate_gradients(self.product, lambda r: inverse * r, gradient, forcing)

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
        factor = _factor(kernel)

        def apply(vector: Vector) -> Vector:
            left = np.append(scale * self.centred(few.matvec(vector)), z_scale * float(z @ vector))
            left = _solve(factor, left)
            right = few.rmatvec(self.centred(scale * left[:-1])) + (z_scale * left[-1]) * z
            return np.asarray((vector - right) / self.ridge)

        return apply


class DiagonalEstimate:
    """About the diagonal of H, from the sums of squares of all positives and of all negatives: read once."""

    def __init__(self, problem: RankingProblem) -> None:
        self.problem = problem
        self.positive = problem.operator.column_squares(problem.positive_rows) / problem.n_positive
        self.negative = problem.operator.column_squares(problem.negative_rows) / problem.n_negative

    def at(self, system: KrylovSystem, smoothing: Smoothing) -> Vector:
        """As if active and free rows were a fair sample of their kind."""
        diagonal = self.positive * (system.n_active / smoothing.curvature)
        diagonal += self.negative * (system.n_free * smoothing.sigma)
        diagonal += self.problem.ridge
        return diagonal


def conjugate_gradients(product: LinearMap, precondition: LinearMap, rhs: Vector, forcing: float) -> Vector:
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
