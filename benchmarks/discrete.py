"""How often `cross` breaks a tolerance on features with few values, where scores come in ties.

    python benchmarks/discrete.py [--draws 400] [--designs WORD ...]

Every draw is a fresh training set from a distribution on finitely many cells, so that the true false-positive rate of
what was fitted is a sum of their masses. A tie has another score in every model: a threshold that is chosen on the
scores of folds may lie just under a tie of the model itself, which then turns positive as a whole. Models are kept, so
that one fit serves all tolerances. Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import sklearn
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from taufpl import NeymanPearsonClassifier, TauFPLClassifier, TauFPLRanker

DELTAS = (0.05, 0.2)
TAUS = (0.1, 0.05, 0.01)
SEED = 15


@dataclass(frozen=True)
class Cells:
    """Rows that negatives and positives may have, and their masses."""

    rows: np.ndarray
    negative: np.ndarray
    positive: np.ndarray

    def draw(self, rng: np.random.Generator, n: int, m: int) -> np.ndarray:
        """The cell of each row, negatives first."""
        both = ((n, self.negative), (m, self.positive))
        return np.concatenate([rng.choice(len(self.rows), size, p=mass) for size, mass in both])

    def rates(self, is_positive: np.ndarray) -> tuple[float, float]:
        """FPR and recall where these cells are called positive."""
        return float(self.negative[is_positive].sum()), float(self.positive[is_positive].sum())


def levels(negative: Any, positive: Any) -> Cells:
    """One column of levels, one-hot."""
    masses = [np.asarray(mass, dtype=float) / np.sum(mass) for mass in (negative, positive)]
    return Cells(np.eye(len(masses[0])), *masses)


def top_level(mass: float) -> Cells:
    """Four levels; the one that holds half of the positives has this mass of the negatives."""
    return levels([mass, *((1 - mass) * np.array([0.25, 0.35, 0.4]))], [0.5, 0.25, 0.15, 0.1])


def equal_levels(count: int, mass: float) -> Cells:
    """Levels that nothing tells apart, each just too large: which comes first is decided by chance."""
    return levels([*np.full(count, mass), 1 - count * mass], [*np.full(count, 0.9 / count), 0.1])


def independent(values: np.ndarray, negative: list[np.ndarray], positive: list[np.ndarray]) -> Cells:
    """Columns with these values, independent of each other, with these masses."""
    places = np.indices([len(values)] * len(negative)).reshape(len(negative), -1)
    masses = [np.prod([own[at] for own, at in zip(side, places, strict=True)], axis=0) for side in (negative, positive)]
    return Cells(values[places.T].astype(float), *(mass / mass.sum() for mass in masses))


def bits(count: int, seed: int = 0) -> Cells:
    """Yes or no, with probabilities drawn once."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.1, 0.5, count)
    q = np.clip(p + rng.uniform(0.05, 0.35, count), 0, 0.95)
    return independent(np.array([0, 1]), *([np.array([1 - each, each]) for each in side] for side in (p, q)))


def counts(columns: int, most: int = 9) -> Cells:
    """Poisson counts, cut off at `most`; positives have two and a half times as many."""
    values, rates = np.arange(most + 1), np.linspace(0.6, 1.4, columns)

    def mass(rate: float) -> np.ndarray:
        return np.append(stats.poisson.pmf(values[:-1], rate), stats.poisson.sf(most - 1, rate))

    return independent(values, [mass(rate) for rate in rates], [mass(2.5 * rate) for rate in rates])


def rounded(columns: int, step: float = 0.5) -> Cells:
    """Normal numbers, rounded; positives are shifted."""
    values = np.arange(-3.0, 4.0 + step / 2, step)
    ends = np.concatenate(([-np.inf], (values[1:] + values[:-1]) / 2, [np.inf]))
    shifts = np.linspace(0.75, 1.8, columns)
    sides = [[np.diff(stats.norm.cdf(ends - shift)) for shift in side] for side in (np.zeros(columns), shifts)]
    return independent(values, *sides)


@dataclass
class Store:
    """The scores of all cells by the models of one draw."""

    scores: dict[bytes, tuple[np.ndarray, bool]] = field(default_factory=dict)


class OnCells(ClassifierMixin, BaseEstimator):
    """A scorer for rows that are given as their number and their cell; it is fitted once on the same rows."""

    def __init__(self, estimator: Any, cells: Cells, store: Store) -> None:
        self.estimator, self.cells, self.store = estimator, cells, store

    def __sklearn_clone__(self) -> OnCells:
        return OnCells(self.estimator, self.cells, self.store)

    def fit(self, X: np.ndarray, y: np.ndarray) -> OnCells:
        key = X[:, 0].tobytes()
        if key not in self.store.scores:
            model = clone(self.estimator).fit(self.cells.rows[X[:, 1]], y)
            has_scores = hasattr(model, "decision_function")
            rows = self.cells.rows
            scores = model.decision_function(rows) if has_scores else model.predict_proba(rows)[:, 1]
            self.store.scores[key] = scores, has_scores and hasattr(model, "coef_")
        self.scores_, self.is_linear_ = self.store.scores[key]
        self.classes_ = np.array([0, 1])
        return self

    @property
    def coef_(self) -> np.ndarray:
        """There where the scorer is linear, which is all that is asked."""
        if not self.is_linear_:
            raise AttributeError("coef_")
        return np.zeros((1, self.cells.rows.shape[1]))

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return self.scores_[X[:, 1]]


class Ranking(TauFPLRanker):
    """The ranking as TauFPLClassifier sees it: without a threshold of its own."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Ranking:
        super().fit(X, y)
        self.intercept_ = np.zeros(1)
        return self


@dataclass(frozen=True)
class Design:
    """A scorer, given a seed, on n negatives and m positives; the automatic ranking has none, and a tau of its own."""

    name: str
    cells: Cells
    make: Callable[[int], Any] | None
    n: int = 1000
    m: int = 200
    taus: tuple[float, ...] = TAUS
    deltas: tuple[float, ...] = DELTAS


Rates = dict[tuple[float, float], np.ndarray]


def measure(design: Design, numbers: Iterable[int]) -> Rates:
    """FPR and recall, one row a draw, by tolerance and delta; the number of a draw is its seed."""
    found: dict[tuple[float, float], list[tuple[float, float]]] = {}
    y = np.repeat([0, 1], [design.n, design.m])
    for number in numbers:
        rng = np.random.default_rng([SEED, design.n, design.m, number])
        places = design.cells.draw(rng, design.n, design.m)
        store = Store()
        for tau, delta in product(design.taus, design.deltas):
            options = {"delta": delta, "threshold": "cross", "random_state": number}
            if design.make is None:
                model = TauFPLClassifier(tau, **options).fit(design.cells.rows[places], y)
                called = model.predict(design.cells.rows) == 1
            else:
                scorer = OnCells(design.make(number), design.cells, store)
                model = NeymanPearsonClassifier(scorer, tau, **options)
                model.fit(np.column_stack((np.arange(y.size), places)), y)
                called = model.predict(np.column_stack([np.arange(len(design.cells.rows))] * 2)) == 1
            found.setdefault((tau, delta), []).append(design.cells.rates(called))
    return {key: np.array(values) for key, values in found.items()}


def logistic(seed: int) -> Any:
    return LogisticRegression()


def tau_fpl(seed: int) -> Any:
    return Ranking(0.5, reg=0.1)  # for the tolerance itself it would give up on levels


def shallow(seed: int) -> Any:
    return DecisionTreeClassifier(max_depth=4, random_state=seed)


def deep(seed: int) -> Any:
    return DecisionTreeClassifier(min_samples_leaf=10, random_state=seed)


def forest(seed: int) -> Any:
    return RandomForestClassifier(20, min_samples_leaf=5, random_state=seed)


def boosting(seed: int) -> Any:
    return HistGradientBoostingClassifier(max_iter=25, max_leaf_nodes=8, early_stopping=False, random_state=seed)


def neighbours(seed: int) -> Any:
    return KNeighborsClassifier(25)


def kernel(seed: int) -> Any:
    return SVC()


def all_designs() -> list[Design]:
    top, eight, four, three, two = top_level(0.06), bits(8), bits(4, 1), counts(3), counts(2)
    near = rounded(2)
    return [
        Design("one level of 6 %, logistic", top, logistic),
        Design("one level of 9 %, logistic", top_level(0.09), logistic, 10_000, 1000, (0.05,)),
        Design("one level of 1.2 %, logistic", top_level(0.012), logistic, taus=(0.01,)),
        Design("one level of 6 %, tau-FPL", top, tau_fpl, taus=(0.05,)),
        Design("one level of 6 %, automatic", top, None, taus=(0.05,), deltas=(0.05,)),
        Design("one level of 8 %, tree of depth 4", top_level(0.08), shallow, 2000, 300, (0.05,)),
        Design("one level of 6 %, boosting", top, boosting, taus=(0.05,)),
        Design("one level of 6 %, SVC", top, kernel, taus=(0.05,)),
        Design("8 equal levels of 5.25 %, logistic", equal_levels(8, 0.0525), logistic, taus=(0.1, 0.05)),
        Design("the same, 2,000 positives", equal_levels(8, 0.0525), logistic, 1000, 2000, (0.1, 0.05)),
        Design("18 equal levels of 5.25 %, deep tree", equal_levels(18, 0.0525), deep, taus=(0.1, 0.05)),
        Design("4 bits, logistic", four, logistic),
        Design("8 bits, logistic", eight, logistic),
        Design("8 bits, automatic", eight, None, taus=(0.05,), deltas=(0.05,)),
        Design("8 bits, naive Bayes", eight, lambda seed: BernoulliNB()),
        Design("8 bits, tree of depth 4", eight, shallow),
        Design("8 bits, deep tree", eight, deep),
        Design("8 bits, forest", eight, forest),
        Design("8 bits, boosting", eight, boosting),
        Design("3 counts, logistic", three, logistic),
        Design("3 counts, naive Bayes", three, lambda seed: MultinomialNB()),
        Design("3 counts, tree of depth 4", three, shallow),
        Design("3 counts, boosting", three, boosting),
        Design("2 counts, logistic", two, logistic, 5000, 500),
        Design("2 counts, naive Bayes", two, lambda seed: GaussianNB(), 5000, 500),
        Design("2 rounded numbers, logistic", near, logistic),
        Design("2 rounded numbers, deep tree", near, deep),
        Design("2 rounded numbers, boosting", near, boosting),
        Design("2 rounded numbers, 25 neighbours", near, neighbours),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--designs", nargs="+", help="only the designs whose names hold one of these words")
    arguments = parser.parse_args()
    designs = [d for d in all_designs() if not arguments.designs or any(w in d.name for w in arguments.designs)]

    warnings.simplefilter("ignore")  # of too few negatives, where 1,000 do not do
    print("| design | negatives | tau | delta | P(FPR > tau) | standard errors from delta | mean recall | seconds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    worst = -np.inf
    for design in designs:
        began = time.perf_counter()
        with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
            found = measure(design, range(arguments.draws))
        seconds = time.perf_counter() - began
        for (tau, delta), values in found.items():
            rate = float(np.mean(values[:, 0] > tau * (1.0 + 1e-12)))
            excess = (rate - delta) / np.sqrt(delta * (1.0 - delta) / len(values))
            worst = max(worst, excess)
            shown = f"{rate:.3f} | {excess:+.1f} | {values[:, 1].mean():.3f} | {seconds:.0f}"
            print(f"| {design.name} | {design.n:,} | {tau:g} | {delta:g} | {shown} |", flush=True)
    print(f"\nHighest: {worst:+.1f} standard errors from delta, {arguments.draws} draws a design.")


if __name__ == "__main__":
    main()
