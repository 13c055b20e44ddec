"""Classifiers with a threshold for each segment: what they share beyond one threshold for all rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taufpl._sklearn import Interval, num_samples
from taufpl._types import Array, RowIndices, Vector
from taufpl._warnings import warn_user
from taufpl.estimators._predictions import accuracy, labels_of
from taufpl.estimators._search import tau_grid
from taufpl.estimators._segments import RowSegments, labels_of_rows, read_segments
from taufpl.estimators._thresholded import ThresholdedMixin
from taufpl.exceptions import UnseenSegmentWarning
from taufpl.thresholding import SegmentThresholds, level_codes, shown_names

SEGMENT_CONSTRAINT: list[Any] = [str, Interval(Integral, 0, None, closed="left"), callable, None]

_NO_LABELS = (
    "this model has a threshold for each segment, and nothing says of which segment a row is: give segments=, one "
    "label a row."
)


class SegmentedMixin(ThresholdedMixin):
    """A threshold for all rows, or one for each segment."""

    segments: str | int | Callable[[Any], Any] | None = None  # models of older files do not say

    @abstractmethod
    def decision_function(self, X: Any, segments: Any = None) -> Vector:
        """Score minus threshold."""

    def predict(self, X: Any, segments: Any = None) -> Array:
        """The label of each row: positive where the score is strictly above the threshold.

        Parameters
        ----------
        X : rows of shape (n_samples, n_features)
            As `decision_function` takes them.
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, where limits are by segment and the parameter `segments` names no column of X.

        Returns
        -------
        array of shape (n_samples,)
            Where X is; labels that are text are a NumPy array where X is a tensor.
        """
        return labels_of(self.decision_function(X, segments), self.classes_)

    def score(self, X: Any, y: Any, sample_weight: Any = None, segments: Any = None) -> float:
        """Share of rows whose label is predicted.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
        y : {array-like, dask collection, tensor} of shape (n_samples,)
        sample_weight : {array-like, dask collection, tensor} of shape (n_samples,), default=None
        segments : array-like of shape (n_samples,), default=None
            As in `predict`.

        Returns
        -------
        float
        """
        return accuracy(y, self.predict(X, segments), sample_weight)

    def recalibrate(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        segments: Any = None,
        *,
        restart: bool = False,
        source: str | None = None,
    ) -> Self:
        """Choose the threshold anew from fresh negatives, without refitting: after a drift, say.

        It becomes the order statistic with a guarantee at `delta` (0.05 if that is None), provided that the scorer has
        never seen these negatives. `looks` says what holds for all thresholds over the life of the model together; with
        ``looks="any"`` the negatives are added to those before.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask collection, tensor} of shape (n_samples, n_features)
            Fresh negatives; with `y`, the negatives among the rows choose, and the positives tell the recall.
        y : array-like of shape (n_samples,), default=None
            Labels; None says that all rows are negatives.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group belong together: each group gives the threshold one negative, drawn at random.
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, as in `predict`. All thresholds are chosen anew: a segment without fresh negatives
            has no limit afterwards, and a threshold that is not below the one that it had; one that was not there
            before can have its own.
        restart : bool, default=False
            With ``looks="any"``: forget the negatives so far, and begin a new sequence, with half of the delta that is
            left. After a drift, say: thresholds of a sequence are about one source of negatives.
        source : str, default=None
            Where the rows came from, for `threshold_history_`.

        Returns
        -------
        self
            Its `threshold_`, `evidence_`, `segments_`, `fpr_estimate_` and `fpr_upper_bound_` are new, and
            `threshold_history_` has one more entry.
        """
        check_is_fitted(self)
        before = self.segments_
        if before is not None and segments is None and self.segments is None:
            raise ValueError(_NO_LABELS)
        known = () if before is None else (*before.members, *before.unproven)
        return self._recalibrate(X, y, groups, restart, source, self._row_segments(X, segments, known))

    def training_rows(self, y: Any, groups: Any = None, order: Any = None, segments: Any = None) -> RowIndices | None:
        """The rows that `fit` would learn from, for those who prepare the rows beforehand.

        What is decided before a fit (which columns are used, how they are scaled) is part of the scorer: for "np" it
        must not look at the rows that choose the threshold. It takes a `random_state` that is a number; with None every
        call divides the rows anew. A file of the classifier behind steps that have learned is not called guaranteed,
        whichever rows they learned from: it cannot tell.

        Parameters
        ----------
        y, groups, order : array-like of shape (n_samples,)
            As they will be given to `fit`.
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, also where `fit` finds them in a column of X.

        Returns
        -------
        ndarray of int, or None
            Row numbers, ascending; None where `fit` learns from all rows, because the threshold is not "np".
        """
        return self._training_rows(y, groups, order, self._segments_alone(segments, len(y)))

    def _segments_alone(self, given: Any, n_rows: int) -> RowSegments | None:
        """The segments of rows of which no columns are known."""
        if given is None and self.segments is not None:
            raise ValueError("training_rows sees no columns: give segments=, the label of each row's segment.")
        return read_segments(given, self.tau, n_rows)

    def _row_segments(self, X: Any, given: Any, known: Sequence[str] = ()) -> RowSegments | None:
        """The segments of rows that choose thresholds, with their tolerances; `known` ones may have no row."""
        labels = labels_of_rows(self.segments, X, given)
        found = read_segments(labels, self.tau, 0 if labels is None else num_samples(X), known)
        if found is None:
            tau_grid(self.tau, "tau")
            return None
        return found if callable(self.segments) else replace(found, column=self.segments)

    def _threshold_of(self, X: Any, given: Any) -> float | Vector:
        """The threshold of all rows, or that of each row's segment."""
        self._check_precision(X)
        if self.segments_ is None:
            if given is not None:
                raise ValueError(
                    "segments are given, and this model has one threshold for all rows: fit it with segments, or leave "
                    "them out."
                )
            return self._raw_threshold
        labels = labels_of_rows(self.segments, X, given)
        if labels is None:
            raise ValueError(_NO_LABELS)
        names, codes, _ = level_codes(labels, "segments", num_samples(X))
        _warn_unseen(self.segments_, names, codes)
        return self.segments_.thresholds(names)[codes]


def _warn_unseen(limits: SegmentThresholds, names: Sequence[str], codes: RowIndices) -> None:
    """Say which segments have no proven limit: those that had no negatives, or too few."""
    unseen = [place for place, name in enumerate(names) if name not in limits.members]
    if unseen:
        n_rows, shown = int(np.count_nonzero(np.isin(codes, unseen))), shown_names([names[place] for place in unseen])
        warn_user(
            f"{n_rows:,} of {codes.size:,} rows are of segments without a proven limit, which get the strictest "
            f"threshold and no guarantee: {shown}. Recalibrate with negatives of theirs.",
            UnseenSegmentWarning,
        )
