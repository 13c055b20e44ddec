"""The paper's grid search: folds, and a grid that grows where the best point lies at its edge."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from taufpl._types import Labels, Mask, Vector
from taufpl.problem import top_count
from taufpl.thresholding import share_above, top_threshold

LatticePoint = tuple[int, ...]
Params = dict[str, Any]  # the values are numbers

N_FOLDS = 5
# Steps by which a box may grow at each end of an axis.
_MOST_GROWTH = 4


@dataclass(frozen=True, slots=True)
class GridAxis:
    """A hyper-parameter on the lattice ``step**i``, searched for i from `low` to `high` and beyond if need be."""

    name: str
    step: float
    low: int
    high: int

    def coarser(self) -> GridAxis:
        """About half as many values over the same range."""
        return GridAxis(self.name, self.step**2, int(np.floor(self.low / 2)), int(np.ceil(self.high / 2)))


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """A fitted scorer, with the threshold that its method gives it at each tolerance.

    The threshold is the tau quantile of `train_negatives`, scores of training negatives, or 0 where they are None.
    """

    model: Any
    train_negatives: Vector | None = None

    def scores(self, X: Any) -> Vector:
        """The scores that the model ranks by."""
        return self.model.decision_function(X)

    def threshold(self, tau: float) -> float:
        """The score strictly above which a row is predicted positive."""
        return 0.0 if self.train_negatives is None else top_threshold(self.train_negatives, tau)


# Fits a model for each set of parameters on the same rows.
FitPoints = Callable[[Any, Labels, Sequence[Params]], list[DecisionRule]]


def ranking_score(rule: DecisionRule, X: Any, y: Labels, taus: Sequence[float]) -> Vector:
    """Share of positives above the (floor(tau n) + 1)-th largest negative, for each tolerance."""
    scores = rule.scores(X)
    return np.array([share_above(scores[y == 1], scores[y == 0], tau) for tau in taus])


def share_with_ties(rule: DecisionRule, X: Any, y: Labels, tau: float) -> float:
    """The ranking score if rows that tie with the quantile came in random order: what sorting does, on average."""
    scores = rule.scores(X)
    positives, negatives = scores[y == 1], scores[y == 0]
    level = top_threshold(negatives, tau)
    room = (top_count(tau, negatives.size) - 1 - np.sum(negatives > level)) / np.sum(negatives == level)
    return float(np.mean(positives > level) + room * np.mean(positives == level))


def minus_np_score(rule: DecisionRule, X: Any, y: Labels, taus: Sequence[float]) -> Vector:
    """Minus the NP-score of the method's own decisions, for each tolerance."""
    scores = rule.scores(X)
    return np.array([-np_score(*rates(scores > rule.threshold(tau), y), tau) for tau in taus])


def rates(alarms: Mask, y: Labels) -> tuple[float, float]:
    """False-positive rate and true-positive rate."""
    return float(alarms[y == 0].mean()), float(alarms[y == 1].mean())


def np_score(fpr: float, tpr: float, tau: float) -> float:
    """The Neyman-Pearson score of two rates; less is better."""
    return max(fpr, tau) / tau - tpr


_CRITERIA = {"ranking": ranking_score, "np": minus_np_score}


class BoxSearch:
    """Five-fold search over a box of the lattice, for several tolerances at once.

    A model that does not depend on the tolerance is fitted once and evaluated at all of them. The box grows by one step
    along an axis while, for some tolerance, a point at its edge is better than all points inside. The criterion is
    "ranking" or "np".
    """

    def __init__(self, fit_points: FitPoints, axes: Sequence[GridAxis], taus: Sequence[float], criterion: str) -> None:
        self.fit_points = fit_points
        self.axes = tuple(axes)
        self.taus = tuple(taus)
        self.criterion = _CRITERIA[criterion]
        self.limits = [(axis.low - _MOST_GROWTH, axis.high + _MOST_GROWTH) for axis in axes]
        self.box = [(axis.low, axis.high) for axis in axes]
        self.scores: dict[LatticePoint, Vector] = {}

    def run(self, X: Any, y: Labels, seed: int) -> BoxSearch:
        """Evaluate every point of the box on the held-out parts of the folds, and grow it as long as that pays."""
        splits = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(np.zeros(y.size), y))
        parts = [(X[train], y[train], X[test], y[test]) for train, test in splits]
        while new := [point for point in self._points() if point not in self.scores]:
            self._evaluate(parts, new)
            self._grow()
        return self

    def params(self, point: LatticePoint) -> Params:
        """The hyper-parameters at a point of the lattice."""
        return {axis.name: axis.step**place for axis, place in zip(self.axes, point, strict=True)}

    def best(self, number: int) -> LatticePoint:
        """The best point for a tolerance, by its number; of equals, the one with the most regularisation."""
        return max(sorted(self.scores, reverse=True), key=lambda point: self.scores[point][number])

    def _points(self) -> list[LatticePoint]:
        # The most regularised first, as methods that solve along a path want it.
        return list(itertools.product(*(range(high, low - 1, -1) for low, high in self.box)))

    def _evaluate(self, parts: list[tuple[Any, Any, Any, Any]], points: list[LatticePoint]) -> None:
        every = [self.params(point) for point in points]
        totals = np.zeros((len(points), len(self.taus)))
        for X, y, held_out_X, held_out_y in parts:
            rules = self.fit_points(X, y, every)
            totals += [self.criterion(rule, held_out_X, held_out_y, self.taus) for rule in rules]
        self.scores.update(zip(points, totals / N_FOLDS, strict=True))

    def _grow(self) -> None:
        for number in range(len(self.taus)):
            best = self.best(number)
            for axis, place in enumerate(best):
                low, high = self.box[axis]
                if place in (low, high) and self._beats_inside(number, axis, best):
                    lowest, highest = self.limits[axis]
                    grown = (max(low - 1, lowest), high) if place == low else (low, min(high + 1, highest))
                    self.box[axis] = grown

    def _beats_inside(self, number: int, axis: int, best: LatticePoint) -> bool:
        place, best_score = best[axis], self.scores[best][number]
        return all(score[number] < best_score for point, score in self.scores.items() if point[axis] != place)
