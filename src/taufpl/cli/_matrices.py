"""Matrices read from LIBSVM's text and from archives of NumPy and SciPy; a ValueError says what is wrong with one."""

from __future__ import annotations

import io
import itertools
import math
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack
from sklearn.datasets import load_svmlight_file

from taufpl._types import Array, RowIndices, Vector
from taufpl.cli._data_file import DataFile

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


def is_number(value: Any) -> bool:
    """Whether a text, or whatever a cell holds, is a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
