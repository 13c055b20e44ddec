"""The history of a solve over blocks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from taufpl.problem.remote._problem import BlockRankingProblem
from taufpl.solvers._result import Callback, Record

Vector = NDArray[np.float64]


@dataclass
class Book:
    """Best primal point, dual value of the present pair, and history."""

    problem: BlockRankingProblem
    callback: Callback | None
    primal: float = np.inf
    dual: float = 0.0
    coef: Vector = field(default_factory=lambda: np.zeros(0))
    history: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        blocks = self.problem.blocks
        self.coef = np.zeros(self.problem.n_features)
        self.primal = self.problem.slope**2 / (2.0 * self.problem.curvature)
        self._before = (blocks.n_rounds, blocks.n_passes)
        self._began = time.perf_counter()

    @property
    def gap(self) -> float:
        """Relative gap between the values at hand."""
        return (self.primal - self.dual) / self.primal

    @property
    def n_rounds(self) -> int:
        """Rounds since the book was opened."""
        return self.problem.blocks.n_rounds - self._before[0]

    @property
    def n_passes(self) -> float:
        """Passes since then."""
        return self.problem.blocks.n_passes - self._before[1]

    def see(self, coef: Vector, primal: float, dual: float) -> None:
        """Take the better primal point, and the dual value of the present pair."""
        if primal < self.primal:
            self.primal, self.coef = primal, coef
        self.dual = dual

    def write(self) -> None:
        """Write a line of history."""
        seconds = time.perf_counter() - self._began
        line = Record(self.n_passes, seconds, self.primal, self.dual, self.gap, self.n_rounds)
        self.history.append(line)
        if self.callback is not None:
            self.callback(line)
