"""Linear classifiers of few features: Newton steps that go on from neighbouring solutions, and share their Hessians.

::

    F(w, b) = sum_i c_i l(y_i (x_i . w + b)) + (|w|^2 + p b^2) / (2 C),   l logistic, or the squared hinge

Most of what a solver from scratch spends here are Hessians, d^2 products a row. From the solution on a sample, or at
another C, one of them is nearly right, and a step with it takes two passes. Its decrement tells when another is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from taufpl._types import Mask, Matrix, Vector
from taufpl.operators import Operator

# A fit ends where the decrement is this share of the loss: closer than held-out rows can tell, for half a step more.
_TOL = 1e-7
_MOST_STEPS = 100
# A Hessian is taken anew where a step leaves more than this share of the decrement.
_POOR = 0.1
# A step is as long as leaves at most this share of the slope along it.
_FLAT = 0.5
_MOST_LENGTHS = 40
# Added to the diagonal of a Hessian as a share of it: the intercept has no penalty to keep it away from 0.
_JITTER = 1e-12
# Many rows are solved on one row in a few first, on about this many.
_SAMPLE = 10_000
_LARGEST_STRIDE = 8


def _squared_hinge(margins: Vector) -> Vector:
    return 2.0 * np.maximum(1.0 - margins, 0.0)


class LossDerivatives(NamedTuple):
    """A loss of a margin by its falling slope -l', and its curvature l'' as a function of that slope."""

    slopes: Callable[[Vector], Vector]
    curvatures: Callable[[Vector], Vector]


LOGISTIC = LossDerivatives(lambda margins: expit(-margins), lambda slopes: slopes * (1.0 - slopes))
SQUARED_HINGE = LossDerivatives(_squared_hinge, lambda slopes: np.where(slopes > 0, 2.0, 0.0))


@dataclass(frozen=True, slots=True)
class MarginPoint:
    """Weights with the intercept last, the margins that they give, slopes of the loss there, and the gradient of F."""

    at: Vector
    margins: Vector
    slopes: Vector
    gradient: Vector


class LossMinimum(NamedTuple):
    """A minimum, and a Hessian of the sum of losses near it."""

    point: MarginPoint
    hessian: Matrix


class PenalisedLoss:
    """F on the rows of an operator: a negative costs as much as so many positives, b is penalised p times as w is."""

    def __init__(
        self,
        operator: Operator,
        is_positive: Mask,
        loss: LossDerivatives,
        strength: float,
        cost: float = 1.0,
        intercept_penalty: float = 0.0,
    ) -> None:
        self.operator, self.is_positive, self.loss = operator, is_positive, loss
        self.settings = (strength, cost, intercept_penalty)
        self.costs = np.where(is_positive, 1.0, cost)
        self.signs = np.where(is_positive, 1.0, -1.0)
        self.ridge = np.append(np.full(operator.shape[1], 1.0 / strength), intercept_penalty / strength)

    def minimise(self, near: tuple[PenalisedLoss, LossMinimum] | None = None) -> LossMinimum:
        """The minimum, from the solution at another strength, or from that on a sample of the rows."""
        if near is None:
            sample = self._sample()
            start = np.zeros(self.ridge.size) if sample is None else sample.minimise().point.at
            point = self._point(start, self._margins(start))
            hessian, is_fresh = self._hessian(point), True
        else:
            other, (point, hessian) = near
            gradient = point.gradient + (self.ridge - other.ridge) * point.at
            point, is_fresh = replace(point, gradient=gradient), False
        factor, before = self._factor(hessian), np.inf
        for _ in range(_MOST_STEPS):
            step = -cho_solve(factor, point.gradient)
            decrement = -float(point.gradient @ step)
            if decrement <= 2.0 * _TOL * float(self.costs @ point.slopes):
                break
            if decrement > _POOR * before and not is_fresh:
                hessian, is_fresh = self._hessian(point), True
                factor = self._factor(hessian)
                continue
            point, before, is_fresh = self._move(point, step, decrement), decrement, False
        return LossMinimum(point, hessian)

    def _sample(self) -> PenalisedLoss | None:
        """The same on a part of the rows; None where there are few."""
        n_rows = self.is_positive.size
        stride = min(n_rows // _SAMPLE, _LARGEST_STRIDE)
        if stride < 2 or not self.is_positive[::stride].any() or self.is_positive[::stride].all():
            return None
        strength, *settings = self.settings
        rows = np.arange(0, n_rows, stride)
        part = self.operator.take_rows(rows)
        return PenalisedLoss(part, self.is_positive[rows], self.loss, strength * stride, *settings)

    def _margins(self, at: Vector) -> Vector:
        """Margins of weights, or how they change along a step."""
        return self.signs * (self.operator.matvec(at[:-1]) + at[-1])

    def _point(self, at: Vector, margins: Vector) -> MarginPoint:
        slopes = self.loss.slopes(margins)
        weighted_slopes = -self.signs * self.costs * slopes
        gradient = np.append(self.operator.rmatvec(weighted_slopes), weighted_slopes.sum()) + self.ridge * at
        return MarginPoint(at, margins, slopes, gradient)

    def _hessian(self, point: MarginPoint) -> Matrix:
        """Of the sum of losses, without the penalty."""
        curvatures = self.costs * self.loss.curvatures(point.slopes)
        rows = np.flatnonzero(curvatures)
        own = curvatures[rows]
        hessian = np.empty((point.at.size, point.at.size))
        hessian[:-1, :-1] = self.operator.gram_rows(rows, own)
        hessian[-1, :-1] = hessian[:-1, -1] = self.operator.rmatvec_rows(own, rows)
        hessian[-1, -1] = own.sum()
        return hessian

    def _factor(self, hessian: Matrix) -> tuple[Matrix, bool]:
        diagonal = self.ridge + _JITTER * np.diag(hessian) + np.finfo(float).tiny
        factor: tuple[Matrix, bool] = cho_factor(hessian + np.diag(diagonal), lower=True)
        return factor

    def _move(self, point: MarginPoint, step: Vector, decrement: float) -> MarginPoint:
        """A step along which F is nearly flat: its slope, which rises, is brought to between -1/2 and 1/2 of itself."""
        along, penalty = self._margins(step), self.ridge * step
        low, high = (0.0, -decrement), None
        length = 1.0
        for _ in range(_MOST_LENGTHS):
            slopes = self.loss.slopes(point.margins + length * along)
            slope = float(penalty @ (point.at + length * step)) - float((self.costs * slopes) @ along)
            if abs(slope) <= _FLAT * decrement:
                break
            if slope < 0:
                low = (length, slope)
            else:
                high = (length, slope)
            if high is None:
                length *= 2.0
            else:
                share = low[1] / (low[1] - high[1])
                length = low[0] + (high[0] - low[0]) * min(max(share, 0.1), 0.9)
        return self._point(point.at + length * step, point.margins + length * along)
