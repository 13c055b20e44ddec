"""What the steps and scorers of a model become in an ONNX graph, in double precision."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.tree import DecisionTreeClassifier

from taufpl._extras import require
from taufpl._types import Matrix
from taufpl.estimators import LEAST_SHARE, KernelScorer, library_of, scores_of
from taufpl.exceptions import ExportError
from taufpl.persistence._trees import BoosterText, TreeNodes, booster_trees, is_booster, leaf
from taufpl.persistence._unwrap import Encoding, PipelineScorer, Scaling, visit
from taufpl.preprocessing import DAYS_OF_YEAR, MONDAY, SECONDS_OF_DAY, DateEncoder

_PURPOSE = "to export models to ONNX"
OUTPUTS = ("label", "score")
# ONNX has no missing texts.
MISSING_TEXT = ""
# The operators for trees in double precision came with version 5 of the second set.
_ML = "ai.onnx.ml"
_ML_VERSION, _ML_TREES = 3, 5
_IR_VERSION = 10


@dataclass(frozen=True, slots=True)
class ColumnTensor:
    """Neighbouring columns in one tensor of shape (rows, width): doubles, or texts.

    `nones` tells of the missing values that the sample has in a column of texts whether each is None, since ONNX has
    a single missing text.
    """

    name: str
    width: int
    is_text: bool = False
    nones: frozenset[bool] = frozenset()


Columns = tuple[ColumnTensor, ...]


class Graph:
    """Nodes, constants and inputs, each with a name of its own, and a sample to try them out on.

    `opset` is the version of the standard operators; `feed` holds the sample, an array for each input; `single` says
    whether a part of the graph computes in single precision.
    """

    def __init__(self, opset: int) -> None:
        self.onnx = require("onnx", "onnx", _PURPOSE)
        self.types = self.onnx.TensorProto
        self.opset = opset
        self.single = False
        self.feed: dict[str, NDArray[Any]] = {}
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._names: set[str] = set()

    def _name(self, hint: str) -> str:
        """A name that no other tensor has."""
        name, count = hint, 0
        while name in self._names:
            count += 1
            name = f"{hint}_{count}"
        self._names.add(name)
        return name

    def input(self, name: str, sample: NDArray[Any]) -> ColumnTensor:
        """An input of the model with the type of its sample, as text or doubles."""
        if name in OUTPUTS or self._name(name) != name:
            raise ExportError(
                f"an input cannot be called {name!r}, as another input or an output is: rename the column."
            )
        self.feed[name] = sample
        is_text, width = sample.dtype == object, sample.shape[1]
        kind = self.types.STRING if is_text else self.onnx.helper.np_dtype_to_tensor_dtype(sample.dtype)
        self._inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, ["rows", width]))
        is_ready = is_text or kind == self.types.DOUBLE
        return ColumnTensor(name if is_ready else self.cast(name, self.types.DOUBLE), width, is_text)

    def constant(self, values: Any, hint: str = "constant") -> str:
        """A tensor of fixed values, doubles if these are floats."""
        name = self._name(hint)
        self._constants.append(self.onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", hint: str | None = None, **attributes: Any) -> str:
        """A node with one output, whose name comes back."""
        output = self._name(hint or operator.lower())
        self._nodes.append(self.onnx.helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output

    def cast(self, tensor: str, kind: int) -> str:
        """The same tensor in another type."""
        return self.add("Cast", tensor, to=kind)

    def take(self, columns: Columns, indices: Sequence[int]) -> Columns:
        """Some of the columns, in this order; neighbours from one tensor stay together."""
        homes = [(each, offset) for each in columns for offset in range(each.width)]
        runs: list[tuple[ColumnTensor, list[int]]] = []
        for tensor, offset in (homes[index] for index in indices):
            if runs and runs[-1][0] is tensor:
                runs[-1][1].append(offset)
            else:
                runs.append((tensor, [offset]))
        return tuple(self._part(tensor, offsets) for tensor, offsets in runs)

    def _part(self, tensor: ColumnTensor, offsets: list[int]) -> ColumnTensor:
        if offsets == list(range(tensor.width)):
            return tensor
        indices = self.constant(np.array(offsets, dtype=np.int64), "columns")
        return replace(tensor, name=self.add("Gather", tensor.name, indices, axis=1), width=len(offsets))

    def matrix(self, columns: Columns, user: Any) -> ColumnTensor:
        """All columns in one tensor of doubles, for a step or scorer that takes no text."""
        if any(each.is_text for each in columns):
            raise ExportError(f"the model cannot be exported: {type(user).__name__} would get text, and takes numbers.")
        if len(columns) == 1:
            return columns[0]
        joined = self.add("Concat", *(each.name for each in columns), axis=1)
        return ColumnTensor(joined, sum(each.width for each in columns))

    def merge(self, model: Any, tensor: str) -> list[str]:
        """Add another model's graph with a tensor as its input; the names of its outputs come back."""
        graph = require("onnx.compose", "onnx", _PURPOSE).add_prefix(model, prefix=f"{self._name('part')}/").graph
        self._nodes.append(self.onnx.helper.make_node("Identity", [tensor], [graph.input[0].name]))
        self._nodes.extend(graph.node)
        self._constants.extend(graph.initializer)
        self._names.update(output for node in graph.node for output in node.output)
        return [output.name for output in graph.output]

    def evaluate(self, tensor: str, shape: Sequence[str] = ("rows", "columns")) -> NDArray[np.float64]:
        """The values of a tensor of doubles on the sample."""
        (values,) = _run(self.finish([(tensor, self.types.DOUBLE)], {}, shape), self.feed)
        return values

    def finish(
        self, outputs: Sequence[tuple[str, int]], notes: dict[str, str], shape: Sequence[str] = ("rows",)
    ) -> Any:
        """The model with these outputs (names and types), checked by ONNX itself."""
        helper = self.onnx.helper
        declared = [helper.make_tensor_value_info(name, kind, shape) for name, kind in outputs]
        versions = [helper.make_opsetid("", self.opset)]
        if any(node.domain == _ML for node in self._nodes):
            trees = any(node.op_type == "TreeEnsemble" for node in self._nodes)
            versions.append(helper.make_opsetid(_ML, _ML_TREES if trees else _ML_VERSION))
        model = helper.make_model(
            helper.make_graph(self._nodes, "taufpl", self._inputs, declared, self._constants),
            opset_imports=versions,
            ir_version=_IR_VERSION,
            producer_name="taufpl",
            producer_version=version("taufpl"),
        )
        helper.set_model_props(model, notes)
        self.onnx.checker.check_model(model)
        return model


def _run(model: Any, feed: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """The outputs of a model in onnxruntime, on the processor."""
    runtime = require("onnxruntime", "onnx", _PURPOSE)
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)


# How far a converted graph may be off, in units of the type's eps and of the largest value.
_ROUNDINGS = 32.0
# What skl2onnx may be asked for, the last two where the score is a probability.
_OPTIONS: tuple[dict[str, Any], ...] = (
    {"zipmap": False, "raw_scores": True},
    {"raw_scores": True},
    {"zipmap": False},
    {},
)


def _add_transformer(graph: Graph, step: Any, source: ColumnTensor) -> ColumnTensor:
    """Add the columns that a transformer makes."""
    sample = graph.evaluate(source.name)
    expected = step.transform(sample)
    expected = np.asarray(expected.todense() if hasattr(expected, "todense") else expected, dtype=np.float64)
    tensor, _, _ = _convert(graph, step, source, sample, expected, ({},), is_score=False)
    return ColumnTensor(tensor, expected.shape[1])


def _add_converted(graph: Graph, scorer: PipelineScorer, source: ColumnTensor) -> str:
    """Add scores of shape (rows, 1), higher for the positive class."""
    sample = graph.evaluate(source.name)
    expected = scores_of(scorer.final, sample, scorer.positive)[:, np.newaxis]
    options = _OPTIONS if hasattr(scorer.final, "decision_function") else _OPTIONS[2:]
    tensor, column, sign = _convert(graph, scorer.final, source, sample, expected, options, is_score=True)
    rows = graph.add("Flatten", tensor, axis=1)
    chosen = graph.add("Gather", rows, graph.constant(np.array([column], dtype=np.int64)), axis=1)
    return graph.add("Mul", chosen, graph.constant(sign))


def _convert(
    graph: Graph,
    estimator: Any,
    source: ColumnTensor,
    sample: Matrix,
    expected: Matrix,
    options: Any,
    *,
    is_score: bool,
) -> tuple[str, int, float]:
    """Add the first graph that agrees with scikit-learn, double precision before single.

    The tensor that it makes comes back, and where `expected` is a score the column that it is, and its sign.
    """
    require("skl2onnx", "onnx", _PURPOSE)
    reason = "it has no converter"
    kinds: tuple[Any, ...] = (np.float64, np.float32)
    for kind, option in product(kinds, options):
        try:
            model = _converted(graph.opset, estimator, source.width, kind, option)
            outputs = _run(model, {"X": sample.astype(kind)})
        except Exception as error:
            lines = str(error).strip().splitlines()
            reason = lines[0].rstrip(".") if lines else type(error).__name__
            continue
        found = _agreeing(outputs, expected, _ROUNDINGS * float(np.finfo(kind).eps), is_score)
        if found is None:
            reason = "its graph gives other values than scikit-learn"
            continue
        graph.single = graph.single or kind is np.float32
        fed = graph.cast(source.name, graph.types.FLOAT) if kind is np.float32 else source.name
        place, column, sign = found
        return graph.cast(graph.merge(model, fed)[place], graph.types.DOUBLE), column, sign
    raise ExportError(
        f"{type(estimator).__name__} cannot be exported to ONNX ({reason}). Supported are linear models, trees, "
        "forests, gradient boosting, LightGBM, XGBoost and CatBoost, scalers, SimpleImputer, OneHotEncoder, selectors, "
        "pipelines and column transformers, and beyond these what skl2onnx converts to the same values."
    )


def _converted(opset: int, estimator: Any, width: int, kind: Any, option: dict[str, Any]) -> Any:
    types = require("skl2onnx.common.data_types", "onnx", _PURPOSE)
    tensor = types.FloatTensorType if kind is np.float32 else types.DoubleTensorType
    with warnings.catch_warnings():
        # skl2onnx warns about versions and options that it has not seen; whether it is right is measured.
        warnings.simplefilter("ignore")
        return require("skl2onnx", "onnx", _PURPOSE).convert_sklearn(
            estimator,
            initial_types=[("X", tensor([None, width]))],
            target_opset={"": opset, "ai.onnx.ml": 3},
            options={id(estimator): option} if option else None,
        )


def _agreeing(outputs: list[Any], expected: Matrix, bound: float, is_score: bool) -> tuple[int, int, float] | None:
    """The first output, with its column and sign, that is as near to what is expected as rounding lets it be."""
    scale = float(np.max(np.abs(expected), initial=np.finfo(float).tiny))
    for place, output in enumerate(outputs):
        values = np.asarray(output)
        if values.dtype.kind != "f":
            continue
        table = values.reshape(len(expected), -1).astype(np.float64)
        # Converters differ in which column is the score, and in its sign.
        columns = [[column] for column in range(table.shape[1])[::-1]] if is_score else [list(range(table.shape[1]))]
        for column, sign in product(columns, (1.0, -1.0) if is_score else (1.0,)):
            found = sign * table[:, column]
            if found.shape == expected.shape and np.max(np.abs(found - expected), initial=0.0) <= bound * scale:
                return place, column[0], sign
    return None


class TensorVisitor:
    """Features as tensors of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def take(self, features: Columns, columns: Sequence[int]) -> Columns:
        return self.graph.take(features, columns)

    def join(self, parts: Sequence[Columns]) -> Columns:
        return tuple(column for part in parts for column in part)

    def convert(self, features: Columns, step: Any) -> Columns:
        return (_add_transformer(self.graph, step, self.graph.matrix(features, step)),)

    def scale(self, features: Columns, step: Any, scaling: Scaling) -> Columns:
        """The operations of scikit-learn, in its order."""
        graph, matrix = self.graph, self.graph.matrix(features, step)
        tensor = matrix.name
        operands = (("Sub", scaling.subtract), ("Div", scaling.divide), ("Mul", scaling.multiply), ("Add", scaling.add))
        for operator, numbers in operands:
            if numbers is not None:
                tensor = graph.add(operator, tensor, graph.constant(np.asarray(numbers, dtype=np.float64)))
        if scaling.bounds is not None:
            tensor = graph.add("Clip", tensor, *(graph.constant(bound) for bound in scaling.bounds))
        return (ColumnTensor(tensor, matrix.width),)

    def impute(self, features: Columns, step: SimpleImputer, fills: dict[int, Any], marked: list[int]) -> Columns:
        filled, values = [], iter(fills.values())
        for column in self.graph.take(features, list(fills)):
            filled.append(self._filled(column, step, list(islice(values, column.width))))
        double = self.graph.types.DOUBLE
        for column in self.graph.take(features, marked):
            filled.append(ColumnTensor(self.graph.cast(self._missing(column), double), column.width))
        return tuple(filled)

    def _filled(self, column: ColumnTensor, step: SimpleImputer, fills: list[Any]) -> ColumnTensor:
        # An imputer of NaN leaves None as it is, and the other way round.
        if not column.nones <= {step.missing_values is None}:
            return column
        kind = object if column.is_text else np.float64
        values = np.array([[MISSING_TEXT if each is None else each for each in fills]], dtype=kind)
        fill = self.graph.constant(values, "fills")
        tensor = self.graph.add("Where", self._missing(column), fill, column.name)
        return ColumnTensor(tensor, column.width, column.is_text)

    def _missing(self, column: ColumnTensor) -> str:
        """A tensor that is true where a value is missing: NaN, or the empty string."""
        if not column.is_text:
            return self.graph.add("IsNaN", column.name)
        return self.graph.add("Equal", column.name, self.graph.constant(np.array([[MISSING_TEXT]], dtype=object)))

    def split_dates(self, features: Columns, step: DateEncoder) -> Columns:
        """The arithmetic of the encoder, in its order."""
        graph, seconds = self.graph, self.graph.matrix(features, step)
        days = graph.add("Div", seconds.name, graph.constant(SECONDS_OF_DAY))
        whole = graph.add("Floor", days)
        season = graph.add("Div", self._modulo(days, DAYS_OF_YEAR), graph.constant(DAYS_OF_YEAR))
        weekday = self._modulo(graph.add("Add", whole, graph.constant(MONDAY)), 7.0)
        parts = (days, graph.add("Sub", days, whole), weekday, season)
        width = seconds.width
        by_column = [part * width + column for column in range(width) for part in range(len(parts))]
        numbers = graph.take(tuple(ColumnTensor(part, width) for part in parts), by_column)
        marks = graph.take((ColumnTensor(graph.cast(self._missing(seconds), graph.types.DOUBLE), width),), step.marked_)
        return numbers + marks

    def _modulo(self, values: str, divisor: float) -> str:
        graph, constant = self.graph, self.graph.constant(divisor)
        whole = graph.add("Floor", graph.add("Div", values, constant))
        return graph.add("Sub", values, graph.add("Mul", whole, constant))

    def encode(self, features: Columns, step: Any, encodings: Iterable[Encoding]) -> Columns:
        return tuple(
            self._encoded(encoding, *self.graph.take(features, [column]))
            for column, encoding in enumerate(encodings)
            if encoding.outputs.size
        )

    def _encoded(self, encoding: Encoding, column: ColumnTensor) -> ColumnTensor:
        """A row with a one for its category, times the table of the outputs of each category."""
        graph, types = self.graph, self.graph.types
        same = graph.cast(self._equal(encoding.categories, column), types.DOUBLE)
        width = encoding.outputs.shape[1]
        tensor = graph.add("MatMul", same, graph.constant(encoding.outputs, "outputs"))
        # A value that the encoder would refuse becomes NaN, and so does the score.
        unknown = np.full(width, np.nan) if encoding.unknown is None else encoding.unknown
        if unknown.any():
            axes = graph.constant(np.array([1], dtype=np.int64))
            is_known = graph.cast(graph.add("ReduceSum", same, axes, keepdims=1), types.BOOL)
            tensor = graph.add("Where", is_known, tensor, graph.constant(unknown.reshape(1, -1)))
        return ColumnTensor(tensor, width)

    def _equal(self, categories: list[Any], column: ColumnTensor) -> str:
        """A tensor of shape (rows, categories) that is true where a value is that category."""
        graph = self.graph
        if column.is_text:
            if None in categories and MISSING_TEXT in categories:
                raise ExportError(
                    "a column with both missing and empty texts cannot be exported: ONNX has one of them."
                )
            row = np.array([[MISSING_TEXT if each is None else str(each) for each in categories]], dtype=object)
            return graph.add("Equal", column.name, graph.constant(row, "categories"))
        if any(isinstance(each, str) for each in categories):
            raise ExportError("a column of texts must come as one: give the frame that the model was fitted on as X.")
        numbers = np.array([[np.nan if each is None else float(each) for each in categories]])
        equal = graph.add("Equal", column.name, graph.constant(numbers, "categories"))
        if None not in categories:
            return equal
        both_missing = graph.add("And", self._missing(column), graph.constant(np.isnan(numbers)))
        return graph.add("Or", equal, both_missing)


_LEQ, _SUM, _NO_TRANSFORM = 0, 1, 0


def _add_trees(graph: Graph, scorer: PipelineScorer, source: ColumnTensor) -> str | None:
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
    leaves = _add_leaves(graph, trees, _single_precision(graph, source.name) if is_single else source.name)
    return graph.add("Add", graph.add("Mul", leaves, graph.constant(share)), graph.constant(start))


def _single_precision(graph: Graph, tensor: str) -> str:
    """Doubles rounded to single precision, in which scikit-learn's trees, XGBoost and CatBoost look at features."""
    return graph.cast(graph.cast(tensor, graph.types.FLOAT), graph.types.DOUBLE)


def _add_leaves(graph: Graph, trees: list[TreeNodes], tensor: str, *, apart: bool = False) -> str:
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


# What LightGBM takes for zero.
_ZERO = float(np.float32(1e-35))


def _add_booster(graph: Graph, scorer: PipelineScorer, source: ColumnTensor) -> str | None:
    """Add scores for the positive class, of shape (rows, 1); None if the scorer is of no such library.

    As in the library, these are raw scores where the classifier has a decision function, and else probabilities.
    """
    model = scorer.final
    if not is_booster(model):
        return None
    is_second = model.classes_[1] == scorer.positive
    raw, steepness = _raw_score(graph, model, source)
    if hasattr(model, "decision_function"):
        return raw if is_second else graph.add("Neg", raw)
    one = graph.constant(1.0)
    exponential = graph.add("Exp", graph.add("Mul", raw, graph.constant(-steepness)))
    probability = graph.add("Div", one, graph.add("Add", exponential, one))
    return probability if is_second else graph.add("Sub", one, probability)


def _raw_score(graph: Graph, model: Any, source: ColumnTensor) -> tuple[str, float]:
    """The raw score of a fitted booster, higher for the second class, and what makes it log-odds by multiplication."""
    found = booster_trees(model)
    if not found.trees:
        raise ExportError(f"{type(model).__name__} has no trees: there is nothing to export.")
    if library_of(model) == "xgboost":
        return _add_margin(graph, found, source.name, float(model.missing)), 1.0
    tensor = source.name
    if library_of(model) == "catboost":
        tensor = _single_precision(graph, tensor)
    else:
        is_zero = graph.add("LessOrEqual", graph.add("Abs", tensor), graph.constant(_ZERO))
        tensor = graph.add("Where", is_zero, graph.constant(np.nan if found.zero_is_missing else 0.0), tensor)
    leaves = graph.add("Mul", _add_leaves(graph, found.trees, tensor), graph.constant(found.share))
    return graph.add("Add", leaves, graph.constant(found.start)), found.steepness


def _add_margin(graph: Graph, found: BoosterText, tensor: str, missing: float) -> str:
    """XGBoost looks at features in single precision, where one number may stand for missing values.

    It adds up in single precision, a tree after the other: rounded sums depend on the order.
    """
    tensor = _single_precision(graph, tensor)
    if not np.isnan(missing):
        is_missing = graph.add("Equal", tensor, graph.constant(float(np.float32(missing))))
        tensor = graph.add("Where", is_missing, graph.constant(np.nan), tensor)
    leaves = _add_leaves(graph, [leaf(found.start), *found.trees], tensor, apart=True)
    sums = graph.add("CumSum", graph.cast(leaves, graph.types.FLOAT), graph.constant(np.int64(1)))
    last = graph.add("Gather", sums, graph.constant(np.array([-1], dtype=np.int64)), axis=1)
    return graph.cast(last, graph.types.DOUBLE)


def add_score(visitor: TensorVisitor, scorer: PipelineScorer, features: Columns) -> str:
    """Add scores of shape (rows, 1), higher for the positive class."""
    graph = visitor.graph
    features = visit(scorer.steps, features, visitor)
    if isinstance(scorer.final, KernelScorer):
        raise ExportError(
            f"the score of {type(scorer.final).__name__} is a sum of kernels, which is not exported to ONNX. Keep the "
            "model by taufpl.persistence.save_model, or export a linear one."
        )
    source = graph.matrix(features, scorer.final)
    if scorer.coef is not None:
        product = graph.add("MatMul", source.name, graph.constant(scorer.coef[:, np.newaxis], "weights"))
        return graph.add("Add", product, graph.constant(scorer.intercept, "intercept"))
    if scorer.terms:
        return _add_stack(visitor, scorer, (source,))
    added = _add_trees(graph, scorer, source) or _add_booster(graph, scorer, source)
    return added or _add_converted(graph, scorer, source)


def _add_stack(visitor: TensorVisitor, stack: PipelineScorer, features: Columns) -> str:
    """Add the score of a stack: the weighted sum of the log-odds of its models, each from its own center."""
    graph, parts = visitor.graph, []
    for term in stack.terms:
        centred = graph.add("Sub", _add_log_odds(visitor, term.scorer, features), graph.constant(term.center))
        parts.append(graph.add("Mul", centred, graph.constant(term.factor)))
    return graph.add("Sum", *parts, graph.constant(np.array([[stack.intercept]])))


def _add_log_odds(visitor: TensorVisitor, scorer: PipelineScorer, features: Columns) -> str:
    """Add what `taufpl.estimators.log_odds` computes."""
    graph = visitor.graph
    if is_booster(scorer.final):
        source = graph.matrix(visit(scorer.steps, features, visitor), scorer.final)
        return _raw_score(graph, scorer.final, source)[0]
    score = add_score(visitor, scorer, features)
    if isinstance(scorer.final, RandomForestClassifier | ExtraTreesClassifier):
        return _add_ratio(graph, score, len(scorer.final.estimators_), added=0.5)
    return score if hasattr(scorer.final, "decision_function") else _add_ratio(graph, score, 1.0, least=LEAST_SHARE)


def _add_ratio(graph: Graph, share: str, count: float, *, added: float = 0.0, least: float = 0.0) -> str:
    """Add log((share count + added) / ((1 - share) count + added)), with shares of at least `least`."""
    sides = [share, graph.add("Sub", graph.constant(1.0), share)]
    if least:
        sides = [graph.add("Max", side, graph.constant(least)) for side in sides]
    if added:
        sides = [graph.add("Mul", side, graph.constant(float(count))) for side in sides]
        sides = [graph.add("Add", side, graph.constant(added)) for side in sides]
    return graph.add("Log", graph.add("Div", *sides))
