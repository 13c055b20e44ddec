"""Features of low rank for any kernel: kernel values at landmarks, then a triangular solve, chunk by chunk.

Also the base of all estimators with a kernel: its parameters, validation of rows, and tags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from taufpl._sklearn import Interval, StrOptions, fit_context
from taufpl._types import Array, Matrix, RowIndices, Vector
from taufpl.kernels._cholesky import PartialFactor, partial_cholesky
from taufpl.kernels._functions import GAMMA_RULES, KERNEL_NAMES, Kernel, check_suits, make_kernel, takes_sparse
from taufpl.operators import map_chunks, one_blas_thread, scratch, work_type

# Columns that are solved for at a time.
_BLOCK = 64
# Single precision is used while the smallest pivot is at least this share of the largest: the solve divides rounding
# by its root.
_SOUND_PIVOTS = 1e-3
_DTYPES = [np.float64, np.float32]

_Steps = list[tuple[slice, Array, Array]]


class KernelEstimator(BaseEstimator):
    """An estimator with the parameters of :func:`make_kernel`, and those by which landmarks are chosen."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
        "gamma": [StrOptions(set(GAMMA_RULES)), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Real, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "pivoting": [StrOptions({"random", "greedy"})],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def _make_kernel(self, gamma: float | str, X: Any = None) -> Kernel:
        """The kernel at a gamma; the name of a rule for gamma is resolved by the rows X, which are checked."""
        return make_kernel(self.kernel, gamma, self.degree, self.coef0, self.kernel_params, X)

    def _validated(self, X: Any, y: Any = "no_validation", *, dtype: Any, reset: bool = True) -> Any:
        """Rows in the form that the kernel takes; new rows (reset=False) are checked to suit it."""
        sparse = False if self.kernel == "precomputed" else "csr"
        found = validate_data(self, X, y, reset=reset, accept_sparse=sparse, dtype=dtype)
        if not reset:
            check_suits(self.kernel, found)
        return found

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(int(check_random_state(self.random_state).randint(2**31 - 1)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.kernel)
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.positive_only = self.kernel == "chi2"
        return tags


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


class PivotedCholeskyFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    r"""Features whose inner products are a kernel, up to an error that is known.

    Landmarks l_1 .. l_r are chosen among the rows by a partial Cholesky factorisation of the kernel matrix, which is
    never formed. With T T' = K(L, L), T lower, a row gets the features ::

        phi(x) = T^-1 (k(l_1, x), .., k(l_r, x))

    so that phi(x) . phi(y) is the Nystroem approximation of k(x, y) on these landmarks. What is left of a row,
    res(x) = k(x, x) - \|phi(x)\|^2, is never negative and bounds the error of every pair::

        (k(x, y) - phi(x) . phi(y))^2 <= res(x) res(y)

    A linear model on these features is a kernel model on the landmarks. Time O(n r (d + r)), memory n r.

    Parameters
    ----------
    n_components : int, default=500
        Most landmarks. There are fewer where `tol` is reached before, or rows are fewer.
    kernel : str or callable, default="rbf"
        "linear", "rbf", "poly", "sigmoid", "laplacian", "chi2", "cosine", "precomputed", a kernel of
        :mod:`sklearn.gaussian_process.kernels`, or a function of two rows; see :func:`taufpl.kernels.make_kernel`.
        It must be positive semidefinite: a negative pivot, which shows that it is not, is refused.
    gamma : float or {"median", "scale", "auto"}, default="median"
        Scale of the kernel; "median" is 1 over the median squared distance between rows.
    degree : int, default=3
        Of "poly".
    coef0 : float, default=1
        Of "poly" and "sigmoid".
    kernel_params : dict, default=None
        Further arguments of a function of two rows.
    tol : float, default=1e-6
        Stop at this relative error, trace(K - F F') / trace K, among the candidates.
    pivoting : {"random", "greedy"}, default="random"
        Landmarks with probabilities in proportion to the residuals of the rows, or always the row with the largest one.
        Random landmarks are chosen faster and leave out less, as a rule; greedy ones reach for rows that lie alone, and
        need no chance where all rows are candidates.
    n_candidates : int or None, default=20000
        Number of rows, drawn at random, among which landmarks are chosen; None: all, which takes 8 n r bytes. The error
        is measured on all rows either way.
    random_state : int, RandomState or None, default=None
        Draws candidates and random landmarks.

    Attributes
    ----------
    landmarks_ : ndarray or CSR matrix of shape (r, n_features)
        "precomputed": the same as `landmark_indices_`.
    landmark_indices_ : ndarray of shape (r,)
        Rows of the training data that are landmarks, in the order in which they were chosen.
    triangle_ : ndarray of shape (r, r)
        T.
    n_components_ : int
        Number of landmarks, and of features.
    residual_trace_ : float
        Sum of res(x) over all training rows. It bounds the norm of K - F F', spectral and Frobenius.
    relative_error_ : float
        The same relative to trace K.
    error_path_ : ndarray of shape (r,)
        Relative error among the candidates after each landmark.
    gamma_ : float
        The scale that was used; 1 for kernels that have none.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had names.

    See Also
    --------
    sklearn.kernel_approximation.Nystroem : Landmarks drawn with equal probabilities, and no error.

    Notes
    -----
    float32 rows get float32 features. They are computed in single precision as long as the landmarks are well apart
    (no pivot under 1e-3 of the largest), else in double precision and rounded. All cores are used, fewer where
    ``OMP_NUM_THREADS`` says so; results do not depend on how many.

    References
    ----------
    Y. Chen, E. N. Epperly, J. A. Tropp and R. J. Webber, Randomly pivoted Cholesky: practical approximation of a
    kernel matrix with few entry evaluations. Communications on Pure and Applied Mathematics 78, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import PivotedCholeskyFeatures
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> features = PivotedCholeskyFeatures(tol=1e-3, random_state=0)
    >>> F = features.fit_transform(X)
    >>> bool(features.relative_error_ <= 1e-3), bool(features.n_components_ < 100)
    (True, True)
    >>> res = features.residuals(X[:2])
    >>> K = np.exp(-features.gamma_ * ((X[0] - X[1]) ** 2).sum())
    >>> bool((K - F[0] @ F[1]) ** 2 <= res[0] * res[1] + 1e-12)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KernelEstimator._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 500,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        gamma: float | str = "median",
        degree: int = 3,
        coef0: float = 1,
        kernel_params: Mapping[str, Any] | None = None,
        tol: float = 1e-6,
        pivoting: str = "random",
        n_candidates: int | None = 20_000,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.tol = tol
        self.pivoting = pivoting
        self.n_candidates = n_candidates
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the landmarks, and measure the error on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Real numbers. kernel="precomputed": the matrix of k(x_i, x_j), dense.
        y : ignored

        Returns
        -------
        self
        """
        X, diagonal, chosen, rows = self._choose(X)
        residual = chosen.residual if rows is None else diagonal - self._map.squared_lengths(X)
        self._keep_error(residual, diagonal)
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Choose the landmarks, and return the features of all rows: each kernel value of these is computed once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        ndarray of shape (n_samples, r)
        """
        X, diagonal, chosen, rows = self._choose(X)
        if rows is None:
            features, residual = chosen.factor.astype(X.dtype, copy=False), chosen.residual
        else:
            features, squares = self._map.features(X)
            residual = diagonal - squares
        self._keep_error(residual, diagonal)
        return features

    def transform(self, X: Any) -> Array:
        """Features of rows, K(X, L) T^-T.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            kernel="precomputed": k of each row with every training row, of shape (n_samples, n_training).

        Returns
        -------
        ndarray of shape (n_samples, r)
            float32 if X is, else float64.
        """
        check_is_fitted(self)
        return self._map.features(self._validated(X, dtype=_DTYPES, reset=False))[0]

    def residuals(self, X: Any) -> Vector:
        r"""The residual of each row, which the features leave out: res(x) = k(x, x) - \|phi(x)\|^2, at least 0.

        For all rows x and y, new or not, (k(x, y) - phi(x) . phi(y))^2 <= res(x) res(y), up to rounding. A row that is
        far from all landmarks has res(x) near k(x, x): a model on the features knows little about it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = self._validated(X, dtype=_DTYPES, reset=False)
        if self.kernel == "precomputed":
            raise ValueError(
                'With kernel="precomputed", k(x, x) of new rows is not known. For the training rows, see '
                "residual_trace_; for others, subtract the squared norms of their features from it yourself."
            )
        diagonal = self._make_kernel(self.gamma_).diagonal(X)
        return np.maximum(diagonal - self._map.squared_lengths(X), 0.0)

    def _choose(self, X: Any) -> tuple[Any, Vector, PartialFactor, RowIndices | None]:
        """Find the landmarks: the rows, k(x, x) of each, the factor of the candidates, and these; None: all rows."""
        X = self._validated(X, dtype=_DTYPES)
        kernel = self._make_kernel(self.gamma, X)
        rng = self._rng()
        rows = _candidates(X.shape[0], self.n_candidates, self.n_components, rng)
        chosen = partial_cholesky(kernel, X, self.n_components, self.tol, self.pivoting, rng, rows)
        self.landmark_indices_ = chosen.pivots if rows is None else rows[chosen.pivots]
        self.landmarks_ = kernel.points(X, self.landmark_indices_)
        self.n_components_ = len(chosen.pivots)
        self.error_path_ = chosen.path
        self.gamma_ = kernel.gamma
        self.triangle_ = chosen.triangle
        return X, kernel.diagonal(X), chosen, rows

    def _keep_error(self, residual: Vector, diagonal: Vector) -> None:
        # Rounding may make the residual of a row negative; that must not make up for another row.
        self.residual_trace_ = float(np.maximum(residual, 0.0).sum())
        self.relative_error_ = self.residual_trace_ / float(diagonal.sum())

    @property
    def _map(self) -> LandmarkMap:
        return LandmarkMap(self._make_kernel(self.gamma_), self.landmarks_, self.triangle_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _candidates(
    n_rows: int, n_candidates: int | None, n_components: int, rng: np.random.Generator
) -> RowIndices | None:
    """Rows among which landmarks are chosen, ascending; None stands for all rows."""
    if n_candidates is None or n_rows <= max(n_candidates, n_components):
        return None
    return np.sort(rng.choice(n_rows, max(n_candidates, n_components), replace=False))
