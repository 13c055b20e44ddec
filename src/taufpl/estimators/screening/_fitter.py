"""The fitter of stacks: their folds tell the recall, and what each column is worth, without further fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl._sklearn import safe_indexing
from taufpl._types import Vector
from taufpl.estimators._clone_fitter import CloneFitter
from taufpl.estimators.screening._stack import StackedScorer, can_divide
from taufpl.thresholding import ArraySample


class StackFitter(CloneFitter):
    """Fits stacks, which remember the rows that they were fitted on."""

    def fit(self, table: Any, near: Any = None) -> Any:
        """Fit a stack."""
        model = super().fit(table, near)
        if table.in_memory:
            model.training_rows_ = table.rows
        return model

    def unseen_positives(self, model: StackedScorer, train: Any) -> ArraySample | None:
        """Scores by the part of the stack without the fold of each positive, one of each group.

        A stack of remote rows has no folds.
        """
        if not train.in_memory or not can_divide(train):
            return None
        drawn = train.units.one_each(train.positive_rows, model.seed_)
        parts: list[Vector] = []
        for fold, held_out in enumerate(model.first_division(train)):
            own = np.intersect1d(train.rows[held_out], drawn, assume_unique=True)
            if own.size:
                parts.append(model.of_fold(fold).decision_function(safe_indexing(train.X, own)))
        return ArraySample(np.concatenate(parts))
