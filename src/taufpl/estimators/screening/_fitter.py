"""The fitter of stacks: their folds tell the recall, and what each column is worth, without further fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl.estimators._clone_fitter import CloneFitter
from taufpl.estimators.screening._stack import StackedScorer


class StackFitter(CloneFitter):
    """Fits stacks, which remember the rows that they were fitted on."""

    def fit(self, table: Any, near: Any = None) -> Any:
        """Fit a stack."""
        model = super().fit(table, near)
        if table.in_memory:
            model.training_rows_ = table.rows
        return model

    def unseen_parts(self, model: StackedScorer, train: Any) -> list[tuple[Any, Any]] | None:
        """The part of the stack without a fold, with the positives of the fold, one of each group or set of copies.

        A stack of remote rows has no folds.
        """
        if not train.in_memory:
            return None
        encoded = model.encoded_table(train)
        division = model.first_division(encoded)
        if len(division) < 2:
            return None
        drawn = encoded.units.one_each(encoded.positive_rows, model.seed_)
        own = [np.intersect1d(fold, drawn, assume_unique=True) for fold in division]
        return [(model.of_fold(fold), train.part(train.rows[places])) for fold, places in enumerate(own) if places.size]
