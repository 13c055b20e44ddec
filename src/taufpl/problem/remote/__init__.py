"""The ranking problem over remote rows, in blocks."""

from taufpl.problem.remote._problem import BlockRankingProblem
from taufpl.problem.remote._tasks import labelled

__all__ = ["BlockRankingProblem", "labelled"]
