"""XGBoost's model in JSON: arrays for each tree."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from taufpl.persistence._tree_nodes import TreeNodes, check_features
from taufpl.persistence.boosting._text import BoosterText, numbers, plain_texts, require_that

_OBJECTIVES = ("binary:logistic", "binary:logitraw", "binary:hinge")
_INTEGERS = ("left_children", "right_children", "split_indices", "default_left", "split_type")
_FLOATS = ("split_conditions", "base_weights", "loss_changes", "sum_hessian")
_NO_CATEGORIES = "XGBoost with categorical splits is not supported: encode categories in a step before it"
# The parent of a root.
_NONE = 2**31 - 1


def write(model: Any) -> str:
    """The text of a fitted classifier."""
    return bytes(model.get_booster().save_raw("json")).decode()


def attach(model: Any, checked: BoosterText, library: Any) -> None:
    """Give an estimator the trees; what it holds beside them is there."""
    settings = {} if model.n_jobs is None else {"nthread": model.n_jobs}
    model._Booster = library.Booster(settings, model_file=bytearray(checked.text.encode()))


def as_predicted(model: Any, checked: BoosterText) -> BoosterText:
    """The trees up to the best round, and the margin before them: that of the library with a single leaf of zero."""
    content = json.loads(checked.text)
    single = content["learner"]["gradient_booster"]["model"]
    leaf = {name: np.full(1, -1 if name.endswith("children") else 0) for name in _INTEGERS}
    leaf |= {name: np.zeros(1) for name in _FLOATS}
    tree = {**_written(leaf, np.array([True]), checked.n_features), "id": 0}
    single.update(trees=[tree], tree_info=[0], iteration_indptr=[0, 1])
    single["gbtree_model_param"] = {"num_parallel_tree": "1", "num_trees": "1"}
    content["learner"]["attributes"] = {}
    booster = type(model.get_booster())(model_file=bytearray(json.dumps(content).encode()))
    row = np.zeros((1, checked.n_features))
    start = booster.inplace_predict(row, predict_type="margin", validate_features=False)
    return replace(checked, trees=checked.trees[: checked.n_used], start=float(start[0]))


def read(text: str) -> BoosterText:
    """Check a text, and write it anew."""
    content = json.loads(text)
    learner = content["learner"]
    _check_kind(learner)
    n_features = int(learner["learner_model_param"]["num_feature"])
    model = learner["gradient_booster"]["model"]
    parts = [_tree(each, n_features) for each in model["trees"]]
    bounds = numbers(model["iteration_indptr"], len(model["iteration_indptr"]), np.int64).tolist()
    require_that(
        bounds[0] == 0 and bounds[-1] == len(parts) and all(first <= last for first, last in pairwise(bounds)),
        "the rounds of a model of XGBoost in it do not fit its trees",
    )
    written = _learner(learner, _model(model, [part for part, _ in parts], bounds), n_features)
    n_used = _n_used(written["attributes"], bounds)
    checked = {"learner": written, "version": [int(each) for each in content["version"]]}
    return BoosterText(json.dumps(checked), [nodes for _, nodes in parts], n_features, n_used=n_used)


def _check_kind(learner: dict[str, Any]) -> None:
    booster, settings = learner["gradient_booster"], learner["learner_model_param"]
    require_that(
        booster["name"] == "gbtree" and learner["objective"]["name"] in _OBJECTIVES,
        "of XGBoost's models only trees (booster gbtree) for two classes are supported",
    )
    require_that(
        settings["num_class"] in ("0", "1") and settings.get("num_target", "1") == "1",
        "a model of XGBoost in it has more than two classes",
    )
    # In a list since XGBoost 3.1.
    has_base = re.fullmatch(r"\[?[\d.eE+-]+\]?", settings["base_score"])
    require_that(has_base, "a model of XGBoost in it has no base score")
    require_that(not any(booster["model"].get("cats", {}).values()), _NO_CATEGORIES)


def _learner(learner: dict[str, Any], model: dict[str, Any], n_features: int) -> dict[str, Any]:
    """All but the version, with the trees as they were checked."""
    settings, objective = learner["learner_model_param"], learner["objective"]
    scale = float(objective["reg_loss_param"]["scale_pos_weight"])
    return {
        "attributes": {str(name): str(value) for name, value in learner["attributes"].items()},
        **{
            name: plain_texts(learner[name], len(learner[name]) and n_features)
            for name in ("feature_names", "feature_types")
        },
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {
            "base_score": settings["base_score"],
            "boost_from_average": str(int(settings.get("boost_from_average", "1"))),
            "num_class": "0",
            "num_feature": str(n_features),
            "num_target": "1",
        },
        "objective": {"name": objective["name"], "reg_loss_param": {"scale_pos_weight": str(scale)}},
    }


def _n_used(attributes: dict[str, str], bounds: list[int]) -> int | None:
    if "best_iteration" not in attributes:
        return None
    best = int(attributes["best_iteration"])
    require_that(0 <= best < len(bounds) - 1, "the best round of a model of XGBoost in it is not one of its rounds")
    return bounds[best + 1]


def _model(model: dict[str, Any], trees: list[dict[str, Any]], bounds: list[int]) -> dict[str, Any]:
    for place, tree in enumerate(trees):
        tree["id"] = place
    checked = {
        "gbtree_model_param": {
            "num_parallel_tree": str(int(model["gbtree_model_param"]["num_parallel_tree"])),
            "num_trees": str(len(trees)),
        },
        "iteration_indptr": bounds,
        "tree_info": [0] * len(trees),
        "trees": trees,
    }
    if "cats" in model:
        checked["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    return checked


def _tree(tree: dict[str, Any], n_features: int) -> tuple[dict[str, Any], TreeNodes]:
    """A tree as it is written anew, without nodes that no row comes to, and its nodes."""
    count = len(tree["left_children"])
    arrays = {name: numbers(tree[name], count, np.int64) for name in _INTEGERS}
    arrays |= {name: numbers(tree[name], count, np.float64) for name in _FLOATS}
    left, right = arrays["left_children"], arrays["right_children"]
    reached = np.zeros(count, dtype=bool)
    require_that(count and np.all((left == -1) == (right == -1)), "a tree in it has no node, or one with one child")
    reached[0] = True
    for place in range(count):
        if reached[place] and left[place] != -1:
            require_that(
                place < left[place] < count and place < right[place] < count,
                "a tree in it points outside itself, or back",
            )
            reached[[left[place], right[place]]] = True
    arrays = {name: values[reached] for name, values in arrays.items()}
    number = np.cumsum(reached) - 1
    is_leaf = arrays["left_children"] == -1
    require_that(not np.any(arrays["split_type"]), _NO_CATEGORIES)
    for name in ("left_children", "right_children"):
        arrays[name] = np.where(is_leaf, -1, number[arrays[name]])
    # Deleted nodes are gone, and leaves ask for no feature.
    arrays["split_indices"] = np.where(is_leaf, 0, arrays["split_indices"])
    check_features(arrays["split_indices"][~is_leaf], n_features)
    return _written(arrays, is_leaf, n_features), _nodes(arrays, is_leaf)


def _written(arrays: dict[str, Any], is_leaf: Any, n_features: int) -> dict[str, Any]:
    inner = np.flatnonzero(~is_leaf)
    parents = np.full(len(is_leaf), _NONE)
    parents[arrays["left_children"][inner]] = parents[arrays["right_children"][inner]] = inner
    sizes = {"num_deleted": 0, "num_feature": n_features, "num_nodes": len(is_leaf), "size_leaf_vector": 1}
    return {
        **{name: values.tolist() for name, values in arrays.items()},
        **{name: [] for name in ("categories", "categories_nodes", "categories_segments", "categories_sizes")},
        "parents": parents.tolist(),
        "tree_param": {name: str(size) for name, size in sizes.items()},
    }


def _nodes(arrays: dict[str, Any], is_leaf: Any) -> TreeNodes:
    """Rows are compared in single precision, and go left where they are less than the condition."""
    conditions = arrays["split_conditions"].astype(np.float32)
    with np.errstate(over="ignore"):
        below = np.nextafter(conditions, np.float32(-np.inf)).astype(np.float64)
    threshold = np.where(is_leaf, 0.0, below)
    value = np.where(is_leaf, conditions.astype(np.float64), 0.0)
    left, right, feature = (arrays[name] for name in ("left_children", "right_children", "split_indices"))
    return TreeNodes(left, right, feature, threshold, arrays["default_left"], is_leaf, value)
