"""Records in the place of what a file keeps in another way, boosters and lists of trees; and back."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from taufpl._extras import require
from taufpl._sklearn import Tree, TreePredictor
from taufpl.estimators import library_of, local_model
from taufpl.exceptions import ModelFileError
from taufpl.persistence._trees import (
    BOOSTER_CLASSES,
    attach_trees,
    booster_text,
    class_of,
    is_booster,
    require_that,
)

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


# Attributes that the trees bring with them, or that are nothing but a log of the training.
_WITH_TREES = ("_Booster", "_object", "_class_map", "_best_score", "_evals_result", "evals_result_")
_IMPORTANCES = "_prediction_values_change"  # of CatBoost, computed after a fit
# The text of trees grows by this factor at most when it is checked.
_TEXT_GROWTH = 16
_THREADS = ("n_jobs", "num_threads", "num_thread", "nthread", "nthreads", "n_threads", "thread_count")
# LightGBM allocates for each thread and ends the process where that fails.
_MAX_THREADS = 1024
_FURTHER = ("_other_params", "kwargs", "_init_params")  # settings beside those of the constructor, by library


class BoosterRecord:
    """An estimator of another library, as it stands in a model file.

    Parameters
    ----------
    kind : str
        Full name of its class.
    state : dict
        Its attributes but for the trees.
    text : ndarray of uint8 or None
        The trees in the text format of the library; None for an estimator that is not fitted.
    has_raw_scores : bool
        Whether it has a decision function, which LightGBM got late: a threshold for that is none for probabilities.
    """

    def __init__(self, kind: str, state: dict[str, Any], text: NDArray[np.uint8] | None, has_raw_scores: bool) -> None:
        self.kind = kind
        self.state = state
        self.text = text
        self.has_raw_scores = has_raw_scores

    @classmethod
    def of(cls, model: Any) -> BoosterRecord:
        """The record of an estimator."""
        library = library_of(model)
        if library == "catboost":
            state, is_fitted = {"_init_params": model.get_params()}, model.is_fitted()
            if (importances := getattr(model, _IMPORTANCES, None)) is not None:
                state[_IMPORTANCES] = np.asarray(importances, dtype=np.float64)
        else:
            state = {name: value for name, value in vars(model).items() if name not in _WITH_TREES}
            is_fitted = model.__sklearn_is_fitted__()
        _check_settings(type(model), state)
        text = booster_text(model).text.encode() if is_fitted else None
        array = None if text is None else np.frombuffer(text, np.uint8)
        return cls(class_of(model), state, array, hasattr(model, "decision_function"))

    def restore(self, max_bytes: int) -> Any:
        """The estimator, once its settings and its text have been checked."""
        if self.kind not in BOOSTER_CLASSES or not isinstance(self.state, dict):
            raise ModelFileError("it holds a model of an unknown library")
        library = self.kind.partition(".")[0]
        try:
            module = require(library, "boost", "to load this model")
        except ImportError as error:
            raise ModelFileError(str(error)) from error
        model = getattr(module, BOOSTER_CLASSES[self.kind])()
        if hasattr(model, "decision_function") != self.has_raw_scores:
            raise ModelFileError(
                f"its threshold is for other scores than those that {library} {module.__version__} gives; use the "
                "version that it was written with"
            )
        _check_settings(type(model), self.state)
        vars(model).update(self.state)
        if self.text is not None:
            text = np.asarray(self.text, dtype=np.uint8).tobytes()
            if len(text) * _TEXT_GROWTH > max_bytes:
                raise ModelFileError(f"its trees would take more memory than max_bytes={max_bytes:,}")
            attach_trees(model, text.decode(), module)
        return model


def _check_settings(kind: type, state: dict[str, Any]) -> None:
    """Refuse attributes that hide methods of the class, and settings that ask for any number of threads."""
    is_text = kind.__module__.startswith("lightgbm")
    for name, value in _settings(state):
        require_that(isinstance(name, str) and name.isidentifier(), f"a booster in it has a setting named {name!r}")
        if name in _THREADS:
            is_count = value is None or (isinstance(value, Integral) and abs(int(value)) <= _MAX_THREADS)
            require_that(
                is_count,
                f"a booster in it has {name}={value!r:.40}, which must be None or an integer up to {_MAX_THREADS}",
            )
        elif is_text and name != "_classes":
            # LightGBM gets its settings as one text of names and values, where an equals sign begins another one.
            require_that(not _has_equals_sign(value), f"a booster in it has the text of several settings in {name}")
    hidden = sorted(name for name in state if hasattr(kind, name))
    require_that(not hidden, f"a booster in it has attributes in the place of methods: {', '.join(hidden)}")


def _settings(state: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    yield from state.items()
    for name in _FURTHER:
        further = state.get(name, {})
        require_that(isinstance(further, dict), f"a booster in it has no settings in {name}")
        yield from further.items()


def _has_equals_sign(value: Any) -> bool:
    parts = value.ravel() if isinstance(value, np.ndarray) else value
    return isinstance(value, str | list | tuple | set | np.ndarray) and any("=" in str(part) for part in parts)


_HOMES = ("sklearn.", "taufpl.")


def with_records(model: Any, trusted: Collection[str] = ()) -> Any:
    """A model with a record in the place of every booster and list of trees, the model itself where it has none.

    A classifier for clusters becomes the one for rows in memory. Estimators whose class the user trusts stay as they
    are; what objects of other trusted classes hold is exchanged.
    """

    def exchange(item: Any) -> Any:
        if isinstance(item, list):
            return TreeList.of(item) or item
        if class_of(item) in trusted:
            return item
        local = local_model(item)
        return BoosterRecord.of(local) if is_booster(local) else item

    return _Exchange(exchange, trusted).apply(model)


def without_records(model: Any, max_bytes: int, trusted: Collection[str] = ()) -> Any:
    """A loaded model with boosters and trees in the place of their records."""

    def exchange(item: Any) -> Any:
        if isinstance(item, TreeList | TreeRecord):
            return item.restore()
        return item.restore(max_bytes) if isinstance(item, BoosterRecord) else item

    return _Exchange(exchange, trusted).apply(model)


class _Exchange:
    """Exchanges some parts of an object: what holds none of them is kept, what holds one is copied."""

    def __init__(self, exchange: Callable[[Any], Any], trusted: Collection[str]) -> None:
        self._exchange = exchange
        self._trusted = trusted
        self._done: dict[int, tuple[Any, Any]] = {}  # with the item itself, whose id none other may get

    def apply(self, item: Any) -> Any:
        if id(item) not in self._done:
            self._done[id(item)] = item, item
            new = self._exchange(item)
            self._done[id(item)] = item, self._inside(item) if new is item else new
        return self._done[id(item)][1]

    def _inside(self, item: Any) -> Any:
        if isinstance(item, dict):
            return self._refilled(item, item)
        if isinstance(item, list | tuple):
            parts = [self.apply(part) for part in item]
            is_same = all(new is old for new, old in zip(parts, item, strict=True))
            return item if is_same else type(item)(parts)
        if isinstance(item, np.ndarray) and item.dtype == object:
            before = np.ma.getdata(item).ravel().tolist()  # an entry of a masked array comes as a copy
            changes = [(place, self.apply(part)) for place, part in enumerate(before)]
            if all(new is before[place] for place, new in changes):
                return item
            copied = item.copy()
            for place, new in changes:
                copied.flat[place] = new
            return copied
        if not type(item).__module__.startswith(_HOMES) and class_of(item) not in self._trusted:
            return item
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            fields = {each.name: getattr(item, each.name) for each in dataclasses.fields(item)}
            new = self._refilled(fields, fields)
            return item if new is fields else dataclasses.replace(item, **new)
        return self._refilled(item, getattr(item, "__dict__", {}))

    def _refilled(self, item: Any, values: dict[Any, Any]) -> Any:
        """The item, or a copy of it with other values where one of them has changed."""
        changed = {name: new for name, old in values.items() if (new := self.apply(old)) is not old}
        if not changed:
            return item
        if isinstance(item, dict):
            copied: Any = copy.copy(item)
            copied.update(changed)
            return copied
        copied = object.__new__(type(item))
        vars(copied).update({**values, **changed})
        return copied
