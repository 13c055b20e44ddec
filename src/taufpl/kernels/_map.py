"""Features of rows from landmarks: kernel values at the landmarks, then a triangular solve, chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from taufpl._types import Array, Matrix, Vector
from taufpl.kernels._functions import Kernel
from taufpl.operators import map_chunks, one_blas_thread, scratch, work_type

# Columns that are solved for at a time.
_BLOCK = 64
# Single precision is used while the smallest pivot is at least this share of the largest: the solve divides rounding
# by its root.
_SOUND_PIVOTS = 1e-3


@dataclass(frozen=True)
class LandmarkMap:
    """phi(x) = T^-1 k(L, x) for landmarks L and a lower triangle T with T T' = K(L, L).

    Landmarks are rows, or, for "precomputed", positions of columns.
    """

    kernel: Kernel
    landmarks: Any
    triangle: Matrix

    def features(self, X: Any) -> tuple[Array, Vector]:
        """phi(x) for all rows, of the type of X, and |phi(x)|^2."""
        out = np.empty((X.shape[0], len(self.triangle)), work_type(X))
        return out, self._write(X, out)

    def squared_lengths(self, X: Any) -> Vector:
        """|phi(x)|^2 for all rows; no features are kept."""
        return self._write(X, None)

    def _write(self, X: Any, out: Array | None) -> Vector:
        wanted = work_type(X)
        dtype = wanted if self._is_sound else np.dtype(np.float64)
        fill = self.kernel.against(self.landmarks, dtype)
        with one_blas_thread:  # blocks are small
            steps = _solve_steps(self.triangle, dtype)
        squares = np.zeros(X.shape[0])

        def work(part: slice) -> None:
            shape = (part.stop - part.start, len(self.triangle))
            values = out[part] if out is not None and dtype == wanted else scratch("values", shape, dtype)
            fill(X[part], values)
            _solve(steps, values)
            if out is not None and dtype != wanted:
                out[part] = values
            kept = values.astype(wanted, copy=False)  # what is handed out, rounding and all
            squares[part] = np.vecdot(kept, kept)

        map_chunks(work, X.shape[0], dtype.itemsize * len(self.triangle))
        return squares

    @cached_property
    def _is_sound(self) -> bool:
        pivots = self.triangle.diagonal() ** 2
        return bool(pivots.min() >= _SOUND_PIVOTS * pivots.max())


_Steps = list[tuple[slice, Array, Array]]


def _solve_steps(triangle: Matrix, dtype: np.dtype[Any]) -> _Steps:
    """Blocks of columns, with the part of T left of their diagonal block and the inverse of the block, transposed."""
    steps = []
    for start in range(0, len(triangle), _BLOCK):
        block = slice(start, min(start + _BLOCK, len(triangle)))
        inverse = solve_triangular(triangle[block, block], np.eye(block.stop - start), lower=True, check_finite=False)
        before = triangle[block, :start]
        steps.append((block, before.astype(dtype).T, inverse.astype(dtype).T))
    return steps


def _solve(steps: _Steps, values: Array) -> None:
    """V <- V T^-T in place, by products of matrices alone: these run in threads, LAPACK's solver would not."""
    for block, before, inverse in steps:
        part = scratch("product", (len(values), inverse.shape[0]), values.dtype)
        np.matmul(values[:, : block.start], before, out=part)
        np.subtract(values[:, block], part, out=part)
        np.matmul(part, inverse, out=values[:, block])
