"""Estimators that have no nodes of our own: skl2onnx converts them, and its graph is tried out before it is taken."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._extras import require
from taufpl.exceptions import ExportError
from taufpl.persistence._onnx_graph import PURPOSE, Block, Graph, session

Array = NDArray[np.float64]

# How far a converted graph may be off, in units of the type's eps and of the largest value.
_ROUNDINGS = 32.0
_OPTIONS: tuple[dict[str, Any], ...] = (
    {"zipmap": False, "raw_scores": True},
    {"raw_scores": True},
    {"zipmap": False},
    {},
)


def add_transformer(graph: Graph, step: Any, block: Block) -> Block:
    """The columns that a transformer makes, by skl2onnx.

    Raises
    ------
    ExportError
        It cannot convert the step, or the graph gives other values.
    """
    expected = step.transform(block.sample)
    expected = np.asarray(expected.todense() if hasattr(expected, "todense") else expected, dtype=np.float64)
    tensor = _convert(graph, step, block, ({},), lambda found: _matching(found, expected))
    return Block(tensor, expected.shape[1], False, expected)


def add_scorer(graph: Graph, final: Any, block: Block, scores: Array, *, is_score: bool) -> str:
    """Scores of shape (rows, 1), by skl2onnx.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        What the scorer says of the sample, higher for the positive class.
    is_score : bool
        Whether it is a decision function; else it is a probability.
    """
    options = _OPTIONS if is_score else _OPTIONS[2:]
    column = _Column(scores)
    tensor = _convert(graph, final, block, options, column.choose)
    return column.extract(graph, tensor)


class _Column:
    """Which column of an output is the score, and with which sign: found on the sample, since converters differ."""

    def __init__(self, scores: Array) -> None:
        self.scores = scores
        self.index, self.sign = 0, 1.0

    def choose(self, found: Array) -> float:
        table = found.reshape(len(self.scores), -1)
        choices = [(column, sign) for column in range(table.shape[1])[::-1] for sign in (1.0, -1.0)]
        errors = [_matching(sign * table[:, [column]], self.scores[:, np.newaxis]) for column, sign in choices]
        best = int(np.argmin(errors))
        self.index, self.sign = choices[best]
        return errors[best]

    def extract(self, graph: Graph, tensor: str) -> str:
        rows = graph.add("Flatten", tensor, axis=1)
        chosen = graph.add("Gather", rows, graph.constant(np.array([self.index], dtype=np.int64)), axis=1)
        return graph.add("Mul", chosen, graph.number(self.sign))


def _matching(found: Array, expected: Array) -> float:
    """The largest difference, in units of the largest value."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return np.inf
    scale = float(np.max(np.abs(expected), initial=np.finfo(float).tiny))
    return float(np.max(np.abs(found - expected), initial=0.0)) / scale


def _convert(
    graph: Graph, estimator: Any, block: Block, options: tuple[dict[str, Any], ...], judge: Callable[[Array], float]
) -> str:
    """Take the first graph that agrees with scikit-learn, double precision before single."""
    require("skl2onnx", "onnx", PURPOSE)
    reasons = ["it has no converter"]
    for kind in (np.float64, np.float32):
        for option in options:
            try:
                model = _converted(graph, estimator, block.width, kind, option)
                outputs = session(model).run(None, {"X": block.sample.astype(kind)})
            except Exception as error:
                reasons.append(_first_line(error))
                continue
            place = _agreeing(outputs, judge, _ROUNDINGS * float(np.finfo(kind).eps))
            if place is None:
                reasons.append("its graph gives other values than scikit-learn")
                continue
            graph.single = graph.single or kind is np.float32
            source = graph.cast(block.tensor, graph.types.FLOAT) if kind is np.float32 else block.tensor
            return graph.cast(graph.merge(model, source)[place], graph.types.DOUBLE)
    raise ExportError(
        f"{type(estimator).__name__} cannot be exported to ONNX ({reasons[-1]}). Supported are linear models, trees, "
        "forests and gradient boosting, scalers, SimpleImputer, OneHotEncoder, selectors, pipelines and column "
        "transformers, and beyond these what skl2onnx converts to the same values."
    )


def _converted(graph: Graph, estimator: Any, width: int, kind: Any, option: dict[str, Any]) -> Any:
    converter = require("skl2onnx", "onnx", PURPOSE)
    types = require("skl2onnx.common.data_types", "onnx", PURPOSE)
    tensor = types.FloatTensorType if kind is np.float32 else types.DoubleTensorType
    with warnings.catch_warnings():
        # It warns about versions and options that it has not met; whether it is right is measured.
        warnings.simplefilter("ignore")
        return converter.convert_sklearn(
            estimator,
            initial_types=[("X", tensor([None, width]))],
            target_opset={"": graph.opset, "ai.onnx.ml": 3},
            options={id(estimator): option} if option else None,
        )


def _agreeing(outputs: list[Any], judge: Callable[[Array], float], bound: float) -> int | None:
    """The first output that is as near as rounding lets it be."""
    for place, output in enumerate(outputs):
        values = np.asarray(output)
        if values.dtype.kind == "f" and judge(values.astype(np.float64)) <= bound:
            return place
    return None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
