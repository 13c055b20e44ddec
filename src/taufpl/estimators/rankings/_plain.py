"""Candidates that know no tau: logistic regression, and support vector machines in which false positives cost more."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, lsqr
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from taufpl._types import Mask, Matrix, Vector
from taufpl.operators import Operator, as_operator, ignoring, is_dense

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


# A candidate is identified on every fold by its family and its settings.
Name = tuple[str, *tuple[float, ...]]

# The plain candidates, the simpler first, and the one from which others start.
START: tuple[str, float] = ("logistic", 1.0)
_LOGISTIC = (0.001, 0.01, 0.1, 1.0, 100.0)
_SVM = ((10.0, 0.1), (100.0, 0.1))
PLAIN: tuple[Name, ...] = (*(("logistic", strength) for strength in _LOGISTIC), *(("svm", *each) for each in _SVM))
# Above this many features gradients are cheaper than Hessians.
_FEW_FEATURES = 64
_SVM_TOL = 1e-4
# liblinear penalises the intercept as the weight of one more feature with this value in every row. The larger it is,
# the less is gained by hiding a part of the intercept in weights whose features sum to 1, such as those of levels.
_INTERCEPT_SCALING = 100.0
# Iterations of the search for a direction in which all rows score the same, and the root mean square error there.
_MOST_LSQR, _CONSTANT = 100, 1e-6
# Rows for each feature that are asked first whether there is such a direction.
_ASKED_ROWS = 4
# Steps of a first search on columns of unit length, and the error at which it is given up; levels come to .007.
_FIRST_LSQR, _FAR = 10, 0.02


_unwarned = ignoring(ConvergenceWarning)


def plain_candidates(
    X: Any, operator: Operator, is_positive: Mask, wanted: Collection[Name], *, frugal: bool
) -> dict[Name, Vector]:
    """Coefficients of the plain candidates that are wanted, in the order of `PLAIN`; X and the operator are one.

    A frugal search leaves out the support vector machines that liblinear would fit: it holds 16 bytes for a value of X
    beside X itself.
    """
    names = [name for name in PLAIN if name in wanted]
    if not names:
        return {}
    if X.shape[1] <= _FEW_FEATURES:
        found = _by_hessians(operator, is_positive, names)
    else:
        found = {name: _by_gradients(X, is_positive, name) for name in names if not (frugal and name[0] == "svm")}
    constant = constant_direction(X)
    return {name: coef - (coef @ constant) * constant for name, coef in found.items()}


def start_candidate(X: Any, operator: Operator, is_positive: Mask) -> Vector:
    """The candidate from which others start."""
    if X.shape[1] <= _FEW_FEATURES:
        return _by_hessians(operator, is_positive, [START])[START]
    return _by_gradients(X, is_positive, START)


def _by_hessians(operator: Operator, is_positive: Mask, names: Collection[Name]) -> dict[Name, Vector]:
    """All start from one logistic regression, so that what is found does not depend on what else is wanted."""
    problem = PenalisedLoss(operator, is_positive, LOGISTIC, START[1])
    start = (problem, problem.minimise())
    return {name: _minimum(operator, is_positive, name, start).point.at[:-1] for name in names}


def _minimum(
    operator: Operator, is_positive: Mask, name: Name, start: tuple[PenalisedLoss, LossMinimum]
) -> LossMinimum:
    family, *settings = name
    if name == START:
        return start[1]
    if family == "logistic":
        return PenalisedLoss(operator, is_positive, LOGISTIC, *settings).minimise(start)
    cost, strength = settings
    return PenalisedLoss(operator, is_positive, SQUARED_HINGE, strength, cost, _INTERCEPT_SCALING**-2).minimise()


def _by_gradients(X: Any, is_positive: Mask, name: Name) -> Vector:
    """Coefficients, converged or not: held-out rows will judge."""
    family, *settings = name
    is_logistic = family == "logistic"
    model = LogisticRegression(C=settings[0], max_iter=200) if is_logistic else _svm(X, is_positive, *settings)
    with _unwarned:
        coef: Vector = model.fit(X, is_positive).coef_[0]
    return coef


def _svm(X: Any, is_positive: Mask, cost: float, strength: float) -> LinearSVC:
    """A machine with an intercept that is free but for a trace of a penalty.

    liblinear ends where the gradient has fallen to a share of that at w = 0, in which the intercept's part g grows with
    the scaling s. The share is smaller by as much, so that the other features are fitted as closely as with s = 1::

        tol(s) = tol(1) sqrt((|G|^2 + g^2) / (|G|^2 + s^2 g^2)),   (G, g) = sum of c_i y_i (x_i, 1)
    """
    costs = np.where(is_positive, 1.0, -cost)
    intercept, others = float(costs.sum()) ** 2, float(np.sum((X.T @ costs) ** 2))
    share = math.sqrt((others + intercept) / (others + _INTERCEPT_SCALING**2 * intercept)) if intercept else 1.0
    return LinearSVC(
        C=strength,
        class_weight={False: cost, True: 1.0},
        dual=False,
        tol=_SVM_TOL * share,
        max_iter=200,
        intercept_scaling=_INTERCEPT_SCALING,
    )


def constant_direction(X: Any) -> Vector:
    """The unit vector u along the shortest v with X v = 1; zeros where there is none.

    The features of the levels of a column sum to 1, so that v is there wherever levels are encoded. A multiple of v in
    the weights changes no order among rows of X, but moves every row whose level is unknown, all of whose features are
    0. Weights come by it as a part of the intercept: liblinear penalises that of a support vector machine, so that a
    part is cheaper in w, and logistic regression leaves a part there when it ends early. As w lies in the span of the
    rows, w - (w.u) u has no such part in any of the columns. Candidates that are rankings have no intercept.
    """
    n_rows, n_features = X.shape
    if _is_refuted(X):
        return np.zeros(n_features)
    v, _, _, residual = lsqr(X, np.ones(n_rows), atol=1e-8, btol=1e-8, iter_lim=_MOST_LSQR)[:4]
    if residual > _CONSTANT * math.sqrt(n_rows):
        return np.zeros(n_features)
    unit: Vector = v / np.linalg.norm(v)
    return unit


def _is_refuted(X: Any) -> bool:
    """Whether it shows at little cost that no v has X v = 1.

    More rows than features show it, a few of them. Else columns of unit length bring levels close within few steps.
    """
    n_rows, n_features = X.shape
    stride = n_rows // (_ASKED_ROWS * n_features)
    if stride >= 2:
        few = X[::stride]
        few = few if is_dense(few) else few.toarray()
        residual = few @ np.linalg.lstsq(few, np.ones(few.shape[0]))[0] - 1.0
        return bool(np.linalg.norm(residual) > math.sqrt(n_rows) * _CONSTANT)
    lengths = np.sqrt(as_operator(X).column_squares())
    scale = 1.0 / np.where(lengths > 0, lengths, 1.0)
    scaled = LinearOperator(X.shape, lambda z: X @ (scale * z), lambda y: scale * (X.T @ y), dtype=np.float64)
    residual = lsqr(scaled, np.ones(n_rows), atol=1e-8, btol=1e-8, iter_lim=_FIRST_LSQR)[3]
    return bool(residual > _FAR * math.sqrt(n_rows))
