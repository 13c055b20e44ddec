"""The largest singular value, by Lanczos' method."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import eigh_tridiagonal

if TYPE_CHECKING:
    from taufpl.operators._base import Operator


def spectral_norm(X: Operator, seed: int, tol: float, max_iter: int) -> float:
    """Largest singular value of X, as :meth:`Operator.spectral_norm` gives it.

    Lanczos' method on X'X, with full reorthogonalisation, from a random start. Its largest Ritz value theta lies
    under the largest eigenvalue lambda_1 of X'X, and some eigenvalue lies within the residual rho of theta; once
    that one is lambda_1, lambda_1 <= theta + rho. So it stops at rho <= 2 tol theta and returns
    sqrt(theta + rho), but never more than the Frobenius norm, which is a bound without conditions.

    That theta belongs to lambda_1 and not to an eigenvalue below it is not proven, but very likely: the start
    would have to be almost orthogonal to the first singular vector.
    """
    if not (tol > 0 and max_iter >= 1):
        raise ValueError(f"tol must be positive and max_iter at least 1, got {tol!r} and {max_iter!r}.")
    frobenius = math.sqrt(float(X.row_norms().sum()))
    if frobenius == 0.0:
        return 0.0
    n_columns = X.shape[1]
    direction = np.random.default_rng(seed).standard_normal(n_columns)
    basis = np.empty((0, n_columns))
    diagonal: list[float] = []
    beside: list[float] = []
    theta = residual = 0.0
    length = float(np.linalg.norm(direction))
    for _ in range(min(max_iter, n_columns)):
        basis = np.vstack([basis, direction / length])
        direction = X.rmatvec(X.matvec(basis[-1]))
        diagonal.append(float(direction @ basis[-1]))
        for _ in range(2):  # once is not enough in floating point
            direction -= basis.T @ (basis @ direction)
        length = float(np.linalg.norm(direction))
        theta, weight = _top_pair(diagonal, beside)
        residual = length * abs(weight)
        # An invariant subspace (length 0) cannot be left, and holds the answer.
        if residual <= 2 * tol * theta or length <= np.finfo(float).eps * frobenius**2:
            break
        beside.append(length)
    # A last few units for rounding: the bound must hold, and X'X was formed in floating point.
    safe = math.sqrt(theta + residual) * (1 + n_columns**0.5 * np.finfo(float).eps)
    return min(safe, frobenius)


def _top_pair(diagonal: list[float], beside: list[float]) -> tuple[float, float]:
    """Largest eigenvalue of a symmetric tridiagonal matrix, and the last entry of its eigenvector."""
    last = len(diagonal) - 1
    values, vectors = eigh_tridiagonal(diagonal, beside, select="i", select_range=(last, last))
    return float(values[0]), float(vectors[-1, 0])
