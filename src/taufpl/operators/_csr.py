"""Operator on a sparse matrix in CSR format."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from taufpl._kernels import _csr as kernels
from taufpl._types import Matrix, Vector
from taufpl.operators._base import Index, Operator, PassCount, add_square
from taufpl.operators._dense import GROUP_VALUES, MOST_GROUPS, add_gram, parts
from taufpl.operators._threads import n_threads, share

# A group of rows must hold many more values than there are columns, or adding up the groups costs more than they do.
_VALUES_PER_COLUMN = 16
# Cost of one product in a Gram matrix between sparse rows, relative to one between dense rows.
_SPARSE_PENALTY = 12
_CHUNK_VALUES = 1 << 18


class CSROperator(Operator):
    """Operator on a SciPy matrix in CSR format, float32 or float64; its arrays are kept, not copied.

    Indices are sorted, without duplicates and within the shape.
    """

    def __init__(self, X: Any, passes: PassCount | None = None) -> None:
        n_rows, n_columns = X.shape
        self._x = X
        self._value_bytes = X.dtype.itemsize + X.indices.itemsize
        self._parts = (X.indptr, X.indices, X.data)
        self._lengths = np.diff(X.indptr)  # every product with some rows adds up theirs
        super().__init__((n_rows, n_columns), X.dtype, passes)

    def _stored(self, rows: Index | None) -> int:
        return int(self._x.indptr[-1] if rows is None else self._lengths.take(rows).sum(dtype=np.int64))

    def _dot(self, rows: Index | None, w: Vector) -> Vector:
        out = np.empty(self.shape[0] if rows is None else len(rows))
        share(kernels.dot, *self._parts, rows, w, out, work=self._work(len(out)))
        return out

    def _add(self, rows: Index | None, v: Vector) -> Vector:
        work = self._work(len(v))
        group_values = max(GROUP_VALUES, _VALUES_PER_COLUMN * self.shape[1])
        partial = np.empty((max(1, min(MOST_GROUPS, int(work) // group_values)), self.shape[1]))
        share(kernels.add, *self._parts, rows, v, partial, work=work)
        return partial[0] if len(partial) == 1 else partial.sum(axis=0)

    def _gram(self, rows: Index, weights: Vector, shift: Vector) -> Matrix:
        d = self.shape[1]
        out = np.zeros((d, d))
        work = np.zeros(d)
        kernels.gram_work(*self._parts[:2], rows, work)
        if _SPARSE_PENALTY * work.sum() > len(rows) * d * d / 2:
            self._add_dense_gram(rows, weights, shift, out)
        else:
            bounds = _even_cuts(work, 2 * n_threads() if n_threads() > 1 else 1)
            share(kernels.gram, *self._parts, rows, weights, bounds, out, work=work.sum())
            # With shift = mean, sum (x - mean)(x - mean)' = sum x x' - total mean mean'.
            if shift.any():
                add_square(out, -float(weights.sum()), shift)
        kernels.mirror(out)
        return out

    def moments(self, rows: ArrayLike, shift: Vector) -> tuple[Matrix, Vector]:
        """Sums of (x_i - shift)(x_i - shift)' and of x_i - shift; sparse rows are shifted after the products."""
        taken = self._rows(rows)
        count, ones = len(taken), np.ones(len(taken))
        total = self.add(ones, taken) - count * shift
        crossed = np.outer(shift, total)
        gram = self._gram(taken, ones, np.zeros(self.shape[1]))
        gram -= crossed + crossed.T + count * np.outer(shift, shift)
        return gram, total

    def _add_dense_gram(self, rows: Index, weights: Vector, shift: Vector, out: Matrix) -> None:
        """The same through dense copies of a few rows at a time, for rows that are mostly full."""
        for part in parts(rows, self.shape[1], _CHUNK_VALUES):
            add_gram(self._x[rows[part]].toarray(), None, weights[part], shift, out)

    def _row_gram(self, left: Index, right: Index) -> Matrix:
        if right is left and len(left):
            return self._own_row_gram(left)
        a = self._x[left].astype(np.float64)
        return np.asarray((a @ self._x[right].astype(np.float64).T).toarray())

    def _own_row_gram(self, rows: Index) -> Matrix:
        """The same rows on both sides: columns one after the other, each with the rows that it meets."""
        columns = CSROperator(self._x[rows].tocsc().T)
        return columns._gram(np.arange(columns.shape[0]), np.ones(columns.shape[0]), np.zeros(len(rows)))

    def _squares(self, rows: Index) -> tuple[Vector, Vector]:
        along, down = np.empty(len(rows)), np.zeros(self.shape[1])
        kernels.squares(*self._parts, rows, along, down)
        return along, down

    def _take(self, rows: Index) -> Self:
        return type(self)(self._x[rows], self._passes)

    def _work(self, n_rows: int) -> float:
        """Values in `n_rows` rows of average length: to count them would cost too much beside a product."""
        return n_rows * self._stored(None) / max(1, self.shape[0])


def _even_cuts(work: Vector, n_ranges: int) -> Index:
    """Bounds of ranges with about the same sum of work."""
    upto = np.cumsum(work)
    cuts = np.searchsorted(upto, upto[-1] * np.arange(1, n_ranges) / n_ranges)
    return np.concatenate([[0], cuts, [len(work)]]).astype(np.intp)
