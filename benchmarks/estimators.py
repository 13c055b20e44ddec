"""The rankers against what users would pick, their growth with the rows, and a path over reg.

    TAUFPL_DATA=folder python benchmarks/estimators.py [--quick] [--parts NAME ...] [--folder benchmarks/figures]

spambase and w8a are read from the folder in TAUFPL_DATA, as in `solvers.py`. Parts: `fit` times one TauFPLRanker at a
gap of 1e-4 against LinearSVC (squared hinge, primal); `search` a TauFPLRankerCV against GridSearchCV of a
cost-sensitive LinearSVC; `growth` repeats w8a up to 32 times and measures seconds and memory, each size in a process of
its own; `path` counts passes along 20 values of reg. Prints Markdown and writes figures as PNG.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from solvers import SETS, make_problem, read
from taufpl import TauFPLRanker, TauFPLRankerCV
from taufpl.metrics import tpr_at_fpr_scorer
from taufpl.solvers import Newton, solve_path

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SMALL_SETS = ("spambase", "spambase, standardised", "spambase, log1p", "w8a")


def least_seconds(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Least time of each, taken in turns so that a busy moment hits all alike."""
    times = [[] for _ in functions]
    for _ in range(repeats):
        for own, function in zip(times, functions, strict=True):
            began = time.perf_counter()
            function()
            own.append(time.perf_counter() - began)
    return [min(own) for own in times]


def compare_fits(quick: bool) -> None:
    print("\n### One fit at a gap of 1e-4 against LinearSVC (their time, and ours over theirs)\n")
    grid = [(tau, reg) for tau in (0.01, 0.1) for reg in (1e-1, 1e-2, 1e-3)]
    print("| set | LinearSVC, ms | " + " | ".join(f"tau {tau:g}, reg {reg:g}" for tau, reg in grid) + " | median |")
    print("|---|---|" + "---|" * (len(grid) + 1))
    for name in SMALL_SETS:
        X, y = SETS[name](quick)
        fits = [lambda X=X, y=y: LinearSVC(dual=False).fit(X, y)]
        fits += [lambda X=X, y=y, cell=cell: TauFPLRanker(*cell).fit(X, y) for cell in grid]
        peer, *ours = least_seconds(fits, 3 if quick else 7)
        ratios = [seconds / peer for seconds in ours]
        cells = " | ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"| {name} | {1e3 * peer:.0f} | {cells} | {np.median(ratios):.2f} |", flush=True)


def compare_searches(quick: bool) -> None:
    print(
        "\n### TauFPLRankerCV (10 values of reg, 5 folds) against GridSearchCV of LinearSVC (10 x 10 values, 5 folds)\n"
    )
    print("| set | tau | TauFPLRankerCV, s | GridSearchCV, s | times faster | share, ours | share, theirs |")
    print("|---|---|---|---|---|---|---|")
    for name in ("spambase, standardised", "spambase, log1p", "w8a"):
        X, y = SETS[name](quick)
        for tau in (0.01, 0.1):
            ours = TauFPLRankerCV(tau, 10, 5, tau_scale=1.0, max_extensions=0)
            costs = [{-1: 1.0, 1: float(weight)} for weight in np.geomspace(1e-2, 1e2, 3 if quick else 10)]
            grid = {"C": np.geomspace(1e-3, 1e2, 3 if quick else 10), "class_weight": costs}
            theirs = GridSearchCV(LinearSVC(dual=False), grid, scoring=tpr_at_fpr_scorer(tau), cv=5)
            seconds = least_seconds([lambda X=X, y=y, each=each: each.fit(X, y) for each in (ours, theirs)], 1)
            print(
                f"| {name} | {tau:g} | {seconds[0]:.2f} | {seconds[1]:.2f} | {seconds[1] / seconds[0]:.0f} "
                f"| {ours.best_score_:.3f} | {theirs.best_score_:.3f} |",
                flush=True,
            )


def resident(key: str) -> int:
    """VmRSS or VmHWM of this process, in bytes. Linux only."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return 1024 * int(line.split()[1])


def grow_once(times: int) -> None:
    """One size, in a process of its own: seconds, bytes of the data and bytes that a fit adds to them."""
    X, y = read("w8a")
    TauFPLRanker(0.01, 1e-3).fit(X, y)  # threads and imports
    X, y = sp.vstack([X] * times, format="csr"), np.tile(y, times)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    first = TauFPLRanker(0.01, 1e-3).fit(X, y)
    added = resident("VmHWM") - before
    seconds = least_seconds([lambda: TauFPLRanker(0.01, 1e-3).fit(X, y)], 3)[0]
    data = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    print(json.dumps([X.shape[0], seconds, data, added, first.n_passes_]))


def measure_growth(quick: bool, folder: Path) -> None:
    print("\n### w8a repeated: one fit to a gap of 1e-4, tau 0.01, reg 1e-3\n")
    print(
        "| times | rows | seconds | passes | data, MB | added by the fit, MB | limit: half the data + 10 vectors, MB |"
    )
    print("|---|---|---|---|---|---|---|")
    points = []
    for times in (1, 2, 4, 8) if quick else (1, 2, 4, 8, 16, 32):
        command = [sys.executable, __file__, "--grow-once", str(times)]
        rows, seconds, data, added, passes = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        limit = 0.5 * data + 80 * rows
        points.append((rows, seconds))
        print(
            f"| {times} | {rows:,} | {seconds:.2f} | {passes:.0f} | {data / 1e6:.0f} | {added / 1e6:.0f} "
            f"| {limit / 1e6:.0f} |",
            flush=True,
        )
    rows, seconds = np.log(points).T
    slope = np.polyfit(rows, seconds, 1)[0]
    print(f"\nSlope in log-log: {slope:.2f}.")
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    axis.loglog(*zip(*points, strict=True), "o-", label=f"one fit, slope {slope:.2f}")
    axis.loglog(*zip(*((n, points[0][1] * n / points[0][0]) for n, _ in points), strict=True), ":", label="linear")
    axis.set(xlabel="rows", ylabel="seconds", title="w8a repeated, gap 1e-4")
    axis.legend()
    figure.savefig(folder / "estimators_growth.png", dpi=120)


def measure_paths(quick: bool) -> None:
    print("\n### A path over 20 values of reg: passes over those of one cold fit at the smallest\n")
    print("| set | tau | regs | to a gap of 1e-4 | to 1e-6 |\n|---|---|---|---|---|")
    for name in SMALL_SETS[1:]:
        data = SETS[name](quick)
        for tau in (0.001, 0.01, 0.1):
            for ends in ((1e-1, 1e-3), (1.0, 1e-4)):
                ratios = [path_ratio(data, tau, np.geomspace(*ends, 20), tol) for tol in (1e-4, 1e-6)]
                print(
                    f"| {name} | {tau:g} | {ends[0]:g} to {ends[1]:g} | {ratios[0]:.1f} | {ratios[1]:.1f} |", flush=True
                )


def path_ratio(data: tuple, tau: float, regs: np.ndarray, tol: float) -> float:
    cold = Newton(tol=tol).solve(make_problem(*data, tau, regs.min()))
    problem = make_problem(*data, tau, regs.max())
    warm = [result for _, _, result in solve_path(Newton(tol=tol), problem, [problem.k], regs.tolist())]
    assert all(result.converged for result in warm)
    return sum(result.n_passes for result in warm) / cold.n_passes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller grids, fewer repetitions")
    parser.add_argument("--parts", nargs="+", choices=("fit", "search", "growth", "path"))
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "figures")
    parser.add_argument("--grow-once", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if read("w8a") is None or read("spambase") is None:
        sys.exit("w8a.npz and spambase.npz must lie in the folder that TAUFPL_DATA names; see solvers.py.")
    if arguments.grow_once:
        grow_once(arguments.grow_once)
        return
    warnings.simplefilter("ignore", ConvergenceWarning)  # of LinearSVC, on raw spambase
    arguments.folder.mkdir(parents=True, exist_ok=True)
    parts = {
        "fit": lambda: compare_fits(arguments.quick),
        "search": lambda: compare_searches(arguments.quick),
        "growth": lambda: measure_growth(arguments.quick, arguments.folder),
        "path": lambda: measure_paths(arguments.quick),
    }
    for name in arguments.parts or parts:
        parts[name]()


if __name__ == "__main__":
    main()
