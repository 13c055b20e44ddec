"""The search for reg, and for the shares of negatives and positives to train on, on held-out folds, and its fitter."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from taufpl._types import Array, Vector
from taufpl.estimators._linear import SolverChoice, solve_ranking
from taufpl.estimators._progress import step
from taufpl.estimators._reading import ENOUGH_POSITIVES
from taufpl.estimators._table import LinearModel, Parts, Ranking, Table
from taufpl.estimators.rankings import rank
from taufpl.estimators.strategies import LinearFitter
from taufpl.problem import BaseRankingProblem, top_count
from taufpl.solvers import Result
from taufpl.thresholding import share_above

# Largest and smallest reg of `regs=10`; where the best value lies outside, the grid grows.
_LARGEST, _SMALLEST = 1e1, 1e-5
# Shares of positives above a threshold do not tell finer gaps apart.
SEARCH_TOL = 1e-3
# A path ends where the loss that is left is at most this share of the penalty at its smallest reg.
_SMALL_LOSS = 0.2
# Values of positive_share that "cv" tries, the simplest first.
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.1)


@dataclass(frozen=True, slots=True)
class Setting:
    """Which shares of the classes a ranking trains on."""

    tau_scale: float = 1.0
    positive_share: float = 1.0

    def __str__(self) -> str:
        share = "" if self.positive_share == 1.0 else f", positive_share {self.positive_share:g}"
        return f"tau_scale {self.tau_scale:g}{share}"


def make_settings(tau: float, tau_scale: float | str, positive_share: float | str) -> list[Setting]:
    """The settings to compare, the simpler first; "cv" stands for scales up to all negatives, or for several shares."""
    scales = [float(tau_scale)] if not isinstance(tau_scale, str) else _scales(tau)
    shares = [float(positive_share)] if not isinstance(positive_share, str) else list(_SHARES)
    return [Setting(scale, share) for share in shares for scale in scales]


def _scales(tau: float) -> list[float]:
    """1, 2 and 4 times tau, then in factors of 4, and last all negatives."""
    steps = itertools.chain((1.0, 2.0, 4.0), (4.0**power for power in itertools.count(2)))
    return [*itertools.takewhile(lambda scale: scale * tau < 0.7, steps), 1.0 / tau]


def reg_grid(regs: ArrayLike) -> Vector:
    """The values of reg, as given."""
    values = np.atleast_1d(np.asarray(regs, dtype=np.float64))
    if values.ndim != 1 or values.size == 0 or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"regs must be one or more positive finite numbers, got {regs!r}.")
    return values


def tau_grid(taus: ArrayLike, name: str = "taus") -> Vector:
    """The values of tau, as given."""
    values = np.atleast_1d(np.asarray(taus, dtype=np.float64))
    if values.ndim != 1 or values.size == 0 or not ((values > 0).all() and (values < 1).all()):
        raise ValueError(f"{name} must be one or more numbers strictly between 0 and 1, got {taus!r}.")
    return values


def make_grid(regs: int | ArrayLike, largest: float = _LARGEST, smallest: float = _SMALLEST) -> Vector:
    """The values of reg, largest first; a number stands for as many values between the largest and the smallest."""
    values = np.geomspace(largest, smallest, int(regs)) if isinstance(regs, Integral) else reg_grid(regs)
    return np.unique(values)[::-1]


@dataclass(frozen=True, slots=True)
class FoldPath:
    """Scores and costs of one fold along some values of reg, with the solutions at both ends that others start from."""

    scores: list[float]
    seconds: list[float]
    passes: list[float]
    first: Result
    last: Result


def leading_end(scores: Sequence[float] | Vector) -> int | None:
    """0 or -1 where the best score of a grid lies at that end and is better than its neighbour's; else None."""
    best = int(np.argmax(scores))
    if len(scores) > 1 and best == 0 and scores[0] > scores[1]:
        return 0
    return -1 if len(scores) > 1 and best == len(scores) - 1 else None


class RegSearch:
    """A grid of reg, largest first, with the score of every fold for each value."""

    def __init__(self, folds: Parts, tau: float, choice: SolverChoice, setting: Setting) -> None:
        self.folds = folds
        self.tau, self.choice, self.setting = tau, choice, setting
        self.regs = np.empty(0)
        self.scores, self.seconds, self.passes = (np.empty((len(folds), 0)) for _ in range(3))
        self.largest: list[Result | None] = [None] * len(folds)
        self.smallest: list[Result | None] = [None] * len(folds)
        self._judged: set[float] = set()

    def run(self, regs: Vector, starts: list[Result | None] | None = None) -> None:
        """Follow the grid, from the solutions of a neighbouring setting if there are any."""
        self.smallest = starts or self.smallest
        self._follow(regs, downwards=True)

    def extend(self, max_extensions: int) -> int:
        """Go on beyond the ends of the grid while the best lies there; return the number of values added."""
        n_added = 0
        while n_added < max_extensions and (end := leading_end(self.scores.mean(axis=0))) is not None:
            if end == 0:
                self._follow(self.regs[:1] * (self.regs[0] / self.regs[1]), downwards=False)
            else:
                self._follow(self.regs[-1:] * (self.regs[-1] / self.regs[-2]), downwards=True)
            n_added += 1
        return n_added

    def has_judged_best(self) -> bool:
        """Whether `judge_best` has judged what is now the best reg."""
        return self.best_reg() in self._judged

    def judge_best(self, choice: SolverChoice) -> None:
        """Judge the best reg anew by another choice, a finer gap say."""
        place = int(np.argmax(self.scores.mean(axis=0)))
        self._judged.add(float(self.regs[place]))
        run = partial(run_fold, setting=self.setting, regs=[float(self.regs[place])], tau=self.tau, choice=choice)
        nearer = self.largest if 2 * place < self.regs.size else self.smallest
        for fold, path in enumerate(self.folds.map(run, nearer)):
            self.scores[fold, place] = path.scores[0]
            self.seconds[fold, place] += path.seconds[0]
            self.passes[fold, place] += path.passes[0]

    def best_reg(self) -> float:
        """The reg with the best mean score; of equals, the largest."""
        return float(self.regs[np.argmax(self.scores.mean(axis=0))])

    def best_score(self) -> float:
        """The best mean score."""
        return float(self.scores.mean(axis=0).max())

    def _follow(self, regs: Vector, *, downwards: bool) -> None:
        run = partial(run_fold, setting=self.setting, regs=regs.tolist(), tau=self.tau, choice=self.choice)
        paths = list(self.folds.map(run, self.smallest if downwards else self.largest))
        self.regs = self._join(self.regs, regs, downwards)
        for name in ("scores", "seconds", "passes"):
            new = np.array([getattr(path, name) for path in paths])
            setattr(self, name, self._join(getattr(self, name), new, downwards))
        if downwards:
            self.smallest = [path.last for path in paths]
        if not downwards or self.regs.size == regs.size:
            self.largest = [path.first for path in paths]

    @staticmethod
    def _join(old: Vector, new: Vector, downwards: bool) -> Vector:
        return np.concatenate((old, new) if downwards else (new, old), axis=-1)


class RankingSearch:
    """A grid of reg for each of several settings, and what they score on held-out folds."""

    def __init__(self, folds: Parts, tau: float, choice: SolverChoice) -> None:
        self.folds = folds
        self.tau, self.choice = tau, choice
        self.searches: list[RegSearch] = []
        self.n_extensions = 0

    def run(self, settings: list[Setting], regs: Vector, max_extensions: int) -> RankingSearch:
        """Follow the grid for every setting, and beyond its ends for the best of them."""
        starts: list[Result | None] | None = None
        # A large scale first: it is the easy problem, and its solution is near the next one's.
        for place, setting in enumerate(sorted(settings, key=lambda each: (-each.positive_share, -each.tau_scale))):
            search = RegSearch(self.folds, self.tau, self.choice, setting)
            with step(place, len(settings) + 1, f"grid of reg, {setting}"):
                search.run(regs, starts)
            starts = search.largest
            self.searches.append(search)
        self.searches.sort(key=lambda search: settings.index(search.setting))
        with step(len(settings), len(settings) + 1, "extending the grid"):
            self.n_extensions = self.best().extend(max_extensions)
        return self

    def best(self) -> RegSearch:
        """The setting with the best score; of equals, the simplest."""
        return max(self.searches, key=RegSearch.best_score)

    def table(self) -> dict[str, Array]:
        """The search in the form of scikit-learn's `cv_results_`."""
        scores, seconds, passes = (
            np.concatenate([getattr(search, name) for search in self.searches], axis=1)
            for name in ("scores", "seconds", "passes")
        )
        mean = scores.mean(axis=0)
        sizes = [search.regs.size for search in self.searches]
        return {
            "param_reg": np.concatenate([search.regs for search in self.searches]),
            "param_tau_scale": np.repeat([search.setting.tau_scale for search in self.searches], sizes),
            "param_positive_share": np.repeat([search.setting.positive_share for search in self.searches], sizes),
            **{f"split{number}_test_score": own for number, own in enumerate(scores)},
            "mean_test_score": mean,
            "std_test_score": scores.std(axis=0),
            "rank_test_score": rankdata(-mean, method="min").astype(np.int32),
            "mean_fit_time": seconds.mean(axis=0),
            "mean_n_passes": passes.mean(axis=0),
        }


def search_ranking(
    table: Table,
    tau: float,
    choice: SolverChoice,
    *,
    tau_scale: float | str,
    regs: int | ArrayLike,
    cv: Any,
    positive_share: float | str = 1.0,
    max_extensions: int = 20,
    enough: int | None = None,
) -> RankingSearch:
    """Judge every setting, "cv" standing for several, and every reg on folds of a table.

    Given `enough`, on as few of the folds as hold this many positives.
    """
    with table.search_folds(cv, enough=enough) as folds:
        search = RankingSearch(folds, tau, choice)
        return search.run(make_settings(tau, tau_scale, positive_share), make_grid(regs), max_extensions)


def run_fold(
    train: Table,
    held_out: Table,
    start: Result | None,
    *,
    setting: Setting,
    regs: Sequence[float],
    tau: float,
    choice: SolverChoice,
) -> FoldPath:
    """Fit one fold for each reg in turn, each from the one before, and judge each on the held-out part.

    A ranking that has collapsed, or that smaller regs would hardly move, stays to the end of the path.
    """
    k = top_count(setting.tau_scale * tau, train.n_negative)
    judged = held_out.compact()
    scores, seconds, passes = [], [], []
    results: list[Result] = []
    stays = False
    with train.problem(k, regs[0]) as problem:
        for reg in regs:
            began, before = time.perf_counter(), judged.n_passes
            if not stays:
                goes_on = len(results) > 0
                ranking = rank(problem.replace(reg=reg), setting.positive_share, tau, choice, start, goes_on=goes_on)
                start = replace(ranking.result, history=())
                # A collapse of the convex problem does not depend on reg; that of a trimmed one may.
                stays = setting.positive_share == 1.0 and (ranking.collapsed or has_settled(start, reg, regs[-1]))
            assert start is not None
            found = judged.scores(start.coef)
            scores.append(share_above(found.positive, found.negative, tau))
            results.append(start)
            seconds.append(time.perf_counter() - began)
            passes.append(judged.n_passes - before)
    return FoldPath(scores, seconds, passes, results[0], results[-1])


def has_settled(result: Result, reg: float, smallest: float) -> bool:
    """Whether hardly any loss L is left that smaller regs, down to the smallest of a path, could lower.

    ::

        L(w) <= (1/5) (smallest/2) |w|^2   =>   |w - w*|^2 <= (1/5) |w|^2,   w* the ranking of any reg in between

    as P* is concave in reg and not negative, and P is curved by reg; the gap at which w was solved comes on top. The
    cosine of w and w* was above .9998 on text, where the last reg of a path took most of its time.
    """
    squared = float(result.coef @ result.coef)
    return result.converged and result.primal - 0.5 * reg * squared <= _SMALL_LOSS * 0.5 * smallest * squared


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
        search = search_ranking(
            table, self.tau, rough, tau_scale=tau_scale, regs=regs, cv=self.cv, enough=ENOUGH_POSITIVES
        )
        best = search.best()
        self.cv_results = search.table()
        self.reg, self.tau_scale = best.best_reg(), best.setting.tau_scale

    def fit(self, table: Table, near: LinearModel | None = None) -> LinearModel:
        """Solve on these rows."""
        with table.problem(top_count(self.tau_scale * self.tau, table.n_negative), self.reg) as problem:
            ranking = solve_ranking(problem, self.choice, table.start(near))
        self.first = self.first or (ranking, problem)
        return table.model(ranking)
