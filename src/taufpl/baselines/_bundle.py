"""Planes that support a convex risk from below, and the minimum of the model that they make.

::

    M(w) = max_k (a_k . w + b_k) + (reg/2) |w|^2

The minimum of the model is a quadratic program over the weights of the planes,

    max  b . alpha - |A' alpha|^2 / (2 reg)   over   alpha >= 0, sum alpha = 1,      w = -A' alpha / reg,

and every feasible alpha, exact or not, gives a lower bound. Planes do not depend on reg, so that a bundle of them
serves a whole grid of penalties.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack, qr

from taufpl._types import Matrix, RowIndices, Vector

# Planes that had no weight for this number of iterations are dropped.
_MAX_AGE = 50
# A direction that adds less than this to a set of planes, relative to its size, adds nothing.
_DEPENDENT = 1e-13


class Bundle:
    """Planes under a risk, with the weights of the last solution, from which the next one starts."""

    def __init__(self, n_features: int) -> None:
        self.slopes: Matrix = np.empty((0, n_features))
        self.offsets: Vector = np.empty(0)
        self.weights: Vector = np.empty(0)
        self._ages = np.empty(0, dtype=np.intp)
        # Coordinates of the slopes in an orthonormal basis of their span: short vectors, where features are many.
        self._basis: Matrix = np.empty((0, n_features))
        self._coordinates: Matrix = np.empty((0, 0))

    def __len__(self) -> int:
        return self.offsets.size

    def add(self, slope: Vector, offset: float) -> None:
        """Add the plane slope . w + offset."""
        coordinates = self._place(slope)
        self.slopes = np.vstack((self.slopes, slope))
        self.offsets = np.append(self.offsets, offset)
        self.weights = np.append(self.weights, 0.0 if len(self) > 1 else 1.0)
        self._ages = np.append(self._ages, 0)
        self._coordinates = np.vstack((self._coordinates, coordinates))

    def minimise(self, reg: float, precision: float) -> tuple[Vector, float]:
        """The minimiser of the model plus penalty to within this precision, and a lower bound of P."""
        coef, self.weights = minimise_model(self._coordinates, self.offsets, self.weights, reg, precision)
        gradient = self.weights @ self.slopes
        bound = float(self.weights @ self.offsets) - float(gradient @ gradient) / (2.0 * reg)
        return coef @ self._basis, bound

    def prune(self) -> None:
        """Drop the planes that have long had no weight."""
        self._ages = np.where(self.weights > 0, 0, self._ages + 1)
        kept = self._ages <= _MAX_AGE
        if kept.all():
            return
        self.slopes, self.offsets, self.weights = self.slopes[kept], self.offsets[kept], self.weights[kept]
        self._ages, self._coordinates = self._ages[kept], self._coordinates[kept]
        if len(self._basis) > 2 * len(self):
            directions, triangle = qr(self.slopes.T, mode="economic", check_finite=False)
            self._basis, self._coordinates = np.ascontiguousarray(directions.T), np.ascontiguousarray(triangle.T)

    def _place(self, slope: Vector) -> Vector:
        """Coordinates of a slope; the basis grows where it does not lie in the span."""
        coordinates = self._basis @ slope
        rest = slope - coordinates @ self._basis
        again = self._basis @ rest  # a second time, since the first leaves rounding in the place of what is small
        rest -= again @ self._basis
        coordinates += again
        size = float(np.linalg.norm(rest))
        if size <= _DEPENDENT * float(np.linalg.norm(slope)) or len(self._basis) == len(slope):
            return coordinates
        self._basis = np.vstack((self._basis, rest / size))
        self._coordinates = np.pad(self._coordinates, ((0, 0), (0, 1)))
        return np.append(coordinates, size)


def minimise_model(
    planes: Matrix, offsets: Vector, start: Vector, reg: float, precision: float
) -> tuple[Vector, Vector]:
    """Minimise max_k (a_k . w + b_k) + (reg/2) |w|^2 by an active set on the weights of the planes.

    The support grows by the plane that is violated most, and shrinks where a weight would become negative. It starts
    from feasible weights, and ends with weights whose value is within `precision` of the optimum. Slopes and w are
    coordinates in any orthonormal basis.

    Examples
    --------
    >>> import numpy as np
    >>> planes, offsets = np.array([[1.0], [-1.0], [2.0]]), np.array([0.0, 0.5, -9.0])
    >>> minimise_model(planes, offsets, np.array([1.0, 0.0, 0.0]), reg=1.0, precision=1e-9)
    (array([0.25]), array([0.375, 0.625, 0.   ]))
    """
    support = np.flatnonzero(start > 0)
    weights = start[support]
    kept, best = (np.empty(0), np.empty(0)), -np.inf
    while True:
        support, weights, coef = _settle(planes, offsets, reg, support, weights)
        gradient = weights @ planes[support]
        value = float(weights @ offsets[support]) - float(gradient @ gradient) / (2.0 * reg)
        if value <= best:  # by rounding: no further gain can be seen
            return kept
        full = np.zeros(offsets.size)
        full[support] = weights
        kept, best = (coef, full), value
        heights = planes @ coef + offsets
        highest = int(np.argmax(heights))
        if heights[highest] - float(weights @ heights[support]) <= precision:
            return kept
        if not full[highest]:
            support, weights = np.append(support, highest), np.append(weights, 0.0)


def _settle(
    planes: Matrix, offsets: Vector, reg: float, support: RowIndices, weights: Vector
) -> tuple[RowIndices, Vector, Vector]:
    """Move to the optimum on the support, leaving planes behind whose weights reach zero on the way."""
    while support.size > 1:
        target, coef = _affine_optimum(planes[support], offsets[support], reg)
        falling = np.flatnonzero(target < 0)
        if falling.size == 0 and coef is not None:
            return support, target / target.sum(), coef
        move = target if coef is None else target - weights
        steps = weights[falling] / -move[falling]
        first = int(np.argmin(steps))
        weights = np.maximum(weights + steps[first] * move, 0.0)
        weights[falling[first]] = 0.0
        kept = weights > 0
        support, weights = support[kept], weights[kept] / weights.sum()
    return support, np.ones(1), planes[support[0]] / -reg


def _affine_optimum(planes: Matrix, offsets: Vector, reg: float) -> tuple[Vector, Vector | None]:
    """The best weights of sum 1, whatever their signs, and the point w where all these planes have the same height.

    Where the slope of the newest plane depends on the others there is no such point. Then comes a ray, of sum 0, along
    which A' alpha stays as it is while the weight of the newest plane grows.

    With c the smallest slope and the columns of D the other slopes minus c, A' alpha = c + D beta = -reg w, while D' w
    is known: minus the differences of the offsets. Both come from a QR factorisation of (D, c). The Gram matrix would
    square the spread of the scales of the features, and w = -A' alpha / reg would divide rounding by reg.
    """
    reference = int(np.argmin(np.einsum("ij,ij->i", planes[:-1], planes[:-1])))
    others = np.delete(np.arange(offsets.size), reference)
    n, r = others.size, planes.shape[1]
    columns = np.empty((r, n + 1), order="F")
    columns[:, :n] = (planes[others] - planes[reference]).T
    columns[:, n] = planes[reference]
    newest = float(np.linalg.norm(columns[:, n - 1]))
    factor, reflections = lapack.dgeqrf(columns, overwrite_a=1)[:2]
    weights, coef = np.empty(n + 1), None
    if n > r or abs(factor[n - 1, n - 1]) <= _DEPENDENT * newest:
        weights[others[-1]] = 1.0
        if n > 1:
            weights[others[:-1]] = -lapack.dtrtrs(factor[: n - 1, : n - 1], factor[: n - 1, n - 1])[0]
        weights[reference] = -weights[others].sum()
    else:
        triangle = factor[:n, :n]
        lifted = lapack.dtrtrs(triangle, offsets[others] - offsets[reference], trans=1)[0]
        weights[others] = lapack.dtrtrs(triangle, reg * lifted - factor[:n, n])[0]
        weights[reference] = 1.0 - weights[others].sum()
        rotated = np.zeros((r, 1), order="F")
        rotated[:n, 0] = -lifted
        rotated[n : n + 1, 0] = factor[n : n + 1, n] / -reg
        coef = lapack.dormqr("L", "N", factor[:, : len(reflections)], reflections, rotated, 64)[0][:, 0]
    return weights, coef
