"""The paper's figures of projections: time against size, for the top-k simplex and the top-k cone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from taufpl.baselines import projection as peers
from taufpl.experiments._store import write_text
from taufpl.experiments._tables import markdown
from taufpl.experiments._tasks import Row, Settings, Task
from taufpl.experiments._timing import seconds, slope
from taufpl.projection import project_topk_cone, project_topk_simplex

COLUMNS = ("dataset", "method", "round", "n", "k", "seconds")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = SIZES[:2]
# The paper's own method stands beside its two rivals: "simplex" is projected with ibis, "cone" with PTkC.
METHODS = ("taufpl", "ibis", "ibis, pruned", "PTkC", "sorting")
_SHARE = 0.1
# PTkC searches over pairs of counts: at 10^6 entries and this share it would take minutes a call.
_MOST_FOR_PTKC = 100_000

_Pair = Callable[[np.ndarray, np.ndarray, int], object]
_Cone = Callable[[np.ndarray, int], object]
_PAIR: dict[str, _Pair] = {
    "taufpl": project_topk_simplex,
    "ibis": peers.ibis,
    "ibis, pruned": lambda alpha, beta, k: peers.ibis(alpha, beta, k, prune=True),
    "sorting": peers.sort_based,
}
_CONE: dict[str, _Cone] = {"taufpl": project_topk_cone, "PTkC": peers.ptkc, "sorting": peers.sort_based_cone}
SETS = ("simplex", "cone")


def tasks(sets: Sequence[str], methods: Sequence[str], sizes: Sequence[int]) -> list[Task]:
    """One task a set, a method and a size; its size stands in the place of a round."""
    able = {"simplex": set(_PAIR), "cone": set(_CONE)}
    return [
        Task(name, method, n, 2)
        for name in sets
        for method in methods
        if method in able[name]
        for n in sizes
        if method != "PTkC" or n <= _MOST_FOR_PTKC
    ]


def run(task: Task, settings: Settings) -> list[Row]:
    """Normal entries, as in the paper; k = 1 and a tenth of the entries."""
    n = task.round
    rng = np.random.default_rng((settings.seed, n))
    alpha, beta = rng.normal(size=n), rng.normal(size=n)
    # Shifted to the left for the cone: else hardly an entry is at its cap, and PTkC's search ends at once.
    shifted = beta - 1.0
    rows = []
    for k in (1, max(2, int(_SHARE * n))):
        if task.dataset == "simplex":
            taken = seconds(partial(_PAIR[task.method], alpha, beta, k))
        else:
            taken = seconds(partial(_CONE[task.method], shifted, k))
        rows.append({"dataset": task.dataset, "method": task.method, "round": n, "n": n, "k": k, "seconds": taken})
    return rows


def write(rows: Sequence[Row], folder: Path, command: str) -> list[Path]:
    """Write ``table.md`` and a picture of each set."""
    from taufpl.experiments._plots import draw_times

    text = ["# Projections: time against size", f"    {command}"]
    paths = []
    for name in SETS:
        series: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for row in rows:
            if row["dataset"] == name:
                label = f"{row['method']}, k = {'1' if row['k'] == '1' else 'n/10'}"
                series[label].append((float(row["n"]), float(row["seconds"])))
        if series:
            text += [f"## On the top-k {name}, normal entries (seconds)", _table(series)]
            title = f"Projection on the top-k {name}"
            paths.append(draw_times(dict(series), title, "entries", folder / f"{name}.png"))
    write_text(folder / "table.md", "\n\n".join(text) + "\n")
    return [folder / "table.md", *paths]


def _table(series: dict[str, list[tuple[float, float]]]) -> str:
    sizes = sorted({size for points in series.values() for size, _ in points})
    lines = []
    for label, points in series.items():
        times = dict(points)
        lines.append([label, *(f"{times[n]:.2e}" if n in times else "–" for n in sizes), f"{slope(points):.2f}"])
    return markdown(["method", *(f"n = {int(n):,}" for n in sizes), "slope"], lines)
