"""The fitter of stacks: their folds tell the recall, and what each column is worth, without further fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl.estimators._clone_fitter import CloneFitter
from taufpl.estimators.screening._stack import StackedScorer, can_divide


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
        encoded = model.encoded_table(train) if train.in_memory else None
        if encoded is None or not can_divide(encoded):
            return None
        drawn = encoded.units.one_each(encoded.positive_rows, model.seed_)
        own = [np.intersect1d(fold, drawn, assume_unique=True) for fold in model.first_division(encoded)]
        return [(model.of_fold(fold), train.part(train.rows[places])) for fold, places in enumerate(own) if places.size]
