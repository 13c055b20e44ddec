"""How often a tolerance is broken: P(FPR > tau) of every way to a threshold, on draws from known distributions.

    python benchmarks/guarantee.py [--quick] [--draws 2000] [--cells NAME ...] [--folder benchmarks/figures]

Every draw is a fresh training set. The true false-positive rate of what was fitted on it is known: in closed form for
linear scorers, and from 32,768 quasi-random points for trees. Models and scores are kept, so that one fit serves all
tolerances: the scores from which an estimator chose its threshold are listened to, and give those of the others by the
same rule. On every draw one of them is checked against the estimator's own. MAPIE's columns are empty where it is not
installed. Prints Markdown and writes a figure as PNG.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib
import numpy as np
import sklearn
from scipy import special, stats
from scipy.stats import qmc
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TunedThresholdClassifierCV

from taufpl import NeymanPearsonClassifier, TauFPLClassifier, TauFPLRanker
from taufpl.metrics import np_scorer
from taufpl.thresholding import (
    CrossFitRule,
    HeldOut,
    JointOrderStatistic,
    NPScoreRule,
    OutOfBootstrap,
    PlainQuantile,
    TrainQuantile,
    negatives_needed,
    order_rank,
)

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DELTAS = (0.05, 0.2)
DRAWN_DELTAS = (0.02, 0.05, 0.1, 0.2, 0.4)
SEED = 20
# As it comes: 100 thresholds and Bonferroni-Holm. Fine: its best setting for a rate that falls with the threshold.
N_FINE = 250
MAPIE: dict[str, dict[str, Any]] = {
    "MAPIE": {},
    "MAPIE, fine": {"list_predict_params": np.arange(N_FINE) / N_FINE, "fwer_method": "fixed_sequence"},
}
PROMISING = ("np", "cross", "oob, delta", *MAPIE)
PLAIN = ("train", "oob, quantile", "oob, np_score", "tuned")


class Normals:
    """Negatives N(0, I), positives N(shift u, I) with the unit vector u along the diagonal."""

    def __init__(self, n_features: int, shift: float = 2.0) -> None:
        self.mean = np.full(n_features, shift / np.sqrt(n_features))

    def draw(self, rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
        return rng.normal(size=(y.size, self.mean.size)) + y[:, np.newaxis] * self.mean

    def rates(self, memos: Sequence[Memo], thresholds: np.ndarray) -> np.ndarray:
        """FPR and recall of the mean of linear scorers, in closed form."""
        w = np.mean([memo.model_.coef_[0] for memo in memos], axis=0)
        above = thresholds - np.mean([memo.model_.intercept_[0] for memo in memos])
        size = np.linalg.norm(w)
        if size == 0:  # a ranking that gave up
            return np.repeat((above < 0).astype(float)[:, np.newaxis], 2, axis=1)
        return special.ndtr(-np.column_stack((above, above - w @ self.mean)) / size)


class Clusters:
    """Negatives N(0, I) in four dimensions, positives N(c, I/2) or N(-c, I/2): not for linear scores."""

    centre = np.array([2.0, 1.5, 0.0, 0.0])

    def __init__(self, log2_points: int = 15) -> None:
        uniforms = qmc.Sobol(self.centre.size + 1, seed=SEED).random_base2(log2_points)
        normals = special.ndtri(np.clip(uniforms[:, 1:], 1e-12, 1 - 1e-12))
        self.negatives, self.positives = normals, self._positive(normals, uniforms[:, 0] < 0.5)

    def _positive(self, normals: np.ndarray, side: np.ndarray) -> np.ndarray:
        return np.sqrt(0.5) * normals + np.where(side, 1.0, -1.0)[:, np.newaxis] * self.centre

    def draw(self, rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
        X = rng.normal(size=(y.size, self.centre.size))
        X[y == 1] = self._positive(X[y == 1], rng.random(int(y.sum())) < 0.5)
        return X

    def rates(self, memos: Sequence[Memo], thresholds: np.ndarray) -> np.ndarray:
        """FPR and recall on the points."""
        columns = []
        for points in (self.negatives, self.positives[: len(self.positives) // 4]):
            scores = np.sort(np.mean([memo.decision_function(points) for memo in memos], axis=0))
            columns.append(1.0 - np.searchsorted(scores, thresholds, side="right") / scores.size)
        return np.column_stack(columns)


@dataclass
class Store:
    """The models and scores of one draw."""

    models: dict[Any, Any] = field(default_factory=dict)
    scores: dict[Any, np.ndarray] = field(default_factory=dict)


class Memo(ClassifierMixin, BaseEstimator):
    """A scorer that is fitted once on the same rows, and scores the same rows once."""

    def __init__(self, estimator: Any, store: Store) -> None:
        self.estimator, self.store = estimator, store

    def __sklearn_clone__(self) -> Memo:
        return Memo(self.estimator, self.store)

    def fit(self, X: np.ndarray, y: np.ndarray) -> Memo:
        self.key_ = X[:, 0].tobytes()
        if self.key_ not in self.store.models:
            self.store.models[self.key_] = clone(self.estimator).fit(X, y)
        self.model_, self.classes_ = self.store.models[self.key_], np.array([0, 1])
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        key = (self.key_, X[:, 0].tobytes())
        if key not in self.store.scores:
            has_scores = hasattr(self.model_, "decision_function")
            self.store.scores[key] = (
                self.model_.decision_function(X) if has_scores else self.model_.predict_proba(X)[:, 1]
            )
        return self.store.scores[key]

    @property
    def coef_(self) -> np.ndarray:
        return self.model_.coef_

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        scores = self.decision_function(X)
        p = special.expit(scores) if hasattr(self.model_, "decision_function") else scores
        return np.column_stack((1.0 - p, p))

    def strict(self, probability: float) -> float:
        """The score such that strictly more is the same as this probability or more."""
        score = special.logit(probability) if hasattr(self.model_, "decision_function") else probability
        return float(np.nextafter(score, -np.inf))


HEARD: list[tuple[Any, ...]] = []
# The rule of each way to a threshold, and its method.
RULES = {
    "np": (JointOrderStatistic, "choose_all"),
    "cross": (CrossFitRule, "choose_all"),
    "oob": (PlainQuantile, "choose"),
    "train": (PlainQuantile, "choose"),
}
# Thresholds of linear scores are raised by what single precision may do to a score.
RAISED = {"rtol": 1e-5, "atol": 1e-5}


def listening(rule: type, name: str) -> Any:
    """While it lasts, the scores that a rule is given are kept, behind the rule itself."""
    choose = getattr(rule, name)

    def heard(self: Any, *scores: Any) -> Any:
        HEARD.append((self, *scores))
        return choose(self, *scores)

    return mock.patch.object(rule, name, heard)


def array_of(scores: Any) -> np.ndarray:
    """The scores of a sample, or an array as it is."""
    return getattr(scores, "scores", scores)


@dataclass(frozen=True)
class Cell:
    """A scorer, given a seed and a tolerance, on draws of n negatives and m positives from a distribution."""

    name: str
    make: Callable[[int, float], Any]
    source: Normals | Clusters
    n: int
    m: int
    taus: tuple[float, ...]
    draws: int
    rivals: int = 200


class Draw:
    """One draw of a cell: what every method makes of it."""

    def __init__(self, cell: Cell, number: int, tau: float | None = None) -> None:
        self.cell, self.number = cell, number
        self.taus = cell.taus if tau is None else (tau,)
        rng = np.random.default_rng([SEED, cell.n, cell.m, number])
        self.y = np.repeat([0, 1], [cell.n, cell.m])
        self.X = cell.source.draw(rng, self.y)
        self.store = Store()
        self.memo = Memo(cell.make(number, self.taus[0]), self.store)
        self.found: dict[tuple[str, float, float | None], np.ndarray] = {}

    def keep(self, method: str, memos: Sequence[Memo], thresholds: dict[tuple[float, float | None], float]) -> None:
        if thresholds:
            rates = self.cell.source.rates(memos, np.array(list(thresholds.values())))
            self.found |= {(method, *key): row for key, row in zip(thresholds, rates, strict=True)}

    def fit(self, threshold: Any, tau: float, **options: Any) -> tuple[NeymanPearsonClassifier, list[Any]]:
        """The estimator, and the scores, negatives first, that its rule was given, time after time."""
        HEARD.clear()
        classifier = NeymanPearsonClassifier(self.memo, tau, threshold=threshold, random_state=self.number, **options)
        with listening(*RULES[threshold if isinstance(threshold, str) else threshold.name]):
            return classifier.fit(self.X, self.y), list(HEARD)

    def held_out(self) -> tuple[Memo, np.ndarray] | None:
        """`np`: one fit, and the order statistics of the scores that it was given, at all tolerances."""
        n = self.cell.n // 2
        wanted = [(t, d) for t, d in product(self.taus, DRAWN_DELTAS) if rank(n, t, d) is not None]
        if not wanted:
            return None
        tau, delta = wanted[self.number % len(wanted)]
        classifier, [(_, scores)] = self.fit(HeldOut(0.5, measure_recall=False), tau, delta=delta)
        assert scores.size == n
        ordered = np.sort(array_of(scores))
        self.keep_all("np", classifier, {(t, d): float(ordered[rank(n, t, d) - 1]) for t, d in wanted})
        return classifier.estimator_, ordered

    def cross_fitted(self) -> None:
        """`cross`: one fit, and its rule on the scores that it was given, at all tolerances."""
        n = self.cell.n
        wanted = [(t, d) for t, d in product(self.taus, DRAWN_DELTAS) if rank(n, t, d) is not None]
        tau, delta = wanted[self.number % len(wanted)]
        classifier, [(given, *scores)] = self.fit("cross", tau, delta=delta)
        rules = {(t, d): CrossFitRule((t,), d, given.n_folds) for t, d in wanted}
        self.keep_all("cross", classifier, {key: rule.choose_all(*scores)[0].threshold for key, rule in rules.items()})

    def keep_all(self, method: str, classifier: Any, thresholds: dict[tuple[float, float | None], float]) -> None:
        """Keep the thresholds, of which one must be the classifier's own."""
        own = thresholds[classifier.tau, classifier.delta]
        assert np.isclose(own, classifier.threshold_, **RAISED)
        self.keep(method, classifier.estimators_, thresholds)

    def rounds(self) -> None:
        """`oob`, from the scores of one fit."""
        classifier, parts = self.fit(OutOfBootstrap(rule="quantile"), self.taus[0], delta=None)
        for name, rule in (("quantile", TrainQuantile), ("np_score", NPScoreRule)):
            means = {
                (t, None): float(np.mean([rule(t).choose(neg, pos).threshold for _, neg, pos in parts]))
                for t in self.taus
            }
            self.keep(f"oob, {name}", classifier.estimators_, means)
            if name == "quantile":
                assert np.isclose(means[self.taus[0], None], classifier.threshold_, **RAISED)
        ordered = np.sort([array_of(negative) for _, negative, _ in parts], axis=1)
        ranks = {(t, d): rank(ordered.shape[1], t, d) for t, d in product(self.taus, DRAWN_DELTAS)}
        means = {key: float(ordered[:, r - 1].mean()) for key, r in ranks.items() if r is not None}
        self.keep("oob, delta", classifier.estimators_, means)

    def rivals(self, held_out: tuple[Memo, np.ndarray] | None) -> None:
        self.rounds()
        for tau in self.taus:
            classifier, _ = self.fit("train", tau)
            self.keep("train", classifier.estimators_, {(tau, None): classifier.threshold_})
            tuned = TunedThresholdClassifierCV(self.memo, scoring=np_scorer(tau)).fit(self.X, self.y)
            best = tuned.estimator_.strict(tuned.best_threshold_)
            self.keep("tuned", [tuned.estimator_], {(tau, None): best})
        if held_out is None or find_spec("mapie") is None:
            return
        memo, negative = held_out
        scores = np.concatenate((negative, memo.decision_function(self.X[self.y == 1])))
        probabilities = special.expit(scores) if hasattr(memo.model_, "decision_function") else scores
        for tau, delta in product(self.taus, DELTAS):
            if rank(negative.size, tau, delta) is not None:
                for name, options in MAPIE.items():
                    best = controlled(probabilities, negative.size, tau, delta, options)
                    threshold = np.inf if best is None else memo.strict(best)
                    self.keep(name, [memo], {(tau, delta): threshold})


@cache
def rank(n: int, tau: float, delta: float) -> int | None:
    return order_rank(n, tau, delta)


def controlled(p: np.ndarray, n_negative: int, tau: float, delta: float, options: dict[str, Any]) -> float | None:
    """MAPIE's threshold; None where it finds none. The positives only break ties, in favour of recall."""
    from mapie.risk_control import BinaryClassificationController

    labels = np.repeat([0, 1], [n_negative, p.size - n_negative])
    controller = BinaryClassificationController(
        lambda rows: np.column_stack((1.0 - rows[:, 0], rows[:, 0])),
        risk="fpr",
        target_level=tau,
        confidence_level=1.0 - delta,
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return controller.calibrate(p[:, np.newaxis], labels).best_predict_param


Found = dict[tuple[str, float, float | None], np.ndarray]


def measure(cell: Cell) -> Found:
    """FPR and recall, one row a draw, by method, tolerance and delta."""
    began = time.perf_counter()
    # A ranking is made for its tolerance; other scorers serve all of them.
    separate: tuple[float | None, ...] = cell.taus if isinstance(cell.make(0, 0.1), TauFPLRanker) else (None,)
    found: dict[tuple[str, float, float | None], list[np.ndarray]] = {}
    for number, tau in product(range(cell.draws), separate):
        draw = Draw(cell, number, tau)
        held_out = draw.held_out()
        draw.cross_fitted()
        if number < cell.rivals:
            draw.rivals(held_out)
        for key, value in draw.found.items():
            found.setdefault(key, []).append(value)
    print(f"{cell.name}: {cell.draws} draws, {time.perf_counter() - began:.0f} s", flush=True)
    return {key: np.array(values) for key, values in found.items()}


def same_as_the_classifier(cell: Cell, draws: int) -> float:
    """Largest difference in true FPR between TauFPLClassifier and the same ranking inside NeymanPearsonClassifier."""
    most = 0.0
    for number, tau, threshold in product(range(draws), cell.taus, ("np", "cross")):
        draw = Draw(cell, number, tau)
        wrapped, _ = draw.fit(threshold, tau)
        reg = cell.make(0, tau).reg
        own = TauFPLClassifier(tau, reg=reg, tau_scale=1, threshold=threshold, random_state=number).fit(draw.X, draw.y)
        z = -own.intercept_[0] / np.linalg.norm(own.coef_)
        there = cell.source.rates(wrapped.estimators_, wrapped.thresholds_)[0, 0]
        most = max(most, abs(special.ndtr(-z) - there))
    return float(most)


class Identity(ClassifierMixin, BaseEstimator):
    """A fitted scorer whose score is the only feature."""

    classes_ = np.array([0, 1])

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> Identity:
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return X[:, 0]


def held_out_alone(draws: int) -> list[tuple[Any, ...]]:
    """`np` on held-out scores drawn directly: uniform ones, and ones with three values, one of them at the edge."""
    rows = []
    for tau, delta in product((0.1, 0.01, 0.001), DELTAS):
        n = 3 * negatives_needed(tau, delta)
        level = stats.binom.cdf(n - order_rank(n, tau, delta), n, tau)
        rates = []
        for survival in (None, np.array([0.7, 1.001 * tau, 0.0])):
            rng = np.random.default_rng([SEED, n])
            failures = 0
            for _ in range(draws):
                scores = rng.random((n, 1))
                if survival is not None:
                    scores = np.searchsorted(-survival, -scores).astype(float)
                model = NeymanPearsonClassifier(Identity(), tau, delta=delta, cv="prefit").fit(scores, np.zeros(n))
                t = model.threshold_
                failures += (1.0 - t if survival is None else survival[int(t)]) > tau
            rates.append(failures / draws)
        rows.append((tau, delta, n, level, *rates))
    return rows


class Ranking(TauFPLRanker):
    """The ranking as TauFPLClassifier sees it: without a threshold of its own."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Ranking:
        super().fit(X, y)
        self.intercept_ = np.zeros(1)
        return self


def logistic(seed: int, tau: float) -> Any:
    return LogisticRegression()


def shrunk(seed: int, tau: float) -> Any:
    return LogisticRegression(C=1e-3)


def loose(seed: int, tau: float) -> Any:
    return LogisticRegression(C=1e4, solver="newton-cholesky")


def tau_fpl(seed: int, tau: float) -> Any:
    return Ranking(tau, reg=0.1)


def boosting(seed: int, tau: float) -> Any:
    return HistGradientBoostingClassifier(max_iter=25, max_leaf_nodes=8, early_stopping=False, random_state=seed)


def forest(seed: int, tau: float) -> Any:
    return RandomForestClassifier(25, random_state=seed)


def all_cells(draws: int, quick: bool) -> list[Cell]:
    """Fewer draws where a fit takes long, and fewer still for the rivals, whose rates are far from delta."""
    tenth, rivals, few = max(2, draws // 10), max(2, draws // 20), max(2, draws // 40)
    ten, far, forty, sixty = Normals(10), Normals(10, 3.0), Normals(40), Normals(60)
    trees = Clusters(12 if quick else 15)
    usual = (0.1, 0.05, 0.01)
    return [
        Cell("logistic, 300 x 10", logistic, ten, 300, 100, usual, draws, rivals),
        Cell("logistic, 700 x 60", logistic, sixty, 700, 150, usual, draws // 2, rivals),
        Cell("logistic, 2,000 x 10", logistic, ten, 2000, 300, usual, draws, rivals),
        Cell("logistic, 10,000 x 10", logistic, ten, 10_000, 1000, (0.01, 0.001), draws // 4, few),
        Cell("logistic, C = .001, 300 x 10", shrunk, ten, 300, 100, usual, draws // 4, 0),
        Cell("logistic, C = 10,000, 200 x 40", loose, forty, 200, 60, (0.1, 0.05), draws // 4, 0),
        Cell("tau-FPL, 300 x 10", tau_fpl, far, 300, 100, (0.1, 0.05), tenth, 0),
        Cell("tau-FPL, 2,000 x 10", tau_fpl, far, 2000, 300, (0.1, 0.05), draws // 5, few),
        Cell("boosting, 700 x 4", boosting, trees, 700, 150, usual, tenth, few),
        Cell("boosting, 2,000 x 4", boosting, trees, 2000, 300, usual, tenth, 0),
        Cell("forest, 700 x 4", forest, trees, 700, 150, usual, tenth, few),
        Cell("forest, 2,000 x 4", forest, trees, 2000, 300, usual, tenth, 0),
    ]


def standard_error(rate: float, draws: int) -> float:
    return float(np.sqrt(rate * (1.0 - rate) / draws))


def broken(found: Found, key: tuple[str, float, float | None]) -> np.ndarray:
    return found[key][:, 0] > key[1] * (1.0 + 1e-12)


def entry(found: Found, method: str, tau: float, delta: float | None) -> str:
    """Realised P(FPR > tau) with its standard error, and mean recall."""
    key = (method, tau, delta)
    if key not in found:
        return "-"
    rate = float(broken(found, key).mean())
    return f"{rate:.3f} ± {standard_error(rate, len(found[key])):.3f}, {found[key][:, 1].mean():.3f}"


def exact(n: int, tau: float, delta: float) -> float | None:
    """What the order statistic of n continuous scores must give."""
    r = rank(n, tau, delta)
    return None if r is None else float(stats.binom.cdf(n - r, n, tau))


def report(cells: list[Cell], results: list[Found]) -> None:
    print("\n### Methods with a delta: P(FPR > tau) ± its standard error, and mean recall\n")
    print(
        "`np, exact` is what continuous scores must give. MAPIE's BinaryClassificationController has the negatives that"
    )
    print(
        f"np holds out: as it comes, and fine, with {N_FINE} thresholds and fixed-sequence testing. Draws, and how many"
    )
    print(
        "of them for oob and the rivals:", "; ".join(f"{c.name}: {c.draws:,}, {c.rivals}" for c in cells), end=".\n\n"
    )
    print("| scorer, negatives x features | tau | delta | np, exact | " + " | ".join(PROMISING) + " |")
    print("|---|---|---|---|" + "---|" * len(PROMISING))
    for cell, found in zip(cells, results, strict=True):
        for tau, delta in product(cell.taus, DELTAS):
            level = exact(cell.n // 2, tau, delta)
            entries = [entry(found, method, tau, delta) for method in PROMISING]
            shown = "-" if level is None else f"{level:.3f}"
            print(f"| {cell.name} | {tau:g} | {delta:g} | {shown} | " + " | ".join(entries) + " |")
    print("\n### Methods without one: P(FPR > tau) ± its standard error, and mean recall\n")
    print("`tuned` is scikit-learn's TunedThresholdClassifierCV with np_scorer(tau).\n")
    print("| scorer, negatives x features | tau | " + " | ".join(PLAIN) + " |")
    print("|---|---|" + "---|" * len(PLAIN))
    for cell, found in zip(cells, results, strict=True):
        for tau in cell.taus if cell.rivals else ():
            print(f"| {cell.name} | {tau:g} | " + " | ".join(entry(found, m, tau, None) for m in PLAIN) + " |")


def excess(found: Found, key: tuple[str, float, float | None], level: float) -> float:
    """How many standard errors the realised rate lies above a level."""
    return float((broken(found, key).mean() - level) / standard_error(level, len(found[key])))


def judge(cells: list[Cell], results: list[Found], alone: list[tuple[Any, ...]], draws: int) -> None:
    """Aims against what was measured."""
    above: dict[str, list[tuple[float, str]]] = {"np": [], "cross": []}
    off, gain, lead = [], [], {name: [] for name in MAPIE}
    for cell, found in zip(cells, results, strict=True):
        for tau, delta in product(cell.taus, DELTAS):
            where = f"{cell.name}, tau {tau:g}, delta {delta:g}"
            for method, values in above.items():
                if (method, tau, delta) in found:
                    values.append((excess(found, (method, tau, delta), delta), where))
            if ("np", tau, delta) not in found:
                continue
            level = exact(cell.n // 2, tau, delta)
            if "forest" not in cell.name and "boosting" not in cell.name:
                off.append((abs(excess(found, ("np", tau, delta), level)), where))
            recall = found["np", tau, delta][:, 1]
            gain.append((float(np.mean(found["cross", tau, delta][:, 1] - recall)), where))
            for name, values in lead.items():
                if (name, tau, delta) in found:
                    theirs = found[name, tau, delta][:, 1]
                    values.append((float(np.mean(recall[: theirs.size] - theirs)), where))
    plain = [broken(f, key).mean() for f in results for key in f if key[0] == "train"]
    print("\n| aim | measured |\n|---|---|")
    most, where = max(above["np"])
    print(f"| np: P(FPR > tau) at most delta | highest {most:+.1f} standard errors from delta ({where}) |")
    both = [[(r[i] - r[1]) / standard_error(r[1], draws) for r in alone] for i in (4, 5)]
    tied = f"{np.max(both[1]):+.1f} standard errors from delta at most"
    print(f"| np on {draws:,} draws of heavily tied scores: at most delta | {tied} |")
    uniform = max(abs(r[4] - r[3]) / standard_error(r[3], draws) for r in alone)
    most, where = max(off)
    print(
        "| np, continuous scores: the rate that the discreteness of ranks allows | at most "
        f"{max(most, uniform):.1f} standard errors from it |"
    )
    failing = [f"{w} ({e:+.1f})" for e, w in above["cross"] if e > 3]
    held = f"{len(above['cross']) - len(failing)} of {len(above['cross'])} within 3 standard errors of delta"
    print(f"| cross: P(FPR > tau) at most delta | {held}; not: {'; '.join(failing) or 'none'} |")
    losing = [f"{w} ({g:+.3f})" for g, w in gain if g < 0]
    print(
        f"| cross: more recall than np | {np.median([g for g, _ in gain]):+.3f} in the median, {max(gain)[0]:+.3f} at "
        f"most; less: {'; '.join(losing) or 'nowhere'} |"
    )
    for name, values in lead.items():
        if values:
            least, where = min(values)
            print(
                f"| np: at least the recall of {name}, same draws and confidence | {least:+.3f} at least ({where}), "
                f"{np.median([v for v, _ in values]):+.3f} in the median |"
            )
    if plain:
        print(f"| train, for contrast | broken in {min(plain):.2f} to {max(plain):.2f} of the draws |")


STYLES = {
    "np": ("#0072B2", "o-"),
    "cross": ("#D55E00", "s-"),
    "oob, delta": ("#009E73", "^-"),
    "MAPIE": ("#7F7F7F", "x"),
    "MAPIE, fine": ("#222222", "+"),
    "train": ("#CC79A7", ":"),
    "oob, quantile": ("#56B4E9", "--"),
    "oob, np_score": ("#56B4E9", ":"),
    "tuned": ("#E69F00", "-."),
}


def draw_figure(cells: list[Cell], results: list[Found], folder: Path, tau: float = 0.05) -> None:
    shown = [(c, f) for c, f in zip(cells, results, strict=True) if c.rivals and tau in c.taus][-5:]
    if not shown:
        return
    figure, axes = plt.subplots(
        2, len(shown), figsize=(3.6 * len(shown) + 1.6, 7), sharex=True, squeeze=False, layout="constrained"
    )
    for column, (cell, found) in enumerate(shown):
        top, bottom = axes[:, column]
        for method, (color, style) in STYLES.items():
            options = {"color": color, "label": method, "markersize": 6}
            if (method, tau, None) in found:
                values = found[method, tau, None]
                top.axhline(broken(found, (method, tau, None)).mean(), ls=style, color=color, label=method)
                bottom.axhline(values[:, 1].mean(), ls=style, color=color)
                continue
            deltas = [d for d in DRAWN_DELTAS if (method, tau, d) in found]
            if deltas:
                rates = np.array([broken(found, (method, tau, d)).mean() for d in deltas])
                errors = [standard_error(r, len(found[method, tau, d])) for r, d in zip(rates, deltas, strict=True)]
                top.errorbar(deltas, rates, yerr=errors, fmt=style, capsize=2, **options)
                bottom.plot(deltas, [found[method, tau, d][:, 1].mean() for d in deltas], style, **options)
        fine = np.geomspace(DRAWN_DELTAS[0], DRAWN_DELTAS[-1], 50)
        top.plot(fine, fine, color="black", lw=1, label="delta")
        top.fill_between(fine, fine, 1.02, color="black", alpha=0.05, lw=0)
        top.set(title=cell.name, xscale="log", ylim=(0, 1.02))
        # Square roots, because what counts lies between 0 and 0.4.
        top.set_yscale("function", functions=(lambda v: np.sqrt(np.maximum(v, 0)), np.square))
        top.set_yticks([0, 0.01, *DRAWN_DELTAS, 0.7, 1])
        top.set_xticks(DRAWN_DELTAS, [f"{d:g}" for d in DRAWN_DELTAS])
        top.minorticks_off()
        bottom.set(xlabel="delta")
    axes[0, 0].set_ylabel(f"share of draws with FPR > {tau:g}")
    axes[1, 0].set_ylabel("mean recall")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.suptitle(f"A tolerance of {tau:g}: how often it is broken (shaded: more often than delta), and recall")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "guarantee.png", dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few draws, for a look")
    parser.add_argument("--draws", type=int, help="draws of the cheap scorers, 2,000 unless told (--quick: 100)")
    parser.add_argument("--cells", nargs="+", help="only the cells whose names hold one of these words")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "figures")
    arguments = parser.parse_args()
    draws = arguments.draws or (100 if arguments.quick else 2000)

    cells = all_cells(draws, arguments.quick)
    if arguments.cells:
        cells = [cell for cell in cells if any(word in cell.name for word in arguments.cells)]
    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        results = [measure(cell) for cell in cells]
        alone = held_out_alone(draws)
        ranked = [cell for cell in cells if cell.make is tau_fpl]
        most = max((same_as_the_classifier(cell, 2 if arguments.quick else 10) for cell in ranked), default=None)

    report(cells, results)
    if most is not None:
        print(f"\ntau-FPL: TauFPLClassifier itself differs from its ranking's rates by at most {most:.1e} in FPR.")
    print(f"\n### np on held-out scores alone, {draws:,} draws: P(FPR > tau)\n")
    print("| tau | delta | negatives | exact | continuous scores | three values, one just beyond tau |")
    print("|---|---|---|---|---|---|")
    for tau, delta, n, level, *rates in alone:
        shown = " | ".join(f"{rate:.3f} ± {standard_error(rate, draws):.3f}" for rate in rates)
        print(f"| {tau:g} | {delta:g} | {n:,} | {level:.3f} | {shown} |")
    judge(cells, results, alone, draws)
    draw_figure(cells, results, arguments.folder)


if __name__ == "__main__":
    main()
