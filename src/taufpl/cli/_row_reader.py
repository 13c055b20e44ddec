"""Rows of files and of standard input in batches, as a model takes them: tables, and matrices of numbers."""

from __future__ import annotations

import io
import itertools
import math
import re
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import csr_matrix, vstack
from sklearn.datasets import load_svmlight_file
from threadpoolctl import threadpool_limits

from taufpl._checks import near_or_all
from taufpl._extras import require
from taufpl._sklearn import safe_indexing
from taufpl._types import Array, Labels, Mask, Matrix, RowIndices, Vector
from taufpl.cli._columns import FoundLayout, Layout, check_finite, frame_of, frame_of_batches, match_labels, read_levels
from taufpl.cli._data_file import (
    DataFile,
    arrow,
    check_names,
    delimiter_of,
    is_number,
    parse_rows,
    read_names,
    stream_table,
)
from taufpl.cli._errors import CommandLineError, note
from taufpl.cli._options import CHUNK_ROWS
from taufpl.preprocessing import as_kind, read_column

_PAIR = re.compile(rb"(\d+):(\S+)")
# Above this share of stored values a dense matrix takes no more memory than a sparse one.
_DENSE = 1 / 3


@dataclass(frozen=True, slots=True)
class LabelledMatrix:
    """Rows of numbers, as an array or a CSR matrix, their labels, and names of columns, where the file has them."""

    X: Any
    y: Array | None
    zero_based: bool = False  # whether the indices of LIBSVM's text begin at 0
    names: list[str] | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether X is a CSR matrix."""
        return isinstance(self.X, csr_matrix)


def read_matrix(file: DataFile) -> LabelledMatrix:
    """A whole file."""
    matrix = _read_npz(file) if file.format == "npz" else _read_svmlight(file)
    if not matrix.X.shape[0]:
        raise ValueError(f"{file.name}: has no rows.")
    if not matrix.X.shape[1]:
        raise ValueError(f"{file.name}: has no columns.")
    return matrix


def dense_where_full(matrix: LabelledMatrix, rows: RowIndices | None) -> LabelledMatrix:
    """The same matrix, dense where some rows, or all (None), store many values."""
    part = matrix.X if rows is None else matrix.X[rows]
    if matrix.is_sparse and part.nnz > _DENSE * math.prod(part.shape):
        return replace(matrix, X=matrix.X.toarray())
    return matrix


def stream_matrix(file: DataFile, rows: int, n_columns: int, zero_based: bool) -> Iterator[LabelledMatrix]:
    """A file in batches of at most `rows` rows.

    Of LIBSVM's text, whose indices begin at 0 or 1, `n_columns` columns are read and others left out.
    """
    if file.format == "npz":
        matrix = read_matrix(file)
        for start in range(0, matrix.X.shape[0], rows):
            part = slice(start, start + rows)
            labels = None if matrix.y is None else matrix.y[part]
            yield replace(matrix, X=matrix.X[part], y=labels)
        return
    for start, lines in _chunks(file, rows):
        X, y = _parse(file, lines, start)
        first = 0 if zero_based else 1
        X.resize(X.shape[0], max(X.shape[1], n_columns + first))
        yield LabelledMatrix(X[:, first : n_columns + first], y, zero_based)


def _read_npz(file: DataFile) -> LabelledMatrix:
    try:
        with file.open() as stream, np.load(stream, allow_pickle=False) as archive:
            # An array of NumPy by itself, or something else that it reads, has no names in it.
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, EOFError, AttributeError, TypeError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        raise ValueError(f"{file.name}: is damaged, or no .npz archive of plain arrays ({error}).") from error
    X = _features(file, arrays)
    labels = arrays.get("y")
    if labels is not None and labels.shape != X.shape[:1]:
        raise ValueError(f"{file.name}: X has {X.shape[0]} rows, and y has shape {labels.shape}.")
    names = [str(name) for name in arrays["names"].tolist()] if "names" in arrays else None
    if names is not None and (len(names) != X.shape[1] or len(set(names)) != len(names)):
        raise ValueError(f"{file.name}: names must name each of the {X.shape[1]} columns, and none twice.")
    return LabelledMatrix(X, labels, names=names)


def _features(file: DataFile, arrays: dict[str, Array]) -> Any:
    """X of an archive, dense or in the parts that SciPy's save_npz writes."""
    if {"data", "indices", "indptr", "shape"} <= set(arrays):
        try:
            parts = (arrays["data"].astype(np.float64, copy=False), arrays["indices"], arrays["indptr"])
            X = csr_matrix(parts, shape=tuple(int(size) for size in arrays["shape"]))
            X.check_format(full_check=True)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{file.name}: its parts make no CSR matrix ({error}).") from error
        return X
    if "X" not in arrays:
        raise ValueError(
            f"{file.name}: must hold X and y, or data, indices, indptr, shape and y; it holds "
            f"{', '.join(arrays) or 'nothing'}."
        )
    X = arrays["X"]
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"{file.name}: X must be a matrix of numbers; it has shape {X.shape} and type {X.dtype}.")
    return np.ascontiguousarray(X, dtype=np.float64)


def _read_svmlight(file: DataFile) -> LabelledMatrix:
    parts, labels = [csr_matrix((0, 0))], [np.empty(0)]
    for start, lines in _chunks(file, 1 << 16):
        X, y = _parse(file, lines, start)
        parts.append(X)
        labels.append(y)
    wide = max(X.shape[1] for X in parts)
    for X in parts:
        X.resize(X.shape[0], wide)
    X = vstack(parts, format="csr")
    # No index 0 in all of the file: they begin at 1, as LIBSVM's own do.
    zero_based = bool(X.nnz and X.indices.min() == 0)
    return LabelledMatrix(X if zero_based else X[:, 1:], np.concatenate(labels), zero_based)


def _chunks(file: DataFile, rows: int) -> Iterator[tuple[int, list[bytes]]]:
    """Number of the first line, and lines."""
    try:
        with file.open() as stream:
            start = 1
            while lines := list(itertools.islice(stream, rows)):
                yield start, lines
                start += len(lines)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{file.name}: cannot be read, or is no whole gzip file ({error}).") from error


def _parse(file: DataFile, lines: list[bytes], start: int) -> tuple[Any, Vector]:
    """Lines as CSR with indices as they are written, and labels."""
    try:
        X, y = load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=True)
    except Exception as error:
        for number, line in enumerate(lines, start):
            reason = _fault(line)
            if reason:
                raise ValueError(f"{file.name}, line {number}: {reason}.") from error
        raise ValueError(f"{file.name}: is no file in LIBSVM's format ({error}).") from error
    return csr_matrix(X), y


def _fault(line: bytes) -> str | None:
    """What is wrong with a line, if anything is."""
    text = line.split(b"#")[0].split()
    if not text:
        return None
    shown = [each.decode("utf-8", "replace")[:40] for each in text]
    if not is_number(text[0]):
        return f"the label {shown[0]!r} is not a number"
    last = -1
    for place, pair in enumerate(text[1:], 1):
        if place == 1 and pair.startswith(b"qid:"):
            continue
        match = _PAIR.fullmatch(pair)
        if not match or not is_number(match[2]):
            return f"{shown[place]!r} is not an index, a colon and a number"
        if int(match[1]) <= last:
            return f"the index {int(match[1])} comes after {last}; indices must ascend"
        last = int(match[1])
    return None


# More names than that are not listed one by one.
_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows of a file."""

    X: Any  # a frame or a CSR matrix
    labels: Labels | None  # 0, 1, or -1 where the label is missing; None where none were asked for
    ids: Any  # a pyarrow array, or None
    start: int  # number of rows before the first of these
    levels: Array | None = None  # canonical texts of the column that was asked for
    segments: Array | None = None  # canonical texts of the column of the model's segments
    numbers: Array | None = None  # of the rows in the file, from 1, where all were loaded

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, kept: Mask) -> RowBatch:
        """Some of the rows, by a mask."""
        places = np.flatnonzero(kept)
        parts = self.labels, self.ids, self.levels, self.segments, self.numbers
        labels, ids, levels, segments, numbers = (None if each is None else each.take(places) for each in parts)
        X = safe_indexing(self.X, places)
        return replace(self, X=X, labels=labels, ids=ids, levels=levels, segments=segments, numbers=numbers)


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads the rows of a file by the layout of a model."""

    file: DataFile
    layout: Layout
    classes: list[Any] | None = None  # the model's labels, negative first; None where no labels are wanted
    target: str | None = None  # the column of a table that holds the labels
    id_column: str | None = None
    level_column: str | None = None  # a column of a table by whose levels rows are counted
    needs_labels: bool = True  # whether a matrix without labels is refused, where labels are wanted

    def batches(self, rows: int = CHUNK_ROWS) -> Iterator[RowBatch]:
        """All rows in batches of at most `rows`; those of standard input as soon as they are there.

        A file that is damaged, does not fit the model or has no rows is a ValueError, which says where.
        """
        if self.file.path is None:
            parts = self._live(rows)
        elif self.file.is_table:
            parts = self._numbered(stream_table(self.file, self._types(read_names(self.file)), rows))
        elif self.id_column is not None or self.level_column is not None:
            option = f"--by {self.level_column}" if self.id_column is None else f"--id {self.id_column}"
            raise CommandLineError(f"{option}: the columns of a {self.file.format} file have no names.")
        elif self.layout.segment is not None:
            raise ValueError(
                f"{self.file.name}: must be a table with the column {self.layout.segment!r}, the segment of each row."
            )
        else:
            parts = self._stream_matrix(rows)
        is_empty = True
        for part in parts:
            is_empty = False
            yield part
        if is_empty:
            raise ValueError(f"{self.file.name}: has {'a header, but ' if self.file.path is None else ''}no rows.")

    def load(self) -> RowBatch:
        """All rows; those without a label are left out, with a note."""
        parts = list(self.batches())
        if self.layout.is_sparse:
            X = vstack([part.X for part in parts], format="csr")
        else:
            X = require("pandas", "cli", "to hold tables").concat([part.X for part in parts], ignore_index=True)
        ids = None if self.id_column is None else np.concatenate([np.asarray(each.ids, object) for each in parts])
        if ids is not None and any(each is None for each in ids):
            raise ValueError(
                f"{self.file.name}: column {self.id_column!r} has no value in some rows. Fill them, or leave them out."
            )
        rows = RowBatch(
            X,
            _joined([part.labels for part in parts]),
            ids,
            0,
            _joined([part.levels for part in parts]),
            _joined([part.segments for part in parts]),
            np.arange(1, X.shape[0] + 1),
        )
        if rows.labels is None or (rows.labels >= 0).all():
            return rows
        labelled = rows.take(rows.labels >= 0)
        note(f"{self.file.name}: {len(rows) - len(labelled):,} rows without a label are left out.")
        if not len(labelled):
            raise ValueError(f"{self.file.name}: no row has a label.")
        return labelled

    def _live(self, rows: int) -> Iterator[RowBatch]:
        stream = self.file.open()
        header = stream.readline()
        if not header.strip():
            raise ValueError("standard input: is empty; it must begin with a header line of column names.")
        file = self.file._replace(delimiter=delimiter_of(header))
        types = self._types(read_names(file, header))
        return self._numbered(
            batch for lines in _whole_lines(stream, rows) for batch in parse_rows(file, header, lines, types)
        )

    def _types(self, names: list[str]) -> dict[str, Any]:
        """Columns to read and their types, once they are known to be there; a note names other columns."""
        if self.layout.is_sparse:
            raise ValueError(f"{self.file.name}: the model was fitted on sparse data; give it rows as .svm or .npz.")
        check_names(self.file, names)
        types = self.layout.types()
        named = (self.target if self.classes else None, self.id_column, self.level_column, self.layout.segment)
        others = [name for name in named if name is not None]
        segment = [] if self.layout.segment is None else [self.layout.segment]
        check_present(self.file, names, [*types, *segment], why=", which the model needs")
        check_present(self.file, names, others)
        known = {column.name for column in self.layout.columns} | {*others, self.layout.target}
        extra = [name for name in names if name not in known]
        if extra:
            shown = ", ".join(extra[:_MOST_NAMES]) + (", ..." if len(extra) > _MOST_NAMES else "")
            note(f"{self.file.name}: {len(extra)} columns that the model does not know are ignored: {shown}.")
        for name in others:
            types.setdefault(name, arrow().string() if self.file.format == "csv" else None)
        return types

    def _numbered(self, batches: Iterator[Any]) -> Iterator[RowBatch]:
        """Batches of a table as rows of the model."""
        start = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            labels = None
            if self.classes is not None and self.target is not None:
                labels = match_labels(self.file, self.target, batch.column(self.target), self.classes, start)
            ids = None if self.id_column is None else batch.column(self.id_column)
            if isinstance(self.layout, FoundLayout):
                X = with_levels(batch.select([column.name for column in self.layout.used]).to_pandas(), self.layout)
            else:
                X = frame_of_batches(self.file, [batch], self.layout, start)
            if self.layout.score is not None:
                _check_scored(self.file, self.layout.score, X, start)
            levels, segments = (
                None if name is None else read_levels(batch.column(name))
                for name in (self.level_column, self.layout.segment)
            )
            yield RowBatch(X, labels, ids, start, levels, segments)
            start += batch.num_rows

    def _stream_matrix(self, rows: int) -> Iterator[RowBatch]:
        n_columns = self.layout.n_columns if self.layout.is_sparse else len(self.layout.columns)
        start = 0
        for matrix in stream_matrix(self.file, rows, n_columns, self.layout.zero_based):
            X, labels = self._fitting(matrix, n_columns, start), None
            if self.classes is not None and matrix.y is None and self.needs_labels:
                raise ValueError(f"{self.file.name}: has no y, the labels of the rows.")
            if self.classes is not None and matrix.y is not None:
                labels = match_labels(self.file, "y", matrix.y, self.classes, start)
            yield RowBatch(X, labels, None, start)
            start += matrix.X.shape[0]

    def _fitting(self, matrix: LabelledMatrix, n_columns: int, start: int) -> Any:
        """A matrix as the model takes it: sparse, or a frame with its names."""
        X, name = matrix.X, self.file.name
        if X.shape[1] != n_columns:
            raise ValueError(f"{name}: has {X.shape[1]:,} columns, and the model was fitted on {n_columns:,}.")
        if self.layout.is_sparse:
            return X if matrix.is_sparse else csr_matrix(X)
        names = [column.name for column in self.layout.columns]
        if matrix.names is not None and matrix.names != names:
            raise ValueError(f"{name}: its names are not those of the columns that the model was fitted on.")
        dense = X.toarray() if matrix.is_sparse else X
        check_finite(self.file, names, dense, start)
        X = used_columns(dense, self.layout)
        return with_levels(X, self.layout) if isinstance(self.layout, FoundLayout) else X


def _check_scored(file: DataFile, name: str, X: Any, start: int) -> None:
    """Refuse rows without a score."""
    lacks = np.flatnonzero(X[name].isna())
    if lacks.size:
        raise ValueError(
            f"{file.name}, row {start + int(lacks[0]) + 1:,}, column {name!r}: there is no score. Leave such rows out, "
            "or give them a score: what the scorer does not score, somebody has to decide."
        )


def _joined(parts: list[Array | None]) -> Array | None:
    """The arrays of all batches in one; None where there are none."""
    found = [part for part in parts if part is not None]
    return np.concatenate(found) if found else None


def with_levels(X: Any, layout: FoundLayout) -> Any:
    """A frame whose categories are texts, as the encoder of the model has them."""
    series = require("pandas", "cli", "to hold tables").Series
    for column in layout.columns:
        if column.kind == "category":
            texts, levels = as_kind(read_column(X[column.name]), "category", column.name), {*column.levels}
            # Levels that were doubles: 2.0 in a file is what the encoder calls 2.
            doubles = {f"{level}.0": level for level in levels if f"{level}.0" not in levels}
            X[column.name] = series([doubles.get(text, text) for text in texts.tolist()], X.index, dtype=object)
    return X


def used_columns(X: Matrix, layout: Layout) -> Any:
    """The columns of a dense matrix that a model uses, as a frame."""
    names = [column.name for column in layout.used]
    if len(names) < X.shape[1]:
        X = X[:, [place for place, column in enumerate(layout.columns) if column.kind != "dropped"]]
    return frame_of(X, names, {})


def check_present(file: DataFile, names: Sequence[str], wanted: Sequence[str], why: str = "") -> None:
    """Refuse a file that lacks a column; the nearest name is offered."""
    known = set(names)
    for name in wanted:
        if name not in known:
            raise ValueError(f"{file.name}: there is no column {name!r}{why}.{near_or_all(name, names, 'columns')}")


def _whole_lines(stream: Any, most: int) -> Iterator[bytes]:
    """Whole lines as soon as they have come, at most `most` at a time."""
    left = b""
    while part := stream.read1(1 << 20):
        *whole, left = (left + part).split(b"\n")
        for start in range(0, len(whole), most):
            yield b"\n".join(whole[start : start + most]) + b"\n"
    if left.strip():
        yield left


Batch = TypeVar("Batch")
Found = TypeVar("Found")


@contextmanager
def in_order(work: Callable[[Batch], Found], batches: Iterable[Batch], n_jobs: int) -> Iterator[Iterator[Found]]:
    """What `work` makes of each batch, `n_jobs` at a time; -1 stands for all cores.

    Threads, since trees and products leave the interpreter free, and no model has to travel. Batches are read as
    results are taken: beside those in work, one is held.
    """
    n_jobs = effective_n_jobs(n_jobs)
    if n_jobs == 1:
        yield map(work, batches)
        return
    # No thread of the pool starts threads of OpenMP: each batch has one core.
    pool = ThreadPoolExecutor(n_jobs, initializer=partial(threadpool_limits, 1, user_api="openmp"))
    try:
        yield _results(pool, work, batches, n_jobs)
    finally:
        # Whoever is interrupted does not wait for the batches in work.
        pool.shutdown(wait=False, cancel_futures=True)


def _results(
    pool: ThreadPoolExecutor, work: Callable[[Batch], Found], batches: Iterable[Batch], n_jobs: int
) -> Iterator[Found]:
    waiting: deque[Future[Found]] = deque()
    for batch in batches:
        waiting.append(pool.submit(work, batch))
        if len(waiting) > n_jobs:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
