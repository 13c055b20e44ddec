"""Groups of a file beside those that a model has met: rows of a known customer are no new evidence."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.cli._errors import note
from taufpl.cli._labels import canonical
from taufpl.cli._rows import Rows
from taufpl.cli._saved import Saved
from taufpl.cli._source import Source
from taufpl.cli._tables import read_names
from taufpl.persistence import SeenRows

# Where the header of a model file keeps the record of groups.
RECORD = "groups"


def record_groups(groups: Any, before: str | None = None) -> str:
    """A record of these groups, and of those of an earlier one, as text for the header of a model file."""
    seen = SeenRows() if before is None else SeenRows.from_bytes(base64.b64decode(before))
    return base64.b64encode(seen.add(np.unique(_texts(groups))[:, np.newaxis]).to_bytes()).decode()


def met_before(saved: Saved, groups: Any) -> NDArray[np.bool_]:
    """Which rows belong to a group that the model has met; none where there are no groups, or no record of them."""
    known = saved.header.training.get(RECORD)
    if groups is None or known is None:
        return np.zeros(0 if groups is None else len(groups), np.bool_)
    return SeenRows.from_bytes(base64.b64decode(known)).contains(_texts(groups)[:, np.newaxis])


class GroupCounter:
    """Rows of a file that count: the first of each group and class, where the model was fitted with --group.

    Parameters
    ----------
    source : Source
    saved : Saved
    """

    def __init__(self, source: Source, saved: Saved) -> None:
        name = saved.layout.group
        self.column = name if name is not None and name in read_names(source) else None
        self.n_known = 0
        self._saved = saved
        self._counted: set[tuple[str, int]] = set()
        if name is not None and self.column is None:
            note(f"{source.name}: has no column {name!r}, by which the model was fitted: rows count as independent.")

    def counts(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows count."""
        if self.column is None or rows.labels is None:
            return np.ones(len(rows), np.bool_)
        keys = list(zip(_texts(rows.ids).tolist(), rows.labels.tolist(), strict=True))
        found = np.zeros(len(rows), np.bool_)
        for place, key in enumerate(keys):
            found[place] = key not in self._counted
            self._counted.add(key)
        return found

    def known(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows belong to a group that the model has met."""
        found = met_before(self._saved, rows.ids) if self.column is not None else np.zeros(len(rows), np.bool_)
        self.n_known += int(found.sum())
        return found


def _texts(groups: Any) -> NDArray[Any]:
    """Groups as texts: the same whether a file has them as numbers or as texts."""
    return np.array([canonical(each) for each in np.asarray(groups, dtype=object).tolist()], dtype=object)
