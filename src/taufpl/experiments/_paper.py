"""The figures that the paper prints, by table, dataset, tolerance in percent and method."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

# Datasets in another form, judged by the same figures: the paper's instance space is the unit ball, and it does not say
# how rows got there.
FORMS = {"spambase-unit": "spambase"}


@cache
def _tables() -> dict[str, Any]:
    return json.loads(resources.files("taufpl.experiments").joinpath("paper.json").read_text("utf-8"))


def datasets(table: str) -> list[str]:
    """The datasets of a table, "ranking" or "classification", in the paper's order."""
    return list(_tables()[table])


def taus(table: str, dataset: str) -> list[float]:
    """The tolerances at which a table judges a dataset."""
    return [float(percent) / 100 for percent in _tables()[table][FORMS.get(dataset, dataset)]]


def methods(table: str) -> list[str]:
    """The systems that a table compares, in its order."""
    return list(next(iter(next(iter(_tables()[table].values())).values())))


def figure(table: str, dataset: str, tau: float, method: str) -> Any:
    """A share for "ranking", (FPR, TPR, NP-score) for "classification"; None where the paper is silent."""
    return _tables()[table].get(FORMS.get(dataset, dataset), {}).get(f"{100 * tau:g}", {}).get(method)
