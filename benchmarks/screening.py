"""Recall of `ScreeningClassifier` at small tolerances beside what people would pick instead, on the same rows.

    TAUFPL_DATA=folder python benchmarks/screening.py [--quick] [--sets NAME ...] [--splits 2] [--methods NAME ...]
        [--autogluon PYTHON] [--cache folder] [--jobs 1] [--folder benchmarks/figures]

Sets: see `recall_data.py`. 5,000 rows train, or two thirds where there are fewer, and all others test. Split s is drawn
with random_state = 500 + s; settings of the estimator were chosen on other splits.
Rankings learn from all training rows. Their recall is the share of test positives above the (floor(tau n) + 1)-th
largest score of the n test negatives. Under the guarantee (threshold="np") recall and false-alarm rate are those of the
threshold that was chosen on training rows alone.
The reference is LightGBM with the best of ten random settings on three folds (log loss), as the mean of five seeds.

Costs are processor seconds of fit with one thread; methods of one split run one after another in one process.
AutoGluon runs with the interpreter that is named, on the sets in AUTOGLUON_SETS. A result is kept in the cache as soon
as it is there, and found there by the next run: take a new folder for new code, or name the methods in --again.
Prints Markdown and writes a figure as PNG.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from recall_data import BREAST_CANCER, DIGITS, Split, divided, read, recall
from screening_tables import AUTOGLUON, EFFORTS, REFERENCE, TAUS, Results, draw, print_tables
from taufpl import NeymanPearsonClassifier, ScreeningClassifier, TauFPLClassifier
from taufpl.estimators import StackedScorer
from taufpl.thresholding import negatives_needed

FIRST_SEED, N_TRAIN = 500, 5_000
DELTA = 0.05
# Beside those that the guarantee needs; a scorer of fewer says nothing.
LEAST_TRAINING_NEGATIVES = 100
AUTOGLUON_SETS = (
    "table_magic_gamma",
    "table_pageblocks",
    "table_annthyroid",
    "table_landsat",
    "table_mnist",
    "table_cardiotocography",
    "spambase",
    "phishing",
)
OTHER_SETS = (
    "table_satellite",
    "table_optdigits",
    "table_donors",
    "table_internetads",
    "a9a",
    "w8a",
    DIGITS,
    BREAST_CANCER,
)
SETS = (*AUTOGLUON_SETS, *OTHER_SETS)
QUICK_SETS = (DIGITS, BREAST_CANCER)
# Packages of the extra `boost`.
BOOST = ("lightgbm", "xgboost", "catboost")
LIGHTGBM_SETTINGS = {
    "num_leaves": [7, 15, 31, 63],
    "learning_rate": [0.02, 0.04, 0.08],
    "n_estimators": [150, 300, 500],
    "min_child_samples": [5, 10, 20, 40],
    "colsample_bytree": [0.4, 0.6, 0.8, 1.0],
    "reg_lambda": [0.0, 1.0, 5.0],
}

Record = dict[str, Any]
Method = Callable[[Split, int], Record]


def ranked(fit: Callable[[Split, int], Callable[[Any], np.ndarray]]) -> Method:
    """A method whose one ranking serves every tolerance: `fit` returns the function that scores rows."""

    def measure(split: Split, seed: int) -> Record:
        began = time.process_time()
        score = fit(split, seed)
        seconds = time.process_time() - began
        scores = score(split.X_test)
        return {"recall": [recall(scores, split.y_test, tau) for tau in TAUS], "seconds": seconds}

    return measure


def logistic(split: Split, seed: int) -> Callable[[Any], np.ndarray]:
    search = LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=500)
    return make_pipeline(StandardScaler(), search).fit(split.X, split.y).decision_function


def boosting(split: Split, seed: int) -> Callable[[Any], np.ndarray]:
    return HistGradientBoostingClassifier(random_state=seed).fit(split.X, split.y).decision_function


def tuned_lightgbm(split: Split, seed: int) -> Callable[[Any], np.ndarray]:
    """The best of ten random settings on three folds by log loss, as the mean of five seeds."""
    from lightgbm import LGBMClassifier

    def make(seed: int, setting: dict[str, Any]) -> Any:
        fixed = {"subsample": 0.8, "subsample_freq": 1, "n_jobs": 1, "verbose": -1}
        return LGBMClassifier(random_state=seed, **fixed, **setting)

    rng, signs = np.random.default_rng(seed), 2 * split.y - 1
    folds = list(StratifiedKFold(3, shuffle=True, random_state=seed).split(split.X, split.y))
    losses, settings = [], []
    for _ in range(10):
        setting = {name: rng.choice(values).item() for name, values in LIGHTGBM_SETTINGS.items()}
        p = cross_val_predict(make(seed, setting), split.X, split.y, cv=folds, method="predict_proba")[:, 1]
        likelihood = np.where(signs > 0, p, 1 - p)
        losses.append(-np.log(np.maximum(likelihood, 1e-15)).mean())
        settings.append(setting)
    best = settings[int(np.argmin(losses))]
    models = [make(100 + number, best).fit(split.X, split.y) for number in range(5)]
    return lambda X: np.mean([model.predict_proba(X, raw_score=True) for model in models], axis=0)


def linear(split: Split, seed: int) -> Record:
    """The ranking of `TauFPLClassifier`, which is made for one tolerance: mean seconds of the three."""
    recalls, began = [], time.process_time()
    for tau in TAUS:
        model = make_pipeline(StandardScaler(), TauFPLClassifier(tau, threshold="train", random_state=seed))
        scores = model.fit(split.X, split.y).decision_function(split.X_test)
        recalls.append(recall(scores, split.y_test, tau))
    return {"recall": recalls, "seconds": (time.process_time() - began) / len(TAUS)}


def autogluon(python: str, cpu_seconds: float) -> Method:
    script = Path(__file__).with_name("autogluon_scores.py")

    def measure(split: Split, seed: int) -> Record:
        with tempfile.TemporaryDirectory() as folder:
            given, found = Path(folder) / "split.npz", Path(folder) / "scores.npz"
            np.savez(given, X=split.X, y=split.y, X_test=split.X_test)
            line = [python, str(script), str(given), str(found), "--cpu-seconds", str(cpu_seconds)]
            threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            subprocess.run(line, check=True, capture_output=True, env=os.environ | threads)
            kept = dict(np.load(found))
        scores = kept.pop("scores")
        recalls = [recall(scores, split.y_test, tau) for tau in TAUS]
        return {"recall": recalls, **{key: float(value) for key, value in kept.items()}}

    return measure


@contextmanager
def scikit_learn_alone() -> Iterator[None]:
    """The packages of the extra `boost` cannot be imported inside."""
    imported = {name: sys.modules[name] for name in BOOST if name in sys.modules}
    sys.modules.update(dict.fromkeys(BOOST))
    try:
        yield
    finally:
        for name in BOOST:
            del sys.modules[name]
        sys.modules.update(imported)


def stack(effort: str, boost: bool) -> Method:
    """The scorer of `ScreeningClassifier`, learned from all training rows."""

    def fit(split: Split, seed: int) -> Callable[[Any], np.ndarray]:
        with nullcontext() if boost else scikit_learn_alone():
            return StackedScorer(effort=effort, random_state=seed).fit(split.X, split.y).decision_function

    return ranked(fit)


def guaranteed(make: Callable[[float, int], Any], boost: bool = True) -> Method:
    """Recall and false-alarm rate on the test rows of a screen with the guarantee; None where negatives are too few."""

    def measure(split: Split, seed: int) -> Record:
        found: Record = {"recall": [], "fpr": [], "seconds": []}
        n_negative = int(np.sum(split.y == 0))
        for tau in TAUS:
            rates, began = (None, None), time.process_time()
            if n_negative >= negatives_needed(tau, DELTA) + LEAST_TRAINING_NEGATIVES:
                with nullcontext() if boost else scikit_learn_alone():
                    screen = make(tau, seed).fit(split.X, split.y)
                alarms = screen.predict(split.X_test) == 1
                rates = tuple(float(alarms[split.y_test == label].mean()) for label in (1, 0))
            found["recall"].append(rates[0])
            found["fpr"].append(rates[1])
            found["seconds"].append(time.process_time() - began)
        return found

    return measure


def flagship(tau: float, seed: int) -> Any:
    return ScreeningClassifier(tau, threshold="np", random_state=seed)


def boosting_under_np(tau: float, seed: int) -> Any:
    return NeymanPearsonClassifier(
        HistGradientBoostingClassifier(random_state=seed), tau, threshold="np", random_state=seed
    )


METHODS: dict[str, Method] = {
    REFERENCE: ranked(tuned_lightgbm),
    "logistic regression": ranked(logistic),
    "TauFPLClassifier": linear,
    "boosting": ranked(boosting),
    **{f"{effort}{', boost' if boost else ''}": stack(effort, boost) for boost in (False, True) for effort in EFFORTS},
    "np: boosting": guaranteed(boosting_under_np),
    "np: normal": guaranteed(flagship, boost=False),
    "np: normal, boost": guaranteed(flagship),
}


def run(name: str, number: int, methods: dict[str, Method], cache: Path) -> None:
    """All methods that are not in the cache yet, one after another, on one split."""
    warnings.simplefilter("ignore")
    missing = {method: path for method in methods if not (path := record_path(cache, name, number, method)).exists()}
    if not missing:
        return
    data = read(name)
    if data is None:
        print(f"{name}: skipped, its file is not in the folder that TAUFPL_DATA names.", file=sys.stderr)
        return
    # An import is no part of a fit's seconds.
    for package in BOOST:
        if importlib.util.find_spec(package):
            importlib.import_module(package)
    X, y = data[0].toarray() if sp.issparse(data[0]) else data[0], data[1]
    split = divided(X, y, FIRST_SEED + number, min(N_TRAIN, int(y.size * 2 / 3)))
    for method, path in missing.items():
        began = time.perf_counter()
        with threadpool_limits(1):
            record = {"load": os.getloadavg()[0], **methods[method](split, number)}
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(record))
        beside.replace(path)
        print(f"{name}, split {number}, {method}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)


def record_path(cache: Path, name: str, number: int, method: str) -> Path:
    return cache / f"{name}-{number}-{method}.json".replace(" ", "_").replace(":", "")


def collect(cache: Path, sets: Sequence[str], splits: int) -> Results:
    """What the cache has of these sets and splits."""
    records = {
        (name, number, method): json.loads(path.read_text())
        for name in sets
        for number in range(splits)
        for method in (*METHODS, AUTOGLUON)
        if (path := record_path(cache, name, number, method)).exists()
    }
    return Results(records)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the two bundled sets, one split")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--again", nargs="*", choices=METHODS, default=[], help="forget what the cache has of these")
    parser.add_argument("--autogluon", metavar="PYTHON", help="an interpreter that has autogluon.tabular")
    parser.add_argument("--cpu-seconds", type=float, default=120.0, help="processor seconds for AutoGluon")
    parser.add_argument("--cache", type=Path, default=Path("benchmarks/out/screening"))
    parser.add_argument("--jobs", type=int, default=1, help="splits at a time")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "figures")
    given = parser.parse_args(arguments)
    sets, splits, cache = given.sets, given.splits, given.cache
    if given.quick:
        sets, splits, cache = QUICK_SETS, 1, cache / "quick"
    cache.mkdir(parents=True, exist_ok=True)
    cells = [(name, number) for number in range(splits) for name in sets]
    for name, number in cells:
        for method in given.again:
            record_path(cache, name, number, method).unlink(missing_ok=True)

    methods = {method: METHODS[method] for method in given.methods}
    Parallel(given.jobs, batch_size=1, pre_dispatch="n_jobs")(
        delayed(run)(name, number, methods, cache) for name, number in cells
    )
    if given.autogluon:
        rival = {AUTOGLUON: autogluon(given.autogluon, given.cpu_seconds)}
        for name, number in cells:
            if name in AUTOGLUON_SETS:
                run(name, number, rival, cache)
    results = collect(cache, sets, splits)
    print_tables(results)
    draw(results, given.folder)


if __name__ == "__main__":
    main()
