"""Rows and kernels for the tests of partial Cholesky factors, and a textbook factor to judge them by."""

import numpy as np

from taufpl.kernels import make_kernel


def plain_cholesky(K, diagonal, pivots):
    """The textbook's factor by these pivots, one at a time, on the whole matrix: factor, and what is left before each.

    What is left is a diagonal before each pivot and after the last.
    """
    left = K.copy()
    np.fill_diagonal(left, diagonal)
    columns, diagonals = [], [left.diagonal().copy()]
    for pivot in pivots:
        column = left[:, pivot] / np.sqrt(left[pivot, pivot])
        left -= np.outer(column, column)
        left[pivot] = left[:, pivot] = 0.0
        columns.append(column)
        diagonals.append(left.diagonal().copy())
    return np.column_stack(columns), diagonals


def smooth(n=400, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def clustered(n=400, d=4, seed=1):
    """Few places, with many rows at exactly the same one."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(25, d))[rng.integers(25, size=n)]


def with_constant_rows(n=300, d=4, seed=2):
    X = np.abs(np.random.default_rng(seed).normal(size=(n, d)))
    X[: n // 2] = 1.0
    X[-5:] = 0.0
    return X


def heavy_tailed(n=300, d=5, seed=3):
    return np.random.default_rng(seed).standard_t(2, size=(n, d))


def case(rows, name, **parameters):
    X = rows()
    kernel = make_kernel(name, **parameters, X=X)
    return kernel, X, kernel.between(X)


CASES = {
    "rbf, smooth": (smooth, "rbf", {}),
    "rbf, narrow": (smooth, "rbf", {"gamma": 20.0}),
    "rbf, clustered": (clustered, "rbf", {}),
    "rbf, constant rows": (with_constant_rows, "rbf", {}),
    "laplacian, heavy-tailed": (heavy_tailed, "laplacian", {}),
    "poly, heavy-tailed": (heavy_tailed, "poly", {"gamma": "auto"}),
    "poly, clustered": (clustered, "poly", {"degree": 2}),
    "linear, constant rows": (with_constant_rows, "linear", {}),
    "cosine, constant rows": (with_constant_rows, "cosine", {}),
    "chi2, constant rows": (with_constant_rows, "chi2", {}),
}
