"""The rows that a report is about beside those that the model was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array

from taufpl.operators import Operator, as_operator
from taufpl.report._figures import Rates, rates_at
from taufpl.report._subject import Subject, Vector, judge

# Two sums of the same terms in another order differ by less than this share of the norms.
_SAME = 1e-12


@dataclass(frozen=True, slots=True)
class Training:
    """Rates on the training rows, and how many of the reported rows are among them (None: cannot be compared)."""

    rates: Rates
    n_shared: int | None


def compare(subject: Subject, training: Any) -> Training:
    """Score the training rows, and look for the reported rows among them."""
    try:
        X, y = training
    except (TypeError, ValueError):
        raise TypeError(
            f"training must be a pair (X, y), the rows that the model was fitted on; got {type(training).__name__}."
        ) from None
    trained = judge(subject.model, X, y)
    return Training(rates_at(trained, subject.threshold, subject.delta), count_shared(subject.inner, trained.inner))


def count_shared(rows: Any, others: Any) -> int | None:
    """How many of the rows equal one of the others in every feature; None where they are not numbers.

    Rows are told apart by their products with two random vectors.
    """
    try:
        mine, theirs = (
            as_operator(check_array(each, accept_sparse="csr", dtype=[np.float64, np.float32]))
            for each in (rows, others)
        )
    except (TypeError, ValueError):
        return None
    if mine.shape[1] != theirs.shape[1]:
        return None
    first, second = np.random.default_rng(0).normal(size=(2, mine.shape[1]))
    ordered = np.argsort(theirs.matvec(first))
    keys = [(mine.matvec(each), theirs.matvec(each)[ordered]) for each in (first, second)]
    at = _nearest(*keys[0])
    slack = _SAME * _norms(mine) * max(float(np.linalg.norm(each)) for each in (first, second))
    same = np.all([np.abs(own - other[at]) <= slack for own, other in keys], axis=0)
    return int(np.count_nonzero(same))


def _nearest(values: Vector, ascending: Vector) -> Any:
    """Position of the nearest of the others."""
    right = np.minimum(np.searchsorted(ascending, values), ascending.size - 1)
    left = np.maximum(right - 1, 0)
    return np.where(np.abs(values - ascending[left]) <= np.abs(values - ascending[right]), left, right)


def _norms(operator: Operator) -> Vector:
    return np.sqrt(operator.row_norms())


def settled(is_new: bool | None, training: Training | None, n_rows: int) -> bool | None:
    """Whether the rows are new: as said, or as the comparison with the training rows shows."""
    if is_new is not None or training is None or training.n_shared is None:
        return is_new
    return {0: True, n_rows: False}.get(training.n_shared)
