"""Rates by the levels of a column, or by the segments of a model, and their picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from taufpl.report._format import rate, shortened
from taufpl.report._pictures import Picture, PlotAxis, interval_path, mark_path, point_path
from taufpl.report._scored_rows import ScoredRows
from taufpl.thresholding import (
    BROKEN,
    KEPT,
    OPEN,
    LevelRates,
    level_codes,
    named_tolerances,
    rates_of_levels,
    tolerance_of,
)

# Longest name of a level beside the picture.
_LONGEST = 18


@dataclass(frozen=True, slots=True)
class Levels:
    """Rates by level; `are_segments` says that each level has a threshold, and a tolerance, of its own."""

    name: str
    rates: tuple[LevelRates, ...]
    delta: float
    is_new: bool
    are_segments: bool

    def verdict_on(self, level: LevelRates) -> str:
        """The verdict on a level: kept only where the rows are new."""
        return OPEN if level.verdict == KEPT and not self.is_new else level.verdict

    def with_verdict(self, verdict: str) -> list[str]:
        """The levels with a verdict."""
        return [each.level for each in self.rates if self.verdict_on(each) == verdict]

    @property
    def verdict(self) -> str:
        """The verdict on all levels together: broken where one is, kept where all are."""
        if self.with_verdict(BROKEN):
            return BROKEN
        return KEPT if len(self.with_verdict(KEPT)) == len(self.rates) else OPEN

    @property
    def tolerances(self) -> tuple[float, float]:
        """The strictest tolerance and the loosest."""
        taus = [each.tau for each in self.rates]
        return min(taus), max(taus)

    @property
    def height(self) -> int:
        """Pixels that the picture takes."""
        return 40 + 34 * len(self.rates)

    def picture(self) -> Picture:
        """FPR of each level with its bounds, and a mark at its tolerance; the rates are on a logarithmic axis."""
        low = min([self.tolerances[0], *(each.fpr for each in self.rates if each.fpr)]) / 10.0
        high = max([2.0 * self.tolerances[1], *(each.fpr_upper_bound for each in self.rates)])
        axis = PlotAxis(low, min(1.0, high), log=True)
        n = len(self.rates)
        places = [1.0 - (place + 0.5) / n for place in range(n)]
        shown = list(zip(self.rates, places, strict=True))

        def x(share: float) -> float:
            # A rate of 0 has no place on the axis; its dot stays whole at the left end.
            return max(float(axis.place(share)), 0.006)

        paths = [
            ("line", "".join(interval_path(x(each.fpr_lower_bound), x(each.fpr_upper_bound), y) for each, y in shown)),
            ("dots", "".join(point_path(x(each.fpr), y) for each, y in shown if each.fpr is not None)),
            ("tolerance", "".join(mark_path(x(each.tau), y, 0.36 / n) for each, y in shown)),
        ]
        ticks = [(x(each), rate(each)) for each in axis.ticks()]
        return Picture(paths, ticks, [(y, shortened(each.level, _LONGEST)) for each, y in shown])

    def data(self) -> dict[str, Any]:
        """The rates, for the script and for others who read the file."""
        return {
            "name": self.name,
            "are_segments": self.are_segments,
            "levels": [
                {
                    "level": each.level,
                    "tau": each.tau,
                    "n_negative": each.n_negative,
                    "n_false": each.n_false_positive,
                    "n_positive": each.n_positive,
                    "n_true": each.n_true_positive,
                    "fpr_lower": each.fpr_lower_bound,
                    "fpr_upper": each.fpr_upper_bound,
                    "recall_low": each.recall_interval[0],
                    "recall_high": each.recall_interval[1],
                    "verdict": self.verdict_on(each),
                }
                for each in self.rates
            ],
        }


def levels_of(rows: ScoredRows, levels: Any, name: str, is_new: bool | None) -> Levels | None:
    """Rates by the levels that are given, else by the segments of the model; None where there are neither."""
    are_segments = levels is None and rows.segments is not None
    if levels is None and rows.segments is None:
        return None
    names, codes, _ = level_codes(rows.segments if levels is None else levels, "by", rows.scores.size)
    is_flagged = rows.scores > rows.threshold
    parts = (~rows.is_positive, ~rows.is_positive & is_flagged, rows.is_positive, rows.is_positive & is_flagged)
    counts = np.stack([np.bincount(codes[part], minlength=len(names)) for part in parts], axis=1)
    tau = partial(tolerance_of, named=named_tolerances(rows.final.tau)) if are_segments else (lambda _: rows.tau)
    return Levels(name, tuple(rates_of_levels(names, counts, tau, rows.delta)), rows.delta, bool(is_new), are_segments)
