import numpy as np
from numpy.typing import NDArray

_Real = NDArray[np.float32] | NDArray[np.float64]
_Index = NDArray[np.int32] | NDArray[np.int64]
_Rows = NDArray[np.intp]
_Vector = NDArray[np.float64]
_Tickets = NDArray[np.int64]

def dot(
    indptr: _Index, indices: _Index, data: _Real, rows: _Rows | None, w: _Vector, out: _Vector, tickets: _Tickets
) -> int: ...
def add(
    indptr: _Index, indices: _Index, data: _Real, rows: _Rows | None, v: _Vector, partial: _Vector, tickets: _Tickets
) -> int: ...
def gram(
    indptr: _Index,
    indices: _Index,
    data: _Real,
    rows: _Rows,
    weights: _Vector,
    bounds: _Rows,
    out: _Vector,
    tickets: _Tickets,
) -> int: ...
def mirror(out: _Vector) -> None: ...
def gram_work(indptr: _Index, indices: _Index, rows: _Rows, out: _Vector) -> None: ...
def squares(
    indptr: _Index, indices: _Index, data: _Real, rows: _Rows, row_sums: _Vector, column_sums: _Vector
) -> None: ...
