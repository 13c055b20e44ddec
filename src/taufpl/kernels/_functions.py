"""Kernel functions by name, with parameters that the rows may decide, and bounds on the rounding of their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel as ProcessKernel
from sklearn.metrics.pairwise import (
    chi2_kernel,
    manhattan_distances,
    paired_euclidean_distances,
    paired_manhattan_distances,
    pairwise_kernels,
)

from taufpl._types import Array, RowIndices, Vector
from taufpl.operators import FAR, FixedRows, is_dense, map_chunks, middle, spread, square_sums, work_type

Fill = Callable[[Any, Array], None]

KERNEL_NAMES = ("linear", "rbf", "poly", "polynomial", "sigmoid", "laplacian", "chi2", "cosine", "precomputed")
_OF_DISTANCE = frozenset({"rbf", "laplacian", "chi2"})
_WITH_GAMMA = _OF_DISTANCE | {"poly", "polynomial", "sigmoid"}
GAMMA_RULES = ("median", "scale", "auto")

# Powers up to this are computed as products.
_LARGEST_PRODUCT = 8
# Pairs of rows whose distances tell the scale of a kernel.
_N_PAIRS = 4096
# Values of rows that are held at a time, for one side of the pairs.
_VALUES_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Kernel:
    r"""A kernel k(x, y) with its parameters, made by :func:`make_kernel`.

    ========================  ===============================================
    name                      k(x, y)
    ========================  ===============================================
    "linear"                  x . y
    "rbf"                     exp(-gamma \|x - y\|^2)
    "laplacian"               exp(-gamma \|x - y\|_1)
    "chi2"                    exp(-gamma sum_j (x_j - y_j)^2 / (x_j + y_j))
    "poly" or "polynomial"    (gamma x . y + coef0)^degree
    "sigmoid"                 tanh(gamma x . y + coef0)
    "cosine"                  x . y / (norm of x, norm of y)
    "precomputed"             the rows hold the values of the kernel
    ========================  ===============================================

    Attributes
    ----------
    function : str or callable
        A name of the table; or a function of two rows; or a kernel of :mod:`sklearn.gaussian_process.kernels`.
    gamma : float
    degree : int
    coef0 : float
    kernel_params : mapping
        Further arguments of a function of two rows.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.kernels import make_kernel
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0]])
    >>> make_kernel("rbf", gamma=0.5, X=X).between(X, X).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    function: str | Callable[..., Any]
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0
    kernel_params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_gamma(self) -> bool:
        """Whether the values of the kernel depend on gamma."""
        return isinstance(self.function, str) and self.function in _WITH_GAMMA

    def between(self, X: Any, Y: Any = None) -> Array:
        """Matrix of k(x, y), for the rows x of X and y of Y.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n, d)
            Rows that are checked. "precomputed": the values of the kernel, of shape (n, n_fitted).
        Y : ndarray or sparse matrix of shape (p, d), default=None
            None: X itself. "precomputed": integer positions of columns of X; anything else stands for all columns.

        Returns
        -------
        ndarray of shape (n, p)
            float32 if X and Y are, else float64. No other matrix of this size is made, but for functions of two rows.
        """
        if self.function == "precomputed":
            return _columns_of(X, Y)
        Y = X if Y is None else Y
        if X.shape[1] != Y.shape[1]:
            raise ValueError(f"Rows to compare must have as many features: got {X.shape[1]} and {Y.shape[1]}.")
        dtype = work_type(X, Y)
        values = np.empty((X.shape[0], Y.shape[0]), dtype)
        fill = self.against(Y, dtype)
        map_chunks(lambda part: fill(X[part], values[part]), X.shape[0], values.strides[0])
        return values

    def against(self, Y: Any, dtype: Any) -> Fill:
        """A function that writes k(x, y) for some rows x and all y; what depends on Y alone is computed beforehand.

        Parameters
        ----------
        Y : ndarray or sparse matrix of shape (p, d)
            "precomputed": positions of columns.
        dtype : dtype
            float32 or float64.

        Returns
        -------
        callable
            Called as ``fill(X, out)``, out of shape (n, p). It may be called in several threads at once.
        """
        if self.function == "precomputed":
            return lambda X, out: np.copyto(out, _columns_of(X, Y))
        if not isinstance(self.function, str) or self.function in ("laplacian", "chi2"):
            return lambda X, out: np.copyto(out, self._by_sklearn(*(x.astype(out.dtype, copy=False) for x in (X, Y))))
        fixed = FixedRows(Y, np.dtype(dtype))
        if self.function == "rbf":
            exponents = fixed.negative_distances(self.gamma)

            def fill(X: Any, out: Array) -> None:
                exponents(X, out)
                np.exp(out, out=out)
        elif self.function == "cosine":
            lengths = _lengths(Y).astype(dtype)

            def fill(X: Any, out: Array) -> None:
                fixed.inner(X, out)
                out /= _lengths(X).astype(out.dtype)[:, None]
                out /= lengths
        else:

            def fill(X: Any, out: Array) -> None:
                fixed.inner(X, out)
                self._apply(out)

        return fill

    def diagonal(self, X: Any) -> Vector:
        """k(x, x) for the rows of X, in double precision; "precomputed": the diagonal of X, which must be square."""
        n_rows = X.shape[0]
        if self.function == "precomputed":
            _check_square(X)
            return np.diagonal(X).astype(np.float64)
        if isinstance(self.function, ProcessKernel):
            return np.asarray(self.function.diag(X), dtype=np.float64)
        if not isinstance(self.function, str):
            rows = (X[row : row + 1] for row in range(n_rows))
            return np.array([self._by_sklearn(row, row)[0, 0] for row in rows], dtype=np.float64)
        if self.function in _OF_DISTANCE:
            return np.ones(n_rows)
        squares = square_sums(X)
        if self.function == "cosine":
            return (squares > 0).astype(np.float64)
        self._apply(squares)
        return squares

    def points(self, X: Any, rows: RowIndices) -> Any:
        """Some training rows as `between` and `against` take them for Y; "precomputed": their positions."""
        return rows if self.function == "precomputed" else X[rows]

    def restrict(self, X: Any, rows: RowIndices) -> Any:
        """The data of some training rows alone; "precomputed": their rows and columns of the kernel matrix."""
        return X[np.ix_(rows, rows)] if self.function == "precomputed" else X[rows]

    def expansion(self, X: Any, points: Any, weights: Vector) -> Vector:
        """sum_i weights_i k(points_i, x) for every row x of X; values of k are held for a few rows at a time."""
        sums = np.zeros(X.shape[0])
        if not weights.size:
            return sums
        fill = self.against(points, np.float64)

        def work(part: slice) -> None:
            values = np.empty((part.stop - part.start, weights.size))
            fill(X[part], values)
            np.matmul(values, weights, out=sums[part])

        map_chunks(work, X.shape[0], 8 * weights.size)
        return sums

    def _apply(self, products: Array) -> None:
        """From x . y to k(x, y), in place."""
        if self.function == "linear":
            return
        products *= self.gamma
        products += self.coef0
        if self.function == "sigmoid":
            np.tanh(products, out=products)
        else:
            _raise_to(self.degree, products)

    def _by_sklearn(self, X: Any, Y: Any) -> Array:
        """k(x, y) as scikit-learn computes it: in more memory than one matrix, and slowly for functions of two rows."""
        if self.function == "laplacian":
            distances = manhattan_distances(X, Y)
            distances *= -self.gamma
            return np.exp(distances, out=distances)
        if self.function == "chi2":
            # scikit-learn's loop refuses arrays that must not be written to, though it only reads them.
            X, Y = np.require(X, requirements="W"), np.require(Y, requirements="W")
            return np.asarray(chi2_kernel(X, Y, gamma=self.gamma))
        return np.asarray(pairwise_kernels(X, Y, metric=self.function, **self.kernel_params))


def make_kernel(
    kernel: str | Callable[..., Any] = "rbf",
    gamma: float | str = "median",
    degree: int = 3,
    coef0: float = 1.0,
    kernel_params: Mapping[str, Any] | None = None,
    X: Any = None,
) -> Kernel:
    r"""Kernel with all its parameters as numbers.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        "linear", "rbf", "poly" (or "polynomial"), "sigmoid", "laplacian", "chi2", "cosine" or "precomputed"; or a
        kernel of :mod:`sklearn.gaussian_process.kernels`, which gets whole matrices. Any other callable gets two rows
        and returns a number, as in :func:`sklearn.metrics.pairwise.pairwise_kernels` and all of scikit-learn but SVC;
        it may be called in several threads at once.
    gamma : float or {"median", "scale", "auto"}, default="median"
        Of "rbf", "laplacian", "chi2", "poly" and "sigmoid"; the others have none.

        - "median": 1 over the median distance of 4,096 random pairs of rows, always the same pairs: of \|x - y\|^2, of
          \|x - y\|_1 for "laplacian", of the chi-squared distance for "chi2". Pairs of equal rows count only where they
          are fewer than half of the pairs. For "poly" and "sigmoid": 1 over the median of x . x.
        - "scale": 1 / (d var X), with the variance of all entries, as in SVC.
        - "auto": 1 / d.
    degree : int, default=3
        Of "poly", at least 1.
    coef0 : float, default=1
        Of "poly" and "sigmoid".
    kernel_params : mapping, default=None
        Further arguments of a callable that gets two rows.
    X : ndarray or sparse matrix of shape (n, d)
        The rows to be fitted, checked to be finite numbers. Dense for "chi2", "precomputed" and callables.

    Returns
    -------
    Kernel

    Raises
    ------
    ValueError
        A name is not known, a parameter is out of range, or the rows do not suit the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.kernels import make_kernel
    >>> make_kernel("rbf", gamma="auto", X=np.zeros((3, 4))).gamma
    0.25
    """
    _check_name(kernel, kernel_params)
    if not math.isfinite(coef0):
        raise ValueError(f"coef0 must be a finite number, got {coef0!r}.")
    if not (degree >= 1 and degree == int(degree)):
        raise ValueError(f"degree must be a whole number, at least 1, got {degree!r}.")
    if kernel == "precomputed" and X is not None:
        _check_square(X)
    check_suits(kernel, X)
    if not isinstance(kernel, str | ProcessKernel) and X is not None and X.shape[0]:
        _try_on_rows(kernel, kernel_params or {}, X)
    value = resolve_gamma(gamma, kernel if isinstance(kernel, str) else "callable", X)
    return Kernel(kernel, value, int(degree), float(coef0), dict(kernel_params or {}))


def takes_sparse(kernel: Any) -> bool:
    """Whether the kernel takes sparse rows."""
    return isinstance(kernel, str) and kernel not in ("precomputed", "chi2")


def check_suits(kernel: Any, X: Any) -> None:
    """Refuse rows, of a fit or new, that the kernel cannot take."""
    if X is None or kernel == "precomputed":
        return
    if not is_dense(X) and not takes_sparse(kernel):
        name = f'kernel="{kernel}"' if isinstance(kernel, str) else "A kernel that is not given by its name"
        raise ValueError(f"{name} takes no sparse matrix; X.toarray() makes a dense one of it.")
    if kernel == "chi2" and X.min() < 0:
        raise ValueError(
            f'Negative values in data passed to kernel="chi2": X goes down to {X.min():g}, but must be 0 or more. '
            'Shift the values (MinMaxScaler), or take kernel="laplacian".'
        )


def _try_on_rows(kernel: Callable[..., Any], params: Mapping[str, Any], X: Any) -> None:
    """Call a function of two rows once, so that a function of two matrices is refused before it fails."""
    ways_out = (
        "A callable kernel gets two rows, each of shape (n_features,), and returns a number. For a function of whole "
        'matrices, as SVC takes them, pass kernel="precomputed" with its matrix.'
    )
    try:
        value = kernel(X[0], X[-1], **params)
    except Exception as error:
        raise ValueError(f"The kernel failed on two rows: {error}. {ways_out}") from error
    if np.size(value) != 1 or not isinstance(np.asarray(value).item(), Real):
        raise ValueError(f"The kernel returned {value!r} for two rows. {ways_out}")


def _check_name(kernel: Any, kernel_params: Mapping[str, Any] | None) -> None:
    if isinstance(kernel, str):
        if kernel not in KERNEL_NAMES:
            raise ValueError(f"kernel must be one of {', '.join(KERNEL_NAMES)}, or a callable; got {kernel!r}.")
    elif not callable(kernel):
        raise TypeError(f"kernel must be a name or a callable, got {kernel!r}.")
    if kernel_params and isinstance(kernel, str | ProcessKernel):
        raise ValueError(
            f"kernel_params are arguments of a callable kernel of two rows, got {dict(kernel_params)!r} "
            f"with kernel={kernel!r}; use gamma, degree and coef0 there."
        )


def _check_square(X: Any) -> None:
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f'With kernel="precomputed", X must be the square matrix of k(x_i, x_j) for the rows to be fitted; '
            f"got shape {X.shape}."
        )


def _columns_of(X: Any, Y: Any) -> Array:
    """Columns of precomputed values at the integer positions Y; all columns if Y is anything else."""
    if Y is None or np.ndim(Y) != 1 or np.asarray(Y).dtype.kind not in "iu":
        return np.asarray(X)
    return np.asarray(X[:, Y])


def _raise_to(degree: int, values: Array) -> None:
    """Raise values to a power in place; small powers by products, which take a tenth of the time."""
    if degree > _LARGEST_PRODUCT:
        np.power(values, degree, out=values)
        return
    base = values.copy()
    for _ in range(degree - 1):
        values *= base


def _lengths(X: Any) -> Array:
    """Euclidean norms; 1 for rows of zeros, whose cosine with any other is 0."""
    lengths = np.sqrt(square_sums(X))
    return np.where(lengths > 0, lengths, 1.0)


def resolve_gamma(gamma: Any, kernel: str, X: Any) -> float:
    """Gamma as a number, by the rules of :func:`taufpl.kernels.make_kernel`; 1 for kernels that have none."""
    is_number = isinstance(gamma, Real) and not isinstance(gamma, bool) and 0 < float(gamma) < math.inf
    if not is_number and gamma not in GAMMA_RULES:
        raise ValueError(f'gamma must be a positive number, "median", "scale" or "auto", got {gamma!r}.')
    if kernel not in _WITH_GAMMA:
        return 1.0
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma == "scale":
        return _one_over(X.shape[1] * spread(X))
    if gamma == "median":
        return _one_over(_typical_size(kernel, X))
    return float(gamma)


def _one_over(size: float) -> float:
    """1/size; 1 where all rows are equal, so that gamma makes no difference."""
    return 1.0 / size if size > 0 else 1.0


def _typical_size(kernel: str, X: Any) -> float:
    """Median of the quantity that gamma multiplies, or of its positive values where that median is 0."""
    sizes = np.concatenate([np.zeros(0), *_distances(kernel, X)]) if kernel in _OF_DISTANCE else square_sums(X)
    if sizes.size and np.median(sizes) == 0:
        sizes = sizes[sizes > 0]
    return float(np.median(sizes)) if sizes.size else 0.0


def _distances(kernel: str, X: Any) -> Iterator[Vector]:
    left, right = _pairs(X.shape[0])
    step = max(1, _VALUES_AT_ONCE // X.shape[1])
    for start in range(0, len(left), step):
        some, others = X[left[start : start + step]], X[right[start : start + step]]
        if kernel == "rbf":
            yield np.asarray(paired_euclidean_distances(some, others), dtype=np.float64) ** 2
        elif kernel == "laplacian":
            yield np.asarray(paired_manhattan_distances(some, others), dtype=np.float64)
        else:
            total = (some + others).astype(np.float64)
            yield ((some - others) ** 2 / np.where(total > 0, total, 1.0)).sum(axis=1)


def _pairs(n_rows: int) -> tuple[RowIndices, RowIndices]:
    """Pairs of different rows: all where they are few, else a sample that depends on their number alone."""
    if n_rows * (n_rows - 1) // 2 <= _N_PAIRS:
        left, right = np.triu_indices(n_rows, 1)
        return left, right
    rng = np.random.default_rng(0)
    left = rng.integers(n_rows, size=_N_PAIRS)
    return left, (left + rng.integers(1, n_rows, size=_N_PAIRS)) % n_rows


def score_sizes(kernel: Kernel, X: Any, support: RowIndices, weights: Vector) -> Vector:
    """A number for each row that, times eps, bounds the rounding of its score sum_i c_i k(x_i, x).

    A score of one row may differ from the score of the same row in a batch: products of matrices sum in another order.
    So does each k(x, y) that is computed from a product, and by more than eps k(x, y) where k is a steep function of
    it. In units of eps, and for short sums, k(x, y) rounds by::

        "linear"       |x| |y|
        "poly"         (degree + 1) (gamma |x| |y| + |coef0|)^degree
        "sigmoid"      1 + gamma |x| |y| + |coef0|
        "rbf"          2 + 2 gamma (|x - s|^2 + |y - s|^2), s the middle of the y

    All other kernels: sqrt(k(x, x) k(y, y)), the most that k(x, y) can be.

    `support` are the rows of X with a weight c; X is the kernel matrix for a "precomputed" kernel.
    """
    if not support.size:
        return np.zeros(X.shape[0])
    weights = np.abs(weights)
    if kernel.function == "rbf":
        squares = _rounding_squares(kernel.gamma, X, support)
        return np.asarray(2.0 * (weights.sum() * (1.0 + squares) + weights @ squares[support]))
    lengths, factor, constant = _rounding_terms(kernel, X)
    return factor * float(weights @ lengths[support]) * lengths + constant * float(weights.sum())


def _rounding_squares(gamma: float, X: Any, support: RowIndices) -> Vector:
    """Values of gamma |x - s|^2, s the middle about which distances from the support are computed; 0 for far rows.

    Of dense rows, two that are both beyond FAR have a distance by their difference, which rounds by no more than eps of
    itself. Of one beyond 4 FAR and one within FAR, the kernel is next to 0, and so is its rounding.
    """
    if not is_dense(X):
        return gamma * square_sums(X)
    with np.errstate(over="ignore"):
        squares = gamma * square_sums(X - middle(X[support]))
    return np.where(squares > 4.0 * FAR, 0.0, squares)


def _rounding_terms(kernel: Kernel, X: Any) -> tuple[Vector, float, float]:
    """u(x), a factor and a constant: k(x, y) rounds by factor u(x) u(y) + constant."""
    if kernel.function in ("poly", "polynomial"):
        bases = kernel.gamma * square_sums(X) + abs(kernel.coef0)
        return bases ** (0.5 * kernel.degree), kernel.degree + 1.0, 0.0
    if kernel.function == "sigmoid":
        return np.sqrt(kernel.gamma * square_sums(X) + abs(kernel.coef0)), 1.0, 1.0
    return np.sqrt(np.maximum(kernel.diagonal(X), 0.0)), 1.0, 0.0
