"""Values and segments of a file that the training rows never had: counted batch by batch, noted, told in documents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from sklearn.preprocessing import OneHotEncoder

from taufpl._types import Array
from taufpl.cli._by_level import in_words
from taufpl.cli._data_file import DataFile
from taufpl.cli._errors import note
from taufpl.cli._loaded_model import LoadedModel
from taufpl.cli._pipelines import transformers
from taufpl.cli._row_reader import RowBatch
from taufpl.preprocessing import LevelEncoder, TableEncoder, TrainingColumn, UnseenCounter

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
