"""From files to the rows that models take: all of them for training, in batches for everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from taufpl._extras import require
from taufpl._sklearn import safe_indexing
from taufpl.cli._errors import CommandLineError, did_you_mean, note
from taufpl.cli._frames import as_planned, batch_frame, check_finite, frame_of, release, whole_frame
from taufpl.cli._labels import match_labels, read_labels
from taufpl.cli._layout import Column, Layout, plan_columns
from taufpl.cli._matrices import Matrix, dense_where_full, read_matrix, stream_matrix
from taufpl.cli._source import TABLES, Source
from taufpl.cli._tables import arrow, check_names, read_names, read_table, stream_table

CHUNK_ROWS = 65_536
# More names than that are not listed one by one.
_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which columns of a file play which part.

    Attributes
    ----------
    target : str or None
    positive : str or None
        The label to find.
    drop : tuple of str
        Columns to leave out.
    group, time : str or None
        Columns that say which rows belong together, and when they came.
    """

    target: str | None
    positive: str | None = None
    drop: tuple[str, ...] = ()
    group: str | None = None
    time: str | None = None

    @property
    def unused(self) -> dict[str, str]:
        """Columns that are no features, and why."""
        reasons = dict.fromkeys(self.drop, "as asked")
        if self.group is not None:
            reasons[self.group] = "--group: rows with the same value belong together"
        if self.time is not None:
            reasons[self.time] = "--time: the scorer learns from earlier rows, the latest choose the threshold"
        return reasons


@dataclass(frozen=True, slots=True)
class Training:
    """Rows of a file, all of which are given to `fit`.

    Attributes
    ----------
    X, y : frame or CSR matrix, and labels
    layout : Layout
        Told from the rows of `train` alone.
    negative, positive : label
    groups, times : ndarray or None
    train : ndarray of int or None
        The rows that the scorer learns from; None: all.
    """

    X: Any
    y: NDArray[Any]
    layout: Layout
    negative: Any
    positive: Any
    groups: NDArray[Any] | None = None
    times: NDArray[Any] | None = None
    train: NDArray[np.intp] | None = None


# From y, the label of positives, groups and times to the rows that train, or None.
Divide = Callable[..., NDArray[np.intp] | None]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a file.

    Attributes
    ----------
    X : frame or CSR matrix
    labels : ndarray of int or None
        0, 1, or -1 where the label is missing; None where none were asked for.
    ids : pyarrow array or None
    start : int
        How many rows came before.
    """

    X: Any
    labels: NDArray[np.int64] | None
    ids: Any
    start: int

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, kept: NDArray[np.bool_]) -> Rows:
        """Some of the rows, by a mask."""
        places = np.flatnonzero(kept)
        labels, ids = (None if each is None else each.take(places) for each in (self.labels, self.ids))
        return replace(self, X=safe_indexing(self.X, places), labels=labels, ids=ids)


def load_training(source: Source, wanted: Wanted, divide: Divide) -> Training:
    """Read a file, tell which rows train, what the columns are by those alone, and make X and y of all rows.

    Raises
    ------
    ValueError
        The file is damaged, or no model can be fitted on it; the message says why.
    """
    if source.format not in TABLES:
        return _train_on_matrix(source, read_matrix(source), wanted, divide)
    if wanted.target is None:
        raise CommandLineError("--target is needed: the name of the column with the labels.")
    table = read_table(source)
    named = {"--drop": wanted.drop, "--group": (wanted.group,), "--time": (wanted.time,)}
    for option, names in named.items():
        given = [name for name in names if name is not None]
        _check_present(source, table.column_names, given)
        if wanted.target in given:
            raise CommandLineError(f"{option} {wanted.target} is the target.")
    _check_present(source, table.column_names, [wanted.target])
    y, negative, positive = read_labels(source, wanted.target, table.column(wanted.target), wanted.positive)
    groups, times = (_along(source, table, name) for name in (wanted.group, wanted.time))
    if times is not None and times.dtype.kind not in "iufmM":
        raise ValueError(
            f"{source.name}: column {wanted.time!r} holds texts, which do not sort by time. Write dates as 2024-12-31 "
            "or 2024-12-31 23:59:00, or give numbers."
        )
    train = divide(y, positive, groups, times)
    try:
        columns = plan_columns(table, wanted.target, wanted.unused, train, guess_types=source.format == "csv")
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from error
    n_rows, n_trained = table.num_rows, len(y if train is None else train)
    layout = Layout(tuple(columns), wanted.target, group=wanted.group, time=wanted.time, n_rows=n_trained)
    _check_left(source, layout)
    used = table.select([column.name for column in layout.used])
    del table
    batches = as_planned(source, used, layout).to_batches()
    del used
    release()
    return Training(whole_frame(source, batches, n_rows, layout), y, layout, negative, positive, groups, times, train)


def _along(source: Source, table: Any, name: str | None) -> NDArray[Any] | None:
    """A column that goes along with the rows, as values that can be compared and sorted."""
    if name is None:
        return None
    values = table.column(name)
    if values.null_count:
        raise ValueError(
            f"{source.name}: column {name!r} has no value in {values.null_count:,} rows. Fill them, or leave those "
            "rows out."
        )
    return np.asarray(values.to_numpy())


def _train_on_matrix(source: Source, matrix: Matrix, wanted: Wanted, divide: Divide) -> Training:
    if wanted.target not in (None, "y", "label"):
        raise CommandLineError(
            f"--target {wanted.target}: the labels of a {source.format} file have no other name than y."
        )
    for option, name in (("--group", wanted.group), ("--time", wanted.time)):
        if name is not None:
            raise CommandLineError(
                f"{option} {name} is for tables; a {source.format} file has numbers and labels only."
            )
    if matrix.y is None:
        raise ValueError(f"{source.name}: has no y, the labels of the rows.")
    y, negative, positive = read_labels(source, "y", matrix.y, wanted.positive)
    train = divide(y, positive, None, None)
    matrix = dense_where_full(matrix, train)
    if matrix.is_sparse:
        if wanted.drop:
            raise CommandLineError("--drop is not for sparse data, whose columns have no names.")
        if not np.isfinite(matrix.X.data).all():
            raise ValueError(f"{source.name}: a value is infinite or not a number.")
        layout = Layout((), None, matrix.X.shape[1], is_sparse=True, zero_based=matrix.zero_based)
        return Training(matrix.X, y, layout, negative, positive, train=train)
    names = matrix.names or [f"x{place}" for place in range(matrix.X.shape[1])]
    _check_present(source, names, wanted.drop)
    check_finite(source, names, matrix.X, 0)
    rows: Any = slice(None) if train is None else train
    columns = [
        Column(name, "dropped", "as asked") if name in wanted.drop else _plan_numbers(name, matrix.X[rows, place])
        for place, name in enumerate(names)
    ]
    layout = Layout(tuple(columns), None, zero_based=matrix.zero_based, n_rows=len(y if train is None else train))
    _check_left(source, layout)
    return Training(_named(matrix.X, layout), y, layout, negative, positive, train=train)


def _plan_numbers(name: str, values: NDArray[np.float64]) -> Column:
    n_missing = int(np.count_nonzero(np.isnan(values)))
    if n_missing == values.size:
        return Column(name, "dropped", "no value in any row", n_missing)
    low, high = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
    if low == high and not n_missing:
        return Column(name, "dropped", "the same value in every row")
    return Column(name, "number", n_missing=n_missing, low=low, high=high)


def _named(X: NDArray[np.float64], layout: Layout) -> Any:
    """The columns in use of a dense matrix, as a frame."""
    used = [place for place, column in enumerate(layout.columns) if column.kind != "dropped"]
    return frame_of(X if len(used) == X.shape[1] else X[:, used], [column.name for column in layout.used], {})


def stream_rows(
    source: Source,
    layout: Layout,
    *,
    classes: list[Any] | None = None,
    target: str | None = None,
    id_column: str | None = None,
    chunk: int = CHUNK_ROWS,
) -> Iterator[Rows]:
    """Rows of a file in batches, as the model takes them.

    Parameters
    ----------
    source : Source
    layout : Layout
    classes : list, default=None
        The model's labels, where labels are wanted.
    target : str, default=None
        The column that has them.
    id_column : str, default=None
        A column to take along.
    chunk : int
        The most rows of a batch.
    """
    if source.format in TABLES:
        parts = _stream_table(source, layout, classes, target, id_column, chunk)
    else:
        if id_column is not None:
            raise CommandLineError(f"--id {id_column}: the columns of a {source.format} file have no names.")
        parts = _stream_matrix(source, layout, classes, chunk)
    empty = True
    for rows in parts:
        empty = False
        yield rows
    if empty:
        raise ValueError(f"{source.name}: has no rows.")


def wanted_types(
    source: Source, layout: Layout, names: list[str], target: str | None, id_column: str | None
) -> dict[str, Any]:
    """The columns to read and their types, once they are known to be there; what else there is gets a note."""
    if layout.is_sparse:
        raise ValueError(f"{source.name}: the model was fitted on sparse data; give it rows as .svm or .npz.")
    check_names(source, names)
    types = layout.types()
    _check_present(source, names, list(types), why=", which the model needs")
    _check_present(source, names, [name for name in (target, id_column) if name is not None])
    known = {column.name for column in layout.columns} | {target, id_column, layout.target}
    extra = [name for name in names if name not in known]
    if extra:
        shown = ", ".join(extra[:_MOST_NAMES]) + (", ..." if len(extra) > _MOST_NAMES else "")
        note(f"{source.name}: {len(extra)} columns that the model does not know are ignored: {shown}.")
    for name in (target, id_column):
        if name is not None and name not in types:
            types[name] = arrow().string() if source.format == "csv" else None
    return types


def _stream_table(
    source: Source, layout: Layout, classes: list[Any] | None, target: str | None, id_column: str | None, chunk: int
) -> Iterator[Rows]:
    types = wanted_types(source, layout, read_names(source), target if classes else None, id_column)
    start = 0
    for batch in stream_table(source, types, chunk):
        if batch.num_rows:
            yield rows_of(source, batch, layout, classes, target, id_column, start)
            start += batch.num_rows


def rows_of(
    source: Source,
    batch: Any,
    layout: Layout,
    classes: list[Any] | None,
    target: str | None,
    id_column: str | None,
    start: int,
) -> Rows:
    """A batch of a table as rows of the model."""
    labels = None
    if classes is not None and target is not None:
        labels = match_labels(source, target, batch.column(target), classes, start)
    ids = None if id_column is None else batch.column(id_column)
    return Rows(batch_frame(source, batch, layout, start), labels, ids, start)


def _stream_matrix(source: Source, layout: Layout, classes: list[Any] | None, chunk: int) -> Iterator[Rows]:
    n_columns = layout.n_columns if layout.is_sparse else len(layout.columns)
    start = 0
    for matrix in stream_matrix(source, chunk, n_columns, layout.zero_based):
        X = _fitting(source, matrix, layout, n_columns, start)
        labels = None
        if classes is not None:
            if matrix.y is None:
                raise ValueError(f"{source.name}: has no y, the labels of the rows.")
            labels = match_labels(source, "y", matrix.y, classes, start)
        yield Rows(X, labels, None, start)
        start += matrix.X.shape[0]


def _fitting(source: Source, matrix: Matrix, layout: Layout, n_columns: int, start: int) -> Any:
    """A matrix as the model takes it: sparse, or a frame with its names."""
    X = matrix.X
    if X.shape[1] != n_columns:
        raise ValueError(f"{source.name}: has {X.shape[1]:,} columns, and the model was fitted on {n_columns:,}.")
    if layout.is_sparse:
        return X if matrix.is_sparse else csr_matrix(X)
    names = [column.name for column in layout.columns]
    if matrix.names is not None and matrix.names != names:
        raise ValueError(f"{source.name}: its names are not those of the columns that the model was fitted on.")
    dense = X.toarray() if matrix.is_sparse else X
    check_finite(source, names, dense, start)
    return _named(dense, layout)


def load_rows(
    source: Source, layout: Layout, classes: list[Any] | None, target: str | None, id_column: str | None = None
) -> Rows:
    """All rows of a file; those without a label are left out, with a note."""
    parts = list(stream_rows(source, layout, classes=classes, target=target, id_column=id_column))
    if layout.is_sparse:
        X = vstack([part.X for part in parts], format="csr")
    else:
        X = require("pandas", "cli", "to hold tables").concat([part.X for part in parts], ignore_index=True)
    found = [part.labels for part in parts if part.labels is not None]
    ids = None if id_column is None else np.concatenate([np.asarray(part.ids, dtype=object) for part in parts])
    if ids is not None and any(each is None for each in ids):
        raise ValueError(
            f"{source.name}: column {id_column!r} has no value in some rows. Fill them, or leave them out."
        )
    rows = Rows(X, np.concatenate(found) if found else None, ids, 0)
    if rows.labels is None or (rows.labels >= 0).all():
        return rows
    labelled = rows.take(rows.labels >= 0)
    note(f"{source.name}: {len(rows) - len(labelled):,} rows without a label are left out.")
    if not len(labelled):
        raise ValueError(f"{source.name}: no row has a label.")
    return labelled


def _check_present(source: Source, names: Sequence[str], wanted: Sequence[str], why: str = "") -> None:
    known = set(names)
    for name in wanted:
        if name not in known:
            raise ValueError(f"{source.name}: there is no column {name!r}{why}.{did_you_mean(name, list(names))}")


def _check_left(source: Source, layout: Layout) -> None:
    if not layout.used:
        reasons = "; ".join(f"{column.name}: {column.note}" for column in layout.columns[:_MOST_NAMES])
        raise ValueError(f"{source.name}: no column is left to learn from ({reasons or 'there is only the target'}).")
