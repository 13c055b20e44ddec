"""Time of a fit against rows: tau-FPL on data that are repeated up to 32 times, and every method's growth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taufpl.baselines import (
    BiasShiftedSVM,
    CostSensitiveLogisticRegression,
    CostSensitiveSVM,
    PartialAUCSVM,
    RankSVM,
    TopPush,
)
from taufpl.datasets import upsample
from taufpl.estimators import TauFPLRanker
from taufpl.experiments._data import Data, read
from taufpl.experiments._store import write_text
from taufpl.experiments._tables import markdown, percent
from taufpl.experiments._tasks import Row, Settings, Task, joined, noted
from taufpl.experiments._timing import seconds, slope

COLUMNS = ("dataset", "method", "round", "n", "tau", "seconds", "n_iter", "note")

# How often the rows are repeated; the paper goes up to 32.
FACTORS = (1, 2, 4, 8, 16, 32)
QUICK_FACTORS = (1, 2)
# The rivals are followed over a shorter range: some of them take minutes beyond it.
_RIVAL_FACTORS = (1, 2, 4, 8)
TAUS = (0.001, 0.01, 0.05)
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
_OURS = {f"tau-FPL, tau = {percent(tau)}": tau for tau in TAUS}
METHODS = (*_OURS, *_RIVALS)


def tasks(datasets: Sequence[str], methods: Sequence[str], factors: Sequence[int]) -> list[Task]:
    """One task a method and a number of repetitions, which stands in the place of a round."""
    return [
        Task(dataset, method, factor, 1)
        for dataset in datasets
        for method in methods
        for factor in factors
        if method in _OURS or factor in _RIVAL_FACTORS
    ]


def run(task: Task, settings: Settings) -> list[Row]:
    """One fit at reg = .01, to the method's own tolerance; the least of several times where it is short."""
    data = _repeated(read(task.dataset), task.round, settings.seed)
    model = TauFPLRanker(_OURS[task.method], _REG) if task.method in _OURS else _RIVALS[task.method]()
    with noted() as notes:
        taken = seconds(lambda: model.fit(data.X, data.y), budget=2.0, most=5)
    row = {
        "dataset": task.dataset,
        "method": task.method,
        "round": task.round,
        "n": data.y.size,
        "tau": _OURS.get(task.method, _TAU),
        "seconds": taken,
        "n_iter": int(np.max(model.n_iter_)),
        "note": joined(notes),
    }
    return [row]


def _repeated(data: Data, factor: int, seed: int) -> Data:
    return data if factor == 1 else Data(*upsample(data.X, data.y, factor, random_state=seed))


def write(rows: Sequence[Row], folder: Path, command: str) -> list[Path]:
    """Write ``table.md`` and a picture of each dataset."""
    from taufpl.experiments._plots import draw_times

    text = [
        "# Scaling: seconds of one fit against rows",
        f"    {command}",
        "Rows are repeated, as in the paper, so that the best reg stays what it was. reg = .01; rivals at tau = 1 % "
        "where they have a tolerance. Each method stops by its own criterion, so that columns may not be compared "
        "line by line: what counts is the slope.",
    ]
    paths = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        series: dict[str, list[tuple[float, float]]] = defaultdict(list)
        notes: dict[str, str] = {}
        for row in rows:
            if row["dataset"] == dataset:
                series[row["method"]].append((float(row["n"]), float(row["seconds"])))
                notes[row["method"]] = notes.get(row["method"], "") or row["note"]
        text += [f"## {dataset}", _table(series, notes)]
        paths.append(draw_times(dict(series), f"One fit on {dataset}, repeated", "rows", folder / f"{dataset}.png"))
    write_text(folder / "table.md", "\n\n".join(text) + "\n")
    return [folder / "table.md", *paths]


def _table(series: dict[str, list[tuple[float, float]]], notes: dict[str, str]) -> str:
    sizes = sorted({size for points in series.values() for size, _ in points})
    lines = []
    for method, points in series.items():
        times = dict(points)
        line = [method, *(f"{times[n]:.3g}" if n in times else "–" for n in sizes)]
        lines.append([*line, f"{slope(points):.2f}", notes[method]])
    return markdown(["method", *(f"{int(n):,} rows" for n in sizes), "slope", "note"], lines)
