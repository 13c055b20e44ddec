"""The recall at a tolerance if the scores of negatives were Gaussian: smooth, bounded, climbed by quasi-Newton steps.

With mean- and Cov- the mean and covariance of the negatives, V the variances of the features over both classes, and z
the Gaussian quantile of 1 - tau::

    J(w) = (1/m) sum_i sigmoid( ( (x_i+ - mean-) . w / r(w) - z ) / width ),   r(w)^2 = w' (Cov- + ridge diag(V)) w

mean- . w + z r(w) stands for the tau quantile of the negatives. It hardly has any noise, where the order statistic that
it replaces hangs on floor(tau n) + 1 negatives; and it is wrong where scores are not Gaussian, so that J gives
directions to try and to start from, not thresholds. J does not depend on the length of w, so that w = 0 is no way out
of it; and it is bounded, so that positives which cannot be reached have no influence. The ridge does not depend on the
scales of the features, and counts those that only positives have. The negatives are read once, for their moments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, ndtri

from taufpl._types import Array, RowIndices, Vector
from taufpl.operators import Operator
from taufpl.problem import RankingProblem

# Ridges that are tried. Users know this family of rankings as "normal".
RIDGES = (0.03, 0.3)
# Above this many features the covariance is replaced by its diagonal.
MOST_FEATURES = 1000
# Share of the mean variance that is added to each variance: features that do not vary must not count for nothing.
_FLOOR = 1e-9
# From a wide sigmoid, which sees far, to a narrow one, which counts.
_WIDTHS = (1.0, 0.5)


@dataclass(frozen=True, slots=True)
class NegativeMoments:
    """Mean and covariance of the negatives, and variances of all rows, computed once for all fits on the same rows.

    The covariance is its diagonal alone, of shape (d,), where there are many features.
    """

    mean: Vector
    covariance: Array
    variances: Vector

    @classmethod
    def of(cls, problem: RankingProblem) -> NegativeMoments:
        """Up to two passes over the rows of the problem."""
        operator, negatives = problem.operator, problem.negative_rows
        both = np.concatenate((problem.positive_rows, negatives))
        _, variances = mean_and_variances(operator, both)
        if problem.n_features <= MOST_FEATURES:
            gram, mean = operator.centred_gram_rows(negatives)
            return cls(mean, gram / negatives.size, variances)
        return cls(*mean_and_variances(operator, negatives), variances)

    def of_features(self, columns: RowIndices) -> NegativeMoments:
        """Moments of some of the features."""
        own = np.ix_(columns, columns) if self.covariance.ndim == 2 else columns
        return NegativeMoments(self.mean[columns], self.covariance[own], self.variances[columns])

    def negative_variances(self) -> Vector:
        """Variance of each feature over the negatives."""
        return np.diag(self.covariance) if self.covariance.ndim == 2 else self.covariance

    def ridged(self, ridge: float) -> Array:
        """Cov- + ridge diag(V), kept away from 0 where a feature does not vary at all."""
        extra = ridge * self.variances + max(_FLOOR * float(self.variances.mean()), 1e-300)
        return self.covariance + (np.diag(extra) if self.covariance.ndim == 2 else extra)

    def standardised(self, coef: Vector) -> Vector:
        """The coefficients at the length at which negatives score with standard deviation 1.

        Scores of different rankings, or of the same one on different folds, compare and average at this length.
        """
        length, _ = _length(coef, self.covariance)
        return coef / length if length > 0 else coef


@dataclass(frozen=True, slots=True)
class Positives:
    """Positives by themselves: of a problem J asks no more."""

    operator: Operator
    positive_rows: RowIndices


class GaussianRecall:
    """J and its gradient; of a problem the positives alone matter."""

    def __init__(
        self, problem: RankingProblem | Positives, moments: NegativeMoments, tau: float, width: float, ridge: float
    ) -> None:
        self.problem = problem
        self.mean = moments.mean
        self.metric = moments.ridged(ridge)
        self.width = width
        self.quantile = -float(ndtri(tau))

    def length(self, coef: Vector) -> float:
        """r(w)."""
        return _length(coef, self.metric)[0]

    def value_and_gradient(self, coef: Vector) -> tuple[float, Vector]:
        """J(w) and its gradient. Two passes over the positives."""
        rows, operator = self.problem.positive_rows, self.problem.operator
        length, product = _length(coef, self.metric)
        length = max(length, 1e-300)
        margins = (operator.matvec_rows(coef, rows) - float(self.mean @ coef)) / length
        caught = expit((margins - self.quantile) / self.width)
        slopes = caught * (1.0 - caught) / (self.width * rows.size)
        along = operator.rmatvec_rows(slopes, rows) - float(slopes.sum()) * self.mean
        return float(caught.mean()), along / length - float(slopes @ margins) / length**2 * product


def fit_gaussian_recall(
    problem: RankingProblem | Positives,
    moments: NegativeMoments,
    tau: float,
    ridge: float,
    start: Vector,
    max_iter: int = 30,
) -> Vector:
    """Coefficients of length r(w) = 1 found by climbing J, with a wide sigmoid first and a narrower one then.

    J is not concave: the end depends on the start, a direction that is not 0, such as the coefficients of logistic
    regression. `max_iter` bounds the steps at each width.
    """
    if not start.any():
        raise ValueError("start must be a direction, got zeros. Give the coefficients of a linear classifier.")
    coef = start
    for width in _WIDTHS:
        recall = GaussianRecall(problem, moments, tau, width, ridge)
        found = minimize(
            lambda w, recall=recall: tuple(-part for part in recall.value_and_gradient(w)),
            coef / recall.length(coef),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "maxcor": 20},
        )
        coef = np.asarray(found.x, dtype=np.float64)
        coef = coef / recall.length(coef)
    return coef


def _length(coef: Vector, metric: Array) -> tuple[float, Vector]:
    """Square root of w' metric w, and metric w."""
    product = metric @ coef if metric.ndim == 2 else metric * coef
    return math.sqrt(max(float(coef @ product), 0.0)), product


def mean_and_variances(operator: Operator, rows: RowIndices) -> tuple[Vector, Vector]:
    """Mean and variance of each column over the rows."""
    mean = operator.rmatvec_rows(np.ones(rows.size), rows) / rows.size
    return mean, np.maximum(operator.column_squares(rows) / rows.size - np.square(mean), 0.0)
