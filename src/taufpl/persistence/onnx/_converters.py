"""Estimators that have no nodes of our own: skl2onnx converts them, and its graph is tried out before it is taken."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np

from taufpl._extras import require
from taufpl._types import Matrix
from taufpl.estimators import scores_of
from taufpl.exceptions import ExportError
from taufpl.persistence._unwrap import PipelineScorer
from taufpl.persistence.onnx._graph import PURPOSE, ColumnTensor, Graph, run

# How far a converted graph may be off, in units of the type's eps and of the largest value.
_ROUNDINGS = 32.0
# What skl2onnx may be asked for, the last two where the score is a probability.
_OPTIONS: tuple[dict[str, Any], ...] = (
    {"zipmap": False, "raw_scores": True},
    {"raw_scores": True},
    {"zipmap": False},
    {},
)


def add_transformer(graph: Graph, step: Any, source: ColumnTensor) -> ColumnTensor:
    """Add the columns that a transformer makes."""
    sample = graph.evaluate(source.name)
    expected = step.transform(sample)
    expected = np.asarray(expected.todense() if hasattr(expected, "todense") else expected, dtype=np.float64)
    tensor, _, _ = _convert(graph, step, source, sample, expected, ({},), is_score=False)
    return ColumnTensor(tensor, expected.shape[1])


def add_scorer(graph: Graph, scorer: PipelineScorer, source: ColumnTensor) -> str:
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
    require("skl2onnx", "onnx", PURPOSE)
    reason = "it has no converter"
    kinds: tuple[Any, ...] = (np.float64, np.float32)
    for kind, option in product(kinds, options):
        try:
            model = _converted(graph.opset, estimator, source.width, kind, option)
            outputs = run(model, {"X": sample.astype(kind)})
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
    types = require("skl2onnx.common.data_types", "onnx", PURPOSE)
    tensor = types.FloatTensorType if kind is np.float32 else types.DoubleTensorType
    with warnings.catch_warnings():
        # skl2onnx warns about versions and options that it has not seen; whether it is right is measured.
        warnings.simplefilter("ignore")
        return require("skl2onnx", "onnx", PURPOSE).convert_sklearn(
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
