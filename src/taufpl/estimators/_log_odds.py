"""Scores of fitted classifiers on the scale of log-odds, in double precision and without ties where they saturate."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from taufpl._types import Vector
from taufpl.estimators._libraries import library_of
from taufpl.estimators._steps import steps_and_last, transformed

# Probabilities below this count as this.
LEAST_SHARE = float(np.finfo(np.float64).eps)
# What makes `predict` give log-odds, by the library of the classifier: probabilities of XGBoost are in single precision
# and tie near 1, where a small tolerance looks.
_RAW: dict[str, dict[str, Any]] = {
    "lightgbm": {"raw_score": True},
    "xgboost": {"output_margin": True},
    "catboost": {"prediction_type": "RawFormulaVal"},
}


def log_odds(model: Any, X: Any) -> Vector:
    """Log-odds of label 1 by a classifier that was fitted on the labels 0 and 1, or what it decides by.

    A forest of T trees of which a share p votes for 1 has log((p T + 1/2) / ((1 - p) T + 1/2)), which is finite.
    """
    steps, model = steps_and_last(model)
    X, library = transformed(steps, X), library_of(model)
    if library in _RAW:
        return np.asarray(model.predict(X, **_RAW[library]), dtype=np.float64).ravel()
    if isinstance(model, RandomForestClassifier | ExtraTreesClassifier):
        votes = len(model.estimators_) * model.predict_proba(X)
        return np.log((votes[:, 1] + 0.5) / (votes[:, 0] + 0.5))
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X), dtype=np.float64)
    shares = np.clip(np.asarray(model.predict_proba(X), dtype=np.float64), LEAST_SHARE, 1.0)
    return np.log(shares[:, 1] / shares[:, 0])
