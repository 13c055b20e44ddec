"""What classifiers with a threshold on the score of any fitted scorer share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from taufpl._types import Mask, Vector
from taufpl._warnings import warn_user
from taufpl.estimators._clone_fitter import known_positive, with_model_rounding
from taufpl.estimators._predictions import (
    PredictionMixin,
    above_each,
    batch_caveat,
    decisions_of,
    mean_scores,
    scores_of,
    some_rows,
)
from taufpl.estimators._reading import score_table
from taufpl.estimators._segmented import SegmentedMixin
from taufpl.estimators._thresholded import forget
from taufpl.estimators.strategies import STRATEGIES, Outcome, Plan, limits_of
from taufpl.operators import is_remote
from taufpl.preprocessing import without_unseen_warnings


class ScorerClassifier(SegmentedMixin, PredictionMixin, BaseEstimator):
    """A threshold on the mean score of fitted scorers, `estimators_`, for all rows or for each segment."""

    estimators_: list[Any]

    def _keep_outcome(self, outcome: Outcome, X: Any) -> Self:
        self.estimators_ = list(outcome.models)
        self.estimator_ = self.estimators_[0]
        forget(self, "n_features_in_", "feature_names_in_")
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self._keep_evidence(self._looked_at(outcome, X), X)
        return self

    def _looked_at(self, outcome: Outcome, X: Any) -> Outcome:
        limits = outcome.evidence if outcome.segments is None else outcome.segments.evidence
        if is_remote(X) or not any(each.guaranteed for each in limits):
            return outcome
        rows = some_rows(X)
        with without_unseen_warnings:
            found = [batch_caveat("scores", self._raw_scores, rows, outcome.rounding.sums)]
        segments = getattr(self, "segments", None)
        if callable(segments):
            found.append(batch_caveat("segments", lambda some: np.asarray(segments(some)), rows))
        for caveat in filter(None, found):
            warn_user(
                f"{caveat}: the proof of the threshold needs a function of the row alone, and nothing is guaranteed. "
                "What looks at all rows of a call, such as a scaling to their range, must be learned in fit.",
                UserWarning,
            )
            outcome = outcome.without_guarantee(caveat)
        return outcome

    def _calibrated(self, raw: Any, X: Any, y: Any, groups: Any, plan: Plan, scorer: Any = None) -> Outcome:
        """Thresholds on the scores of rows that the scorer has not seen; scores without a scorer are not rounded."""
        self.strategy_ = "np" if self.threshold == "auto" else self.threshold
        if (self.threshold, self.insufficient) == ("auto", "raise") and plan.segments is None:
            # There is nothing to fall back on but the largest score, with a warning.
            plan = replace(plan, insufficient="largest")
        with score_table(self, raw, X, y, groups, plan) as (table, scores):
            scores = scores if scorer is None else with_model_rounding(scores, scorer)
            chosen = STRATEGIES[self.strategy_].calibrate(scores, plan)
            return limits_of(plan, table).calibrate(table, scores, chosen)

    def _raw_scores(self, X: Any) -> Any:
        def scored(model: Any) -> Any:
            return scores_of(model, X, known_positive(model, self.classes_))

        first = scored(self.estimators_[0])
        with without_unseen_warnings:  # the others would say nearly the same again
            return mean_scores([first, *map(scored, self.estimators_[1:])])

    def decision_function(self, X: Any, segments: Any = None) -> Vector:
        """Score minus threshold, positive exactly where `predict` says positive.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
        segments : array-like of shape (n_samples,), default=None
            The segment of each row, where limits are by segment and the parameter `segments` names no column of X.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        threshold = self._threshold_of(X, segments)
        return decisions_of(self._raw_scores(X), threshold)

    def decide(self, X: Any, segments: Any = None) -> Mask:
        """Whether each row is positive at each tolerance, in the order of `tau`.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
        segments : array-like of shape (n_samples,), default=None
            As in `decision_function`.

        Returns
        -------
        ndarray of bool of shape (n_samples, n_taus)
            With limits by segment there is one column.
        """
        check_is_fitted(self)
        threshold = self._threshold_of(X, segments)
        if self.segments_ is None:
            return above_each(self._raw_scores(X), self.thresholds_)
        above: Mask = self._raw_scores(X) > threshold
        return above[:, np.newaxis]
