"""Trees in model files: alone, and in lists, with what all have in common once and the nodes of all in few arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from taufpl._sklearn import Tree, TreePredictor
from taufpl.exceptions import ModelFileError

_KINDS: dict[str, Any] = {each.__name__: each for each in (DecisionTreeClassifier, ExtraTreeClassifier, TreePredictor)}
# Fields of the compiled tree that an estimator holds stand beside its own, under names with this in front.
_INNER = "tree_."


class TreeRecord:
    """The parts of a compiled tree, as they stand in a model file.

    Parameters
    ----------
    args : tuple of int, ndarray and int
        Numbers of features, of classes of each output, and of outputs.
    state : dict
        Nodes, values and depth.
    """

    def __init__(self, args: tuple[Any, Any, Any], state: dict[str, Any]) -> None:
        self.args, self.state = args, state

    def restore(self) -> Any:
        """The tree; nodes still have to be checked."""
        return _make_tree(*self.args, self.state)


class TreeList:
    """A list of fitted trees of scikit-learn, as it stands in a model file.

    Parameters
    ----------
    kind : str
        Name of their class.
    alone : bool
        Whether each stands in a list of its own, as in histogram boosting.
    same : dict
        Attributes that all have in common.
    numbers : dict of str to ndarray
        Attributes that are a whole number for each tree.
    rows, counts : dict of str to ndarray
        Attributes that are an array for each tree, one after the other, and the length of each.
    """

    def __init__(
        self,
        kind: str,
        alone: bool,
        same: dict[str, Any],
        numbers: dict[str, NDArray[np.int64]],
        rows: dict[str, NDArray[Any]],
        counts: dict[str, NDArray[np.int64]],
    ) -> None:
        self.kind, self.alone = kind, alone
        self.same, self.numbers, self.rows, self.counts = same, numbers, rows, counts

    @classmethod
    def of(cls, items: list[Any]) -> TreeList | None:
        """The record of a list; None where it is no list of several fitted trees, or they differ in other things."""
        alone = len(items) > 1 and all(isinstance(item, list) and len(item) == 1 for item in items)
        trees = [item[0] for item in items] if alone else items
        kinds = {type(tree) for tree in trees}
        if len(trees) < 2 or len(kinds) > 1 or (kind := kinds.pop()) not in _KINDS.values():
            return None
        fields = [_fields(tree) for tree in trees]
        record = cls(kind.__name__, alone, {}, {}, {}, {})
        is_whole = all(each.keys() == fields[0].keys() for each in fields) and _nodes_name(kind.__name__) in fields[0]
        return (
            record
            if is_whole and all(record._add(name, [each[name] for each in fields]) for name in fields[0])
            else None
        )

    def _add(self, name: str, values: list[Any]) -> bool:
        """Take an attribute of all trees, if it is of a kind that can be joined."""
        first = values[0]
        if name != _nodes_name(self.kind) and all(_is_equal(value, first) for value in values):
            self.same[name] = first
        elif all(type(value) is int for value in values):
            self.numbers[name] = np.array(values, dtype=np.int64)
        elif isinstance(first, np.ndarray) and all(
            isinstance(value, np.ndarray) and value.dtype == first.dtype and value.shape[1:] == first.shape[1:]
            for value in values
        ):
            self.rows[name] = np.concatenate(values)
            self.counts[name] = np.array([len(value) for value in values], dtype=np.int64)
        else:
            return False
        return True

    def restore(self) -> list[Any]:
        """The list; nodes still have to be checked."""
        count = len(self.counts[_nodes_name(self.kind)])
        fits = all(
            np.all(self.counts[name] >= 0) and sum(self.counts[name]) == len(self.rows[name]) for name in self.rows
        )
        if not fits or any(len(column) != count for column in [*self.counts.values(), *self.numbers.values()]):
            raise ModelFileError("the trees of a list in it have other lengths than it says")
        parts = {name: np.split(rows, np.cumsum(self.counts[name])[:-1]) for name, rows in self.rows.items()}
        trees = []
        for place in range(count):
            fields = {**self.same, **{name: int(values[place]) for name, values in self.numbers.items()}}
            trees.append(_tree(self.kind, {**fields, **{name: each[place] for name, each in parts.items()}}))
        return [[tree] for tree in trees] if self.alone else trees


def _nodes_name(kind: str) -> str:
    return "nodes" if _KINDS[kind] is TreePredictor else f"{_INNER}nodes"


def _fields(tree: Any) -> dict[str, Any]:
    own = dict(vars(tree))
    inner = own.pop("tree_").__getstate__() if "tree_" in own else {}
    return {**own, **{f"{_INNER}{name}": value for name, value in inner.items()}}


def _tree(kind: str, fields: dict[str, Any]) -> Any:
    inner = {name.removeprefix(_INNER): fields.pop(name) for name in list(fields) if name.startswith(_INNER)}
    made = _KINDS[kind].__new__(_KINDS[kind])
    if inner:
        n_classes = np.atleast_1d(np.asarray(fields["n_classes_"], dtype=np.intp))
        fields["tree_"] = _make_tree(fields["n_features_in_"], n_classes, fields["n_outputs_"], inner)
    vars(made).update(fields)
    return made


def _make_tree(n_features: Any, n_classes: Any, n_outputs: Any, state: dict[str, Any]) -> Any:
    """A compiled tree, which believes that the shapes that it is made with fit each other."""
    nodes, values = state["nodes"], state["values"]
    if not (
        type(n_outputs) is int
        and isinstance(n_classes, np.ndarray)
        and n_classes.dtype.kind == "i"
        and n_classes.shape == (n_outputs,)
        and n_outputs > 0
        and n_classes.min() > 0
    ):
        raise ModelFileError("a tree in it has not as many outputs as it says")
    if np.ndim(nodes) != 1 or np.shape(values) != (len(nodes), n_outputs, n_classes.max()):
        raise ModelFileError("a tree in it has nodes and values that do not fit each other")
    tree = Tree(n_features, n_classes, n_outputs)
    tree.__setstate__({**state, "node_count": len(nodes)})
    return tree


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)
