"""The thresholds of segments in ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl._types import Array
from taufpl.estimators import transformed
from taufpl.exceptions import ExportError
from taufpl.persistence._pipeline import Encoding
from taufpl.persistence._segments import SegmentLabels
from taufpl.persistence._unwrap import UnwrappedModel
from taufpl.persistence.onnx._graph import Columns, ColumnTensor, Graph
from taufpl.persistence.onnx._inputs import as_fed
from taufpl.persistence.onnx._steps import TensorVisitor

# Whole numbers beyond this have more digits than a double.
_MOST_WHOLE = 2**53


def find_labels(
    graph: Graph, model: UnwrappedModel, segments: SegmentLabels, rows: Any, inputs: Columns, features: Columns
) -> tuple[ColumnTensor, Array]:
    """The labels of segments as a tensor, and those of the sample as the model gets them.

    They are a column of what the classifier sees, or a column of X, or an input of their own.
    """
    if segments.place is not None:
        (column,) = graph.take(features, [segments.place])
        seen = transformed(model.steps, rows)
        labels = seen.iloc[:, segments.place] if hasattr(seen, "iloc") else seen[:, segments.place]
    elif model.named and segments.column in model.names:
        (column,) = graph.take(inputs, [model.names.index(segments.column)])
        labels = rows[segments.column]
    else:
        labels = segments.sample(rows.shape[0])
        column = graph.input(segments.column, as_fed(labels.reshape(-1, 1)))
    return column, segments.as_known(labels, is_text=column.is_text)


def add_threshold(visitor: TensorVisitor, segments: SegmentLabels, labels: ColumnTensor) -> str:
    """Add the threshold of each row's segment, of shape (rows,)."""
    graph = visitor.graph
    tensor = visitor.encode((labels,), None, [_encoding(segments, labels)])[0].name
    return graph.add("Reshape", tensor, graph.constant(np.array([-1], dtype=np.int64)), hint="threshold")


def _encoding(segments: SegmentLabels, column: ColumnTensor) -> Encoding:
    """Labels as categories whose one output is their threshold."""
    known = segments.texts() if column.is_text else _numbers(segments)
    outputs = np.array([*known.values(), segments.missing])[:, np.newaxis]
    return Encoding([*known, None], outputs, np.array([segments.unknown]))


def _numbers(segments: SegmentLabels) -> dict[Any, float]:
    try:
        known = segments.numbers()
    except ValueError:
        raise ExportError(
            "labels of segments are texts, and their column holds numbers: give the frame that the model was fitted on."
        ) from None
    if any(abs(each) > _MOST_WHOLE for each in known):
        raise ExportError("labels of segments have more digits than a double: give them as texts, and fit again.")
    return dict(known)
