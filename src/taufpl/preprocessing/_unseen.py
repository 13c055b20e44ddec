"""Values that training never saw: unknown levels, missing values where none were, numbers outside the range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.special import betainccinv

from taufpl._row_hashes import is_missing
from taufpl._types import Mask
from taufpl._warnings import warn_user
from taufpl.exceptions import UnseenValuesWarning
from taufpl.operators import ignoring
from taufpl.preprocessing._table_columns import column_at
from taufpl.thresholding import fpr_upper_bound, share_lower_bound

# Probability of a remark on missing values or ranges where new rows are drawn as the training rows were, and how many
# bounds of a column may fail: one of the training share and one of the new share, for either kind.
_ERROR = 0.001
_BOUNDS = 4
_MOST_EXAMPLES = 3
_MOST_COLUMNS = 5

# For fits, which score rows that the scorer has not seen: new levels among them are part of what they measure.
without_unseen_warnings = ignoring(UnseenValuesWarning)


# What has been warned of in this call; None outside of one.
_told: ContextVar[list[str] | None] = ContextVar("told", default=None)


@contextmanager
def one_unseen_warning() -> Iterator[None]:
    """Let the first encoder warn of unknown levels: others of the same call would say nearly the same."""
    token = _told.set([])
    try:
        yield
    finally:
        _told.reset(token)


def warn_unseen(X: Any, is_unknown: Mask, names: Sequence[str]) -> None:
    """Warn of unknown levels, with the rows of each column that hold one; a missing value is not a level."""
    found, X = [], X if hasattr(X, "shape") else np.asarray(X, dtype=object)
    for place in np.flatnonzero(is_unknown.any(axis=0)).tolist():
        levels = Counter(np.asarray(column_at(X, place), dtype=object)[is_unknown[:, place]].tolist())
        common = [(level, count) for level, count in levels.most_common() if not is_missing(level)]
        if common:
            found.append((sum(count for _, count in common), names[place], common[0][0]))
    told = _told.get()
    if not found or told:
        return
    if told is not None:
        told.extend(name for _, name, _ in found)
    found.sort(key=lambda each: -each[0])
    shown = [
        f"{name!r} in {count:,} of {len(is_unknown):,} rows (such as {level!r})"
        for count, name, level in found[:_MOST_COLUMNS]
    ]
    more = f" and {len(found) - _MOST_COLUMNS:,} more columns" if len(found) > _MOST_COLUMNS else ""
    warn_user(
        f"columns hold levels that training never saw: {', '.join(shown)}{more}. They count as the average over the "
        "training rows: check spelling, upper and lower case, and where the rows come from.",
        UnseenValuesWarning,
    )


@dataclass(frozen=True, slots=True)
class TrainingColumn:
    """Values of one column in the training rows.

    Attributes
    ----------
    name : str
    n_rows : int
    n_missing : int
    low, high : float or None
        Range of a number; None of other columns.
    levels : frozenset or None
        All levels of a category, rare ones too; None of other columns.
    """

    name: str
    n_rows: int
    n_missing: int = 0
    low: float | None = None
    high: float | None = None
    levels: frozenset[Any] | None = None


@dataclass(slots=True)
class ColumnCounts:
    """Counts of unseen values of one column in new rows.

    Attributes
    ----------
    n_unknown : int
        Rows with a level that no training row had.
    n_missing : int
    n_below, n_above : int
        Rows with a number outside the range of the training rows.
    examples : list
        The first few unknown levels.
    """

    n_unknown: int = 0
    n_missing: int = 0
    n_below: int = 0
    n_above: int = 0
    examples: list[Any] = field(default_factory=list)

    @property
    def n_outside(self) -> int:
        """Rows with a number outside the range."""
        return self.n_below + self.n_above

    def any(self) -> bool:
        """Whether any row was counted."""
        return bool(self.n_unknown or self.n_missing or self.n_outside)


class UnseenCounter:
    """Counts, over batches of new rows, the values of each column that the training rows never had.

    Everything is counted; what chance explains is not remarked on. With m new rows a column is remarkable for

    - an unknown level, in one row or more;
    - missing values, where their share is certainly above twice the training share (or, where that is less, half-way
      from it to all rows): a lower bound of the new share above that of an upper bound of the training share;
    - numbers outside the range [min, max] of n training values, where their share is certainly above what the range of
      n values leaves outside. That share of a continuous number is Beta(2, n - 1) distributed, with mean 2 / (n + 1),
      and less where values repeat.

    Bounds are Clopper and Pearson's, and quantiles of the Beta distribution. Their error probabilities add up to .001
    over all columns: of 1,000 files with rows that are drawn as the training rows were, at most one is remarked on for
    missing values or numbers.

    Parameters
    ----------
    columns : iterable of TrainingColumn

    Attributes
    ----------
    n_rows : int
        New rows so far.
    counts : dict of ColumnCounts, by name of column

    Examples
    --------
    >>> import pandas as pd
    >>> from taufpl.preprocessing import UnseenCounter
    >>> training = pd.DataFrame({"city": ["bonn", "oslo"] * 500, "age": range(1000)})
    >>> counter = UnseenCounter.from_rows(training)
    >>> counter.update(pd.DataFrame({"city": ["oslo", "paris"] * 50, "age": range(950, 1050)}))
    >>> for sentence in counter.remarks():
    ...     print(sentence)
    city: 50 of 100 rows (50%) have a level that training never saw, such as 'paris'
    age: 50 of 100 rows (50%) lie outside the training range, 0 to 999
    """

    def __init__(self, columns: Iterable[TrainingColumn]) -> None:
        self.columns = tuple(columns)
        self.n_rows = 0
        self.counts = {column.name: ColumnCounts() for column in self.columns}
        self._error = _ERROR / (_BOUNDS * max(1, len(self.columns)))

    @classmethod
    def from_rows(cls, X: Any) -> UnseenCounter:
        """A counter that knows the rows of a training frame.

        Parameters
        ----------
        X : pandas dataframe
            Numbers and truth values have a range, dates neither range nor levels, as later rows have later dates, and
            columns of any other type levels.
        """
        return cls(_training_column(str(name), X[name]) for name in X.columns)

    def update(self, X: Any) -> None:
        """Count new rows.

        Parameters
        ----------
        X : pandas dataframe
            With all the columns that the counter knows.
        """
        self.n_rows += X.shape[0]
        numbers = [column for column in self.columns if column.low is not None]
        if numbers:
            self._count_numbers(numbers, X[[column.name for column in numbers]])
        for column in self.columns:
            if column.low is None:
                self._count_levels(column, X[column.name])

    def _count_numbers(self, columns: list[TrainingColumn], part: Any) -> None:
        """All columns at once: rows lie one after the other."""
        values = part.to_numpy(dtype=np.float64, na_value=np.nan)
        low, high = (np.array([getattr(column, end) for column in columns]) for end in ("low", "high"))
        totals = (np.count_nonzero(found, axis=0) for found in (np.isnan(values), values < low, values > high))
        for column, n_missing, n_below, n_above in zip(columns, *totals, strict=True):
            counts = self.counts[column.name]
            counts.n_missing += int(n_missing)
            counts.n_below += int(n_below)
            counts.n_above += int(n_above)

    def _count_levels(self, column: TrainingColumn, values: Any) -> None:
        counts, missing = self.counts[column.name], values.isna().to_numpy()
        counts.n_missing += int(missing.sum())
        if column.levels is not None:
            unknown = ~(values.isin(column.levels).to_numpy() | missing)
            counts.n_unknown += int(unknown.sum())
            if unknown.any() and len(counts.examples) < _MOST_EXAMPLES:
                examples = dict.fromkeys([*counts.examples, *values[unknown].unique().tolist()])
                counts.examples = list(examples)[:_MOST_EXAMPLES]

    def remarks(self) -> list[str]:
        """Remarks on unseen values, one sentence for a column and kind of value, without a full stop."""
        return [sentence for column in self.columns for _, sentence in self._remarks(column)]

    def record(self) -> dict[str, Any]:
        """All counts as plain values; columns without any are left out."""
        columns = {}
        for column in self.columns:
            if self.counts[column.name].any():
                found = asdict(self.counts[column.name])
                found["unknown_levels"] = [str(each) for each in found.pop("examples")]
                columns[column.name] = {**found, "remarkable": [kind for kind, _ in self._remarks(column)]}
        return {"n_rows": self.n_rows, "columns": columns}

    def _remarks(self, column: TrainingColumn) -> list[tuple[str, str]]:
        """Kinds and sentences."""
        counts, found = self.counts[column.name], []
        if counts.n_unknown:
            such = ", ".join(repr(each) for each in counts.examples)
            found.append(("unknown", f"have a level that training never saw, such as {such}", counts.n_unknown))
        if self._exceeds(counts.n_missing, self.n_rows, self._ordinary_missing(column)):
            before = f"{column.n_missing:,} of {column.n_rows:,} training rows did"
            text = f"lack a value; {before if column.n_missing else 'no training row did'}"
            found.append(("missing", text, counts.n_missing))
        if self._exceeds(counts.n_outside, self.n_rows - counts.n_missing, self._ordinary_outside(column)):
            text = f"lie outside the training range, {column.low:.6g} to {column.high:.6g}"
            found.append(("outside", text, counts.n_outside))
        return [
            (kind, f"{column.name}: {count:,} of {self.n_rows:,} rows ({100.0 * count / self.n_rows:.3g}%) {text}")
            for kind, text, count in found
        ]

    def _exceeds(self, count: int, n_rows: int, ordinary: float) -> bool:
        """Whether the lower bound of a share is above an ordinary share."""
        return count > ordinary * n_rows and share_lower_bound(count, n_rows, self._error) > ordinary

    def _ordinary_missing(self, column: TrainingColumn) -> float:
        share = float(fpr_upper_bound(column.n_missing, column.n_rows, self._error))
        return min(2.0 * share, (1.0 + share) / 2.0)

    def _ordinary_outside(self, column: TrainingColumn) -> float:
        n_values = column.n_rows - column.n_missing
        return float(betainccinv(2.0, n_values - 1.0, self._error)) if n_values > 1 else 1.0


def _training_column(name: str, values: Any) -> TrainingColumn:
    n_rows, n_missing = len(values), int(values.isna().sum())
    if values.dtype.kind in "biuf":
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        ends = (float(np.nanmin(numbers)), float(np.nanmax(numbers))) if n_missing < n_rows else (None, None)
        return TrainingColumn(name, n_rows, n_missing, *ends)
    if values.dtype.kind == "M":
        return TrainingColumn(name, n_rows, n_missing)
    return TrainingColumn(name, n_rows, n_missing, levels=frozenset(values.dropna().unique().tolist()))
