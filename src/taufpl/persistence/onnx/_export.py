"""A whole decision as an ONNX graph: steps, scorers, threshold and labels."""

from __future__ import annotations

import json
import os
import warnings
from importlib.metadata import version
from typing import Any

import numpy as np

from taufpl._files import write_whole
from taufpl._types import Array, Vector
from taufpl.estimators import score_rounding, transformed
from taufpl.exceptions import ExportError, UnseenSegmentWarning
from taufpl.persistence._pipeline import visit
from taufpl.persistence._segments import SegmentLabels, segment_labels
from taufpl.persistence._unwrap import UnwrappedModel, finite, unwrap
from taufpl.persistence.onnx._graph import OUTPUTS, Graph
from taufpl.persistence.onnx._inputs import add_inputs
from taufpl.persistence.onnx._scores import add_score
from taufpl.persistence.onnx._steps import TensorVisitor
from taufpl.persistence.onnx._thresholds import add_threshold, find_labels

# The first version whose operators compare strings.
_OPSET = 19
# Scores that are farther apart than this share of the largest are not so by rounding.
_FAR = 2.0**-12


def to_onnx(model: Any, X: Any, *, target_opset: int | None = None, segment_column: str | None = None) -> Any:
    """The whole decision of a fitted model as an ONNX graph.

    Preprocessing, scorer and threshold become one graph with the outputs `label` (the labels of `classes_`: strings, or
    integers) and `score` (the decision function: positive exactly where the label is that of positives). Before it is
    returned, the graph is run on the rows of `X` and must decide as the model does.

    Parameters
    ----------
    model : estimator
        A fitted classifier or ranker of this library, or a pipeline or a search that ends in one. Linear models,
        trees, forests and gradient boosting, LightGBM, XGBoost and CatBoost, stacks of these, scalers,
        `SimpleImputer`, `OneHotEncoder`, :class:`taufpl.preprocessing.LevelEncoder`, selectors, pipelines and column
        transformers compute in double precision (XGBoost's sums in single, as its own do). Anything else is
        left to skl2onnx, as far as its graph gives the same values.
    X : int, array-like, sparse matrix or dataframe
        Rows such as the model will get: some of the training data, say; or the number of columns, if all are numbers.
        A matrix becomes one input, `X`, in the precision that it has (doubles if it holds anything but float32). A
        frame becomes one input a column, with its name: doubles, floats, integers, booleans or strings of shape
        (rows, 1); dates are doubles, seconds since 1970. Where a :class:`taufpl.preprocessing.TableEncoder` comes
        first, numbers and truth values are doubles, so that any may be missing, and columns that it drops no input.
        The column of a :class:`taufpl.ScoreScreen` that is called score, as the output is, becomes the input `X`.
    target_opset : int, default=None
        Version of ONNX's operators, 19 or later; None is 19.
    segment_column : str, default=None
        Name of the input that holds the segment of a row, where the model was given labels of segments beside X:
        doubles or strings, as the labels were (of truth values "true" and "false"). It may be a column of X.

    Returns
    -------
    onnx.ModelProto
        Its metadata say the `taufpl.precision` in which it computes, "float64" or "float32", and
        `taufpl.rounding`: rows whose score is nearer to 0 than that may be decided otherwise than by the model.

    Raises
    ------
    ExportError
        A part of the model cannot be exported; the message says which, and what can.

    Notes
    -----
    Where a part computes in single precision, the threshold is raised by what that can do to a score, so that the graph
    does not find positives that the model does not: its false-positive rate is no higher.

    Where the model has a threshold for each segment, labels that it does not know get the strictest threshold. Texts
    are compared as they are, but for whole numbers (12, 012 and 12.0 are the same) and truth values; other ways to
    write a label, which the model would know, count as unknown here.

    A missing number is NaN, a missing string the empty string. Where the model would refuse a row, because of a missing
    value or of a category that it has not seen, the graph gives the label of negatives, as a rule with a score of NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from taufpl import TauFPLClassifier
    >>> from taufpl.persistence import to_onnx
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> X = rng.normal(size=(2200, 3)) + y[:, np.newaxis]
    >>> model = TauFPLClassifier(tau=0.05, random_state=0).fit(X, y)
    >>> graph = to_onnx(model, X)
    >>> runtime = onnxruntime.InferenceSession(graph.SerializeToString())
    >>> label, score = runtime.run(["label", "score"], {"X": X})
    >>> bool(np.array_equal(label, model.predict(X))), bool(np.allclose(score, model.decision_function(X)))
    (True, True)
    """
    opset = _OPSET if target_opset is None else target_opset
    if opset < _OPSET:
        raise ValueError(f"target_opset must be {_OPSET} or later; got {target_opset}.")
    unwrapped = unwrap(model)
    segments = segment_labels(unwrapped, segment_column)
    graph = Graph(opset)
    rows, inputs = add_inputs(graph, unwrapped, X, None if segments is None else segments.column)
    visitor = TensorVisitor(graph)
    try:
        shared = visit(unwrapped.steps, inputs, visitor)
        scores = [add_score(visitor, each, shared) for each in unwrapped.scorers]
        labels = None if segments is None else find_labels(graph, unwrapped, segments, rows, inputs, shared)
    except ExportError:
        raise
    except ValueError as error:
        raise ExportError(f"the model cannot be exported: {error}") from error
    total = _add_mean(graph, scores)
    limits: float | Vector
    if segments is None or labels is None:
        limits, decisions = unwrapped.threshold, model.decision_function(rows)
        threshold = graph.constant(finite(limits), "threshold")
    else:
        threshold = add_threshold(visitor, segments, labels[0])
        limits, decisions = graph.evaluate(threshold, ["rows"]), _decisions(unwrapped, rows, labels[1])
    rounding = _rounding(graph, unwrapped, limits, decisions, graph.evaluate(total, ["rows"]))
    outputs = _add_decision(graph, unwrapped, total, threshold, rounding)
    return graph.finish(outputs, _notes(graph, unwrapped, segments, rounding))


def save_onnx(
    model: Any,
    path: str | os.PathLike[str],
    X: Any,
    *,
    target_opset: int | None = None,
    segment_column: str | None = None,
) -> None:
    """Write the whole decision of a fitted model into an ONNX file, as a whole or not at all.

    Parameters
    ----------
    model, X, target_opset, segment_column
        As in :func:`to_onnx`.
    path : path-like
        By convention with the suffix ``.onnx``.
    """
    graph = to_onnx(model, X, target_opset=target_opset, segment_column=segment_column)
    write_whole(path, graph.SerializeToString())


def _add_mean(graph: Graph, scores: list[str]) -> str:
    """Add the mean of several scores, of shape (rows,)."""
    total = scores[0]
    if len(scores) > 1:
        total = graph.add("Div", graph.add("Sum", *scores), graph.constant(float(len(scores))))
    return graph.add("Reshape", total, graph.constant(np.array([-1], dtype=np.int64)))


def _decisions(model: UnwrappedModel, rows: Any, labels: Array) -> Vector:
    """Decisions by segment on a sample, in which segments may be that the model does not know."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenSegmentWarning)
        return np.asarray(model.head.decision_function(transformed(model.steps, rows), segments=labels))


def _rounding(
    graph: Graph, model: UnwrappedModel, thresholds: float | Vector, decisions: Vector, found: Vector
) -> float:
    """The distance from 0 within which the graph and the model may differ in the sign of a score, found on the sample.

    That is the bound by which thresholds are raised when they are chosen. Where the scores are farther apart, because
    the graph, or scikit-learn on float32 data, computes in single precision, it is the bound of that, and at least
    four times what was found: terms may cancel in ways that the bound does not know. Raw scores of the graph that are
    too far from the decisions of the model, or decide otherwise, are an ExportError.
    """
    usual = (np.abs(decisions) < np.finfo(np.float64).max) & np.isfinite(found)
    error = float(np.max(np.abs(found - thresholds - decisions)[usual], initial=0.0))
    limits = np.broadcast_to(thresholds, found.shape)[usual]
    reach = float(np.max(np.abs(decisions[usual]), initial=0.0) + np.max(np.abs(limits), initial=0.0))
    bound = max(score_rounding(reach), getattr(model.head, "_score_rounding", 0.0))
    graph.single = graph.single or error > bound
    rounding = max(bound, score_rounding(reach, np.float32), 4.0 * error) if graph.single else bound
    differs = (found > thresholds) != (decisions > 0)
    if error > _FAR * reach or np.any(differs & (np.abs(decisions) > 2.0 * rounding)):
        raise ExportError(
            f"the graph scores otherwise than the model, and decides otherwise on {np.sum(differs)} of {len(differs)} "
            "rows: a step or a scorer does something else than what others of its class do."
        )
    return rounding


def _add_decision(
    graph: Graph, model: UnwrappedModel, total: str, threshold: str, rounding: float
) -> list[tuple[str, int]]:
    """Add the outputs `label` and `score`; their names and types come back."""
    if graph.single:
        threshold = graph.add("Add", threshold, graph.constant(rounding, "rounding"))
    score = graph.add("Sub", total, threshold, hint=OUTPUTS[1])
    is_positive = graph.cast(graph.add("Greater", score, graph.constant(0.0, "zero")), graph.types.INT64)
    # Integers, whole floats and booleans become integers: there is nothing else but texts.
    is_text = isinstance(model.classes.tolist()[0], str)
    labels = graph.constant(model.classes.astype(object if is_text else np.int64), "classes")
    label = graph.add("Gather", labels, is_positive, axis=0, hint=OUTPUTS[0])
    return [(label, graph.types.STRING if is_text else graph.types.INT64), (score, graph.types.DOUBLE)]


def _notes(graph: Graph, model: UnwrappedModel, segments: SegmentLabels | None, rounding: float) -> dict[str, str]:
    own = {} if segments is None else {"taufpl.segment_thresholds": json.dumps(segments.limits.by_segment)}
    return {
        **own,
        "taufpl.library_version": version("taufpl"),
        "taufpl.model": type(model.head).__name__,
        "taufpl.tau": str(getattr(model.head, "tau", "")),
        "taufpl.threshold": repr(model.threshold),
        "taufpl.precision": "float32" if graph.single else "float64",
        "taufpl.rounding": repr(rounding),
    }
