"""Evidence at tolerances other than that of a fit: what a screen would find under half of it, or its double.

The same held-out negatives choose the threshold of each by itself, and the same positives tell its recall. None of it
is kept in the estimator: it is for whoever asks while a fit runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from taufpl.thresholding import Evidence, Sample


@dataclass(slots=True)
class OtherTolerances:
    """Tolerances to look at, and the evidence of the last fit at each; none where its threshold was not by "np"."""

    taus: tuple[float, ...]
    evidence: tuple[Evidence, ...] = ()


_asked: ContextVar[OtherTolerances | None] = ContextVar("other_tolerances", default=None)


@contextmanager
def at_other_tolerances(taus: Sequence[float]) -> Iterator[OtherTolerances]:
    """Let fits in this context tell the evidence at these tolerances, too."""
    asked = OtherTolerances(tuple(taus))
    token = _asked.set(asked)
    try:
        yield asked
    finally:
        _asked.reset(token)


def other_evidence(negative: Sample, rule: Any) -> tuple[Evidence, ...]:
    """Evidence at the tolerances that are asked for, each chosen alone by the rule of a fit.

    Thresholds are infinite where there are too few negatives.
    """
    asked = _asked.get()
    if asked is None:
        return ()
    rules = (replace(rule, taus=(tau,), insufficient="infinite") for tau in asked.taus)
    return tuple(each for alone in rules for each in alone.choose_all(negative))


def keep_other_evidence(evidence: tuple[Evidence, ...]) -> None:
    """Hand the evidence to whoever asked for it."""
    asked = _asked.get()
    if asked is not None:
        asked.evidence = evidence
