"""Linear models as JSON: a few numbers that any language can score with."""

from __future__ import annotations

from fractions import Fraction
from importlib.metadata import version
from typing import Any

import numpy as np

from taufpl._records import plain
from taufpl.persistence._segments import SegmentLabels
from taufpl.persistence._unwrap import finite
from taufpl.persistence.linear._form import MISSING, CategoryTerm, LinearForm, NumericTerm, linear_form
from taufpl.preprocessing import DATE_PARTS

# The second has dates, the third segments, where the model has some.
JSON_FORMAT_VERSION, _WITH_DATES, _WITH_SEGMENTS = 1, 2, 3


def to_json(model: Any, *, segment_column: str | None = None) -> dict[str, Any]:
    """Weights, threshold and labels of a linear model, ready for `json.dump`.

    A row has ::

        raw score = intercept + sum of weights[name] * value + sum of the weights of its categories
                    + sum of dates[name][part] * part
        score     = raw score - threshold

    and it is positive where ``score > 0``. Scalers before the model are folded into the weights and the intercept:
    these are the exact sums and products, rounded once.

    Parameters
    ----------
    model : estimator
        A fitted classifier or ranker of this library whose score is linear (:class:`taufpl.NeymanPearsonClassifier`
        around a linear classifier too), or a pipeline that ends in one, with scalers, imputers, encoders of levels,
        selectors and column transformers before it.
    segment_column : str, default=None
        The column that will hold the segment of a row, where the model was given labels of segments beside X.

    Returns
    -------
    dict
        - `intercept`, `weights` (by name of column, x0, x1, ... where X had no names), `threshold`.
        - `missing`: what a missing value of a column adds to the raw score in the place of weight times value. A column
          that is not in it must not be missing.
        - `categories`: by name of column, `weights` as pairs of value and weight, and what `missing` and `unknown`
          values add; null where the model refuses them.
        - `dates`, only where there are some: by name of column, the weights of `days`, `time`, `weekday` and `season`
          as :class:`taufpl.preprocessing.DateEncoder` makes them, and what a `missing` date adds in their place. The
          `format_version` is then 2, so that whoever knows no dates does not overlook them.
        - `segments`, only where the model has a threshold for each: the `column` with the labels, `thresholds` as pairs
          of label and threshold, and those of `missing` and `unknown` labels. Labels are numbers if `is_number`, else
          texts without spaces around them; whole numbers and truth values among these come in several ways to write
          them. The `threshold` outside is the strictest; the `format_version` is then 3.
        - `negative_label`, `positive_label`, `tau`, `taus_and_thresholds`, `model`, `format`, `format_version`,
          `library_version`.

    Raises
    ------
    ExportError
        The model is not linear, or a step before it cannot be written as a sum over columns.

    See Also
    --------
    to_sql : The same as an expression.
    to_onnx : For other models.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from taufpl import NeymanPearsonClassifier, TauFPLClassifier
    >>> from taufpl.persistence import to_json
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> X = 100 + rng.normal(size=(2200, 2)) + y[:, np.newaxis]
    >>> scorer = make_pipeline(StandardScaler(), TauFPLClassifier(tau=0.05, threshold="train", random_state=0))
    >>> model = NeymanPearsonClassifier(scorer, tau=0.05, random_state=0).fit(X, y)
    >>> form = to_json(model)
    >>> raw_scores = form["intercept"] + X @ [form["weights"]["x0"], form["weights"]["x1"]]
    >>> bool(np.array_equal(raw_scores - form["threshold"] > 0, model.predict(X) == 1))
    True
    """
    form = linear_form(model, "JSON", segment_column)
    head, classes = form.model.head, form.model.classes
    numeric = {name: form.numeric[name] for name in form.model.names if name in form.numeric}
    return plain(
        {
            "format": "taufpl-linear",
            "format_version": _format_version(form),
            "library_version": version("taufpl"),
            "model": type(head).__name__,
            "tau": getattr(head, "tau", None),
            "negative_label": classes[0],
            "positive_label": classes[1],
            "intercept": float(form.constant),
            "weights": {name: float(term.weight) for name, term in numeric.items()},
            "missing": {name: float(term.filled) for name, term in numeric.items() if not term.unfilled},
            "categories": {name: _category(term) for name, term in form.categories().items()},
            **({"dates": {name: _date(parts) for name, parts in form.dates.items()}} if form.dates else {}),
            "threshold": finite(form.model.threshold),
            **({} if form.segments is None else {"segments": _segments(form.segments)}),
            "taus_and_thresholds": _thresholds(head),
        }
    )


def _format_version(form: LinearForm) -> int:
    if form.segments is not None:
        return _WITH_SEGMENTS
    return _WITH_DATES if form.dates else JSON_FORMAT_VERSION


def _segments(segments: SegmentLabels) -> dict[str, Any]:
    known = segments.numbers() if segments.limits.is_number else segments.texts()
    return {
        "column": segments.column,
        "is_number": segments.limits.is_number,
        "thresholds": [list(pair) for pair in known.items()],
        "missing": segments.missing,
        "unknown": segments.unknown,
    }


def _category(term: CategoryTerm) -> dict[str, Any]:
    def number(weight: Fraction | None) -> float | None:
        return None if weight is None else float(weight)

    weights = [[value, number(weight)] for value, weight in term.weights.items()]
    return {"weights": weights, "missing": number(term.missing), "unknown": number(term.unknown)}


def _date(parts: dict[str, NumericTerm]) -> dict[str, float]:
    weights = {part: float(parts.get(part, NumericTerm()).weight) for part in DATE_PARTS}
    return {**weights, MISSING: float(sum(term.filled for term in parts.values()))}


def _thresholds(head: Any) -> list[list[float]] | None:
    """Pairs of tolerance and threshold, in the order of tau, where there are several."""
    if np.ndim(getattr(head, "tau", 0.0)) == 0:
        return None
    return [[float(tau), finite(float(each))] for tau, each in zip(head.tau, head.thresholds_, strict=True)]
