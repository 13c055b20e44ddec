"""Whether the rows of a report are new to its model: by the record in a model file, or beside the training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._row_hashes import row_hashes
from taufpl._sklearn import num_samples, safe_indexing
from taufpl.persistence import Freshness, SeenRows
from taufpl.report._rates import Rates, rates_at
from taufpl.report._scored_rows import ScoredRows, score_rows


@dataclass(frozen=True, slots=True)
class Given:
    """Rows of a report, and what a record of the rows that the model has seen says about them, where there is one.

    Rows that were seen before are left out where they can be told from the others; `kept` are the positions of the
    remaining ones, None where none was left out. `is_new` is as said, unless the record contradicts.
    """

    X: Any
    y: Any
    is_new: bool | None
    freshness: Freshness | None = None
    kept: NDArray[np.intp] | None = None


def leave_out_seen(X: Any, y: Any, is_new: bool | None, seen: SeenRows | None) -> Given:
    """Leave out the rows that a record knows; rows that are known to be old are all kept, to look at."""
    if seen is None:
        return Given(X, y, is_new)
    hit = seen.contains(X)
    found = seen.judge(int(hit.sum()), hit.size)
    if not found.n_seen or is_new is False:
        return Given(X, y, is_new, found)
    if found.n_seen == found.n_rows:
        return Given(X, y, False, found)
    if not found.separable or num_samples(y) != hit.size:
        return Given(X, y, None, found)
    kept = np.flatnonzero(~hit)
    return Given(safe_indexing(X, kept), safe_indexing(y, kept), is_new, found, kept)


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Rates on the training rows, and how many of the reported rows are among them."""

    rates: Rates
    n_shared: int


def compare_training(rows: ScoredRows, training: Any) -> TrainingRows:
    """Score the training rows, and look for the reported rows among them."""
    try:
        X, y = training
    except (TypeError, ValueError):
        raise TypeError(
            f"training must be a pair (X, y), the rows that the model was fitted on; got {type(training).__name__}."
        ) from None
    trained = score_rows(rows.model, X, y)
    return TrainingRows(rates_at(trained, rows.threshold), count_shared(rows.inner, trained.inner))


def count_shared(rows: Any, others: Any) -> int:
    """How many of the rows equal one of the others in every feature, numbers to seven digits."""
    mine, theirs = (row_hashes(each, single=True) for each in (rows, others))
    return int(np.isin(mine, theirs).sum())
