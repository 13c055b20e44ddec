"""Blocks of sparse PyTorch tensors in CSR format."""

from __future__ import annotations

from typing import Any

from taufpl._extras import require
from taufpl.operators.remote._arrays import ArrayBlock
from taufpl.operators.remote._blocks import Deferred, Vector


def is_sparse_tensor(X: Any) -> bool:
    """Whether X is a sparse tensor in CSR format."""
    return str(getattr(X, "layout", "")) == "torch.sparse_csr"


class SparseTorchBlock(ArrayBlock):
    """Rows of a sparse PyTorch tensor.

    PyTorch multiplies such a tensor by a vector, but takes no rows out of it. What concerns some rows is therefore done
    with the values stored in them, picked by their positions.

    Parameters
    ----------
    X : tensor of shape (n, d)
        In CSR format, float32 or float64.
    """

    def __init__(self, X: Any) -> None:
        super().__init__(X)
        self._starts, self._columns, self._values = X.crow_indices(), X.col_indices(), X.values()

    def dot(self, coef: Vector, rows: Any | None = None, *, exact: bool = False) -> Any:
        """x_i . w for every row of the block or for some."""
        if rows is None and (self.exact or not exact):
            return super().dot(coef, None)
        if rows is None:
            rows = self._all_rows()
        places, owners = self._stored(rows)
        w = self._feature(coef, self.xp.float64)
        products = self._doubles(places) * w[self._columns[places]]
        return self._zeros(rows.shape[0]).index_add_(0, owners, products)

    def add_deferred(self, values: Any, rows: Any | None) -> Deferred:
        """Sum of values_i x_i over some rows, together with other things."""
        places, owners = self._stored(self._all_rows() if rows is None else rows)
        products = self._doubles(places) * values[owners]
        return Deferred.one(self._zeros(self.shape[1]).index_add_(0, self._columns[places], products))

    def squares(self, rows: Any) -> Vector:
        """Sum of squares of every column over some rows."""
        places, _ = self._stored(rows)
        squares = self._doubles(places) ** 2
        return self._vector(self._zeros(self.shape[1]).index_add_(0, self._columns[places], squares))

    def take(self, rows: Any) -> Any:
        """Some rows as a NumPy array."""
        return self.to_host(self._dense(rows))[0]

    def _parts(self, rows: Any | None) -> Any:
        """Some rows in double precision and dense, a few at a time, with their places."""
        taken = self._all_rows() if rows is None else rows
        step = self._chunk_rows()
        for start in range(0, taken.shape[0], step):
            at = slice(start, min(start + step, taken.shape[0]))
            yield self._dense(taken[at]), at

    def _all_rows(self) -> Any:
        return require("torch", "gpu", "for sparse tensors").arange(self.shape[0], device=self._device)

    def _stored(self, rows: Any) -> tuple[Any, Any]:
        """Positions of the values stored in some rows, and which of these rows each belongs to."""
        torch = require("torch", "gpu", "for sparse tensors")
        counts = self._starts[rows + 1] - self._starts[rows]
        owners = torch.repeat_interleave(torch.arange(rows.shape[0], device=self._device), counts)
        before = torch.cumsum(counts, 0) - counts
        places = torch.arange(owners.shape[0], device=self._device) - before[owners] + self._starts[rows][owners]
        return places, owners

    def _doubles(self, places: Any) -> Any:
        return self._values[places].to(self.xp.float64)

    def _dense(self, rows: Any) -> Any:
        places, owners = self._stored(rows)
        dense = self._zeros(rows.shape[0] * self.shape[1])
        dense.index_add_(0, owners * self.shape[1] + self._columns[places], self._doubles(places))
        return dense.reshape(rows.shape[0], self.shape[1])
