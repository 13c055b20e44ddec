"""Linear models as weights of the columns of X, exactly: JSON that any language scores with, and SQL."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib.metadata import version
from typing import Any

import numpy as np

from taufpl._records import plain
from taufpl._types import Vector
from taufpl.estimators import KernelScorer
from taufpl.exceptions import ExportError
from taufpl.persistence._unwrap import (
    Encoding,
    Scaling,
    SegmentLabels,
    UnwrappedModel,
    finite,
    segment_labels,
    unwrap,
    visit,
)
from taufpl.preprocessing import DATE_PARTS, DAYS_OF_YEAR, MONDAY, SECONDS_OF_DAY
from taufpl.thresholding import MISSING_LEVEL

# Sums of constants are kept in units of 2^-1200: below the last digit of every double, and without denominators that
# grow with every term.
_UNIT = 1 << 1200
# The name of the mark beside the parts of a date.
_MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Feature:
    """slope * g(column) + constant.

    g is the value of the column, or this `part` of a date, with `fill` in the place of a missing one; or output number
    `output` of its `encoding`; or, if `is_indicator`, 1 where the column is missing and 0 elsewhere.
    """

    column: str
    part: str | None = None
    fill: Any = None
    encoding: Encoding | None = None
    output: int = 0
    is_indicator: bool = False
    slope: Fraction = Fraction(1)
    constant: Fraction = Fraction(0)


@dataclass(slots=True)
class NumericTerm:
    """The share of a numeric column in the score: weight times value, or `filled` where the value is missing.

    `unfilled` says that no step fills a missing value. Large values do not cancel if they are measured from `centre`.
    """

    weight: Fraction = Fraction(0)
    centre: float = 0.0
    filled: Fraction = Fraction(0)
    unfilled: bool = False


@dataclass(slots=True)
class CategoryTerm:
    """The share of a column of categories in the score; None where the model refuses the value."""

    weights: dict[Any, Fraction | None]
    missing: Fraction | None
    unknown: Fraction | None

    def __add__(self, other: CategoryTerm) -> CategoryTerm:
        values = {
            value: _sum(self.weights.get(value, self.unknown), other.weights.get(value, other.unknown))
            for value in [*self.weights, *other.weights]
        }
        return CategoryTerm(values, _sum(self.missing, other.missing), _sum(self.unknown, other.unknown))


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else one + other


@dataclass(slots=True)
class LinearForm:
    """Raw score = constant + what each column adds; positive where it is above the threshold."""

    model: UnwrappedModel
    segments: SegmentLabels | None = None  # of a model with a threshold for each segment
    constant: Fraction = Fraction(0)
    numeric: dict[str, NumericTerm] = field(default_factory=dict)
    # By column, then by part; _MISSING tells what the mark of a missing date adds.
    dates: dict[str, dict[str, NumericTerm]] = field(default_factory=dict)
    # Weights of the outputs, by column, its fill, and encoding.
    encoded: dict[tuple[str, Any, Encoding], list[Fraction]] = field(default_factory=dict)

    def centred_constant(self) -> Fraction:
        """The constant, where every numeric column is measured from its centre."""
        terms = [*self.numeric.values(), *(term for parts in self.dates.values() for term in parts.values())]
        return self.constant + sum(_rounded(each.weight * Fraction(each.centre)) for each in terms)

    def bare_column(self) -> tuple[str, int] | None:
        """Name of the one column that the score is, and 1, or -1 where it is minus that; None for other scores."""
        if self.constant or self.dates or self.encoded or len(self.numeric) != 1:
            return None
        ((name, term),) = self.numeric.items()
        is_bare = abs(term.weight) == 1 and term.unfilled and not term.centre and not term.filled
        return (name, int(term.weight)) if is_bare else None

    def categories(self) -> dict[str, CategoryTerm]:
        """The share of each column of categories, by its name, all its encodings together."""
        together: dict[str, CategoryTerm] = {}
        for (column, fill, encoding), weights in self.encoded.items():
            term = _category_term(fill, encoding, weights)
            together[column] = together[column] + term if column in together else term
        return together

    def add(self, feature: Feature, weight: Fraction) -> None:
        """Add a multiple of a feature to the score."""
        if not weight:
            return
        slope = weight * feature.slope
        self.constant += _rounded(weight * feature.constant)
        if feature.encoding is not None:
            key = (feature.column, feature.fill, feature.encoding)
            n_outputs = feature.encoding.outputs.shape[1]
            self.encoded.setdefault(key, [Fraction(0)] * n_outputs)[feature.output] += slope
            return
        if feature.part is None:
            term = self.numeric.setdefault(feature.column, NumericTerm())
        else:
            term = self.dates.setdefault(feature.column, {}).setdefault(feature.part, NumericTerm())
        if feature.is_indicator:
            term.filled += slope
            return
        term.weight += slope
        term.centre = term.centre or float(-feature.constant / feature.slope)
        if feature.fill is None:
            term.unfilled = True
        elif isinstance(feature.fill, str):
            raise ExportError(f"column {feature.column!r} is filled with {feature.fill!r} and then used as a number.")
        else:
            term.filled += slope * Fraction(feature.fill)


def _rounded(value: Fraction) -> Fraction:
    return Fraction(round(value * _UNIT), _UNIT)


def _category_term(fill: Any, encoding: Encoding, weights: list[Fraction]) -> CategoryTerm:
    def score(outputs: Vector) -> Fraction:
        return sum((Fraction(outputs[place]) * weights[place] for place in np.flatnonzero(outputs)), start=Fraction(0))

    found: dict[Any, Fraction | None] = dict(zip(encoding.categories, map(score, encoding.outputs), strict=True))
    unknown = None if encoding.unknown is None else score(encoding.unknown)
    # An encoder that has seen missing values has them from an imputer that looks for others: None is not NaN.
    missing = found.pop(None) if None in found else found.get(fill, unknown)
    return CategoryTerm(found, missing, unknown)


def _linear_form(model: Any, target: str, segment_column: str | None = None) -> LinearForm:
    """Weights of the columns of X, for a form of export that errors call `target`.

    `segment_column` holds labels of segments that the model was given beside X.
    A model that is not linear in what its steps make of X, or a step that is no sum over columns, is an ExportError.
    """
    unwrapped = unwrap(model)
    visitor = _FeatureVisitor(target)
    shared = visit(unwrapped.steps, [Feature(name) for name in unwrapped.names], visitor)
    form = LinearForm(unwrapped, _with_column(segment_labels(unwrapped, segment_column), shared))
    share = Fraction(1, len(unwrapped.scorers))
    for scorer in unwrapped.scorers:
        if scorer.coef is None:
            instead = "save_model keeps" if isinstance(scorer.final, KernelScorer) else "to_onnx exports"
            raise ExportError(
                f"{target} holds linear models only: the score of {type(scorer.final).__name__} is not a sum of "
                f"weights times features. taufpl.persistence.{instead} such models."
            )
        features = visit(scorer.steps, shared, visitor)
        if len(features) != scorer.coef.size:
            raise ExportError(f"the steps make {len(features)} features of X, the model has {scorer.coef.size}.")
        form.constant += share * Fraction(scorer.intercept)
        for feature, weight in zip(features, scorer.coef.tolist(), strict=True):
            form.add(feature, share * Fraction(weight))
    return form


def _with_column(segments: SegmentLabels | None, features: list[Feature]) -> SegmentLabels | None:
    """Labels of segments by the name of their column of X, which no step before the classifier may change."""
    if segments is None or segments.place is None:
        return segments
    feature = features[segments.place]
    if feature != Feature(feature.column):
        raise ExportError(
            f"a step before the classifier changes the column {feature.column!r}, from which it takes the segments: "
            "give their labels with the rows instead."
        )
    return replace(segments, column=feature.column)


class _FeatureVisitor:
    """Features as exact expressions in the columns of X."""

    def __init__(self, target: str) -> None:
        self.target = target

    def take(self, features: list[Feature], columns: Sequence[int]) -> list[Feature]:
        return [features[column] for column in columns]

    def join(self, parts: Sequence[list[Feature]]) -> list[Feature]:
        return [feature for part in parts for feature in part]

    def scale(self, features: list[Feature], step: Any, scaling: Scaling) -> list[Feature]:
        if scaling.bounds is not None:
            raise self._refusal(f"{type(step).__name__} that clips")
        parts = ((scaling.subtract, 0.0), (scaling.divide, 1.0), (scaling.multiply, 1.0), (scaling.add, 0.0))
        columns = [
            np.broadcast_to(neutral if part is None else part, len(features)).tolist() for part, neutral in parts
        ]
        return [_scaled(feature, *numbers) for feature, *numbers in zip(features, *columns, strict=True)]

    def impute(self, features: list[Feature], step: Any, fills: dict[int, Any], marked: list[int]) -> list[Feature]:
        whole = {column: _fillable(features[column], step) for column in [*fills, *marked]}
        kept = ((whole[column], fill) for column, fill in fills.items())
        gaps = (whole[column] for column in marked)
        return [
            *(replace(each, fill=fill) if each.fill is None else each for each, fill in kept),
            *(replace(each, is_indicator=True, slope=Fraction(int(each.fill is None))) for each in gaps),
        ]

    def encode(self, features: list[Feature], step: Any, encodings: Iterable[Encoding]) -> list[Feature]:
        return [
            replace(_whole_column(feature, step), encoding=encoding, output=output)
            for feature, encoding in zip(features, encodings, strict=True)
            for output in range(encoding.outputs.shape[1])
        ]

    def split_dates(self, features: list[Feature], step: Any) -> list[Feature]:
        whole = [_whole_column(feature, step) for feature in features]
        parts = [replace(feature, part=part) for feature in whole for part in DATE_PARTS]
        return parts + [replace(whole[column], part=_MISSING, is_indicator=True) for column in step.marked_]

    def convert(self, features: list[Feature], step: Any) -> list[Feature]:
        raise self._refusal(type(step).__name__)

    def _refusal(self, what: str) -> ExportError:
        return ExportError(
            f"{what} cannot be written in {self.target}: standard, min-max, max-abs and robust scalers, SimpleImputer, "
            "OneHotEncoder, LevelEncoder, DateEncoder, selectors and column transformers of these can. "
            "taufpl.persistence.to_onnx exports more."
        )


def _scaled(feature: Feature, subtract: float, divide: float, multiply: float, add: float) -> Feature:
    """The feature after a scaler, in exact numbers."""
    factor = Fraction(multiply) / Fraction(divide)
    constant = (feature.constant - Fraction(subtract)) * factor + Fraction(add)
    return replace(feature, slope=feature.slope * factor, constant=constant)


def _fillable(feature: Feature, step: Any) -> Feature:
    """A column, or a part of a date; the mark of a missing date is never missing itself."""
    if feature.part is not None and feature.slope == 1 and feature.constant == 0:
        return feature
    return _whole_column(feature, step)


def _whole_column(feature: Feature, step: Any) -> Feature:
    is_changed = feature.part is not None or feature.encoding is not None or feature.is_indicator
    if not is_changed and feature.slope == 1 and feature.constant == 0:
        return feature
    raise ExportError(
        f"{type(step).__name__} after a step that changes the numbers cannot be folded into weights: put it first."
    )


# The second has dates, the third segments, where the model has some.
_JSON_VERSION, _WITH_DATES, _WITH_SEGMENTS = 1, 2, 3


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
    form = _linear_form(model, "JSON", segment_column)
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
            "categories": {name: _category_entry(term) for name, term in form.categories().items()},
            **({"dates": {name: _date_entry(parts) for name, parts in form.dates.items()}} if form.dates else {}),
            "threshold": finite(form.model.threshold),
            **({} if form.segments is None else {"segments": _segments_entry(form.segments)}),
            "taus_and_thresholds": _threshold_pairs(head),
        }
    )


def _format_version(form: LinearForm) -> int:
    if form.segments is not None:
        return _WITH_SEGMENTS
    return _WITH_DATES if form.dates else _JSON_VERSION


def _segments_entry(segments: SegmentLabels) -> dict[str, Any]:
    known = segments.numbers() if segments.limits.is_number else segments.texts()
    return {
        "column": segments.column,
        "is_number": segments.limits.is_number,
        "thresholds": [list(pair) for pair in known.items()],
        "missing": segments.missing,
        "unknown": segments.unknown,
    }


def _category_entry(term: CategoryTerm) -> dict[str, Any]:
    def number(weight: Fraction | None) -> float | None:
        return None if weight is None else float(weight)

    weights = [[value, number(weight)] for value, weight in term.weights.items()]
    return {"weights": weights, "missing": number(term.missing), "unknown": number(term.unknown)}


def _date_entry(parts: dict[str, NumericTerm]) -> dict[str, float]:
    weights = {part: float(parts.get(part, NumericTerm()).weight) for part in DATE_PARTS}
    return {**weights, _MISSING: float(sum(term.filled for term in parts.values()))}


def _threshold_pairs(head: Any) -> list[list[float]] | None:
    """Pairs of tolerance and threshold, in the order of tau, where there are several."""
    if np.ndim(getattr(head, "tau", 0.0)) == 0:
        return None
    return [[float(tau), finite(float(each))] for tau, each in zip(head.tau, head.thresholds_, strict=True)]


# Databases bound the depth of an expression, some at 1,000: sums are nested in groups of this size.
_GROUP = 32


@dataclass(frozen=True, slots=True)
class Dialect:
    """A way to write SQL: quotes of names, what stands before a text, truth values, whether and what casts are."""

    quotes: tuple[str, str]
    text: str = ""
    backslash: str = "\\"
    truth: tuple[str, str] = ("FALSE", "TRUE")
    casts: bool = True
    text_type: str = "VARCHAR(4000)"

    def name(self, value: str) -> str:
        """A quoted name."""
        start, end = self.quotes
        return start + value.replace(end, end + end) + end

    def number(self, column: str) -> str:
        """A column as a double, of a boolean too, which many databases do not multiply."""
        return f"CAST({column} AS DOUBLE PRECISION)" if self.casts else column

    def value(self, value: Any) -> str:
        """A label or a category."""
        if isinstance(value, bool | np.bool_):
            return self.truth[int(value)]
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            return _double(value)
        escaped = str(value).replace("\\", self.backslash).replace("'", "''")
        return f"{self.text}'{escaped}'"


_DIALECTS = {
    "ansi": Dialect(('"', '"')),
    # In MySQL booleans are integers, and older versions do not cast to doubles.
    "mysql": Dialect(("`", "`"), backslash="\\\\", casts=False, text_type="CHAR"),
    "tsql": Dialect(("[", "]"), text="N", truth=("0", "1"), text_type="NVARCHAR(4000)"),
}


def to_sql(
    model: Any, *, table: str | Sequence[str] | None = None, dialect: str = "ansi", segment_column: str | None = None
) -> str:
    """The decision of a linear model as SQL.

    Parameters
    ----------
    model : estimator
        As in :func:`to_json`.
    table : str or sequence of str, default=None
        Where the columns are: a name, or its parts, ``("schema", "name")``. With it the answer is a query that gives
        all columns and three more: `taufpl_raw_score`, the sum over the columns; `taufpl_score`, which is that minus
        the threshold, as `decision_function` gives it, and above 0 exactly where the label is that of positives; and
        `taufpl_label`. Without it, a condition such as ``(...) > 1.5E0``, for a WHERE or a CASE of your own.
    dialect : {"ansi", "mysql", "tsql"}, default="ansi"
        How names and texts are quoted: "ansi" for PostgreSQL, SQLite, DuckDB, Snowflake, Oracle and the standard;
        "mysql" for MySQL and MariaDB; "tsql" for SQL Server.
    segment_column : str, default=None
        The column that holds the segment of a row, where the model was given labels of segments beside X.

    Returns
    -------
    str

    Raises
    ------
    ExportError
        The model is not linear, or a step before it cannot be written as a sum over columns.

    Notes
    -----
    Numbers are written with all their digits and an exponent, so that they are read as doubles. NULL stands for a
    missing value: where an imputer or an encoder before the model knows what to do with it, that is done; else the
    condition, the scores and the label are NULL, as they are for a category that the encoder would refuse. A NaN that a
    database keeps apart from NULL is not understood as missing; turn it into NULL first.

    Numeric columns are cast to doubles, so that booleans count as 0 and 1 (in SQLite and DuckDB this is tested).
    PostgreSQL casts no boolean to a double: give it such columns as integers, ``flag::int``, in a view.

    The score of a :class:`taufpl.ScoreScreen` is a column: its condition is one comparison, without a cast, so that an
    index on the column is used. The column must be of a numeric type (SQLite finds every text above every number).

    Where the model has a threshold for each segment, a CASE over the column of their labels takes its place, and the
    query gives it as `taufpl_threshold`. NULL, and a text of nothing but spaces, is a missing label; labels that the
    model does not know get the strictest threshold. Numbers are compared as numbers, texts as in :func:`to_onnx`, but
    without the spaces around them.

    Dates are expected as seconds since 1970, which databases count in their own ways. Give them so in a view: by
    ``EXTRACT(EPOCH FROM moment)`` in PostgreSQL and DuckDB, ``unixepoch(moment)`` in SQLite (whose FLOOR is an option
    of its build), ``DATEDIFF_BIG(second, '1970-01-01', moment)`` in SQL Server.

    Examples
    --------
    >>> import sqlite3
    >>> import numpy as np
    >>> from taufpl import TauFPLClassifier
    >>> from taufpl.persistence import to_sql
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> X = rng.normal(size=(2200, 2)) + y[:, np.newaxis]
    >>> model = TauFPLClassifier(tau=0.05, random_state=0).fit(X, y)
    >>> database = sqlite3.connect(":memory:")
    >>> _ = database.execute("CREATE TABLE events (x0 REAL, x1 REAL)")
    >>> _ = database.executemany("INSERT INTO events VALUES (?, ?)", X.tolist())
    >>> answer = database.execute(to_sql(model, table="events")).fetchall()
    >>> [label for *_, label in answer] == model.predict(X).tolist()
    True
    >>> database.close()
    """
    if dialect not in _DIALECTS:
        raise ValueError(f"dialect must be one of {sorted(_DIALECTS)}; got {dialect!r}.")
    style = _DIALECTS[dialect]
    form = _linear_form(model, "SQL", segment_column)
    negative, positive = (style.value(label) for label in form.model.classes.tolist())
    bare = form.bare_column()
    # A query by segment has a column for the threshold, rather than three times the same CASE.
    if bare is not None and (form.segments is None or table is None):
        limit = _threshold(style, form, bare[1])
        return _compare_column(style, *bare, limit, (negative, positive), table)
    terms = [_double(float(form.centred_constant()))]
    terms += [_numeric(style.name(name), style.number(style.name(name)), term) for name, term in form.numeric.items()]
    terms += [term for name, parts in form.dates.items() for term in _date(style, name, parts)]
    terms += [_category(style, name, term) for name, term in form.categories().items()]
    raw, threshold, inner = _total(terms), _threshold(style, form), ""
    if table is None:
        return f"({raw}) > {threshold}"
    scored, source, raw_score, score, label, own = (
        style.name(f"taufpl_{each}") for each in ("scored", "source", "raw_score", "score", "label", "threshold")
    )
    where = _table(style, table)
    if form.segments is not None:
        inner, threshold = f",\n    {threshold} AS {own}", f"{scored}.{own}"
    return (
        f"SELECT {scored}.*,\n"
        f"  {scored}.{raw_score} - ({threshold}) AS {score},\n"
        f"  CASE WHEN {scored}.{raw_score} > {threshold} THEN {positive}"
        f" WHEN {scored}.{raw_score} <= {threshold} THEN {negative} END AS {label}\n"
        f"FROM (\n  SELECT {source}.*, {raw} AS {raw_score}{inner}\n  FROM {where} AS {source}\n) AS {scored}"
    )


def _compare_column(
    style: Dialect, name: str, sign: int, limit: str, labels: tuple[str, str], table: str | Sequence[str] | None
) -> str:
    """One comparison, where the score is a column (1) or minus that column (-1): the database may use an index."""
    source, raw_score, score, label = (
        style.name(f"taufpl_{each}") for each in ("source", "raw_score", "score", "label")
    )
    column = style.name(name)
    above, not_above = (">", "<=") if sign > 0 else ("<", ">=")
    if table is None:
        return f"{column} {above} {limit}"
    column = f"{source}.{column}"
    raw, distance = (column, f"{column} - ({limit})") if sign > 0 else (f"-{column}", f"({limit}) - {column}")
    return (
        f"SELECT {source}.*,\n"
        f"  {raw} AS {raw_score},\n"
        f"  {distance} AS {score},\n"
        f"  CASE WHEN {column} {above} {limit} THEN {labels[1]}"
        f" WHEN {column} {not_above} {limit} THEN {labels[0]} END AS {label}\n"
        f"FROM {_table(style, table)} AS {source}"
    )


def _threshold(style: Dialect, form: LinearForm, sign: int = 1) -> str:
    """The threshold, or 1 or -1 times it: a number, or that of the segment of the row."""
    segments = form.segments
    if segments is None:
        return _double(sign * finite(form.model.threshold))
    value, cases, known = style.name(segments.column), list[str](), dict[Any, float]()
    if segments.limits.is_number:
        cases, known = [f"WHEN {value} IS NULL THEN {_double(sign * segments.missing)}"], {**segments.numbers()}
    else:
        text = f"TRIM(CAST({value} AS {style.text_type}))"
        value, known = (
            f"COALESCE(NULLIF({text}, {style.value('')}), {style.value(MISSING_LEVEL)})",
            {**segments.texts()},
        )
        if segments.are_truth_values:  # which many a database holds as numbers
            known |= {str(number): threshold for number, threshold in segments.numbers().items()}
    strictest = _double(sign * segments.unknown)
    for threshold in dict.fromkeys(known.values()):
        if threshold != segments.unknown:
            labels = ", ".join(style.value(label) for label, own in known.items() if own == threshold)
            cases.append(f"WHEN {value} IN ({labels}) THEN {_double(sign * threshold)}")
    return f"CASE {' '.join(cases)} ELSE {strictest} END" if cases else strictest


def _table(style: Dialect, table: str | Sequence[str]) -> str:
    return ".".join(style.name(part) for part in ([table] if isinstance(table, str) else table))


def _numeric(column: str, number: str, term: NumericTerm) -> str:
    """The share of a column in the score; `number` is the expression whose multiple that is."""
    if not term.weight:
        return f"CASE WHEN {column} IS NULL THEN {_double(float(term.filled))} ELSE {_double(0.0)} END"
    value = number if not term.centre else f"({number} - {_double(term.centre)})"
    product = f"{_double(float(term.weight))} * {value}"
    if term.unfilled:
        return product
    return f"COALESCE({product}, {_double(float(term.filled - term.weight * Fraction(term.centre)))})"


def _date(style: Dialect, name: str, parts: dict[str, NumericTerm]) -> list[str]:
    """The shares of the parts of a date, by the arithmetic of DateEncoder."""
    column = style.name(name)
    days = f"({style.number(column)} / {_double(SECONDS_OF_DAY)})"
    weekday, season = _modulo(f"(FLOOR({days}) + {_double(MONDAY)})", 7.0), _modulo(days, DAYS_OF_YEAR)
    expressions = (days, f"({days} - FLOOR({days}))", weekday, f"({season} / {_double(DAYS_OF_YEAR)})")
    known = dict(zip(DATE_PARTS, expressions, strict=True))
    return [_numeric(column, known.get(part, column), term) for part, term in parts.items()]


def _modulo(value: str, divisor: float) -> str:
    return f"({value} - FLOOR({value} / {_double(divisor)}) * {_double(divisor)})"


def _category(style: Dialect, name: str, term: CategoryTerm) -> str:
    column = style.name(name)
    cases = [f"WHEN {column} IS NULL THEN {_weight(term.missing)}"]
    cases += [f"WHEN {column} = {style.value(value)} THEN {_weight(each)}" for value, each in term.weights.items()]
    return f"CASE {' '.join(cases)} ELSE {_weight(term.unknown)} END"


def _weight(weight: Fraction | None) -> str:
    return "NULL" if weight is None else _double(float(weight))


def _total(terms: list[str]) -> str:
    """A sum, nested so that no expression is deep."""
    while len(terms) > _GROUP:
        terms = [f"({_total(terms[start : start + _GROUP])})" for start in range(0, len(terms), _GROUP)]
    return "\n    + ".join(terms)


def _double(number: float) -> str:
    """All digits, and an exponent, which makes it a double."""
    if not math.isfinite(number):
        raise ExportError(f"the model holds {number}, which SQL cannot write.")
    digits, _, exponent = repr(float(number)).partition("e")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent or 0)}"
