"""The experiments that measure time: projections against their size, and fits against the number of rows."""

from __future__ import annotations

import timeit
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from taufpl.datasets import upsample
from taufpl.estimators import TauFPLRanker
from taufpl.paper import _published_projections as published
from taufpl.paper._linear_baselines import BiasShiftedSVM, CostSensitiveLogisticRegression, CostSensitiveSVM
from taufpl.paper._partial_auc import PartialAUCSVM
from taufpl.paper._protocol import (
    Row,
    RunSettings,
    Trial,
    joined,
    legend,
    markdown,
    noted,
    panels,
    percent,
    read_dataset,
    save_picture,
    write_table,
)
from taufpl.paper._ranking_baselines import RankSVM, TopPush
from taufpl.plotting.style import CYCLE, GREY, tidy
from taufpl.projection import project_topk_cone, project_topk_simplex

# Projections: on the simplex the paper's method has ibis as its rival, on the cone PTkC.
PROJECTIONS: dict[str, dict[str, Callable[..., object]]] = {
    "simplex": {
        "taufpl": project_topk_simplex,
        "ibis": published.ibis,
        "ibis, pruned": partial(published.ibis, prune=True),
        "sorting": published.sort_based,
    },
    "cone": {"taufpl": project_topk_cone, "PTkC": published.ptkc, "sorting": published.sort_based_cone},
}
PROJECTION_METHODS = ("taufpl", "ibis", "ibis, pruned", "PTkC", "sorting")
PROJECTION_COLUMNS = ("n", "k", "seconds")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
_SHARE = 0.1
# PTkC searches over pairs of counts: at 10^6 entries and this share it would take minutes a call.
_MOST_FOR_PTKC = 100_000

# Fits: how often the rows are repeated; the paper goes up to 32. The rivals are followed over a shorter range, since
# some of them take minutes beyond it.
FACTORS = (1, 2, 4, 8, 16, 32)
_RIVAL_FACTORS = (1, 2, 4, 8)
_TAU, _REG = 0.01, 1e-2
_RIVALS: dict[str, Callable[[], Any]] = {
    "TopPush": lambda: TopPush(_REG),
    "tau-FPL, 200 steps of the paper's solver": lambda: TauFPLRanker(_TAU, _REG, solver="accelerated", max_iter=200),
    "CS-SVM": lambda: CostSensitiveSVM(_REG),
    "CS-LR": lambda: CostSensitiveLogisticRegression(_REG),
    "BS-SVM": lambda: BiasShiftedSVM(_TAU, _REG),
    "SVM-pAUC-tight": lambda: PartialAUCSVM(_TAU, _REG),
    "RankSVM": lambda: RankSVM(_REG),
}
_OURS = {f"tau-FPL, tau = {percent(tau)}": tau for tau in (0.001, 0.01, 0.05)}
SCALING_METHODS = (*_OURS, *_RIVALS)
SCALING_COLUMNS = ("n", "tau", "seconds", "n_iter", "note")


def plan_projections(sets: Sequence[str], methods: Sequence[str], rounds: int | None, quick: bool) -> list[Trial]:
    """One trial a set, a method and a size, which stands in the place of a round."""
    del rounds
    return [
        Trial(name, method, n, 2)
        for name in sets
        for method in methods
        if method in PROJECTIONS[name]
        for n in (SIZES[:2] if quick else SIZES)
        if method != "PTkC" or n <= _MOST_FOR_PTKC
    ]


def run_projection(trial: Trial, settings: RunSettings) -> list[Row]:
    """Normal entries, as in the paper; k = 1 and a tenth of the entries."""
    n = trial.round
    rng = np.random.default_rng((settings.seed, n))
    alpha, beta = rng.normal(size=n), rng.normal(size=n)
    # Shifted to the left for the cone: else hardly an entry is at its cap, and PTkC's search ends at once.
    point = (alpha, beta) if trial.dataset == "simplex" else (beta - 1.0,)
    project = PROJECTIONS[trial.dataset][trial.method]
    return [{"n": n, "k": k, "seconds": seconds(partial(project, *point, k))} for k in (1, max(2, int(_SHARE * n)))]


def plan_fits(datasets: Sequence[str], methods: Sequence[str], rounds: int | None, quick: bool) -> list[Trial]:
    """One trial a method and a number of repetitions, which stands in the place of a round."""
    return [
        Trial(dataset, method, factor, 1)
        for dataset in datasets
        for method in methods
        for factor in (FACTORS[:2] if quick else FACTORS)[:rounds]
        if method in _OURS or factor in _RIVAL_FACTORS
    ]


def run_fit(trial: Trial, settings: RunSettings) -> list[Row]:
    """One fit at reg = .01, to the method's own tolerance; the least of several times where it is short."""
    X, y = read_dataset(trial.dataset)
    if trial.round > 1:
        X, y = upsample(X, y, trial.round, random_state=settings.seed)
    tau = _OURS.get(trial.method, _TAU)
    model = TauFPLRanker(tau, _REG) if trial.method in _OURS else _RIVALS[trial.method]()
    with noted() as notes:
        taken = seconds(lambda: model.fit(X, y), budget=2.0, most=5)
    n_iter = int(np.max(model.n_iter_))
    return [{"n": y.size, "tau": tau, "seconds": taken, "n_iter": n_iter, "note": joined(notes)}]


def seconds(call: Callable[[], object], *, budget: float = 1.0, most: int = 15) -> float:
    """The least time of several calls: as many as fit into a budget, one at least."""
    first = timeit.timeit(call, number=1)
    again = min(most - 1, int(budget / first))
    return min([first, *timeit.repeat(call, number=1, repeat=again)])


def slope(points: Iterable[tuple[float, float]]) -> float:
    """Exponent of the power of size that time grows by, by least squares in log-log; NaN for fewer than two sizes."""
    size, time_taken = (np.log(part) for part in np.array(sorted(points), dtype=np.float64).reshape(-1, 2).T)
    return float(np.polyfit(size, time_taken, 1)[0]) if np.unique(size).size > 1 else float("nan")


@dataclass(frozen=True, slots=True)
class TimesReport:
    """The texts of a report of times; those with braces are formatted with a dataset, or with a size."""

    opening: tuple[str, ...]
    section: str
    size: str
    digits: str
    picture: str
    unit: str

    def write(self, rows: Sequence[Row], folder: Path, command: str) -> list[Path]:
        """Write ``table.md`` and a picture of each dataset."""
        text, paths = [self.opening[0], f"    {command}", *self.opening[1:]], []
        for dataset in dict.fromkeys(row["dataset"] for row in rows):
            series: dict[str, list[tuple[float, float]]] = defaultdict(list)
            notes: dict[str, str] = {}
            for row in rows:
                if row["dataset"] == dataset:
                    k = f", k = {'1' if row['k'] == '1' else 'n/10'}" if "k" in row else ""
                    series[row["method"] + k].append((float(row["n"]), float(row["seconds"])))
                    if "note" in row:
                        notes[row["method"]] = notes.get(row["method"], "") or row["note"]
            text += [self.section.format(dataset), self._table(series, notes)]
            path = folder / f"{dataset}.png"
            paths.append(draw_times(series, self.picture.format(dataset), self.unit, path))
        return [write_table(folder, *text), *paths]

    def _table(self, series: dict[str, list[tuple[float, float]]], notes: dict[str, str]) -> str:
        sizes = sorted({size for points in series.values() for size, _ in points})
        lines = []
        for label, points in series.items():
            times = dict(points)
            line = [label, *(f"{times[n]:{self.digits}}" if n in times else "–" for n in sizes), f"{slope(points):.2f}"]
            lines.append([*line, notes[label]] if notes else line)
        head = ["method", *(self.size.format(int(n)) for n in sizes), "slope"]
        return markdown([*head, "note"] if notes else head, lines)


def draw_times(series: Mapping[str, list[tuple[float, float]]], title: str, unit: str, path: Path) -> Path:
    """Seconds against size in log-log, with a line of slope 1 to compare with."""
    figure, [ax] = panels(1, width=7.5, height=6.0)
    for number, (label, points) in enumerate(series.items()):
        colour, dashes = CYCLE[number % len(CYCLE)], ("-", "--")[number // len(CYCLE) % 2]
        ax.loglog(*zip(*sorted(points), strict=True), dashes, marker="o", markersize=4, color=colour, label=label)
    first = min(point for points in series.values() for point in points)
    last = max(point[0] for points in series.values() for point in points)
    ax.loglog([first[0], last], [first[1] / 2, first[1] / 2 * last / first[0]], ":", color=GREY, label="slope 1")
    ax.set(xlabel=unit, ylabel="seconds", title=title)
    tidy(ax)
    legend(figure, ax, columns=3)
    return save_picture(figure, path)


PROJECTION_REPORT = TimesReport(
    opening=("# Projections: time against size",),
    section="## On the top-k {}, normal entries (seconds)",
    size="n = {:,}",
    digits=".2e",
    picture="Projection on the top-k {}",
    unit="entries",
)
SCALING_REPORT = TimesReport(
    opening=(
        "# Scaling: seconds of one fit against rows",
        "Rows are repeated, as in the paper, so that the best reg stays what it was. reg = .01; rivals at tau = 1 % "
        "where they have a tolerance. Each method stops by its own criterion, so that columns may not be compared "
        "line by line: what counts is the slope.",
    ),
    section="## {}",
    size="{:,} rows",
    digits=".3g",
    picture="One fit on {}, repeated",
    unit="rows",
)
