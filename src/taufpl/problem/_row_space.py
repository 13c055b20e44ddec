"""Problems with more features than rows, in coordinates of the rows' span.

The optimal w is a combination of rows. With X = L Q' and orthonormal columns in Q, the problem with the rows of L is
the same problem: w = Q u has the scores X w = L u and the norm |w| = |u|. It has no more features than rows, so that H
can be factored where d is far too large for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from taufpl.problem._ranking import RankingProblem

Vector = NDArray[np.float64]

# H then has as many rows as the data, and is factored. Conjugate gradients get along with more rows where these are
# sparse, in less time; where they are dense, small values of reg may stall them.
_MOST_ROWS = 1000
_MOST_DENSE_ROWS = 2000


@dataclass(frozen=True, slots=True)
class RowSpace:
    """The reduced problem, and the ways of a coefficient vector there and back."""

    problem: RankingProblem
    shrink: Callable[[Vector], Vector]
    lift: Callable[[Vector], Vector]


def is_wide(problem: RankingProblem) -> bool:
    """Whether the rows are fewer than the features, and few enough for a matrix with one row and column for each."""
    n_rows, n_features = problem.operator.shape
    is_dense = n_rows**2 <= problem.operator.n_stored()
    return n_rows <= (_MOST_DENSE_ROWS if is_dense else _MOST_ROWS) and n_rows < n_features
