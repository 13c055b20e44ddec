"""From rounds to cells, means and standard errors, and from cells to Markdown."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from taufpl.experiments import _paper
from taufpl.experiments._trials import Row, write_text

CellKey = tuple[str, float, str]  # dataset, tau, method


class Mean(NamedTuple):
    """A mean over rounds with its standard error, NaN for a single round."""

    value: float
    error: float


def mean(values: Iterable[float]) -> Mean:
    """The mean of some figures."""
    figures = np.array(list(values), dtype=np.float64)
    error = float(figures.std(ddof=1) / math.sqrt(figures.size)) if figures.size > 1 else math.nan
    return Mean(float(figures.mean()), error)


def by_cell(rows: Iterable[Row]) -> dict[CellKey, list[Row]]:
    """Rows of all rounds, by dataset, tolerance and method."""
    cells: dict[CellKey, list[Row]] = defaultdict(list)
    for row in rows:
        cells[row["dataset"], float(row["tau"]), row["method"]].append(row)
    return dict(cells)


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def share(value: float | None) -> str:
    """A figure between 0 and 1 as the paper prints it: three digits, no zero before the point."""
    if value is None or math.isnan(value):
        return "N/A"
    return f"{value:.3f}".replace("0.", ".", 1)


def rate(value: float) -> str:
    """A false-positive rate, with more digits where it is under one in a thousand."""
    return f"{value:.5f}".rstrip("0").rstrip(".").replace("0.", ".", 1) if 0 < value < 0.001 else share(value)


def percent(tau: float) -> str:
    """A tolerance in percent."""
    return f"{100 * tau:g} %"


def cell_table(
    table: str, datasets: Iterable[str], methods: Sequence[str], cells: Iterable[CellKey], text: Callable[..., str]
) -> str:
    """Datasets and the paper's tolerances down, methods across; `text` is called with dataset, tolerance and method.

    A dataset without cells has a line more, with the command that fills them.
    """
    present = {dataset for dataset, _, _ in cells}
    lines = []
    for dataset in datasets:
        for tau in _paper.taus(table, dataset):
            lines.append([dataset, percent(tau), *(text(dataset, tau, method) for method in methods)])
        if dataset not in present:
            command = f"not run: `taufpl reproduce {table} --dataset {dataset}`"
            lines.append([dataset, command, *[""] * len(methods)])
    return markdown(["dataset", "tau", *methods], lines)


def write_table(folder: Path, *paragraphs: str) -> Path:
    """Write paragraphs to ``table.md``."""
    write_text(folder / "table.md", "\n\n".join(paragraphs) + "\n")
    return folder / "table.md"
