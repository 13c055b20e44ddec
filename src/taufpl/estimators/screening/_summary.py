"""What a fitted screen says of itself: what it promises, what it finds, and what it is made of."""

from __future__ import annotations

from math import isnan
from typing import Any

from taufpl.estimators.screening._leaderboard import Standing, ranked
from taufpl.thresholding import Evidence, SegmentThresholds, shown_names


def summary_of(screen: Any) -> str:
    """The promise and the recall for each tolerance, then the leaderboard, as lines of text."""
    if screen.segments_ is not None:
        lines = _segment_lines(screen.segments_, screen.strategy_)
    else:
        evidence = screen.evidence_ if isinstance(screen.evidence_, tuple) else (screen.evidence_,)
        lines = [line for each in evidence for line in (_promise(each, screen.strategy_), _recall(each))]
    standings = ranked(screen.estimator_.standings_)
    width = max(len(each.candidate) for each in standings)
    lines.append(f"{'candidate':{width}}  {f'recall at {100 * min(screen._taus()):.4g} % FPR':20}  weight  seconds")
    return "\n".join(f"  {line}" for line in [*lines, *(_row(each, width) for each in standings)])


def _segment_lines(segments: SegmentThresholds, strategy: str) -> list[str]:
    """The promise and the recall of every limit, and which segments have none."""
    lines = [
        f"{name}: {_promise(each, strategy)}; {_recall(each)}"
        for name, each in zip(segments.limits, segments.evidence, strict=True)
    ]
    if segments.unproven:
        lines.append(f"not proven, with the strictest threshold: {shown_names(segments.unproven)}")
    return lines


def _promise(evidence: Evidence, strategy: str) -> str:
    if evidence.guaranteed and evidence.delta is not None:
        told = f"guaranteed with {100 * (1 - evidence.delta):.4g} % confidence by {evidence.n_negative:,} negatives"
    else:
        told = f"aimed at by {strategy!r}, not proven"
    return f"false alarms at most {100 * evidence.tau:.4g} %: {told}"


def _recall(evidence: Evidence) -> str:
    interval = evidence.tpr_interval
    if interval is None or evidence.tpr_estimate is None:
        return "recall not measured"
    low, high = (100 * each for each in interval)
    return f"recall {100 * evidence.tpr_estimate:.0f} % ({low:.0f} to {high:.0f} %)"


def _row(standing: Standing, width: int) -> str:
    share, low, high = (100 * each for each in (standing.recall, standing.recall_low, standing.recall_high))
    weight = "" if standing.is_stack else f"{standing.weight:.2f}"
    recall = "not measured".ljust(20) if isnan(share) else f"{share:3.0f} % ({low:3.0f} to {high:3.0f} %)"
    return f"{standing.candidate:{width}}  {recall:20}  {weight:>6}  {standing.seconds:7.1f}"
