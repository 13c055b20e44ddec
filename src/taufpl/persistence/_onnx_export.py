"""A whole decision as an ONNX graph: inputs, steps, scorers, threshold and labels."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._files import write_whole
from taufpl._row_hashes import is_missing
from taufpl._types import Array, Vector
from taufpl.estimators import ScoreScreen, score_rounding, transformed
from taufpl.exceptions import ExportError, UnseenSegmentWarning
from taufpl.persistence._onnx_graph import MISSING_TEXT, OUTPUTS, Columns, ColumnTensor, Graph, TensorVisitor, add_score
from taufpl.persistence._unwrap import Encoding, SegmentLabels, UnwrappedModel, finite, segment_labels, unwrap, visit
from taufpl.preprocessing import ColumnPlan, TableEncoder, as_kind, read_column, seconds_of

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
    rows, inputs = _add_inputs(graph, unwrapped, X, None if segments is None else segments.column)
    visitor = TensorVisitor(graph)
    try:
        shared = visit(unwrapped.steps, inputs, visitor)
        scores = [add_score(visitor, each, shared) for each in unwrapped.scorers]
        labels = None if segments is None else _find_labels(graph, unwrapped, segments, rows, inputs, shared)
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
        threshold = _add_threshold(visitor, segments, labels[0])
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


# A column that is taken as it is found.
_OPEN = "open"
# Rows of the sample, and numbers in it at most.
_ROWS, _CELLS = 256, 1 << 22


def _add_inputs(graph: Graph, model: UnwrappedModel, X: Any, kept: str | None = None) -> tuple[Any, Columns]:
    """Add one input for a matrix, or one for each column of a frame; a few rows as the model takes them come back too.

    The column `kept` is an input even where no scorer uses it. An X with other columns than those that the model was
    fitted on is a ValueError.
    """
    count = len(model.names)
    n_rows = max(4, min(_ROWS, _CELLS // max(1, count)))
    if isinstance(X, int | np.integer):
        if model.named:
            raise ExportError(
                f"the model was fitted on a frame with the columns {list(model.names)}: give some of its rows as X, so "
                "that their types are known."
            )
        X = np.random.default_rng(0).normal(size=(n_rows, int(X)))
    X = (X.tocsr() if hasattr(X, "tocsr") else X)[:n_rows]
    if hasattr(X, "columns"):
        return _add_columns(graph, model, X, kept)
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if X.ndim != 2 or X.shape[1] != count:
        raise ValueError(f"X must have the {count} columns that the model was fitted on; got shape {X.shape}.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold numbers, or be a frame with a type for each column; got dtype {X.dtype}.")
    if model.named:
        raise ExportError("the model was fitted on a frame: give X as a frame with the same columns.")
    X = X if X.dtype == np.float32 else X.astype(np.float64)
    return X, (graph.input("X", X),)


def _add_columns(graph: Graph, model: UnwrappedModel, X: Any, kept: str | None) -> tuple[Any, Columns]:
    missing = [name for name in model.names if name not in list(X.columns)]
    if model.named and missing:
        raise ValueError(f"X must have the columns that the model was fitted on; missing are {missing}.")
    rows = X[list(model.names)] if model.named else X
    if len(rows.columns) != len(model.names):
        raise ValueError(
            f"X must have the {len(model.names)} columns that the model was fitted on; got {list(X.columns)}."
        )
    columns = []
    for name, kind in zip(rows.columns, _planned_kinds(model), strict=True):
        if kind == "dropped" and name == kept:
            kind = _OPEN
        if kind == "dropped":
            # No scorer uses the column, and nobody has to give it: its place is kept.
            columns.append(ColumnTensor("", 1))
            continue
        values = rows[name].to_numpy() if kind == _OPEN else as_kind(read_column(rows[name]), kind, str(name))
        # Many a column of scores is called score, as the output is.
        clashes = isinstance(model.head, ScoreScreen) and name in OUTPUTS
        column = graph.input("X" if clashes else str(name), _as_fed(values.reshape(-1, 1)))
        nones = frozenset(value is None for value in values.tolist() if is_missing(value))
        columns.append(replace(column, nones=nones) if column.is_text else column)
    return rows, tuple(columns)


def _planned_kinds(model: UnwrappedModel) -> list[str]:
    """The kind that table encoders have planned for each column; "dropped" where all drop it.

    Where something else gets the columns of X, they are taken as they are found. Encoders of several folds may differ
    in what they drop; where they differ in the kind of a column, no input could serve all of them.
    """
    first = [next(iter((*model.steps, *scorer.steps)), None) for scorer in model.scorers]
    plans = [step.columns_ for step in first if isinstance(step, TableEncoder)]
    if len(plans) < len(first) or not all(plans):
        return [_OPEN] * len(model.names)
    return [_planned_kind(each) for each in zip(*plans, strict=True)]


def _planned_kind(plans: Sequence[ColumnPlan]) -> str:
    kinds = {plan.kind for plan in plans} - {"dropped"}
    if len(kinds) > 1 and kinds != {"number", "boolean"}:
        raise ExportError(
            f"column {plans[0].name!r} holds values of several types, and is a {' and a '.join(sorted(kinds))} to "
            "parts of the model: an input of ONNX has one type. Give the column one type, and fit again."
        )
    return max(kinds, default="dropped")


def _as_fed(column: NDArray[Any]) -> NDArray[Any]:
    """A column as a session takes it: 32-bit floats, doubles, 64-bit integers, booleans, or strings.

    Dates are doubles, seconds since 1970.
    """
    if column.dtype.kind in "iu":
        return column.astype(np.int64)
    if column.dtype.kind == "b" or column.dtype == np.float32:
        return column
    if column.dtype.kind == "f":
        return column.astype(np.float64)
    if column.dtype.kind == "M":
        return seconds_of(column)
    values = [MISSING_TEXT if is_missing(value) else value for value in column.ravel().tolist()]
    strange = {type(value).__name__ for value in values if not isinstance(value, str)}
    if strange:
        raise ExportError(f"a column of X holds {', '.join(sorted(strange))}: ONNX takes numbers and strings.")
    return np.array(values, dtype=object).reshape(-1, 1)


# Whole numbers beyond this have more digits than a double.
_MOST_WHOLE = 2**53


def _find_labels(
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
        column = graph.input(segments.column, _as_fed(labels.reshape(-1, 1)))
    return column, segments.as_known(labels, is_text=column.is_text)


def _add_threshold(visitor: TensorVisitor, segments: SegmentLabels, labels: ColumnTensor) -> str:
    """Add the threshold of each row's segment, of shape (rows,)."""
    graph = visitor.graph
    # Labels are categories whose one output is their threshold.
    known = segments.texts() if labels.is_text else _numbers(segments)
    outputs = np.array([*known.values(), segments.missing])[:, np.newaxis]
    encoding = Encoding([*known, None], outputs, np.array([segments.unknown]))
    tensor = visitor.encode((labels,), None, [encoding])[0].name
    return graph.add("Reshape", tensor, graph.constant(np.array([-1], dtype=np.int64)), hint="threshold")


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
