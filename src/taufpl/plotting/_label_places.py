"""Places for the labels of contours: one a level, apart from each other, from the frame and from crowds of points."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from taufpl._types import Vector
from taufpl.plotting import style

_MOST_CANDIDATES = 400
# Distances in points, 1/72 inch, beside a label of about 40 by 10.
_ROOM, _HALF_LABEL, _CROWD = 48.0, 20.0, 14.0


def place_labels(ax: Any, contours: Any, texts: list[str], points: Vector) -> None:
    """Write the text of each level, which may be empty, on its contour, once, and where it covers few of the points.

    The axes must have their limits.
    """
    scale = 72.0 / ax.figure.dpi
    frame = scale * ax.transAxes.transform([(0, 0), (1, 1)])
    points, taken = scale * ax.transData.transform(points), np.empty((0, 2))
    chosen = []
    for text, path in zip(texts, contours.get_paths(), strict=True):
        if not text or not len(path.vertices):
            continue
        where, bend = _candidates(path, lambda vertices: scale * ax.transData.transform(vertices))
        best = int(np.argmin(_cost(where, bend, frame, points, taken)))
        taken = np.vstack([taken, where[best]])
        chosen.append(tuple(ax.transData.inverted().transform(where[best] / scale)))
    if not chosen:
        return
    effects = style.matplotlib("patheffects")
    named = dict(zip(contours.levels, texts, strict=True))
    levels = [level for level, text in named.items() if text]
    for label in contours.clabel(levels, fmt=named, manual=chosen, fontsize="small", zorder=4):
        label.set_path_effects([effects.withStroke(linewidth=3.5, foreground="white")])
        label.set_fontweight("bold")


def _candidates(path: Any, to_points: Any) -> tuple[Vector, Vector]:
    """Vertices of a contour on the page, and how far the line leaves a straight one within a label's length."""
    places, bends = [], []
    starts = np.flatnonzero(path.codes == path.MOVETO)[1:]
    for segment in np.split(path.vertices, starts):
        line = to_points(segment)
        length = np.append(0.0, np.hypot(*np.diff(line, axis=0).T).cumsum())
        ahead = np.clip(np.searchsorted(length, length + _HALF_LABEL), 0, len(line) - 1)
        behind = np.clip(np.searchsorted(length, length - _HALF_LABEL), 0, len(line) - 1)
        chord = np.hypot(*(line[ahead] - line[behind]).T)
        places.append(line)
        bends.append(2.0 * _HALF_LABEL - np.minimum(chord, 2.0 * _HALF_LABEL))
    where, bend = np.concatenate(places), np.concatenate(bends)
    every = max(1, len(where) // _MOST_CANDIDATES)
    return where[::every], bend[::every]


def _cost(where: Vector, bend: Vector, frame: Vector, points: Vector, taken: Vector) -> Vector:
    """Lower is better: straight, inside the frame, few points underneath, no other label near."""
    inside = np.minimum(where - frame[0], frame[1] - where).min(axis=1)
    nearest = cdist(where, taken).min(axis=1, initial=np.inf)
    cost: Vector = bend / _HALF_LABEL + 4.0 * np.maximum(0.0, 1.0 - inside / _ROOM)
    cost += 0.15 * (cdist(where, points) < _CROWD).sum(axis=1)
    cost += 20.0 * np.maximum(0.0, 1.0 - nearest / _ROOM)
    return cost
