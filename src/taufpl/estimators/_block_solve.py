"""The ranking problem on some of the remote rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from taufpl.estimators._block_table import Part
from taufpl.estimators._solve import Ranking, SolverChoice, solve_ranking
from taufpl.operators.remote import Block, State
from taufpl.problem import BlockRankingProblem
from taufpl.solvers import Callback


@contextmanager
def posed(part: Part, k: int, reg: float) -> Iterator[BlockRankingProblem]:
    """The problem on the rows of a part; its vectors are let go of at the end."""
    blocks = part.blocks.fork(_Pose())
    try:
        yield BlockRankingProblem(blocks, part.n_positive, part.n_negative, k, reg)
    finally:
        blocks.release()


def rank_part(
    part: Part, k: int, reg: float, choice: SolverChoice, callback: Callback | None = None
) -> tuple[Ranking, BlockRankingProblem]:
    """Solve on the rows of a part, from w = 0."""
    with posed(part, k, reg) as problem:
        return solve_ranking(problem, choice, callback=callback), problem


@dataclass(frozen=True)
class _Pose:
    """The state that a problem begins with, from masks."""

    def __call__(self, block: Block, state: State) -> State:
        return {
            "number": state["number"],
            "positive": block.xp.nonzero(state["is_positive"])[0],
            "is_negative": state["is_negative"],
        }
