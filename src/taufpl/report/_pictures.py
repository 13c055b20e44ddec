"""Pictures: curves as paths of an SVG that stretches with the page; ticks and marks are text, placed over it.

The drawing fills its box whatever the box's shape, so that lines are told not to scale their width; ticks, names and
marks lie over it at percentages, in the size of the text around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._types import Vector
from taufpl.planning import np_roc
from taufpl.plotting.statistics import (
    bin_counts,
    bin_edges,
    curve_counts,
    finite_rounds,
    np_roc_steps,
    roc_band,
    smallest_rate,
)
from taufpl.report._format import rate, score
from taufpl.report._scored_rows import Rates, ScoredRows

# Units of the drawing: finer than the pixels that it will have.
WIDTH, HEIGHT = 2000, 1000
_RATE_TICKS = [(each, rate(each)) for each in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]
# Share of the width that a name needs on a phone.
_ROOM = 0.2


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """From values to places between 0 and 1."""

    low: float
    high: float
    log: bool = False

    def place(self, values: Vector | float) -> Vector:
        """Where values lie; what is outside lies at the nearer end."""
        x = np.asarray(values, dtype=np.float64)
        low, high = self.low, self.high
        if self.log:
            x, low, high = np.log(np.maximum(x, low)), float(np.log(low)), float(np.log(high))
        # Halves, because the span of the largest floats is none.
        return np.clip((x / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0), 0.0, 1.0)

    def at(self, value: float) -> float:
        """Where one value lies."""
        return float(self.place(value))

    def labels(self, text: Callable[[float], str], most: int = 6) -> list[tuple[float, str]]:
        """Places and texts of the ticks."""
        return [(self.at(each), text(each)) for each in self.ticks(most)]

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers: powers of ten on a logarithmic axis, else steps of 1, 2 or 5."""
        if self.log:
            first, last = int(np.ceil(np.log10(self.low) - 1e-9)), int(np.floor(np.log10(self.high) + 1e-9))
            return [float(f"1e{power}") for power in range(first, last + 1)]
        step = 10.0 ** np.floor(np.log10((self.high / 2.0 - self.low / 2.0) / most * 2.0))
        step *= next(each for each in (1.0, 2.0, 5.0, 10.0) if (self.high / step - self.low / step) / each <= most)
        return [float(step * i) for i in range(int(np.ceil(self.low / step)), int(np.floor(self.high / step)) + 1)]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something at a place of the picture; a name may stand at the end of a line, and a key lets the script find it."""

    kind: str
    x: float
    y: float = 0.0
    name: str = ""
    key: str = ""

    @property
    def side(self) -> str:
        """A name near an end grows inwards."""
        return "early" if self.x < 0.12 else "late" if self.x > 0.88 else ""


@dataclass(frozen=True, slots=True)
class Picture:
    """Paths with their classes, ticks with their places, and marks."""

    paths: Sequence[tuple[str, str]]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    marks: Sequence[Mark] = ()

    @property
    def grid(self) -> str:
        """Lines at the ticks."""
        across = (f"M{_x(x)} 0V{HEIGHT}" for x, _ in self.x_ticks)
        return "".join((*across, *(f"M0 {_y(y)}H{WIDTH}" for y, _ in self.y_ticks)))


def roc_axis(rows: ScoredRows) -> PlotAxis:
    """False-alarm rates, logarithmic."""
    return PlotAxis(smallest_rate(rows.negative.size, rows.tau), 1.0, log=True)


def roc(rows: ScoredRows, used: Rates) -> Picture:
    """Recall against false-alarm rate, with the band, the tolerances and the operating point."""
    n, m, axis = rows.negative.size, rows.positive.size, roc_axis(rows)
    false, true = curve_counts(rows.negative, rows.positive)
    band = roc_band(false, true, n, m, "pointwise", 1.0 - rows.delta)
    point = axis.at(used.fpr or 0.0), used.recall or 0.0
    paths = [
        ("band", _band_path(*band.steps(axis.low), axis)),
        ("line curve", _stairs(*_thinned(axis.place(false / n), true / m))),
    ]
    return _under_tolerances(rows, axis, paths, Mark("point tried", *point, key="tried"), Mark("point used", *point))


def guaranteed(rows: ScoredRows) -> Picture:
    """Recall of the screen with a guarantee against its tolerance (NP-ROC), with its band, beside the ROC curve."""
    axis, curve = roc_axis(rows), np_roc(rows.negative, rows.positive, rows.delta)
    false, true = curve_counts(rows.negative, rows.positive)
    ends, low, high, middle = np_roc_steps(curve)
    measured = _thinned(axis.place(false / rows.negative.size), true / rows.positive.size)
    paths = [
        ("band", _band_path(ends, low, high, axis)),
        ("line measured", _stairs(*measured)),
        ("line curve", _stairs(*_thinned(axis.place(ends), middle))),
    ]
    return _under_tolerances(rows, axis, paths)


def _under_tolerances(rows: ScoredRows, axis: PlotAxis, paths: list[tuple[str, str]], *points: Mark) -> Picture:
    """Recall against false-alarm rate, with a line a tolerance; those too close to a named one go without a name."""
    marks: list[Mark] = []
    for tau in sorted(rows.taus):
        x = axis.at(tau)
        is_crowded = any(mark.name and abs(mark.x - x) < _ROOM for mark in marks)
        marks.append(Mark("rule", x, name="" if is_crowded else f"τ = {rate(tau)}"))
    allowed = ("allowed", f"M0 0H{_x(axis.at(rows.tau))}V{HEIGHT}H0z")
    return Picture([allowed, *paths], axis.labels(rate), _RATE_TICKS, [*marks, *points])


def histogram_edges(rows: ScoredRows) -> Vector | None:
    """Bins of the scores, with an edge at the threshold; None where the scores have no usable range."""
    with np.errstate(over="ignore", invalid="ignore"):
        edges = bin_edges(rows.negative, rows.positive, rows.threshold)
    return edges if np.all(np.isfinite(edges)) and np.all(np.diff(edges) > 0) else None


def histogram(rows: ScoredRows, edges: Vector) -> Picture:
    """Scores of both classes, counts on a logarithmic axis; errors are drawn twice, in the stronger colour."""
    negative, positive = (bin_counts(each, edges) for each in (rows.negative, rows.positive))
    axis, heights = PlotAxis(edges[0], edges[-1]), PlotAxis(0.6, 1.4 * max(1, negative.max(), positive.max()), log=True)
    is_above, x = edges[:-1] >= rows.threshold, axis.place(edges)
    marks = [Mark("rule try", 0.0, key="tried-score")]
    if edges[0] <= rows.threshold <= edges[-1]:
        marks.append(Mark("rule", axis.at(rows.threshold), name=f"threshold {score(rows.threshold)}"))
    return Picture(
        [
            (f"{kind} {part}", _bars(x, heights.place(np.where(is_shown, counts, 0.0))))
            for kind, counts, is_error in (("negative", negative, is_above), ("positive", positive, ~is_above))
            for part, is_shown in (("all", True), ("error", is_error))
        ],
        axis.labels(score),
        heights.labels("{:,.0f}".format),
        marks,
    )


def rounds(thresholds: Vector, threshold: float | None) -> Picture:
    """Threshold of every round, their mean and spread, and the threshold in use where it is on their scale."""
    numbers, found, mean, spread = finite_rounds(thresholds)
    shown = found if threshold is None else np.append(found, threshold)
    pad = 0.12 * float(np.ptp(shown)) or 0.5
    axis, wide = PlotAxis(float(shown.min()) - pad, float(shown.max()) + pad), PlotAxis(0.5, thresholds.size + 0.5)
    low, middle, high = (_y(axis.at(mean + side * spread)) for side in (-1.0, 0.0, 1.0))
    places = zip(wide.place(numbers.astype(np.float64)), axis.place(found), strict=True)
    paths = [
        ("band", f"M0 {low}H{WIDTH}V{high}H0z"),
        ("line thin", f"M0 {middle}H{WIDTH}"),
        ("dots", "".join(point_path(x, y) for x, y in places)),
    ]
    if threshold is not None:
        paths.append(("line dashed", f"M0 {_y(axis.at(threshold))}H{WIDTH}"))
    every = max(1, -(-thresholds.size // 10))
    return Picture(
        paths,
        [(wide.at(i), str(i)) for i in range(1, thresholds.size + 1, every)],
        axis.labels(score, 5),
    )


def recalls(models: list[dict[str, Any]]) -> Picture:
    """The recall of every model with its interval, the best on top."""
    low, high = min(row["recall_low"] for row in models), max(row["recall_high"] for row in models)
    axis = PlotAxis(max(low - 0.02, 0.0), min(high + 0.02, 1.0))
    shown = [(row, 1.0 - (place + 0.5) / len(models)) for place, row in enumerate(models)]
    intervals = (interval_path(axis.at(row["recall_low"]), axis.at(row["recall_high"]), y) for row, y in shown)
    points = (point_path(axis.at(row["recall"]), y) for row, y in shown)
    paths = [("line", "".join(intervals)), ("dots", "".join(points))]
    return Picture(paths, axis.labels(rate), [(y, row["model"]) for row, y in shown])


def bars(values: Sequence[float]) -> list[tuple[int, int, int]]:
    """Where 0 lies, left end and width of a bar for each value, on one axis of 1000 units."""
    axis = PlotAxis(min(*values, 0.0), max(*values, 0.0))
    zero, ends = 1000.0 * axis.at(0.0), 1000.0 * axis.place(np.asarray(values))
    return [(round(zero), round(min(zero, end)), round(max(abs(end - zero), 4.0))) for end in ends.tolist()]


def point_path(x: float, y: float) -> str:
    """A dot, drawn by the round ends of a line without length."""
    return f"M{_x(x)} {_y(y)}h0"


def interval_path(low: float, high: float, y: float) -> str:
    """A level line between two places."""
    return f"M{_x(low)} {_y(y)}H{_x(high)}"


def mark_path(x: float, y: float, reach: float) -> str:
    """An upright line around a place."""
    return f"M{_x(x)} {_y(y - reach)}V{_y(y + reach)}"


def _x(place: float) -> int:
    return round(WIDTH * place)


def _y(place: float) -> int:
    return round(HEIGHT * (1.0 - place))


def _thinned(x: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Of the points in a column of the drawing only the last, which is the highest of a rising curve."""
    columns = np.rint(WIDTH * x)
    kept = np.append(columns[1:] != columns[:-1], True)
    return x[kept], y[kept]


def _stairs(x: Vector, y: Vector) -> str:
    """Right, then up."""
    steps = "".join(f"H{_x(right)}V{_y(up)}" for right, up in zip(x[1:], y[1:], strict=True))
    return f"M{_x(x[0])} {_y(y[0])}{steps}H{WIDTH}"


def _band_path(fpr: Vector, low: Vector, high: Vector, axis: PlotAxis) -> str:
    """Along the upper edge and back along the lower one."""
    x = axis.place(fpr)
    up, down = _thinned(x, high), _thinned(x, low)
    back = "".join(f"H{_x(left)}V{_y(y)}" for left, y in zip(down[0][:0:-1], down[1][-2::-1], strict=True))
    return f"{_stairs(*up)}V{_y(float(down[1][-1]))}{back}H{_x(float(down[0][0]))}z"


def _bars(x: Vector, heights: Vector) -> str:
    """The outline of neighbouring bars."""
    steps = "".join(f"V{_y(height)}H{_x(right)}" for height, right in zip(heights, x[1:], strict=True))
    return f"M{_x(x[0])} {HEIGHT}{steps}V{HEIGHT}z"
