"""The layout of a table: what becomes of each column, told when a model is fitted and kept in its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from taufpl._records import read_record
from taufpl._types import RowIndices, Vector
from taufpl.cli._tables import arrow, doubles_of, guess_type, timestamps_of
from taufpl.estimators import NeymanPearsonClassifier, ScoreScreen, ScreeningClassifier, StackedScorer, last_step
from taufpl.persistence import ModelHeader
from taufpl.preprocessing import ColumnPlan, TableEncoder, plan_numbers, plan_texts, seconds_of, unused

KINDS = ("number", "boolean", "date", "category", "dropped")


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows of a file become rows of X."""

    columns: tuple[ColumnPlan, ...]  # without the target; none for sparse rows, whose columns have numbers only
    target: str | None
    n_columns: int = 0  # of sparse rows
    is_sparse: bool = False
    zero_based: bool = False  # whether the indices of LIBSVM's text begin at 0
    group: str | None = None
    time: str | None = None
    segment: str | None = None  # the column with the labels of segments, where the model has limits by segment
    score: str | None = None  # the column of scores that the threshold is on: no row may lack it
    n_rows: int = 0  # rows that ranges and missing values were counted on; 0 in older model files

    @property
    def used(self) -> tuple[ColumnPlan, ...]:
        """Columns of X in their order: numbers first, then dates, then categories."""
        kept = [column for column in self.columns if column.kind != "dropped"]
        return tuple(sorted(kept, key=lambda column: {"date": 1, "category": 2}.get(column.kind, 0)))

    @property
    def numbers(self) -> list[str]:
        """Names of numbers and booleans."""
        return [column.name for column in self.columns if column.kind in ("number", "boolean")]

    @property
    def dates(self) -> list[str]:
        """Names of dates."""
        return [column.name for column in self.columns if column.kind == "date"]

    @property
    def categories(self) -> list[str]:
        """Names of categories."""
        return [column.name for column in self.columns if column.kind == "category"]

    def types(self) -> dict[str, Any]:
        """The types that columns of a CSV file are read as."""
        pa = arrow()
        # Whether dates have a time zone is seen when all of a batch are there.
        texts = dict.fromkeys(("category", "date"), pa.string())
        known = {"number": pa.float64(), "boolean": pa.bool_(), **texts}
        return {column.name: known[column.kind] for column in self.used}


@dataclass(frozen=True, slots=True)
class FoundLayout(Layout):
    """The columns of a model that no command has fitted, which takes them all, in their order.

    Their kind is "open" where the model says nothing of it: then they are taken as they are found.
    """

    @property
    def used(self) -> tuple[ColumnPlan, ...]:
        """All columns: those that an encoder drops are columns of X for scikit-learn."""
        return self.columns

    def types(self) -> dict[str, Any]:
        """The types that columns of a CSV file are read as; what texts are, no guess may change."""
        pa = arrow()
        known = {"number": pa.float64(), "boolean": pa.bool_(), "category": pa.string()}
        # An identifier that was a text is one, although it is dropped.
        return {
            column.name: pa.string() if column.n_levels is not None else known.get(column.kind)
            for column in self.columns
        }


def layout_of(header: ModelHeader, model: Any) -> Layout:
    """The layout in a model file, or, of a model that no command has fitted, what its encoder knows of its columns.

    Without an encoder columns are taken as they are found. A layout that makes no sense is a ValueError, which says
    where.
    """
    kept = header.training.get("layout")
    if kept is not None:
        layout = _read_layout(kept)
        # Older files do not name the score.
        is_score = isinstance(last_step(model), ScoreScreen) and layout.used
        return replace(layout, score=layout.used[0].name) if is_score else layout
    model = getattr(model, "best_estimator_", model)
    encoders = _encoders(model)
    if encoders and all(each.columns_ for each in encoders):
        plans = zip(*(each.columns_ for each in encoders), strict=True)
        n_rows = min(int(last_step(each.parts_[0][1]).n_samples_seen_) for each in encoders)
        columns = tuple(map(_joined, plans))
        return FoundLayout(columns, None, segment=_segment_of(model, columns), n_rows=n_rows)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{place}" for place in range(int(getattr(model, "n_features_in_", 0)))]
    columns = tuple(ColumnPlan(str(name), "open") for name in names)
    return FoundLayout(columns, None, segment=_segment_of(model, columns))


def _segment_of(model: Any, columns: tuple[ColumnPlan, ...]) -> str | None:
    """The column of X with the labels of segments, of a model that takes X as it is."""
    which = getattr(model, "segments", None)
    if isinstance(which, int):
        return columns[which].name if which < len(columns) else None
    return which if isinstance(which, str) else None


def _encoders(model: Any) -> list[TableEncoder]:
    """The encoders that get the rows of a fitted model as they are, one for each of its scorers."""
    if isinstance(model, Pipeline):
        parts = [model.steps[0][1]]
    elif isinstance(model, NeymanPearsonClassifier | ScreeningClassifier):
        parts = model.estimators_
    elif isinstance(model, StackedScorer):
        parts = [model.encoder_]
    else:
        return [model] if isinstance(model, TableEncoder) else []
    return [encoder for part in parts for encoder in _encoders(part)]


def _joined(plans: tuple[ColumnPlan, ...]) -> ColumnPlan:
    """One plan of a column from those of several fits: of the first that uses it, with the range of all."""
    used = [plan for plan in plans if plan.kind != "dropped"] or list(plans)
    lows = [plan.low for plan in used if plan.low is not None]
    highs = [plan.high for plan in used if plan.high is not None]
    return replace(used[0], low=min(lows, default=None), high=max(highs, default=None))


def _read_layout(kept: Any) -> Layout:
    layout = read_record(Layout, kept, "its layout")
    for column in layout.columns:
        if column.kind not in KINDS:
            raise ValueError(f"its layout has a column of the kind {column.kind!r}; known are {', '.join(KINDS)}")
    if len({column.name for column in layout.columns}) < len(layout.columns):
        raise ValueError("its layout has two columns of one name")
    return layout


def plan_columns(
    table: Any, target: str, unused: Mapping[str, str], rows: RowIndices | None, *, guess_types: bool
) -> tuple[ColumnPlan, ...]:
    """Tell what each column of a pyarrow.Table is, from its type and its values; labels are not looked at.

    `unused` says which columns are no features, and why. Only the `rows`, or all (None), are looked at, so that what
    is decided is independent of the others; `guess_types` says that types were guessed from the values of all rows, as
    those of a CSV file are.
    """
    types, columns = arrow().types, []
    for name in table.column_names:
        if name in unused:
            columns.append(ColumnPlan(name, "dropped", unused[name]))
        elif name != target:
            values = table.column(name)
            if rows is not None:
                values = values.take(arrow().array(rows))
                # Texts alone can suggest another type: where all rows read as numbers or dates, some of them do, too.
                values = guess_type(values) if guess_types and types.is_string(values.type) else values
            columns.append(_plan(name, values))
    return tuple(columns)


def _plan(name: str, values: Any) -> ColumnPlan:
    pa = arrow()
    types, kind = pa.types, values.type
    if values.null_count == len(values):
        return plan_texts(name, (), len(values))
    if types.is_boolean(kind):
        return _plan_doubles(name, "boolean", doubles_of(values.cast(pa.uint8())))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _plan_doubles(name, "number", doubles_of(values))
    if types.is_date(kind) or types.is_timestamp(kind):
        return _plan_doubles(name, "date", seconds_of(timestamps_of(values)))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind) or types.is_string_view(kind):
        return _plan_texts(name, values)
    if types.is_binary(kind) or types.is_large_binary(kind):
        raise ValueError(
            f"column {name!r} holds bytes that are not UTF-8. Save the file in UTF-8, for example by iconv -f latin1 "
            f"-t utf-8, or leave the column out by --drop {name}."
        )
    return unused(name, str(kind), values.null_count)


def _plan_doubles(name: str, kind: str, values: Vector) -> ColumnPlan:
    return plan_numbers([name], [kind], values[:, np.newaxis], may_be_identifier=True)[0]


def _plan_texts(name: str, values: Any) -> ColumnPlan:
    pa = arrow()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        values = values.cast(pa.string())
    counts = values.drop_null().value_counts().to_pylist()
    return plan_texts(name, ((each["values"], each["counts"]) for each in counts), values.null_count)
