"""Pictures of the experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from taufpl._extras import require
from taufpl._files import written_whole
from taufpl.experiments import _paper
from taufpl.experiments._classification import GUARANTEED, OWN
from taufpl.experiments._ranking import DATASETS, EARLY, METHODS
from taufpl.experiments._summary import CellKey, ClassifierCell, Mean
from taufpl.plotting._style import CYCLE, GREY, percent_axis, tidy

_DPI = 130
# Rankings whose solver ends early have the colour of the exact ones.
_SOLID = dict(zip((method for method in METHODS if method not in EARLY), CYCLE, strict=True))
_STYLES = [(_SOLID[EARLY.get(method, method)], "--" if method in EARLY else "-") for method in METHODS]


def _panels(n: int, *, width: float = 4.6, height: float = 4.4) -> tuple[Any, Any]:
    # A figure of its own, without pyplot: nothing is left open, and no window is asked for.
    module = require("matplotlib.figure", "plot", "to draw the results")
    figure = module.Figure(figsize=(width * n, height), layout="constrained")
    return figure, figure.subplots(1, n, squeeze=False)[0]


def save(figure: Any, path: Path) -> Path:
    """Write a picture beside and rename it."""
    with written_whole(path) as draft:
        figure.savefig(draft, dpi=_DPI, format="png")
    return path


def draw_ranking(cells: dict[CellKey, Mean], folder: Path) -> list[Path]:
    """Share of positives against the tolerance, a panel a dataset, the paper's figures as crosses."""
    datasets = [name for name in DATASETS if any(key[0] == name for key in cells)]
    if not datasets:
        return []
    figure, axes = _panels(len(datasets))
    for ax, dataset in zip(axes, datasets, strict=True):
        taus = _paper.taus("ranking", dataset)
        for (colour, line), method in zip(_STYLES, METHODS, strict=True):
            own = [(tau, cells[dataset, tau, method]) for tau in taus if (dataset, tau, method) in cells]
            if own:
                x, y = zip(*own, strict=True)
                ax.errorbar(
                    x, [cell.value for cell in y], [cell.error for cell in y],
                    marker="o", markersize=4, linewidth=1.3, capsize=2, color=colour, linestyle=line, label=method,
                )  # fmt: skip
            printed = [(tau, _paper.figure("ranking", dataset, tau, method)) for tau in taus]
            printed = [pair for pair in printed if pair[1] is not None]
            if printed:
                ax.plot(*zip(*printed, strict=True), "x", color=colour, markersize=7, alpha=0.8)
        _tolerance_axis(ax, dataset, taus)
        ax.set_ylabel("share of positives at the top" if ax is axes[0] else "")
    axes[0].plot([], [], "x", color=GREY, label="printed in the paper")
    _legend(figure, axes[0])
    return [save(figure, folder / "shares.png")]


def draw_classification(cells: dict[CellKey, ClassifierCell | None], folder: Path) -> list[Path]:
    """NP-scores with the methods' own thresholds, and how often tolerances were broken, also under the guarantee."""
    datasets = [name for name in _paper.datasets("classification") if any(key[0] == name for key in cells)]
    if not datasets:
        return []
    figure, axes = _panels(len(datasets))
    for ax, dataset in zip(axes, datasets, strict=True):
        for colour, method in zip(CYCLE, OWN, strict=True):
            _curve(ax, cells, dataset, method, "score", color=colour, label=method)
            printed = [
                (tau, triple[2])
                for tau in _paper.taus("classification", dataset)
                if (triple := _paper.figure("classification", dataset, tau, method)) is not None
            ]
            if printed:
                ax.plot(*zip(*printed, strict=True), "x", color=colour, markersize=7, alpha=0.8)
        _tolerance_axis(ax, dataset, _paper.taus("classification", dataset))
        ax.set_ylim(0, 1.6)
        ax.set_ylabel("NP-score of the mean rates (less is better)" if ax is axes[0] else "")
    axes[0].plot([], [], "x", color=GREY, label="printed in the paper")
    _legend(figure, axes[0])
    return [save(figure, folder / "np_scores.png"), _draw_violations(cells, datasets, folder)]


def _draw_violations(cells: dict[CellKey, ClassifierCell | None], datasets: Sequence[str], folder: Path) -> Path:
    figure, axes = _panels(len(datasets))
    for ax, dataset in zip(axes, datasets, strict=True):
        for colour, method in zip(CYCLE, OWN, strict=True):
            _curve(ax, cells, dataset, method, "violations", color=colour, label=method)
        colours = dict(zip(OWN, CYCLE, strict=True))
        for method in GUARANTEED:
            colour = colours[method.removesuffix(" np")]
            _curve(ax, cells, dataset, method, "violations", color=colour, linestyle="--", label=method)
        _tolerance_axis(ax, dataset, _paper.taus("classification", dataset))
        ax.set_ylim(-0.03, 1.03)
        ax.set_ylabel("share of rounds with test FPR above tau" if ax is axes[0] else "")
    _legend(figure, axes[0])
    return save(figure, folder / "violations.png")


def _curve(
    ax: Any, cells: dict[CellKey, ClassifierCell | None], dataset: str, method: str, what: str, **style: Any
) -> None:
    own = [
        (tau, getattr(cell, what))
        for tau in _paper.taus("classification", dataset)
        if (cell := cells.get((dataset, tau, method))) is not None
    ]
    ax.plot(*(zip(*own, strict=True) if own else ([], [])), marker="o", markersize=4, linewidth=1.3, **style)


def draw_times(series: dict[str, list[tuple[float, float]]], title: str, x_label: str, path: Path) -> Path:
    """Seconds against size in log-log, with a line of slope 1 to compare with."""
    figure, [ax] = _panels(1, width=7.5, height=6.0)
    for number, (label, points) in enumerate(series.items()):
        dashes = ("-", "--")[number // len(CYCLE) % 2]
        ax.loglog(
            *zip(*sorted(points), strict=True),
            dashes,
            marker="o",
            markersize=4,
            color=CYCLE[number % len(CYCLE)],
            label=label,
        )
    first = min(point for points in series.values() for point in points)
    last = max(point[0] for points in series.values() for point in points)
    ax.loglog([first[0], last], [first[1] / 2, first[1] / 2 * last / first[0]], ":", color=GREY, label="slope 1")
    ax.set(xlabel=x_label, ylabel="seconds", title=title)
    tidy(ax)
    _legend(figure, ax, columns=3)
    return save(figure, path)


def _tolerance_axis(ax: Any, dataset: str, taus: Sequence[float]) -> None:
    ax.set(xscale="log", xlabel="tolerated FPR", title=dataset)
    percent_axis(ax.xaxis)
    ax.set_xticks(taus)
    ax.tick_params(axis="x", which="minor", bottom=False)
    tidy(ax)


def _legend(figure: Any, ax: Any, columns: int = 7) -> None:
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(labels), columns), frameon=False, fontsize=9
    )
