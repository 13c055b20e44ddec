"""The search for gamma, reg and tau_scale of a kernel ranking, on held-out folds.

The rows get features once for each gamma, whatever the fold, reg and tau_scale, and of low rank. Along reg each
solution starts the next one. All settings are judged at a coarse gap, and the one that leads anew at a finer one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata

from taufpl._types import Array, RowIndices
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._linear import SolverChoice
from taufpl.estimators._progress import step
from taufpl.estimators._search import RankingSearch, RegSearch, Setting, make_grid
from taufpl.estimators.kernel._rows import make_rows

if TYPE_CHECKING:
    from taufpl.estimators.kernel._classifier import KernelTauFPLClassifier

# Multiples of the gamma of "median" that are tried, and the factor by which the search goes on beyond them.
_GAMMA_FACTORS = (0.25, 1.0, 4.0, 16.0)
_GAMMA_STEP = 4.0
_MOST_GAMMA_EXTENSIONS = 3
# Largest and smallest reg of a grid that is given by its size.
_REG_RANGE = (1.0, 1e-5)
_MOST_REG_EXTENSIONS = 1
# Larger shares of the negatives than tau, in multiples of it, that tau_scale="cv" tries.
_TAU_SCALES = (1.0, 2.0, 4.0)
# Gaps at which settings are judged: the first for all of them, the second for whichever leads.
_ROUGH_TOL, _LEADER_TOL = 5e-2, 1e-2
# The search may take fewer landmarks than the fit: which gamma and reg are good shows with few.
_MOST_COMPONENTS = 300
# It may take fewer rows, but as many as give this count of negatives above the threshold.
_MOST_ROWS = 20_000
_LEAST_ABOVE = 50


@dataclass(frozen=True, slots=True)
class KernelSearch:
    """Parameters of the search, and the rows that it may look at."""

    model: KernelTauFPLClassifier
    table: ArrayTable
    seed: int

    def run(self, gamma: float, *, has_gamma: bool) -> tuple[float, RegSearch, dict[str, Array]]:
        """The best gamma, the search of reg there, and the table of all; from this gamma on where it is searched for.

        Beyond the ends of the grids of gamma and reg the search goes on while the best lies there.
        """
        extend = has_gamma and self.model.gamma == "cv"
        gammas = [factor * gamma for factor in _GAMMA_FACTORS] if extend else [gamma]
        searches = {each: self._at(each, place, len(gammas)) for place, each in enumerate(gammas)}
        n_most = len(gammas) + (_MOST_GAMMA_EXTENSIONS if extend else 0)
        while True:
            tried, best = sorted(searches), _best_gamma(searches)
            leader = searches[best].best()
            if not leader.has_judged_best():
                with step(len(tried), len(tried) + 1, "judging the best again"):
                    leader.judge_best(self._choice(_LEADER_TOL))
            elif best in (tried[0], tried[-1]) and len(tried) < n_most:
                following = best / _GAMMA_STEP if best == tried[0] else best * _GAMMA_STEP
                searches[following] = self._at(following, len(tried), len(tried) + 1)
            else:
                return best, leader, _joined_table(searches)

    def _choice(self, tol: float) -> SolverChoice:
        return replace(self.model._choice(), tol=max(self.model.tol, tol))

    def _at(self, gamma: float, n_before: int, n_gammas: int) -> RankingSearch:
        """Search reg and tau_scale at one gamma of several."""
        model, table = self.model, self._some_rows()
        rows = table.by_class
        classes = (np.arange(table.n_positive), np.arange(table.n_positive, rows.size))
        kernel, rng = model._make_kernel(gamma), np.random.default_rng(self.seed)
        n_components = min(model.n_components or _MOST_COMPONENTS, _MOST_COMPONENTS)
        how = replace(model._approximation(), mode="low-rank", n_components=n_components)
        part = kernel.restrict(table.X, rows)
        features = make_rows(kernel, part, how, rng, how.candidates(classes, rng))
        folds = ArrayTable(None, *classes, table.units.take(rows), features.operator, table.n_jobs).split(model.cv)
        search = RankingSearch(folds, model.tau, self._choice(_ROUGH_TOL))
        scales = _TAU_SCALES if model.tau_scale == "cv" else (float(model.tau_scale),)
        regs = make_grid(model.regs if model.reg == "cv" else [float(model.reg)], *_REG_RANGE)
        with step(n_before, n_gammas, f"gamma {gamma:.3g}"):
            return search.run([Setting(scale) for scale in scales], regs, _MOST_REG_EXTENSIONS)

    def _some_rows(self) -> ArrayTable:
        """All rows, or a part of each class."""
        table = self.table
        n_rows = table.n_positive + table.n_negative
        wanted = max(_MOST_ROWS, round(_LEAST_ABOVE / self.model.tau))
        if n_rows <= wanted:
            return table
        rng = np.random.default_rng(self.seed)

        def some(rows: RowIndices) -> RowIndices:
            count = max(self.model.cv, round(rows.size * wanted / n_rows))
            return np.sort(rng.permutation(rows)[:count])

        return replace(table, positive_rows=some(table.positive_rows), negative_rows=some(table.negative_rows))


def _best_gamma(searches: dict[float, RankingSearch]) -> float:
    """The gamma with the best score; of equals the smallest: the smoothest functions."""
    return max(sorted(searches), key=lambda each: searches[each].best().best_score())


def _joined_table(searches: dict[float, RankingSearch]) -> dict[str, Array]:
    """All searches in the form of scikit-learn's `cv_results_`, by gamma."""
    tables = [(gamma, searches[gamma].table()) for gamma in sorted(searches)]
    joined = {name: np.concatenate([table[name] for _, table in tables]) for name in tables[0][1]}
    del joined["param_positive_share"]
    gammas = np.repeat([gamma for gamma, _ in tables], [len(table["param_reg"]) for _, table in tables])
    joined["rank_test_score"] = rankdata(-joined["mean_test_score"], method="min").astype(np.int32)
    return {"param_gamma": gammas, **joined}
