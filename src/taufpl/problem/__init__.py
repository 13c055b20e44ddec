"""The ranking problem: loss and conjugate, primal, dual, gap, and the oracle of the dual problem for solvers.

Rows in memory are served here, remote rows by :mod:`taufpl.problem.remote`, which is loaded when it is asked for.
"""

from typing import TYPE_CHECKING

from taufpl._extras import on_demand
from taufpl.problem._memory_oracle import BestPair as BestPair
from taufpl.problem._oracle import (
    HeldRows as HeldRows,
    KrylovEffort as KrylovEffort,
    KrylovSystem as KrylovSystem,
    Moments as Moments,
    Oracle as Oracle,
    RunningMoments as RunningMoments,
    WorkingSet as WorkingSet,
    conjugate_gradients as conjugate_gradients,
    estimated_diagonal as estimated_diagonal,
    newton_direction as newton_direction,
)
from taufpl.problem._ranking import (
    BaseRankingProblem as BaseRankingProblem,
    Certificate,
    Loss,
    OptimalityResiduals,
    RankingProblem,
    RowSpace as RowSpace,
    SquaredHinge,
    top_count,
)

if TYPE_CHECKING:
    from taufpl.problem.remote import BlockRankingProblem

__all__ = [
    "BlockRankingProblem",
    "Certificate",
    "Loss",
    "OptimalityResiduals",
    "RankingProblem",
    "SquaredHinge",
    "top_count",
]

__getattr__ = on_demand(__name__, {"taufpl.problem.remote": ["BlockRankingProblem"]})
