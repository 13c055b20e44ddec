"""The projection against a copy of its vectors and against its peers, in one run on one machine.

    python benchmarks/projection.py [--quick] [--folder benchmarks/figures]

Times are the best of several calls with every buffer allocated beforehand, so that all methods are compared on their
work and not on page faults. Prints Markdown tables and writes the figures as PNG.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import matplotlib
import numpy as np

from taufpl._kernels import _projection as kernels, _projection_peers as peers
from taufpl.baselines.projection import bisection, ibis, ptkc, sort_based, sort_based_cone
from taufpl.projection import project_topk_cone, project_topk_simplex

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SHARES = {"1": lambda n: 1, "n/1000": lambda n: n // 1000, "n/100": lambda n: n // 100, "n/10": lambda n: n // 10,
          "n/2": lambda n: n // 2}  # fmt: skip

DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "heavy-tailed (Cauchy)": lambda rng, n: rng.standard_cauchy(size=n),
    "clustered (10 values)": lambda rng, n: rng.integers(0, 10, size=n).astype(float),
}


def best_of(call: Callable[[], object], budget: float = 0.4, least: int = 5) -> float:
    """Seconds of the fastest call, over at least `least` calls and about `budget` seconds."""
    call()
    times: list[float] = []
    while len(times) < least or (sum(times) < budget and len(times) < 2000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


class Case:
    """One pair of vectors, with buffers, the time to copy them, and a guess close to their answer."""

    def __init__(self, name: str, n: int, k: int) -> None:
        rng = np.random.default_rng([n, k])
        self.k = k
        self.alpha, self.beta = DISTRIBUTIONS[name](rng, n), DISTRIBUTIONS[name](rng, n)
        self.out = np.zeros(n), np.zeros(n)
        *_, self.guess = project_topk_simplex(self.alpha, self.beta, k, return_thresholds=True)

    def copy(self) -> None:
        np.copyto(self.out[0], self.alpha)
        np.copyto(self.out[1], self.beta)

    def cold(self) -> None:
        project_topk_simplex(self.alpha, self.beta, self.k, out=self.out)

    def warm(self) -> None:
        project_topk_simplex(self.alpha, self.beta, self.k, out=self.out, guess=self.guess)

    def ibis(self) -> None:
        ibis(self.alpha, self.beta, self.k, out=self.out)

    def ibis_pruned(self) -> None:
        ibis(self.alpha, self.beta, self.k, out=self.out, prune=True)

    def ibis_scalar(self) -> None:
        """One entry at a time, as it was published."""
        peers.use_vector_loops(False)
        try:
            self.ibis()
        finally:
            peers.use_vector_loops(True)

    def bisection(self) -> None:
        bisection(self.alpha, self.beta, self.k, out=self.out)

    def sorting(self) -> None:
        sort_based(self.alpha, self.beta, self.k)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    head = list(head)
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def against_a_copy(n: int) -> None:
    print(f"### Against a copy of both vectors, n = m = {n:,} (times the copy; cold / with the last answer as guess)\n")
    rows = []
    for name in DISTRIBUTIONS:
        cells = []
        for share in SHARES.values():
            case = Case(name, n, share(n))
            copy, cold, warm = best_of(case.copy), best_of(case.cold), best_of(case.warm)
            cells.append(f"{cold / copy:.1f} / {warm / copy:.1f}")
        rows.append([name, *cells])
    table(["entries", *(f"k = {name}" for name in SHARES)], rows)


def by_entries(sizes: list[int], folder: Path) -> None:
    print("### By entries and n, k = n/100 (times a copy of both vectors; cold / guess)\n")
    rows, curves = [], {}
    for name in DISTRIBUTIONS:
        cells = []
        for n in sizes:
            case = Case(name, n, max(1, n // 100))
            copy, cold, warm = (best_of(call, budget=0.2) for call in (case.copy, case.cold, case.warm))
            cells.append(f"{cold / copy:.1f} / {warm / copy:.1f}")
            curves.setdefault(f"{name}, cold", []).append(cold)
            curves.setdefault(f"{name}, guess", []).append(warm)
            if name == "normal":
                curves.setdefault("copy", []).append(copy)
        rows.append([name, *cells])
    table(["entries", *(f"n = m = {n:,}" for n in sizes)], rows)
    draw(folder / "projection_entries.png", sizes, curves, "Projection on the top-k simplex, k = n/100")


def by_instruction_set(n: int) -> None:
    print(f"### By instruction set, normal entries, n = m = {n:,}, k = n/100 (times the copy; cold / guess)\n")
    before, rows = kernels.instruction_set(), []
    for name in reversed(kernels.instruction_sets()):
        kernels.use_instruction_set(name)
        case = Case("normal", n, n // 100)
        copy = best_of(case.copy)
        rows.append([name, f"{best_of(case.cold) / copy:.1f} / {best_of(case.warm) / copy:.1f}"])
    kernels.use_instruction_set(before)
    table(["instruction set", "times the copy"], rows)


def against_ibis(sizes: list[int], folder: Path) -> None:
    print("### Against ibis and the other pair methods, normal entries (their time over ours, cold)\n")
    methods = {
        "ibis, as published": Case.ibis_scalar,
        "ibis, vectorised": Case.ibis,
        "ibis, vectorised and pruned": Case.ibis_pruned,
        "the paper's bisection, vectorised": Case.bisection,
        "sorting": Case.sorting,
    }
    rows, curves = [], {name: [] for name in ("taufpl", "copy", *methods)}
    for n in sizes:
        for label in ("1", "n/100", "n/2"):
            case = Case("normal", n, max(1, SHARES[label](n)))
            ours = best_of(case.cold)
            times = {name: best_of(lambda m=m, c=case: m(c), budget=0.2, least=2) for name, m in methods.items()}
            rows.append([f"{n:,}", label, f"{1e3 * ours:.3g}", *(f"{t / ours:.1f}" for t in times.values())])
            if label == "n/100":
                curves["taufpl"].append(ours)
                curves["copy"].append(best_of(case.copy))
                for name, seconds in times.items():
                    curves[name].append(seconds)
    table(["n = m", "k", "taufpl, ms", *methods], rows)
    draw(folder / "projection_ibis.png", sizes, curves, "Projection on the top-k simplex, k = n/100")


def against_ptkc(sizes: list[int], folder: Path) -> None:
    print("### Against PTkC and cvqp on the top-k cone, normal entries (their time over ours)\n")
    rows, curves = [], {}
    for n in sizes:
        for label in ("n/100", "n/10", "n/2"):
            k = SHARES[label](n)
            for shift in (0, -1):
                beta, out = np.random.default_rng(n).normal(size=n) + shift, np.zeros(n)
                ours = best_of(lambda b=beta, k=k, o=out: project_topk_cone(b, k, out=o))
                times = cone_peers(beta, k, n)
                cells = [f"{t / ours:,.0f}" if t else "-" for t in times]
                capped = int((out >= out.sum() / k * (1 - 1e-12)).sum())
                rows.append([f"{n:,}", label, f"N({shift}, 1)", f"{capped:,}", f"{1e3 * ours:.3g}", *cells])
                if shift == -1:
                    curves.setdefault(f"taufpl, k = {label}", []).append(ours)
                    curves.setdefault(f"PTkC, k = {label}", []).append(times[0] or np.nan)
    table(["n", "k", "entries", "at the cap", "taufpl, ms", "PTkC", "sorting", "cvqp"], rows)
    draw(folder / "projection_ptkc.png", sizes, curves, "Projection on the top-k cone, entries N(-1, 1)")


def cone_peers(beta: np.ndarray, k: int, n: int) -> list[float | None]:
    """PTkC up to 10^5 entries (its search is quadratic), sorting, and cvqp where it is installed."""
    times: list[float | None] = [best_of(lambda: ptkc(beta, k), budget=0.1, least=1) if n <= 100_000 else None]
    times.append(best_of(lambda: sort_based_cone(beta, k), budget=0.1, least=2))
    try:
        from cvqp import proj_sum_largest
    except ImportError:
        return [*times, None]
    mine = project_topk_cone(beta, k)
    theirs = beta - proj_sum_largest(beta, k, 0.0)  # Moreau: what is left of the polar cone
    np.testing.assert_allclose(mine, theirs, atol=1e-6 * beta.max())
    return [*times, best_of(lambda: proj_sum_largest(beta, k, 0.0), budget=0.1, least=2)]


def slope(sizes: list[int]) -> None:
    print("### Time against n: slope in log-log between 10^5 and 10^7, normal entries\n")
    rows = []
    for label in ("1", "n/100", "n/2"):
        cases = [Case("normal", n, SHARES[label](n)) for n in sizes]
        fits = [np.polyfit(np.log(sizes), np.log([best_of(m(c)) for c in cases]), 1)[0] for m in
                (lambda c: c.cold, lambda c: c.warm, lambda c: c.copy)]  # fmt: skip
        rows.append([label, *(f"{fit:.2f}" for fit in fits)])
    table(["k", "cold", "guess", "plain copy"], rows)


def overhead() -> None:
    print("### Small vectors: one call, all of it (microseconds)\n")
    rows = []
    for n in (1, 10, 100, 1000, 10_000):
        rng = np.random.default_rng(n)
        alpha, beta, k = rng.normal(size=n), rng.normal(size=n), max(1, n // 10)
        ours = best_of(lambda a=alpha, b=beta, k=k: project_topk_simplex(a, b, k))
        sorting = best_of(lambda a=alpha, b=beta, k=k: sort_based(a, b, k))
        rows.append([f"{n:,}", f"{1e6 * ours:.0f}", f"{1e6 * sorting:.0f}"])
    table(["n = m", "taufpl", "sorting"], rows)


def draw(path: Path, sizes: list[int], curves: dict[str, list[float]], title: str) -> None:
    """Ours thick, the others thin; curves for the same k, or the same entries, share a colour."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    colours: dict[str, str] = {}
    for name, seconds in curves.items():
        ours, group = name.startswith("taufpl") or name.endswith("cold"), name.rpartition("k = ")[2].partition(", ")[0]
        colours.setdefault(group, f"C{len(colours)}")
        style = {"linewidth": 2.5, "linestyle": "-"} if ours else {"linewidth": 1.2, "linestyle": "--"}
        times = 1e3 * np.array(seconds)
        axes.loglog(sizes[: len(times)], times, marker="o", markersize=4, label=name, color=colours[group], **style)
    axes.set(xlabel="entries", ylabel="milliseconds", title=title)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"figure: {path.name}\n", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to 10^4 entries only")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "figures")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    largest = 4 if arguments.quick else 7
    print(f"Instruction set: {kernels.instruction_set()}; NumPy {np.__version__}.\n")
    overhead()
    against_a_copy(10 ** min(largest, 6))
    by_instruction_set(10 ** min(largest, 6))
    by_entries([10**e for e in range(3, largest + 1)], arguments.folder)
    if not arguments.quick:
        slope([10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7])
    against_ibis([10**e for e in range(3, largest + 1)], arguments.folder)
    against_ptkc([10**e for e in range(3, largest + 1)], arguments.folder)


if __name__ == "__main__":
    main()
