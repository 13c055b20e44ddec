"""A scorer of the stack: fitted without each fold, and standardised by the negatives that it has not seen."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from taufpl._types import Mask, Matrix, RowIndices, Vector
from taufpl.estimators._log_odds import log_odds
from taufpl.estimators._progress import watching
from taufpl.operators import one_blas_thread


@dataclass(frozen=True, slots=True)
class FoldFit:
    """A candidate fitted without a fold, and the standardised scores that it gives to the rows of the fold."""

    model: Any
    center: float
    scale: float
    scores: Vector
    seconds: float


@dataclass
class StackMember:
    """A scorer of the stack: models of its folds, and how much their mean score counts.

    The score of a model is standardised by `center` and `scale`, the mean and the standard deviation that it gives to
    the negatives of the fold that it has not seen: rankings have no scale of their own, and models of other rows have
    another one.
    """

    name: str
    models: list[Any]
    centers: list[float]
    scales: list[float]
    weight: float

    @classmethod
    def of(cls, name: str, fits: list[FoldFit], weight: float) -> StackMember:
        """The member of these fits."""
        return cls(
            name,
            [fitted.model for fitted in fits],
            [fitted.center for fitted in fits],
            [fitted.scale for fitted in fits],
            weight,
        )

    def scores(self, Z: Any) -> Matrix:
        """Standardised scores of encoded rows by the model of each fold, of shape (n_rows, n_folds)."""
        parts = zip(self.models, self.centers, self.scales, strict=True)
        return np.column_stack([(log_odds(model, Z) - center) / scale for model, center, scale in parts])

    def of_fold(self, fold: int) -> StackMember:
        """The member with the model of one fold alone."""
        own = slice(fold, fold + 1)
        return replace(self, models=self.models[own], centers=self.centers[own], scales=self.scales[own])


def fit_fold(name: str, model: Any, Z: Any, is_positive: Mask, train: RowIndices, held_out: RowIndices) -> FoldFit:
    """Fit a candidate on some encoded rows, and score those of its fold."""
    began = time.perf_counter()
    # Many small fits: threads of OpenMP would wait for each other. `n_jobs` is how the cores are used. OpenMP has a
    # limit for each thread; that of BLAS belongs to the process, and is shared.
    # The stack tells of its folds; what a candidate does inside is too fine.
    with one_blas_thread, threadpool_limits(1, user_api="openmp"), watching(None):
        try:
            model.fit(Z[train], is_positive[train].astype(np.intp))
            scores = log_odds(model, Z[held_out])
        except Exception as error:
            error.add_note(f"The candidate was {name!r}.")
            raise
    if scores.shape != held_out.shape or not np.isfinite(scores).all():
        raise ValueError(f"candidate {name!r} must give every row one finite score; it gave NaN, infinity, or several.")
    negative = scores[~is_positive[held_out]]
    center, scale = float(negative.mean()), float(negative.std())
    # Scores that are all the same say nothing, and stay as they are.
    scale = scale if scale > 0 else 1.0
    return FoldFit(model, center, scale, (scores - center) / scale, time.perf_counter() - began)
