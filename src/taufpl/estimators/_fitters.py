"""The fitters of linear classifiers: the ranking of the paper, and the automatic choice of a ranking."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taufpl._types import Array, Vector
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._linear import SolverChoice, solve_ranking
from taufpl.estimators._search import search_ranking
from taufpl.estimators._table import LinearModel, Ranking, Table
from taufpl.estimators.rankings import Name, NegativeMoments, as_good_as_best, average, find_candidates, held_out_share
from taufpl.estimators.strategies import LinearFitter
from taufpl.operators import as_operator
from taufpl.problem import BaseRankingProblem, RankingProblem, top_count

# Shares of positives above a threshold do not tell finer gaps apart.
SEARCH_TOL = 1e-3
# Values of X, stored ones if it is sparse, from which on no candidate may take a multiple of X in memory.
LARGE = 20_000_000
# Up to this many rows a second division into folds is taken: which rows happen to share a fold moves the order of the
# candidates most where rows are few, and there it costs little.
FEW_ROWS = 4_000


class PaperFitter(LinearFitter):
    """Fits the ranking of the paper, with reg and tau_scale given or searched for."""

    learns_from_neighbours = True

    def __init__(
        self, tau: float, tau_scale: float | str, reg: float | str, choice: SolverChoice, regs: int | ArrayLike, cv: int
    ) -> None:
        self.tau, self.given = tau, (reg, tau_scale)
        self.reg, self.tau_scale = (math.nan if isinstance(each, str) else float(each) for each in self.given)
        self.choice, self.regs, self.cv = choice, regs, cv
        # What the search found, and the first fit: that on all rows, or on all that may be fitted on.
        self.cv_results: dict[str, Array] | None = None
        self.first: tuple[Ranking, BaseRankingProblem] | None = None

    def prepare(self, table: Table) -> None:
        """Choose reg and tau_scale on folds of these rows, where they are not given."""
        if "cv" not in self.given:
            return
        reg, tau_scale = self.given
        rough = replace(self.choice, tol=max(self.choice.tol, SEARCH_TOL))
        regs = self.regs if reg == "cv" else [self.reg]
        search = search_ranking(table, self.tau, rough, tau_scale=tau_scale, regs=regs, cv=self.cv)
        best = search.best()
        self.cv_results = search.table()
        self.reg, self.tau_scale = best.best_reg(), best.setting.tau_scale

    def fit(self, table: Table, near: LinearModel | None = None) -> LinearModel:
        """Solve on these rows."""
        with table.problem(top_count(self.tau_scale * self.tau, table.n_negative), self.reg) as problem:
            ranking = solve_ranking(problem, self.choice, table.start(near))
        self.first = self.first or (ranking, problem)
        return table.model(ranking)


class AutoFitter(LinearFitter):
    """Fits the candidates that held-out folds could not tell from the best, and averages them."""

    def __init__(self, tau: float, cv: int) -> None:
        self.tau, self.cv = tau, cv
        self.kept: list[Name] = []
        self.selection: dict[str, Any] = {}

    def prepare(self, table: ArrayTable) -> None:
        """Judge all candidates on folds of these rows, which are divided twice where they are few."""
        folds = table.split(self.cv)
        if table.n_positive + table.n_negative <= FEW_ROWS:
            folds += table.split(self.cv, seed=0)
        # By all of X, not by the rows of a fold: every fold must have the same candidates.
        judged = list(folds.map(partial(_judge, tau=self.tau, frugal=table.X.size > LARGE)))
        names = list(judged[0])
        shares = np.array([[fold[name] for fold in judged] for name in names])
        mean = shares.mean(axis=1)
        kept = as_good_as_best(mean, table.n_positive)
        self.kept = [names[index] for index in kept]
        simplest = max(mean[index] for index, name in enumerate(names) if name[0] == "logistic")
        self.selection = {
            "candidate": [f"{name[0]}({', '.join(f'{x:g}' for x in name[1:])})" for name in names],
            "mean_share": mean,
            "std_share": shares.std(axis=1, ddof=1) if len(folds) > 1 else np.zeros(len(names)),
            "over_logistic": mean - simplest,
            "kept": np.isin(np.arange(len(names)), kept),
        }

    def fit(self, table: ArrayTable, near: Any = None) -> LinearModel:
        """Fit what was kept on these rows."""
        found, moments = _find(table, self.tau, self.kept)
        return LinearModel(average(list(found.values()), moments))


def _judge(train: ArrayTable, held_out: ArrayTable, *, tau: float, frugal: bool) -> dict[Name, float]:
    """Held-out share of every candidate on one fold."""
    found, _ = _find(train, tau, frugal=frugal)
    judged = held_out.compact()
    shares = {}
    for name, coef in found.items():
        scores = judged.scores(coef)
        shares[name] = held_out_share(scores.positive, scores.negative, tau)
    return shares


def _find(
    table: ArrayTable, tau: float, wanted: list[Name] | None = None, *, frugal: bool = False
) -> tuple[dict[Name, Vector], NegativeMoments]:
    """Candidates on a copy of these rows of X, positives first."""
    part, cut = table.X[table.by_class], table.n_positive
    # Candidates choose k and reg themselves.
    problem = RankingProblem(as_operator(part), np.arange(cut), np.arange(cut, part.shape[0]), 1, 1.0)
    moments = NegativeMoments.of(problem)
    return find_candidates(part, problem, moments, tau, wanted, frugal=frugal), moments
