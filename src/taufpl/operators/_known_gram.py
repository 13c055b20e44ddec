"""Operator on rows whose inner products are known: what a kernel and its factor are."""

from __future__ import annotations

from typing import Self

import numpy as np

from taufpl._types import Matrix
from taufpl.operators._base import Index, PassCount
from taufpl.operators._dense import DenseOperator


class KnownGramOperator(DenseOperator):
    """Rows L with the matrix K = L L', which is read where it would have to be computed.

    K may be that of other rows too: `index` says where these rows are in it (None: they are all of it, in order).
    """

    knows_row_gram = True

    def __init__(self, rows: Matrix, gram: Matrix, index: Index | None = None, passes: PassCount | None = None) -> None:
        super().__init__(rows, passes)
        self._known = gram
        self._index = np.arange(len(rows)) if index is None else index

    def _row_gram(self, left: Index, right: Index) -> Matrix:
        return self._known[np.ix_(self._index[left], self._index[right])]

    def _take(self, rows: Index) -> Self:
        return type(self)(self._x[rows], self._known, self._index[rows], self._passes)
