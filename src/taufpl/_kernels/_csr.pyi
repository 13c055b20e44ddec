from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Real = TypeVar("_Real", np.float32, np.float64)
_Index = TypeVar("_Index", np.int32, np.int64)
_Rows = NDArray[np.intp]
_Vector = NDArray[np.float64]
_Tickets = NDArray[np.int64]

def dot(
    indptr: NDArray[_Index],
    indices: NDArray[_Index],
    data: NDArray[_Real],
    rows: _Rows | None,
    w: _Vector,
    out: _Vector,
    tickets: _Tickets,
) -> int: ...
def add(
    indptr: NDArray[_Index],
    indices: NDArray[_Index],
    data: NDArray[_Real],
    rows: _Rows | None,
    v: _Vector,
    partial: _Vector,
    tickets: _Tickets,
) -> int: ...
def gram(
    indptr: NDArray[_Index],
    indices: NDArray[_Index],
    data: NDArray[_Real],
    rows: _Rows,
    weights: _Vector,
    bounds: _Rows,
    out: _Vector,
    tickets: _Tickets,
) -> int: ...
def mirror(out: _Vector) -> None: ...
def gram_work(indptr: NDArray[_Index], indices: NDArray[_Index], rows: _Rows, out: _Vector) -> None: ...
def squares(
    indptr: NDArray[_Index],
    indices: NDArray[_Index],
    data: NDArray[_Real],
    rows: _Rows,
    row_sums: _Vector,
    column_sums: _Vector,
) -> None: ...
