"""An ONNX graph while it grows, and the columns that flow through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._extras import require
from taufpl.exceptions import ExportError

PURPOSE = "to export models to ONNX"
OUTPUTS = ("label", "score")
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
        self.onnx = require("onnx", "onnx", PURPOSE)
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
        graph = require("onnx.compose", "onnx", PURPOSE).add_prefix(model, prefix=f"{self._name('part')}/").graph
        self._nodes.append(self.onnx.helper.make_node("Identity", [tensor], [graph.input[0].name]))
        self._nodes.extend(graph.node)
        self._constants.extend(graph.initializer)
        self._names.update(output for node in graph.node for output in node.output)
        return [output.name for output in graph.output]

    def evaluate(self, tensor: str, shape: Sequence[str] = ("rows", "columns")) -> NDArray[np.float64]:
        """The values of a tensor of doubles on the sample."""
        (values,) = run(self.finish([(tensor, self.types.DOUBLE)], {}, shape), self.feed)
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


def run(model: Any, feed: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """The outputs of a model in onnxruntime, on the processor."""
    runtime = require("onnxruntime", "onnx", PURPOSE)
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)
