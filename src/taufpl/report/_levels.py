"""Rates by the levels of a column, and by the limits of a model with segments, and their picture."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from taufpl.report._format import rate, shortened
from taufpl.report._pictures import Picture, PlotAxis, interval_path, mark_path, point_path
from taufpl.report._scored_rows import ScoredRows
from taufpl.thresholding import (
    JudgedLevels,
    level_codes,
    level_counts,
    named_tolerances,
    rates_of_levels,
    rates_of_limits,
    tolerance_of,
)

# Longest name of a level beside the picture.
_LONGEST = 18


class Levels(JudgedLevels):
    """Judged levels, or limits, that have a picture."""

    __slots__ = ()

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


def limits_of_rows(rows: ScoredRows, column: str, is_new: bool | None) -> Levels | None:
    """The limits of a model with segments on some rows; None for other models."""
    if rows.segments is None:
        return None
    names, codes, _ = level_codes(rows.segments, "segments", rows.scores.size)
    counts = level_counts(codes, len(names), rows.is_positive, rows.is_flagged)
    rates = rates_of_limits(names, counts, rows.final.segments_, rows.final.tau, rows.delta)
    return Levels(column, tuple(rates), rows.delta, bool(is_new), are_limits=True)


def levels_of(rows: ScoredRows, levels: Any, column: str, is_new: bool | None) -> Levels | None:
    """Rates by level; None where none are given. Levels that are the model's segments have their own tolerances."""
    if levels is None:
        return None
    names, codes, _ = level_codes(levels, "by", rows.scores.size)
    counts = level_counts(codes, len(names), rows.is_positive, rows.is_flagged)
    own = None if rows.segments is None else level_codes(rows.segments)
    are_segments = own is not None and own.names == names and np.array_equal(own.codes, codes)
    tau = partial(tolerance_of, named=named_tolerances(rows.final.tau)) if are_segments else (lambda _: rows.tau)
    return Levels(column, tuple(rates_of_levels(names, counts, tau, rows.delta)), rows.delta, bool(is_new))
