"""Rows from several places in one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse


def stacked(parts: Sequence[Any]) -> Any:
    """One below the other; sparse if the first of them that has rows is."""
    filled = [part for part in parts if part.shape[0]]
    if filled and sparse.issparse(filled[0]):
        return sparse.vstack(filled, format="csr")
    return np.vstack(filled or parts)
