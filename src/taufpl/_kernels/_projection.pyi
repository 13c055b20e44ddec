from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Real = TypeVar("_Real", np.float32, np.float64)
_Answer = tuple[int, float, float, float, float, float, float, int]
_Guess = tuple[float, float, float, float, float, float] | None

FOUND: int
ZERO_ANSWER: int
NOT_FEASIBLE: int
BAD_VALUE: int
OVERFLOW: int

def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str) -> None: ...
def topk_simplex(
    alpha: NDArray[_Real],
    beta: NDArray[_Real],
    k: float,
    weight: float,
    out_alpha: NDArray[_Real],
    out_beta: NDArray[_Real],
    guess: _Guess,
) -> _Answer: ...
def topk_cone(beta: NDArray[_Real], k: float, out_beta: NDArray[_Real], guess: _Guess) -> _Answer: ...
def capped_simplex(
    beta: NDArray[_Real], total: float, cap: float, k: float, out_beta: NDArray[_Real], guess: _Guess
) -> _Answer: ...
