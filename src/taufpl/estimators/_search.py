"""The search for reg, and for the shares of negatives and positives to train on, on held-out folds."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.model_selection import PredefinedSplit, StratifiedKFold, check_cv
from sklearn.utils.parallel import Parallel, delayed

from taufpl.estimators._grid import reg_grid
from taufpl.estimators._solve import SolverChoice
from taufpl.estimators._units import Rows, Units
from taufpl.estimators.rankings import rank
from taufpl.operators import Operator
from taufpl.problem import RankingProblem, top_count
from taufpl.solvers import Result
from taufpl.thresholding import share_above

# What `regs=10` spans; where the best value lies outside, the grid grows.
_LARGEST, _SMALLEST = 1e1, 1e-5
# What "cv" tries as positive_share, the simplest first.
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.1)


@dataclass(frozen=True, slots=True)
class Setting:
    """Which shares of the classes a ranking trains on."""

    tau_scale: float = 1.0
    positive_share: float = 1.0


def make_settings(tau: float, tau_scale: float | str, positive_share: float | str) -> list[Setting]:
    """The settings to compare, the simpler first; "cv" stands for scales up to all negatives, or for several shares."""
    scales = [float(tau_scale)] if not isinstance(tau_scale, str) else _scales(tau)
    shares = [float(positive_share)] if not isinstance(positive_share, str) else list(_SHARES)
    return [Setting(scale, share) for share in shares for scale in scales]


def _scales(tau: float) -> list[float]:
    """1, 2 and 4 times tau, then in factors of 4, and last all negatives."""
    steps = itertools.chain((1.0, 2.0, 4.0), (4.0**power for power in itertools.count(2)))
    return [*itertools.takewhile(lambda scale: scale * tau < 0.7, steps), 1.0 / tau]


def make_grid(regs: int | ArrayLike, largest: float = _LARGEST, smallest: float = _SMALLEST) -> NDArray[np.float64]:
    """The values of reg, largest first; a number stands for as many values between the largest and the smallest."""
    values = np.geomspace(largest, smallest, int(regs)) if isinstance(regs, Integral) else reg_grid(regs)
    return np.unique(values)[::-1]


def possible_folds(wanted: int, n_positive: int, n_negative: int) -> int:
    """As many folds as are wanted, or as every one of them can have a row of each class."""
    fewest = min(n_positive, n_negative)
    if fewest < 2:
        raise ValueError(
            f"cross-validation needs at least 2 rows of each class, got {_counted(n_positive, 'positive')} and "
            f"{_counted(n_negative, 'negative')}. Give more rows; or give reg, and for kernels gamma, as numbers with "
            'threshold="np", which takes no folds.'
        )
    return min(wanted, fewest)


def _counted(number: int, noun: str) -> str:
    """The number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def make_folds(
    cv: Any, positive_rows: Rows, negative_rows: Rows, units: Units | None = None, seed: int | None = None
) -> list[Fold]:
    """Split rows, named by their class, into folds that divide no unit; with a seed, a number of folds is shuffled."""
    units = units or Units()
    rows = np.sort(np.concatenate((positive_rows, negative_rows)))
    is_positive = np.isin(rows, positive_rows, assume_unique=True)
    if isinstance(cv, Integral):
        cv = possible_folds(int(cv), units.count(positive_rows), units.count(negative_rows))
        if units.groups is not None:
            cv = PredefinedSplit(units.deal(rows, is_positive, cv, seed or 0))
        elif seed is not None:
            cv = StratifiedKFold(cv, shuffle=True, random_state=seed)
    splitter = check_cv(cv, is_positive, classifier=True)
    groups = {} if units.groups is None or isinstance(splitter, PredefinedSplit) else {"groups": units.groups[rows]}
    folds = []
    for number, parts in enumerate(splitter.split(np.zeros((len(rows), 1)), is_positive, **groups)):
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
class FoldPath:
    """Scores and costs of one fold along some values of reg, with the solutions at both ends."""

    scores: list[float]
    seconds: list[float]
    passes: list[float]
    first: Any
    last: Any


class FoldRunner(Protocol):
    """Folds, wherever their rows are, and a way to fit and judge each along some values of reg."""

    @property
    def n_folds(self) -> int:
        """How many there are."""

    def walk(self, setting: Setting, regs: NDArray[np.float64], starts: list[Any]) -> list[FoldPath]:
        """Walk every fold, from solutions of a neighbouring walk, which are its own kind of thing, or from None."""


@dataclass(frozen=True, slots=True)
class FoldWalker:
    """Folds of the rows of an operator, `n_jobs` at the same time."""

    operator: Operator
    folds: list[Fold]
    tau: float
    choice: SolverChoice
    n_jobs: int | None

    @property
    def n_folds(self) -> int:
        """How many there are."""
        return len(self.folds)

    def walk(self, setting: Setting, regs: NDArray[np.float64], starts: list[Any]) -> list[FoldPath]:
        """Walk every fold."""
        walks = Parallel(n_jobs=self.n_jobs)(
            delayed(_walk_fold)(self.operator, fold, regs, start, self.tau, setting, self.choice)
            for fold, start in zip(self.folds, starts, strict=True)
        )
        return list(walks)


def leading_end(scores: Sequence[float] | NDArray[np.float64]) -> int | None:
    """0 or -1 where the best score of a grid lies at that end and is better than its neighbour's; else None."""
    best = int(np.argmax(scores))
    if len(scores) > 1 and best == 0 and scores[0] > scores[1]:
        return 0
    return -1 if len(scores) > 1 and best == len(scores) - 1 else None


class RegSearch:
    """A grid of reg, largest first, with the score of every fold for each value."""

    def __init__(self, walker: FoldRunner, setting: Setting) -> None:
        self.walker = walker
        self.setting = setting
        self.regs = np.empty(0)
        self.scores, self.seconds, self.passes = (np.empty((walker.n_folds, 0)) for _ in range(3))
        self.largest: list[Any] = [None] * walker.n_folds
        self.smallest: list[Any] = [None] * walker.n_folds

    def run(self, regs: NDArray[np.float64], starts: list[Any] | None = None) -> None:
        """Walk the grid, from the solutions of a neighbouring setting if there are any."""
        self.smallest = starts or self.smallest
        self._walk(regs, downwards=True)

    def extend(self, max_extensions: int) -> int:
        """Go on beyond the ends of the grid while the best lies there; return the number of values added."""
        n_added = 0
        while n_added < max_extensions and (end := leading_end(self.scores.mean(axis=0))) is not None:
            if end == 0:
                self._walk(self.regs[:1] * (self.regs[0] / self.regs[1]), downwards=False)
            else:
                self._walk(self.regs[-1:] * (self.regs[-1] / self.regs[-2]), downwards=True)
            n_added += 1
        return n_added

    def best(self) -> int:
        """Index of the best mean score; of equals, the largest reg."""
        return int(np.argmax(self.scores.mean(axis=0)))

    def best_reg(self) -> float:
        """The reg with the best mean score."""
        return float(self.regs[self.best()])

    def best_score(self) -> float:
        """The best mean score."""
        return float(self.scores.mean(axis=0).max())

    def _walk(self, regs: NDArray[np.float64], *, downwards: bool) -> None:
        walks = self.walker.walk(self.setting, regs, self.smallest if downwards else self.largest)
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


class RankingSearch:
    """A grid of reg for each of several settings, and what they score on held-out folds."""

    def __init__(self, walker: FoldRunner) -> None:
        self.walker = walker
        self.searches: list[RegSearch] = []
        self.n_extensions = 0

    def run(self, settings: list[Setting], regs: NDArray[np.float64], max_extensions: int) -> RankingSearch:
        """Walk the grid for every setting, and beyond its ends for the best of them."""
        starts: list[Any] | None = None
        # A large scale first: it is the easy problem, and its solution is near the next one's.
        for setting in sorted(settings, key=lambda each: (-each.positive_share, -each.tau_scale)):
            search = RegSearch(self.walker, setting)
            search.run(regs, starts)
            starts = search.largest
            self.searches.append(search)
        self.searches.sort(key=lambda search: settings.index(search.setting))
        self.n_extensions = self.best().extend(max_extensions)
        return self

    def best(self) -> RegSearch:
        """The setting with the best score; of equals, the simplest."""
        return max(self.searches, key=RegSearch.best_score)

    def table(self) -> dict[str, NDArray[Any]]:
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


def _walk_fold(
    operator: Operator,
    fold: Fold,
    regs: Sequence[float],
    start: Result | None,
    tau: float,
    setting: Setting,
    choice: SolverChoice,
) -> FoldPath:
    """Fit one fold for each reg in turn, and judge each on the held-out part."""
    k = top_count(setting.tau_scale * tau, fold.negative.size)
    # A copy of the training rows, positives first: scores then split into views, and held-out rows are not multiplied.
    train = operator.take_rows(np.concatenate((fold.positive, fold.negative)))
    m, n = fold.positive.size, fold.negative.size
    problem = RankingProblem(train, np.arange(m), np.arange(m, m + n), k, regs[0])
    held_out = operator.take_rows(np.concatenate((fold.held_out_positive, fold.held_out_negative)))
    scores, seconds, passes = [], [], []
    results: list[Result] = []
    collapsed = False
    for reg in regs:
        began, before = time.perf_counter(), operator.n_passes
        if not collapsed:
            goes_on = len(results) > 0
            ranking = rank(problem.replace(reg=reg), setting.positive_share, tau, choice, start, goes_on=goes_on)
            # A collapse of the convex problem does not depend on reg; that of a trimmed one may.
            collapsed = ranking.collapsed and setting.positive_share == 1.0
            start = replace(ranking.result, history=())
        assert start is not None
        marks = held_out.matvec(start.coef)
        scores.append(share_above(marks[: fold.held_out_positive.size], marks[fold.held_out_positive.size :], tau))
        results.append(start)
        seconds.append(time.perf_counter() - began)
        passes.append(operator.n_passes - before)
    return FoldPath(scores, seconds, passes, results[0], results[-1])
