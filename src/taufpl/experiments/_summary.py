"""From rounds to cells: means and standard errors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from taufpl.experiments._box_search import np_score
from taufpl.experiments._tasks import Row

CellKey = tuple[str, float, str]  # dataset, tau, method


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over rounds with its standard error, NaN for a single round."""

    value: float
    error: float
    n: int


def mean(values: Iterable[float]) -> Mean:
    """The mean of some figures."""
    figures = np.array(list(values), dtype=np.float64)
    error = float(figures.std(ddof=1) / math.sqrt(figures.size)) if figures.size > 1 else math.nan
    return Mean(float(figures.mean()), error, figures.size)


def by_cell(rows: Iterable[Row]) -> dict[CellKey, list[Row]]:
    """Rows of all rounds, by dataset, tolerance and method."""
    cells: dict[CellKey, list[Row]] = defaultdict(list)
    for row in rows:
        cells[row["dataset"], float(row["tau"]), row["method"]].append(row)
    return dict(cells)


def ranking_cells(rows: Iterable[Row], column: str = "share") -> dict[CellKey, Mean]:
    """The mean share of each cell; strictly above the quantile, or, by "share_with_ties", with ties in random order."""
    return {key: mean(float(row[column]) for row in own) for key, own in by_cell(rows).items()}


@dataclass(frozen=True, slots=True)
class ClassifierCell:
    """Rates of a classifier over rounds.

    Attributes
    ----------
    fpr, tpr, mean_score : Mean
        The last is the mean of the rounds' NP-scores.
    score : float
        The NP-score of the mean rates, which is what the paper's table shows.
    violations : float
        Share of rounds in which the rate on the test part was above tau.
    """

    fpr: Mean
    tpr: Mean
    mean_score: Mean
    score: float
    violations: float


def classifier_cells(rows: Iterable[Row]) -> dict[CellKey, ClassifierCell | None]:
    """The rates of each cell; None where there were too few negatives for the guarantee."""
    cells: dict[CellKey, ClassifierCell | None] = {}
    for key, own in by_cell(rows).items():
        tau = key[1]
        both = [(float(row["fpr"]), float(row["tpr"])) for row in own if not math.isnan(float(row["fpr"]))]
        if not both:
            cells[key] = None
            continue
        fpr, tpr = (mean(part) for part in zip(*both, strict=True))
        scores = mean(np_score(*pair, tau) for pair in both)
        violations = sum(pair[0] > tau for pair in both) / len(both)
        cells[key] = ClassifierCell(fpr, tpr, scores, np_score(fpr.value, tpr.value, tau), violations)
    return cells
