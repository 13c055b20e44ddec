"""From rows to features: kernel values at the landmarks, then a triangular solve, in one go over chunks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from taufpl.kernels._functions import Kernel
from taufpl.operators import map_chunks, one_blas_thread, scratch, work_type

Array = NDArray[Any]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Columns that are solved for at a time.
_BLOCK = 64
# Single precision is used while the smallest pivot is at least this share of the largest: the solve divides rounding
# by its root.
_SOUND_PIVOTS = 1e-3


@dataclass(frozen=True)
class LandmarkMap:
    """phi(x) = T^-1 k(L, x) for landmarks L and a triangle T with T T' = K(L, L).

    Attributes
    ----------
    kernel : Kernel
    landmarks : ndarray or CSR matrix of shape (r, d)
        "precomputed": positions of columns.
    triangle : ndarray of shape (r, r)
        T, lower.
    """

    kernel: Kernel
    landmarks: Any
    triangle: Matrix

    @property
    def n_components(self) -> int:
        """Number of features."""
        return len(self.triangle)

    def features(self, X: Any) -> Array:
        """phi(x) for all rows, of the type of X."""
        out = np.empty((X.shape[0], self.n_components), work_type(X))
        self._write(X, out, None)
        return out

    def features_and_residuals(self, X: Any, diagonal: Vector) -> tuple[Array, Vector]:
        """phi(x), and k(x, x) - phi(x) . phi(x) given k(x, x)."""
        out = np.empty((X.shape[0], self.n_components), work_type(X))
        return out, self._write(X, out, diagonal)

    def residuals(self, X: Any, diagonal: Vector) -> Vector:
        """k(x, x) - phi(x) . phi(x) given k(x, x), without keeping the features."""
        return self._write(X, None, diagonal)

    def _write(self, X: Any, out: Array | None, diagonal: Vector | None) -> Vector:
        wanted = work_type(X)
        dtype = wanted if self._is_sound else np.dtype(np.float64)
        fill = self.kernel.against(self.landmarks, dtype)
        with one_blas_thread:  # blocks are small
            steps = _solve_steps(self.triangle, dtype)
        squares = np.zeros(X.shape[0])

        def work(part: slice) -> None:
            shape = (part.stop - part.start, self.n_components)
            values = out[part] if out is not None and dtype == wanted else scratch("values", shape, dtype)
            fill(X[part], values)
            _solve(steps, values)
            if out is not None and dtype != wanted:
                out[part] = values
            if diagonal is not None:
                kept = values.astype(wanted, copy=False)  # what is handed out, rounding and all
                squares[part] = np.vecdot(kept, kept)

        map_chunks(work, X.shape[0], dtype.itemsize * self.n_components)
        return squares if diagonal is None else diagonal - squares

    @cached_property
    def _is_sound(self) -> bool:
        pivots = self.triangle.diagonal() ** 2
        return bool(pivots.min() >= _SOUND_PIVOTS * pivots.max())


_Steps = list[tuple[slice, Array, Array]]


def _solve_steps(triangle: Matrix, dtype: np.dtype[Any]) -> _Steps:
    """Blocks of columns, with the rows of T before their diagonal block and the inverse of that, both transposed."""
    steps = []
    for start in range(0, len(triangle), _BLOCK):
        block = slice(start, min(start + _BLOCK, len(triangle)))
        inverse = solve_triangular(triangle[block, block], np.eye(block.stop - start), lower=True, check_finite=False)
        before = triangle[block, :start]
        steps.append((block, before.astype(dtype).T, inverse.astype(dtype).T))
    return steps


def _solve(steps: _Steps, values: Array) -> None:
    """V <- V T^-T in place: products of matrices all the way, which run in threads where LAPACK's solver would not."""
    for block, before, inverse in steps:
        part = scratch("product", (len(values), inverse.shape[0]), values.dtype)
        np.matmul(values[:, : block.start], before, out=part)
        np.subtract(values[:, block], part, out=part)
        np.matmul(part, inverse, out=values[:, block])
