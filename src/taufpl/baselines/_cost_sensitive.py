"""Linear classifiers with a cost for each class: solved by liblinear, certified here.

With labels y_i = +1 or -1 and weights a_i that depend on the class only, all of them minimise ::

    P(w, b) = sum_i a_i l(y_i (x_i . w + b)) + (reg/2) (|w|^2 + (b/s)^2)

P is reg-strongly convex in (w, b/s). With g its gradient there, the dual point a_i |l'(y_i (x_i . w + b))| has the
value P - |g|^2 / (2 reg), so that |g|^2 / (2 reg) is the duality gap: P is no further above its minimum.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from taufpl._sklearn import Interval, fit_context
from taufpl.estimators import REG_CONSTRAINT, LinearScorer, TwoClasses, warn_not_converged
from taufpl.operators import Operator, as_operator
from taufpl.problem import SquaredHinge

Vector = NDArray[np.float64]

# s. At 10 a reg of 10 can still take a third off the intercept, at 100 half a percent. Between 1 and 1,000 the time of
# a fit hardly changes, but the rounding of the gradient grows with s.
INTERCEPT_SCALING = 100.0

# The first solve allows for an optimum as low as this share of P(0); one that is lower takes another solve.
_LOW_OPTIMUM = 0.01
_MOST_SOLVES = 4
# Far beyond this, products on the way to a step overflow, and liblinear would search for ever.
_LARGEST_GRADIENT = 1e30


class MarginLoss(Protocol):
    """A loss of the margin u = y (x . w + b)."""

    def value(self, margins: Vector) -> Vector:
        """l(u), entry by entry."""

    def derivative(self, margins: Vector) -> Vector:
        """l'(u), entry by entry; never positive."""


class Logistic:
    """l(u) = log(1 + exp(-u)).

    Examples
    --------
    >>> import numpy as np
    >>> Logistic().value(np.array([0.0, 1000.0]))
    array([0.69314718, 0.        ])
    """

    def value(self, margins: Vector) -> Vector:
        """l(u), entry by entry."""
        losses: Vector = np.logaddexp(0.0, -margins)
        return losses

    def derivative(self, margins: Vector) -> Vector:
        """l'(u), entry by entry."""
        slopes: Vector = -expit(-margins)
        return slopes


@dataclass(frozen=True, slots=True)
class _Point:
    """Where a solve ended: P, and the norm of its gradient in (w, b/s)."""

    coef: Vector
    intercept: float
    n_iter: int
    value: float
    gradient: float


class _Objective:
    """P over the rows of an operator, with one weight for all rows of a class."""

    def __init__(
        self, operator: Operator, labels: TwoClasses, loss: MarginLoss, weights: tuple[float, float], reg: float
    ) -> None:
        self.operator = operator
        self.labels = labels
        self.loss = loss
        self.positive_weight, self.negative_weight = weights
        self.reg = reg
        self.signs = np.full(operator.shape[0], -1.0)
        self.signs[labels.positive_rows] = 1.0

    def at(self, coef: Vector, intercept: float, n_iter: int) -> _Point:
        """P and its gradient. Two passes."""
        weights = np.where(self.signs > 0, self.positive_weight, self.negative_weight)
        margins = self.signs * (self.operator.matvec(coef) + intercept)
        scaled = intercept / INTERCEPT_SCALING
        value = float(weights @ self.loss.value(margins)) + 0.5 * self.reg * (float(coef @ coef) + scaled * scaled)
        slopes = self.signs * weights * self.loss.derivative(margins)
        along_coef = float(np.linalg.norm(self.operator.rmatvec(slopes) + self.reg * coef))
        along_intercept = INTERCEPT_SCALING * float(slopes.sum()) + self.reg * scaled
        return _Point(coef, intercept, n_iter, value, math.hypot(along_coef, along_intercept))

    def gap(self, point: _Point) -> float:
        """Duality gap relative to P."""
        return point.gradient**2 / (2.0 * self.reg * point.value)

    def at_constants(self) -> tuple[float, float, float]:
        """P(0, 0), the norm of the gradient there, and the same at w = 0 with the best b. One pass.

        With U and V the total weights of the classes, the slopes at the best b sum to 2 |l'(0)| U V / (U + V) in each
        class, for both losses and but for the penalty on b.
        """
        rows = (self.labels.positive_rows, self.labels.negative_rows)
        positive, negative = (self.operator.rmatvec_rows(np.full(r.size, 1.0 / r.size), r) for r in rows)
        u, v = self.positive_weight * rows[0].size, self.negative_weight * rows[1].size
        at_zero = math.hypot(float(np.linalg.norm(u * positive - v * negative)), INTERCEPT_SCALING * (u - v))
        at_best = 2.0 * u * v / (u + v) * float(np.linalg.norm(positive - negative))
        slope = -float(self.loss.derivative(np.zeros(1))[0])
        return (u + v) * float(self.loss.value(np.zeros(1))[0]), slope * at_zero, slope * at_best


class LiblinearScorer(LinearScorer, ABC):
    """What these classifiers share. Subclasses say what a row of each class weighs."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearScorer._parameter_constraints,
        "reg": REG_CONSTRAINT,
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }
    _loss: ClassVar[MarginLoss] = SquaredHinge()

    reg: float
    tol: float
    max_iter: int

    @abstractmethod
    def _weights(self, n_positive: int, n_negative: int) -> tuple[float, float]:
        """The weight of a positive row and that of a negative one."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn coefficients and intercept.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Two different labels.

        Returns
        -------
        self
        """
        X, labels = self._read(X, y)
        self._minimise(X, as_operator(X), labels)
        return self

    def _minimise(self, X: Any, operator: Operator, labels: TwoClasses) -> None:
        """Find the minimum of P, and set what is known of it."""
        weights = self._weights(labels.positive_rows.size, labels.negative_rows.size)
        objective = _Objective(operator, labels, self._loss, weights, self.reg)
        self._keep_point(objective, self._search(_with_small_indices(X), objective))

    def _search(self, X: Any, objective: _Objective) -> _Point:
        """Ask liblinear for smaller gradients until the gap is small, or liblinear has come to its last digit.

        liblinear stops at |g| <= eps |g(0)|. Where features differ in scale the largest of them make |g(0)|, so that no
        fixed eps will do. And near w = 0 the gap relative to P says little, so that |g| must also be small beside what
        it is for the best constant.
        """
        value, at_zero, at_best = objective.at_constants()
        if not at_zero < _LARGEST_GRADIENT:
            raise ValueError(
                f"X must hold numbers whose squares can be summed, got a gradient of norm {at_zero:.2g} at w = 0. "
                "Scale the features."
            )
        value *= _LOW_OPTIMUM
        for _ in range(_MOST_SOLVES):
            goal = math.sqrt(self.tol) * min(math.sqrt(2.0 * self.reg * value), at_best)
            point = self._solve(X, objective, goal / at_zero if at_zero > 0 else 1.0)
            done = objective.gap(point) <= self.tol or point.n_iter >= self.max_iter
            if done or point.gradient > 1.01 * goal:
                break
            value = 0.25 * point.value
        return point

    def _solve(self, X: Any, objective: _Objective, share: float) -> _Point:
        """Let liblinear bring the gradient down to a share of what it is at zero."""
        rows = objective.labels.positive_rows.size, objective.labels.negative_rows.size
        solver = self._liblinear(
            C=1.0 / self.reg,
            class_weight={-1.0: objective.negative_weight, 1.0: objective.positive_weight},
            intercept_scaling=INTERCEPT_SCALING,
            # liblinear multiplies its tolerance by the share of the rarer class.
            tol=max(share * sum(rows) / min(rows), float(np.finfo(np.float64).tiny)),
            max_iter=self.max_iter,
        )
        with warnings.catch_warnings(), config_context(assume_finite=True):
            warnings.simplefilter("ignore", ConvergenceWarning)  # what remains is said with the gap
            solver.fit(X, objective.signs)
        return objective.at(solver.coef_[0], float(solver.intercept_[0]), int(np.max(solver.n_iter_)))

    def _liblinear(self, **settings: Any) -> Any:
        """The solver for the loss, in the primal."""
        return LinearSVC(dual=False, **settings)

    def _keep_point(self, objective: _Objective, point: _Point) -> None:
        self.coef_ = point.coef[np.newaxis].copy()
        self.intercept_ = np.array([point.intercept])
        self.objective_ = point.value
        self.dual_gap_ = objective.gap(point)
        self.n_iter_ = max(1, point.n_iter)
        self.converged_ = bool(self.dual_gap_ <= self.tol)
        if not self.converged_:
            warn_not_converged(type(self).__name__, point.n_iter, self.dual_gap_, self.tol)


class CostSensitiveScorer(LiblinearScorer):
    """The mean loss of each class, that of the negatives times their cost."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LiblinearScorer._parameter_constraints,
        "negative_cost": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        reg: float = 0.01,
        negative_cost: float = 1.0,
        *,
        tol: float = 1e-4,
        max_iter: int = 1000,
        pos_label: Any = None,
    ) -> None:
        self.reg = reg
        self.negative_cost = negative_cost
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label

    def _weights(self, n_positive: int, n_negative: int) -> tuple[float, float]:
        return 1.0 / n_positive, self.negative_cost / n_negative


class CostSensitiveSVM(CostSensitiveScorer):
    """A linear support vector machine in which false positives have a price of their own.

    With m positives and n negatives it minimises ::

        P(w, b) = (1/m) sum_i max(0, 1 - (x_i+ . w + b))^2 + negative_cost (1/n) sum_j max(0, 1 + (x_j- . w + b))^2
                  + (reg/2) (|w|^2 + (b/s)^2),    s = 100

    to a certified relative gap, and says positive where x . w + b > 0. A higher `negative_cost` lowers the
    false-positive rate, but which cost gives which rate has to be searched for. The penalty on b is there because
    liblinear cannot do without; its pull is reg b / 10,000, which hardly matters below a reg of 100.

    Parameters
    ----------
    reg : float, default=0.01
        Weight of the penalty, positive. Its best value depends on the scale of the features.
    negative_cost : float, default=1.0
        Weight of the negatives' mean loss beside that of the positives, positive.
    tol : float, default=1e-4
        Relative duality gap at which to stop.
    max_iter : int, default=1000
        Bound on liblinear's iterations.
    pos_label : label, default=None
        The label of positives; None takes the second of the two in sorted order.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.
    objective_ : float
        P at `coef_` and `intercept_`.
    dual_gap_ : float
        Bound on how far this is above the minimum, relative to P: ``|grad P|^2 / (2 reg P)``, the gradient with respect
        to (w, b/s).
    n_iter_ : int
        Iterations of liblinear.
    converged_ : bool
        Whether `dual_gap_` came down to `tol`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had names.

    References
    ----------
    E. Osuna, R. Freund and F. Girosi, "Support vector machines: training and applications", A.I. Memo 1602, MIT, 1997.

    R.-E. Fan, K.-W. Chang, C.-J. Hsieh, X.-R. Wang and C.-J. Lin, "LIBLINEAR: a library for large linear
    classification", JMLR 9, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.baselines import CostSensitiveSVM
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [1000, 100])
    >>> X = rng.normal(size=(1100, 5)) + y[:, np.newaxis]
    >>> [int(CostSensitiveSVM(negative_cost=cost).fit(X, y).predict(X)[y == 0].sum()) for cost in (1, 10, 100)]
    [142, 13, 0]
    """


class CostSensitiveLogisticRegression(CostSensitiveScorer):
    """Logistic regression in which false positives have a price of their own.

    With m positives and n negatives it minimises ::

        P(w, b) = (1/m) sum_i log(1 + exp(-(x_i+ . w + b))) + negative_cost (1/n) sum_j log(1 + exp(x_j- . w + b))
                  + (reg/2) (|w|^2 + (b/s)^2),    s = 100

    to a certified relative gap, and says positive where x . w + b > 0: where it takes the row to be more than
    `negative_cost` times as likely among positives as among negatives.

    Parameters
    ----------
    reg, negative_cost, tol, max_iter, pos_label
        As in :class:`CostSensitiveSVM`, whose fitted attributes it has too.

    References
    ----------
    C.-J. Lin, R. C. Weng and S. S. Keerthi, "Trust region Newton method for large-scale logistic regression", JMLR 9,
    2008.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.baselines import CostSensitiveLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [1000, 100])
    >>> X = rng.normal(size=(1100, 5)) + y[:, np.newaxis]
    >>> models = [CostSensitiveLogisticRegression(negative_cost=cost).fit(X, y) for cost in (1, 10, 100)]
    >>> [int(model.predict(X)[y == 0].sum()) for model in models]
    [142, 15, 1]
    """

    _loss: ClassVar[MarginLoss] = Logistic()

    def _liblinear(self, **settings: Any) -> Any:
        return LogisticRegression(solver="liblinear", **settings)


def _with_small_indices(X: Any) -> Any:
    """X with the indices of 32 bits that liblinear wants; arrays, and matrices that have them, are not copied."""
    indices = getattr(X, "indices", None)
    if indices is None or indices.dtype == X.indptr.dtype == np.int32:
        return X
    if X.indptr[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"X must hold fewer than 2^31 values for liblinear, got {X.indptr[-1]}. Use fewer rows.")
    return type(X)((X.data, indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
