"""Steps of fitted pipelines, and the estimator that these, searches and freezers end in."""

from __future__ import annotations

from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from taufpl._sklearn import BaseSearchCV


def last_step(model: Any) -> Any:
    """The model itself, or the last step of a pipeline."""
    return model[-1] if isinstance(model, Pipeline) else model


def steps_and_last(model: Any) -> tuple[tuple[Any, ...], Any]:
    """The fitted transformers before the last estimator of pipelines, searches and freezers, and that estimator."""
    steps: tuple[Any, ...] = ()
    while True:
        if isinstance(model, Pipeline):
            steps += tuple(step for _, step in model.steps[:-1])
            model = model.steps[-1][1]
        elif isinstance(model, BaseSearchCV):
            check_is_fitted(model)
            model = model.best_estimator_
        elif isinstance(model, FrozenEstimator):
            model = model.estimator
        else:
            return steps, model


def transformed(steps: tuple[Any, ...], X: Any) -> Any:
    """Rows after fitted steps; "passthrough" and samplers, which change rows of a fit alone, have no `transform`."""
    for step in steps:
        X = step.transform(X) if hasattr(step, "transform") else X
    return X
