"""Steps of fitted pipelines, and the estimator that these, searches and freezers end in."""

from __future__ import annotations

from copy import copy
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from taufpl._sklearn import BaseSearchCV, is_fitted
from taufpl.thresholding import FIT, Evidence


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


def wrapped_head(model: Any) -> Any:
    """The last estimator of pipelines, searches and freezers, with what these leave of its evidence.

    It is a copy where they void the guarantee, which the estimator itself cannot know.
    """
    _, head = steps_and_last(model)
    # A threshold that was proven anew rests on rows that came after the wrapping.
    is_anew = any(each.event != FIT and each.delta_spent > 0 for each in getattr(head, "threshold_history_", ()))
    caveats = _wrapping_caveats(model) if hasattr(head, "evidence_") and not is_anew else []
    if not caveats:
        return head

    def void(evidence: Evidence) -> Evidence:
        return evidence.without_guarantee(*caveats)

    told, evidence = copy(head), head.evidence_
    told.evidence_ = tuple(map(void, evidence)) if isinstance(evidence, tuple) else void(evidence)
    if head.segments_ is not None:
        told.segments_ = head.segments_.with_evidence(void)
    return told


def _wrapping_caveats(model: Any) -> list[str]:
    """Why a threshold is not proven for the pipelines and searches around its estimator."""
    found: list[str] = []
    while True:
        if isinstance(model, Pipeline):
            learned = [type(step).__name__ for _, step in model.steps[:-1] if _has_learned(step)]
            model = model.steps[-1][1]
            if learned and not getattr(steps_and_last(model)[1], "_steps_divided", False):
                found.append(
                    f"{', '.join(learned)} before the classifier learned outside of it, and whether from negatives "
                    "that choose the threshold cannot be told"
                )
        elif isinstance(model, BaseSearchCV):
            n_candidates = len(model.cv_results_["params"])
            model = model.best_estimator_
            if n_candidates > 1:
                found.append(
                    f"a search around it chose among {n_candidates:,} candidates by rows that choose the threshold, too"
                )
        elif isinstance(model, FrozenEstimator):
            model = model.estimator
        else:
            return found


def _has_learned(step: Any) -> bool:
    """Whether a fitted step of a pipeline holds what rows have taught it."""
    if step is None or isinstance(step, str):
        return False
    if isinstance(step, FrozenEstimator):
        return _has_learned(step.estimator)
    for kind, name in ((Pipeline, "steps"), (FeatureUnion, "transformer_list"), (ColumnTransformer, "transformers_")):
        if isinstance(step, kind):
            return any(_has_learned(each) for _, each, *_ in getattr(step, name))
    is_learner = not isinstance(step, BaseEstimator) or get_tags(step).requires_fit
    return is_learner or any(map(was_fitted_before, step.get_params().values()))


def was_fitted_before(part: Any) -> bool:
    """Whether a parameter is a frozen estimator, or a method of a fitted one."""
    owner = getattr(part, "__self__", None)
    return isinstance(part, FrozenEstimator) or (isinstance(owner, BaseEstimator) and is_fitted(owner))
