"""The paper's datasets in the paper's form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.datasets import fetch_libsvm, load_breast_cancer, load_heart, load_spambase
from taufpl.experiments._paper import FORMS

# The paper's rule: 30 rounds for small sets, 10 for those with more rows than this.
_SMALL = 10_000
ROUNDS_SMALL, ROUNDS_LARGE = 30, 10

_EMBEDDED: dict[str, Callable[..., Any]] = {
    "heart": load_heart,
    "breast-cancer": load_breast_cancer,
    "spambase": load_spambase,
}


@dataclass(frozen=True, slots=True)
class Data:
    """Rows and labels, 1 for positives and 0 for negatives."""

    X: Any
    y: NDArray[np.int64]

    @property
    def usual_rounds(self) -> int:
        """How many rounds the paper runs on a set of this size."""
        return ROUNDS_SMALL if self.y.size <= _SMALL else ROUNDS_LARGE


@lru_cache(maxsize=2)
def read(name: str, download: bool = False) -> Data:
    """A dataset by the paper's name, features as at its source; heart and breast-cancer are scaled there.

    With ``-unit`` after the name, columns are divided by their standard deviation, then rows by their norm.

    Raises
    ------
    DatasetError
        If it has to be downloaded and that is not wanted, or fails.
    """
    if name in FORMS:
        data = read(FORMS[name], download)
        return Data(in_unit_rows(data.X), data.y)
    if name in _EMBEDDED:
        X, y = _EMBEDDED[name](return_X_y=True)
        return Data(np.ascontiguousarray(X, dtype=np.float64), y)
    X, y = fetch_libsvm(name, return_X_y=True, download_if_missing=download)
    return Data(X, y)


def in_unit_rows(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns divided by their standard deviation, then rows by their norm."""
    X = X / X.std(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True)
