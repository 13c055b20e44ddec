"""Linear models as SQL: the decision where the data are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from taufpl.exceptions import ExportError
from taufpl.persistence._unwrap import finite
from taufpl.persistence.linear._form import CategoryTerm, LinearForm, NumericTerm, linear_form
from taufpl.preprocessing import DATE_PARTS, DAYS_OF_YEAR, MONDAY, SECONDS_OF_DAY
from taufpl.thresholding import MISSING_LEVEL

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
    form = linear_form(model, "SQL", segment_column)
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
