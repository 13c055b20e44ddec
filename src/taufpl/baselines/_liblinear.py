"""Linear classifiers with a weight for each class: solved by liblinear, certified here.

With labels y_i = +1 or -1 and weights a_i that depend on the class only, all of them minimise ::

    P(w, b) = sum_i a_i l(y_i (x_i . w + b)) + (reg/2) (|w|^2 + (b/s)^2)

P is reg-strongly convex in (w, b/s). With g its gradient there, the dual point a_i |l'(y_i (x_i . w + b))| has the
value P - |g|^2 / (2 reg), so that |g|^2 / (2 reg) is the duality gap: P is no further above its minimum.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from taufpl._types import Vector
from taufpl.baselines._scorer import BaselineScorer
from taufpl.problem import RankingProblem, SquaredHinge

# s. At 10 a reg of 10 can still take a third off the intercept, at 100 half a percent. Between 1 and 1,000 the time of
# a fit hardly changes, but the rounding of the gradient grows with s.
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
    """P, with one weight for all positives and one for all negatives."""

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
    """A baseline that liblinear solves; subclasses say what a row of each class weighs."""

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
