"""Rows of sparse PyTorch tensors in CSR format."""

from __future__ import annotations

from typing import Any

from taufpl._extras import require
from taufpl._types import Vector
from taufpl.operators.remote._arrays import ArrayRows


def is_sparse_tensor(X: Any) -> bool:
    """Whether X is a sparse tensor in CSR format."""
    return str(getattr(X, "layout", "")) == "torch.sparse_csr"


class SparseTorchRows(ArrayRows):
    """Rows of a sparse PyTorch tensor in CSR format, float32 or float64.

    PyTorch multiplies such a tensor by a vector, but takes no rows out of it. What concerns some rows is therefore done
    with the values stored in them, picked by their positions.
    """

    def __init__(self, X: Any) -> None:
        super().__init__(X)
        self._starts, self._columns, self._values = X.crow_indices(), X.col_indices(), X.values()

    def dot(self, w: Vector, rows: Any | None = None, *, exact: bool = False) -> Any:
        if rows is None and (self.exact or not exact):
            return super().dot(w)
        values, columns, owners, n_rows = self._stored(rows)
        products = values * self._feature(w, self.library.xp.float64)[columns]
        return self.library.zeros(n_rows).index_add_(0, owners, products)

    def add(self, values: Any, rows: Any | None = None) -> Any:
        stored, columns, owners, _ = self._stored(rows)
        return self.library.zeros(self.shape[1]).index_add_(0, columns, stored * values[owners])

    def squares(self, rows: Any | None, axis: int) -> Any:
        values, columns, owners, n_rows = self._stored(rows)
        places, length = (columns, self.shape[1]) if axis == 0 else (owners, n_rows)
        return self.library.zeros(length).index_add_(0, places, values**2)

    def take(self, rows: Any) -> Any:
        """Some rows as a dense tensor of double precision."""
        return self._doubles(rows)

    def _doubles(self, rows: Any) -> Any:
        """Rows at a slice or at indices, dense and in double precision."""
        values, columns, owners, n_rows = self._stored(rows)
        dense = self.library.zeros(n_rows * self.shape[1])
        return dense.index_add_(0, owners * self.shape[1] + columns, values).reshape(n_rows, self.shape[1])

    def _stored(self, rows: Any | None) -> tuple[Any, Any, Any, int]:
        """Values stored in some rows in double precision, their columns and the rows' numbers, and how many rows."""
        torch, device = require("torch", "gpu", "for sparse tensors"), self.library.device
        if rows is None or isinstance(rows, slice):
            rows = torch.arange(*(rows or slice(None)).indices(self.shape[0]), device=device)
        counts = self._starts[rows + 1] - self._starts[rows]
        owners = torch.repeat_interleave(torch.arange(rows.shape[0], device=device), counts)
        before = torch.cumsum(counts, 0) - counts
        places = torch.arange(owners.shape[0], device=device) - before[owners] + self._starts[rows][owners]
        return self._values[places].to(self.library.xp.float64), self._columns[places], owners, int(rows.shape[0])
