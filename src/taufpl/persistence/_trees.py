"""Trees as arrays of nodes, checked, and the texts of LightGBM, XGBoost and CatBoost that hold such trees."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.estimators import BOOSTERS, library_of
from taufpl.exceptions import ModelFileError


@dataclass(frozen=True, slots=True)
class TreeNodes:
    """The nodes of one tree: a row goes left where its feature is at most the threshold, or missing and told so."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    missing_left: NDArray[np.int64]
    is_leaf: NDArray[np.bool_]
    value: NDArray[np.float64]


def leaf(value: float) -> TreeNodes:
    """A tree that is a single leaf."""
    none = np.zeros(1, dtype=np.int64)
    return TreeNodes(none, none, none, np.zeros(1), none, np.ones(1, dtype=bool), np.array([value]))


def _check_nodes(tree: TreeNodes, n_features: int) -> None:
    """Every way down a tree ends in one of its leaves, and asks for features that are there; else a ModelFileError."""
    inner = np.flatnonzero(~tree.is_leaf)
    check_children(tree.left[inner], inner, len(tree.left))
    check_children(tree.right[inner], inner, len(tree.left))
    check_features(tree.feature[inner], n_features)


def check_children(children: NDArray[Any], parents: NDArray[Any], count: int) -> None:
    """Children come after their parents, so that every way down ends, and before the end."""
    if np.any(children <= parents) or np.any(children >= count):
        raise ModelFileError("a tree in it points outside itself, or back")


def check_features(features: NDArray[Any], count: int) -> None:
    """Features are counted from 0 to `count` - 1."""
    if np.any(features < 0) or np.any(features >= count):
        raise ModelFileError("a tree in it asks for a feature that is not there")


@dataclass(frozen=True, slots=True)
class BoosterText:
    """The trees of a booster, checked, and the text from which its library makes them.

    The text is written anew from what was checked: nothing else of a file comes to the compiled parser. The raw score
    of a row is start + share * (sum of the values of its leaves), and its probability 1 / (1 + exp(-steepness * raw
    score)). `n_used` counts the trees that predictions use where that is known from the text.
    """

    text: str
    trees: list[TreeNodes]
    n_features: int
    start: float = 0.0
    share: float = 1.0
    steepness: float = 1.0
    zero_is_missing: bool = False
    n_used: int | None = None


def require_that(condition: Any, trouble: str) -> None:
    """Refuse a model for a reason."""
    if not condition:
        raise ModelFileError(trouble)


def _numbers(values: Any, count: int, kind: Any) -> NDArray[Any]:
    """An array of `count` numbers, from numbers or their texts."""
    try:
        found = np.array(values, dtype=kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError("numbers of a tree in it cannot be read") from error
    require_that(found.shape == (count,), "the parts of a tree in it have different lengths")
    return found


def _plain_texts(values: Any, count: int) -> Sequence[str]:
    """A list of texts, `count` of them."""
    require_that(
        isinstance(values, list) and len(values) == count and all(isinstance(each, str) for each in values),
        "the names of the features of a booster in it do not fit their number",
    )
    return values


# LightGBM's model text: lines of `key=value`, a block for each tree. What its header must say:
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
_OF_NODES = {
    "split_feature": np.int64, "split_gain": np.float64, "threshold": np.float64, "decision_type": np.int64,
    "left_child": np.int64, "right_child": np.int64, "internal_value": np.float64, "internal_weight": np.float64,
    "internal_count": np.int64,
}  # fmt: skip
_OF_LEAVES = {"leaf_value": np.float64, "leaf_weight": np.float64, "leaf_count": np.int64}
# How a split treats what is missing: bits of its type.
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_ZERO = 1  # of the two bits after these: 2 stands for NaN


def _write_lightgbm(model: Any) -> str:
    """The text of a fitted classifier."""
    require_that(
        model.booster_.pandas_categorical in (None, []),
        "LightGBM with categorical columns is not supported: encode them in a step before it",
    )
    return model.booster_.model_to_string(num_iteration=-1)


def _attach_lightgbm(model: Any, checked: BoosterText, library: Any) -> None:
    """Give an estimator the trees; what it holds beside them is there."""
    model._Booster = library.Booster(model_str=checked.text)
    model._Booster.best_iteration = model._best_iteration
    model._n_features = model._n_features_in = checked.n_features
    places = model._le.transform(model._le.classes_)
    model._class_map = dict(zip(model._le.classes_, places, strict=True))
    model._evals_result, model._best_score = {}, {}


def _used_lightgbm(model: Any, checked: BoosterText) -> BoosterText:
    """The trees up to the best round, where there is one."""
    count = model._best_iteration if model._best_iteration > 0 else len(checked.trees)
    return replace(checked, trees=checked.trees[:count])


def _read_lightgbm(text: str) -> BoosterText:
    """Check a text, and write it anew without what is not needed for predictions."""
    require_that("\nend of trees" in text, "a model of LightGBM in it is cut off")
    head, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
    header = _entries(head)
    for name, form in _HEADER.items():
        require_that(re.fullmatch(form, header.get(name, "")), f"a model of LightGBM in it has no known {name}")
    n_features = int(header["max_feature_idx"]) + 1
    for name in ("feature_names", "feature_infos"):
        require_that(len(header[name].split(" ")) == n_features, f"a model of LightGBM in it has other {name}")
    trees = [_LightGBMTree(_entries(block), n_features) for block in blocks]
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


class _LightGBMTree:
    """A block of the text: its entries, checked, and the nodes that they describe."""

    def __init__(self, entries: dict[str, str], n_features: int) -> None:
        require_that(re.fullmatch(r"[1-9]\d{0,8}", entries.get("num_leaves", "")), "a tree in it has no leaves")
        n_leaves = int(entries["num_leaves"])
        require_that(
            entries.get("num_cat") == "0" and entries.get("is_linear", "0") == "0",
            "LightGBM with categorical splits or linear trees is not supported: encode categories in a step before it",
        )
        counts = {**dict.fromkeys(_OF_NODES, n_leaves - 1), **dict.fromkeys(_OF_LEAVES, n_leaves)}
        arrays = {}
        for name, kind in {**_OF_NODES, **_OF_LEAVES}.items():
            values = entries.get(name, "").split()
            # A tree that is a single leaf has not all entries.
            arrays[name] = _numbers(values, len(values) if n_leaves == 1 else counts[name], kind)
        require_that(len(arrays["leaf_value"]) == n_leaves, "a tree in it has not as many values as leaves")
        self.entries = {"num_leaves": str(n_leaves), "num_cat": "0"}
        self.entries |= {name: " ".join(map(repr, values.tolist())) for name, values in arrays.items()}
        self.entries |= {"is_linear": "0", "shrinkage": str(float(entries.get("shrinkage", "1")))}
        self.missing_types = set(((arrays["decision_type"] >> 2) & 3).tolist())
        self.nodes = _lightgbm_nodes(arrays, n_leaves)
        _check_nodes(self.nodes, n_features)


def _lightgbm_nodes(arrays: dict[str, Any], n_leaves: int) -> TreeNodes:
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


# XGBoost's model in JSON: arrays for each tree.
_XGBOOST_OBJECTIVES = ("binary:logistic", "binary:logitraw", "binary:hinge")
_XGBOOST_INTEGERS = ("left_children", "right_children", "split_indices", "default_left", "split_type")
_XGBOOST_FLOATS = ("split_conditions", "base_weights", "loss_changes", "sum_hessian")
_NO_CATEGORIES = "XGBoost with categorical splits is not supported: encode categories in a step before it"
# The parent of a root.
_NO_PARENT = 2**31 - 1


def _write_xgboost(model: Any) -> str:
    """The text of a fitted classifier."""
    return bytes(model.get_booster().save_raw("json")).decode()


def _attach_xgboost(model: Any, checked: BoosterText, library: Any) -> None:
    """Give an estimator the trees; what it holds beside them is there."""
    settings = {} if model.n_jobs is None else {"nthread": model.n_jobs}
    model._Booster = library.Booster(settings, model_file=bytearray(checked.text.encode()))


def _used_xgboost(model: Any, checked: BoosterText) -> BoosterText:
    """The trees up to the best round, and the margin before them: that of the library with a single leaf of zero."""
    content = json.loads(checked.text)
    single = content["learner"]["gradient_booster"]["model"]
    single_leaf = {name: np.full(1, -1 if name.endswith("children") else 0) for name in _XGBOOST_INTEGERS}
    single_leaf |= {name: np.zeros(1) for name in _XGBOOST_FLOATS}
    tree = {**_xgboost_arrays(single_leaf, np.array([True]), checked.n_features), "id": 0}
    single.update(trees=[tree], tree_info=[0], iteration_indptr=[0, 1])
    single["gbtree_model_param"] = {"num_parallel_tree": "1", "num_trees": "1"}
    content["learner"]["attributes"] = {}
    booster = type(model.get_booster())(model_file=bytearray(json.dumps(content).encode()))
    row = np.zeros((1, checked.n_features))
    start = booster.inplace_predict(row, predict_type="margin", validate_features=False)
    return replace(checked, trees=checked.trees[: checked.n_used], start=float(start[0]))


def _read_xgboost(text: str) -> BoosterText:
    """Check a text, and write it anew."""
    content = json.loads(text)
    learner = content["learner"]
    _check_xgboost(learner)
    n_features = int(learner["learner_model_param"]["num_feature"])
    model = learner["gradient_booster"]["model"]
    parts = [_xgboost_tree(each, n_features) for each in model["trees"]]
    bounds = _numbers(model["iteration_indptr"], len(model["iteration_indptr"]), np.int64).tolist()
    require_that(
        bounds[0] == 0 and bounds[-1] == len(parts) and all(first <= last for first, last in pairwise(bounds)),
        "the rounds of a model of XGBoost in it do not fit its trees",
    )
    written = _xgboost_learner(learner, _xgboost_model(model, [part for part, _ in parts], bounds), n_features)
    n_used = _n_used(written["attributes"], bounds)
    checked = {"learner": written, "version": [int(each) for each in content["version"]]}
    return BoosterText(json.dumps(checked), [nodes for _, nodes in parts], n_features, n_used=n_used)


def _check_xgboost(learner: dict[str, Any]) -> None:
    booster, settings = learner["gradient_booster"], learner["learner_model_param"]
    require_that(
        booster["name"] == "gbtree" and learner["objective"]["name"] in _XGBOOST_OBJECTIVES,
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


def _xgboost_learner(learner: dict[str, Any], model: dict[str, Any], n_features: int) -> dict[str, Any]:
    """All but the version, with the trees as they were checked."""
    settings, objective = learner["learner_model_param"], learner["objective"]
    scale = float(objective["reg_loss_param"]["scale_pos_weight"])
    return {
        "attributes": {str(name): str(value) for name, value in learner["attributes"].items()},
        **{
            name: _plain_texts(learner[name], len(learner[name]) and n_features)
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


def _xgboost_model(model: dict[str, Any], trees: list[dict[str, Any]], bounds: list[int]) -> dict[str, Any]:
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


def _xgboost_tree(tree: dict[str, Any], n_features: int) -> tuple[dict[str, Any], TreeNodes]:
    """A tree as it is written anew, without nodes that no row comes to, and its nodes."""
    count = len(tree["left_children"])
    arrays = {name: _numbers(tree[name], count, np.int64) for name in _XGBOOST_INTEGERS}
    arrays |= {name: _numbers(tree[name], count, np.float64) for name in _XGBOOST_FLOATS}
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
    return _xgboost_arrays(arrays, is_leaf, n_features), _xgboost_nodes(arrays, is_leaf)


def _xgboost_arrays(arrays: dict[str, Any], is_leaf: Any, n_features: int) -> dict[str, Any]:
    inner = np.flatnonzero(~is_leaf)
    parents = np.full(len(is_leaf), _NO_PARENT)
    parents[arrays["left_children"][inner]] = parents[arrays["right_children"][inner]] = inner
    sizes = {"num_deleted": 0, "num_feature": n_features, "num_nodes": len(is_leaf), "size_leaf_vector": 1}
    return {
        **{name: values.tolist() for name, values in arrays.items()},
        **{name: [] for name in ("categories", "categories_nodes", "categories_segments", "categories_sizes")},
        "parents": parents.tolist(),
        "tree_param": {name: str(size) for name, size in sizes.items()},
    }


def _xgboost_nodes(arrays: dict[str, Any], is_leaf: Any) -> TreeNodes:
    """Rows are compared in single precision, and go left where they are less than the condition."""
    conditions = arrays["split_conditions"].astype(np.float32)
    with np.errstate(over="ignore"):
        below = np.nextafter(conditions, np.float32(-np.inf)).astype(np.float64)
    threshold = np.where(is_leaf, 0.0, below)
    value = np.where(is_leaf, conditions.astype(np.float64), 0.0)
    left, right, feature = (arrays[name] for name in ("left_children", "right_children", "split_indices"))
    return TreeNodes(left, right, feature, threshold, arrays["default_left"], is_leaf, value)


# CatBoost's model in JSON: borders of features, and trees of splits.
_CATBOOST_LOSSES = ("Logloss", "CrossEntropy")
_NAN_TREATMENTS = ("AsIs", "AsFalse", "AsTrue")
_DEEPEST = 16
_CATBOOST_FILE = "model.json"


def _write_catboost(model: Any) -> str:
    """The text of a fitted classifier."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, _CATBOOST_FILE)
        model.save_model(path, format="json")
        with open(path, encoding="utf-8") as file:
            return file.read()


def _attach_catboost(model: Any, checked: BoosterText, library: Any) -> None:
    """Give an estimator the trees. CatBoost reads numbers of JSON a last digit off: these are set once more."""
    params = dict(model._init_params)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, _CATBOOST_FILE)
        with open(path, "w", encoding="utf-8") as file:
            file.write(checked.text)
        model.load_model(path, format="json")
    model.set_leaf_values(np.concatenate([tree.value[tree.is_leaf] for tree in checked.trees]))
    model.set_scale_and_bias(checked.share, checked.start)
    model._init_params, model._n_features_in = params, checked.n_features


def _read_catboost(text: str) -> BoosterText:
    """Check a text, and write it anew."""
    content = json.loads(text)
    features = content["features_info"]
    require_that(
        set(features) == {"float_features"} and "ctr_data" not in content,
        "CatBoost with categories, texts or embeddings is not supported: encode them in a step before it",
    )
    borders = _CatBoostBorders(features["float_features"])
    is_oblivious = "oblivious_trees" in content
    convert = _oblivious_tree if is_oblivious else _nested_tree
    parts = [convert(tree, borders) for tree in content["oblivious_trees" if is_oblivious else "trees"]]
    scale, bias = content["scale_and_bias"]
    (bias,) = bias if isinstance(bias, list) else [bias]
    share, start = float(scale), float(bias)
    checked = {
        "features_info": {"float_features": borders.written},
        "model_info": _catboost_labels(content["model_info"]),
        "oblivious_trees" if is_oblivious else "trees": [part for part, _ in parts],
        "scale_and_bias": [share, [start]],
    }
    return BoosterText(json.dumps(checked), [nodes for _, nodes in parts], borders.n_features, start, share)


def _catboost_labels(info: dict[str, Any]) -> dict[str, Any]:
    """The labels; how the model was trained, which is not needed to predict, is left out."""
    labels = info["class_params"]
    loss = info.get("params", {}).get("loss_function", {}).get("type", _CATBOOST_LOSSES[0])
    require_that(
        labels["class_to_label"] == [0, 1]
        and len(labels["class_names"]) == 2
        and all(isinstance(label, str | int | float) for label in labels["class_names"])
        and loss in _CATBOOST_LOSSES,
        f"of CatBoost's models only those for two classes by {' or '.join(_CATBOOST_LOSSES)} are supported",
    )
    kept = {"class_label_type": str(labels["class_label_type"]), "class_names": labels["class_names"]}
    return {"class_params": {**kept, "class_to_label": [0, 1], "classes_count": 0}}


class _CatBoostBorders:
    """The borders of each feature, and the place of each among all of them, which a split names."""

    def __init__(self, features: list[dict[str, Any]]) -> None:
        self.n_features = len(features)
        self.written = []
        self.missing_left: list[bool] = []
        self._places: dict[tuple[int, float], int] = {}
        for feature, each in enumerate(features):
            borders = _numbers(each["borders"], len(each["borders"]), np.float64)
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
        _check_nodes(nodes, self.n_features)
        return nodes


def _oblivious_tree(tree: dict[str, Any], borders: _CatBoostBorders) -> tuple[dict[str, Any], TreeNodes]:
    """All nodes of a level have one split; that of the last one is the lowest bit of the number of a leaf."""
    splits = [borders.split(each) for each in tree["splits"]]
    require_that(len(splits) <= _DEEPEST, f"a tree in it is deeper than {_DEEPEST}")
    n_leaves = 2 ** len(splits)
    written = {"splits": splits, "leaf_values": _numbers(tree["leaf_values"], n_leaves, np.float64).tolist()}
    if "leaf_weights" in tree:
        written["leaf_weights"] = _numbers(tree["leaf_weights"], n_leaves, np.float64).tolist()
    levels = [split for level, split in enumerate(reversed(splits)) for _ in range(2**level)]
    place = np.arange(2 * n_leaves - 1)
    value = np.append(np.zeros(n_leaves - 1), written["leaf_values"])
    return written, borders.nodes(levels, 2 * place + 1, 2 * place + 2, value)


def _nested_tree(tree: dict[str, Any], borders: _CatBoostBorders) -> tuple[dict[str, Any], TreeNodes]:
    """A tree whose nodes hold each other; leaves are counted from left to right."""
    found = list(_nested_nodes(tree))
    inner = [node for node in found if "split" in node]
    leaves = [node for node in found if "split" not in node]
    place = {id(node): number for number, node in enumerate([*inner, *leaves])}
    splits = [borders.split(node["split"]) for node in inner]
    left, right = (
        np.array([place[id(node[side])] for node in inner] + [0] * len(leaves), dtype=np.int64)
        for side in ("left", "right")
    )
    values = _numbers([node["value"] for node in leaves], len(leaves), np.float64)
    nodes = borders.nodes(splits, left, right, np.append(np.zeros(len(inner)), values))
    written: dict[int, dict[str, Any]] = {}
    for node in reversed(found):
        if "split" in node:
            sides = {side: written[id(node[side])] for side in ("left", "right")}
            written[id(node)] = {**sides, "split": splits[place[id(node)]]}
        else:
            written[id(node)] = {"value": float(node["value"]), "weight": float(node.get("weight", 0.0))}
    return written[id(tree)], nodes


def _nested_nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node before those below it, left before right."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        if "split" in node:
            stack += [node["right"], node["left"]]


BOOSTER_CLASSES = {".".join(name): name[1] for name in BOOSTERS}


def class_of(model: Any) -> str:
    """The full name of an object's class."""
    return f"{type(model).__module__}.{type(model).__name__}"


def is_booster(model: Any) -> bool:
    """Whether an object is an estimator of LightGBM, XGBoost or CatBoost that a record can hold."""
    return class_of(model) in BOOSTER_CLASSES


@dataclass(frozen=True, slots=True)
class _Format:
    """The text format of a library: how a fitted classifier is written, and a text checked and given to an estimator.

    `used` keeps the trees that the predictions of a model use.
    """

    write: Callable[[Any], str]
    read: Callable[[str], BoosterText]
    attach: Callable[[Any, BoosterText, Any], None]
    used: Callable[[Any, BoosterText], BoosterText]


_FORMATS = {
    "lightgbm": _Format(_write_lightgbm, _read_lightgbm, _attach_lightgbm, _used_lightgbm),
    "xgboost": _Format(_write_xgboost, _read_xgboost, _attach_xgboost, _used_xgboost),
    # CatBoost itself drops the trees after the best round.
    "catboost": _Format(_write_catboost, _read_catboost, _attach_catboost, lambda _, checked: checked),
}


def booster_text(model: Any) -> BoosterText:
    """All trees of a fitted estimator."""
    library = library_of(model)
    return _read(library, _FORMATS[library].write(model))


def booster_trees(model: Any) -> BoosterText:
    """The trees of a fitted estimator as far as its predictions use them, and the score before the first."""
    return _FORMATS[library_of(model)].used(model, booster_text(model))


def attach_trees(model: Any, text: str, module: Any) -> None:
    """Give an estimator the trees of a text, once that is checked; `module` is its library."""
    library = library_of(model)
    _FORMATS[library].attach(model, _read(library, text), module)


def _read(library: str, text: str) -> BoosterText:
    try:
        return _FORMATS[library].read(text)
    except ModelFileError:
        raise
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"a model of {library} in it cannot be read ({type(error).__name__}: {error})") from error
