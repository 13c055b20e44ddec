import numpy as np
from numpy.typing import NDArray

_Known = NDArray[np.float64]

def solve(
    alpha_known: _Known,
    alpha_size: float,
    beta_known: _Known,
    beta_size: float,
    k: float,
    weight: float,
    balance: float,
) -> tuple[float, float, float, float, int, int, int] | None: ...
