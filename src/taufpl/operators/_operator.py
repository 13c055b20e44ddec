"""What a storage format must provide, in memory or remote, and what all formats in memory share.

A new format of remote rows is one class with the five methods of `Rows`. `Operator` adds, for rows in memory, checks of
arguments, the count of passes, and what is made of products.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh_tridiagonal, lapack, solve_triangular
from scipy.linalg.blas import dger

from taufpl._types import Matrix, RowIndices, Vector

Index = NDArray[np.intp]

# What is left of a squared row norm once it is this small, beside the largest one and for each row, is rounding.
_ROUNDING = 10 * np.finfo(np.float64).eps


class Rows(ABC):
    """Rows x_i of a matrix X in one storage format.

    Vectors with an entry a feature come in as NumPy arrays. Everything else is an array of the library that holds X:
    indices of rows (None: all of them, in order), vectors with an entry a row, and results, which are in double
    precision.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns of X.
    exact : bool
        Whether `dot` adds up in double precision even where it is not asked to.
    """

    shape: tuple[int, int]
    exact: bool = True

    @abstractmethod
    def dot(self, w: Vector, rows: Any | None = None, *, exact: bool = False) -> Any:
        """x_i . w for each of the rows; one pass. If `exact`, in double precision throughout."""

    @abstractmethod
    def add(self, values: Any, rows: Any | None = None) -> Any:
        """Sum of values_i x_i over the rows, with values_i in the order of the rows."""

    @abstractmethod
    def moments(self, rows: Any, shift: Vector) -> tuple[Any, Any]:
        """Sums of (x_i - shift)(x_i - shift)' and of x_i - shift over the rows."""

    @abstractmethod
    def squares(self, rows: Any | None, axis: int) -> Any:
        """Sums of squares along each of the rows (axis 1), or down each column over the rows (axis 0)."""

    @abstractmethod
    def take(self, rows: Any | None) -> Any:
        """A copy of some rows, as an array or a sparse matrix; or all rows (None), which may be no copy."""


@dataclass
class PassCount:
    """Passes over a data set, shared by all operators on parts of it."""

    n_stored: int
    value: float = 0.0

    def add(self, n_touched: int) -> None:
        """Count the work on some of the stored values as its share of a pass."""
        self.value += n_touched / max(1, self.n_stored)


class Operator(Rows):
    """Linear algebra with the rows x_i of an (n, d) matrix X, made by :func:`as_operator`.

    Vectors and matrices go in as anything that NumPy reads as float64, and come out as float64 whatever the type
    of X: sums are taken in double precision. Rows are named by an array of indices, in any order and with
    repetitions; negative indices do not count from the end. Products use all cores (``OMP_NUM_THREADS`` lowers
    that), and their results do not depend on how many there are, but for Gram matrices of dense rows with more than
    256 columns and for ``row_gram``, which are left to BLAS.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns of X.
    dtype : numpy.dtype
        Type in which X is stored: float32 or float64.
    knows_row_gram : bool
        Whether `row_gram` is read, not computed: systems of the size of a few rows then cost little.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.operators import as_operator
    >>> X = as_operator(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]))
    >>> X.matvec([1, -1])
    array([-1., -1., -1., -1.])
    >>> X.rmatvec_rows([1, 1], rows=[0, 3])
    array([ 8., 10.])
    >>> X.n_passes
    1.5
    """

    dtype: np.dtype[Any]
    knows_row_gram: bool = False
    _x: Any  # the array or sparse matrix

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any], passes: PassCount | None) -> None:
        self.shape = shape
        self.dtype = dtype
        self._passes = PassCount(self.n_stored()) if passes is None else passes
        self._row_norms: Vector | None = None
        # Without the operator itself: a cycle would keep the rows alive.
        self._row_parts: tuple[Operator, NDArray[np.intp], Matrix] | None = None

    def __sizeof__(self) -> int:
        """Bytes of the rows too: what a worker of a cluster counts as used."""
        return object.__sizeof__(self) + self._stored(None) * self._value_bytes

    def __repr__(self) -> str:
        n_rows, n_columns = self.shape
        return f"<{type(self).__name__}: {n_rows} x {n_columns}, {self.dtype}>"

    @property
    def n_passes(self) -> float:
        """Passes over the data so far, by this operator and by those that share its rows.

        A product with all rows counts one, work on some of them counts their share of the stored values.
        """
        return self._passes.value

    def matvec(self, w: ArrayLike) -> Vector:
        """X w. One pass."""
        return self.dot(w)

    def rmatvec(self, v: ArrayLike) -> Vector:
        """X' v. One pass, though rows with v_i = 0 are not read."""
        return self.add(v)

    def matvec_rows(self, w: ArrayLike, rows: ArrayLike) -> Vector:
        """x_i . w for each of the rows."""
        return self.dot(w, rows)

    def rmatvec_rows(self, v: ArrayLike, rows: ArrayLike) -> Vector:
        """Sum of v_i x_i over the rows, with v_i in the order of the rows."""
        return self.add(v, rows)

    def dot(self, w: ArrayLike, rows: ArrayLike | None = None, *, exact: bool = False) -> Vector:
        """x_i . w for each of the rows (None: all of them), always in double precision."""
        taken = None if rows is None else self._rows(rows)
        self._count(taken)
        return self._dot(taken, self._vector("w", w, self.shape[1]))

    def add(self, values: ArrayLike, rows: ArrayLike | None = None) -> Vector:
        """Sum of values_i x_i over the rows (None: all of them)."""
        taken = None if rows is None else self._rows(rows)
        self._count(taken)
        return self._add(taken, self._vector("v", values, self.shape[0] if taken is None else len(taken)))

    def moments(self, rows: ArrayLike, shift: Vector) -> tuple[Matrix, Vector]:
        taken = self._rows(rows)
        ones = np.ones(len(taken))
        return self._gram(taken, ones, shift), self.add(ones, taken) - len(taken) * shift

    def squares(self, rows: ArrayLike | None, axis: int) -> Vector:
        if axis == 0:
            return self.column_squares(rows)
        return self.row_norms() if rows is None else self.row_norms()[self._rows(rows)]

    def take(self, rows: ArrayLike | None) -> Any:
        return self._x if rows is None else self.take_rows(rows)._x

    def gram_rows(self, rows: ArrayLike | None, weights: ArrayLike | None = None) -> Matrix:
        """Sum of weights_i x_i x_i' over the rows (None: all of them), without centring.

        Weights may be negative, so that rows can be taken out of a Gram matrix that held them.
        """
        taken = self._rows(rows)
        scale = np.ones(len(taken)) if weights is None else self._vector("weights", weights, len(taken))
        self._count(taken)
        return self._gram(taken, scale, np.zeros(self.shape[1]))

    def centred_gram_rows(self, rows: ArrayLike | None) -> tuple[Matrix, Vector]:
        """Sum of (x_i - mean)(x_i - mean)' over the rows (None: all of them), and their mean row.

        Two passes over the rows. Dense rows are centred before they are multiplied; sparse ones after, so that
        the error is relative to the Gram matrix that is not centred. No rows: zeros.
        """
        taken = self._rows(rows)
        self._count(taken)
        self._count(taken)
        mean = self._add(taken, np.ones(len(taken))) / max(1, len(taken))
        return self._gram(taken, np.ones(len(taken)), mean), mean

    def row_gram(self, rows: ArrayLike, other: ArrayLike | None = None) -> Matrix:
        """x_i . x_j for i in rows and j in other (None: the same rows): small only, it is a dense matrix."""
        left = self._rows(rows)
        right = left if other is None else self._rows(other)
        self._count(left)
        if other is not None:
            self._count(right)
        return self._row_gram(left, right)

    def row_factor(self) -> RowFactor:
        """Coordinates of all rows in their span; an n x n matrix is formed. One pass the first time, then kept."""
        from taufpl.operators._formats import DenseOperator

        if self._row_parts is None:
            rows, pivots = pivoted_cholesky(self.row_gram(np.arange(self.shape[0])))
            self._row_parts = (DenseOperator(rows, self._passes), pivots, rows[pivots])
        return RowFactor(self, *self._row_parts)

    def row_norms(self) -> Vector:
        """Squared Euclidean norm of every row. One pass the first time; read-only, because it is kept."""
        if self._row_norms is None:
            self._count(None)
            norms, _ = self._squares(self._rows(None))
            norms.flags.writeable = False
            self._row_norms = norms
        return self._row_norms

    def column_squares(self, rows: ArrayLike | None = None) -> Vector:
        """Sum of squares of each column over the rows (None: all of them)."""
        taken = self._rows(rows)
        self._count(taken)
        return self._squares(taken)[1]

    def spectral_norm(self, *, seed: int = 0, tol: float = 1e-3, max_iter: int = 100) -> float:
        """Largest singular value of X, from above: between ``|X|_2`` and ``(1 + tol) |X|_2`` once it has converged.

        The same seed gives the same answer. An iteration takes two passes, and the bound by the Frobenius norm takes
        one. Where `max_iter` iterations are not enough the answer is still safe, only less tight.

        Lanczos' method on X'X, with full reorthogonalisation, from a random start. Its largest Ritz value theta lies
        under the largest eigenvalue lambda_1 of X'X, and some eigenvalue lies within the residual rho of theta; once
        that one is lambda_1, lambda_1 <= theta + rho. So it stops at rho <= 2 tol theta and returns
        sqrt(theta + rho), but never more than the Frobenius norm, which is a bound without conditions.

        That theta belongs to lambda_1 and not to an eigenvalue below it is not proven, but very likely: the start
        would have to be almost orthogonal to the first singular vector.
        """
        if not (tol > 0 and max_iter >= 1):
            raise ValueError(f"tol must be positive and max_iter at least 1, got {tol!r} and {max_iter!r}.")
        frobenius = math.sqrt(float(self.row_norms().sum()))
        if frobenius == 0.0:
            return 0.0
        n_columns = self.shape[1]
        direction = np.random.default_rng(seed).standard_normal(n_columns)
        basis = np.empty((0, n_columns))
        diagonal: list[float] = []
        beside: list[float] = []
        theta = residual = 0.0
        length = float(np.linalg.norm(direction))
        for _ in range(min(max_iter, n_columns)):
            basis = np.vstack([basis, direction / length])
            direction = self.rmatvec(self.matvec(basis[-1]))
            diagonal.append(float(direction @ basis[-1]))
            for _ in range(2):  # once is not enough in floating point
                direction -= basis.T @ (basis @ direction)
            length = float(np.linalg.norm(direction))
            last = len(diagonal) - 1
            values, vectors = eigh_tridiagonal(diagonal, beside, select="i", select_range=(last, last))
            theta, residual = float(values[0]), length * abs(float(vectors[-1, 0]))
            # An invariant subspace (length 0) cannot be left, and holds the answer.
            if residual <= 2 * tol * theta or length <= np.finfo(float).eps * frobenius**2:
                break
            beside.append(length)
        # A last few units for rounding: the bound must hold, and X'X was formed in floating point.
        safe = math.sqrt(theta + residual) * (1 + n_columns**0.5 * np.finfo(float).eps)
        return min(safe, frobenius)

    def take_rows(self, rows: ArrayLike) -> Self:
        """Operator on a copy of these rows, in this order. Its work counts here too, as a share of all rows."""
        taken = self._rows(rows)
        self._count(taken)
        return self._take(taken)

    def counted_apart(self) -> Self:
        """The same rows with a count of passes of their own: threads side by side would mix theirs."""
        other = copy.copy(self)
        other._passes = PassCount(self.n_stored())
        return other

    def n_stored(self, rows: ArrayLike | None = None) -> int:
        """Values stored in the rows (None: in all of them): what a product with them costs."""
        return self._stored(None if rows is None else self._rows(rows))

    def _count(self, rows: Index | None) -> None:
        self._passes.add(self._stored(rows))

    def _rows(self, rows: ArrayLike | None) -> Index:
        if rows is None:
            return np.arange(self.shape[0])
        taken = np.asarray(rows)
        if taken.ndim != 1:
            raise ValueError(f"rows must be one-dimensional, got an array of shape {taken.shape}.")
        if taken.size and taken.dtype.kind not in "iu":
            hint = "; np.flatnonzero turns a mask into indices" if taken.dtype.kind == "b" else ""
            raise TypeError(f"rows must be integer indices, got dtype {taken.dtype}{hint}.")
        # Kernels do not check: an index outside would read foreign memory.
        if taken.size and not (taken.min() >= 0 and taken.max() < self.shape[0]):
            raise IndexError(f"rows must lie between 0 and {self.shape[0] - 1}, got {taken.min()} to {taken.max()}.")
        return np.ascontiguousarray(taken, np.intp)

    @staticmethod
    def _vector(name: str, x: ArrayLike, length: int) -> Vector:
        vector = np.ascontiguousarray(x, np.float64)
        if vector.shape != (length,):
            raise ValueError(f"{name} must have shape ({length},), got {vector.shape}.")
        return vector

    # What a storage in memory must provide. Rows are checked; None stands for all, in order.

    _value_bytes: int  # bytes that a stored value takes, with its index

    @abstractmethod
    def _stored(self, rows: Index | None) -> int: ...

    @abstractmethod
    def _dot(self, rows: Index | None, w: Vector) -> Vector: ...

    @abstractmethod
    def _add(self, rows: Index | None, v: Vector) -> Vector: ...

    @abstractmethod
    def _gram(self, rows: Index, weights: Vector, shift: Vector) -> Matrix:
        """Sum of weights_i (x_i - shift)(x_i - shift)'; sparse rows take 0 or their weighted mean as shift."""

    @abstractmethod
    def _row_gram(self, left: Index, right: Index) -> Matrix: ...

    @abstractmethod
    def _squares(self, rows: Index) -> tuple[Vector, Vector]:
        """Sums of squares along each row, and down each column."""

    @abstractmethod
    def _take(self, rows: Index) -> Self: ...


def add_square(matrix: Matrix, factor: float, vector: Vector) -> None:
    """Add factor * vector vector' to a matrix with contiguous rows, in place: there is no second matrix to fill."""
    dger(factor, vector, vector, a=matrix.T, overwrite_x=0, overwrite_y=0, overwrite_a=1)


@dataclass(frozen=True, slots=True)
class RowFactor:
    """X = L Q', where Q has orthonormal columns: the rows of L are those of X in coordinates of their span.

    So X w = L u and |w| = |u| for w = Q u, and what is left of a w outside the span changes no score. Q is never
    formed: it is X_p' T^-T, where X_p are r linearly independent rows of X and T is the triangle that they have in L.
    `source` is X of shape (n, d), `reduced` is L of shape (n, r), whose work counts as a share of the values stored in
    X, `pivots` are the rows X_p and `triangle` is T, lower.
    """

    source: Operator
    reduced: Operator
    pivots: RowIndices
    triangle: Matrix

    def lift(self, reduced: Vector) -> Vector:
        """Q u, from the r rows."""
        weights = solve_triangular(self.triangle, reduced, lower=True, trans="T", check_finite=False)
        return self.source.rmatvec_rows(weights, self.pivots)

    def coordinates(self, vector: Vector) -> Vector:
        """Q' w, from the r rows."""
        scores = self.source.matvec_rows(vector, self.pivots)
        return np.asarray(solve_triangular(self.triangle, scores, lower=True, check_finite=False))


def pivoted_cholesky(gram: Matrix) -> tuple[Matrix, RowIndices]:
    """G = L L' with L of as many columns as G has rank, and the rows of L that form its lower triangle, in order.

    Relative to the square root of the largest diagonal entry, L is exact up to the square root of rounding.
    """
    n_rows = len(gram)
    tol = n_rows * _ROUNDING * float(gram.diagonal().max())
    factor, pivots, rank, _ = lapack.dpstrf(gram, tol=tol, lower=1)
    order = np.asarray(pivots, dtype=np.intp) - 1
    rows = np.zeros((n_rows, rank))
    rows[order] = np.tril(factor)[:, :rank]
    return rows, order[:rank]
