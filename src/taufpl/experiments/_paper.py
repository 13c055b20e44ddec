"""The paper's datasets, and the figures that it prints, by table, dataset, tolerance in percent and method."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from taufpl._types import Labels, Matrix
from taufpl.datasets import fetch_libsvm, load_breast_cancer, load_heart, load_spambase

# Datasets in another form, judged by the same figures: the paper's instance space is the unit ball, and it does not say
# how rows got there.
FORMS = {"spambase-unit": "spambase"}
# The paper's rules: 30 rounds for small sets, 10 for those with more rows than this; two thirds of the rows train.
SMALL_ROWS = 10_000
ROUNDS_SMALL, ROUNDS_LARGE = 30, 10
_TEST_SHARE = 1 / 3

_EMBEDDED: dict[str, Callable[..., Any]] = {
    "heart": load_heart,
    "breast-cancer": load_breast_cancer,
    "spambase": load_spambase,
}


class LabelledData(NamedTuple):
    """Rows and labels, 1 for positives and 0 for negatives."""

    X: Any
    y: Labels

    def split(self, seed: int) -> tuple[LabelledData, LabelledData]:
        """The rows to train and the rows to test, stratified."""
        splitter = StratifiedShuffleSplit(1, test_size=_TEST_SHARE, random_state=seed)
        parts = (np.sort(part) for part in next(splitter.split(np.zeros(self.y.size), self.y)))
        train, test = (LabelledData(self.X[part], self.y[part]) for part in parts)
        return train, test


@lru_cache(maxsize=2)
def read(name: str, download: bool = False) -> LabelledData:
    """A dataset by the paper's name, features as at its source; heart and breast-cancer are scaled there.

    With ``-unit`` after the name, columns are divided by their standard deviation, then rows by their norm. A set that
    would have to be downloaded, where that is not wanted or fails, is a DatasetError.
    """
    if name in FORMS:
        data = read(FORMS[name], download)
        return LabelledData(in_unit_rows(data.X), data.y)
    if name in _EMBEDDED:
        X, y = _EMBEDDED[name](return_X_y=True)
        return LabelledData(np.ascontiguousarray(X, dtype=np.float64), y)
    return LabelledData(*fetch_libsvm(name, return_X_y=True, download_if_missing=download))


def in_unit_rows(X: Matrix) -> Matrix:
    """Columns divided by their standard deviation, then rows by their norm."""
    X = X / X.std(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@cache
def _tables() -> dict[str, Any]:
    return json.loads(resources.files("taufpl.experiments").joinpath("paper.json").read_text("utf-8"))


def datasets(table: str) -> list[str]:
    """The datasets of a table, "ranking" or "classification", in the paper's order."""
    return list(_tables()[table])


def taus(table: str, dataset: str) -> list[float]:
    """The tolerances at which a table judges a dataset."""
    return [float(percent) / 100 for percent in _tables()[table][FORMS.get(dataset, dataset)]]


def figure(table: str, dataset: str, tau: float, method: str) -> Any:
    """A share for "ranking", (FPR, TPR, NP-score) for "classification"; None where the paper is silent."""
    return _tables()[table].get(FORMS.get(dataset, dataset), {}).get(f"{100 * tau:g}", {}).get(method)
