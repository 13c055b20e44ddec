"""Model files as commands use them: the model, its labels, its layout, and a reader for rows of other files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from taufpl._types import Array, Vector
from taufpl.cli._data_file import DataFile, check_is_file
from taufpl.cli._errors import CommandLineError
from taufpl.cli._layout import Layout, layout_of
from taufpl.cli._row_reader import RowBatch, RowReader
from taufpl.cli._segments import as_numbers
from taufpl.estimators import steps_and_last, transformed, wrapped_head
from taufpl.exceptions import ModelFileError, UnseenSegmentWarning
from taufpl.operators import ignoring
from taufpl.persistence import SavedModel, load_model
from taufpl.thresholding import (
    FIT,
    RECALIBRATE,
    USUAL_DELTA,
    SegmentThresholds,
    ThresholdRecord,
    named_tolerances,
    tolerance_of,
)

# Commands count rows of such segments, and say so once.
_unwarned = ignoring(UnseenSegmentWarning)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A classifier out of a file, with the layout of its rows."""

    path: Path
    saved: SavedModel
    layout: Layout

    @property
    def model(self) -> Any:
        """The model with its preprocessing."""
        return self.saved.model

    @property
    def head(self) -> Any:
        """The estimator with the threshold, and the caveats of what is around it."""
        return wrapped_head(self.model)

    @property
    def training(self) -> dict[str, Any]:
        """What the header of the file says about the training rows."""
        return self.saved.header.training

    @property
    def classes(self) -> list[Any]:
        """Label of negatives, then of positives."""
        return list(np.asarray(self.head.classes_).tolist())

    @property
    def tau(self) -> float:
        """The strictest of several tolerances; of those by segment the loosest, which all rows together keep."""
        return float(np.min(self.head.tau) if self.limits is None else self.head.evidence_.tau)

    @property
    def limits(self) -> SegmentThresholds | None:
        """The limits by segment, where the model has some."""
        found: SegmentThresholds | None = self.head.segments_
        return found

    @property
    def tolerances(self) -> dict[str, float]:
        """The tolerances of a model with segments by canonical name, "others" being all that are not named."""
        return named_tolerances(self.head.tau)

    def tolerance_of(self, column: str) -> Callable[[str], float]:
        """The tolerance of a level of a column: of the model's segments their own, else that of all rows."""
        if self.limits is None or column != self.layout.segment:
            return lambda _: self.tau
        return partial(tolerance_of, named=self.tolerances)

    @property
    def delta(self) -> float:
        """The probability with which the guarantee may fail: the model's, or the usual one."""
        own = getattr(self.head, "delta", None)
        return USUAL_DELTA if own is None else float(own)

    def scores(self, rows: RowBatch) -> Vector:
        """Score minus threshold: above 0 exactly where the decision is positive."""
        try:
            scores = np.asarray(self._decisions(rows), dtype=np.float64)
        except ValueError as error:
            # The model counts the rows that it is given from 0.
            raise ValueError(f"in the rows from {rows.start + 1:,} on: {error}") from error
        is_nan = np.isnan(scores)
        if is_nan.any():
            row = rows.start + int(is_nan.argmax()) + 1
            raise ValueError(f"row {row:,}: its score is not a number; are its values too large? Leave the row out.")
        return scores

    def _decisions(self, rows: RowBatch) -> Any:
        if self.limits is None:
            return self.model.decision_function(rows.X)
        steps, head = steps_and_last(self.model)
        with _unwarned:
            return head.decision_function(transformed(steps, rows.X), **self._segments(rows))

    def _segments(self, rows: RowBatch) -> dict[str, Array]:
        """The segment of each row, for methods that take it beside X; nothing where the model needs none."""
        if self.limits is None or (rows.segments is None and self.head.segments is not None):
            return {}  # there are no segments, or a pipeline makes their column itself
        if rows.segments is None:
            raise ValueError(
                f"{self.path}: has a threshold for each segment, and was given the segments beside X: no column is "
                "known that holds them. Fit it by taufpl fit --segment, or name a column of X by segments=."
            )
        return {"segments": as_numbers(rows.segments) if self.limits.is_number else rows.segments}

    def labels(self, rows: RowBatch) -> Array | None:
        """The labels of rows as the model knows them; None where none were read."""
        return None if rows.labels is None else np.asarray(self.head.classes_)[rows.labels]

    @property
    def history(self) -> tuple[ThresholdRecord, ...]:
        """The thresholds that were chosen, the first one first; of older files what their header tells."""
        kept = tuple(self.head.threshold_history_)
        if kept:
            return kept
        found = self.head.evidence_[0] if isinstance(self.head.evidence_, tuple) else self.head.evidence_
        spent = found.delta or 0.0 if found.guaranteed else 0.0
        # The header was written anew by every recalibration: when the model was fitted is not known then.
        last = self.training.get("recalibrated")
        event, at = (RECALIBRATE, last.get("at")) if isinstance(last, dict) else (FIT, self.saved.header.created)
        return (ThresholdRecord(event, _time(at), found.n_negative, None, self.head.threshold_, spent),)

    def recalibrate(self, rows: RowBatch, restart: bool = False, source: str | None = None) -> None:
        """Choose the threshold anew; rows without labels are negatives."""
        steps, head = steps_and_last(self.model)
        head.threshold_history_ = self.history
        given = {"groups": rows.ids, "restart": restart, "source": source}
        head.recalibrate(transformed(steps, rows.X), self.labels(rows), **given, **self._segments(rows))

    def labelled_reader(
        self, file: DataFile, target: str | None, id_column: str | None = None, level_column: str | None = None
    ) -> RowReader:
        """A reader of rows with labels, in the column that is given or has the name of that in the training data."""
        target = (target or self.layout.target) if file.is_table else None
        if file.is_table and target is None:
            raise CommandLineError(
                "--target is needed: the model does not know the name of the column with the labels."
            )
        if level_column is not None and level_column == target:
            raise CommandLineError(f"--by {level_column} is the target.")
        return RowReader(file, self.layout, self.classes, target, id_column, level_column)


def _time(text: Any) -> str | None:
    """A time as it was written, or None where the text is none."""
    try:
        datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return str(text)


def open_model(path: Path) -> LoadedModel:
    """Load a model file; a ValueError says what is wrong with it."""
    check_is_file(path)
    saved = load_model(path)
    _, head = steps_and_last(saved.model)
    if not hasattr(head, "evidence_"):
        raise ValueError(f"{path}: is a ranking without a threshold that was chosen; fit a classifier.")
    if any(each.threshold != head.threshold_ for each in head.threshold_history_[-1:]):
        raise ModelFileError(
            f"{path} cannot be loaded: its history is that of another model, with the threshold "
            f"{head.threshold_history_[-1].threshold:g} in the place of {head.threshold_:g}."
        )
    try:
        return LoadedModel(path, saved, layout_of(saved.header, saved.model))
    except ValueError as error:
        raise ModelFileError(f"{path} cannot be loaded: {error}.") from error
