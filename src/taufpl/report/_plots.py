"""Pictures: curves as SVG that stretches with the page, labels as text that does not.

The drawing fills its box whatever the box's shape, so that lines are told not to scale their width; ticks, names and
marks lie over it at percentages, in the size of the text around.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taufpl.plotting._bands import Band, curve_counts, roc_band
from taufpl.plotting._histogram import bin_edges
from taufpl.plotting._scores import ClassScores
from taufpl.report._figures import Rates
from taufpl.report._format import count, counted, rate, score
from taufpl.report._html import text
from taufpl.report._subject import Subject, Vector
from taufpl.thresholding import Rounds

# Units of the drawing: finer than the pixels that it will have.
WIDTH, HEIGHT = 2000, 1000
# Share of the width that a name needs on a phone.
_ROOM = 0.2


@dataclass(frozen=True, slots=True)
class Axis:
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
    """Something at a place of the picture; a name in plain text may stand at the end of a line."""

    kind: str
    x: float
    y: float = 0.0
    name: str = ""
    key: str = ""


def plot(
    label: str,
    drawing: str,
    x_ticks: Iterable[tuple[float, str]],
    y_ticks: Iterable[tuple[float, str]],
    titles: tuple[str, str],
    marks: Sequence[Mark] = (),
) -> str:
    """Put a drawing, its axes and its marks together; `label` says in words what there is to see."""
    x_ticks, y_ticks = list(x_ticks), list(y_ticks)
    grid = "".join(f"M{_x(x)} 0V{HEIGHT}" for x, _ in x_ticks) + "".join(f"M0 {_y(y)}H{WIDTH}" for y, _ in y_ticks)
    over = "".join(
        f'<span class="tick x{" odd" if i % 2 else ""}" style="left:{100 * x:.2f}%">{text(name)}</span>'
        for i, (x, name) in enumerate(x_ticks)
    ) + "".join(f'<span class="tick y" style="bottom:{100 * y:.2f}%">{text(name)}</span>' for y, name in y_ticks)
    return (
        f'<div class="plot" role="img" aria-label="{text(label)}"><span class="title y">{text(titles[1])}</span>'
        f'<div class="area"><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="grid" d="{grid}"/>{drawing}</svg>{over}{"".join(map(_mark, marks))}</div>'
        f'<span class="title x">{text(titles[0])}</span></div>'
    )


def legend(*entries: tuple[str, str]) -> str:
    """Keys of a picture, classes and plain text."""
    items = "".join(f'<li><i class="key {kind}"></i>{text(name)}</li>' for kind, name in entries)
    return f'<ul class="legend">{items}</ul>'


def roc(subject: Subject, rates: Rates, delta: float) -> str:
    """Recall against FPR on a logarithmic axis, with the band, the tolerance and the operating point."""
    n, m = subject.negative.size, subject.positive.size
    false, true = curve_counts(ClassScores(subject.negative, subject.positive, None))
    band = roc_band(false, true, n, m, "pointwise", 1.0 - delta)
    axis = roc_axis(subject)
    x, y = _thinned(axis.place(false / n), true / m)
    drawing = (
        f'<path class="allowed" d="M0 0H{_x(float(axis.place(subject.tau)))}V{HEIGHT}H0z"/>'
        f'<path class="band" d="{_band_path(band, axis)}"/><path class="line curve" d="{_stairs(x, y)}"/>'
    )
    marks = [
        *_tolerance_marks(subject, axis),
        Mark("point tried", float(axis.place(rates.fpr or 0.0)), rates.recall or 0.0, key="tried"),
        Mark("point used", float(axis.place(rates.fpr or 0.0)), rates.recall or 0.0),
    ]
    label = (
        f"ROC curve on a logarithmic axis of false-positive rates. In use: {rate(rates.fpr)} false-positive rate, "
        f"{rate(rates.recall)} recall; tolerance {rate(subject.tau)}."
    )
    ticks = ((float(axis.place(each)), rate(each)) for each in axis.ticks())
    shares = ((each, rate(each)) for each in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
    return plot(label, drawing, ticks, shares, ("False-positive rate (logarithmic)", "Recall"), marks) + legend(
        ("line", "on these rows"),
        ("fill", f"{rate(1.0 - delta)} confidence band, for each rate by itself"),
        ("dash", "tolerance τ"),
        ("diamond", "threshold in use"),
        ("ring", "tolerance tried below"),
    )


def _tolerance_marks(subject: Subject, axis: Axis) -> list[Mark]:
    """A line a tolerance; those too close to a named one go without a name."""
    marks: list[Mark] = []
    for tau in sorted(subject.taus):
        place = float(axis.place(tau))
        crowded = any(mark.name and abs(mark.x - place) < _ROOM for mark in marks)
        marks.append(Mark("rule", place, name="" if crowded else f"τ = {rate(tau)}"))
    return marks


def roc_axis(subject: Subject) -> Axis:
    """From half a false positive, or a third of the tolerance where that is less, to 1."""
    return Axis(min(0.5 / subject.negative.size, subject.tau / 3.0), 1.0, log=True)


def histogram_edges(subject: Subject) -> Vector | None:
    """Bins of the scores, with an edge at the threshold; None where the scores have no usable range."""
    with np.errstate(over="ignore", invalid="ignore"):
        edges = bin_edges(subject.negative, subject.positive, subject.threshold)
    return edges if np.all(np.isfinite(edges)) and np.all(np.diff(edges) > 0) else None


def histogram(subject: Subject, rates: Rates, edges: Vector) -> str:
    """Scores of both classes, counts on a logarithmic axis; errors are in the stronger colour."""
    negative, positive = (_counts(each, edges) for each in (subject.negative, subject.positive))
    axis, heights = Axis(edges[0], edges[-1]), Axis(0.6, 1.4 * max(1, negative.max(), positive.max()), log=True)
    above = edges[:-1] >= subject.threshold
    x = axis.place(edges)
    drawing = "".join(
        f'<path class="{kind} {part}" d="{_bars(x, heights.place(np.where(shown, counts, 0.0)))}"/>'
        for kind, counts, is_error in (("negative", negative, above), ("positive", positive, ~above))
        for part, shown in (("all", np.ones_like(above)), ("error", is_error))
    )
    marks = [Mark("rule try", 0.0, key="tried-score")]
    if edges[0] <= subject.threshold <= edges[-1]:
        marks.append(Mark("rule", float(axis.place(subject.threshold)), name=f"threshold {score(subject.threshold)}"))
    label = (
        f"Histogram of raw scores. Above the threshold: {count(rates.n_false)} of "
        f"{counted(rates.n_negative, 'negative')} and {count(rates.n_true)} of {counted(rates.n_positive, 'positive')}."
    )
    x_ticks = ((float(axis.place(each)), score(each)) for each in axis.ticks())
    y_ticks = ((float(heights.place(each)), f"{each:,.0f}") for each in heights.ticks())
    keys = [
        (kind, f"{counted(total, name)}, {count(wrong)} {what} (stronger colour)")
        for kind, total, name, wrong, what in (
            ("neg", rates.n_negative, "negative", rates.n_false, "false alarms"),
            ("pos", rates.n_positive, "positive", rates.n_positive - rates.n_true, "missed"),
        )
        if total
    ]
    titles = ("Raw score", "Rows in a bin (logarithmic)")
    return plot(label, drawing, x_ticks, y_ticks, titles, marks) + legend(*keys, ("dash", "threshold"))


def rounds_plot(rounds: Rounds, threshold: float | None) -> str:
    """The threshold of every round, their mean and spread, and the threshold in use where it is on their scale."""
    found = rounds.thresholds[np.isfinite(rounds.thresholds)]
    if not found.size:
        return ""
    shown = found if threshold is None or not np.isfinite(threshold) else np.append(found, threshold)
    pad = 0.12 * float(np.ptp(shown)) or 0.5
    axis = Axis(float(shown.min()) - pad, float(shown.max()) + pad)
    spread = float(found.std(ddof=1)) if found.size > 1 else 0.0
    mean, low, high = (_y(float(axis.place(float(found.mean()) + side * spread))) for side in (0.0, -1.0, 1.0))
    number = 1 + np.flatnonzero(np.isfinite(rounds.thresholds))
    wide = Axis(0.5, len(rounds) + 0.5)
    dots = "".join(
        f"M{_x(x)} {_y(y)}h0" for x, y in zip(wide.place(number.astype(float)), axis.place(found), strict=True)
    )
    drawing = (
        f'<path class="band" d="M0 {low}H{WIDTH}V{high}H0z"/><path class="line thin" d="M0 {mean}H{WIDTH}"/>'
        f'<path class="dots" d="{dots}"/>'
    )
    used = []
    if threshold is not None and np.isfinite(threshold):
        used = [("dash", f"in use: {score(threshold)}")]
        drawing += f'<path class="line dashed" d="M0 {_y(float(axis.place(threshold)))}H{WIDTH}"/>'
    every = max(1, -(-len(rounds) // 10))
    x_ticks = ((float(wide.place(float(i))), str(i)) for i in range(1, len(rounds) + 1, every))
    y_ticks = ((float(axis.place(each)), score(each)) for each in axis.ticks(5))
    label = f"Thresholds of {counted(len(rounds), 'round')}: mean {score(float(found.mean()))}, spread {score(spread)}."
    return plot(label, drawing, x_ticks, y_ticks, ("Round", "Threshold")) + legend(
        ("dot", "threshold of a round"),
        ("line", f"mean {score(float(found.mean()))}"),
        ("fill", f"one standard deviation, {score(spread)}"),
        *used,
    )


def bar(value: float, low: float, high: float) -> str:
    """A bar from 0 to a value, on an axis from low to high."""
    axis = Axis(min(low, 0.0), max(high, 0.0))
    zero, end = (1000.0 * float(axis.place(each)) for each in (0.0, value))
    left, wide = min(zero, end), abs(end - zero)
    kind = "up" if value >= 0 else "down"
    return (
        '<svg class="bar" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="axis" d="M{zero:.0f} 0V10"/>'
        f'<rect class="{kind}" x="{left:.0f}" y="1" width="{max(wide, 4):.0f}" height="8"/></svg>'
    )


def _mark(mark: Mark) -> str:
    key = f' id="{mark.key}"' if mark.key else ""
    name = f"<span>{text(mark.name)}</span>" if mark.name else ""
    # A name near an end grows inwards.
    side = " early" if mark.x < 0.12 else " late" if mark.x > 0.88 else ""
    return f'<b class="{mark.kind}{side}"{key} style="left:{100 * mark.x:.2f}%;bottom:{100 * mark.y:.2f}%">{name}</b>'


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


def _band_path(band: Band, axis: Axis) -> str:
    """Along the upper edge and back along the lower one."""
    fpr, low, high = band.steps(axis.low)
    x = axis.place(fpr)
    up, down = _thinned(x, high), _thinned(x, low)
    back = "".join(f"H{_x(left)}V{_y(y)}" for left, y in zip(down[0][:0:-1], down[1][-2::-1], strict=True))
    return f"{_stairs(*up)}V{_y(float(down[1][-1]))}{back}H{_x(float(down[0][0]))}z"


def _counts(scores: Vector, edges: Vector) -> NDArray[np.intp]:
    """Scores in each bin (a, b]; what lies outside is counted in the outermost bins."""
    inside = np.searchsorted(edges, scores, side="left") - 1
    return np.bincount(np.clip(inside, 0, edges.size - 2), minlength=edges.size - 1)


def _bars(x: Vector, heights: Vector) -> str:
    """The outline of neighbouring bars."""
    steps = "".join(f"V{_y(height)}H{_x(right)}" for height, right in zip(heights, x[1:], strict=True))
    return f"M{_x(x[0])} {HEIGHT}{steps}V{HEIGHT}z"
