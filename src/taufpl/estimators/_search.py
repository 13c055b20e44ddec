"""The search for reg on held-out folds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from taufpl.estimators._grid import reg_grid
from taufpl.estimators._solve import SolverChoice, solve_ranking
from taufpl.operators import Operator
from taufpl.problem import RankingProblem, top_count
from taufpl.solvers import Result
from taufpl.thresholding import share_above

Rows = NDArray[np.intp]

# What `regs=10` spans; where the best value lies outside, the grid grows.
_LARGEST, _SMALLEST = 1e1, 1e-5


def make_grid(regs: int | ArrayLike) -> NDArray[np.float64]:
    """The grid, or one of so many values, largest first."""
    values = np.geomspace(_LARGEST, _SMALLEST, int(regs)) if isinstance(regs, Integral) else reg_grid(regs)
    return np.unique(values)[::-1]


def make_folds(cv: Any, positive_rows: Rows, negative_rows: Rows) -> list[Fold]:
    """Split rows, named by their class, into folds."""
    rows = np.sort(np.concatenate((positive_rows, negative_rows)))
    is_positive = np.isin(rows, positive_rows, assume_unique=True)
    splitter = check_cv(cv, is_positive, classifier=True)
    folds = []
    for number, parts in enumerate(splitter.split(np.zeros((len(rows), 1)), is_positive)):
        by_class = [rows[part[is_positive[part] == kind]] for part in parts for kind in (True, False)]
        if any(part.size == 0 for part in by_class):
            raise ValueError(
                f"fold {number} of cv has no rows of one class in its training or its held-out part; there are "
                f"{positive_rows.size} positives and {negative_rows.size} negatives. "
                "Use fewer folds, or a stratified splitter."
            )
        folds.append(Fold(*by_class))
    return folds


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows of the training part and of the held-out part, by class."""

    positive: Rows
    negative: Rows
    held_out_positive: Rows
    held_out_negative: Rows


@dataclass(frozen=True, slots=True)
class _Walk:
    """Scores and costs of one fold along some values of reg, with the solutions at both ends."""

    scores: list[float]
    seconds: list[float]
    passes: list[float]
    first: Result
    last: Result


class RegSearch:
    """A grid of reg, largest first, with the score of every fold for each value."""

    def __init__(
        self,
        operator: Operator,
        folds: list[Fold],
        tau: float,
        tau_scale: float,
        choice: SolverChoice,
        n_jobs: int | None,
    ) -> None:
        self.operator = operator
        self.folds = folds
        self.settings = (tau, tau_scale, choice)
        self.n_jobs = n_jobs
        self.regs = np.empty(0)
        self.scores, self.seconds, self.passes = (np.empty((len(folds), 0)) for _ in range(3))
        self.largest: list[Result | None] = [None] * len(folds)
        self.smallest: list[Result | None] = [None] * len(folds)

    def run(self, regs: NDArray[np.float64], max_extensions: int) -> int:
        """Walk the grid, and on beyond its ends while the best lies there; return the number of values added."""
        self._walk(regs, downwards=True)
        n_added = 0
        while n_added < max_extensions and len(self.regs) > 1:
            means = self.scores.mean(axis=0)
            best = self.best()
            if best == 0 and means[0] > means[1]:
                self._walk(self.regs[:1] * (self.regs[0] / self.regs[1]), downwards=False)
            elif best == len(means) - 1 and means[-1] > means[-2]:
                self._walk(self.regs[-1:] * (self.regs[-1] / self.regs[-2]), downwards=True)
            else:
                break
            n_added += 1
        return n_added

    def best(self) -> int:
        """Index of the best mean score; of equals, the largest reg."""
        return int(np.argmax(self.scores.mean(axis=0)))

    def _walk(self, regs: NDArray[np.float64], *, downwards: bool) -> None:
        starts = self.smallest if downwards else self.largest
        walks = Parallel(n_jobs=self.n_jobs)(
            delayed(_walk_fold)(self.operator, fold, regs, start, *self.settings)
            for fold, start in zip(self.folds, starts, strict=True)
        )
        self.regs = self._join(self.regs, regs, downwards)
        for name in ("scores", "seconds", "passes"):
            new = np.array([getattr(walk, name) for walk in walks])
            setattr(self, name, self._join(getattr(self, name), new, downwards))
        if downwards:
            self.smallest = [walk.last for walk in walks]
        if not downwards or self.largest[0] is None:
            self.largest = [walk.first for walk in walks]

    @staticmethod
    def _join(old: NDArray[np.float64], new: NDArray[np.float64], downwards: bool) -> NDArray[np.float64]:
        return np.concatenate((old, new) if downwards else (new, old), axis=-1)

    def table(self) -> dict[str, NDArray[Any]]:
        """The search in the form of scikit-learn's `cv_results_`."""
        mean = self.scores.mean(axis=0)
        return {
            "param_reg": self.regs,
            **{f"split{number}_test_score": scores for number, scores in enumerate(self.scores)},
            "mean_test_score": mean,
            "std_test_score": self.scores.std(axis=0),
            "rank_test_score": rankdata(-mean, method="min").astype(np.int32),
            "mean_fit_time": self.seconds.mean(axis=0),
            "mean_n_passes": self.passes.mean(axis=0),
        }


def _walk_fold(
    operator: Operator,
    fold: Fold,
    regs: Sequence[float],
    start: Result | None,
    tau: float,
    tau_scale: float,
    choice: SolverChoice,
) -> _Walk:
    """Fit one fold for each reg in turn, and judge each on the held-out part."""
    k = top_count(min(1.0, tau_scale * tau), fold.negative.size)
    # A copy of the training rows, positives first: scores then split into views, and held-out rows are not multiplied.
    train = operator.take_rows(np.concatenate((fold.positive, fold.negative)))
    m, n = fold.positive.size, fold.negative.size
    problem = RankingProblem(train, np.arange(m), np.arange(m, m + n), k, regs[0])
    held_out = operator.take_rows(np.concatenate((fold.held_out_positive, fold.held_out_negative)))
    scores, seconds, passes, results = [], [], [], []
    collapsed = False
    for reg in regs:
        began, before = time.perf_counter(), operator.n_passes
        if not collapsed:  # which does not depend on reg
            ranking = solve_ranking(problem.replace(reg=reg), choice, start)
            collapsed, start = ranking.collapsed, replace(ranking.result, history=())
        assert start is not None
        marks = held_out.matvec(start.coef)
        scores.append(share_above(marks[: fold.held_out_positive.size], marks[fold.held_out_positive.size :], tau))
        results.append(start)
        seconds.append(time.perf_counter() - began)
        passes.append(operator.n_passes - before)
    return _Walk(scores, seconds, passes, results[0], results[-1])
