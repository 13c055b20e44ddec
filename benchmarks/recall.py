"""Recall at small tolerances: every linear way to a ranking, chosen on folds and judged on rows it has not seen.

    TAUFPL_DATA=folder python benchmarks/recall.py [--quick] [--sets NAME ...] [--splits N] [--seed 0]
                                                   [--folder benchmarks/figures]
    TAUFPL_DATA=folder python benchmarks/recall.py --screening ...

With --screening, `ScreeningClassifier` beside boosting and AutoGluon instead; its options are those of `screening.py`.

spambase, phishing, a9a and w8a are read from the folder in TAUFPL_DATA, digits and breast cancer come with
scikit-learn, the rest is generated (`recall_data.py`).
Of a small set two thirds of the rows train and a third tests, stratified; of a9a and w8a 10,000 rows train and all the
others test; generated sets train on 5,000 fresh rows and test on 66,000. All settings are chosen on 5 folds of the
training part.
Recall is the share of test positives above the (floor(tau n) + 1)-th largest of the n test negatives.

Costs are seconds of the processor, so that other load matters little; run with one thread (OMP_NUM_THREADS=1,
OPENBLAS_NUM_THREADS=1). Prints Markdown and writes a figure as PNG.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from recall_data import N_SPLITS, N_SPLITS_LARGE, PARTLY, SETS, Split, recall, short, standard_error
from taufpl import TauFPLRanker, TauFPLRankerCV
from taufpl.estimators import ArrayTable, AutoFitter, split_labels
from taufpl.operators import as_operator

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TAUS = (0.001, 0.005, 0.01, 0.05)
FOLDS = 5
STRENGTHS = np.geomspace(1e-3, 1e3, 7)
SVM_COSTS, SVM_STRENGTHS = (1.0, 10.0, 100.0), (1e-3, 1e-2, 1e-1, 1.0)
REGS = np.geomspace(1.0, 1e-4, 5)
# Tolerances that settings are judged at, as multiples of tau: the automatic choice does so, and its rivals may too.
NEIGHBOURS = (0.5, 1.0, 2.0)
LOGISTIC, SVM, PAPER, PAPER_2, PATH, TRIMMED = "logistic", "SVM", "paper, tau", "paper, 2 tau", "scale path", "trimmed"
LINEAR = (LOGISTIC, SVM, PAPER, PAPER_2, PATH, TRIMMED)
AUTOMATIC, BOOSTING = "automatic", "boosting"
COLUMNS = (*LINEAR, AUTOMATIC, BOOSTING)


def held_out(scores: np.ndarray, y: np.ndarray, folds: Sequence[Any], tau: float) -> float:
    """Mean over the folds of the recall at tau and its neighbours."""
    levels = [min(factor * tau, 0.99) for factor in NEIGHBOURS]
    return float(np.mean([recall(scores[rows], y[rows], level) for _, rows in folds for level in levels]))


def tuned(models: Sequence[Any], split: Split) -> dict[float, np.ndarray]:
    """Test scores of the model that is best on folds, for each tau; models do not depend on tau."""
    folds = list(StratifiedKFold(FOLDS).split(np.zeros(split.y.size), split.y))
    scores = np.empty((len(models), split.y.size))
    for number, model in enumerate(models):
        for train, test in folds:
            scores[number, test] = model.fit(split.X[train], split.y[train]).decision_function(split.X[test])
    best = {tau: int(np.argmax([held_out(row, split.y, folds, tau) for row in scores])) for tau in TAUS}
    on_test = {
        number: models[number].fit(split.X, split.y).decision_function(split.X_test) for number in set(best.values())
    }
    return {tau: on_test[number] for tau, number in best.items()}


def logistic_models(n_features: int) -> list[Any]:
    solver = "newton-cholesky" if n_features <= 64 else "lbfgs"
    return [LogisticRegression(C=strength, solver=solver, max_iter=300) for strength in STRENGTHS]


def svm_models() -> list[Any]:
    return [
        LinearSVC(C=strength, class_weight={0: cost, 1: 1.0}, dual=False, tol=1e-3, max_iter=300)
        for cost in SVM_COSTS
        for strength in SVM_STRENGTHS
    ]


def convex_scores(split: Split, tau: float, has_path: bool) -> Iterator[tuple[str, np.ndarray]]:
    """The paper's rankings, and the best of them over the training share, from one search."""
    given = {"regs": REGS, "cv": FOLDS, "cv_tol": 1e-2, "tol": 1e-3}
    if has_path:
        path = TauFPLRankerCV(tau, tau_scale="cv", **given).fit(split.X, split.y)
        yield PATH, path.decision_function(split.X_test)
    for name, scale in ((PAPER, 1.0), (PAPER_2, 2.0)):
        if has_path and not path.n_extensions_:
            table = path.cv_results_
            own = table["param_tau_scale"] == scale
            reg = table["param_reg"][own][np.argmax(table["mean_test_score"][own])]
            model = TauFPLRanker(tau, reg, tau_scale=scale, tol=1e-3)
        else:
            model = TauFPLRankerCV(tau, tau_scale=scale, **given)
        yield name, model.fit(split.X, split.y).decision_function(split.X_test)


def automatic_scores(split: Split, tau: float) -> tuple[np.ndarray, float, np.ndarray]:
    """Of what `TauFPLClassifier` fits by default, with its seconds, and of the best trimmed candidate alone."""
    began = time.process_time()
    fitter, labels = AutoFitter(tau, FOLDS), split_labels(split.y)
    table = ArrayTable(split.X, labels.positive_rows, labels.negative_rows, operator=as_operator(split.X))
    fitter.prepare(table)
    coef = fitter.fit(table).coef
    seconds = time.process_time() - began
    shares = dict(zip(fitter.selection["candidate"], fitter.selection["mean_share"], strict=True))
    best = max((name for name in shares if name.startswith(TRIMMED)), key=shares.__getitem__)
    fitter.kept = [(TRIMMED, *map(float, re.findall(r"[\d.e+-]+", best.removeprefix(TRIMMED))))]
    return split.X_test @ coef, seconds, split.X_test @ fitter.fit(table).coef


class Results:
    """Recalls by set, tau and column, one a split; seconds by set."""

    def __init__(self) -> None:
        self.recalls: dict[tuple[str, float], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.rival_seconds: dict[str, list[float]] = defaultdict(list)
        self.seconds: dict[tuple[str, float], list[float]] = defaultdict(list)

    def add(self, name: str, split: Split, has_path: bool) -> None:
        """All columns on one split."""
        began = time.process_time()
        LogisticRegressionCV(Cs=10, cv=FOLDS).fit(split.X, split.y)
        self.rival_seconds[name].append(time.process_time() - began)
        fixed = {
            LOGISTIC: tuned(logistic_models(split.X.shape[1]), split),
            SVM: tuned(svm_models(), split),
        }
        X, X_test = (part.toarray() if sp.issparse(part) else part for part in (split.X, split.X_test))
        trees = HistGradientBoostingClassifier(random_state=0).fit(X, split.y).decision_function(X_test)
        for tau in TAUS:
            scores = {column: by_tau[tau] for column, by_tau in fixed.items()}
            scores.update(convex_scores(split, tau, has_path))
            scores[AUTOMATIC], seconds, scores[TRIMMED] = automatic_scores(split, tau)
            scores[BOOSTING] = trees
            self.seconds[name, tau].append(seconds)
            for column, own in scores.items():
                self.recalls[name, tau][column].append(recall(own, split.y_test, tau))

    def names(self) -> list[str]:
        return list(self.rival_seconds)

    def mean(self, name: str, tau: float, column: str) -> float:
        return float(np.mean(self.recalls[name, tau][column]))

    def best_linear(self, name: str, tau: float, splits: np.ndarray | None = None) -> str:
        """The rival of automatic with the best mean over some splits."""
        cell = self.recalls[name, tau]
        rivals = [column for column in LINEAR if column in cell]
        return max(rivals, key=lambda column: float(np.mean(np.array(cell[column])[splits])))


class Cell(NamedTuple):
    """Automatic against the best other linear column in one set at one tau."""

    name: str
    tau: float
    best: str
    difference: float
    paired: float
    unpaired: float
    # Automatic against the column that is best on the other splits, and that column against the best.
    fair_difference: float
    fair: float
    other_difference: float
    other: float

    @classmethod
    def of(cls, results: Results, name: str, tau: float) -> Cell:
        cell = results.recalls[name, tau]
        automatic = np.array(cell[AUTOMATIC])
        best = results.best_linear(name, tau)
        rival = np.array(cell[best])
        others = np.array(
            [
                cell[results.best_linear(name, tau, np.arange(rival.size) != split)][split]
                for split in range(rival.size)
                if rival.size > 1
            ]
            or rival
        )
        return cls(
            name,
            tau,
            best,
            float(np.mean(automatic - rival)),
            standard_error(automatic - rival),
            standard_error(rival),
            float(np.mean(automatic - others)),
            standard_error(automatic - others),
            float(np.mean(others - rival)),
            standard_error(others - rival),
        )


def print_tables(results: Results) -> None:
    for tau in TAUS:
        print(f"\n### Recall at tau = {100 * tau:g} %: mean and standard error over the splits\n")
        print("| data | " + " | ".join(COLUMNS) + " |\n|" + "---|" * (len(COLUMNS) + 1))
        for name in results.names():
            cell = results.recalls[name, tau]
            texts = []
            for column in COLUMNS:
                values = np.array(cell.get(column, []))
                text = f"{short(values.mean())} ± {short(standard_error(values))}" if values.size else "-"
                texts.append(f"**{text}**" if column == AUTOMATIC else text)
            print(f"| {name} | " + " | ".join(texts) + " |")


def print_summary(results: Results, cells: Sequence[Cell]) -> None:
    print("\n### Means over all cells that have every column\n")
    full = [cell for cell in results.recalls.values() if all(column in cell for column in COLUMNS)]
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    print(
        "| " + " | ".join(short(float(np.mean([np.mean(cell[column]) for cell in full]))) for column in COLUMNS) + " |"
    )

    print("\n### Automatic against the best of the other linear columns\n")
    print(
        "| cells in which it is within ... of the best, or above it | of all cells | "
        + " | ".join(f"{100 * tau:g} %" for tau in TAUS)
        + " |\n|"
        + "---|" * (len(TAUS) + 2)
    )
    rules: dict[str, Callable[[Cell], bool]] = {
        "a standard error of the paired differences": lambda cell: cell.difference >= -cell.paired - 1e-12,
        "a standard error of the best column": lambda cell: cell.difference >= -cell.unpaired,
        "that, or .01": lambda cell: cell.difference >= -max(cell.unpaired, 0.01),
        "a standard error, best column found on the other splits": lambda cell: cell.fair_difference >= -cell.fair,
        "two of these": lambda cell: cell.fair_difference >= -2.0 * cell.fair,
        "a standard error (paired), of the column best on the other splits in place of automatic": lambda cell: (
            cell.other_difference >= -cell.other
        ),
    }
    for text, rule in rules.items():
        shares = [np.mean([rule(cell) for cell in cells if tau is None or cell.tau == tau]) for tau in (None, *TAUS)]
        print(f"| {text} | " + " | ".join(f"{100 * share:.0f} %" for share in shares) + " |")

    print("\nCells within a standard error of the paired differences, each column against the best of the others:\n")
    for column in (*LINEAR, AUTOMATIC):
        inside = []
        for cell in results.recalls.values():
            if column not in cell:
                continue
            rivals = [np.array(cell[c]) for c in (*LINEAR, AUTOMATIC) if c in cell and c != column]
            difference = np.array(cell[column]) - max(rivals, key=np.mean)
            inside.append(difference.mean() >= -standard_error(difference))
        print(f"- {column}: {100 * np.mean(inside):.0f} %")

    print("\nCells outside one standard error of the paired differences:\n")
    print("| data | tau | best | its recall | automatic - best | paired | unpaired |\n|---|---|---|---|---|---|---|")
    for cell in sorted(cells, key=lambda cell: cell.difference):
        if cell.difference < -cell.paired - 1e-12:
            best = short(results.mean(cell.name, cell.tau, cell.best))
            print(
                f"| {cell.name} | {100 * cell.tau:g} % | {cell.best} | {best} | {cell.difference:.4f} |"
                f" {cell.paired:.4f} | {cell.unpaired:.4f} |"
            )

    gone = [
        f"{name} at {100 * tau:g} %"
        for name, tau in results.recalls
        if results.mean(name, tau, AUTOMATIC) == 0 < results.mean(name, tau, LOGISTIC)
    ]
    print(f"\nCells in which automatic is 0 and logistic regression is not: {', '.join(gone) or 'none'}.")
    if PARTLY in results.names():
        tau = TAUS[0]
        ratio = results.mean(PARTLY, tau, AUTOMATIC) / max(results.mean(PARTLY, tau, LOGISTIC), 1e-300)
        print(f"{PARTLY} at {100 * tau:g} %: automatic has {ratio:.1f} times the recall of logistic regression.")


def print_costs(results: Results, shapes: dict[str, tuple[int, int]]) -> None:
    print(
        "\n### Cost of automatic: all candidates on 5 folds and the final fit, over LogisticRegressionCV(Cs=10, cv=5)\n"
    )
    print("| data | rows | features | LogisticRegressionCV, s | " + " | ".join(f"{100 * t:g} %" for t in TAUS) + " |")
    print("|" + "---|" * (len(TAUS) + 4))
    ratios = []
    for name in results.names():
        rival = float(np.median(results.rival_seconds[name]))
        own = [float(np.median(results.seconds[name, tau])) / rival for tau in TAUS]
        ratios += own
        rows, features = shapes[name]
        print(f"| {name} | {rows:,} | {features} | {rival:.2f} | " + " | ".join(f"{ratio:.1f}" for ratio in own) + " |")
    inside = 100 * np.mean(np.array(ratios) <= 10)
    print(f"\nAt most 10 in {inside:.0f} % of the cells; median {np.median(ratios):.1f}, most {max(ratios):.1f}.")


def draw(results: Results, cells: Sequence[Cell], folder: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.5), layout="constrained")
    names = results.names()
    floor = 1e-3
    for number, tau in enumerate(TAUS):
        pairs = np.array([[results.mean(name, tau, column) for name in names] for column in (LOGISTIC, AUTOMATIC)])
        left.loglog(*np.maximum(pairs, floor), "o", color=f"C{number}", alpha=0.8, label=f"tau {100 * tau:g} %")
        own = [cell for cell in cells if cell.tau == tau]
        heights = [names.index(cell.name) + 0.18 * (number - 1.5) for cell in own]
        errors = np.nan_to_num([cell.paired for cell in own])
        right.errorbar([c.difference for c in own], heights, xerr=errors, fmt="o", ms=4, color=f"C{number}")
    left.plot([floor, 1.0], [floor, 1.0], color="grey", lw=1)
    left.set(xlabel="recall of logistic regression (at least .001 is drawn)", ylabel="recall of automatic")
    left.set_title("One point a set and tolerance")
    left.legend()
    right.axvline(0.0, color="grey", lw=1)
    right.set_yticks(range(len(names)), names)
    right.invert_yaxis()
    right.set(xlabel="recall of automatic - that of the best other linear column")
    right.set_title("Differences and their standard errors")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "recall.png", dpi=120)
    plt.close(figure)


def main() -> None:
    if "--screening" in sys.argv:
        import screening

        return screening.main([word for word in sys.argv[1:] if word != "--screening"])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows and two splits")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--splits", type=int, help=f"{N_SPLITS}, of large sets {N_SPLITS_LARGE}, unless given")
    parser.add_argument("--seed", type=int, default=0, help="number of the first split")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "figures")
    arguments = parser.parse_args()
    # Collapses and stops at max_iter are part of what is compared.
    warnings.simplefilter("ignore")

    results = Results()
    shapes: dict[str, tuple[int, int]] = {}
    for name in arguments.sets:
        source = SETS[name]
        n_splits = arguments.splits or (2 if arguments.quick else source.n_splits)
        for split in range(arguments.seed, arguments.seed + n_splits):
            began = time.perf_counter()
            data = source.draw(split, arguments.quick)
            if data is None:
                print(f"{name}: skipped, its file is not in the folder that TAUFPL_DATA names.")
                break
            results.add(name, data, source.has_path)
            shapes[name] = data.X.shape
            print(f"{name}, split {split}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    if not results.names():
        return
    cells = [Cell.of(results, name, tau) for name, tau in results.recalls]
    print_tables(results)
    print_summary(results, cells)
    print_costs(results, shapes)
    draw(results, cells, arguments.folder)


if __name__ == "__main__":
    main()
