"""A whole decision as an ONNX graph: steps, scorers, threshold and labels."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._files import write_whole
from taufpl.estimators import KernelScorer, score_rounding
from taufpl.exceptions import ExportError
from taufpl.persistence._json import finite_threshold
from taufpl.persistence._onnx_fallback import add_scorer
from taufpl.persistence._onnx_graph import Block, Graph, session
from taufpl.persistence._onnx_inputs import Inputs, add_inputs, read_inputs
from taufpl.persistence._onnx_steps import Tensors
from taufpl.persistence._onnx_trees import add_ensemble, ensemble
from taufpl.persistence._pipeline_visitor import walk
from taufpl.persistence._unwrap import Anatomy, Scorer, take_apart

# The first version whose operators compare strings.
_OPSET = 19
# Scores that are farther apart than this share of the largest are not so by rounding.
_FAR = 2.0**-12


def to_onnx(model: Any, X: Any, *, target_opset: int | None = None) -> Any:
    """The whole decision of a fitted model as an ONNX graph.

    Preprocessing, scorer and threshold become one graph with the outputs `label` (the labels of `classes_`: strings, or
    integers) and `score` (the decision function: positive exactly where the label is that of positives). Before it is
    returned, the graph is run on the rows of `X` and must decide as the model does.

    Parameters
    ----------
    model : estimator
        A fitted classifier or ranker of this library, or a pipeline or a search that ends in one. Linear models,
        trees, forests and gradient boosting, scalers, `SimpleImputer`, `OneHotEncoder`,
        :class:`taufpl.preprocessing.LevelEncoder`, selectors, pipelines and column transformers compute in double
        precision. Anything else is left to skl2onnx, as far as its graph gives the same values.
    X : int, array-like, sparse matrix or dataframe
        Rows such as the model will get: some of the training data, say; or the number of columns, if all are numbers.
        A matrix becomes one input, `X`, in the precision that it has (doubles if it holds anything but float32). A
        frame becomes one input a column, with its name: doubles, floats, integers, booleans or strings of shape
        (rows, 1).
    target_opset : int, default=None
        Version of ONNX's operators, 19 or later; None is 19.

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
    anatomy = take_apart(model)
    inputs = read_inputs(anatomy, X)
    graph = Graph(opset)
    try:
        blocks = walk(anatomy.steps, add_inputs(graph, inputs), Tensors(graph))
        scores = [_add_scorer(graph, scorer, blocks) for scorer in anatomy.scorers]
    except ValueError as error:
        raise (
            error if isinstance(error, ExportError) else ExportError(f"the model cannot be exported: {error}")
        ) from error
    total = _mean(graph, scores)
    rounding = _rounding(graph, anatomy, model, inputs, total)
    exported = graph.finish(_add_decision(graph, anatomy, total, rounding), _notes(graph, anatomy, rounding))
    _check(exported, model, inputs, rounding)
    return exported


def save_onnx(model: Any, path: str | os.PathLike[str], X: Any, *, target_opset: int | None = None) -> None:
    """Write the whole decision of a fitted model into an ONNX file, as a whole or not at all.

    Parameters
    ----------
    model, X, target_opset
        As in :func:`to_onnx`.
    path : path-like
        By custom with the suffix ``.onnx``.
    """
    write_whole(path, to_onnx(model, X, target_opset=target_opset).SerializeToString())


def _add_scorer(graph: Graph, scorer: Scorer, blocks: tuple[Block, ...]) -> str:
    """Scores of shape (rows, 1), higher for the positive class."""
    if isinstance(scorer.final, KernelScorer):
        raise ExportError(
            f"the score of {type(scorer.final).__name__} is a sum of kernels, which is not exported to ONNX. Keep the "
            "model by taufpl.persistence.save_model, or export a linear one."
        )
    block = graph.matrix(walk(scorer.steps, blocks, Tensors(graph)), scorer.final)
    if scorer.linear is not None:
        product = graph.add("MatMul", block.tensor, graph.constant(scorer.linear.coef[:, np.newaxis], "weights"))
        return graph.add("Add", product, graph.number(scorer.linear.intercept, "intercept"))
    wood = ensemble(scorer.final, scorer.positive)
    if wood is not None:
        return add_ensemble(graph, wood, block)
    is_score = hasattr(scorer.final, "decision_function")
    return add_scorer(graph, scorer.final, block, scorer.scores(block.sample), is_score=is_score)


def _mean(graph: Graph, scores: list[str]) -> str:
    """Mean of several scores, of shape (rows,)."""
    total = scores[0]
    if len(scores) > 1:
        total = graph.add("Div", graph.add("Sum", *scores), graph.number(float(len(scores))))
    return graph.add("Reshape", total, graph.constant(np.array([-1], dtype=np.int64)))


def _rounding(graph: Graph, anatomy: Anatomy, model: Any, inputs: Inputs, total: str) -> float:
    """How near to 0 a score must be for the graph and the model to differ, found on the sample.

    That is the bound by which thresholds are raised when they are chosen. Where the scores are farther apart, because
    the graph, or scikit-learn on float32 data, computes in single precision, it is the bound of that, and four times
    what was found at least: terms may cancel in ways that the bound knows not.
    """
    (found,) = session(graph.finish([(total, graph.types.DOUBLE)], {})).run(None, inputs.feed)
    scores = model.decision_function(inputs.rows)
    usual = (np.abs(scores) < np.finfo(np.float64).max) & np.isfinite(found)
    error = float(np.max(np.abs(found - anatomy.threshold - scores)[usual], initial=0.0))
    reach = float(np.max(np.abs(scores[usual]), initial=0.0)) + abs(anatomy.threshold if usual.any() else 0.0)
    if error > _FAR * reach:
        raise ExportError(_otherwise(int(np.sum((found > anatomy.threshold) != (scores > 0))), len(scores)))
    bound = max(score_rounding(reach), getattr(anatomy.head, "_score_rounding", 0.0))
    graph.single = graph.single or error > bound
    return max(bound, score_rounding(reach, np.float32), 4.0 * error) if graph.single else bound


def _add_decision(graph: Graph, anatomy: Anatomy, total: str, rounding: float) -> list[tuple[str, int]]:
    """The outputs `label` and `score`, with their types."""
    threshold = finite_threshold(anatomy.threshold + (rounding if graph.single else 0.0))
    score = graph.add("Sub", total, graph.number(threshold, "threshold"), hint="score")
    is_positive = graph.cast(graph.add("Greater", score, graph.number(0.0, "zero")), graph.types.INT64)
    labels, kind = _labels(graph, anatomy.classes)
    label = graph.add("Gather", graph.constant(labels, "classes"), is_positive, axis=0, hint="label")
    return [(label, kind), (score, graph.types.DOUBLE)]


def _labels(graph: Graph, classes: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """As constants: strings stay strings; integers, whole floats and booleans, which is all else there is, integers."""
    values = classes.tolist()
    if isinstance(values[0], str):
        return np.array(values, dtype=object), graph.types.STRING
    return np.array([int(value) for value in values], dtype=np.int64), graph.types.INT64


def _notes(graph: Graph, anatomy: Anatomy, rounding: float) -> dict[str, str]:
    return {
        "taufpl.library_version": version("taufpl"),
        "taufpl.model": type(anatomy.head).__name__,
        "taufpl.tau": str(getattr(anatomy.head, "tau", "")),
        "taufpl.threshold": repr(anatomy.threshold),
        "taufpl.precision": "float32" if graph.single else "float64",
        "taufpl.rounding": repr(rounding),
    }


def _check(exported: Any, model: Any, inputs: Inputs, rounding: float) -> None:
    """Run the graph on the sample: it must decide as the model does, up to rounding."""
    label, _ = session(exported).run(["label", "score"], inputs.feed)
    expected, scores = model.predict(inputs.rows), model.decision_function(inputs.rows)
    differs = np.asarray(label).astype(str) != np.array([_as_label(each) for each in expected.tolist()])
    if np.any(differs & (np.abs(scores) > 2.0 * rounding)):
        raise ExportError(_otherwise(int(np.sum(differs)), len(differs)))


def _otherwise(differing: int, of: int) -> str:
    return (
        f"the graph scores otherwise than the model, and decides otherwise on {differing} of {of} rows: a step or a "
        "scorer does something else than what others of its class do."
    )


def _as_label(value: Any) -> str:
    return value if isinstance(value, str) else str(int(value))
