"""Transformers as nodes of an ONNX graph, in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer

from taufpl.exceptions import ExportError
from taufpl.persistence._onnx_fallback import add_transformer
from taufpl.persistence._onnx_graph import Block, Graph
from taufpl.persistence._steps import (
    Encoding,
    Scaling,
    encodings,
    imputation,
    is_encoder,
    is_left,
    is_missing,
    scaling,
)

Blocks = tuple[Block, ...]

# ONNX has no missing strings.
MISSING_TEXT = ""


class Tensors:
    """Features as tensors of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def take(self, features: Blocks, columns: Sequence[int]) -> Blocks:
        return self.graph.take(features, columns)

    def join(self, parts: Sequence[Blocks]) -> Blocks:
        return tuple(block for part in parts for block in part)

    def apply(self, step: Any, features: Blocks) -> Blocks:
        if type(step) is SimpleImputer:
            return self._impute(step, features)
        if is_encoder(step):
            return self._encode(step, features)
        plan = scaling(step)
        block = self.graph.matrix(features, step)
        return (add_transformer(self.graph, step, block) if plan is None else self._scale(step, plan, block),)

    def _scale(self, step: Any, plan: Scaling, block: Block) -> Block:
        """The operations of scikit-learn, in its order."""
        graph, tensor = self.graph, block.tensor
        pairs = (("Sub", plan.subtract), ("Div", plan.divide), ("Mul", plan.multiply), ("Add", plan.add))
        for operator, numbers in pairs:
            if numbers is not None:
                tensor = graph.add(operator, tensor, graph.constant(np.asarray(numbers, dtype=np.float64)))
        if plan.bounds is not None:
            tensor = graph.add("Clip", tensor, *(graph.number(bound) for bound in plan.bounds))
        return Block(tensor, block.width, False, step.transform(block.sample))

    def _impute(self, step: SimpleImputer, features: Blocks) -> Blocks:
        plan = imputation(step)
        fills = dict(zip(plan.kept, plan.fills, strict=True))
        filled, start = [], 0
        for block in features:
            columns = [column - start for column in plan.kept if start <= column < start + block.width]
            if columns:
                (kept,) = self.graph.take((block,), columns)
                filled.append(self._filled(step, kept, [fills[start + column] for column in columns]))
            start += block.width
        marked = tuple(self._gaps(block) for block in self.graph.take(features, plan.marked))
        return (*filled, *marked)

    def _filled(self, step: SimpleImputer, block: Block, fills: list[Any]) -> Block:
        if block.is_text and any(is_left(step, value) for value in block.sample.ravel().tolist()):
            return block
        graph = self.graph
        fills = [MISSING_TEXT if each is None else each for each in fills]
        values = np.array(fills, dtype=object if block.is_text else np.float64).reshape(1, -1)
        tensor = graph.add("Where", self._missing(block), graph.constant(values, "fills"), block.tensor)
        return Block(tensor, block.width, block.is_text, np.where(_empty(block), values, block.sample))

    def _gaps(self, block: Block) -> Block:
        gaps = self.graph.cast(self._missing(block), self.graph.types.DOUBLE)
        return Block(gaps, block.width, False, _empty(block).astype(np.float64))

    def _missing(self, block: Block) -> str:
        """Where there is no value: NaN, or the empty string."""
        if not block.is_text:
            return self.graph.add("IsNaN", block.tensor)
        return self.graph.add("Equal", block.tensor, self.graph.constant(np.array([[MISSING_TEXT]], dtype=object)))

    def _encode(self, step: Any, features: Blocks) -> Blocks:
        made = []
        for column, encoding in enumerate(encodings(step)):
            if encoding.n_outputs:
                (block,) = self.graph.take(features, [column])
                made.append(self._encoded(encoding, block))
        return tuple(made)

    def _encoded(self, encoding: Encoding, block: Block) -> Block:
        """Which category it is, as a row of zeros and a one; times the table of what each becomes."""
        graph, double = self.graph, self.graph.types.DOUBLE
        same = graph.cast(self._equal(encoding, block), double)
        table = np.zeros((len(encoding.categories), encoding.n_outputs))
        for row, output in enumerate(encoding.outputs):
            if output is not None:
                table[row, output] = 1.0
        tensor = graph.add("MatMul", same, graph.constant(table, "outputs"))
        beyond = _beyond(encoding)
        if beyond.any():
            axes = graph.constant(np.array([1], dtype=np.int64))
            seen = graph.cast(graph.add("ReduceSum", same, axes, keepdims=1), graph.types.BOOL)
            tensor = graph.add("Where", seen, tensor, graph.constant(beyond.reshape(1, -1)))
        return Block(tensor, encoding.n_outputs, False, _encoded_sample(encoding, block))

    def _equal(self, encoding: Encoding, block: Block) -> str:
        graph, values = self.graph, encoding.categories
        if block.is_text:
            if None in values and MISSING_TEXT in values:
                raise ExportError(
                    "a column with both missing and empty texts cannot be exported: ONNX has one of them."
                )
            row = np.array([[MISSING_TEXT if each is None else str(each) for each in values]], dtype=object)
            return graph.add("Equal", block.tensor, graph.constant(row, "categories"))
        if any(isinstance(each, str) for each in values):
            raise ExportError("a column of texts must come as one: give the frame that the model was fitted on as X.")
        numbers = np.array([[np.nan if each is None else float(each) for each in values]])
        equal = graph.add("Equal", block.tensor, graph.constant(numbers, "categories"))
        if None not in values:
            return equal
        gaps = graph.add("And", self._missing(block), graph.constant(np.isnan(numbers)))
        return graph.add("Or", equal, gaps)


def _empty(block: Block) -> NDArray[np.bool_]:
    """Where the sample has no value."""
    empty = [is_missing(value) for value in block.sample.ravel().tolist()]
    return np.array(empty, dtype=bool).reshape(block.sample.shape)


def _beyond(encoding: Encoding) -> NDArray[np.float64]:
    """What a value that was not seen becomes; NaN, and so a score of NaN, where the encoder would refuse it."""
    return np.full(encoding.n_outputs, np.nan) if encoding.unknown is None else encoding.unknown


def _encoded_sample(encoding: Encoding, block: Block) -> Any:
    place = {value: output for value, output in zip(encoding.categories, encoding.outputs, strict=True)}
    sample = np.zeros((len(block.sample), encoding.n_outputs))
    for row, value in enumerate(block.sample[:, 0].tolist()):
        value = None if is_missing(value) else value
        output = place.get(value)
        if value not in place:
            sample[row] = _beyond(encoding)
        elif output is not None:
            sample[row, output] = 1.0
    return sample
