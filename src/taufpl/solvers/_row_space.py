"""Problems with more features than rows, in coordinates of the rows' span.

The optimal w is a combination of rows. With X = L Q' and orthonormal columns in Q, the problem with the rows of L is
the same problem: w = Q u has the scores X w = L u and the norm |w| = |u|. It has no more features than rows, so that H
can be factored where d is far too large for that.
"""

from __future__ import annotations

from dataclasses import replace

from taufpl.problem import RankingProblem
from taufpl.solvers._result import Result

# H then has as many rows as the data, and is factored. Conjugate gradients get along with more rows where these are
# sparse, in less time; where they are dense, small values of reg may stall them.
_MOST_ROWS = 1000
_MOST_DENSE_ROWS = 2000


def is_wide(problem: RankingProblem) -> bool:
    """Whether the rows are fewer than the features, and few enough for a matrix with one row and column for each."""
    n_rows, n_features = problem.operator.shape
    is_dense = n_rows**2 <= problem.operator.n_stored()
    return n_rows <= (_MOST_DENSE_ROWS if is_dense else _MOST_ROWS) and n_rows < n_features


class Reduction:
    """The reduced problem and the ways there and back. The factor is kept by the operator, for other reg and k too."""

    def __init__(self, problem: RankingProblem) -> None:
        self._factor = problem.operator.row_factor()
        self.problem = RankingProblem(
            self._factor.reduced, problem.positive_rows, problem.negative_rows, problem.k, problem.reg, problem.loss
        )

    def shrink(self, result: Result) -> Result:
        """A result of the problem as one of the reduced problem."""
        return replace(result, coef=self._factor.coordinates(result.coef))

    def lift(self, result: Result) -> Result:
        """A result of the reduced problem as one of the problem; its values are yet to be certified there."""
        return replace(result, coef=self._factor.lift(result.coef))
