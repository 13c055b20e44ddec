"""What a monitor has found: a document, and tables."""

from __future__ import annotations

import math
from typing import Any

from taufpl.cli._by_level import counted_levels, in_words, shortened
from taufpl.cli._monitor_state import Watch
from taufpl.cli._output import confidence, percent, print_result, print_rows
from taufpl.monitoring import FPRMonitor, SegmentMonitor

_VERDICTS = {
    "within": "within: the upper bound on FPR is within the tolerance",
    "left": "LEFT: FPR has provably been above the tolerance",
    "open": "open: neither is proven",
}


def whole_of(watch: Watch) -> FPRMonitor:
    """The monitor of all negatives."""
    return watch.whole if isinstance(watch, SegmentMonitor) else watch


def raised(monitor: FPRMonitor) -> bool:
    """Whether either alarm stands."""
    return monitor.alarm or monitor.change


def watch_record(watch: Watch, by: str | None) -> dict[str, Any]:
    """What a monitor has found, for a document; by level, alarm and change are those of the whole or of a level."""
    found = _record(whole_of(watch))
    if isinstance(watch, FPRMonitor):
        return found
    levels = [{"level": name, **_record(each)} for name, each in watch.monitors.items()]
    return {**found, "alarm": watch.alarm, "change": watch.change, "by": {"column": by, "levels": levels}}


def _record(watch: FPRMonitor) -> dict[str, Any]:
    names = (
        "alarm", "change", "verdict", "n_false_alarms", "fpr", "fpr_lower_bound", "fpr_upper_bound", "evidence",
        "change_evidence", "run_length", "tau", "delta",
    )  # fmt: skip
    return {
        **{name: getattr(watch, name) for name in names},
        "alarm_at_negative": watch.alarm_at,
        "change_at_negative": watch.change_at,
        "n_negative": watch.n_seen,
        "evidence_needed": 1.0 / watch.delta,
    }


def print_watch(document: dict[str, Any], watch: Watch, title: str, as_json: bool) -> None:
    """Print what a monitor has found, as JSON or as tables."""
    counted = "negatives" if document["event"] is None else "events of negatives"
    facts, state = _facts(whole_of(watch), counted), document["state"]
    if isinstance(watch, SegmentMonitor):
        facts[0] = ("state", "ALARM" if watch.alarm or watch.change else "no alarm")
        column = document["by"]["column"]
        told = f"ALARM in {len(watch.raised)} of {counted_levels(len(watch.monitors))}: {in_words(watch.raised)}"
        facts.append((f"by {column}", told if watch.raised else f"no alarm in {counted_levels(len(watch.monitors))}"))
    if state is not None:
        calls = f"{state['n_calls']:,} call{'' if state['n_calls'] == 1 else 's'} since {state['began']}"
        text = f"{calls}, {state['n_rows']:,} rows, kept in {state['path']}"
        facts.append(("so far", text))
    print_result(document, as_json, title, facts)
    if isinstance(watch, SegmentMonitor) and not as_json:
        _print_levels(watch, document["by"]["column"], counted)


def _print_levels(watch: SegmentMonitor, column: str, counted: str) -> None:
    rows = [
        [
            shortened(name),
            percent(each.tau),
            f"{each.n_seen:,}",
            percent(each.fpr),
            percent(each.fpr_lower_bound),
            percent(each.fpr_upper_bound),
            _alarms(each),
            each.verdict,
        ]
        for name, each in watch.monitors.items()
    ]
    title = f"By {column}: all alarms together are ever false with probability at most {watch.delta:g}"
    head = ["level", "tolerance", counted, "FPR", "at least", "at most", "state", "verdict"]
    if rows:
        print_rows(title, head, rows, numeric=range(1, 6))


def _alarms(watch: FPRMonitor) -> str:
    """Both alarms of a level in a few words."""
    found = {"ALARM": watch.alarm_at, "CHANGE": watch.change_at}
    told = [f"{word} at negative {place:,}" for word, place in found.items() if place is not None]
    return ", ".join(told) or f"evidence {watch.evidence:.3g} of {1.0 / watch.delta:.4g}"


def _facts(watch: FPRMonitor, counted: str) -> list[tuple[str, str]]:
    bounds = f"at least {percent(watch.fpr_lower_bound)}, at most {percent(watch.fpr_upper_bound)}"
    return [
        ("state", "ALARM" if raised(watch) else "no alarm"),
        ("over all negatives", _state(watch.alarm_at, watch.evidence, 1.0 / watch.delta)),
        ("since a change", _state(watch.change_at, watch.change_evidence, watch.run_length)),
        ("tolerance", f"{percent(watch.tau)}; {_VERDICTS[watch.verdict]}"),
        (f"{counted} seen", f"{watch.n_seen:,}, of them {watch.n_false_alarms:,} false alarms"),
        ("false-alarm rate (FPR)", percent(watch.fpr)),
        ("FPR bounds", f"{bounds}, each at {confidence(watch.delta)} over all looks"),
    ]


def _state(raised_at: int | None, evidence: float, needed: float) -> str:
    if raised_at is not None:
        return f"ALARM at negative {raised_at:,}"
    if math.isinf(needed):
        return "turned off"
    return f"no alarm; evidence {evidence:.4g}, the alarm is raised at {needed:g}"
