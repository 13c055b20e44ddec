"""The rows of a report that its model has not met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._sklearn import num_samples, safe_indexing
from taufpl.persistence import Freshness, SeenRows
from taufpl.report._format import count, counted, rate


@dataclass(frozen=True, slots=True)
class Given:
    """Rows that a report is about, and what a record of the rows that the model has met says about them.

    Attributes
    ----------
    X, y
        Without rows that were seen before, where these can be told from the others.
    is_new : bool or None
        As said, unless the record contradicts.
    freshness : Freshness or None
        None without a record.
    kept : ndarray of int or None
        Positions of the rows among those that were given; None where none was left out.
    """

    X: Any
    y: Any
    is_new: bool | None
    freshness: Freshness | None = None
    kept: NDArray[np.intp] | None = None

    def sentence(self) -> str:
        """Say what the record tells, if anything."""
        if self.freshness is None:
            return ""
        found = self.freshness
        if not found.known:
            return (
                " Whether the model has met these rows cannot be checked: rows of this table repeat by chance, as "
                f"{rate(found.repeating)} of the training rows do."
            )
        if not found.n_seen:
            return " The record in the model file knows none of them."
        seen = f" {count(found.n_seen)} of {counted(found.n_rows, 'row')} have been seen by the model"
        return f"{seen} and are left out." if self.kept is not None else f"{seen}."


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
