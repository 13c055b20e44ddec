"""What one solve leaves to the next one on the same rows, so that a warm start reads no data again.

It lies with the rows (`RankingProblem.kept`), not with the result. So what is taken over was computed from the rows of
the problem at hand, and it is taken over only where its vectors are those of the result that is started from.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np

from taufpl.problem import RankingProblem
from taufpl.solvers._moments import RunningMoments
from taufpl.solvers._result import Result, Vector

_KEY = "newton"


@dataclass(frozen=True, slots=True)
class Memory:
    """The end of a solve.

    Attributes
    ----------
    coef : ndarray of shape (d,)
    scores_of_coef : pair of ndarray
    alpha, beta : ndarray
        A pair that is feasible for k.
    k : int
    squared_norm : float
        |X+' alpha - X-' beta|^2.
    running : pair of RunningMoments, or None
        Of the rows that the last model held.
    moved : pair of ndarray
        How far the scores of positives and of negatives moved in the last steps.
    """

    coef: Vector
    scores_of_coef: tuple[Vector, Vector]
    alpha: Vector
    beta: Vector
    k: int
    squared_norm: float
    running: tuple[RunningMoments, RunningMoments] | None
    moved: tuple[Vector, Vector]

    @classmethod
    def of(cls, problem: RankingProblem) -> Memory | None:
        """The last one on these rows."""
        kept = problem.kept.get(_KEY)
        return kept if isinstance(kept, cls) else None

    def keep(self, problem: RankingProblem) -> None:
        """Leave it to the next solve."""
        problem.kept[_KEY] = self

    def scores(self, start: Result) -> tuple[Vector, Vector] | None:
        """Scores of the result's point; None where it is not the point whose scores are known."""
        return self.scores_of_coef if np.array_equal(self.coef, start.coef) else None

    def has_pair(self, start: Result, k: int) -> bool:
        """Whether the result's pair is known to be feasible for k, and its norm with it."""
        return self.k == k and np.array_equal(self.alpha, start.alpha) and np.array_equal(self.beta, start.beta)

    def moments(self) -> tuple[RunningMoments, RunningMoments] | None:
        """Moments to go on with; those here stay as they are."""
        return None if self.running is None else (copy(self.running[0]), copy(self.running[1]))

    def mobility(self) -> tuple[Vector, Vector]:
        """A copy of how far scores have moved."""
        return self.moved[0].copy(), self.moved[1].copy()
