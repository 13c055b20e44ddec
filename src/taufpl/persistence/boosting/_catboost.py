"""CatBoost's model in JSON: borders of features, and trees of splits."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from taufpl.persistence._tree_nodes import TreeNodes, check_nodes
from taufpl.persistence.boosting._text import BoosterText, numbers, require_that

_LOSSES = ("Logloss", "CrossEntropy")
_NAN_TREATMENTS = ("AsIs", "AsFalse", "AsTrue")
_DEEPEST = 16
_FILE = "model.json"


def write(model: Any) -> str:
    """The text of a fitted classifier."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, _FILE)
        model.save_model(path, format="json")
        with open(path, encoding="utf-8") as file:
            return file.read()


def attach(model: Any, checked: BoosterText, library: Any) -> None:
    """Give an estimator the trees. CatBoost reads numbers of JSON a last digit off: these are set once more."""
    params = dict(model._init_params)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, _FILE)
        with open(path, "w", encoding="utf-8") as file:
            file.write(checked.text)
        model.load_model(path, format="json")
    model.set_leaf_values(np.concatenate([tree.value[tree.is_leaf] for tree in checked.trees]))
    model.set_scale_and_bias(checked.share, checked.start)
    model._init_params, model._n_features_in = params, checked.n_features


def as_predicted(model: Any, checked: BoosterText) -> BoosterText:
    """All trees: CatBoost itself drops those after the best round."""
    return checked


def read(text: str) -> BoosterText:
    """Check a text, and write it anew."""
    content = json.loads(text)
    features = content["features_info"]
    require_that(
        set(features) == {"float_features"} and "ctr_data" not in content,
        "CatBoost with categories, texts or embeddings is not supported: encode them in a step before it",
    )
    borders = _Borders(features["float_features"])
    is_oblivious = "oblivious_trees" in content
    convert = _oblivious if is_oblivious else _nested
    parts = [convert(tree, borders) for tree in content["oblivious_trees" if is_oblivious else "trees"]]
    share, start = _scale_and_bias(content["scale_and_bias"])
    checked = {
        "features_info": {"float_features": borders.written},
        "model_info": _info(content["model_info"]),
        "oblivious_trees" if is_oblivious else "trees": [part for part, _ in parts],
        "scale_and_bias": [share, [start]],
    }
    return BoosterText(json.dumps(checked), [nodes for _, nodes in parts], borders.n_features, start, share)


def _info(info: dict[str, Any]) -> dict[str, Any]:
    """The labels; how the model was trained, which is not needed to predict, is left out."""
    labels = info["class_params"]
    loss = info.get("params", {}).get("loss_function", {}).get("type", _LOSSES[0])
    require_that(
        labels["class_to_label"] == [0, 1]
        and len(labels["class_names"]) == 2
        and all(isinstance(label, str | int | float) for label in labels["class_names"])
        and loss in _LOSSES,
        f"of CatBoost's models only those for two classes by {' or '.join(_LOSSES)} are supported",
    )
    kept = {"class_label_type": str(labels["class_label_type"]), "class_names": labels["class_names"]}
    return {"class_params": {**kept, "class_to_label": [0, 1], "classes_count": 0}}


def _scale_and_bias(given: Any) -> tuple[float, float]:
    scale, bias = given
    (bias,) = bias if isinstance(bias, list) else [bias]
    return float(scale), float(bias)


class _Borders:
    """The borders of each feature, and the place of each among all of them, which a split names."""

    def __init__(self, features: list[dict[str, Any]]) -> None:
        self.n_features = len(features)
        self.written = []
        self.missing_left: list[bool] = []
        self._places: dict[tuple[int, float], int] = {}
        for feature, each in enumerate(features):
            borders = numbers(each["borders"], len(each["borders"]), np.float64)
            require_that(
                each["feature_index"] == each["flat_feature_index"] == feature
                and each["nan_value_treatment"] in _NAN_TREATMENTS
                and np.all(np.isfinite(borders))
                and np.all(np.diff(borders) > 0),
                "the features of a model of CatBoost in it are not numbered, or their borders not sorted",
            )
            for border in borders.tolist():
                self._places[feature, border] = len(self._places)
            self.missing_left.append(each["nan_value_treatment"] != "AsTrue")
            self.written.append(
                {
                    "borders": borders.tolist(),
                    "feature_id": str(each["feature_id"]),
                    "feature_index": feature,
                    "flat_feature_index": feature,
                    "has_nans": bool(each["has_nans"]),
                    "nan_value_treatment": each["nan_value_treatment"],
                }
            )

    def split(self, split: dict[str, Any]) -> dict[str, Any]:
        """A split with the place of its border, which must be there."""
        key: Any = split.get("float_feature_index"), split.get("border")
        require_that(
            split.get("split_type") == "FloatFeature" and key in self._places,
            "a tree in it splits at a border that is not there",
        )
        names = ("float_feature_index", "border", "split_index", "split_type")
        return dict(zip(names, (*key, self._places[key], "FloatFeature"), strict=True))

    def nodes(self, splits: list[dict[str, Any]], left: Any, right: Any, value: Any) -> TreeNodes:
        """The nodes of a tree whose inner nodes, which come first, have these splits."""
        is_leaf = np.arange(len(value)) >= len(splits)
        feature, threshold = np.zeros(len(value), dtype=np.int64), np.zeros(len(value))
        feature[~is_leaf] = [split["float_feature_index"] for split in splits]
        threshold[~is_leaf] = [split["border"] for split in splits]
        missing_left = np.array(self.missing_left, dtype=np.int64)[feature]
        nodes = TreeNodes(left, right, feature, threshold, missing_left, is_leaf, value)
        check_nodes(nodes, self.n_features)
        return nodes


def _oblivious(tree: dict[str, Any], borders: _Borders) -> tuple[dict[str, Any], TreeNodes]:
    """All nodes of a level have one split; that of the last one is the lowest bit of the number of a leaf."""
    splits = [borders.split(each) for each in tree["splits"]]
    require_that(len(splits) <= _DEEPEST, f"a tree in it is deeper than {_DEEPEST}")
    n_leaves = 2 ** len(splits)
    written = {"splits": splits, "leaf_values": numbers(tree["leaf_values"], n_leaves, np.float64).tolist()}
    if "leaf_weights" in tree:
        written["leaf_weights"] = numbers(tree["leaf_weights"], n_leaves, np.float64).tolist()
    levels = [split for level, split in enumerate(reversed(splits)) for _ in range(2**level)]
    place = np.arange(2 * n_leaves - 1)
    value = np.append(np.zeros(n_leaves - 1), written["leaf_values"])
    return written, borders.nodes(levels, 2 * place + 1, 2 * place + 2, value)


def _nested(tree: dict[str, Any], borders: _Borders) -> tuple[dict[str, Any], TreeNodes]:
    """A tree whose nodes hold each other; leaves are counted from left to right."""
    found = list(_visit(tree))
    inner = [node for node in found if "split" in node]
    leaves = [node for node in found if "split" not in node]
    place = {id(node): number for number, node in enumerate([*inner, *leaves])}
    splits = [borders.split(node["split"]) for node in inner]
    left, right = (
        np.array([place[id(node[side])] for node in inner] + [0] * len(leaves), dtype=np.int64)
        for side in ("left", "right")
    )
    values = numbers([node["value"] for node in leaves], len(leaves), np.float64)
    nodes = borders.nodes(splits, left, right, np.append(np.zeros(len(inner)), values))
    written: dict[int, dict[str, Any]] = {}
    for node in reversed(found):
        if "split" in node:
            sides = {side: written[id(node[side])] for side in ("left", "right")}
            written[id(node)] = {**sides, "split": splits[place[id(node)]]}
        else:
            written[id(node)] = {"value": float(node["value"]), "weight": float(node.get("weight", 0.0))}
    return written[id(tree)], nodes


def _visit(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node before those below it, left before right."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        if "split" in node:
            stack += [node["right"], node["left"]]
