"""The ranking problem: loss and conjugate, primal, dual, gap and optimality residuals."""

from taufpl.problem._loss import Loss, SquaredHinge
from taufpl.problem._ranking import (
    BaseRankingProblem,
    Certificate,
    OptimalityResiduals,
    RankingProblem,
    top_count,
)
from taufpl.problem.remote._problem import BlockRankingProblem

__all__ = [
    "BaseRankingProblem",
    "BlockRankingProblem",
    "Certificate",
    "Loss",
    "OptimalityResiduals",
    "RankingProblem",
    "SquaredHinge",
    "top_count",
]
