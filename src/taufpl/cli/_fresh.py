"""Whether the rows of a file are new to a model, as far as the model's file can tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taufpl.cli._errors import note
from taufpl.cli._output import percent
from taufpl.cli._rows import Rows
from taufpl.cli._saved import Saved
from taufpl.cli._source import Source
from taufpl.persistence import Freshness, fingerprint


@dataclass(slots=True)
class Comparison:
    """Rows of a file beside those that the model has met, counted batch by batch."""

    source: Source
    saved: Saved
    n_rows: int = 0
    n_hits: int = 0

    def hits(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows equal one that the model has met; none where the model file keeps no record."""
        seen = self.saved.seen
        found = np.zeros(len(rows), np.bool_) if seen is None else seen.contains(rows.X)
        self.n_rows += len(rows)
        self.n_hits += int(found.sum())
        return found

    def judge_and_note(self) -> Freshness | None:
        """What the hits say, with a note unless all rows are new; None where the model file keeps no record."""
        found = self.judge()
        name = self.source.name
        if found is None:
            note(f"{name}: the model file keeps no record of its rows; whether these are new cannot be told.")
        elif not found.known:
            note(
                f"{name}: whether these rows are new cannot be told: rows of this table repeat by chance, as "
                f"{percent(found.repeating)} of the training rows do."
            )
        elif found.n_seen:
            note(f"{name}: {_seen(found)}.")
        return found

    def judge(self) -> Freshness | None:
        """What the hits say; None where the model file keeps no record."""
        seen = self.saved.seen
        return None if seen is None else seen.judge(self.n_hits, self.n_rows)


def _seen(found: Freshness) -> str:
    if found.n_seen == found.n_rows:
        return f"all {found.n_rows:,} rows have been seen by the model"
    count = f"{found.n_seen:,} of {found.n_rows:,} rows have been seen by the model"
    if found.separable:
        return f"{count} and are left out"
    return f"{count}, more than chance explains; as rows of this table repeat, which are new cannot be told"


def seen_before(n_seen: int | None) -> str:
    """A number of rows that the model has seen, in words."""
    return "cannot be told" if n_seen is None else f"{n_seen:,} rows"


def left_out(found: Freshness | None) -> bool:
    """Whether the rows with a hit are seen ones, and the others fresh."""
    return found is not None and bool(found.n_seen) and found.separable


def is_training_file(saved: Saved, rows: Rows) -> bool:
    """Whether these are the very rows of the fit, in their order: told for tables in which rows repeat, too."""
    if rows.labels is None:
        return False
    labels = np.asarray(saved.head.classes_)[rows.labels]
    return bool(saved.header.training.get("fingerprint") == fingerprint(rows.X, labels))


def fresh_rows(source: Source, saved: Saved, rows: Rows) -> tuple[Rows, int | None]:
    """The rows that the model has not seen, and how many it has (None: cannot be told).

    Raises
    ------
    ValueError
        The model was fitted on all of them in this order, or has seen some, and nobody can tell which.
    """
    if is_training_file(saved, rows):
        raise ValueError(
            f"{source.name}: the model was fitted on these very rows; a guarantee takes negatives it has never seen."
        )
    comparison = Comparison(source, saved)
    hit = comparison.hits(rows)
    found = comparison.judge()
    if found is not None and found.n_seen and not found.separable:
        raise ValueError(f"{source.name}: {_seen(found)}. Give rows that came after the model was made.")
    comparison.judge_and_note()
    return rows.take(~hit) if left_out(found) else rows, None if found is None else found.n_seen
