"""The result of a solver, the history that it keeps while it runs, and solves over a grid of problems."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from taufpl._records import with_named_state
from taufpl._types import Vector
from taufpl.problem import BaseRankingProblem


class Status(StrEnum):
    """Why a solver stopped."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    MAX_PASSES = "max_passes"
    STALLED = "stalled"


@with_named_state
@dataclass(frozen=True, slots=True)
class Record:
    """One line of a solver's history: the best values so far, and the passes, seconds and rounds spent on them.

    A round waits for all blocks of remote rows; there is none in memory.
    """

    n_passes: float
    seconds: float
    primal: float
    dual: float
    gap: float
    n_rounds: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """The best primal point and the best feasible dual pair that a solver has seen.

    Attributes
    ----------
    coef : ndarray of shape (d,)
    alpha, beta : ndarray of shape (m,) and of shape (n,), or None
        A feasible pair; `coef` and the pair may come from different iterations. None for remote rows, which keep the
        pair beside them.
    primal, dual : float
        P(coef) and D(alpha, beta) <= P everywhere.
    gap : float
        (primal - dual) / primal.
    n_iter : int
    n_passes : float
        Passes over the data spent by this run.
    status : Status
    history : tuple of Record
    sigma : float or None
        Last proximal step of the Newton solver, from which a warm start takes its first.
    n_rounds : int
        Rounds in which all blocks of remote rows were waited for; 0 in memory.
    n_projections : int
        Projections of the Newton solver.
    """

    coef: Vector
    alpha: Any
    beta: Any
    primal: float
    dual: float
    gap: float
    n_iter: int
    n_passes: float
    status: Status
    history: tuple[Record, ...]
    sigma: float | None = None
    n_rounds: int = 0
    n_projections: int = 0

    @property
    def converged(self) -> bool:
        """Whether the gap came under the tolerance."""
        return self.status is Status.CONVERGED


Callback = Callable[[Record], None]


class Tracker:
    """Best primal point and the dual value beside it, with the history of the gap between them.

    It starts from w = 0, where P = l(0), and from the dual pair (0, 0), where D = -l*(0) = 0: both cost nothing.
    """

    def __init__(self, problem: BaseRankingProblem, tol: float, callback: Callback | None) -> None:
        self.problem, self.tol = problem, tol
        self.coef: Vector = np.zeros(problem.n_features)
        self.primal = problem.primal_at_zero
        self.dual = -float(problem.loss.conjugate(np.zeros(1))[0])
        self.history: list[Record] = []
        self._callback = callback
        self._before = problem.cost
        self._began = time.perf_counter()

    @property
    def gap(self) -> float:
        """Relative gap between the values at hand."""
        return (self.primal - self.dual) / self.primal

    @property
    def n_passes(self) -> float:
        """Passes spent since the tracker was made."""
        return self.problem.cost[0] - self._before[0]

    def see(self, coef: Vector, primal: float, dual: float) -> None:
        """Keep the point if it is the best so far; take the dual value as it is."""
        if primal < self.primal:
            self.primal, self.coef = primal, coef.copy()
        self.dual = dual

    def record(self) -> bool:
        """Write a line of history; return whether the gap is under the tolerance."""
        self._write(self.primal, self.dual, self.gap)
        return self.gap <= self.tol

    def relay(self, record: Record) -> None:
        """Pass on a line from the same problem in other coordinates, but for one that is small enough to end the run.

        The line that ends a run must come from the problem itself.
        """
        if record.gap > self.tol:
            self._write(record.primal, record.dual, record.gap)

    def _write(self, primal: float, dual: float, gap: float) -> None:
        rounds = self.problem.cost[1] - self._before[1]
        line = Record(self.n_passes, time.perf_counter() - self._began, primal, dual, gap, rounds)
        self.history.append(line)
        if self._callback is not None:
            self._callback(line)

    def result(self, status: Status, n_iter: int, alpha: Vector | None, beta: Vector | None) -> Result:
        """The end of a run with this pair."""
        values, history = (self.primal, self.dual, self.gap), tuple(self.history)
        n_rounds = self.problem.cost[1] - self._before[1]
        return Result(self.coef, alpha, beta, *values, n_iter, self.n_passes, status, history, n_rounds=n_rounds)


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
