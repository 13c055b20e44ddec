"""What a file has that the training rows never had, told in the same way by every command that reads rows."""

from __future__ import annotations

from typing import Any

from sklearn.preprocessing import OneHotEncoder

from taufpl.cli._errors import note
from taufpl.cli._pipelines import transformers
from taufpl.cli._saved import Saved
from taufpl.preprocessing import LevelEncoder, TrainingColumn, UnseenCounter

# Remarks on one file that are printed; of the others only their number.
_MOST_REMARKS = 5


def unseen_counter(saved: Saved) -> UnseenCounter:
    """A counter that knows the training rows of a model.

    The columns of sparse rows, and of models that no command has fitted, have no record: nothing is counted in them.
    """
    known, training = _levels(saved.model), saved.header.training
    n_rows = saved.layout.n_rows or int(training.get("n_negative") or 0) + int(training.get("n_positive") or 0)
    return UnseenCounter(
        TrainingColumn(column.name, n_rows, column.n_missing, column.low, column.high, known.get(column.name))
        for column in saved.layout.used
        if column.kind != "open"
    )


def note_unseen(name: str, counter: UnseenCounter) -> None:
    """Say on stderr what is remarkable in a file."""
    remarks = counter.remarks()
    for remark in remarks[:_MOST_REMARKS]:
        note(f"{name}, column {remark}.")
    if len(remarks) > _MOST_REMARKS:
        note(f"{name}: {len(remarks) - _MOST_REMARKS:,} more such remarks on values; --json has all counts.")


def _levels(model: Any) -> dict[str, frozenset[Any]]:
    """All levels, rare ones included, that the encoders of a model have seen, by column."""
    found: dict[str, frozenset[Any]] = {}
    for step in transformers(model):
        if isinstance(step, LevelEncoder | OneHotEncoder) and hasattr(step, "feature_names_in_"):
            for name, levels in zip(step.feature_names_in_, step.categories_, strict=True):
                found[name] = found.get(name, frozenset()) | {each for each in levels if each is not None}
    return found
