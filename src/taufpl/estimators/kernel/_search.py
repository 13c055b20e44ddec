"""The search for gamma, reg and tau_scale of a kernel ranking, on held-out folds.

The rows get features once for each gamma, whatever the fold, reg and tau_scale, and of low rank. Along reg each
solution starts the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from taufpl.estimators._search import FoldWalker, RankingSearch, Setting, make_folds
from taufpl.estimators._solve import SolverChoice
from taufpl.estimators._units import Units
from taufpl.estimators.kernel._rows import Approximation, Rows, Vector, make_rows, take
from taufpl.kernels import Kernel

# What is tried, in multiples of the gamma that the median distance gives.
GAMMA_FACTORS = (0.25, 1.0, 4.0, 16.0)
_GAMMA_STEP = 4.0
_MOST_GAMMA_EXTENSIONS = 3
_MOST_REG_EXTENSIONS = 1
# The search may take fewer landmarks than the fit: which gamma and reg are good shows with few.
_MOST_COMPONENTS = 300
# And fewer rows, but so many that this count of negatives lies above the threshold.
_MOST_ROWS = 20_000
_LEAST_ABOVE = 50
# Shares of positives above a threshold do not tell finer gaps apart.
_SEARCH_TOL = 1e-3


@dataclass(frozen=True, slots=True)
class KernelSearch:
    """Data, folds and settings of a search.

    Attributes
    ----------
    make : callable
        Kernel for a gamma.
    X : ndarray or CSR matrix
        All rows; "precomputed": their kernel matrix.
    positive, negative : ndarray of int
        Rows that may be looked at.
    units : Units
        Which rows of X belong together.
    tau : float
    choice : SolverChoice
    how : Approximation
    cv : int
    n_jobs : int or None
    seed : int
    """

    make: Callable[[float], Kernel]
    X: Any
    positive: Rows
    negative: Rows
    units: Units
    tau: float
    choice: SolverChoice
    how: Approximation
    cv: int
    n_jobs: int | None
    seed: int

    def run(self, gammas: list[float], settings: list[Setting], regs: Vector, *, extend: bool) -> Found:
        """Search the grid, and beyond the ends of gamma and reg while the best lies there."""
        positive, negative = self._some_rows()
        searches = {gamma: self._search(gamma, positive, negative, settings, regs) for gamma in gammas}
        for _ in range(_MOST_GAMMA_EXTENSIONS if extend else 0):
            following = _beyond(searches)
            if following is None:
                break
            searches[following] = self._search(following, positive, negative, settings, regs)
        best = _best(searches)
        chosen = searches[best].best()
        return Found(best, float(chosen.regs[chosen.best()]), chosen.setting.tau_scale, _table(searches))

    def _some_rows(self) -> tuple[Rows, Rows]:
        """All rows, or a part of each class."""
        n_rows = self.positive.size + self.negative.size
        wanted = max(_MOST_ROWS, round(_LEAST_ABOVE / self.tau))
        if n_rows <= wanted:
            return self.positive, self.negative
        rng = np.random.default_rng(self.seed)

        def some(rows: Rows) -> Rows:
            count = max(self.cv, round(rows.size * wanted / n_rows))
            return np.sort(rng.permutation(rows)[:count])

        return some(self.positive), some(self.negative)

    def _search(
        self, gamma: float, positive: Rows, negative: Rows, settings: list[Setting], regs: Vector
    ) -> RankingSearch:
        kernel = self.make(gamma)
        most = min(self.how.n_components or _MOST_COMPONENTS, _MOST_COMPONENTS)
        how = replace(self.how, mode="low-rank", n_components=most)
        cut = positive.size
        parts = (np.arange(cut), np.arange(cut, cut + negative.size))
        part = take(kernel, self.X, np.concatenate((positive, negative)))
        rows = make_rows(kernel, part, how, np.random.default_rng(self.seed), parts)
        folds = make_folds(self.cv, *parts, self.units.take(np.concatenate((positive, negative))))
        rough = replace(self.choice, tol=max(self.choice.tol, _SEARCH_TOL))
        search = RankingSearch(FoldWalker(rows.operator, folds, self.tau, rough, self.n_jobs))
        return search.run(settings, regs, _MOST_REG_EXTENSIONS)


@dataclass(frozen=True, slots=True)
class Found:
    """The best of a search, and its table in the form of scikit-learn's `cv_results_`."""

    gamma: float
    reg: float
    tau_scale: float
    table: dict[str, NDArray[Any]]


def _best(searches: dict[float, RankingSearch]) -> float:
    """The gamma with the best score; of equals, the smallest: the smoothest functions."""
    return max(sorted(searches), key=lambda gamma: searches[gamma].best().best_score())


def _beyond(searches: dict[float, RankingSearch]) -> float | None:
    """The gamma beyond the end of those that were tried, if the one at the end is better than its neighbour."""
    order = sorted(searches)
    scores = [searches[gamma].best().best_score() for gamma in order]
    if len(order) < 2 or max(scores) > max(scores[0], scores[-1]):
        return None
    if scores[-1] == max(scores):
        return order[-1] * _GAMMA_STEP if scores[-1] > scores[-2] else None
    return order[0] / _GAMMA_STEP if scores[0] > scores[1] else None


def _table(searches: dict[float, RankingSearch]) -> dict[str, NDArray[Any]]:
    tables = [(gamma, searches[gamma].table()) for gamma in sorted(searches)]
    joined = {name: np.concatenate([table[name] for _, table in tables]) for name in tables[0][1]}
    del joined["param_positive_share"]
    gammas = np.repeat([gamma for gamma, _ in tables], [len(table["param_reg"]) for _, table in tables])
    joined["rank_test_score"] = rankdata(-joined["mean_test_score"], method="min").astype(np.int32)
    return {"param_gamma": gammas, **joined}
