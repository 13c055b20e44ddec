"""Kernel rankings: recall against linear ones, time and recall against a kernel SVM, and where the time goes.

    TAUFPL_DATA=folder python benchmarks/kernels.py [--parts recall svm large] [--sets spambase w8a] [--rounds 3]

- recall: spambase, with two thirds of the rows to learn from, and w8a, with 10,000; the others judge. Columns of
  spambase are standardised by the training rows. TauFPLClassifier by its defaults and with ranking="paper", and
  KernelTauFPLClassifier, all by threshold="cross".
- svm: 10,000 rows to learn from. Every pair of a grid of 3 gammas and 3 penalties is fitted, by both; the pair with
  the best recall on 5,000 further rows is judged on 15,000 others. The threshold is the training quantile for both.
  reg is 1 / (m C), which gives the loss of a positive the same weight, for a C of a tenth of the machine's; rankings
  train at 2 tau, with 500 landmarks. One line a split.
- large: 200,000 rows of 20 columns, positives in a ball of four hidden ones; 300 landmarks, each stage by itself.

Seconds are those of the processor; run with one thread (OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1). Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from taufpl import KernelTauFPLClassifier, KernelTauFPLRanker, TauFPLClassifier
from taufpl.datasets import fetch_libsvm, load_spambase
from taufpl.estimators import SolverChoice
from taufpl.estimators.kernel._solve import Approximation, make_rows, solve_kernel_ranking
from taufpl.kernels import make_kernel, partial_cholesky
from taufpl.metrics import tpr_at_fpr
from taufpl.thresholding import top_threshold

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "estimators" / "kernel"))
from density_cases import CASES, bayes_recall, draw

TAUS = (0.01, 0.05)
FACTORS = (0.25, 1.0, 4.0)
COSTS = (1.0, 10.0, 100.0)
# Of the ranking: its best penalties lie about a decade higher than those of the machine.
RANKING_COSTS = (0.1, 1.0, 10.0)
# An SVM with thousands of support vectors takes its time to score.
MOST_JUDGES = 20_000
Split = tuple[Any, np.ndarray, Any, np.ndarray]


def splits(name: str, n_rounds: int) -> Iterator[Split]:
    """Rows to learn from and rows to judge on, with labels 0 and 1."""
    if name == "spambase":
        X, y = load_spambase(return_X_y=True)
    else:
        X, y = fetch_libsvm(name, return_X_y=True)
        X = X.toarray()
    y = (y == y.max()).astype(int)
    share: Any = 2 / 3 if name == "spambase" else 10_000
    for number in range(n_rounds):
        parts = train_test_split(X, y, train_size=share, stratify=y, random_state=number)
        train, test, y_train, y_test = parts
        if name == "spambase":
            scaler = StandardScaler().fit(train)
            train, test = scaler.transform(train), scaler.transform(test)
        yield train, y_train, test, y_test


MODELS: dict[str, Callable[[float], Any]] = {
    "linear, paper": lambda tau: TauFPLClassifier(tau, ranking="paper", threshold="cross", random_state=0),
    "linear, automatic": lambda tau: TauFPLClassifier(tau, threshold="cross", random_state=0),
    "kernel": lambda tau: KernelTauFPLClassifier(tau, threshold="cross", random_state=0),
}


def against_linear(names: list[str], n_rounds: int) -> None:
    print("| set | tau | model | recall of `predict` | FPR | recall at FPR = tau | gap to the exact kernel | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        found: dict[tuple[float, str], list[tuple[float, ...]]] = {}
        for X, y, X_test, y_test in splits(name, n_rounds):
            for tau in TAUS:
                for title, make in MODELS.items():
                    began = time.process_time()
                    model = make(tau).fit(X, y)
                    seconds = time.process_time() - began
                    scores = model.decision_function(X_test)
                    line = (
                        np.mean(scores[y_test == 1] > 0),
                        np.mean(scores[y_test == 0] > 0),
                        tpr_at_fpr(y_test, scores, tau),
                        getattr(model, "kernel_gap_", np.nan),
                        seconds,
                    )
                    found.setdefault((tau, title), []).append(line)
        for (tau, title), lines in sorted(found.items()):
            table = np.array(lines)
            mean, error = table.mean(axis=0), table.std(axis=0, ddof=1) / np.sqrt(len(table))
            gap = f"{mean[3]:.2g}" if np.isfinite(mean[3]) else "-"
            print(
                f"| {name} | {tau:.0%} | {title} | {mean[0]:.3f} ± {error[0]:.3f} | {mean[1]:.2%} "
                f"| {mean[2]:.3f} ± {error[2]:.3f} | {gap} | {mean[4]:.0f} |",
                flush=True,
            )


def against_svm(names: list[str], n_rounds: int) -> None:
    print("| set, 10,000 rows | tau | model | recall | FPR | recall at FPR = tau | seconds, 9 fits | times the SVM |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        for split in [board()] if name == "checkerboard" else splits(name, n_rounds):
            _one_split(name, split)


def _one_split(name: str, split: Split) -> None:
    X, y, rest, y_rest = split
    rest, y_rest = rest[:MOST_JUDGES], y_rest[:MOST_JUDGES]
    kernel = make_kernel("rbf", "median", X=X)
    gammas = [factor * kernel.gamma for factor in FACTORS]
    began = time.process_time()
    machines = [SVC(C=C, gamma=gamma, cache_size=1000).fit(X, y) for gamma in gammas for C in COSTS]
    svm_seconds = time.process_time() - began
    for tau in TAUS if name != "checkerboard" else TAUS[:1]:
        began = time.process_time()
        rankers = [
            KernelTauFPLRanker(tau, 1 / (C * y.sum()), gamma=gamma, tau_scale=2, random_state=0).fit(X, y)
            for gamma in gammas
            for C in RANKING_COSTS
        ]
        seconds = time.process_time() - began
        for title, models, spent in (("SVM, shifted", machines, svm_seconds), ("kernel ranking", rankers, seconds)):
            recall, fpr, at_tau = _best(models, X[y == 0], rest, y_rest, tau)
            print(
                f"| {name} | {tau:.0%} | {title} | {recall:.3f} | {fpr:.2%} | {at_tau:.3f} | {spent:.1f} "
                f"| {spent / svm_seconds:.2f} |",
                flush=True,
            )
    if name == "checkerboard":
        print(f"| {name} | 1% | likelihood ratio | | | {bayes_recall(CASES[name], 0.01, rest, y_rest):.3f} | | |")


def board() -> Split:
    return *draw(CASES["checkerboard"], 8000, 2000, 0), *draw(CASES["checkerboard"], 16_000, 4_000, 1)


def _best(models: list[Any], negatives: Any, rest: Any, labels: np.ndarray, tau: float) -> tuple[float, ...]:
    """Choose by 5,000 rows, judge on the others; thresholds are quantiles of the training negatives."""
    figures = []
    for model in models:
        scores = model.decision_function(rest) - top_threshold(model.decision_function(negatives), tau)
        chosen_by = tpr_at_fpr(labels[:5000], scores[:5000], tau)
        truth, marks = labels[5000:], scores[5000:]
        at_tau = tpr_at_fpr(truth, marks, tau)
        figures.append((chosen_by, np.mean(marks[truth == 1] > 0), np.mean(marks[truth == 0] > 0), at_tau))
    return max(figures)[1:]


def many_rows(n_rows: int = 200_000, n_components: int = 300) -> None:
    rng = np.random.default_rng(0)
    inside = rng.uniform(-1, 1, size=(n_rows, 4))
    far = np.sqrt((inside**2).sum(axis=1)) + 0.03 * rng.normal(size=n_rows)
    y = (far < np.quantile(far, 0.1)).astype(int)
    X = inside @ rng.normal(size=(4, 20)) + 0.1 * rng.normal(size=(n_rows, 20))
    classes = (np.flatnonzero(y == 1), np.flatnonzero(y == 0))
    how = Approximation("low-rank", n_components)
    stages: list[tuple[str, float, float]] = []

    def timed(title: str, work: Callable[[], Any]) -> Any:
        wall, processor = time.perf_counter(), time.process_time()
        answer = work()
        stages.append((title, time.process_time() - processor, time.perf_counter() - wall))
        return answer

    kernel = timed("gamma", lambda: make_kernel("rbf", "median", X=X))
    chosen = np.sort(rng.choice(n_rows, 20_000, replace=False))
    timed("landmarks", lambda: partial_cholesky(kernel, X, n_components, 1e-8, "random", rng, chosen))
    rows = timed("landmarks and features", lambda: make_rows(kernel, X, how, rng, how.candidates(classes, rng)))
    problem = rows.pose(classes, 0.01, 1e-3)
    found = timed("solve", lambda: solve_kernel_ranking(rows, problem, SolverChoice()))
    lower = timed("gap to the exact kernel", found.exact_dual)
    support = np.flatnonzero(found.weights)
    timed("threshold", lambda: kernel.expansion(X[classes[1]], X[support], found.weights[support]))
    ranker = KernelTauFPLRanker(0.01, 1e-3, n_components=n_components, random_state=0)
    timed("all of `fit`", lambda: ranker.fit(X, y))
    timed("scoring of 200,000 rows", lambda: ranker.decision_function(X))
    print("| stage | seconds of the processor | seconds |")
    print("|---|---|---|")
    for title, processor, wall in stages:
        print(f"| {title} | {processor:.2f} | {wall:.2f} |")
    primal = found.ranking.result.primal
    print(
        f"\nGap {found.ranking.result.gap:.2g}, gap to the exact kernel {(primal - lower) / primal:.2g}, trace error "
        f"{rows.residual.sum() / rows.trace:.2g}, recall at 1 % on these rows "
        f"{tpr_at_fpr(y, ranker.decision_function(X), 0.01):.3f}, rows with a dual weight "
        f"{np.count_nonzero(found.ranking.result.alpha) + np.count_nonzero(found.ranking.result.beta):,}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["recall", "svm", "large"])
    parser.add_argument("--sets", nargs="+", default=None)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in given.parts:
        print(f"\n### {part}\n")
        if part == "recall":
            against_linear(given.sets or ["spambase", "w8a"], given.rounds)
        elif part == "svm":
            against_svm(given.sets or ["w8a", "checkerboard"], given.rounds)
        else:
            many_rows()


if __name__ == "__main__":
    main()
