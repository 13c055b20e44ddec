"""Classifiers of LightGBM, XGBoost and CatBoost in ONNX: their trees, and what they make of these."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl.estimators import library_of
from taufpl.exceptions import ExportError
from taufpl.persistence._tree_nodes import leaf
from taufpl.persistence._unwrap import PipelineScorer
from taufpl.persistence.boosting import BoosterText, booster_trees, is_booster
from taufpl.persistence.onnx._graph import ColumnTensor, Graph
from taufpl.persistence.onnx._trees import add_leaves, single_precision

# What LightGBM takes for zero.
_ZERO = float(np.float32(1e-35))


def add_booster(graph: Graph, scorer: PipelineScorer, source: ColumnTensor) -> str | None:
    """Add scores for the positive class, of shape (rows, 1); None if the scorer is of no such library.

    As in the library, these are raw scores where the classifier has a decision function, and else probabilities.
    """
    model = scorer.final
    if not is_booster(model):
        return None
    is_second = model.classes_[1] == scorer.positive
    raw, steepness = _raw_score(graph, model, source)
    if hasattr(model, "decision_function"):
        return raw if is_second else graph.add("Neg", raw)
    one = graph.constant(1.0)
    exponential = graph.add("Exp", graph.add("Mul", raw, graph.constant(-steepness)))
    probability = graph.add("Div", one, graph.add("Add", exponential, one))
    return probability if is_second else graph.add("Sub", one, probability)


def add_raw_score(graph: Graph, model: Any, source: ColumnTensor) -> str:
    """Add the raw score of a fitted booster, higher for the second class, of shape (rows, 1)."""
    return _raw_score(graph, model, source)[0]


def _raw_score(graph: Graph, model: Any, source: ColumnTensor) -> tuple[str, float]:
    """The raw score, and what it is to be multiplied by to be log-odds."""
    found = booster_trees(model)
    if not found.trees:
        raise ExportError(f"{type(model).__name__} has no trees: there is nothing to export.")
    if library_of(model) == "xgboost":
        return _add_margin(graph, found, _with_missing(graph, source.name, float(model.missing))), 1.0
    tensor = source.name
    if library_of(model) == "catboost":
        tensor = single_precision(graph, tensor)
    else:
        is_zero = graph.add("LessOrEqual", graph.add("Abs", tensor), graph.constant(_ZERO))
        tensor = graph.add("Where", is_zero, graph.constant(np.nan if found.zero_is_missing else 0.0), tensor)
    leaves = graph.add("Mul", add_leaves(graph, found.trees, tensor), graph.constant(found.share))
    return graph.add("Add", leaves, graph.constant(found.start)), found.steepness


def _with_missing(graph: Graph, tensor: str, missing: float) -> str:
    """The features as XGBoost sees them: in single precision, with NaN for a number that stands for missing values."""
    tensor = single_precision(graph, tensor)
    if np.isnan(missing):
        return tensor
    is_missing = graph.add("Equal", tensor, graph.constant(float(np.float32(missing))))
    return graph.add("Where", is_missing, graph.constant(np.nan), tensor)


def _add_margin(graph: Graph, found: BoosterText, tensor: str) -> str:
    """XGBoost adds up in single precision, a tree after the other: rounded sums depend on the order."""
    leaves = add_leaves(graph, [leaf(found.start), *found.trees], tensor, apart=True)
    sums = graph.add("CumSum", graph.cast(leaves, graph.types.FLOAT), graph.constant(np.int64(1)))
    last = graph.add("Gather", sums, graph.constant(np.array([-1], dtype=np.int64)), axis=1)
    return graph.cast(last, graph.types.DOUBLE)
