"""Rows of a file to fit on: what the columns are is told from the rows that train, then all rows become X and y."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taufpl._types import Array, RowIndices
from taufpl.cli._data_file import DataFile
from taufpl.cli._enough import about, check_enough
from taufpl.cli._errors import CommandLineError
from taufpl.cli._frames import check_finite, frame_of_batches, texts_as_planned
from taufpl.cli._labels import read_labels
from taufpl.cli._layout import Layout, plan_columns
from taufpl.cli._matrices import dense_where_full, read_matrix
from taufpl.cli._own_scores import plan_scores
from taufpl.cli._pipelines import FitOptions, FitRows, screen_for
from taufpl.cli._row_reader import check_present, used_columns
from taufpl.cli._segments import take_segments
from taufpl.cli._tables import arrow, read_table
from taufpl.preprocessing import ColumnPlan, plan_numbers, reasons_against


@dataclass(slots=True)
class SourceRows:
    """All rows of a file as they were read, with their labels, groups and times."""

    file: DataFile
    columns: Any  # a pyarrow.Table or a LabelledMatrix
    y: Array
    positive: Any  # the label
    groups: Array | None = None
    times: Array | None = None
    segments: Array | None = None

    def give_up_columns(self) -> Any:
        """The columns, which are not kept here: rows that become a frame must not be held twice for long."""
        columns, self.columns = self.columns, None
        return columns


def plan_training(source: SourceRows, options: FitOptions) -> FitRows:
    """Tell which rows of a file train, what the columns are by those alone, and make X and y of all rows.

    The source gives up its columns. A file on which no model can be fitted is a ValueError, which says why.
    """
    if options.score is not None:
        X, layout = plan_scores(source.file, source.give_up_columns(), options)
        if source.segments is None:
            screen, is_negative = screen_for(source.positive, options), source.y != source.positive
            check_enough(source.file, screen, is_negative, source.groups, advice=" Take a larger --tau or --delta.")
        return FitRows(X, source.y, layout, source.positive, source.groups, segments=source.segments)
    train = rows_that_train(source, options)
    return plan_rows(source, options, train)


def read_source(file: DataFile, options: FitOptions) -> SourceRows:
    """Read a file with its labels; one that is damaged is a ValueError, which says why."""
    return _read_table(file, options) if file.is_table else _read_matrix(file, options)


def plan_rows(source: SourceRows, options: FitOptions, train: RowIndices | None) -> FitRows:
    """Tell what the columns are from the rows that train, or all (None), and make X of all rows.

    The source gives up its columns.
    """
    make = _plan_table if source.file.is_table else _plan_matrix
    X, layout = make(source, options, train)
    return FitRows(X, source.y, layout, source.positive, source.groups, source.times, train, source.segments)


def _read_table(file: DataFile, options: FitOptions) -> SourceRows:
    target = options.target
    if target is None:
        raise CommandLineError("--target is needed: the name of the column with the labels.")
    table, segments = read_table(file, options.segment), None
    for option, named in (("--drop", options.drop), *((option, (name,)) for option, name in _named(options))):
        names = [name for name in named if name is not None]
        check_present(file, table.column_names, names)
        if target in names:
            raise CommandLineError(f"{option} {target} is the target.")
    check_present(file, table.column_names, [target])
    if options.segment is not None:
        table, segments = take_segments(file, table, options.segment)
    y, positive = read_labels(file, target, table.column(target), options.positive)
    groups, times = (_values(file, table, name) for name in (options.group, options.time))
    if times is not None and times.dtype.kind not in "iufmM":
        raise ValueError(
            f"{file.name}: column {options.time!r} holds texts, which do not sort by time. Write dates as 2024-12-31 "
            "or 2024-12-31 23:59:00, or give numbers."
        )
    return SourceRows(file, table, y, positive, groups, times, segments)


def _plan_table(source: SourceRows, options: FitOptions, train: RowIndices | None) -> tuple[Any, Layout]:
    file, target, table = source.file, options.target, source.give_up_columns()
    assert target is not None
    with about(file):
        columns = plan_columns(table, target, _unused(options), train, guess_types=file.format == "csv")
    n_rows = len(source.y if train is None else train)
    layout = Layout(columns, target, group=options.group, time=options.time, segment=options.segment, n_rows=n_rows)
    _check_left(file, layout)
    used = table.select([column.name for column in layout.used])
    del table
    batches = texts_as_planned(file, used, layout).to_batches()
    del used
    arrow().default_memory_pool().release_unused()
    X = frame_of_batches(file, batches, layout)
    arrow().default_memory_pool().release_unused()
    return X, layout


def _named(options: FitOptions) -> tuple[tuple[str, str | None], ...]:
    """Options that name one column each."""
    return (
        ("--group", options.group),
        ("--time", options.time),
        ("--score", options.score),
        ("--segment", options.segment),
    )


def _unused(options: FitOptions) -> dict[str, str]:
    """Columns that are no features, and why."""
    reasons = dict.fromkeys(options.drop, "as asked")
    if options.group is not None:
        reasons[options.group] = "--group: rows with the same value belong together"
    if options.time is not None:
        reasons[options.time] = "--time: the scorer learns from earlier rows, the latest choose the threshold"
    return reasons


def _values(file: DataFile, table: Any, name: str | None) -> Array | None:
    """A column of groups or times, as values that can be compared and sorted."""
    if name is None:
        return None
    values = table.column(name)
    if values.null_count:
        raise ValueError(
            f"{file.name}: column {name!r} has no value in {values.null_count:,} rows. Fill them, or leave those "
            "rows out."
        )
    return np.asarray(values.to_numpy())


def _read_matrix(file: DataFile, options: FitOptions) -> SourceRows:
    if options.target not in (None, "y", "label"):
        raise CommandLineError(
            f"--target {options.target}: the labels of a {file.format} file have no other name than y."
        )
    for option, name in _named(options):
        if name is not None:
            raise CommandLineError(f"{option} {name} is for tables; a {file.format} file has numbers and labels only.")
    matrix = read_matrix(file)
    if matrix.y is None:
        raise ValueError(f"{file.name}: has no y, the labels of the rows.")
    return SourceRows(file, matrix, *read_labels(file, "y", matrix.y, options.positive))


def _plan_matrix(source: SourceRows, options: FitOptions, train: RowIndices | None) -> tuple[Any, Layout]:
    file, matrix = source.file, dense_where_full(source.give_up_columns(), train)
    X, layout = matrix.X, Layout((), None, zero_based=matrix.zero_based)
    if matrix.is_sparse:
        if options.drop:
            raise CommandLineError("--drop is not for sparse data, whose columns have no names.")
        if not np.isfinite(X.data).all():
            raise ValueError(f"{file.name}: a value is infinite or not a number.")
        layout = replace(layout, n_columns=X.shape[1], is_sparse=True)
        return X, layout
    names = matrix.names or [f"x{place}" for place in range(X.shape[1])]
    check_present(file, names, options.drop)
    check_finite(file, names, X, 0)
    seen = X if train is None else X[train]
    columns = tuple(
        ColumnPlan(plan.name, "dropped", "as asked") if plan.name in options.drop else plan
        for plan in plan_numbers(names, ["number"] * len(names), seen, may_be_identifier=False)
    )
    layout = replace(layout, columns=columns, n_rows=len(seen))
    _check_left(file, layout)
    return used_columns(X, layout), layout


def rows_that_train(source: SourceRows, options: FitOptions) -> RowIndices | None:
    """The rows that the scorer may learn from (None: all), once it is clear that the others suffice for a guarantee."""
    y, groups, screen = source.y, source.groups, screen_for(source.positive, options)
    if options.threshold == "np" and source.segments is None:
        without = "" if options.holdout == "auto" else "no --holdout, "
        advice = f" Others must be left to learn from. Take {without}--threshold cross, or a larger --tau or --delta."
        check_enough(source.file, screen, y != source.positive, groups, holdout=options.holdout, advice=advice)
    beside = {} if source.segments is None else {"segments": source.segments}
    with about(source.file):
        found: RowIndices | None = screen.training_rows(y, groups, source.times, **beside)
    return found


def _check_left(file: DataFile, layout: Layout) -> None:
    if not layout.used:
        reasons = reasons_against(layout.columns) or "there is only the target"
        raise ValueError(f"{file.name}: no column is left to learn from ({reasons}).")
