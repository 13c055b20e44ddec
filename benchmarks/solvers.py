"""Both solvers on the acceptance cells: passes and seconds to a certified gap.

    TAUFPL_DATA=folder python benchmarks/solvers.py [--quick] [--sets NAME ...] [--folder benchmarks/figures]

spambase and w8a are read from the folder in TAUFPL_DATA: `NAME.npz`, a SciPy CSR matrix with the labels (-1/+1) under
the key `y` in the same file. The dense and sparse sets are generated. Gaps are recomputed from what a solver returns.
The accelerated solver stops at a gap of 1e-3 or after 5,000 passes. Prints Markdown and writes figures as PNG.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import scipy.sparse as sp

from taufpl.operators import as_operator
from taufpl.problem import RankingProblem, top_count
from taufpl.solvers import Accelerated, Newton, Result

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TAUS = (0.001, 0.01, 0.1)
REGS = (1e-1, 1e-3, 1e-5)
COARSE = 1e-3
Data = tuple[Any, np.ndarray]


def read(name: str) -> Data | None:
    path = Path(os.environ.get("TAUFPL_DATA", "")) / f"{name}.npz"
    if "TAUFPL_DATA" not in os.environ or not path.is_file():
        return None
    return sp.load_npz(path).tocsr(), np.load(path)["y"]


def spambase(change: Callable[[np.ndarray], np.ndarray]) -> Data | None:
    data = read("spambase")
    return None if data is None else (change(data[0].toarray()), data[1])


def dense(quick: bool) -> Data:
    """Two normal clouds, two standard deviations apart in one direction."""
    m, n, d = (500, 10_000, 100) if quick else (2_000, 100_000, 100)
    rng = np.random.default_rng(0)
    direction = rng.normal(size=d) / np.sqrt(d)
    X = rng.normal(size=(m + n, d))
    X[:m] += 2.0 * direction
    return X, np.r_[np.ones(m), -np.ones(n)]


def sparse(quick: bool) -> Data:
    """Like text: 50 words a row, frequent ones first, rows of norm 1, the highest noisy scores are positive."""
    m, n, d = (4_000, 10_000, 5_000) if quick else (20_000, 50_000, 20_000)
    rng = np.random.default_rng(0)
    frequency = 1.0 / np.arange(1, d + 1) ** 0.8
    words = rng.choice(d, size=(m + n, 50), p=frequency / frequency.sum())
    values = rng.exponential(size=words.shape) + 0.2
    X = sp.csr_array((values.ravel(), words.ravel(), np.arange(0, values.size + 1, 50)), shape=(m + n, d))
    X.sum_duplicates()
    X = sp.diags_array(1.0 / np.sqrt(X.power(2).sum(axis=1))) @ X
    scores = X @ rng.normal(size=d) + 0.5 * rng.normal(size=m + n)
    y = np.full(m + n, -1)
    y[np.argsort(-scores)[:m]] = 1
    return X.tocsr(), y


SETS: dict[str, Callable[[bool], Data | None]] = {
    "spambase": lambda _: spambase(lambda X: X),
    "spambase, standardised": lambda _: spambase(lambda X: (X - X.mean(axis=0)) / X.std(axis=0)),
    "spambase, log1p": lambda _: spambase(np.log1p),
    "dense": dense,
    "w8a": lambda _: read("w8a"),
    "sparse": sparse,
}


def make_problem(X: Any, y: np.ndarray, tau: float, reg: float) -> RankingProblem:
    positive, negative = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    return RankingProblem(as_operator(X), positive, negative, top_count(tau, len(negative)), reg)


def timed(solver: Newton | Accelerated, problem: RankingProblem) -> tuple[Result, float, float]:
    """The result, its seconds, and the gap recomputed from it."""
    began = time.perf_counter()
    result = solver.solve(problem)
    seconds = time.perf_counter() - began
    return result, seconds, problem.certify(result.coef, result.alpha, result.beta).gap


def until(result: Result, gap: float) -> float:
    """Seconds until the gap was reached; all of them if it was not."""
    return next((r.seconds for r in result.history if r.gap <= gap), result.history[-1].seconds)


def cells(name: str, data: Data, most_passes: float) -> Iterator[tuple[float, float, Result, Result]]:
    print(f"\n### {name}: {np.sum(data[1] > 0):,} + {np.sum(data[1] < 0):,} rows, {data[0].shape[1]:,} features\n")
    print("| tau | reg | newton, passes | s | gap | s to 1e-3 | accelerated, passes | s | gap | times faster |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for tau in TAUS:
        for reg in REGS:
            newton, seconds, gap = timed(Newton(tol=1e-6), make_problem(*data, tau, reg))
            slow = Accelerated(tol=COARSE, max_passes=most_passes)
            accelerated, slow_seconds, slow_gap = timed(slow, make_problem(*data, tau, reg))
            ratio = until(accelerated, COARSE) / until(newton, COARSE)
            print(
                f"| {tau:g} | {reg:g} | {newton.n_passes:.0f} | {seconds:.2f} | {gap:.1e} | {until(newton, COARSE):.2f}"
                f" | {accelerated.n_passes:.0f} | {slow_seconds:.2f} | {slow_gap:.1e} | {ratio:.0f} |",
                flush=True,
            )
            yield tau, reg, newton, accelerated


def draw(name: str, rows: list[tuple[float, float, Result, Result]], folder: Path) -> None:
    figure, axes = plt.subplots(2, len(TAUS), figsize=(12, 6), sharey=True, layout="constrained")
    for column, tau in enumerate(TAUS):
        for color, (_, reg, *results) in enumerate(row for row in rows if row[0] == tau):
            for result, style in zip(results, ("-", ":"), strict=True):
                gaps = [max(r.gap, 1e-9) for r in result.history]
                label = f"reg {reg:g}" if style == "-" else None
                for axis, key in zip(axes[:, column], ("n_passes", "seconds"), strict=True):
                    along = [max(getattr(r, key), 1e-4) for r in result.history]
                    axis.loglog(along, gaps, style, color=f"C{color}", label=label)
        axes[0, column].set(title=f"tau {tau:g}", xlabel="passes over the data")
        axes[1, column].set(xlabel="seconds")
    axes[0, 0].legend()
    for axis in axes[:, 0]:
        axis.set_ylabel("relative gap")
    figure.suptitle(f"{name}: newton (solid), accelerated (dotted)")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"solvers_{name.replace(', ', '_')}.png", dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sets and at most 300 passes")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "figures")
    arguments = parser.parse_args()

    passes: dict[str, list[float]] = {}
    ratios: list[float] = []
    timed(Newton(), make_problem(*dense(True), 0.1, 1e-1))  # warm-up
    for name in arguments.sets:
        data = SETS[name](arguments.quick)
        if data is None:
            print(f"\n{name}: skipped, its file is not in the folder that TAUFPL_DATA names.")
            continue
        rows = list(cells(name, data, 300 if arguments.quick else 5_000))
        draw(name, rows, arguments.folder)
        passes[name] = [newton.n_passes if newton.converged else np.inf for _, _, newton, _ in rows]
        ratios += [until(slow, COARSE) / until(newton, COARSE) for _, _, newton, slow in rows]

    if not passes:
        return
    print("\n### Newton: passes to a gap of 1e-6\n\n| set | least | median | most |\n|---|---|---|---|")
    for name, counts in passes.items():
        print(f"| {name} | {min(counts):.0f} | {np.median(counts):.0f} | {max(counts):.0f} |")
    limit = ", which had only 300 passes here" if arguments.quick else ""
    print(f"\nMedian over all cells, times faster to a gap of 1e-3 than accelerated{limit}: {np.median(ratios):.0f}.")


if __name__ == "__main__":
    main()
