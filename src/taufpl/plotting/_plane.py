"""Points of a plane: those of two classes, and a grid of them with the scores of an estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, gen_batches
from sklearn.utils.validation import column_or_1d

from taufpl._types import Vector
from taufpl.plotting._scores import check_pos_label, respond

# Rows that are scored in one call: the memory that an estimator needs beside the grid does not grow with the grid.
_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class ClassPoints:
    """Points of one class, of shape (n, 2), and their scores."""

    points: Vector
    scores: Vector

    def __len__(self) -> int:
        return len(self.points)

    def above(self, threshold: float) -> ClassPoints:
        """Points that score strictly more than the threshold."""
        return self.take(self.scores > threshold)

    def take(self, chosen: Any) -> ClassPoints:
        """Points at some indices, or where a mask is true."""
        return ClassPoints(self.points[chosen], self.scores[chosen])

    def thinned(self, limit: int, rng: Any) -> ClassPoints:
        """At most `limit` points, chosen at random."""
        return self if len(self) <= limit else self.take(np.sort(rng.permutation(len(self))[:limit]))

    def thinned_below(self, threshold: float, limit: int, rng: Any) -> ClassPoints:
        """At most `limit` points; those above the threshold are kept as long as they are not more than half."""
        if len(self) <= limit:
            return self
        above = self.above(threshold).thinned(limit // 2, rng)
        below = self.take(~(self.scores > threshold)).thinned(limit - len(above), rng)
        return ClassPoints(np.concatenate([below.points, above.points]), np.concatenate([below.scores, above.scores]))


def check_points(estimator: Any, X: Any) -> Vector:
    """X as numbers, two columns of them."""
    n_features = getattr(estimator, "n_features_in_", 2)
    if n_features != 2:
        raise ValueError(
            f"estimator must have been fitted on two features, the axes of the picture; got {n_features}. "
            "Fit it on the two columns that you want to see, or draw its scores with ScoreDisplay."
        )
    points = check_array(X, dtype=np.float64, input_name="X")
    if points.shape[1] != 2:
        raise ValueError(
            f"X must have two features, the axes of the picture; got {points.shape[1]}. "
            "Pass the two columns that the estimator was fitted on."
        )
    return np.asarray(points, dtype=np.float64)


def axis_names(estimator: Any, X: Any) -> tuple[str, str] | None:
    """Names of the two features, where they are known."""
    names = getattr(X, "columns", getattr(estimator, "feature_names_in_", None))
    return None if names is None else (str(names[0]), str(names[1]))


def coordinates(values: Vector, resolution: int, padding: float) -> Vector:
    """Evenly from the least value to the greatest, with some room outside."""
    if not (np.isfinite(padding) and padding >= 0):
        raise ValueError(f"padding must be a share of the range, at least 0; got {padding!r}.")
    low, high = float(values.min()), float(values.max())
    room = padding * (high - low)
    if not high - low > 1e-12 * max(abs(low), abs(high)):
        room = 0.5 * max(abs(low), 1.0)  # one value has no range
    return np.linspace(low - room, high + room, resolution)


def score_grid(estimator: Any, X: Any, first: Vector, second: Vector, pos_label: Any) -> tuple[Vector, float]:
    """Scores on the grid, block by block, and the score above which a point is positive."""
    scores = np.empty(second.size * first.size)
    for block in gen_batches(scores.size, _BLOCK):
        row, column = np.divmod(np.arange(block.start, block.stop), first.size)
        scores[block], threshold, _ = respond(estimator, _like(X, first[column], second[row]), pos_label)
    return scores.reshape(second.size, first.size), threshold


def _like(X: Any, first: Vector, second: Vector) -> Any:
    """Points in the form of X, so that an estimator that picks columns by name finds them."""
    if hasattr(X, "columns"):
        return type(X)(dict(zip(X.columns, (first, second), strict=True)))
    return np.column_stack([first, second])


def split_points(points: Vector, y: ArrayLike, scores: Vector, pos_label: Any) -> dict[str, ClassPoints]:
    """Negatives and positives, under the names of the display's parameters."""
    labels = column_or_1d(y)
    if labels.size != len(points):
        raise ValueError(f"y must have one label a row of X, {len(points)}; got {labels.size}.")
    is_positive = labels == check_pos_label(labels, pos_label)
    kinds = {"negatives": ~is_positive, "positives": is_positive}
    return {name: ClassPoints(points[chosen], scores[chosen]) for name, chosen in kinds.items()}
