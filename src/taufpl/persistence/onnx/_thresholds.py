"""The threshold of each row in ONNX: one for all, or that of its segment."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl.exceptions import ExportError
from taufpl.persistence._pipeline import Encoding
from taufpl.persistence._segments import SegmentLabels
from taufpl.persistence._unwrap import UnwrappedModel, finite
from taufpl.persistence.onnx._graph import Columns, ColumnTensor, Graph
from taufpl.persistence.onnx._inputs import as_fed
from taufpl.persistence.onnx._steps import TensorVisitor
from taufpl.thresholding import MISSING_LEVEL

# Whole numbers beyond this have more digits than a double.
_MOST_WHOLE = 2**53


def add_labels(
    graph: Graph, model: UnwrappedModel, segments: SegmentLabels, rows: Any, inputs: Columns
) -> tuple[ColumnTensor | None, Any]:
    """The labels of segments that stand beside what the classifier sees, as a tensor and for the rows of the sample.

    They are a column of X, or an input of their own, with labels of all segments as its sample. Both are None where the
    classifier sees the labels itself.
    """
    if segments.place is not None:
        return None, None
    if model.named and segments.column in model.names:
        (column,) = graph.take(inputs, [model.names.index(segments.column)])
        return column, rows[segments.column]
    labels = segments.sample(rows.shape[0])
    return graph.input(segments.column, as_fed(labels.reshape(-1, 1))), labels


def add_threshold(
    visitor: TensorVisitor,
    model: UnwrappedModel,
    segments: SegmentLabels | None,
    features: Columns,
    beside: ColumnTensor | None,
) -> str:
    """Add the threshold: a constant, or that of each row's segment, of shape (rows,).

    The labels of segments are those `beside` the features that the classifier sees, or one of these.
    """
    graph = visitor.graph
    if segments is None:
        return graph.constant(finite(model.threshold), "threshold")
    if segments.place is not None:
        (beside,) = graph.take(features, [segments.place])
    assert beside is not None
    tensor = visitor.encode((beside,), None, [_encoding(segments, beside)])[0].name
    return graph.add("Reshape", tensor, graph.constant(np.array([-1], dtype=np.int64)), hint="threshold")


def _encoding(segments: SegmentLabels, column: ColumnTensor) -> Encoding:
    """Labels as categories whose one output is their threshold."""
    # The text "missing" is a missing label, too.
    known = {MISSING_LEVEL: segments.missing, **segments.texts()} if column.is_text else _numbers(segments)
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
