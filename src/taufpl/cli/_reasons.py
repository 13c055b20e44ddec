"""Reasons for decisions: what `fit` keeps of the negatives that train, and columns of reasons beside decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from taufpl._sklearn import safe_indexing
from taufpl._types import Mask
from taufpl.cli._loaded_model import LoadedModel
from taufpl.cli._pipelines import FitRows
from taufpl.cli._row_reader import RowBatch
from taufpl.cli._tables import arrow
from taufpl.inspection import TypicalNegatives, reasons, typical_negatives, unwrap_explainable

# Negatives that typical values are told from, and columns of which a header keeps something.
_MOST_NEGATIVES = 10_000
_MOST_COLUMNS = 100_000
# Rows between two words of progress.
_STEP = 100


def training_negatives(rows: FitRows, seed: int) -> Any:
    """A copy of some negatives that the scorer learns from, in no order; held-out ones are not looked at."""
    train = np.arange(len(rows.y)) if rows.train is None else rows.train
    negatives = train[rows.y[train] != rows.positive]
    return safe_indexing(rows.X, np.random.default_rng(seed).permutation(negatives)[:_MOST_NEGATIVES])


def typical_record(model: Any, negatives: Any) -> dict[str, Any]:
    """The entry of the header that reasons need; none where no reasons can be told."""
    if negatives.shape[1] > _MOST_COLUMNS:
        return {}
    try:
        return typical_negatives(model, negatives).record()
    except ValueError:  # a score that is not linear in thousands of columns
        return {}


class ReasonColumns:
    """The columns reason_1, reason_2, ... of a file of decisions: texts for rows that are flagged, else nothing."""

    def __init__(self, model: LoadedModel, n_reasons: int) -> None:
        self.model = model
        self.names = [f"reason_{place}" for place in range(1, n_reasons + 1)]
        try:
            if n_reasons:
                unwrap_explainable(model.model)
            self.negatives = TypicalNegatives.of_header(model.saved.header) if n_reasons else None
        except ValueError as error:
            raise ValueError(f"--reasons: {model.path}: {error}") from error

    def of(self, rows: RowBatch, is_flagged: Mask, tell: Callable[[str], None]) -> list[Any]:
        """One array of pyarrow a column."""
        texts: list[list[str | None]] = [[None] * len(rows) for _ in self.names]
        flagged = np.flatnonzero(is_flagged) if self.names else np.empty(0, np.intp)
        for start in range(0, flagged.size, _STEP):
            tell(f"reasons for {flagged.size:,} rows, {start:,} are done")
            some = flagged[start : start + _STEP]
            found = reasons(self.model.model, safe_indexing(rows.X, some), self.negatives, len(texts))
            for row, own in zip(some, found, strict=True):
                for place, reason in enumerate(own):
                    texts[place][row] = str(reason)
        return [arrow().array(each, arrow().string()) for each in texts]
