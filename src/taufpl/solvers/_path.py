"""Warm starts over a grid of problems on the same data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from taufpl.problem import BaseRankingProblem
from taufpl.solvers._result import Callback, Result


class Solver(Protocol):
    """Anything that solves a problem, from the result of a neighbouring one if there is one."""

    def solve(
        self, problem: BaseRankingProblem, start: Result | None = None, callback: Callback | None = None
    ) -> Result:
        """Solve the problem."""


def solve_path(
    solver: Solver,
    problem: BaseRankingProblem,
    ks: Sequence[int],
    regs: Sequence[float],
    callback: Callback | None = None,
) -> Iterator[tuple[int, float, Result]]:
    """Solve for every k and reg, each from the solution of a neighbour.

    For each k, largest first, regs go from the largest down: a strongly regularised problem is the easy one, and its
    solution is near the next one's. The first problem of a k starts from that of the k before.

    Parameters
    ----------
    solver : Newton or Accelerated
    problem : RankingProblem
        Gives the data and the loss; its own k and reg do not matter.
    ks : sequence of int
    regs : sequence of float
    callback : callable, default=None
        Gets the records of every solve.

    Yields
    ------
    k, reg, result
        In the order of solving.
    """
    first_of_row: Result | None = None
    for k in sorted(set(ks), reverse=True):
        start = first_of_row
        for index, reg in enumerate(sorted(set(regs), reverse=True)):
            start = solver.solve(problem.replace(k=k, reg=reg), start, callback)
            if index == 0:
                first_of_row = start
            yield k, reg, start
