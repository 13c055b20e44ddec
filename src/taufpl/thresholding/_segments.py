"""Limits by segment: a threshold for each, chosen so that all tolerances hold together with probability 1 - delta.

Given the scorer and the labels of the negatives that it has not seen, scores of different segments are independent. The
order statistics of G disjoint sets of them are independent too, so that all hold together with probability 1 - delta if
each holds with probability (1 - delta)^(1/G)::

    delta_g = 1 - (1 - delta) ^ (1 / G)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from taufpl._checks import Scores, check_scores, check_tau, near_or_all
from taufpl._choices import OTHERS as OTHERS
from taufpl._records import set_named_state, with_named_state
from taufpl._types import Array, Mask, RowIndices, Vector
from taufpl.thresholding._evidence import Evidence
from taufpl.thresholding._levels import level_codes, level_text, shared_delta
from taufpl.thresholding._order import USUAL_DELTA, negatives_needed
from taufpl.thresholding._rules import Insufficient, OrderStatistic, no_alarms
from taufpl.thresholding._sample import ArraySample
from taufpl.thresholding._sequence import sequence_negatives_needed

# Names in a message; of more, the number is told.
_MOST_NAMES = 5


@with_named_state
@dataclass(frozen=True, slots=True)
class SegmentThresholds:
    """One threshold a segment, with the evidence of each limit.

    Attributes
    ----------
    limits : tuple of str
        Names of the limits: segments, and "others" for those that share one.
    evidence : tuple of Evidence
        One a limit, with its own tolerance, delta, threshold, counts and recall.
    members : dict
        Every segment with a proven limit, and the name of that limit.
    unproven : tuple of str
        Segments with too few negatives for a proof, even together. They get the strictest threshold.
    column : str, int or None
        Where labels of rows come from: a column of X by name or position. None: they are given with the rows.
    is_number : bool
        Whether labels are numbers; their texts are those of the numbers, without decimals where they are whole.
    floor : float
        The highest threshold that unproven segments had while they had limits: theirs is never lower again.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.thresholding import SegmentOrderStatistics
    >>> labels = np.repeat(["EU", "US"], 1000)
    >>> chosen = SegmentOrderStatistics({"EU": 0.05, "US": 0.1}).choose(np.tile(np.arange(1000.0), 2), labels)
    >>> chosen.by_segment
    {'EU': 963.0, 'US': 918.0}
    >>> chosen.thresholds(["US", "EU", "JP"])
    array([918., 963., 963.])
    """

    limits: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    members: dict[str, str]
    unproven: tuple[str, ...] = ()
    column: str | int | None = None
    is_number: bool = False
    floor: float = -math.inf  # models of older files do not say

    def _set_state(self, state: dict[str, Any]) -> None:
        set_named_state(self, state)
        self.__post_init__()

    def __post_init__(self) -> None:
        # A file may say anything.
        known = len(self.limits) == len(self.evidence) == len(set(self.limits)) > 0
        if not known or not {*self.members.values()} <= {*self.limits}:
            raise ValueError("limits must be different names with one evidence each, and members must name limits.")
        if math.isnan(self.floor) or any(math.isnan(each.threshold) for each in self.evidence):
            raise ValueError("a threshold of a segment must be a number, got NaN.")

    @property
    def strictest(self) -> float:
        """The highest threshold: that of segments which were never seen, and of those that are not proven."""
        return max(self.floor, *(each.threshold for each in self.evidence))

    @property
    def by_segment(self) -> dict[str, float]:
        """The threshold of every segment with a proven limit."""
        thresholds = {name: each.threshold for name, each in zip(self.limits, self.evidence, strict=True)}
        return {segment: thresholds[limit] for segment, limit in self.members.items()}

    def thresholds(self, labels: Any) -> Vector:
        """The threshold of each row, from the labels of its segment; the strictest for segments without a limit."""
        names, codes, _ = level_codes(labels)
        known, strictest = self.by_segment, self.strictest
        return np.array([known.get(name, strictest) for name in names], dtype=np.float64)[codes]

    def is_known(self, labels: Any) -> Mask:
        """Whether the segment of each row has a proven limit."""
        names, codes, _ = level_codes(labels)
        return np.array([name in self.members for name in names], dtype=bool)[codes]

    def with_evidence(self, change: Callable[[Evidence], Evidence]) -> SegmentThresholds:
        """The same segments, with the evidence of every limit changed."""
        return replace(self, evidence=tuple(map(change, self.evidence)))

    def floor_without(self, members: Mapping[str, str]) -> float:
        """The floor of later thresholds, with limits for these members: the highest that one of the others had."""
        lost = [threshold for name, threshold in self.by_segment.items() if name not in members]
        if any(name not in members for name in self.unproven):
            lost.append(self.floor)
        return max(lost, default=-math.inf)

    def division(self, insufficient: Insufficient, names: Sequence[str]) -> SegmentDivision:
        """The same limits for further negatives; those of these segments that have none are not proven."""
        rules = tuple(OrderStatistic(each.tau, each.delta or USUAL_DELTA, insufficient) for each in self.evidence)
        new = [name for name in names if name not in self.members and name not in self.unproven]
        return SegmentDivision(self.limits, rules, self.members, (*self.unproven, *new))

    def overall(self, delta: float) -> Evidence:
        """One record for all rows: the loosest tolerance, the strictest threshold, counts of all limits together.

        It is guaranteed where all limits are and every segment has one. It tells no recall.
        """
        each = self.evidence
        n, n_false = sum(one.n_negative for one in each), sum(one.n_false_positive for one in each)
        caveats = tuple(dict.fromkeys(caveat for one in each for caveat in one.caveats))
        if self.unproven:
            caveats += (f"too few negatives for a proof in the segments {shown_names(self.unproven)}",)
        return Evidence(
            threshold=self.strictest,
            tau=max(one.tau for one in each),
            delta=delta,
            n_negative=n,
            n_false_positive=n_false,
            fpr_estimate=n_false / n if n else 0.0,
            fpr_upper_bound=max(one.fpr_upper_bound for one in each),
            rank=None,
            guaranteed=all(one.guaranteed for one in each) and not self.unproven,
            caveats=caveats,
        )


@dataclass(frozen=True, slots=True)
class SegmentDivision:
    """Which segments have a limit of their own, which share one, and which have none, by counts of negatives alone.

    Attributes
    ----------
    limits, members, unproven
        As in :class:`SegmentThresholds`.
    rules : tuple of OrderStatistic
        One a limit.
    floor : float
        As in :class:`SegmentThresholds`.
    """

    limits: tuple[str, ...]
    rules: tuple[OrderStatistic, ...]
    members: dict[str, str]
    unproven: tuple[str, ...]
    floor: float = -math.inf

    def places(self, names: Sequence[str]) -> RowIndices:
        """Which limit each of these segments has; -1 where it has none."""
        place = {name: i for i, name in enumerate(self.limits)}
        return np.array([place[self.members[name]] if name in self.members else -1 for name in names], dtype=np.intp)

    def choose(self, negative_scores: Scores, places: RowIndices) -> SegmentThresholds:
        """Thresholds from scores of negatives and the place of each one's limit."""
        chosen = []
        samples = map(ArraySample, split_by_code(negative_scores, places, len(self.limits)))
        for name, rule, own in zip(self.limits, self.rules, samples, strict=True):
            chosen.append(no_alarms(own.size, rule) if self.is_infinite(name) else rule.choose(own))
        return SegmentThresholds(self.limits, tuple(chosen), self.members, self.unproven, floor=self.floor)

    def is_infinite(self, limit: str) -> bool:
        """Whether a limit is that of small segments which get no alarms."""
        return limit == OTHERS and self.rules[-1].insufficient == "infinite"


@dataclass(frozen=True, slots=True)
class SegmentOrderStatistics:
    """The thresholds of segments that keep all their tolerances together with probability 1 - delta.

    Each limit is an :class:`OrderStatistic` of the negatives of its segment, at ``shared_delta(delta, G)``. The more
    limits there are, the more negatives each of them needs: the most segments that have enough, each by itself, get
    limits of their own.

    The other segments share one, "others", at the strictest of their tolerances, where they have enough together and
    no segment loses its own limit by that: it then holds for all of them together, as a mixture. Otherwise they are not
    proven, nor are segments whose tolerance is too strict for what the others have. The division depends on counts of
    negatives alone, never on scores.

    Parameters
    ----------
    tau : float or mapping
        Tolerance of every segment, or of each by its name; "others" is that of all segments that are not named.
    delta : float, default=0.05
        Probability with which one or more of the limits may be exceeded.
    insufficient : {"raise", "infinite"}, default="raise"
        "infinite" gives segments with too few negatives the threshold +inf, which predicts nobody and keeps the
        guarantee, in place of a limit together. "raise" refuses where no segment, and not all of them together, has
        enough.
    every_look : bool, default=False
        Whether `divide` makes limits for thresholds that hold at every look (:class:`NegativeSequence`), which need
        more negatives.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.thresholding import SegmentOrderStatistics
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat(["EU", "US", "FO", "GL"], [2000, 1000, 250, 250])
    >>> chosen = SegmentOrderStatistics(tau=0.01).choose(rng.normal(size=3500), labels)
    >>> chosen.limits, chosen.members["FO"]
    (('EU', 'US', 'others'), 'others')
    >>> [(each.n_negative, round(each.delta, 4)) for each in chosen.evidence]
    [(2000, 0.017), (1000, 0.017), (500, 0.017)]
    """

    tau: float | Mapping[Any, float]
    delta: float = USUAL_DELTA
    insufficient: Insufficient = "raise"
    every_look: bool = False

    def choose(self, negative_scores: Any, labels: Any) -> SegmentThresholds:
        """Choose the thresholds from scores of negatives that the scorer has not seen, and their segments."""
        scores = check_scores("negative_scores", negative_scores)
        names, codes, is_number = level_codes(labels, "labels", scores.size)
        counts = dict(zip(names, np.bincount(codes).tolist(), strict=True))
        division = self.divide(counts, segment_tolerances(self.tau, names))
        return replace(division.choose(scores, division.places(names)[codes]), is_number=is_number)

    def divide(self, counts: Mapping[str, int], taus: Mapping[str, float]) -> SegmentDivision:
        """Which segments get limits, given their negatives and tolerances; a ValueError where none can be proven."""
        # More limits need more negatives each: the last number that as many segments have enough for is the largest.
        numbers = range(1, len(taus) + 1)
        n_own = bisect_left(numbers, True, key=lambda n: len(self._able(counts, taus, shared_delta(self.delta, n))) < n)
        delta, pool = shared_delta(self.delta, max(1, n_own)), list[str]()
        own = self._able(counts, taus, delta)[:n_own]
        if self.insufficient != "infinite":
            with_pool = shared_delta(self.delta, n_own + 1)
            # The limit of the others must not cost a segment its own.
            if {*own} <= {*self._able(counts, taus, with_pool)}:
                pool = self._pool(counts, taus, own, with_pool)
            if not own and not pool:
                raise ValueError(self._shortage(counts, taus))
        return self._division(sorted(own), pool, taus, with_pool if pool else delta)

    def _pool(
        self, counts: Mapping[str, int], taus: Mapping[str, float], own: Sequence[str], delta: float
    ) -> list[str]:
        """The other segments that share a limit: all with negatives, but for those too strict for the others."""
        taken = {*own}
        rest = [name for name in taus if counts[name] and name not in taken]
        for strictest in sorted({taus[name] for name in rest}):
            members = [name for name in rest if taus[name] >= strictest]
            if sum(counts[name] for name in members) >= self._needed(strictest, delta):
                return members
        return []

    def _able(self, counts: Mapping[str, int], taus: Mapping[str, float], delta: float) -> list[str]:
        """Segments with enough negatives for a limit of their own; those with the most to spare come first."""
        needed = {tau: self._needed(tau, delta) for tau in {*taus.values()}}
        spare = {name: counts[name] / needed[tau] for name, tau in taus.items() if counts[name] >= needed[tau]}
        return sorted(spare, key=lambda name: (-spare[name], name))

    def _needed(self, tau: float, delta: float) -> int:
        return sequence_negatives_needed(tau, delta) if self.every_look else negatives_needed(tau, delta)

    def _shortage(self, counts: Mapping[str, int], taus: Mapping[str, float]) -> str:
        loosest = max(taus.values())
        return (
            f"no segment has enough negatives for a proof, and all together have too few: tau={loosest:g} at "
            f"delta={self.delta:g} needs at least {self._needed(loosest, self.delta):,} negatives that the scorer "
            f"has not seen, got {sum(counts.values()):,} in {len(taus)} segments. Collect more negatives, raise tau "
            "or delta, or set insufficient='infinite' to predict nobody positive."
        )

    def _division(self, own: list[str], pool: list[str], taus: Mapping[str, float], delta: float) -> SegmentDivision:
        taken = {*own, *pool}
        rest = [name for name in taus if name not in taken]
        if self.insufficient == "infinite":
            pool, rest = rest, []
        members = {name: name for name in own} | dict.fromkeys(pool, OTHERS)
        tolerances = {name: taus[name] for name in own}
        if pool:
            tolerances[OTHERS] = min(taus[name] for name in pool)
        rules = tuple(OrderStatistic(tau, delta, self.insufficient) for tau in tolerances.values())
        return SegmentDivision(tuple(tolerances), rules, members, tuple(rest))


def split_by_code(values: Array, codes: RowIndices, n_codes: int) -> list[Array]:
    """The values of each code from 0, in the order given; those of -1 are left out."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(n_codes + 1))
    return [values[order[start:end]] for start, end in pairwise(ends)]


def segment_tolerances(tau: float | Mapping[Any, float], names: Sequence[str]) -> dict[str, float]:
    """The tolerance of each of these segments; a ValueError where one has none, and where there is no such segment."""
    if OTHERS in names:
        raise ValueError(f"no segment may be called {OTHERS!r}, the name of the limit of small segments: rename it.")
    given = named_tolerances(tau)
    rest = given.pop(OTHERS, None)
    for name in given.keys() - set(names):
        raise ValueError(f"tau names the segment {name!r}, which no row has.{near_or_all(name, names, 'segments')}")
    without = [name for name in names if name not in given]
    if without and rest is None:
        raise ValueError(
            f"tau must have a tolerance for every segment, or one for {OTHERS!r}; it has none for "
            f"{shown_names(without)}."
        )
    return {name: given.get(name, rest) for name in names}  # type: ignore[misc]


def named_tolerances(tau: float | Mapping[Any, float]) -> dict[str, float]:
    """Tolerances by canonical name; one for all segments is that of the others."""
    if not isinstance(tau, Mapping):
        return {OTHERS: check_tau(tau)}
    given = {level_text(key): check_tau(each, f"tau[{key!r}]") for key, each in tau.items()}
    if not given:
        raise ValueError("tau must be a tolerance, or name that of a segment at least; got none.")
    if len(given) < len(tau):
        raise ValueError(f"tau must have one tolerance a segment, got {list(tau)}: 1, 1.0 and '1' are the same name.")
    return given


def tolerance_of(segment: str, named: Mapping[str, float]) -> float:
    """The tolerance of a segment: its own, that of the others, or the strictest where neither is named."""
    return named.get(segment, named.get(OTHERS, min(named.values())))


def shown_names(names: Sequence[str]) -> str:
    """Names for a message: all of a few, the first five of many."""
    shown = ", ".join(map(repr, names[:_MOST_NAMES]))
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES:,} more"
