"""The page of ``taufpl compare``: models side by side as a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taufpl.report._format import rate
from taufpl.report._page import made_by, printable, templates
from taufpl.report._pictures import Picture, PlotAxis, interval_path, point_path


def render_comparison(document: Mapping[str, Any]) -> str:
    """A document of ``taufpl compare`` as one HTML page that needs nothing else."""
    template = templates().get_template("comparison.html")
    return printable(template.render(found=document, picture=_recalls(document["models"]), made=made_by()))


def _recalls(models: list[dict[str, Any]]) -> Picture:
    """The recall of every model with its interval, the best on top."""
    axis = PlotAxis(min(row["recall_low"] for row in models) - 0.02, max(row["recall_high"] for row in models) + 0.02)
    axis = PlotAxis(max(axis.low, 0.0), min(axis.high, 1.0))
    places = [1.0 - (place + 0.5) / len(models) for place in range(len(models))]
    return Picture(
        [
            (kind, "".join(path(axis, row, place) for row, place in zip(models, places, strict=True)))
            for kind, path in (("line", _interval), ("dots", _point))
        ],
        [(float(axis.place(each)), rate(each)) for each in axis.ticks()],
        [(place, row["model"]) for row, place in zip(models, places, strict=True)],
    )


def _interval(axis: PlotAxis, row: dict[str, Any], place: float) -> str:
    return interval_path(float(axis.place(row["recall_low"])), float(axis.place(row["recall_high"])), place)


def _point(axis: PlotAxis, row: dict[str, Any], place: float) -> str:
    return point_path(float(axis.place(row["recall"])), place)
