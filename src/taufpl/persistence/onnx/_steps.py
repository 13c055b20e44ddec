"""Steps of a pipeline as nodes of an ONNX graph, in double precision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer

from taufpl.exceptions import ExportError
from taufpl.persistence._pipeline import Encoding, Scaling
from taufpl.persistence.onnx._converters import add_transformer
from taufpl.persistence.onnx._graph import Columns, ColumnTensor, Graph
from taufpl.persistence.onnx._inputs import MISSING_TEXT
from taufpl.preprocessing import DAYS_OF_YEAR, MONDAY, SECONDS_OF_DAY, DateEncoder


class TensorVisitor:
    """Features as tensors of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def take(self, features: Columns, columns: Sequence[int]) -> Columns:
        return self.graph.take(features, columns)

    def join(self, parts: Sequence[Columns]) -> Columns:
        return tuple(column for part in parts for column in part)

    def convert(self, features: Columns, step: Any) -> Columns:
        return (add_transformer(self.graph, step, self.graph.matrix(features, step)),)

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
