"""Scores of fitted classifiers on the scale of log-odds, in double precision and without ties where they saturate."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from taufpl._types import Vector

# What makes `predict` give log-odds, by the package of the classifier: probabilities of XGBoost are in single precision
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
    package = type(model).__module__.partition(".")[0]
    if package in _RAW:
        return np.asarray(model.predict(X, **_RAW[package]), dtype=np.float64).ravel()
    if isinstance(model, RandomForestClassifier | ExtraTreesClassifier):
        votes = len(model.estimators_) * model.predict_proba(X)
        return np.log((votes[:, 1] + 0.5) / (votes[:, 0] + 0.5))
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X), dtype=np.float64)
    shares = np.asarray(model.predict_proba(X))
    least = np.finfo(shares.dtype if shares.dtype.kind == "f" else np.float64).eps
    shares = np.clip(shares.astype(np.float64), least, 1.0)
    return np.log(shares[:, 1] / shares[:, 0])
