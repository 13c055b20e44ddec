"""The search for gamma, reg and tau_scale of a kernel ranking, on held-out folds.

The rows get features once for each gamma, whatever the fold, reg and tau_scale, and of low rank. Along reg each
solution starts the next one, until it cannot win any more. The first folds judge all settings, the others the best of
them: what is far behind shows soon, and costs most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata

from taufpl._types import Array, Matrix, RowIndices, Vector
from taufpl.estimators._array_table import ArrayParts, ArrayTable
from taufpl.estimators._linear import SolverChoice
from taufpl.estimators._search import SEARCH_TOL, RegSearch, Setting, leading_end, make_grid
from taufpl.estimators.kernel._rows import make_rows

if TYPE_CHECKING:
    from taufpl.estimators.kernel._classifier import KernelTauFPLClassifier

# Multiples of the gamma of "median" that are tried, the likely ones first: later ones are given up sooner.
_GAMMA_FACTORS = (1.0, 4.0, 0.25, 16.0)
# The factor by which the search goes on beyond them.
_GAMMA_STEP = 4.0
_MOST_GAMMA_EXTENSIONS = 3
# Largest and smallest reg of a grid that is given by its size.
_REG_RANGE = (1.0, 1e-5)
_MOST_REG_EXTENSIONS = 1
# Larger shares of the negatives than tau, in multiples of it, that tau_scale="cv" tries.
_TAU_SCALES = (1.0, 2.0, 4.0)
# The search may take fewer landmarks than the fit: which gamma and reg are good shows with few.
_MOST_COMPONENTS = 300
# It may take fewer rows, but as many as give this count of negatives above the threshold.
_MOST_ROWS = 20_000
_LEAST_ABOVE = 50
# Folds that judge all settings, at most all but one, and the gap there, where they only tell about which are good.
_FIRST_FOLDS = 3
_FIRST_TOL = 1e-2
# The share of the settings that the other folds judge, and the fewest.
_FINAL_SHARE = 1 / 3
_LEAST_FINALISTS = 4
# Values of reg that are tried at every gamma, and how far behind the best a following one may fall.
_FIRST_REGS = 3
_SLACK = 0.05


@dataclass(frozen=True, slots=True, order=True)
class KernelSetting:
    """What the search chooses. Of equals the first is taken: the smoothest functions."""

    gamma: float
    tau_scale: float
    shrinkage: float  # minus reg: the larger reg comes first

    @property
    def reg(self) -> float:
        return -self.shrinkage


class Judgements:
    """Scores, seconds and passes of every setting on every fold; NaN where a fold has not judged it."""

    def __init__(self, n_folds: int) -> None:
        self.n_folds = n_folds
        self.n_first = min(_FIRST_FOLDS, n_folds - 1)
        self.lines: dict[KernelSetting, Matrix] = {}

    def add(self, gamma: float, search: RegSearch, folds: slice) -> None:
        """Enter the regs that some folds have judged."""
        for place, reg in enumerate(search.regs.tolist()):
            setting = KernelSetting(gamma, search.setting.tau_scale, -reg)
            line = self.lines.setdefault(setting, np.full((3, self.n_folds), np.nan))
            line[:, folds] = search.scores[:, place], search.seconds[:, place], search.passes[:, place]

    def by_gamma(self) -> dict[float, float]:
        """The best mean score of each gamma, ascending."""
        ordered = sorted(self.lines)
        return {
            gamma: max(float(np.nanmean(self.lines[each][0])) for each in own)
            for gamma, own in groupby(ordered, key=lambda each: each.gamma)
        }

    def best_score(self) -> float:
        """The best mean score so far."""
        return max(self.by_gamma().values(), default=0.0)

    def finalists(self) -> list[KernelSetting]:
        """The best share of the settings."""
        count = max(_LEAST_FINALISTS, math.ceil(_FINAL_SHARE * len(self.lines)))
        by_score = sorted(sorted(self.lines), key=lambda each: -np.nanmean(self.lines[each][0]))
        return sorted(by_score[:count])

    def best(self) -> KernelSetting:
        """The best of the settings that all folds have judged."""
        complete = [each for each in sorted(self.lines) if not np.isnan(self.lines[each]).any()]
        return max(complete, key=lambda each: self.lines[each][0].mean())

    def table(self) -> dict[str, Array]:
        """All of it in the form of scikit-learn's `cv_results_`; those that all folds have judged rank first."""
        settings = sorted(self.lines)
        scores, seconds, passes = np.stack([self.lines[each] for each in settings], axis=1)
        mean = np.nanmean(scores, axis=1)
        # Shares are at most 1, so that no mean of some folds comes before one of all.
        order = mean + 2.0 * ~np.isnan(scores).any(axis=1)
        return {
            "param_gamma": np.array([each.gamma for each in settings]),
            "param_reg": np.array([each.reg for each in settings]),
            "param_tau_scale": np.array([each.tau_scale for each in settings]),
            **{f"split{number}_test_score": own for number, own in enumerate(scores.T)},
            "mean_test_score": mean,
            "std_test_score": np.nanstd(scores, axis=1),
            "rank_test_score": rankdata(-order, method="min").astype(np.int32),
            "mean_fit_time": np.nanmean(seconds, axis=1),
            "mean_n_passes": np.nanmean(passes, axis=1),
        }


@dataclass(frozen=True, slots=True)
class KernelSearch:
    """Parameters of the search, and the rows that it may look at."""

    model: KernelTauFPLClassifier
    table: ArrayTable
    seed: int

    def run(self, gamma: float, *, has_gamma: bool) -> tuple[KernelSetting, dict[str, Array]]:
        """The best setting, and the table of all; from this gamma on where it is searched for.

        Beyond the ends of the grids of gamma and reg the search goes on while the best lies there.
        """
        extend = has_gamma and self.model.gamma == "cv"
        folds = self._folds(gamma)
        judged = Judgements(len(folds))
        for factor in _GAMMA_FACTORS if extend else (1.0,):
            self._judge_all(factor * gamma, judged, folds if factor == 1.0 else None)
        for _ in range(_MOST_GAMMA_EXTENSIONS if extend else 0):
            tried = judged.by_gamma()
            end = leading_end(list(tried.values()))
            if end is None:
                break
            self._judge_all(min(tried) / _GAMMA_STEP if end == 0 else max(tried) * _GAMMA_STEP, judged)
        self._judge_best(judged)
        return judged.best(), judged.table()

    def _judge_all(self, gamma: float, judged: Judgements, folds: ArrayParts | None = None) -> None:
        """Follow reg for each tau_scale at one gamma, on the first folds, as long as it may win."""
        model, first = self.model, _some_folds(folds or self._folds(gamma), slice(judged.n_first))
        regs = make_grid(model.regs if model.reg == "cv" else [float(model.reg)], *_REG_RANGE)
        scales = _TAU_SCALES if model.tau_scale == "cv" else (float(model.tau_scale),)
        starts = None
        # A large scale first: it is the easy problem, and its solution is near the next one's.
        for scale in sorted(scales, reverse=True):
            search, best = RegSearch(first, model.tau, self._rough(_FIRST_TOL), Setting(scale)), judged.best_score()
            search.run(regs[:_FIRST_REGS], starts)
            for place in range(_FIRST_REGS, regs.size):
                if _is_behind(search, best, regs.size - place):
                    break
                search.run(regs[place : place + 1])
            if search.best_score() >= best:
                search.extend(_MOST_REG_EXTENSIONS)
            starts = search.largest
            judged.add(gamma, search, slice(judged.n_first))

    def _judge_best(self, judged: Judgements) -> None:
        """Let the other folds judge the best settings, too."""
        others = slice(judged.n_first, None)
        for gamma, own in groupby(judged.finalists(), key=lambda each: each.gamma):
            folds = _some_folds(self._folds(gamma), others)
            for scale, along in groupby(own, key=lambda each: each.tau_scale):
                search = RegSearch(folds, self.model.tau, self._rough(SEARCH_TOL), Setting(scale))
                search.run(np.array([each.reg for each in along]))
                judged.add(gamma, search, others)

    def _rough(self, tol: float) -> SolverChoice:
        choice = self.model._choice()
        return replace(choice, tol=max(choice.tol, tol))

    def _folds(self, gamma: float) -> ArrayParts:
        """Folds of the rows, by their features at one gamma."""
        model, table = self.model, self._some_rows()
        rows = table.by_class
        classes = (np.arange(table.n_positive), np.arange(table.n_positive, rows.size))
        kernel, rng = model._make_kernel(gamma), np.random.default_rng(self.seed)
        n_components = min(model.n_components or _MOST_COMPONENTS, _MOST_COMPONENTS)
        how = replace(model._approximation(), mode="low-rank", n_components=n_components)
        part = kernel.restrict(table.X, rows)
        features = make_rows(kernel, part, how, rng, how.candidates(classes, rng))
        return ArrayTable(None, *classes, table.units.take(rows), features.operator, table.n_jobs).split(model.cv)

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


def _some_folds(folds: ArrayParts, which: slice) -> ArrayParts:
    return replace(folds, pairs=folds.pairs[which])


def _is_behind(search: RegSearch, best: float, n_left: int) -> bool:
    """Whether the path stays behind the best even if every following reg gains as much as the last one did."""
    if not any(each is not None and each.coef.any() for each in search.smallest):
        return True  # a collapse does not depend on reg
    scores: Vector = search.scores.mean(axis=0)
    hoped = scores[-1] + n_left * max(scores[-1] - scores[-2], 0.0)
    return bool(hoped < max(best, scores.max()) - _SLACK)
