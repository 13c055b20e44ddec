"""Model files as commands use them: the model with the layout of its rows, what it has seen, and what it never had."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import OneHotEncoder

from taufpl._row_hashes import MultisetHash, telling_hash
from taufpl._sklearn import safe_indexing
from taufpl._types import Array, Mask, Vector
from taufpl.cli._columns import Layout, as_numbers, layout_of
from taufpl.cli._data_file import DataFile, check_is_file, read_names
from taufpl.cli._errors import CommandLineError, note
from taufpl.cli._output import in_words, percent
from taufpl.cli._row_reader import RowBatch, RowReader
from taufpl.cli._training_file import transformers
from taufpl.estimators import ScoreScreen, steps_and_last, transformed, wrapped_head
from taufpl.exceptions import ModelFileError, UnseenSegmentWarning
from taufpl.operators import ignoring
from taufpl.persistence import Freshness, SavedModel, SeenRows, fingerprint, load_model
from taufpl.preprocessing import LevelEncoder, TableEncoder, TrainingColumn, UnseenCounter
from taufpl.thresholding import (
    FIT,
    RECALIBRATE,
    USUAL_DELTA,
    SegmentThresholds,
    ThresholdRecord,
    canonical,
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


# Keys under which the header of a model file keeps the record of groups, and, of a threshold on a column of scores, a
# hash of the negatives of each file that chose it.
GROUPS = "groups"
NEGATIVES = "negatives_that_chose"


@dataclass(slots=True)
class SeenCounter:
    """Counts, batch by batch, the rows of a file that the model has seen."""

    file: DataFile
    model: LoadedModel
    n_rows: int = 0
    n_hits: int = 0
    negatives: MultisetHash = field(default_factory=MultisetHash)

    def hits(self, rows: RowBatch) -> Mask:
        """Which rows equal one that the model has seen; none where the model file keeps no record."""
        seen = self.model.saved.seen
        found = np.zeros(len(rows), np.bool_) if seen is None else seen.contains(rows.X)
        self.n_rows += len(rows)
        self.n_hits += int(found.sum())
        if NEGATIVES in self.model.training:
            self.negatives = self.negatives.add(_negatives(rows))
        return found

    @property
    def chose_threshold(self) -> bool:
        """Whether the negatives, in whatever order, are those of a file that chose the threshold: told of scores."""
        return str(self.negatives) in _that_chose(self.model)

    def freshness(self) -> Freshness:
        """What the hits say; without a record in the model file, that nothing can be told."""
        seen = self.model.saved.seen
        if seen is None:
            return Freshness(self.n_rows, 0, chance=1.0, repeating=1.0)
        return seen.judge(self.n_hits, self.n_rows)

    def note(self) -> Freshness:
        """Say on stderr what the hits mean, unless all rows are new, and return it."""
        found, name = self.freshness(), self.file.name
        if self.chose_threshold:
            note(f"{name}: its negatives have chosen the threshold: on these the false-alarm rate flatters.")
        elif isinstance(self.model.head, ScoreScreen):
            note(f"{name}: a score does not tell one row from another; whether these rows are new cannot be told.")
        elif self.model.saved.seen is None:
            note(f"{name}: the model file keeps no record of its rows; whether these are new cannot be told.")
        elif not found.known:
            note(
                f"{name}: whether these rows are new cannot be told: rows of this table repeat by chance, as "
                f"{percent(found.repeating)} of the training rows do."
            )
        elif found.n_seen:
            note(f"{name}: {_in_words(found)}.")
        return found


def _in_words(found: Freshness) -> str:
    if found.n_seen == found.n_rows:
        return f"all {found.n_rows:,} rows have been seen by the model"
    count = f"{found.n_seen:,} of {found.n_rows:,} rows have been seen by the model"
    if found.separable:
        return f"{count} and are left out"
    return f"{count}, more than chance explains; as rows of this table repeat, which are new cannot be told"


def seen_before(n_seen: int | None) -> str:
    """A number of rows that the model has seen, in words."""
    return "cannot be told" if n_seen is None else f"{n_seen:,} rows"


def is_training_file(model: LoadedModel, rows: RowBatch) -> bool:
    """Whether these are the very rows of the fit, in their order: told for tables in which rows repeat, too."""
    labels = model.labels(rows)
    return labels is not None and bool(model.training.get("fingerprint") == fingerprint(rows.X, labels))


def scores_record(file: DataFile, model: LoadedModel, rows: RowBatch) -> dict[str, list[str]]:
    """What the header keeps of files of scores that chose the threshold, with this one, which must be a new one."""
    if not isinstance(model.head, ScoreScreen):
        return {}
    earlier, new = _that_chose(model), telling_hash(_negatives(rows))
    if new in earlier:
        raise ValueError(
            f"{file.name}: its negatives have chosen the threshold before; a negative counts once. Give rows that came "
            "later."
        )
    return {NEGATIVES: earlier if new is None else [*earlier, new]}


def _that_chose(model: LoadedModel) -> list[str]:
    """Hashes of the negatives that chose the threshold, as far as the header tells."""
    found = model.training.get(NEGATIVES)
    return [str(each) for each in found] if isinstance(found, list) else []


def _negatives(rows: RowBatch) -> Any:
    """The negatives of rows; all where there are no labels."""
    return rows.X if rows.labels is None else safe_indexing(rows.X, np.flatnonzero(rows.labels == 0))


def fresh_rows(file: DataFile, model: LoadedModel, rows: RowBatch) -> tuple[RowBatch, int | None]:
    """The rows that the model has not seen, and the number of those it has (None: cannot be told).

    Refused are the very rows of the fit, and rows of which the model has seen some, and nobody can tell which.
    """
    if is_training_file(model, rows):
        raise ValueError(
            f"{file.name}: the model was fitted on these very rows; a guarantee takes negatives it has never seen."
        )
    counter = SeenCounter(file, model)
    hits, found = counter.hits(rows), counter.freshness()
    if found.n_seen and not found.separable:
        raise ValueError(f"{file.name}: {_in_words(found)}. Give rows that came after the model was made.")
    counter.note()
    return rows.take(~hits) if found.n_seen else rows, found.n_seen


def record_groups(groups: Any, earlier: str | None = None) -> str:
    """A record of these groups, and of those of an earlier one, as text for the header of a model file."""
    seen = SeenRows() if earlier is None else SeenRows.from_bytes(base64.b64decode(earlier))
    return base64.b64encode(seen.add(np.unique(_texts(groups))[:, np.newaxis]).to_bytes()).decode()


def in_known_group(model: LoadedModel, rows: RowBatch) -> Mask:
    """Which rows belong to a group that the model has seen; none where there are no groups, or no record of them."""
    record = model.training.get(GROUPS)
    if rows.ids is None or record is None:
        return np.zeros(len(rows), np.bool_)
    return SeenRows.from_bytes(base64.b64decode(record)).contains(_texts(rows.ids)[:, np.newaxis])


def counting_rows(rows: RowBatch, counted: set[tuple[str, int]]) -> Mask:
    """Which rows count: all, or the first of each group and class, of which `counted` holds those of other batches."""
    found = np.ones(len(rows), np.bool_)
    if rows.ids is not None and rows.labels is not None:
        for place, key in enumerate(zip(_texts(rows.ids).tolist(), rows.labels.tolist(), strict=True)):
            found[place] = key not in counted
            counted.add(key)
    return found


def group_column(file: DataFile, model: LoadedModel) -> str | None:
    """The column that the model was fitted with as --group, where the file has it; a note says where it does not."""
    name = model.layout.group
    if name is None or (file.is_table and name in read_names(file)):
        return name
    note(f"{file.name}: has no column {name!r}, by which the model was fitted: rows count as independent.")
    return None


def _texts(groups: Any) -> Array:
    """Groups as texts: the same whether a file has them as numbers or as texts."""
    return np.array([canonical(each) for each in np.asarray(groups, dtype=object).tolist()], dtype=object)


# Remarks on one file that are printed; of the others only their number.
_MOST_REMARKS = 5


@dataclass(frozen=True, slots=True)
class Unseen:
    """Counters of values, by column, and of segments that a model does not know."""

    values: UnseenCounter
    segments: UnseenSegments

    @classmethod
    def by(cls, model: LoadedModel) -> Unseen:
        """Counters that have seen nothing yet."""
        return cls(_value_counter(model), UnseenSegments(model.limits))

    def update(self, rows: RowBatch) -> None:
        """Count some rows."""
        self.values.update(rows.X)
        self.segments.update(rows.segments)

    def note(self, file: DataFile) -> None:
        """Say on stderr what is remarkable."""
        remarks = self.values.remarks()
        for remark in remarks[:_MOST_REMARKS]:
            note(f"{file.name}, column {remark}.")
        if len(remarks) > _MOST_REMARKS:
            note(f"{file.name}: {len(remarks) - _MOST_REMARKS:,} more such remarks on values; --json has all counts.")
        self.segments.note(file)

    def record(self) -> dict[str, Any]:
        """All counts, for a document."""
        return {"unseen": self.values.record(), "unseen_segments": self.segments.record()}


class UnseenSegments:
    """Counts rows of segments without a proven limit, which the strictest threshold decides."""

    def __init__(self, limits: Any) -> None:
        self._limits = limits
        self._counts: Counter[str] = Counter()

    def update(self, labels: Array | None) -> None:
        """Count some rows."""
        if self._limits is not None and labels is not None:
            self._counts.update(labels[~self._limits.is_known(labels)].tolist())

    def record(self) -> dict[str, Any] | None:
        """The numbers of rows, for a document; None for models without segments."""
        if self._limits is None:
            return None
        return {"n_rows": self._counts.total(), "segments": dict(self._counts.most_common())}

    def note(self, file: DataFile) -> None:
        """Say on stderr how many rows there were, if any."""
        if self._counts:
            names = [name for name, _ in self._counts.most_common()]
            note(
                f"{file.name}: {self._counts.total():,} rows are of segments without a proven limit, which get the "
                f"strictest threshold and no guarantee: {in_words(names)}."
            )


def _value_counter(model: LoadedModel) -> UnseenCounter:
    """A counter of values that the training rows never had.

    The columns of sparse rows, and of models that neither a command nor an encoder has planned, have no record: nothing
    is counted there.
    """
    known, training = _levels(model.model), model.training
    n_rows = model.layout.n_rows or int(training.get("n_negative") or 0) + int(training.get("n_positive") or 0)
    columns = [column for column in model.layout.used if column.kind not in ("open", "dropped")]
    # Later rows have later dates: their range says nothing.
    ranges = [(None, None) if column.kind == "date" else (column.low, column.high) for column in columns]
    return UnseenCounter(
        TrainingColumn(column.name, n_rows, column.n_missing, *ends, known.get(column.name))
        for column, ends in zip(columns, ranges, strict=True)
    )


def _levels(model: Any) -> dict[str, frozenset[Any]]:
    """All levels, rare ones included, that the encoders of a model have seen, by column."""
    found: dict[str, frozenset[Any]] = {}
    for step in transformers(model):
        for name, levels in _levels_of(step):
            found[name] = found.get(name, frozenset()) | {each for each in levels if each is not None}
    return found


def _levels_of(step: Any) -> list[tuple[str, Any]]:
    """Columns of an encoder with their levels."""
    if isinstance(step, TableEncoder):
        # The estimator that was cloned is not fitted itself.
        parts = [(each, columns) for name, each, columns in getattr(step, "parts_", []) if name == "categories"]
        return [
            (step.columns_[place].name, levels)
            for each, columns in parts
            for place, levels in zip(columns, each.categories_, strict=True)
        ]
    if isinstance(step, LevelEncoder | OneHotEncoder) and hasattr(step, "feature_names_in_"):
        return list(zip(step.feature_names_in_, step.categories_, strict=True))
    return []
