"""Through the steps of a pipeline, whatever the features are written in: expressions, or tensors of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from taufpl.exceptions import ExportError

Features = TypeVar("Features")


class Algebra(Protocol[Features]):
    """What a form of export must know about features."""

    def take(self, features: Features, columns: Sequence[int]) -> Features:
        """Some of the columns, in this order."""

    def join(self, parts: Sequence[Features]) -> Features:
        """The columns of all parts, side by side."""

    def apply(self, step: Any, features: Features) -> Features:
        """The columns that a transformer makes of these."""


def walk(steps: Iterable[Any], features: Features, algebra: Algebra[Features]) -> Features:
    """Features after all of the steps.

    Pipelines, column transformers, unions and selectors are taken apart here; what remains goes to the algebra.
    """
    for step in steps:
        features = _through(step, features, algebra)
    return features


def _through(step: Any, features: Features, algebra: Algebra[Features]) -> Features:
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return features
    if isinstance(step, FunctionTransformer) and step.func is None:
        return features
    if isinstance(step, FrozenEstimator):
        return _through(step.estimator, features, algebra)
    if isinstance(step, Pipeline):
        return walk((each for _, each in step.steps), features, algebra)
    if isinstance(step, ColumnTransformer):
        return _columns(step, features, algebra)
    if isinstance(step, FeatureUnion):
        _refuse_weights(step)
        used = [each for _, each in step.transformer_list if not _is_dropped(each)]
        return algebra.join([_through(each, features, algebra) for each in used])
    if isinstance(step, SelectorMixin):
        return algebra.take(features, step.get_support(indices=True).tolist())
    return algebra.apply(step, features)


def _columns(step: ColumnTransformer, features: Features, algebra: Algebra[Features]) -> Features:
    _refuse_weights(step)
    parts = []
    for name, each, _ in step.transformers_:
        columns = list(step._transformer_to_input_indices[name])
        if columns and not _is_dropped(each):
            parts.append(_through(each, algebra.take(features, columns), algebra))
    return algebra.join(parts)


def _is_dropped(step: Any) -> bool:
    return isinstance(step, str) and step == "drop"


def _refuse_weights(step: Any) -> None:
    if step.transformer_weights:
        raise ExportError(
            f"{type(step).__name__} with transformer_weights cannot be exported: scale the parts instead."
        )
