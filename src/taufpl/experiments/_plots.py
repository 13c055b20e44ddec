"""Pictures of the experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from taufpl._extras import require
from taufpl._files import written_whole
from taufpl.experiments import _classification, _paper, _ranking
from taufpl.experiments._summary import CellKey, Mean
from taufpl.plotting.style import CYCLE, GREY, percent_axis, tidy

_DPI = 130
# Rankings whose solver ends early have the colour of the exact ones, and classifiers under the guarantee that of their
# scorer.
_EARLY = _ranking.EARLY
_EXACT = dict(zip((method for method in _ranking.METHODS if method not in _EARLY), CYCLE, strict=True))
_RANKING_STYLES = {
    method: (_EXACT[_EARLY.get(method, method)], "--" if method in _EARLY else "-") for method in _ranking.METHODS
}
_OWN_STYLES = {method: (colour, "-") for method, colour in zip(_classification.OWN, CYCLE, strict=True)}
_ALL_STYLES = _OWN_STYLES | {
    method: (_OWN_STYLES[method.removesuffix(" np")][0], "--") for method in _classification.GUARANTEED
}

# A value with its error or None, by dataset, tolerance and method.
Curves = Mapping[CellKey, tuple[float, float | None]]
Styles = Mapping[str, tuple[str, str]]  # colour and line of each method


def draw_ranking(cells: Mapping[CellKey, Mean], folder: Path) -> list[Path]:
    """Share of positives against the tolerance, a panel a dataset, the paper's figures as crosses."""
    datasets = [name for name in _ranking.DATASETS if any(key[0] == name for key in cells)]
    if not datasets:
        return []
    figure, axes = _draw_curves("ranking", datasets, cells, _RANKING_STYLES, "share of positives at the top")
    _draw_printed("ranking", datasets, axes, _RANKING_STYLES, lambda printed: printed)
    _legend(figure, axes[0])
    return [save(figure, folder / "shares.png")]


def draw_classification(cells: _classification.Cells, folder: Path) -> list[Path]:
    """NP-scores with the methods' own thresholds, and how often tolerances were broken, also under the guarantee."""
    table = "classification"
    datasets = [name for name in _paper.datasets(table) if any(key[0] == name for key in cells)]
    if not datasets:
        return []
    known = {key: cell for key, cell in cells.items() if cell is not None}
    scores: Curves = {key: (cell.score, None) for key, cell in known.items()}
    label = "NP-score of the mean rates (less is better)"
    figure, axes = _draw_curves(table, datasets, scores, _OWN_STYLES, label, 0, 1.6)
    _draw_printed(table, datasets, axes, _OWN_STYLES, lambda printed: printed[2])
    _legend(figure, axes[0])
    shares: Curves = {key: (cell.violations, None) for key, cell in known.items()}
    label = "share of rounds with test FPR above tau"
    second, axes = _draw_curves(table, datasets, shares, _ALL_STYLES, label, -0.03, 1.03)
    _legend(second, axes[0])
    return [save(figure, folder / "np_scores.png"), save(second, folder / "violations.png")]


def _draw_curves(
    table: str, datasets: Sequence[str], curves: Curves, styles: Styles, label: str, *limits: float
) -> tuple[Any, Any]:
    """A panel a dataset, in it a curve a method against the tolerance; limits are those of the values."""
    figure, axes = _panels(len(datasets))
    methods = {key[2] for key in curves}
    for ax, dataset in zip(axes, datasets, strict=True):
        taus = _paper.taus(table, dataset)
        for method in filter(methods.__contains__, styles):
            own = [(tau, *curves[dataset, tau, method]) for tau in taus if (dataset, tau, method) in curves]
            x, y, errors = zip(*own, strict=True) if own else ((), (), ())
            colour, line = styles[method]
            ax.plot(x, y, color=colour, linestyle=line, marker="o", markersize=4, linewidth=1.3, label=method)
            if None not in errors:
                ax.errorbar(x, y, errors, fmt="none", ecolor=colour, elinewidth=1.3, capsize=2)
        ax.set(xscale="log", xlabel="tolerated FPR", title=dataset, ylabel=label if ax is axes[0] else "")
        percent_axis(ax.xaxis)
        ax.set_xticks(taus)
        ax.tick_params(axis="x", which="minor", bottom=False)
        tidy(ax)
        if limits:
            ax.set_ylim(limits)
    return figure, axes


def _draw_printed(
    table: str, datasets: Sequence[str], axes: Any, styles: Styles, value_of: Callable[[Any], float]
) -> None:
    """The paper's figures as crosses."""
    for ax, dataset in zip(axes, datasets, strict=True):
        for method, (colour, _) in styles.items():
            for tau in _paper.taus(table, dataset):
                printed = _paper.figure(table, dataset, tau, method)
                if printed is not None:
                    ax.plot(tau, value_of(printed), "x", color=colour, markersize=7, alpha=0.8)
    axes[0].plot([], [], "x", color=GREY, label="printed in the paper")


def draw_times(series: Mapping[str, list[tuple[float, float]]], title: str, unit: str, path: Path) -> Path:
    """Seconds against size in log-log, with a line of slope 1 to compare with."""
    figure, [ax] = _panels(1, width=7.5, height=6.0)
    for number, (label, points) in enumerate(series.items()):
        colour, dashes = CYCLE[number % len(CYCLE)], ("-", "--")[number // len(CYCLE) % 2]
        ax.loglog(*zip(*sorted(points), strict=True), dashes, marker="o", markersize=4, color=colour, label=label)
    first = min(point for points in series.values() for point in points)
    last = max(point[0] for points in series.values() for point in points)
    ax.loglog([first[0], last], [first[1] / 2, first[1] / 2 * last / first[0]], ":", color=GREY, label="slope 1")
    ax.set(xlabel=unit, ylabel="seconds", title=title)
    tidy(ax)
    _legend(figure, ax, columns=3)
    return save(figure, path)


def save(figure: Any, path: Path) -> Path:
    """Write a picture, whole or not at all."""
    with written_whole(path) as draft:
        figure.savefig(draft, dpi=_DPI, format="png")
    return path


def _panels(n: int, *, width: float = 4.6, height: float = 4.4) -> tuple[Any, Any]:
    # A figure of its own, without pyplot: nothing is left open, and no window is asked for.
    module = require("matplotlib.figure", "plot", "to draw the results")
    figure = module.Figure(figsize=(width * n, height), layout="constrained")
    return figure, figure.subplots(1, n, squeeze=False)[0]


def _legend(figure: Any, ax: Any, columns: int = 7) -> None:
    handles, labels = ax.get_legend_handles_labels()
    columns = min(len(labels), columns)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
