"""Whether what was loaded can be used without harm: compiled code follows the indices that a model holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.svm._base import BaseLibSVM
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree

from taufpl.estimators import KernelScorer
from taufpl.exceptions import ModelFileError

_HOMES = ("sklearn.", "taufpl.")


def check_sound(model: Any) -> None:
    """Hold every index that compiled code would follow against what it points into.

    Looked at are trees and ensembles of them, gradient-boosted trees, support vectors and sparse matrices.

    Raises
    ------
    ModelFileError
        One of them points outside.
    """
    for part in _objects(model):
        if isinstance(part, Tree):
            _check_tree(part)
        elif hasattr(part, "tocsr"):
            _check_sparse(part)
        else:
            _check_estimator(part)


def _check_estimator(part: Any) -> None:
    """One that has not been fitted, such as the estimator that a meta-estimator clones, has nothing to check."""
    if isinstance(part, BaseDecisionTree) and _has(part, "tree_"):
        _agree(part.tree_.n_features, part.n_features_in_)
    elif isinstance(part, IsolationForest) and _has(part, "estimators_"):
        whole = part._max_features == part.n_features_in_
        for columns, each in zip(part.estimators_features_, part.estimators_, strict=True):
            _agree(each.tree_.n_features, part.n_features_in_ if whole else len(columns))
    elif isinstance(part, BaseForest | BaseGradientBoosting) and _has(part, "estimators_"):
        for each in np.ravel(np.asarray(part.estimators_, dtype=object)):
            _agree(each.tree_.n_features, part.n_features_in_)
    elif isinstance(part, BaseHistGradientBoosting) and _has(part, "_predictors"):
        _check_boosted(part)
    elif isinstance(part, BaseLibSVM) and _has(part, "support_vectors_", "_dual_coef_", "_n_support"):
        _check_support(part)
    elif isinstance(part, KernelScorer) and _has(part, "support_vectors_", "dual_coef_"):
        _check_expansion(part)


def _has(part: Any, *names: str) -> bool:
    """Whether any is there: a part of what a fit leaves behind is no reason to look away."""
    return any(hasattr(part, name) for name in names)


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


def _agree(found: Any, expected: Any) -> None:
    if int(found) != int(expected):
        raise ModelFileError(f"a part of the model wants {int(found)} features where it would get {int(expected)}")


def _check_children(children: NDArray[Any], parents: NDArray[Any], count: int) -> None:
    """Children come after their parents, so that every walk ends, and before the end."""
    if np.any(children <= parents) or np.any(children >= count):
        raise ModelFileError("a tree in it points outside itself, or back")


def _check_tree(tree: Any) -> None:
    left, right, feature = (np.asarray(each) for each in (tree.children_left, tree.children_right, tree.feature))
    inner = np.flatnonzero(left != -1)
    if not len(left) or np.any((left == -1) != (right == -1)):
        raise ModelFileError("a tree in it has a node with a single child, or no node")
    _check_children(left[inner], inner, len(left))
    _check_children(right[inner], inner, len(left))
    if np.any(feature[inner] < 0) or np.any(feature[inner] >= tree.n_features):
        raise ModelFileError("a tree in it asks for a feature that is not there")


def _check_boosted(model: Any) -> None:
    _agree(len(model._bin_mapper.is_categorical_), model.n_features_in_)
    for predictor in (each for iteration in model._predictors for each in iteration):
        nodes, bitsets = predictor.nodes, predictor.raw_left_cat_bitsets
        inner = np.flatnonzero(nodes["is_leaf"] == 0)
        if not len(nodes) or bitsets.ndim != 2 or bitsets.shape[1] != 8:
            raise ModelFileError("a boosted tree in it has no node, or sets of categories of another size")
        for side in ("left", "right"):
            _check_children(nodes[side][inner].astype(np.int64), inner, len(nodes))
        features = nodes["feature_idx"][inner]
        if np.any(features < 0) or np.any(features >= model.n_features_in_):
            raise ModelFileError("a boosted tree in it asks for a feature that is not there")
        if np.any(nodes["bitset_idx"][inner][nodes["is_categorical"][inner] == 1] >= len(bitsets)):
            raise ModelFileError("a boosted tree in it asks for a set of categories that is not there")


def _check_support(model: Any) -> None:
    vectors, counts, duals = model.support_vectors_, np.asarray(model._n_support), model._dual_coef_
    n_classes = len(model.classes_) if hasattr(model, "classes_") else 2
    # A detector has vectors of one kind, and what stands in the second place of its counts means nothing.
    total = counts.sum() if hasattr(model, "classes_") else counts[0]
    sound = (
        counts.shape == (n_classes,)
        and bool(np.all(counts >= 0))
        and int(total) == vectors.shape[0] == duals.shape[1] == len(model.support_)
        and duals.shape[0] == n_classes - 1
        and np.size(model._intercept_) == n_classes * (n_classes - 1) // 2
        and vectors.shape[1] == model.n_features_in_
    )
    if not sound:
        raise ModelFileError("the support vectors in it do not fit their coefficients")


def _check_expansion(model: Any) -> None:
    """Rows, or places of columns where the kernel is precomputed, one for each weight."""
    support, weights = model.support_vectors_, model.dual_coef_
    by_place = model.kernel == "precomputed"
    shape = (weights.shape[-1],) if by_place else (weights.shape[-1], model.n_features_in_)
    sound = weights.ndim == 2 and len(weights) == 1 and support.shape == shape
    if sound and by_place and support.size:
        sound = support.dtype.kind == "i" and 0 <= support.min() <= support.max() < model.n_features_in_
    if not sound:
        raise ModelFileError("the rows of a kernel model in it do not fit their weights")


def _check_sparse(matrix: Any) -> None:
    if matrix.format not in ("csr", "csc"):
        raise ModelFileError(f"it holds a sparse matrix in {matrix.format} format, and no model does")
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ModelFileError("a sparse matrix in it points outside itself") from error
