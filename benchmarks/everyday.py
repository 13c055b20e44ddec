"""What everyday use does to the promise: copies, searches, a file that is read by its held-out rows, the default.

    python benchmarks/everyday.py [--draws 400] [--parts copies searches file default snapping]

Every draw is a fresh training set; false-positive rates are known in closed form, or from 20,000 fresh negatives where
a file is read. `file` runs the command itself. Prints Markdown.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from taufpl import NeymanPearsonClassifier, TauFPLClassifier
from taufpl.cli._app import run as command
from taufpl.exceptions import RepeatedRowsWarning
from taufpl.persistence import load_model
from taufpl.thresholding import HeldOut

DELTA = 0.05


def share(broken: list[bool]) -> str:
    """Share of draws above the tolerance, with its standard error."""
    rate = float(np.mean(broken))
    return f"{rate:.3f} ± {np.sqrt(max(rate * (1 - rate), 1e-9) / len(broken)):.3f}"


def clouds(rng: np.random.Generator, n: int, m: int, d: int = 5, shift: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    y = np.repeat([0, 1], [n, m])
    return rng.normal(size=(n + m, d)) + y[:, np.newaxis] * shift / np.sqrt(d), y


def linear_rates(coef: np.ndarray, threshold: float, shift: float = 2.0) -> np.ndarray:
    """FPR and recall of `coef . x > threshold` on such clouds."""
    mean = shift / np.sqrt(coef.size) * coef.sum()
    return special.ndtr((np.array([0.0, mean]) - threshold) / np.linalg.norm(coef))


def copies(draws: int) -> None:
    """Every row five times, and a forest, which knows its training rows by heart."""
    print("| a forest, every row five times, tau .05 | P(FPR > tau) | says that it is guaranteed |\n|---|---|---|")
    warnings.simplefilter("ignore", RepeatedRowsWarning)
    new = np.random.default_rng(99).normal(size=(20_000, 5))
    for n, grouped in ((100, False), (160, False), (160, True), (400, False), (400, True)):
        rng = np.random.default_rng(n)
        broken, promised = [], []
        for draw in range(draws):
            X, y = clouds(rng, n, 40)
            rows = np.repeat(np.arange(y.size), 5)
            forest = RandomForestClassifier(20, max_features=2, random_state=draw)
            screen = NeymanPearsonClassifier(forest, 0.05, threshold=HeldOut(measure_recall=False), random_state=draw)
            screen.fit(X[rows], y[rows], **({"groups": rows} if grouped else {}))
            broken.append(screen.predict(new).mean() > 0.05)
            promised.append(screen.evidence_.guaranteed)
        name = f"{n} different negatives" + (", groups=" if grouped else "")
        print(f"| {name} | {share(broken)} | {np.mean(promised):.0%} of draws |", flush=True)


class Column(ClassifierMixin, BaseEstimator):
    """A scorer that learns nothing: one column."""

    def __init__(self, j: int = 0) -> None:
        self.j = j

    def fit(self, X: np.ndarray, y: np.ndarray) -> Column:
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return X[:, self.j]


def searches(draws: int) -> None:
    """The best of twenty columns of noise, by a search around the screen, by its threshold, and by a search inside."""
    choices, settings = list(range(20)), {"tau": 0.05, "threshold": HeldOut(measure_recall=False), "random_state": 0}
    broken: list[tuple[bool, ...]] = []
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        X, y = rng.normal(size=(500, 20)), np.repeat([0, 1], [400, 100])
        one = NeymanPearsonClassifier(Column(), **settings)
        around = GridSearchCV(one, {"estimator__j": choices}, scoring="recall").fit(X, y).best_estimator_
        lowest = min(NeymanPearsonClassifier(Column(j), **settings).fit(X, y).threshold_ for j in choices)
        inner = GridSearchCV(Column(), {"j": choices}, scoring="roc_auc")
        inside = NeymanPearsonClassifier(inner, **settings).fit(X, y)
        rates = special.ndtr(-np.array([around.threshold_, lowest, inside.threshold_]))
        broken.append(tuple(rates > 0.05))
    print("| the best of 20 columns of noise, 400 negatives, tau .05 | P(FPR > tau) |\n|---|---|")
    names = "a search around the screen, by recall", "of 20 screens, by its threshold", "a search inside the screen"
    for name, each in zip(names, zip(*broken, strict=True), strict=True):
        print(f"| {name} | {share(list(each))} |", flush=True)


def one_file(rng: np.random.Generator, n: int, m: int) -> pd.DataFrame:
    """One column, whose mean lies above all negatives; in 5.05 % of the negatives it is missing.

    Filled by the median, a missing value is harmless; filled by the mean, it is an alarm. Which of them is taken
    depends on whether a value is missing: in 59 held-out negatives none is with probability .047.
    """
    y = np.repeat([0, 1], [n, m])
    amount = rng.normal(size=n + m) + np.where((y == 1) & (rng.random(n + m) < 0.45), 1000.0, 0.0)
    amount[(y == 0) & (rng.random(n + m) < 0.0505)] = np.nan
    return pd.DataFrame({"amount": amount, "y": y})


def file(draws: int) -> None:
    """The command on a file whose columns could be read by its held-out rows."""
    broken = []
    new = one_file(np.random.default_rng(99), 20_000, 1).iloc[:-1]
    rng = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder) / "data.csv", Path(folder) / "model.skops"
        for draw in range(draws):
            one_file(rng, 62, 60).to_csv(data, index=False)
            line = f"fit {data} --target y --tau 0.05 --threshold np --holdout 0.95 --model logistic --seed {draw}"
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                code = command([*line.split(), "-o", str(model)])
            assert not code
            decisions = load_model(model).model.decision_function(new.drop(columns="y"))
            broken.append(np.mean(decisions > 0) > 0.05)
    print("| a file made for it, `taufpl fit --threshold np`, tau .05 | P(FPR > tau) |\n|---|---|")
    print(f"| {draws} draws, 59 of 62 negatives held out | {share(broken)} |", flush=True)


def default(draws: int) -> None:
    """What a user gets without asking."""
    print("| as it comes | negatives | tau | strategy | P(FPR > tau) | recall |\n|---|---|---|---|---|---|")
    for name, n, tau, make in (
        ("`TauFPLClassifier`", 500, 0.05, lambda seed: TauFPLClassifier(0.05, random_state=seed)),
        (
            "`NeymanPearsonClassifier`, logistic regression",
            1000,
            0.01,
            lambda seed: NeymanPearsonClassifier(LogisticRegression(), 0.01, random_state=seed),
        ),
    ):
        rng = np.random.default_rng(n)
        rates, strategies = [], set()
        for draw in range(draws):
            screen = make(draw).fit(*clouds(rng, n, 100))
            inner = getattr(screen, "estimator_", screen)
            intercept = inner.intercept_[0] if inner is not screen else 0.0
            rates.append(linear_rates(inner.coef_[0], screen.threshold_ - intercept))
            strategies.add(screen.strategy_)
        fpr, recall = np.array(rates).T
        print(f"| {name} | {n} | {tau} | {', '.join(strategies)} | {share(list(fpr > tau))} | {recall.mean():.3f} |")


def snapping(draws: int) -> None:
    """Recall of boosting under the guarantee: one half held out, and the smallest hold-out that does the same."""
    rng = np.random.default_rng(0)
    recalls = {0.5: [], "auto": []}
    for draw in range(draws):
        X, y = clouds(rng, 2000, 300)
        positives = rng.normal(size=(20_000, 5)) + 2.0 / np.sqrt(5)
        for held, found in recalls.items():
            boosting = HistGradientBoostingClassifier(max_iter=50, random_state=0)
            screen = NeymanPearsonClassifier(
                boosting, 0.01, threshold=HeldOut(held, measure_recall=False), random_state=draw
            )
            found.append(screen.fit(X, y).predict(positives).mean())
    half, auto = (np.array(each) for each in recalls.values())
    gain = auto - half
    error = gain.std(ddof=1) / np.sqrt(draws)
    print("| boosting, 2,000 negatives, tau .01 | recall |\n|---|---|")
    print(f'| `share=0.5` (1,000) | {half.mean():.4f} |\n| `share="auto"` (913) | {auto.mean():.4f} |')
    print(f"| gain | {gain.mean():.4f} ± {error:.4f} |", flush=True)


PARTS = {"copies": copies, "searches": searches, "file": file, "default": default, "snapping": snapping}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    for part in arguments.parts:
        began = time.perf_counter()
        PARTS[part](arguments.draws)
        print(f"\n{part}: {time.perf_counter() - began:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
