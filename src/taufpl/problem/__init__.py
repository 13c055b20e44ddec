"""The ranking problem: loss and conjugate, primal, dual, gap, and the oracle of the dual problem for solvers.

Rows in memory are served here, remote rows by :mod:`taufpl.problem.remote`, which is loaded when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taufpl.problem._hessian import conjugate_gradients, newton_direction
from taufpl.problem._loss import Loss, SquaredHinge
from taufpl.problem._memory_oracle import BestPair
from taufpl.problem._moments import Moments
from taufpl.problem._oracle import HeldRows, Oracle, WorkingSet
from taufpl.problem._ranking import BaseRankingProblem, Certificate, OptimalityResiduals, RankingProblem, top_count

if TYPE_CHECKING:
    from taufpl.problem.remote import BlockRankingProblem

__all__ = [
    "BaseRankingProblem",
    "BestPair",
    "BlockRankingProblem",
    "Certificate",
    "HeldRows",
    "Loss",
    "Moments",
    "OptimalityResiduals",
    "Oracle",
    "RankingProblem",
    "SquaredHinge",
    "WorkingSet",
    "conjugate_gradients",
    "newton_direction",
    "top_count",
]


def __getattr__(name: str) -> Any:
    """Load the problem over remote rows when it is asked for."""
    if name != "BlockRankingProblem":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("taufpl.problem.remote").BlockRankingProblem
