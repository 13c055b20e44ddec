"""Trees as arrays of nodes: the form that exports write, and in which trees from files are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def check_nodes(tree: TreeNodes, n_features: int) -> None:
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
