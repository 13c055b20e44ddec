"""An ONNX graph while it grows, and the columns that flow through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._extras import require

PURPOSE = "to export models to ONNX"
# The operators for trees in double precision came with version 5 of the second set.
_ML = "ai.onnx.ml"
_ML_VERSION, _ML_TREES = 3, 5
_IR_VERSION = 10


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring columns in one tensor of shape (rows, width).

    Attributes
    ----------
    tensor : str
    width : int
    is_text : bool
        Strings; else doubles.
    sample : ndarray of shape (n, width)
        The same columns of a few rows as scikit-learn makes them, for steps that are tried out.
    """

    tensor: str
    width: int
    is_text: bool
    sample: NDArray[Any]


class Graph:
    """Nodes, constants and inputs; every tensor gets a name of its own.

    Attributes
    ----------
    single : bool
        Whether a part of it computes in single precision.
    opset : int
        Version of the standard operators.
    """

    def __init__(self, opset: int) -> None:
        self.onnx = require("onnx", "onnx", PURPOSE)
        self.helper = require("onnx.helper", "onnx", PURPOSE)
        self.numpy_helper = require("onnx.numpy_helper", "onnx", PURPOSE)
        self.opset = opset
        self.single = False
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.taken: set[str] = set()

    def name(self, hint: str) -> str:
        """A name that no other tensor has."""
        name, count = hint, 0
        while name in self.taken:
            count += 1
            name = f"{hint}_{count}"
        self.taken.add(name)
        return name

    def input(self, name: str, kind: int, width: int) -> str:
        """An input of the model, with as many rows as there are."""
        if name in self.taken:
            raise ValueError(f"two inputs cannot both be called {name!r}.")
        self.taken.add(name)
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, ["rows", width]))
        return name

    def constant(self, array: Any, hint: str = "constant") -> str:
        """A tensor of fixed values."""
        values = np.asarray(array)
        name = self.name(hint)
        self.constants.append(self.numpy_helper.from_array(np.ascontiguousarray(values).reshape(values.shape), name))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", hint: str | None = None, **attributes: Any) -> str:
        """A node with one output, whose name comes back."""
        output = self.name(hint or operator.lower())
        self.nodes.append(self.helper.make_node(operator, list(inputs), [output], domain=domain, **attributes))
        return output

    def number(self, value: float, hint: str = "number") -> str:
        """A double that stands for itself in every row."""
        return self.constant(np.array(value, dtype=np.float64), hint)

    def cast(self, tensor: str, kind: int) -> str:
        """The same in another type."""
        return self.add("Cast", tensor, to=kind)

    @property
    def types(self) -> Any:
        """Numbers of ONNX's types, by name."""
        return self.onnx.TensorProto

    def take(self, blocks: tuple[Block, ...], columns: Sequence[int]) -> tuple[Block, ...]:
        """Some of the columns, in this order; neighbours from one tensor stay together."""
        home = [(place, offset) for place, block in enumerate(blocks) for offset in range(block.width)]
        runs: list[tuple[int, list[int]]] = []
        for place, offset in (home[column] for column in columns):
            if runs and runs[-1][0] == place:
                runs[-1][1].append(offset)
            else:
                runs.append((place, [offset]))
        return tuple(self._part(blocks[place], offsets) for place, offsets in runs)

    def _part(self, block: Block, offsets: list[int]) -> Block:
        if offsets == list(range(block.width)):
            return block
        indices = self.constant(np.array(offsets, dtype=np.int64), "columns")
        tensor = self.add("Gather", block.tensor, indices, axis=1)
        return Block(tensor, len(offsets), block.is_text, block.sample[:, offsets])

    def matrix(self, blocks: tuple[Block, ...], who: Any) -> Block:
        """All columns in one tensor of doubles."""
        if any(block.is_text for block in blocks):
            raise ValueError(f"{type(who).__name__} would get text, and it takes numbers.")
        if len(blocks) == 1:
            return blocks[0]
        tensor = self.add("Concat", *(block.tensor for block in blocks), axis=1)
        sample = np.hstack([block.sample for block in blocks])
        return Block(tensor, sum(block.width for block in blocks), False, sample)

    def merge(self, model: Any, tensor: str) -> list[str]:
        """Another model's graph with this tensor as its input; names of its outputs here."""
        prefix = self.name("part")
        compose = require("onnx.compose", "onnx", PURPOSE)
        graph = compose.add_prefix(model, prefix=f"{prefix}/").graph
        source = graph.input[0].name
        self.nodes.append(self.helper.make_node("Identity", [tensor], [source]))
        self.nodes.extend(graph.node)
        self.constants.extend(graph.initializer)
        self.taken.update(output for node in graph.node for output in node.output)
        return [output.name for output in graph.output]

    def finish(self, outputs: Sequence[tuple[str, int]], notes: dict[str, str]) -> Any:
        """The model, checked by ONNX itself."""
        declared = [self.helper.make_tensor_value_info(name, kind, ["rows"]) for name, kind in outputs]
        graph = self.helper.make_graph(self.nodes, "taufpl", self.inputs, declared, self.constants)
        versions = [self.helper.make_opsetid("", self.opset)]
        if any(node.domain == _ML for node in self.nodes):
            trees = any(node.op_type == "TreeEnsemble" for node in self.nodes)
            versions.append(self.helper.make_opsetid(_ML, _ML_TREES if trees else _ML_VERSION))
        model = self.helper.make_model(
            graph,
            opset_imports=versions,
            ir_version=_IR_VERSION,
            producer_name="taufpl",
            producer_version=version("taufpl"),
        )
        self.helper.set_model_props(model, notes)
        self.onnx.checker.check_model(model)
        return model


def session(model: Any) -> Any:
    """A session of onnxruntime on the processor, that says nothing but errors."""
    runtime = require("onnxruntime", "onnx", PURPOSE)
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
