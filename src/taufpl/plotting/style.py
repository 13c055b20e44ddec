"""The look of every picture: colours, percentages, the mark of a tolerance, the place of a legend."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl._extras import require

# Okabe and Ito's colours: told apart with every common kind of colour blindness, and in grey by their lightness.
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, ORANGE, GREY, BLACK = "#56B4E9", "#E69F00", "#7F7F7F", "#222222"
CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, SKY, ORANGE, BLACK)
DASHES = ("-", "--", "-.", ":")

NEGATIVE, POSITIVE, TOLERANCE = BLUE, VERMILLION, BLACK

# Marks of what has been drawn on axes, so that the next display on them goes on where the last one stopped.
CURVE = "taufpl-curve"
MARK = "taufpl-mark"

# A position left of every rate that a picture shows: a logarithmic axis has no 0.
TINY = 1e-12


def new_axes(
    ax: Any, purpose: str, *, rows: int = 1, columns: int = 1, size: tuple[float, float] = (8.0, 5.0), **options: Any
) -> tuple[Any, Any]:
    """Figure and axes to draw on, one or an array of panels: those given, or new ones."""
    n_panels = rows * columns
    if ax is None:
        figure, axes = matplotlib("pyplot", purpose).subplots(
            rows, columns, figsize=size, layout="constrained", **options
        )
        if n_panels > 1:
            figure.get_layout_engine().set(w_pad=0.1)
        return figure, axes
    if n_panels == 1:
        return ax.figure, ax
    panels = np.asarray(ax, dtype=object).ravel()
    if panels.size != n_panels:
        raise ValueError(
            f"ax must hold {n_panels} axes, one a panel; got {panels.size}. "
            f"Make them with matplotlib.pyplot.subplots({rows}, {columns})."
        )
    return panels[0].figure, panels


def matplotlib(module: str, purpose: str = "to draw") -> Any:
    """A module of matplotlib, which is imported where something is drawn."""
    return require(f"matplotlib.{module}", "plot", purpose)


def curve_style(ax: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Colour and dashes of the next curve on these axes; what the caller gave goes first."""
    drawn = sum(line.get_gid() == CURVE for line in ax.get_lines())
    dashes, colour = DASHES[drawn // len(CYCLE) % len(DASHES)], CYCLE[drawn % len(CYCLE)]
    given = matplotlib("cbook").normalize_kwargs(given, matplotlib("lines").Line2D)
    return {"linestyle": dashes, "linewidth": 1.8, "color": colour, **given, "gid": CURVE}


def percent(rate: float, digits: int = 3) -> str:
    """A rate as text.

    Examples
    --------
    >>> percent(0.001), percent(0.12345), percent(1.0)
    ('0.1 %', '12.3 %', '100 %')
    """
    return f"{100.0 * rate:.{digits}g} %"


def percent_axis(axis: Any) -> None:
    """Label an axis of rates in percent, on a linear or a logarithmic scale."""
    ticker = matplotlib("ticker")
    axis.set_major_formatter(ticker.FuncFormatter(lambda rate, _: percent(rate)))
    # A short logarithmic axis would else label its minor ticks too, as powers of ten.
    axis.set_minor_formatter(ticker.NullFormatter())


def once(ax: Any, key: str) -> bool:
    """Whether a mark is not yet on these axes."""
    name = f"{MARK} {key}"
    return all(artist.get_gid() != name for artist in ax.get_children())


def mark_tolerance(ax: Any, tau: float, *, horizontal: bool = False, shade: bool = False) -> None:
    """A dashed line at tau, named outside the frame where it covers nothing, and the allowed side shaded."""
    if mark_line(ax, tau, f"τ = {percent(tau)}", horizontal=horizontal) and shade and once(ax, "shade"):
        span = ax.axhspan if horizontal else ax.axvspan
        span(TINY, tau, color=GREY, alpha=0.12, linewidth=0, gid=f"{MARK} shade", zorder=0.5)


def mark_line(ax: Any, position: float, text: str, *, horizontal: bool = False) -> bool:
    """A dashed line with its name, unless it is there already; returns whether it was drawn."""
    if not once(ax, text):
        return False
    line = ax.axhline if horizontal else ax.axvline
    line(position, color=TOLERANCE, linestyle="--", linewidth=1.1, gid=f"{MARK} {text}", zorder=1.5)
    name_line(ax, position, text, horizontal=horizontal)
    return True


def name_line(
    ax: Any, position: float, text: str, *, horizontal: bool = False, colour: str = TOLERANCE, side: str = "center"
) -> None:
    """Write a line's name beside the frame, at the end of the line; above the frame, on a side of the line."""
    if horizontal:
        place = {"xy": (1, position), "xycoords": ax.get_yaxis_transform(), "xytext": (4, 0)}
        align = {"ha": "left", "va": "center"}
    else:
        place = {"xy": (position, 1), "xycoords": ax.get_xaxis_transform(), "xytext": (0, 3)}
        align = {"ha": side, "va": "bottom"}
    ax.annotate(text, **place, **align, textcoords="offset points", fontsize="small", color=colour)


def title(ax: Any, text: str) -> None:
    """A title at the left, above the names of vertical lines."""
    ax.set_title(text, loc="left", pad=18, fontsize="large")


def tidy(ax: Any) -> None:
    """Leave only the two axes that carry numbers, and a light grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, which="major", color="#E3E3E3", linewidth=0.7)
    ax.set_axisbelow(True)


def legend_below(ax: Any, columns: int = 1, of: Any = None) -> None:
    """A legend under the axes, where it cannot cover data; of another panel's curves where one is given."""
    handles, labels = (ax if of is None else of).get_legend_handles_labels()
    if not handles:
        return
    transforms = matplotlib("transforms")
    # What explains all curves comes after the curves.
    order = sorted(range(len(handles)), key=lambda i: str(handles[i].get_gid()).startswith(MARK))
    ax.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        # Under the ticks and the label of the axis, whatever the size of the picture.
        bbox_transform=transforms.offset_copy(ax.transAxes, fig=ax.figure, y=-40, units="points"),
        ncols=columns,
        frameon=False,
        fontsize="small",
        borderaxespad=0.0,
    )
