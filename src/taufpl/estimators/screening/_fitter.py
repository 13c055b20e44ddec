"""The fitter of stacks: their folds tell the recall, and what each column is worth, without further fits."""

from __future__ import annotations

from typing import Any

from taufpl._types import Array
from taufpl.estimators._array_table import ArrayTable
from taufpl.estimators._clone_fitter import CloneFitter
from taufpl.estimators.screening._stack import StackedScorer


class StackFitter(CloneFitter):
    """Fits stacks, and remembers the first with its rows: the one that is kept."""

    def __init__(self, scorer: StackedScorer, classes: Array) -> None:
        super().__init__(scorer, classes)
        self.first: tuple[StackedScorer, ArrayTable] | None = None

    def fit(self, table: Any, near: Any = None) -> Any:
        """Fit a stack."""
        model = super().fit(table, near)
        self.first = self.first or (model, table)
        return model

    def unseen_parts(self, model: StackedScorer, train: Any) -> list[tuple[Any, Any]]:
        """The part of the stack without a fold, with the rows of the fold; for all rows of one division."""
        rows, division = train.rows, model.first_division(train)
        return [(model.of_fold(fold), train.part(rows[held_out])) for fold, held_out in enumerate(division)]
