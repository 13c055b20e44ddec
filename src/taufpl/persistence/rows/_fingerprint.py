"""A hash of a whole table: tells whether two tables are the same, without keeping them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._row_hashes import is_missing
from taufpl.operators import contents

# Values that are hashed at once: enough for the hash to be the work, few enough to fit beside the data.
_BLOCK = 1 << 20


def fingerprint(X: Any, y: Any = None) -> str:
    """SHA-256 of a table, and of its labels: types, shape, names of columns and content, in order.

    The same numbers give the same fingerprint in C and in Fortran order, on machines of either byte order, and for
    sparse data in any format. Another order of rows or columns, another type, another name or another value gives
    another one. Frames of pandas and polars with the same names, numbers and strings agree.

    Parameters
    ----------
    X : array-like, sparse matrix or dataframe of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), default=None

    Returns
    -------
    str
        "sha256:" and 64 hexadecimal digits.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.persistence import fingerprint
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> fingerprint(X) == fingerprint(np.asfortranarray(X)), fingerprint(X) == fingerprint(X[::-1])
    (True, False)
    """
    digest = hashlib.sha256()
    for part in chain(_parts(X, "X"), () if y is None else _parts(y, "y")):
        digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def _parts(data: Any, name: str) -> Iterator[bytes]:
    columns = getattr(data, "columns", None)
    if columns is not None:
        yield f"{name}: frame of {len(columns)}\n".encode()
        for place, column in enumerate(columns):
            yield f"{len(str(column))}:{column}\n".encode()
            values = data.iloc[:, place] if hasattr(data, "iloc") else data[column]
            yield from _array(values.to_numpy())
        return
    kind, arrays = contents(data.to_numpy() if hasattr(data, "to_numpy") else data)
    yield f"{name}: {kind} {np.shape(data)}\n".encode()
    for array in arrays:
        yield from _array(array)


def _array(array: NDArray[Any]) -> Iterator[bytes]:
    """Type, shape and values of an array, block by block in C order."""
    plain = array.dtype.kind in "biufcmM"
    label = array.dtype.newbyteorder("<").str if plain else "object"
    yield f"{label} {array.shape}\n".encode()
    rows = max(1, _BLOCK // max(1, int(np.prod(array.shape[1:]))))
    for start in range(0, len(array) if array.ndim else 1, rows):
        block = array[start : start + rows] if array.ndim else array
        if plain:
            yield np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<")).tobytes()
        else:
            yield b"".join(_value(value) for value in np.ravel(block).tolist())


def _value(value: Any) -> bytes:
    """A tag for the type, the length and the text, so that no two lists of values run into the same bytes."""
    if is_missing(value):
        return b"-"
    if isinstance(value, str):
        tag, text = "s", value
    elif isinstance(value, bool | np.bool_):
        tag, text = "b", str(bool(value))
    elif isinstance(value, Integral):
        tag, text = "i", str(int(value))
    elif isinstance(value, Real):
        tag, text = "f", float(value).hex()
    else:
        tag, text = "o", f"{type(value).__name__} {value!r}"
    encoded = text.encode("utf-8", "surrogatepass")
    return f"{tag}{len(encoded)}:".encode() + encoded
