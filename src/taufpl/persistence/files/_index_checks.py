"""Checks of the indices that a loaded model holds: compiled code would follow them anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import (
    BaseEnsemble,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from sklearn.tree import BaseDecisionTree
from sklearn.utils import check_array

from taufpl.estimators import KernelScorer
from taufpl.exceptions import ModelFileError
from taufpl.persistence._tree_nodes import check_children, check_features
from taufpl.persistence.files._allowed_types import TREE

_HOMES = ("sklearn.", "taufpl.", "lightgbm.", "xgboost.", "catboost.")
# Numbers that a generator keeps: of the Mersenne Twister, and of Philox.
_TWISTER, _PHILOX = 624, 4
# What scikit-learn encodes the columns of boosted trees by.
_PARTS = {"encoder": OrdinalEncoder, "numerical": FunctionTransformer}


def check_indices(model: Any) -> None:
    """Hold every index that compiled code would follow against what it points into.

    These are the indices of trees and ensembles of them, gradient-boosted trees, support vectors, labels of neighbours,
    levels, words, sparse matrices and generators of random numbers. An estimator that has not been fitted, such as one
    that is cloned, has none. An index that points outside is a ModelFileError.
    """
    for part in _objects(model):
        if f"{type(part).__module__}.{type(part).__name__}" == TREE:
            _check_tree(part)
        elif hasattr(part, "tocsr"):
            _check_sparse(part)
        elif isinstance(part, np.random.RandomState | np.random.Generator):
            _check_generator(part)
        elif isinstance(part, BaseDecisionTree) and hasattr(part, "tree_"):
            _check_n_features(part.tree_.n_features, part.n_features_in_)
        elif isinstance(part, BaseEnsemble) and hasattr(part, "estimators_"):
            _check_ensemble(part)
        elif isinstance(part, HistGradientBoostingClassifier | HistGradientBoostingRegressor):
            _check_boosted(part)
            _check_preprocessor(part)
        elif isinstance(part, SVC | NuSVC | OneClassSVM | SVR | NuSVR):
            _check_support(part)
        elif isinstance(part, KernelScorer):
            _check_expansion(part)
        elif isinstance(part, OneHotEncoder):
            _check_levels(part)
        elif isinstance(getattr(part, "vocabulary_", None), dict):
            _check_vocabulary(part.vocabulary_)
        elif hasattr(part, "_fit_X"):
            _check_neighbours(part)


def _objects(model: Any) -> Iterator[Any]:
    """Everything that hangs on a model, each once."""
    stack, seen = [model], {}
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        yield item
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list | tuple | set):
            stack.extend(item)
        elif isinstance(item, np.ndarray):
            stack.extend(item.ravel().tolist() if item.dtype == object else ())
        elif type(item).__module__.startswith(_HOMES):
            stack.extend(getattr(item, "__dict__", {}).values())


def _is_fitted(part: Any, *names: str) -> bool:
    """Whether any of these attributes is there: an estimator with some of them alone is checked, and fails."""
    return any(hasattr(part, name) for name in names)


def _check_n_features(found: Any, expected: Any) -> None:
    if int(found) != int(expected):
        raise ModelFileError(f"a part of the model wants {int(found)} features where it would get {int(expected)}")


def _check_tree(tree: Any) -> None:
    if tree.node_count > tree.capacity:
        raise ModelFileError("a tree in it has fewer nodes than it says")
    left, right = tree.children_left, tree.children_right
    inner = np.flatnonzero(left != -1)
    if not len(left) or np.any((left == -1) != (right == -1)):
        raise ModelFileError("a tree in it has a node with a single child, or no node")
    check_children(left[inner], inner, len(left))
    check_children(right[inner], inner, len(left))
    check_features(tree.feature[inner], tree.n_features)


def _check_ensemble(model: Any) -> None:
    """Trees of an ensemble are not asked again how many features they want; some get a part of the columns.

    Gradient boosting adds each tree of a row of them to a sum of its own; of two classes, as of numbers, there is one.
    """
    estimators = np.asarray(model.estimators_, dtype=object)
    if isinstance(model, GradientBoostingClassifier | GradientBoostingRegressor):
        n_sums = getattr(model, "n_trees_per_iteration_", 1)
        if estimators.ndim != 2 or not estimators.shape[1] == n_sums == 1:
            raise ModelFileError("a boosted model in it has more or fewer trees side by side than sums")
    trees = np.ravel(estimators)
    columns = getattr(model, "estimators_features_", None)
    if columns is None or model._max_features == model.n_features_in_:
        counts = [model.n_features_in_] * len(trees)
    else:
        counts = [len(each) for each in columns]
    for each, count in zip(trees, counts, strict=True):
        if hasattr(each, "tree_"):
            _check_n_features(each.tree_.n_features, count)


def _check_boosted(model: Any) -> None:
    if not _is_fitted(model, "_predictors"):
        return
    _check_n_features(len(model._bin_mapper.is_categorical_), model.n_features_in_)
    for predictor in (each for iteration in model._predictors for each in iteration):
        nodes, bitsets = predictor.nodes, predictor.raw_left_cat_bitsets
        inner = np.flatnonzero(nodes["is_leaf"] == 0)
        if not len(nodes) or bitsets.ndim != 2 or bitsets.shape[1] != 8:
            raise ModelFileError("a boosted tree in it has no node, or sets of categories of another size")
        for side in ("left", "right"):
            check_children(nodes[side][inner].astype(np.int64), inner, len(nodes))
        check_features(nodes["feature_idx"][inner], model.n_features_in_)
        by_set = nodes[inner][nodes["is_categorical"][inner] != 0]
        has_sets = np.asarray(model._bin_mapper.is_categorical_, dtype=bool)[by_set["feature_idx"]]
        if np.any(by_set["bitset_idx"] >= len(bitsets)) or not np.all(has_sets):
            raise ModelFileError("a boosted tree in it asks for a set of categories that is not there")


def _check_preprocessor(model: Any) -> None:
    """Categories and numbers that go into boosted trees come out of their encoder as many as there are features."""
    encoder = getattr(model, "_preprocessor", None)
    if encoder is None:
        return
    places = np.arange(model.n_features_in_)
    parts = {name: (part, places[columns].tolist()) for name, part, columns in encoder.transformers_ if name in _PARTS}
    given = [encoder._transformer_to_input_indices.get(name) for name in parts]
    sound = (
        [*parts] == [*_PARTS]
        and all(type(part) is kind for (part, _), kind in zip(parts.values(), _PARTS.values(), strict=True))
        and getattr(parts["numerical"][0].func, "func", None) is check_array
        and given == [columns for _, columns in parts.values()]
        and sorted(place for columns in given for place in columns) == places.tolist()
    )
    if not sound:
        raise ModelFileError("the encoder of a boosted model in it does not give each feature")


def _check_support(model: Any) -> None:
    if not _is_fitted(model, "support_vectors_", "_dual_coef_", "_n_support"):
        return
    vectors, counts, duals = model.support_vectors_, np.asarray(model._n_support), model._dual_coef_
    n_classes = len(model.classes_) if hasattr(model, "classes_") else 2
    # A detector has vectors of one kind, and what stands in the second place of its counts means nothing.
    total = counts.sum() if hasattr(model, "classes_") else counts[0]
    n_pairs = n_classes * (n_classes - 1) // 2
    sound = (
        counts.shape == (n_classes,)
        and bool(np.all(counts >= 0))
        and int(total) == vectors.shape[0] == duals.shape[1] == len(model.support_)
        and duals.shape[0] == n_classes - 1
        and np.size(model._intercept_) == n_pairs
        and all(np.size(part) in (0, n_pairs) for part in (model._probA, model._probB))
        and vectors.shape[1] == model.n_features_in_
        # Entries are counted through, in sparse matrices too, and places of rows are followed in such a kernel alone.
        and duals.size == duals.shape[0] * duals.shape[1]
        and isinstance(model.kernel, str)
        and model.kernel != "precomputed"
    )
    if not sound:
        raise ModelFileError("the support vectors in it do not fit their coefficients")


def _check_expansion(model: Any) -> None:
    """A kernel model has a row for each weight, or the place of a column where the kernel is precomputed."""
    if not _is_fitted(model, "support_vectors_", "dual_coef_"):
        return
    support, weights = model.support_vectors_, model.dual_coef_
    by_place = model.kernel == "precomputed"
    shape = (weights.shape[-1],) if by_place else (weights.shape[-1], model.n_features_in_)
    sound = weights.ndim == 2 and len(weights) == 1 and support.shape == shape
    if sound and by_place and support.size:
        sound = support.dtype.kind == "i" and 0 <= support.min() <= support.max() < model.n_features_in_
    if not sound:
        raise ModelFileError("the rows of a kernel model in it do not fit their weights")


def _check_neighbours(model: Any) -> None:
    """Rows that new ones are compared with have their columns, and one label each that is there."""
    rows = model._fit_X
    labels: Any = getattr(model, "_y", None)
    _check_n_features(rows.shape[1], model.n_features_in_)
    if hasattr(model, "classes_") and np.ndim(labels) == 1:
        # Several labels a row are followed by NumPy, which looks.
        inside = (labels >= 0) & (labels < len(model.classes_))
        if len(labels) != rows.shape[0] or not np.all(inside):
            raise ModelFileError("the labels of neighbours in it do not fit their rows")


def _check_levels(encoder: OneHotEncoder) -> None:
    """Each level, or the group of rare ones that it belongs to, leads to a feature of its column."""
    if not _is_fitted(encoder, "categories_", "_n_features_outs"):
        return
    n_columns, levels, counts = encoder.n_features_in_, encoder.categories_, encoder._n_features_outs
    drops = [None] * n_columns if encoder._drop_idx_after_grouping is None else encoder._drop_idx_after_grouping
    groups = encoder._default_to_infrequent_mappings if encoder._infrequent_enabled else [None] * n_columns
    if not len(levels) == len(counts) == len(drops) == len(groups) == n_columns:
        raise ModelFileError("the levels in it do not fit their columns")
    for own, count, drop, group in zip(levels, counts, drops, groups, strict=True):
        n_places = count + (drop is not None)
        places = np.arange(len(own)) if group is None else np.asarray(group)
        ends = [*places, *([] if drop is None else [drop])]
        if len(places) != len(own) or not all(
            isinstance(end, int | np.integer) and 0 <= end < n_places for end in ends
        ):
            raise ModelFileError("the levels in it do not fit their features")


def _check_vocabulary(vocabulary: dict[Any, Any]) -> None:
    """Words lead to the features from the first to the last."""
    places = vocabulary.values()
    if not all(isinstance(place, int | np.integer) for place in places) or {*places} != {*range(len(vocabulary))}:
        raise ModelFileError("the words in it do not fit their features")


def _check_sparse(matrix: Any) -> None:
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ModelFileError("a sparse matrix in it points outside itself") from error


def _check_generator(source: Any) -> None:
    """A generator takes its next number from the place that its state names, without looking."""
    is_new = isinstance(source, np.random.Generator)
    state: Any = source.bit_generator.state if is_new else source.get_state(legacy=False)
    place, buffer_place = state["state"].get("pos", 0), state.get("buffer_pos", 0)
    if not (0 <= place <= _TWISTER and 0 <= buffer_place <= _PHILOX):
        raise ModelFileError("a generator of random numbers in it points outside its state")
