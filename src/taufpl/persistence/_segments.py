"""Thresholds by segment as exports need them: where labels of segments come from, and the threshold of each label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._row_hashes import is_missing
from taufpl._types import Array
from taufpl.exceptions import ExportError
from taufpl.persistence._unwrap import UnwrappedModel, finite
from taufpl.thresholding import MISSING_LEVEL, SegmentThresholds

# Ways to write a truth value.
_TRUTH = {"false": ("false", "False", "FALSE"), "true": ("true", "True", "TRUE")}
# Digits to which whole numbers in texts may be filled up by zeros.
_MOST_DIGITS = 12
# A label of a sample that no segment has.
_UNSEEN = "a segment never seen"


@dataclass(frozen=True, slots=True)
class SegmentLabels:
    """The column with the labels of segments, and the thresholds.

    `place` is that of the column among those that the classifier sees; None says that the column stands beside them.
    """

    limits: SegmentThresholds
    column: str
    place: int | None

    @property
    def missing(self) -> float:
        """The threshold of rows without a label."""
        return finite(self.limits.by_segment.get(MISSING_LEVEL, self.limits.strictest))

    @property
    def unknown(self) -> float:
        """The threshold of all other labels, the strictest."""
        return finite(self.limits.strictest)

    @property
    def are_truth_values(self) -> bool:
        """Whether all labels are truth values, or texts that say so."""
        return {*self.limits.members, *self.limits.unproven} <= {*_TRUTH, MISSING_LEVEL}

    def texts(self) -> dict[str, float]:
        """The threshold of each text that is a label: 12, 012 and 12.0 are ways to write the same."""
        # The text "missing" is read as no label is.
        known = {MISSING_LEVEL: self.missing, **self.limits.by_segment}
        ways = {text: name for name in known for text in _ways_to_write(name)}
        # What is itself the name of a segment is no way to write another.
        return {text: finite(known[name]) for text, name in (ways | {name: name for name in known}).items()}

    def numbers(self) -> dict[int | float, float]:
        """The threshold of each number that is a label; truth values are 0 and 1."""
        known = {name: each for name, each in self.limits.by_segment.items() if name != MISSING_LEVEL}
        return {_number(name): finite(threshold) for name, threshold in known.items()}

    def sample(self, n_rows: int) -> Array:
        """Labels of all segments, of one that was never seen, and missing ones, in turn."""
        names = [*self.limits.members, *self.limits.unproven]
        labels: list[Any] = [name for name in names if name != MISSING_LEVEL]
        if self.limits.is_number:
            labels = [*map(_number, labels), max(map(abs, map(_number, labels)), default=0.0) + 1.0, np.nan]
            return np.resize(np.array(labels, dtype=np.float64), n_rows)
        return np.resize(np.array([*labels, _UNSEEN, None], dtype=object), n_rows)

    def as_known(self, labels: Any, *, is_text: bool) -> Array:
        """Labels of rows for the model, as an export knows them: other ways to write them were never seen."""
        values = np.asarray(labels, dtype=object).tolist()
        if is_text:
            known = {*self.texts(), ""}
            values = [each if is_missing(each) or each in known else _UNSEEN for each in values]
        elif self.are_truth_values:
            values = [None if is_missing(each) else bool(each) for each in values]
        return np.array([*values, None], dtype=object)[:-1]


def _ways_to_write(name: str) -> list[str]:
    """Texts that the model reads as this label."""
    if name in _TRUTH:
        return list(_TRUTH[name])
    if not (name.isascii() and name.isdigit()):
        return [name]
    return [*(name.zfill(width) for width in range(len(name), max(_MOST_DIGITS, len(name)) + 1)), f"{name}.0"]


def _number(name: str) -> int | float:
    if name in _TRUTH:
        return int(name == "true")
    try:
        return int(name)
    except ValueError:
        return float(name)


def segment_labels(model: UnwrappedModel, given: str | None) -> SegmentLabels | None:
    """Where a model with thresholds by segment finds labels; None for models with one threshold.

    `given` names the column of labels that were given to the fit beside X.
    """
    head, limits = model.head, getattr(model.head, "segments_", None)
    if limits is None:
        if given is not None:
            raise ValueError(f"segment_column={given!r} is for models with segments; this one has a single threshold.")
        return None
    if callable(head.segments):
        raise ExportError(
            "the segments of the model come from a function of X, which no export can hold. Name a column of X by "
            "segments, or give the labels with the rows and fit again."
        )
    place = _place(model, limits.column)
    if place is None:
        column = limits.column if given is None else given
        if column is None:
            raise ExportError(
                "the labels of segments were given beside X: name the column that will hold them by segment_column."
            )
        return SegmentLabels(limits, str(column), None)
    name = _seen_names(model)[place]
    if given not in (None, name):
        raise ValueError(f"segment_column={given!r}: the model finds its segments in its own column {name!r}.")
    return SegmentLabels(limits, name, place)


def _place(model: UnwrappedModel, column: str | int | None) -> int | None:
    """The place of a column among those that the classifier sees; None where it was given beside them."""
    if isinstance(column, str):
        names = _seen_names(model)
        return names.index(column) if column in names else None
    return column


def _seen_names(model: UnwrappedModel) -> tuple[str, ...]:
    """Names of the columns that the classifier sees, which steps before it have made."""
    if not model.steps:
        return model.known_names or ()
    count = int(getattr(model.head, "n_features_in_", 0))
    return tuple(map(str, getattr(model.head, "feature_names_in_", map("x{}".format, range(count)))))
