"""Tables and the figure of `screening.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from recall_data import short, standard_error

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TAUS = (0.001, 0.01, 0.05)
REFERENCE, AUTOGLUON = "LightGBM, tuned and bagged", "AutoGluon"
GUARANTEED = "np: "
EFFORTS = ("fast", "normal", "best")
Cells = dict[str, list[int]]


@dataclass(frozen=True)
class Results:
    """Records by set, number of the split and method."""

    records: dict[tuple[str, int, str], dict[str, Any]]

    def methods(self, *, guaranteed: bool) -> list[str]:
        found = dict.fromkeys(method for _, _, method in self.records)
        return [method for method in found if method.startswith(GUARANTEED) == guaranteed]

    def cells(self, *methods: str) -> Cells:
        """The sets, and their splits, on which every one of these methods has run."""
        cells: Cells = {}
        for name, number in dict.fromkeys((name, number) for name, number, _ in self.records):
            if all((name, number, method) in self.records for method in methods):
                cells.setdefault(name, []).append(number)
        return cells

    def means(self, key: str, method: str, cells: Cells) -> np.ndarray:
        """Means over the splits of what the records have under a key, a row a set."""
        return np.array(
            [
                np.mean([self.records[name, number, method][key] for number in own], axis=0)
                for name, own in cells.items()
            ]
        )


def percent(tau: float) -> str:
    return f"{100 * tau:g} %"


def signed(value: float, error: float) -> str:
    return f"{value:+.3f} ± {error:.3f}".replace("0.", ".")


def sizes(cells: Cells) -> str:
    n_splits = sum(len(splits) for splits in cells.values())
    return f"{len(cells)} sets, {n_splits} splits in all"


def print_comparison(results: Results, methods: Sequence[str], rival: str, title: str) -> None:
    """Mean recalls, differences to a rival with standard errors over the sets, and ratios of processor seconds."""
    cells = results.cells(rival)
    print(f"\n### {title}: {sizes(cells)}\n")
    columns = [percent(tau) for tau in TAUS]
    print(f"| | {' | '.join(columns)} | {' | '.join(f'{c}, difference' for c in columns)} | CPU | median | most |")
    print("|---" * (2 * len(TAUS) + 4) + "|")
    base, cost = (results.means(key, rival, cells) for key in ("recall", "seconds"))
    for method in methods:
        own, seconds = (results.means(key, method, cells) for key in ("recall", "seconds"))
        differences = [signed(float(d.mean()), standard_error(d)) for d in (own - base).T]
        ratios = [seconds.sum() / cost.sum(), np.median(seconds / cost), np.max(seconds / cost)]
        row = [*map(short, own.mean(axis=0)), *(["-"] * len(TAUS) if method == rival else differences)]
        print(f"| {method} | {' | '.join(row)} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")
    print(f"\nCPU: processor seconds of fit over those of {rival} ({cost.sum():.0f} s): of all sets, median and most.")


def print_sets(results: Results, methods: Sequence[str]) -> None:
    print(f"\n### Recall at {', '.join(map(percent, TAUS))}, set by set\n")
    print(f"| | {' | '.join(methods)} |\n" + "|---" * (len(methods) + 1) + "|")
    for name in results.cells():
        row = []
        for method in methods:
            own = {key: splits for key, splits in results.cells(method).items() if key == name}
            row.append(" ".join(map(short, results.means("recall", method, own)[0])) if own else "-")
        print(f"| {name.removeprefix('table_')} | {' | '.join(row)} |")


def print_guaranteed(results: Results) -> None:
    """What is left under the guarantee, on the splits that all have and where the negatives suffice for it."""
    methods = results.methods(guaranteed=True)
    rankings = [method.removeprefix(GUARANTEED) for method in methods]
    cells = results.cells(*methods, *rankings)
    if not methods or not cells:
        return
    print(f"\n### Under the guarantee, threshold chosen on training rows, rates on test rows: {sizes(cells)}\n")
    print("| | tau | runs | recall | without guarantee | FPR / tau, mean | runs with FPR > tau |\n" + "|---" * 7 + "|")
    for method, ranking in zip(methods, rankings, strict=True):
        for place, tau in enumerate(TAUS):
            pairs = [
                (results.records[name, number, method], results.records[name, number, ranking])
                for name, splits in cells.items()
                for number in splits
            ]
            runs = [(own["recall"][place], own["fpr"][place], free["recall"][place]) for own, free in pairs]
            runs = [run for run in runs if run[0] is not None]
            if runs:
                recalls, rates, free = np.array(runs).T
                shown = f"{short(recalls.mean())} | {short(free.mean())} | {rates.mean() / tau:.2f}"
                print(f"| {ranking} | {percent(tau)} | {len(runs)} | {shown} | {int((rates > tau).sum())} |")


def covering(results: Results, base: str) -> list[str]:
    """The rankings that have run wherever this one has."""
    wanted = results.cells(base)
    return [method for method in results.methods(guaranteed=False) if results.cells(method, base) == wanted]


def print_tables(results: Results) -> None:
    ranking = results.methods(guaranteed=False)
    for rival in (REFERENCE, AUTOGLUON):
        if rival in ranking:
            print_comparison(results, covering(results, rival), rival, f"Rankings, against {rival}")
    print_guaranteed(results)
    print_sets(results, ranking)


def draw(results: Results, folder: Path) -> None:
    """Differences to the reference with standard errors, and cost against mean recall."""
    methods, cells = covering(results, REFERENCE), results.cells(REFERENCE)
    if REFERENCE not in methods:
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    base, cost = (results.means(key, REFERENCE, cells) for key in ("recall", "seconds"))
    rows = [method for method in methods if method.startswith(EFFORTS)]
    for place, tau in enumerate(TAUS):
        columns = [(results.means("recall", method, cells) - base)[:, place] for method in rows]
        heights = np.arange(len(rows)) + 0.2 * (place - 1)
        means, errors = [c.mean() for c in columns], [standard_error(c) for c in columns]
        left.errorbar(means, heights, xerr=errors, fmt="o", ms=5, color=f"C{place}", label=f"tau {percent(tau)}")
    left.axvline(0.0, color="grey", lw=1)
    left.set_yticks(range(len(rows)), rows)
    left.invert_yaxis()
    left.set(xlabel=f"recall less that of {REFERENCE}", title=f"Mean over {len(cells)} sets, standard errors")
    figure.legend(loc="outside upper center", ncols=len(TAUS))
    for method in (REFERENCE, *rows):
        ratio = float(np.median(results.means("seconds", method, cells) / cost))
        own = float(results.means("recall", method, cells).mean())
        right.semilogx(ratio, own, "o", color="black" if method == REFERENCE else "C3")
        right.annotate(method, (ratio, own), xytext=(0, 7), ha="center", textcoords="offset points", fontsize=8)
    right.set(
        xlabel=f"median ratio of processor seconds to {REFERENCE}",
        ylabel="mean recall at the three tolerances",
    )
    right.set_title("Cost and recall")
    right.margins(x=0.2, y=0.15)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "screening.png", dpi=120)
    plt.close(figure)
