"""The linear baselines: the fit that they share, and those that liblinear solves."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from taufpl._sklearn import Interval, fit_context
from taufpl._types import Vector
from taufpl.estimators import (
    REG_CONSTRAINT,
    SOLVER_CONSTRAINTS,
    TAU_CONSTRAINT,
    ArrayTable,
    LinearScorer,
    train_threshold,
    warn_not_converged,
)
from taufpl.operators import as_operator
from taufpl.problem import RankingProblem, SquaredHinge


class BaselineScorer(LinearScorer, ABC):
    """A linear baseline, fitted in memory: subclasses minimise their objective and choose the intercept."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearScorer._parameter_constraints,
        "reg": REG_CONSTRAINT,
        "tol": SOLVER_CONSTRAINTS["tol"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    reg: float
    tol: float
    max_iter: int

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the coefficients and set the threshold.

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
        problem = RankingProblem(as_operator(X), labels.positive_rows, labels.negative_rows, 1, self.reg)
        coef, intercept = self._solve(X, problem)
        self.coef_, self.intercept_ = coef[np.newaxis].copy(), np.array([intercept])
        if not self.converged_:
            warn_not_converged(type(self).__name__, self.n_iter_, self.dual_gap_, self.tol)
        return self

    @abstractmethod
    def _solve(self, X: Any, problem: RankingProblem) -> tuple[Vector, float]:
        """Coefficients and intercept; sets `n_iter_`, `dual_gap_`, `converged_` and what else the class documents.

        The rows of both classes and reg are those of `problem`; its k and its loss are not used.
        """


def stacked_scores(problem: RankingProblem, coef: Vector) -> Vector:
    """Scores of the positives, then those of the negatives. One pass."""
    return np.concatenate(problem.scores(coef))


def combine_rows(problem: RankingProblem, weights: Vector) -> Vector:
    """The vector a with a . w = weights . stacked_scores(w) for every w. Only rows with a weight are touched."""
    m = problem.n_positive
    return problem.combine(weights[:m], -weights[m:])


# s of `LiblinearScorer`. At 10 a reg of 10 can still take a third off the intercept, at 100 half a percent. Between 1
# and 1,000 the time of a fit hardly changes, but the rounding of the gradient grows with s.
_INTERCEPT_SCALING = 100.0

# The first solve allows for an optimum as low as this share of P(0); one that is lower takes another solve.
_LOW_OPTIMUM = 0.01
_MOST_SOLVES = 4
# Far beyond this norm of the gradient, products on the way to a step overflow, and liblinear would search for ever.
_LARGEST_GRADIENT = 1e30


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
class _LiblinearSolution:
    """Where a solve ended: P, the norm of its gradient in (w, b/s), and the duality gap relative to P."""

    coef: Vector
    intercept: float
    n_iter: int
    value: float
    gradient: float
    gap: float


class _Objective:
    """P of `LiblinearScorer`, with one weight for all positives and one for all negatives."""

    def __init__(self, problem: RankingProblem, loss: SquaredHinge | Logistic, weights: tuple[float, float]) -> None:
        self.problem, self.loss, self.reg = problem, loss, problem.reg
        self.positive_weight, self.negative_weight = weights
        self.signs = np.full(problem.operator.shape[0], -1.0)
        self.signs[problem.positive_rows] = 1.0

    def at(self, coef: Vector, intercept: float, n_iter: int) -> _LiblinearSolution:
        """P and its gradient. Two passes."""
        operator = self.problem.operator
        weights = np.where(self.signs > 0, self.positive_weight, self.negative_weight)
        margins = self.signs * (operator.matvec(coef) + intercept)
        scaled = intercept / _INTERCEPT_SCALING
        value = float(weights @ self.loss.value(margins)) + 0.5 * self.reg * (float(coef @ coef) + scaled * scaled)
        slopes = self.signs * weights * self.loss.derivative(margins)
        along_coef = float(np.linalg.norm(operator.rmatvec(slopes) + self.reg * coef))
        along_intercept = _INTERCEPT_SCALING * float(slopes.sum()) + self.reg * scaled
        gradient = math.hypot(along_coef, along_intercept)
        gap = gradient**2 / (2.0 * self.reg * value)
        return _LiblinearSolution(coef, intercept, n_iter, value, gradient, gap)

    def at_constants(self) -> tuple[float, float, float]:
        """P(0, 0), the norm of the gradient there, and the same at w = 0 with the best b. One pass.

        With U and V the total weights of the classes, the slopes at the best b sum to 2 |l'(0)| U V / (U + V) in each
        class, for both losses and but for the penalty on b.
        """
        rows = (self.problem.positive_rows, self.problem.negative_rows)
        positive, negative = (self.problem.operator.rmatvec_rows(np.full(r.size, 1.0 / r.size), r) for r in rows)
        u, v = self.positive_weight * rows[0].size, self.negative_weight * rows[1].size
        at_zero = math.hypot(float(np.linalg.norm(u * positive - v * negative)), _INTERCEPT_SCALING * (u - v))
        at_best = 2.0 * u * v / (u + v) * float(np.linalg.norm(positive - negative))
        slope = -float(self.loss.derivative(np.zeros(1))[0])
        return (u + v) * float(self.loss.value(np.zeros(1))[0]), slope * at_zero, slope * at_best


class LiblinearScorer(BaselineScorer):
    """A classifier with a weight for each class, solved by liblinear and certified here.

    With labels y_i = +1 or -1 and weights a_i that depend on the class only, all of them minimise ::

        P(w, b) = sum_i a_i l(y_i (x_i . w + b)) + (reg/2) (|w|^2 + (b/s)^2)

    P is reg-strongly convex in (w, b/s). With g its gradient there, the dual point a_i |l'(y_i (x_i . w + b))| has the
    value P - |g|^2 / (2 reg), so that |g|^2 / (2 reg) is the duality gap: P is no further above its minimum.
    """

    _loss: ClassVar[SquaredHinge | Logistic] = SquaredHinge()

    @abstractmethod
    def _weights(self, n_positive: int, n_negative: int) -> tuple[float, float]:
        """The weight of a positive row and that of a negative one."""

    def _liblinear(self, **settings: Any) -> Any:
        """The solver for the loss, in the primal."""
        return LinearSVC(dual=False, **settings)

    def _solve(self, X: Any, problem: RankingProblem) -> tuple[Vector, float]:
        objective = _Objective(problem, self._loss, self._weights(problem.n_positive, problem.n_negative))
        point = self._search(_with_small_indices(X), objective)
        self.objective_, self.dual_gap_, self.n_iter_ = point.value, point.gap, max(1, point.n_iter)
        self.converged_ = bool(self.dual_gap_ <= self.tol)
        return point.coef, point.intercept

    def _search(self, X: Any, objective: _Objective) -> _LiblinearSolution:
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
            point = self._run(X, objective, goal / at_zero if at_zero > 0 else 1.0)
            done = point.gap <= self.tol or point.n_iter >= self.max_iter
            if done or point.gradient > 1.01 * goal:
                break
            value = 0.25 * point.value
        return point

    def _run(self, X: Any, objective: _Objective, share: float) -> _LiblinearSolution:
        """Let liblinear bring the gradient down to this share of its norm at zero."""
        counts = objective.problem.n_positive, objective.problem.n_negative
        solver = self._liblinear(
            C=1.0 / self.reg,
            class_weight={-1.0: objective.negative_weight, 1.0: objective.positive_weight},
            intercept_scaling=_INTERCEPT_SCALING,
            # liblinear multiplies its tolerance by the share of the rarer class.
            tol=max(share * sum(counts) / min(counts), float(np.finfo(np.float64).tiny)),
            max_iter=self.max_iter,
        )
        with warnings.catch_warnings(), config_context(assume_finite=True):
            warnings.simplefilter("ignore", ConvergenceWarning)  # `fit` warns, with the gap
            solver.fit(X, objective.signs)
        return objective.at(solver.coef_[0], float(solver.intercept_[0]), int(np.max(solver.n_iter_)))


def _with_small_indices(X: Any) -> Any:
    """X with the indices of 32 bits that liblinear wants; arrays, and matrices that have them, are not copied."""
    indices = getattr(X, "indices", None)
    if indices is None or indices.dtype == X.indptr.dtype == np.int32:
        return X
    if X.indptr[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"X must hold fewer than 2^31 values for liblinear, got {X.indptr[-1]}. Use fewer rows.")
    return type(X)((X.data, indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


class CostSensitiveScorer(LiblinearScorer):
    """A classifier that adds the mean losses of the classes, that of the negatives times a cost."""

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
    liblinear cannot do without it; its gradient is reg b / 10,000, which hardly matters below a reg of 100.

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

    _loss = Logistic()

    def _liblinear(self, **settings: Any) -> Any:
        return LogisticRegression(solver="liblinear", **settings)


class BiasShiftedSVM(LiblinearScorer):
    """A linear support vector machine, trained without regard to tau, whose threshold is then moved to it.

    With N rows and labels y_i = +1 or -1 it minimises ::

        P(w, b) = (1/N) sum_i max(0, 1 - y_i (x_i . w + b))^2 + (reg/2) (|w|^2 + (b/s)^2),    s = 100

    to a certified relative gap. `predict` does not use b: it compares x . w with the (floor(tau n) + 1)-th largest
    score of the n training negatives, which is an optimistic threshold. On new data the false-positive rate may
    exceed tau; :class:`taufpl.NeymanPearsonClassifier` around it has a guarantee.

    Parameters
    ----------
    tau : float, default=0.01
        Tolerated false-positive rate, between 0 and 1.
    reg : float, default=0.01
        Weight of the penalty, positive. Its best value depends on the scale of the features.
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
        Minus the threshold.
    svm_intercept_ : float
        The b that belongs to the minimum of P.
    classes_ : ndarray of shape (2,)
        The label of negatives, then that of positives.
    objective_ : float
        P at `coef_` and `svm_intercept_`.
    dual_gap_, n_iter_, converged_
        As in :class:`CostSensitiveSVM`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had names.

    References
    ----------
    C. Cortes and V. Vapnik, "Support-vector networks", Machine Learning 20, 1995.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.baselines import BiasShiftedSVM
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [1000, 100])
    >>> X = rng.normal(size=(1100, 5)) + y[:, np.newaxis]
    >>> int(BiasShiftedSVM(tau=0.05).fit(X, y).predict(X)[y == 0].sum())
    50
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {**LiblinearScorer._parameter_constraints, "tau": TAU_CONSTRAINT}

    def __init__(
        self, tau: float = 0.01, reg: float = 0.01, *, tol: float = 1e-4, max_iter: int = 1000, pos_label: Any = None
    ) -> None:
        self.tau = tau
        self.reg = reg
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label

    def _solve(self, X: Any, problem: RankingProblem) -> tuple[Vector, float]:
        coef, self.svm_intercept_ = super()._solve(X, problem)
        return coef, -train_threshold(ArrayTable.of(problem), coef, self.tau)

    def _weights(self, n_positive: int, n_negative: int) -> tuple[float, float]:
        return (1.0 / (n_positive + n_negative),) * 2
