"""The history of a threshold: when it was chosen, on how many negatives, and what of delta that has spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from taufpl._records import read_record, set_named_state, with_named_state

FIT, RECALIBRATE, RESTART = "fit", "recalibrate", "restart"
_EVENTS = (FIT, RECALIBRATE, RESTART)


@with_named_state
@dataclass(frozen=True, slots=True)
class ThresholdRecord:
    """One entry of `threshold_history_`: a threshold that was chosen.

    Attributes
    ----------
    event : {"fit", "recalibrate", "restart"}
        What chose it; "restart" begins a new sequence of negatives (``looks="any"``).
    at : str or None
        When, in UTC, in ISO 8601; None where that is not known any more.
    n_negative : int
        How many negatives it rests on.
    threshold_before : float or None
        The threshold until then; None for a fit, and where it is not known any more.
    threshold : float
        The threshold that was chosen; with several tolerances or segments that of the strictest.
    delta_spent : float
        Probability of failure that this threshold adds to those before it: 0 where nothing is promised, and where it
        holds together with the earlier thresholds of its sequence.
    source : str or None
        Where the rows came from, such as the name of a file.

    Examples
    --------
    >>> from taufpl.thresholding import ThresholdRecord
    >>> record = ThresholdRecord.now("fit", 969, None, 0.83, delta_spent=0.05, source="history.csv")
    >>> record.event, record.at[-6:]
    ('fit', '+00:00')
    """

    event: str
    at: str | None
    n_negative: int
    threshold_before: float | None
    threshold: float
    delta_spent: float
    source: str | None = None

    @classmethod
    def now(
        cls,
        event: str,
        n_negative: int,
        threshold_before: float | None,
        threshold: float,
        *,
        delta_spent: float,
        source: str | None = None,
    ) -> ThresholdRecord:
        """A record of what has just happened."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        # Bytes of a file's name that are no text could not be written into a file.
        source = None if source is None else source.encode(errors="replace").decode()
        return cls(event, at, n_negative, threshold_before, threshold, delta_spent, source)

    def _set_state(self, state: dict[str, Any]) -> None:
        """The state out of a model file, which somebody else may have written."""
        set_named_state(self, state)
        read_record(ThresholdRecord, state, "a record of its history")
        if self.event not in _EVENTS or math.isnan(self.threshold) or not 0 <= self.delta_spent <= 1:
            raise ValueError(f"a record of its history makes no sense: {self}")
        if self.at is not None:
            datetime.fromisoformat(self.at)
