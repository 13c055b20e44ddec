"""Limits that held-out negatives choose thresholds for: tolerances of all rows, those of segments, and others."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taufpl._types import Labels, RowIndices
from taufpl._warnings import warn_user
from taufpl.estimators._table import COARSE, Rounding, Scores, Table
from taufpl.estimators.strategies._base import Outcome, Plan
from taufpl.thresholding import (
    ArraySample,
    Evidence,
    NegativeSequence,
    Sample,
    SegmentDivision,
    SegmentThresholds,
    no_alarms,
    split_by_code,
)


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


# Scores that spread by this share of their size are constant but for rounding.
_CONSTANT = 8.0 * float(np.finfo(np.float64).eps)


class Limits(ABC):
    """How thresholds are chosen on scored rows, and positives counted above them; an entry a limit."""

    plan: Plan

    @abstractmethod
    def choose(self, table: Table, scores: Scores) -> tuple[Evidence, ...]:
        """Let the negatives of a table choose."""

    @abstractmethod
    def at_ranks(self, ranks: Sequence[int | None], table: Table, scores: Scores) -> list[float]:
        """Thresholds of another scorer on the same negatives, of the same ranks; infinite where there is no rank."""

    @abstractmethod
    def count(self, thresholds: Sequence[float], table: Table, scores: Scores) -> Labels:
        """How many positives lie above their threshold, and how many there are; rows without a limit come last."""

    @abstractmethod
    def outcome(
        self, models: tuple[Any, ...], evidence: tuple[Evidence, ...], counts: Any, rounding: Rounding
    ) -> Outcome:
        """The outcome of a fit, with the recall from such counts; None where it was not measured."""

    def calibrate(self, table: Table, scores: Scores, evidence: tuple[Evidence, ...] | None = None) -> Outcome:
        """Thresholds of a fitted scorer, from rows that it has not seen, without what copies among them void.

        Evidence is given where another rule than the guarantee has chosen.
        """
        warn_rounding(scores)
        chosen = self.choose(table, scores) if evidence is None else raised(evidence, scores)
        counts = self.count([each.threshold for each in chosen], table, scores)
        sequences = self.grown(table, scores) if evidence is None else None
        outcome = replace(self.outcome((), chosen, counts, scores.rounding), sequences=sequences)
        return outcome.without_guarantee(table.copies())

    @abstractmethod
    def grown(self, table: Table, scores: Scores) -> tuple[NegativeSequence, ...] | None:
        """The sequences of negatives with those of scored rows; None where thresholds are for one look."""


@dataclass(frozen=True, slots=True)
class CommonLimits(Limits):
    """One or more tolerances, each for all rows."""

    plan: Plan

    def choose(self, table: Table, scores: Scores) -> tuple[Evidence, ...]:
        """The thresholds of all tolerances, then those of others that somebody wants to hear of."""
        plan, grown = self.plan, self.grown(table, scores)
        if grown is None:
            chosen = raised(plan.guarantee.choose_all(scores.negative), scores)
        else:
            chosen = grown[0].choose_all(plan.taus, plan.insufficient)
            chosen = tuple(each.raised(scores.rounding.raised) for each in chosen)
        return chosen + raised(other_evidence(scores.negative, plan.guarantee), scores)

    def grown(self, table: Table, scores: Scores) -> tuple[NegativeSequence, ...] | None:
        plan = self.plan
        if plan.sequences is None:
            return None
        (sequence,) = plan.sequences or (NegativeSequence(plan.bound_delta),)
        return (sequence.add(scores.negative, plan.taus),)

    def at_ranks(self, ranks: Sequence[int | None], table: Table, scores: Scores) -> list[float]:
        return [math.inf if rank is None else scores.rounding.raised(scores.negative.at_rank(rank)) for rank in ranks]

    def count(self, thresholds: Sequence[float], table: Table, scores: Scores) -> Labels:
        positive = scores.positive
        if not positive.size:
            return np.zeros((2, len(thresholds)), dtype=np.int64)
        return np.array([[positive.n_above(each) for each in thresholds], [positive.size] * len(thresholds)])

    def outcome(
        self, models: tuple[Any, ...], evidence: tuple[Evidence, ...], counts: Any, rounding: Rounding
    ) -> Outcome:
        found, n = _with_recall(evidence, counts), len(self.plan.taus)
        keep_other_evidence(found[n:])
        return Outcome(models, found[:n], rounding)


@dataclass(frozen=True, slots=True)
class SegmentLimits(Limits):
    """A limit for every segment, or for several together."""

    plan: Plan
    division: SegmentDivision
    limit_of: RowIndices  # the limit of each segment's code, -1 where it has none

    @classmethod
    def divide(cls, plan: Plan, counts: Sequence[int]) -> SegmentLimits:
        """The limits that counts of negatives, one a segment, allow."""
        assert plan.segments is not None
        taus = plan.segments.taus
        division = plan.division or plan.segment_guarantee.divide(dict(zip(taus, counts, strict=True)), taus)
        if plan.segments_before is not None:
            division = replace(division, floor=plan.segments_before.floor_without(division.members))
        return cls(plan, division, division.places(list(taus)))

    def places(self, table: Any, rows: RowIndices) -> RowIndices:
        """The limit of each of these rows, -1 where it has none."""
        return self.limit_of[table.units.segments[rows]]

    def choose(self, table: Any, scores: Any) -> tuple[Evidence, ...]:
        division, grown = self.division, self.grown(table, scores)
        if grown is None:
            places, values = self.places(table, table.negative_rows), scores.negative.scores
            own = map(ArraySample, split_by_code(values, places, len(division.limits)))
            chosen = division.choose(values, places).evidence
            return tuple(each.raised(scores.rounding.raised, part) for each, part in zip(chosen, own, strict=True))
        found = tuple(
            sequence.choose_all((rule.tau,), rule.insufficient)[0]
            if not division.is_infinite(name)
            else no_alarms(sequence.n_negative, rule)
            for name, rule, sequence in zip(division.limits, division.rules, grown, strict=True)
        )
        return tuple(each.raised(scores.rounding.raised) for each in found)

    def grown(self, table: Any, scores: Any) -> tuple[NegativeSequence, ...] | None:
        plan, rules = self.plan, self.division.rules
        if plan.sequences is None:
            return None
        before = plan.sequences or tuple(NegativeSequence(rule.delta) for rule in rules)
        parts = split_by_code(scores.negative.scores, self.places(table, table.negative_rows), len(rules))
        return tuple(
            sequence.add(ArraySample(own), (rule.tau,))
            for sequence, own, rule in zip(before, parts, rules, strict=True)
        )

    def at_ranks(self, ranks: Sequence[int | None], table: Any, scores: Any) -> list[float]:
        places, values = self.places(table, table.negative_rows), scores.negative.scores
        own = [np.sort(each) for each in split_by_code(values, places, len(ranks))]
        return [
            math.inf if rank is None else scores.rounding.raised(float(each[rank - 1]))
            for each, rank in zip(own, ranks, strict=True)
        ]

    def count(self, thresholds: Sequence[float], table: Any, scores: Any) -> Labels:
        # Rows without a limit have the place -1, that of the strictest threshold.
        places = self.places(table, table.positive_rows)
        levels = np.array([*thresholds, max(*thresholds, self.division.floor)])
        above = scores.positive.scores > levels[places]
        own = places % levels.size
        return np.array([np.bincount(each, minlength=levels.size) for each in (own[above], own)])

    def outcome(
        self, models: tuple[Any, ...], evidence: tuple[Evidence, ...], counts: Any, rounding: Rounding
    ) -> Outcome:
        rows, division = self.plan.segments, self.division
        assert rows is not None
        own = _with_recall(evidence, None if counts is None else counts[:, :-1])
        segments = SegmentThresholds(
            division.limits, own, division.members, division.unproven, rows.column, rows.is_number, division.floor
        )
        overall = (segments.overall(self.plan.bound_delta),)
        whole = None if counts is None else np.sum(counts, axis=1, keepdims=True)
        return Outcome(models, _with_recall(overall, whole), rounding, segments)


def warn_rounding(scores: Scores) -> None:
    """Say where rounding is coarse beside the spread of the negatives, so that raising thresholds costs positives."""
    with np.errstate(invalid="ignore"):
        _, spread = scores.negative.moments()
    constant = _CONSTANT * max(map(abs, scores.negative.ends()))
    if constant < spread and COARSE * spread < scores.rounding.sums:
        warn_user(
            f"rounding may move scores by {scores.rounding.sums:.2g}, and negatives spread by {spread:.2g} only: the "
            "threshold is raised by that, which costs positives. Subtract the mean of columns that lie far from 0 "
            "beside their spread, and divide those of very different sizes by their deviation.",
            UserWarning,
        )


def raised(evidence: tuple[Evidence, ...], scores: Scores) -> tuple[Evidence, ...]:
    """Evidence at thresholds that rounding cannot lift one of these negatives above."""
    return tuple(each.raised(scores.rounding.raised, scores.negative) for each in evidence)


def _with_recall(evidence: tuple[Evidence, ...], counts: Any) -> tuple[Evidence, ...]:
    """Evidence with the recall from positives above each threshold and in all, where there are any."""
    if counts is None:
        return evidence
    return tuple(
        each.with_caught(n_caught, n) if n else each
        for each, n_caught, n in zip(evidence, *np.asarray(counts).tolist(), strict=True)
    )


def limits_of(plan: Plan, table: Any) -> Limits:
    """The limits for rows of which all negatives choose."""
    if plan.segments is None:
        return CommonLimits(plan)
    return SegmentLimits.divide(plan, negatives_by_segment(plan, table))


def negatives_by_segment(plan: Plan, table: Any) -> list[int]:
    """How many negatives of a table each segment has."""
    assert plan.segments is not None
    counts: list[int] = np.bincount(
        table.units.segments[table.negative_rows], minlength=len(plan.segments.taus)
    ).tolist()
    return counts
