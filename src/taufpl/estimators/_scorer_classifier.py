"""What classifiers with a threshold on the score of any fitted scorer share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from taufpl._types import Mask, Vector
from taufpl.estimators._clone_fitter import known_positive
from taufpl.estimators._linear import score_rounding
from taufpl.estimators._predictions import PredictionMixin, above_each, decisions_of, mean_scores, scores_of
from taufpl.estimators._reading import score_table
from taufpl.estimators._steps import last_step
from taufpl.estimators._thresholded import ThresholdedMixin, forget, fresh_evidence
from taufpl.estimators.strategies import STRATEGIES, Outcome, largest
from taufpl.operators import to_numpy
from taufpl.thresholding import Evidence


class ScorerClassifier(ThresholdedMixin, PredictionMixin, BaseEstimator):
    """A threshold on the mean score of fitted scorers, `estimators_`."""

    estimators_: list[Any]

    def _keep_outcome(self, outcome: Outcome) -> Self:
        self.estimators_ = list(outcome.models)
        self.estimator_ = self.estimators_[0]
        forget(self, "n_features_in_", "feature_names_in_")
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self._keep_evidence(outcome.evidence, self._rounding(outcome.scale))
        return self

    def _calibrated(self, raw: Any, X: Any, y: Any, groups: Any) -> tuple[tuple[Evidence, ...], float]:
        """Evidence of thresholds on the scores of rows that the scorer has not seen, and the size of the largest."""
        plan = self._plan()
        self.strategy_ = "np" if self.threshold == "auto" else self.threshold
        if (self.threshold, self.insufficient) == ("auto", "raise"):
            # There is nothing to fall back on but the largest score, with a warning.
            plan = replace(plan, insufficient="largest")
        with score_table(self, raw, X, y, groups, plan) as (table, scores):
            evidence = fresh_evidence(table, scores, STRATEGIES[self.strategy_].calibrate(scores, plan))
            return evidence, max(largest(scores.negative), largest(scores.positive))

    def _rounding(self, scale: float) -> float:
        """Scores may come in single precision, and a large intercept may hide terms that cancel in them."""
        last = last_step(self.estimator_)
        hidden = float(np.max(np.abs(to_numpy(getattr(last, "intercept_", 0.0))), initial=0.0))
        single = to_numpy(getattr(last, "coef_", 0.0)).dtype == np.float32
        return score_rounding(scale + hidden, np.float32 if single else np.float64)

    def _raw_scores(self, X: Any) -> Any:
        return mean_scores([scores_of(model, X, known_positive(model, self.classes_)) for model in self.estimators_])

    def decision_function(self, X: Any) -> Vector:
        """Score minus threshold, positive exactly where `predict` says positive.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return decisions_of(self._raw_scores(X), self._raw_threshold)

    def decide(self, X: Any) -> Mask:
        """Whether each row is positive at each tolerance, in the order of `tau`.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of bool of shape (n_samples, n_taus)
        """
        check_is_fitted(self)
        return above_each(self._raw_scores(X), self.thresholds_)
