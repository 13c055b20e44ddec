"""The fit that the linear baselines share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from taufpl._sklearn import Interval, fit_context
from taufpl._types import Vector
from taufpl.estimators import REG_CONSTRAINT, SOLVER_CONSTRAINTS, LinearScorer, warn_not_converged
from taufpl.operators import as_operator
from taufpl.problem import RankingProblem


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
