"""Rows of a file, read when they are asked for and not kept."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self

import numpy as np

from taufpl._types import Array


@dataclass(frozen=True)
class FileRows:
    """A large array in a file, for ``dask.array.from_array``: rows are read, never mapped.

    A mapped file (``np.memmap``) looks as good, but ``from_array`` copies it into memory, a map that is sent to another
    process arrives as the whole array, and a cluster counts the pages that were touched as memory of the worker, pauses
    it and at last ends it. This object is a path and a shape: it travels as such, and each slice is a read of just its
    bytes.

    Attributes
    ----------
    path : str
        The file, by a name under which every worker finds it.
    shape : tuple of int
        Rows, and columns if there are two dimensions.
    dtype : numpy.dtype
    offset : int
        Where in the file the array begins, in bytes.
    by_columns : bool
        Whether columns are contiguous, not rows.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from taufpl.operators import FileRows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "X.npy")
    ...     np.save(path, np.arange(12.0).reshape(6, 2))
    ...     rows = FileRows.from_npy(path)
    ...     print(rows.shape, rows[2:4].tolist())
    (6, 2) [[4.0, 5.0], [6.0, 7.0]]
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int = 0
    by_columns: bool = False

    @classmethod
    def from_npy(cls, path: str | PathLike[str]) -> Self:
        """Rows of a file that ``numpy.save`` wrote."""
        return cls.from_memmap(np.load(path, mmap_mode="r"))

    @classmethod
    def from_memmap(cls, mapped: np.memmap[Any, Any]) -> Self:
        """Rows of the file behind a map.

        Raises
        ------
        ValueError
            If the map has no file, has more than two dimensions, or is a part of another one.
        """
        whole = mapped.flags.c_contiguous or mapped.flags.f_contiguous
        # A slice of a map still names the file and the offset of the map that it is a slice of.
        if mapped.filename is None or mapped.ndim not in (1, 2) or not whole or isinstance(mapped.base, np.memmap):
            raise ValueError(
                "A mapped array must be the whole of a file, with one or two dimensions, "
                f"got shape {mapped.shape} of {mapped.filename}. Open the file anew, and slice the dask array instead."
            )
        path = fspath(Path(mapped.filename).resolve())
        return cls(path, mapped.shape, mapped.dtype, mapped.offset, by_columns=not mapped.flags.c_contiguous)

    @property
    def ndim(self) -> int:
        """One or two."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> Array:
        """Some rows, of some columns, by what NumPy takes: the rows between the first and the last of them are read."""
        index = index if isinstance(index, tuple) else (index,)
        if len(index) > self.ndim or any(part is None or part is Ellipsis for part in index):
            raise TypeError(
                f"Rows of a file are asked for by at most {self.ndim} slices, integers or arrays of integers, one a "
                f"dimension; got {index!r}. Read the rows, and index what comes back."
            )
        wanted, *others = index or (slice(None),)
        start, stop, inside = _span(wanted, self.shape[0])
        rows = self._by_columns(start, stop) if self.by_columns else self._by_rows(start, stop)
        return np.asarray(rows[(inside, *others)])

    def _by_rows(self, start: int, stop: int) -> Array:
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        return self._read(start * width, max(0, stop - start) * width).reshape(-1, *self.shape[1:])

    def _by_columns(self, start: int, stop: int) -> Array:
        n_rows, n_columns = self.shape
        rows = np.empty((max(0, stop - start), n_columns), self.dtype, order="F")
        for column in range(n_columns):
            rows[:, column] = self._read(column * n_rows + start, len(rows))
        return rows

    def _read(self, start: int, count: int) -> Array:
        if count == 0:
            return np.empty(0, self.dtype)
        values = np.fromfile(self.path, self.dtype, count, offset=self.offset + start * self.dtype.itemsize)
        if len(values) < count:
            raise OSError(f"{self.path} ended {count - len(values)} values before the {count} that were to be read.")
        return values


def _span(wanted: Any, n_rows: int) -> tuple[int, int, Any]:
    """First wanted row, the row after the last wanted one, and the index of the wanted rows among those between."""
    if isinstance(wanted, slice):
        places = range(n_rows)[wanted]
        if not places:
            return 0, 0, slice(None)
        first, last = sorted((places[0], places[-1]))
        return first, last + 1, slice(None, None, places.step)
    if isinstance(wanted, Integral):
        place = range(n_rows)[int(wanted)]
        return place, place + 1, 0
    rows = np.asarray(wanted)
    rows = np.flatnonzero(rows) if rows.dtype == bool and rows.shape == (n_rows,) else rows
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise TypeError(f"Rows of a file are slices, integers or arrays of integers, got {wanted!r}.")
    if not rows.size:
        return 0, 0, slice(None)
    rows = np.where(rows < 0, rows + n_rows, rows)
    if rows.min() < 0 or rows.max() >= n_rows:
        raise IndexError(f"The file has {n_rows} rows, got row numbers from {rows.min()} to {rows.max()}.")
    return int(rows.min()), int(rows.max()) + 1, rows - rows.min()
