"""Candidates that know no tau: logistic regression, and support vector machines in which false positives cost more."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsqr
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from taufpl._types import Mask, Vector
from taufpl.estimators.rankings._newton_loss import LOGISTIC, SQUARED_HINGE, LossMinimum, PenalisedLoss
from taufpl.operators import Operator, as_operator, ignoring, is_dense

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
