"""Coordinates in which a matrix with more columns than rows has as many columns as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack, solve_triangular

from taufpl._types import Matrix, RowIndices, Vector

if TYPE_CHECKING:
    from taufpl.operators._base import Operator


# What is left of a squared row norm once it is this small, beside the largest one and for each row, is rounding.
_ROUNDING = 10 * np.finfo(np.float64).eps


@dataclass(frozen=True, slots=True)
class RowFactor:
    """X = L Q', where Q has orthonormal columns: the rows of L are those of X in coordinates of their span.

    So X w = L u and |w| = |u| for w = Q u, and what is left of a w outside the span changes no score. Q is never
    formed: it is X_p' T^-T, where X_p are r linearly independent rows of X and T is the triangle that they have in L.
    `source` is X of shape (n, d), `reduced` is L of shape (n, r), whose work counts as a share of the values stored in
    X, `pivots` are the rows X_p and `triangle` is T, lower.
    """

    source: Operator
    reduced: Operator
    pivots: RowIndices
    triangle: Matrix

    def lift(self, reduced: Vector) -> Vector:
        """Q u, from the r rows."""
        weights = solve_triangular(self.triangle, reduced, lower=True, trans="T", check_finite=False)
        return self.source.rmatvec_rows(weights, self.pivots)

    def coordinates(self, vector: Vector) -> Vector:
        """Q' w, from the r rows."""
        scores = self.source.matvec_rows(vector, self.pivots)
        return np.asarray(solve_triangular(self.triangle, scores, lower=True, check_finite=False))


def pivoted_cholesky(gram: Matrix) -> tuple[Matrix, RowIndices]:
    """G = L L' with L of as many columns as G has rank, and the rows of L that form its lower triangle, in order.

    Relative to the square root of the largest diagonal entry, L is exact up to the square root of rounding.
    """
    n_rows = len(gram)
    tol = n_rows * _ROUNDING * float(gram.diagonal().max())
    factor, pivots, rank, _ = lapack.dpstrf(gram, tol=tol, lower=1)
    order = np.asarray(pivots, dtype=np.intp) - 1
    rows = np.zeros((n_rows, rank))
    rows[order] = np.tril(factor)[:, :rank]
    return rows, order[:rank]
