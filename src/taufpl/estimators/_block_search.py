"""The search for reg and tau_scale on folds of rows in blocks; the book-keeping is that of `_search.py`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taufpl.estimators._block_parts import Consecutive
from taufpl.estimators._block_scores import Direction, Held, score
from taufpl.estimators._block_solve import posed
from taufpl.estimators._block_table import Divided, Part
from taufpl.estimators._search import FoldPath, RankingSearch, Setting, make_grid, make_settings, possible_folds
from taufpl.estimators._solve import SolverChoice, solve_ranking
from taufpl.problem import BlockRankingProblem, top_count
from taufpl.thresholding import share_above


@dataclass(frozen=True)
class BlockWalker:
    """Folds of rows in blocks, one after the other: every one of them keeps all workers busy.

    The vectors of a fold are made for a walk along reg and gone after it, so that each walk starts anew.
    """

    divided: Divided
    n_folds: int
    tau: float
    choice: SolverChoice

    def walk(self, setting: Setting, regs: NDArray[np.float64], starts: list[Any]) -> list[FoldPath]:
        """Walk every fold."""
        return [self._walk_fold(code, setting, regs.tolist()) for code in range(self.n_folds)]

    def _walk_fold(self, code: int, setting: Setting, regs: Sequence[float]) -> FoldPath:
        with self.divided.rows_of(code) as held_out, self.divided.rows_of(code, others=True) as train:
            k = top_count(setting.tau_scale * self.tau, train.n_negative)
            with posed(train, k, float(regs[0])) as problem:
                return _walk(problem, held_out, regs, self.tau, self.choice)


def search_part(
    part: Part,
    tau: float,
    choice: SolverChoice,
    *,
    tau_scale: float | str,
    regs: int | ArrayLike,
    cv: Any,
    max_extensions: int,
) -> RankingSearch:
    """Judge every setting on folds of the rows of a part; consecutive ones, as an int stands for in scikit-learn.

    Raises
    ------
    TypeError
        If cv is not a number of folds.
    """
    if not isinstance(cv, Integral):
        raise TypeError(
            f"cv must be a number of folds for rows that live elsewhere, got {cv!r}: splitters choose rows by their "
            "numbers, in memory."
        )
    n_folds = possible_folds(int(cv), part.n_positive, part.n_negative)
    division = Consecutive.folds(n_folds, part.sizes, part.first_kind)
    with part.divided(division) as divided:
        search = RankingSearch(BlockWalker(divided, n_folds, tau, choice))
        search.run(make_settings(tau, tau_scale, 1.0), make_grid(regs), max_extensions)
    return search


def _walk(
    problem: BlockRankingProblem, held_out: Part, regs: Sequence[float], tau: float, choice: SolverChoice
) -> FoldPath:
    """Fit for each reg in turn, each from the one before, and judge each on the held-out part."""
    scores, seconds, passes, found = [], [], [], []
    start, ranking = None, None
    for reg in regs:
        began, before = time.perf_counter(), problem.blocks.n_passes + held_out.blocks.n_passes
        # A collapse does not depend on reg.
        if ranking is None or not ranking.collapsed:
            ranking = solve_ranking(problem.replace(reg=float(reg)), choice, start)
            start = ranking.result
        score(held_out, Direction(ranking.result.coef))
        held = Held.of(held_out)
        assert held.positive is not None
        scores.append(share_above(held.positive, held.negative, tau))
        found.append(replace(ranking.result, history=()))
        seconds.append(time.perf_counter() - began)
        passes.append(problem.blocks.n_passes + held_out.blocks.n_passes - before)
    return FoldPath(scores, seconds, passes, found[0], found[-1])
