"""Plain NumPy twins of the products in ``taufpl.operators``, on a dense float64 matrix.

``Plain`` has the methods of an operator and does everything at once and in the obvious way. The functions below it
are the twins of the kernels that operators cut their work with.
"""

from __future__ import annotations

import numpy as np


class Plain:
    def __init__(self, X):
        self.X = np.asarray(X.toarray() if hasattr(X, "toarray") else X).astype(np.float64)

    def matvec(self, w):
        return self.X @ w

    def rmatvec(self, v):
        return self.X.T @ v

    def matvec_rows(self, w, rows):
        return self.X[rows] @ w

    def rmatvec_rows(self, v, rows):
        return self.X[rows].T @ v

    def gram_rows(self, rows, weights=None):
        part = self.X if rows is None else self.X[rows]
        return part.T @ (part if weights is None else np.asarray(weights)[:, None] * part)

    def centred_gram_rows(self, rows):
        part = self.X if rows is None else self.X[rows]
        mean = part.mean(axis=0) if len(part) else np.zeros(self.X.shape[1])
        return (part - mean).T @ (part - mean), mean

    def row_gram(self, rows, other=None):
        return self.X[rows] @ self.X[rows if other is None else other].T

    def row_norms(self):
        return (self.X**2).sum(axis=1)

    def column_squares(self, rows=None):
        return ((self.X if rows is None else self.X[rows]) ** 2).sum(axis=0)

    def spectral_norm(self):
        return np.linalg.norm(self.X, 2)


def grouped_sum(X, v, n_groups):
    """Twin of the ``add`` kernels: a sum for each group of rows."""
    step = -(-len(v) // n_groups)
    return np.array([v[i * step : (i + 1) * step] @ X[i * step : (i + 1) * step] for i in range(n_groups)])


def gram_work(pattern):
    """Twin of ``_csr.gram_work``: an entry, times those up to it in its row, summed down each column."""
    return (pattern * np.cumsum(pattern, axis=1)).sum(axis=0).astype(float)


def mirrored(square):
    """Twin of ``_csr.mirror``: what is under the diagonal, on both sides of it."""
    return np.tril(square) + np.tril(square, -1).T
