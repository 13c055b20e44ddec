"""Bounds on the rounding of a score sum_i c_i k(x_i, x), in units of eps.

A score of one row may differ from the score of the same row in a batch: products of matrices sum in another order. So
does each k(x, y) that is computed from a product, and by more than eps k(x, y) where k is a steep function of it. In
units of eps, and for short sums, k(x, y) rounds by::

    "linear"       |x| |y|
    "poly"         (degree + 1) (gamma |x| |y| + |coef0|)^degree
    "sigmoid"      1 + gamma |x| |y| + |coef0|
    "rbf"          2 + 2 gamma (|x - s|^2 + |y - s|^2), s the middle of the y

All other kernels: sqrt(k(x, x) k(y, y)), the most that k(x, y) can be.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl._types import RowIndices, Vector
from taufpl.kernels._functions import Kernel
from taufpl.operators import FAR, is_dense, middle, square_sums


def score_sizes(kernel: Kernel, X: Any, support: RowIndices, weights: Vector) -> Vector:
    """A number for each row that, times eps, bounds the rounding of its score.

    `support` are the rows of X with a weight c; X is the kernel matrix for a "precomputed" kernel.
    """
    if not support.size:
        return np.zeros(X.shape[0])
    weights = np.abs(weights)
    if kernel.function == "rbf":
        squares = _squares(kernel.gamma, X, support)
        return np.asarray(2.0 * (weights.sum() * (1.0 + squares) + weights @ squares[support]))
    lengths, factor, constant = _lengths(kernel, X)
    return factor * float(weights @ lengths[support]) * lengths + constant * float(weights.sum())


def _squares(gamma: float, X: Any, support: RowIndices) -> Vector:
    """Values of gamma |x - s|^2, s the middle about which distances from the support are computed; 0 for far rows.

    Of dense rows, two that are both beyond FAR have a distance by their difference, which rounds by no more than eps of
    itself. Of one beyond 4 FAR and one within FAR, the kernel is next to 0, and so is its rounding.
    """
    if not is_dense(X):
        return gamma * square_sums(X)
    with np.errstate(over="ignore"):
        squares = gamma * square_sums(X - middle(X[support]))
    return np.where(squares > 4.0 * FAR, 0.0, squares)


def _lengths(kernel: Kernel, X: Any) -> tuple[Vector, float, float]:
    """u(x), a factor and a constant: k(x, y) rounds by factor u(x) u(y) + constant."""
    if kernel.function in ("poly", "polynomial"):
        bases = kernel.gamma * square_sums(X) + abs(kernel.coef0)
        return bases ** (0.5 * kernel.degree), kernel.degree + 1.0, 0.0
    if kernel.function == "sigmoid":
        return np.sqrt(kernel.gamma * square_sums(X) + abs(kernel.coef0)), 1.0, 1.0
    return np.sqrt(np.maximum(kernel.diagonal(X), 0.0)), 1.0, 0.0
