"""The ranking problem over remote rows, in blocks."""

from taufpl.problem.remote._problem import BlockRankingProblem

__all__ = ["BlockRankingProblem"]
