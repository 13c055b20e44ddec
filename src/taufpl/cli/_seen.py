"""Rows and groups that a model has seen already, and which are therefore no new evidence about it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taufpl._row_hashes import MultisetHash, telling_hash
from taufpl._sklearn import safe_indexing
from taufpl._types import Array, Mask
from taufpl.cli._data_file import DataFile
from taufpl.cli._errors import note
from taufpl.cli._loaded_model import LoadedModel
from taufpl.cli._output import percent
from taufpl.cli._row_reader import RowBatch
from taufpl.cli._tables import read_names
from taufpl.estimators import ScoreScreen
from taufpl.persistence import Freshness, SeenRows, fingerprint
from taufpl.thresholding import canonical

# Keys under which the header of a model file keeps the record of groups, and, of a threshold on a column of scores, a
# hash of the negatives of each file that chose it.
GROUPS = "groups"
NEGATIVES = "negatives_that_chose"


@dataclass(slots=True)
class SeenCounter:
    """Counts, batch by batch, the rows of a file that the model has seen."""

    file: DataFile
    model: LoadedModel
    n_rows: int = 0
    n_hits: int = 0
    negatives: MultisetHash = field(default_factory=MultisetHash)

    def hits(self, rows: RowBatch) -> Mask:
        """Which rows equal one that the model has seen; none where the model file keeps no record."""
        seen = self.model.saved.seen
        found = np.zeros(len(rows), np.bool_) if seen is None else seen.contains(rows.X)
        self.n_rows += len(rows)
        self.n_hits += int(found.sum())
        if NEGATIVES in self.model.training:
            self.negatives = self.negatives.add(_negatives(rows))
        return found

    @property
    def chose_threshold(self) -> bool:
        """Whether the negatives, in whatever order, are those of a file that chose the threshold: told of scores."""
        return str(self.negatives) in _that_chose(self.model)

    def freshness(self) -> Freshness:
        """What the hits say; without a record in the model file, that nothing can be told."""
        seen = self.model.saved.seen
        if seen is None:
            return Freshness(self.n_rows, 0, chance=1.0, repeating=1.0)
        return seen.judge(self.n_hits, self.n_rows)

    def note(self) -> Freshness:
        """Say on stderr what the hits mean, unless all rows are new, and return it."""
        found, name = self.freshness(), self.file.name
        if self.chose_threshold:
            note(f"{name}: its negatives have chosen the threshold: on these the false-alarm rate flatters.")
        elif isinstance(self.model.head, ScoreScreen):
            note(f"{name}: a score does not tell one row from another; whether these rows are new cannot be told.")
        elif self.model.saved.seen is None:
            note(f"{name}: the model file keeps no record of its rows; whether these are new cannot be told.")
        elif not found.known:
            note(
                f"{name}: whether these rows are new cannot be told: rows of this table repeat by chance, as "
                f"{percent(found.repeating)} of the training rows do."
            )
        elif found.n_seen:
            note(f"{name}: {_in_words(found)}.")
        return found


def _in_words(found: Freshness) -> str:
    if found.n_seen == found.n_rows:
        return f"all {found.n_rows:,} rows have been seen by the model"
    count = f"{found.n_seen:,} of {found.n_rows:,} rows have been seen by the model"
    if found.separable:
        return f"{count} and are left out"
    return f"{count}, more than chance explains; as rows of this table repeat, which are new cannot be told"


def seen_before(n_seen: int | None) -> str:
    """A number of rows that the model has seen, in words."""
    return "cannot be told" if n_seen is None else f"{n_seen:,} rows"


def is_training_file(model: LoadedModel, rows: RowBatch) -> bool:
    """Whether these are the very rows of the fit, in their order: told for tables in which rows repeat, too."""
    labels = model.labels(rows)
    return labels is not None and bool(model.training.get("fingerprint") == fingerprint(rows.X, labels))


def scores_record(file: DataFile, model: LoadedModel, rows: RowBatch) -> dict[str, list[str]]:
    """What the header keeps of files of scores that chose the threshold, with this one, which must be a new one."""
    if not isinstance(model.head, ScoreScreen):
        return {}
    earlier, new = _that_chose(model), telling_hash(_negatives(rows))
    if new in earlier:
        raise ValueError(
            f"{file.name}: its negatives have chosen the threshold before; a negative counts once. Give rows that came "
            "later."
        )
    return {NEGATIVES: earlier if new is None else [*earlier, new]}


def _that_chose(model: LoadedModel) -> list[str]:
    """Hashes of the negatives that chose the threshold, as far as the header tells."""
    found = model.training.get(NEGATIVES)
    return [str(each) for each in found] if isinstance(found, list) else []


def _negatives(rows: RowBatch) -> Any:
    """The negatives of rows; all where there are no labels."""
    return rows.X if rows.labels is None else safe_indexing(rows.X, np.flatnonzero(rows.labels == 0))


def fresh_rows(file: DataFile, model: LoadedModel, rows: RowBatch) -> tuple[RowBatch, int | None]:
    """The rows that the model has not seen, and the number of those it has (None: cannot be told).

    Refused are the very rows of the fit, and rows of which the model has seen some, and nobody can tell which.
    """
    if is_training_file(model, rows):
        raise ValueError(
            f"{file.name}: the model was fitted on these very rows; a guarantee takes negatives it has never seen."
        )
    counter = SeenCounter(file, model)
    hits, found = counter.hits(rows), counter.freshness()
    if found.n_seen and not found.separable:
        raise ValueError(f"{file.name}: {_in_words(found)}. Give rows that came after the model was made.")
    counter.note()
    return rows.take(~hits) if found.n_seen else rows, found.n_seen


def record_groups(groups: Any, earlier: str | None = None) -> str:
    """A record of these groups, and of those of an earlier one, as text for the header of a model file."""
    seen = SeenRows() if earlier is None else SeenRows.from_bytes(base64.b64decode(earlier))
    return base64.b64encode(seen.add(np.unique(_texts(groups))[:, np.newaxis]).to_bytes()).decode()


def in_known_group(model: LoadedModel, rows: RowBatch) -> Mask:
    """Which rows belong to a group that the model has seen; none where there are no groups, or no record of them."""
    record = model.training.get(GROUPS)
    if rows.ids is None or record is None:
        return np.zeros(len(rows), np.bool_)
    return SeenRows.from_bytes(base64.b64decode(record)).contains(_texts(rows.ids)[:, np.newaxis])


def counting_rows(rows: RowBatch, counted: set[tuple[str, int]]) -> Mask:
    """Which rows count: all, or the first of each group and class, of which `counted` holds those of other batches."""
    found = np.ones(len(rows), np.bool_)
    if rows.ids is not None and rows.labels is not None:
        for place, key in enumerate(zip(_texts(rows.ids).tolist(), rows.labels.tolist(), strict=True)):
            found[place] = key not in counted
            counted.add(key)
    return found


def group_column(file: DataFile, model: LoadedModel) -> str | None:
    """The column that the model was fitted with as --group, where the file has it; a note says where it does not."""
    name = model.layout.group
    if name is None or (file.is_table and name in read_names(file)):
        return name
    note(f"{file.name}: has no column {name!r}, by which the model was fitted: rows count as independent.")
    return None


def _texts(groups: Any) -> Array:
    """Groups as texts: the same whether a file has them as numbers or as texts."""
    return np.array([canonical(each) for each in np.asarray(groups, dtype=object).tolist()], dtype=object)
