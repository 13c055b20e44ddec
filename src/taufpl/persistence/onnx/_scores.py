"""Scores of any scorer in ONNX, those of stacks among them."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from taufpl.estimators import LEAST_SHARE, KernelScorer
from taufpl.exceptions import ExportError
from taufpl.persistence._pipeline import visit
from taufpl.persistence._unwrap import PipelineScorer
from taufpl.persistence.boosting import is_booster
from taufpl.persistence.onnx._boosters import add_booster, add_raw_score
from taufpl.persistence.onnx._converters import add_scorer
from taufpl.persistence.onnx._graph import Columns, Graph
from taufpl.persistence.onnx._steps import TensorVisitor
from taufpl.persistence.onnx._trees import add_trees


def add_score(visitor: TensorVisitor, scorer: PipelineScorer, features: Columns) -> str:
    """Add scores of shape (rows, 1), higher for the positive class."""
    graph = visitor.graph
    features = visit(scorer.steps, features, visitor)
    if isinstance(scorer.final, KernelScorer):
        raise ExportError(
            f"the score of {type(scorer.final).__name__} is a sum of kernels, which is not exported to ONNX. Keep the "
            "model by taufpl.persistence.save_model, or export a linear one."
        )
    source = graph.matrix(features, scorer.final)
    if scorer.coef is not None:
        product = graph.add("MatMul", source.name, graph.constant(scorer.coef[:, np.newaxis], "weights"))
        return graph.add("Add", product, graph.constant(scorer.intercept, "intercept"))
    if scorer.terms:
        return _add_stack(visitor, scorer, (source,))
    return add_trees(graph, scorer, source) or add_booster(graph, scorer, source) or add_scorer(graph, scorer, source)


def _add_stack(visitor: TensorVisitor, stack: PipelineScorer, features: Columns) -> str:
    """Add the score of a stack: the weighted sum of the log-odds of its models, each from its own center."""
    graph, parts = visitor.graph, []
    for term in stack.terms:
        centred = graph.add("Sub", _add_log_odds(visitor, term.scorer, features), graph.constant(term.center))
        parts.append(graph.add("Mul", centred, graph.constant(term.factor)))
    return graph.add("Sum", *parts, graph.constant(np.array([[stack.intercept]])))


def _add_log_odds(visitor: TensorVisitor, scorer: PipelineScorer, features: Columns) -> str:
    """Add what `taufpl.estimators.log_odds` computes."""
    graph = visitor.graph
    if is_booster(scorer.final):
        return add_raw_score(graph, scorer.final, graph.matrix(visit(scorer.steps, features, visitor), scorer.final))
    score = add_score(visitor, scorer, features)
    if isinstance(scorer.final, RandomForestClassifier | ExtraTreesClassifier):
        return _add_ratio(graph, score, len(scorer.final.estimators_), added=0.5)
    return score if hasattr(scorer.final, "decision_function") else _add_ratio(graph, score, 1.0, least=LEAST_SHARE)


def _add_ratio(graph: Graph, share: str, count: float, *, added: float = 0.0, least: float = 0.0) -> str:
    """Add log((share count + added) / ((1 - share) count + added)), with shares of at least `least`."""
    sides = [share, graph.add("Sub", graph.constant(1.0), share)]
    if least:
        sides = [graph.add("Max", side, graph.constant(least)) for side in sides]
    if added:
        sides = [graph.add("Mul", side, graph.constant(float(count))) for side in sides]
        sides = [graph.add("Add", side, graph.constant(added)) for side in sides]
    return graph.add("Log", graph.add("Div", *sides))
