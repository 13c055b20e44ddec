"""Model files as commands use them: the model, its labels and its layout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.cli._errors import CommandLineError
from taufpl.cli._layout import Layout, layout_of
from taufpl.cli._pipelines import before, head_of
from taufpl.cli._rows import Rows
from taufpl.cli._source import TABLES, Source
from taufpl.exceptions import ModelFileError
from taufpl.persistence import ModelHeader, SeenRows, load_model


@dataclass(frozen=True, slots=True)
class Saved:
    """A model out of a file."""

    path: Path
    model: Any
    header: ModelHeader
    layout: Layout
    seen: SeenRows | None

    @property
    def head(self) -> Any:
        """The estimator with the threshold."""
        return head_of(self.model)

    @property
    def classes(self) -> list[Any]:
        """Label of negatives, then of positives."""
        return list(np.asarray(self.head.classes_).tolist())

    @property
    def tau(self) -> float:
        """The strictest tolerance."""
        return float(np.min(self.head.tau))

    @property
    def delta(self) -> float:
        """The model's, or the usual one."""
        own = getattr(self.head, "delta", None)
        return 0.05 if own is None else float(own)

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """Score minus threshold: positive exactly where the decision is."""
        scores = np.asarray(self.model.decision_function(rows.X), dtype=np.float64)
        is_nan = np.isnan(scores)
        if is_nan.any():
            row = rows.start + int(is_nan.argmax()) + 1
            raise ValueError(f"row {row:,}: its score is not a number; are its values too large? Leave the row out.")
        return scores

    def recalibrate(self, rows: Rows) -> None:
        """Choose the threshold anew; rows without labels are negatives."""
        labels = None if rows.labels is None else np.asarray(self.head.classes_)[rows.labels]
        self.head.recalibrate(before(self.model, rows.X), labels, groups=rows.ids)

    def target_in(self, source: Source, given: str | None) -> str | None:
        """The column with the labels: as given, or as in the training data."""
        if source.format not in TABLES:
            return None
        target = given or self.layout.target
        if target is None:
            raise CommandLineError(
                "--target is needed: the model does not know the name of the column with the labels."
            )
        return target


def open_model(path: Path) -> Saved:
    """Load a model file.

    Raises
    ------
    ValueError
        It is none, or is damaged; the message says why.
    """
    if not path.exists():
        raise ValueError(f"{path}: there is no such file.")
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; name a model file.")
    saved = load_model(path)
    if not hasattr(head_of(saved.model), "evidence_"):
        raise ValueError(f"{path}: is a ranking without a threshold that was chosen; fit a classifier.")
    try:
        layout = layout_of(saved.header, saved.model)
    except ValueError as error:
        raise ModelFileError(f"{path} cannot be loaded: {error}.") from error
    return Saved(path, saved.model, saved.header, layout, saved.seen)
