"""LightGBM's model text: lines of `key=value`, a block for each tree."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from taufpl.persistence._tree_nodes import TreeNodes, check_nodes
from taufpl.persistence.boosting._text import BoosterText, numbers, require_that

_HEADER = {
    "version": r"v\d+",
    "num_class": "1",
    "num_tree_per_iteration": "1",
    "label_index": r"\d+",
    "max_feature_idx": r"\d{1,9}",
    "objective": r"binary sigmoid:[\d.e+-]+|cross_entropy",
    "feature_names": r"\S+( \S+)*",
    "feature_infos": r"[\w\[\]:.+-]+( [\w\[\]:.+-]+)*",
}
# Entries of a tree, by whether they have one for each inner node or each leaf.
_INNER = {
    "split_feature": np.int64, "split_gain": np.float64, "threshold": np.float64, "decision_type": np.int64,
    "left_child": np.int64, "right_child": np.int64, "internal_value": np.float64, "internal_weight": np.float64,
    "internal_count": np.int64,
}  # fmt: skip
_LEAVES = {"leaf_value": np.float64, "leaf_weight": np.float64, "leaf_count": np.int64}
# How a split treats what is missing: bits of its type.
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_ZERO, _NAN = 1, 2


def write(model: Any) -> str:
    """The text of a fitted classifier."""
    require_that(
        model.booster_.pandas_categorical in (None, []),
        "LightGBM with categorical columns is not supported: encode them in a step before it",
    )
    return model.booster_.model_to_string(num_iteration=-1)


def attach(model: Any, checked: BoosterText, library: Any) -> None:
    """Give an estimator the trees; what it holds beside them is there."""
    model._Booster = library.Booster(model_str=checked.text)
    model._Booster.best_iteration = model._best_iteration
    model._n_features = model._n_features_in = checked.n_features
    places = model._le.transform(model._le.classes_)
    model._class_map = dict(zip(model._le.classes_, places, strict=True))
    model._evals_result, model._best_score = {}, {}


def as_predicted(model: Any, checked: BoosterText) -> BoosterText:
    """The trees up to the best round, where there is one."""
    count = model._best_iteration if model._best_iteration > 0 else len(checked.trees)
    return replace(checked, trees=checked.trees[:count])


def read(text: str) -> BoosterText:
    """Check a text, and write it anew without what is not needed for predictions."""
    require_that("\nend of trees" in text, "a model of LightGBM in it is cut off")
    head, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
    header = _entries(head)
    for name, form in _HEADER.items():
        require_that(re.fullmatch(form, header.get(name, "")), f"a model of LightGBM in it has no known {name}")
    n_features = int(header["max_feature_idx"]) + 1
    for name in ("feature_names", "feature_infos"):
        require_that(len(header[name].split(" ")) == n_features, f"a model of LightGBM in it has other {name}")
    trees = [_Tree(_entries(block), n_features) for block in blocks]
    is_mean = "average_output" in head.split("\n")
    lines = ["tree", *(f"{name}={header[name]}" for name in _HEADER), *(["average_output"] if is_mean else []), ""]
    for place, tree in enumerate(trees):
        lines += [f"Tree={place}", *(f"{name}={value}" for name, value in tree.entries.items()), "", ""]
    types = {kind for tree in trees for kind in tree.missing_types}
    require_that(_ZERO not in types or len(types) == 1, "a model of LightGBM in it takes zeros as missing in places")
    return BoosterText(
        "\n".join([*lines, "end of trees", "", ""]),
        [tree.nodes for tree in trees],
        n_features,
        steepness=float(header["objective"].partition(":")[2] or 1.0) / (len(trees) if is_mean else 1),
        zero_is_missing=_ZERO in types,
    )


def _entries(block: str) -> dict[str, str]:
    return {name: value for name, mark, value in (line.partition("=") for line in block.split("\n")) if mark}


class _Tree:
    """A block of the text: its entries, checked, and the nodes that they describe."""

    def __init__(self, entries: dict[str, str], n_features: int) -> None:
        require_that(re.fullmatch(r"[1-9]\d{0,8}", entries.get("num_leaves", "")), "a tree in it has no leaves")
        n_leaves = int(entries["num_leaves"])
        require_that(
            entries.get("num_cat") == "0" and entries.get("is_linear", "0") == "0",
            "LightGBM with categorical splits or linear trees is not supported: encode categories in a step before it",
        )
        counts = {**dict.fromkeys(_INNER, n_leaves - 1), **dict.fromkeys(_LEAVES, n_leaves)}
        arrays = {}
        for name, kind in {**_INNER, **_LEAVES}.items():
            values = entries.get(name, "").split()
            # A tree that is a single leaf has not all entries.
            arrays[name] = numbers(values, len(values) if n_leaves == 1 else counts[name], kind)
        require_that(len(arrays["leaf_value"]) == n_leaves, "a tree in it has not as many values as leaves")
        self.entries = {"num_leaves": str(n_leaves), "num_cat": "0"}
        self.entries |= {name: " ".join(map(repr, values.tolist())) for name, values in arrays.items()}
        self.entries |= {"is_linear": "0", "shrinkage": str(float(entries.get("shrinkage", "1")))}
        self.missing_types = set(((arrays["decision_type"] >> 2) & 3).tolist())
        self.nodes = _nodes(arrays, n_leaves)
        check_nodes(self.nodes, n_features)


def _nodes(arrays: dict[str, Any], n_leaves: int) -> TreeNodes:
    """Inner nodes, then leaves; a child that is a leaf stands in the text as minus its place, less one."""
    n_inner = n_leaves - 1
    types = arrays["decision_type"][:n_inner]
    require_that(not np.any((types < 0) | (types > 15) | (types & _CATEGORICAL)), "a tree in it has unknown splits")

    def children(name: str) -> Any:
        places = arrays[name][:n_inner]
        require_that(np.all(places >= -n_leaves) and np.all(places < n_inner), "a tree in it points outside itself")
        return np.append(np.where(places < 0, n_inner - 1 - places, places), np.zeros(n_leaves, dtype=np.int64))

    def padded(values: Any) -> Any:
        return np.append(values[:n_inner], np.zeros(n_leaves, dtype=values.dtype))

    threshold = padded(arrays["threshold"])
    # Where a split does not know of missing values, they count as zero.
    knows = padded((types >> 2) & 3) != 0
    missing_left = np.where(knows, padded(types) & _DEFAULT_LEFT, threshold >= 0.0) != 0
    value = np.append(np.zeros(n_inner), arrays["leaf_value"])
    is_leaf = np.arange(n_inner + n_leaves) >= n_inner
    feature = padded(arrays["split_feature"])
    return TreeNodes(
        children("left_child"),
        children("right_child"),
        feature,
        threshold,
        missing_left.astype(np.int64),
        is_leaf,
        value,
    )
