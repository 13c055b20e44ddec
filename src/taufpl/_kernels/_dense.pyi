from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Real = TypeVar("_Real", np.float32, np.float64)
_Rows = NDArray[np.intp] | None
_Vector = NDArray[np.float64]
_Tickets = NDArray[np.int64]

SCRATCH_ROWS: int

def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str) -> None: ...
def dot(x: NDArray[_Real], rows: _Rows, w: _Vector, out: _Vector, tickets: _Tickets) -> int: ...
def add(x: NDArray[_Real], rows: _Rows, v: _Vector, partial: _Vector, tickets: _Tickets) -> int: ...
def gram(
    x: NDArray[_Real],
    rows: _Rows,
    weights: _Vector,
    shift: _Vector,
    bounds: NDArray[np.intp],
    scratch: _Vector,
    out: _Vector,
    tickets: _Tickets,
) -> int: ...
