"""Reading matrices: LIBSVM's text, and the archives of NumPy and SciPy. Columns have numbers, not names."""

from __future__ import annotations

import io
import itertools
import math
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file

from taufpl.cli._source import Source

_PAIR = re.compile(rb"(\d+):(\S+)")
# Above this share of stored values a dense matrix takes no more memory than a sparse one.
_DENSE = 1 / 3


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of numbers, and labels.

    Attributes
    ----------
    X : ndarray or CSR matrix
    y : ndarray or None
        None where the file has no labels.
    is_sparse : bool
    zero_based : bool
        Whether the indices of LIBSVM's text begin at 0.
    names : list of str or None
        As the archive has them.
    """

    X: Any
    y: NDArray[Any] | None
    is_sparse: bool
    zero_based: bool = False
    names: list[str] | None = None


def read_matrix(source: Source) -> Matrix:
    """All of a matrix.

    Raises
    ------
    ValueError
        The file is damaged; the message says where.
    """
    matrix = _read_npz(source) if source.format == "npz" else _read_svmlight(source)
    if not matrix.X.shape[0]:
        raise ValueError(f"{source.name}: has no rows.")
    if not matrix.X.shape[1]:
        raise ValueError(f"{source.name}: has no columns.")
    return matrix


def dense_where_full(matrix: Matrix, rows: NDArray[np.intp] | None) -> Matrix:
    """The same, dense where some rows, or all, have many values."""
    part = matrix.X if rows is None else matrix.X[rows]
    if matrix.is_sparse and part.nnz > _DENSE * math.prod(part.shape):
        return Matrix(matrix.X.toarray(), matrix.y, False, matrix.zero_based, matrix.names)
    return matrix


def stream_matrix(source: Source, rows: int, n_columns: int, zero_based: bool) -> Iterator[Matrix]:
    """A matrix in batches of rows.

    Parameters
    ----------
    source : Source
    rows : int
        The most rows of a batch.
    n_columns : int
        How many columns are wanted; in LIBSVM's text those after them are left out.
    zero_based : bool
        Whether the indices of LIBSVM's text begin at 0.
    """
    if source.format == "npz":
        matrix = read_matrix(source)
        for start in range(0, matrix.X.shape[0], rows):
            part = slice(start, start + rows)
            labels = None if matrix.y is None else matrix.y[part]
            yield Matrix(matrix.X[part], labels, matrix.is_sparse, names=matrix.names)
        return
    for start, lines in _chunks(source, rows):
        X, y = _parse(source, lines, start)
        first = 0 if zero_based else 1
        X = csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], max(X.shape[1], n_columns + first)))
        yield Matrix(X[:, first : n_columns + first], y, True, zero_based)


def _read_npz(source: Source) -> Matrix:
    assert source.path is not None
    try:
        with source.path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            # An array of NumPy by itself, or something else that it reads, has no names in it.
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, EOFError, AttributeError, TypeError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        raise ValueError(f"{source.name}: is damaged, or no .npz archive of plain arrays ({error}).") from error
    X, is_sparse = _features(source, arrays)
    labels = arrays.get("y")
    if labels is not None and labels.shape != X.shape[:1]:
        raise ValueError(f"{source.name}: X has {X.shape[0]} rows, and y has shape {labels.shape}.")
    names = [str(name) for name in arrays["names"].tolist()] if "names" in arrays else None
    if names is not None and (len(names) != X.shape[1] or len(set(names)) != len(names)):
        raise ValueError(f"{source.name}: names must name each of the {X.shape[1]} columns, and none twice.")
    return Matrix(X, labels, is_sparse, names=names)


def _features(source: Source, arrays: dict[str, NDArray[Any]]) -> tuple[Any, bool]:
    """X of an archive, dense or in the parts that SciPy's save_npz writes."""
    if {"data", "indices", "indptr", "shape"} <= set(arrays):
        try:
            parts = (arrays["data"].astype(np.float64, copy=False), arrays["indices"], arrays["indptr"])
            X = csr_matrix(parts, shape=tuple(int(size) for size in arrays["shape"]))
            X.check_format(full_check=True)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{source.name}: its parts make no CSR matrix ({error}).") from error
        return X, True
    if "X" not in arrays:
        raise ValueError(
            f"{source.name}: must hold X and y, or data, indices, indptr, shape and y; it holds "
            f"{', '.join(arrays) or 'nothing'}."
        )
    X = arrays["X"]
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"{source.name}: X must be a matrix of numbers; it has shape {X.shape} and type {X.dtype}.")
    return np.ascontiguousarray(X, dtype=np.float64), False


def _read_svmlight(source: Source) -> Matrix:
    parts = [_parse(source, lines, start) for start, lines in _chunks(source, 1 << 16)]
    if not parts:
        return Matrix(csr_matrix((0, 0)), np.empty(0), True)
    wide = max(X.shape[1] for X, _ in parts)
    data = np.concatenate([X.data for X, _ in parts])
    indices = np.concatenate([X.indices for X, _ in parts])
    ends = np.cumsum([0, *(X.nnz for X, _ in parts)])
    starts = [X.indptr[:-1] + end for (X, _), end in zip(parts, ends, strict=False)]
    X = csr_matrix((data, indices, np.concatenate([*starts, ends[-1:]])), shape=(sum(len(s) for s in starts), wide))
    labels = np.concatenate([y for _, y in parts])
    # No index 0 in all of the file: they begin at 1, as LIBSVM's own do.
    zero_based = bool(indices.size and indices.min() == 0)
    return Matrix(X if zero_based else X[:, 1:], labels, True, zero_based)


def _chunks(source: Source, rows: int) -> Iterator[tuple[int, list[bytes]]]:
    """Number of the first line, and lines."""
    try:
        with source.open() as file:
            start = 1
            while lines := list(itertools.islice(file, rows)):
                yield start, lines
                start += len(lines)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{source.name}: cannot be read, or is no whole gzip file ({error}).") from error


def _parse(source: Source, lines: list[bytes], start: int) -> tuple[Any, NDArray[np.float64]]:
    """Lines as CSR with indices as they are written, and labels."""
    try:
        X, y = load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=True)
    except Exception as error:
        for number, line in enumerate(lines, start):
            reason = _fault(line)
            if reason:
                raise ValueError(f"{source.name}, line {number}: {reason}.") from error
        raise ValueError(f"{source.name}: is no file in LIBSVM's format ({error}).") from error
    return csr_matrix(X), y


def _fault(line: bytes) -> str | None:
    """What is wrong with a line, if anything is."""
    text = line.split(b"#")[0].split()
    if not text:
        return None
    shown = [each.decode("utf-8", "replace")[:40] for each in text]
    if not _is_number(text[0]):
        return f"the label {shown[0]!r} is not a number"
    last = -1
    for place, pair in enumerate(text[1:], 1):
        if place == 1 and pair.startswith(b"qid:"):
            continue
        match = _PAIR.fullmatch(pair)
        if not match or not _is_number(match[2]):
            return f"{shown[place]!r} is not an index, a colon and a number"
        if int(match[1]) <= last:
            return f"the index {int(match[1])} comes after {last}; indices must ascend"
        last = int(match[1])
    return None


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
