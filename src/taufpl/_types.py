"""Arrays by the part that they play, for annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Counts = NDArray[np.int64]
Labels = NDArray[np.int64]
Mask = NDArray[np.bool_]
Matrix = NDArray[np.float64]
RowIndices = NDArray[np.intp]  # positions, mostly of rows
Vector = NDArray[np.float64]
