"""Ensembles of trees as one node of ONNX, in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

from taufpl.exceptions import ExportError
from taufpl.persistence._tree_nodes import TreeNodes
from taufpl.persistence._unwrap import PipelineScorer
from taufpl.persistence.onnx._graph import ColumnTensor, Graph

_LEQ, _SUM, _NO_TRANSFORM = 0, 1, 0


def add_trees(graph: Graph, scorer: PipelineScorer, source: ColumnTensor) -> str | None:
    """Add the scores of trees, of shape (rows, 1); None if the scorer is not made of trees.

    score = start + share * (sum of the values of the leaves that a row comes to)
    """
    final = scorer.final
    if isinstance(final, DecisionTreeClassifier | RandomForestClassifier | ExtraTreesClassifier):
        column = int(np.flatnonzero(final.classes_ == scorer.positive)[0])
        trees = [_tree_nodes(each.tree_, column) for each in getattr(final, "estimators_", [final])]
        start, share = 0.0, 1.0 / len(trees)
    elif isinstance(final, GradientBoostingClassifier | HistGradientBoostingClassifier):
        trees, start, share = _boosted_trees(final)
        sign = 1.0 if final.classes_[1] == scorer.positive else -1.0
        start, share = sign * start, sign * share
    else:
        return None
    is_single = not isinstance(final, HistGradientBoostingClassifier)
    leaves = add_leaves(graph, trees, single_precision(graph, source.name) if is_single else source.name)
    return graph.add("Add", graph.add("Mul", leaves, graph.constant(share)), graph.constant(start))


def single_precision(graph: Graph, tensor: str) -> str:
    """Doubles rounded to single precision, in which scikit-learn's trees, XGBoost and CatBoost look at features."""
    return graph.cast(graph.cast(tensor, graph.types.FLOAT), graph.types.DOUBLE)


def add_leaves(graph: Graph, trees: list[TreeNodes], tensor: str, *, apart: bool = False) -> str:
    """Add the sum of the values of a row's leaves, or these values `apart`, of shape (rows, trees)."""
    return graph.add("TreeEnsemble", tensor, domain="ai.onnx.ml", **_attributes(graph, trees, apart))


def _boosted_trees(model: Any) -> tuple[list[TreeNodes], float, float]:
    """The trees of gradient boosting, the score before them, and their share in it."""
    if isinstance(model, GradientBoostingClassifier):
        if model.init is not None and not isinstance(model.init, str):
            raise ExportError("GradientBoostingClassifier with an init estimator cannot be exported to ONNX.")
        start = float(np.ravel(model._raw_predict_init(np.zeros((1, model.n_features_in_))))[0])
        return [_tree_nodes(each.tree_, 0) for each in model.estimators_[:, 0]], start, model.learning_rate
    if model.is_categorical_ is not None and np.any(model.is_categorical_):
        raise ExportError(
            "HistGradientBoostingClassifier with categorical features cannot be exported to ONNX: encode them in a "
            "step before it."
        )
    trees = [_boosted_nodes(each.nodes) for iteration in model._predictors for each in iteration]
    return trees, float(np.ravel(model._baseline_prediction)[0]), 1.0


def _tree_nodes(tree: Any, column: int) -> TreeNodes:
    is_leaf = tree.children_left == -1
    missing_left = np.asarray(tree.missing_go_to_left, dtype=np.int64)
    value = tree.value[:, 0, column]
    return TreeNodes(
        tree.children_left, tree.children_right, tree.feature, tree.threshold, missing_left, is_leaf, value
    )


def _boosted_nodes(nodes: NDArray[Any]) -> TreeNodes:
    left, right, feature, missing_left = (
        nodes[name].astype(np.int64) for name in ("left", "right", "feature_idx", "missing_go_to_left")
    )
    return TreeNodes(left, right, feature, nodes["num_threshold"], missing_left, nodes["is_leaf"] == 1, nodes["value"])


def _attributes(graph: Graph, trees: list[TreeNodes], apart: bool) -> dict[str, Any]:
    """Inner nodes and leaves are numbered apart, through all trees."""
    columns: dict[str, list[NDArray[Any]]] = {}
    roots, n_nodes, n_leaves = [], 0, 0
    for place, each in enumerate(map(_with_root, trees)):
        inner = ~each.is_leaf
        number = np.where(each.is_leaf, n_leaves + np.cumsum(each.is_leaf), n_nodes + np.cumsum(inner)) - 1
        roots.append(n_nodes)
        parts = {
            "nodes_featureids": each.feature[inner],
            "nodes_splits": each.threshold[inner],
            "nodes_missing_value_tracks_true": each.missing_left[inner],
            "nodes_truenodeids": number[each.left[inner]],
            "nodes_trueleafs": each.is_leaf[each.left[inner]].astype(np.int64),
            "nodes_falsenodeids": number[each.right[inner]],
            "nodes_falseleafs": each.is_leaf[each.right[inner]].astype(np.int64),
            "leaf_weights": each.value[each.is_leaf],
            "leaf_targetids": np.full(int(each.is_leaf.sum()), place if apart else 0),
        }
        for name, part in parts.items():
            columns.setdefault(name, []).append(part)
        n_nodes, n_leaves = n_nodes + int(inner.sum()), n_leaves + int(each.is_leaf.sum())
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    tensors = {name: joined.pop(name).astype(np.float64) for name in ("nodes_splits", "leaf_weights")}
    tensors["nodes_modes"] = np.full(n_nodes, _LEQ, dtype=np.uint8)
    return {
        **{name: array.tolist() for name, array in joined.items()},
        **{name: graph.onnx.numpy_helper.from_array(array, name) for name, array in tensors.items()},
        "tree_roots": roots,
        "n_targets": len(trees) if apart else 1,
        "aggregate_function": _SUM,
        "post_transform": _NO_TRANSFORM,
    }


def _with_root(tree: TreeNodes) -> TreeNodes:
    """A tree that is a single leaf gets a node above it, both of whose sides lead there."""
    if not tree.is_leaf[0]:
        return tree
    one, zero = np.array([1, 0]), np.zeros(2, dtype=np.int64)
    value = np.array([0.0, tree.value[0]])
    return TreeNodes(one, one, zero, np.zeros(2), zero, np.array([False, True]), value)
