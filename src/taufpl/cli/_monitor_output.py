"""What a monitor has found: a document, and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from taufpl.cli._by_level import limit_name, listed
from taufpl.cli._loaded_model import LoadedModel
from taufpl.cli._monitor_state import Watch, Watches
from taufpl.cli._output import confidence, percent, print_result, print_rows
from taufpl.monitoring import FPRMonitor, SegmentMonitor

_VERDICTS = {
    "within": "within: the upper bound on FPR is within the tolerance",
    "left": "LEFT: FPR has provably been above the tolerance",
    "open": "open: neither is proven",
}


def of_all_rows(watches: Watches) -> FPRMonitor:
    """The monitor of all rows."""
    first = next(iter(watches.values()))
    return first if isinstance(first, FPRMonitor) else first.whole


def all_monitors(watches: Watches) -> list[FPRMonitor]:
    """The monitors of all rows, of limits and of levels."""
    tables = [each.monitors.values() for each in watches.values() if isinstance(each, SegmentMonitor)]
    return [of_all_rows(watches), *chain(*tables)]


def watch_record(watches: Watches, model: LoadedModel, by: str | None) -> dict[str, Any]:
    """What monitors have found, for a document; alarm and change are those of all rows, of a limit or of a level."""
    members = {} if model.limits is None else model.limits.members
    return {
        **_record(of_all_rows(watches)),
        "alarm": any(each.alarm for each in all_monitors(watches)),
        "change": any(each.change for each in all_monitors(watches)),
        "segments": _table_record(watches.get("segments"), model.layout.segment, "limit", members),
        "by": _table_record(watches.get("by"), by, "level"),
    }


def _table_record(
    watch: Watch | None, column: str | None, noun: str, members: Mapping[str, str] | None = None
) -> dict[str, Any] | None:
    """What the monitors of limits, with the segments that share each, or of levels have found."""
    if not isinstance(watch, SegmentMonitor):
        return None
    found = [{noun: name, **_record(each)} for name, each in watch.monitors.items()]
    if members is not None:
        found = [
            {"segments": [name for name, limit in members.items() if limit == each[noun]], **each} for each in found
        ]
    return {"column": column, "delta": watch.delta, f"{noun}s": found}


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


def print_watch(document: dict[str, Any], title: str, as_json: bool) -> None:
    """Print what monitors have found, as JSON or as tables."""
    counted, state = "negatives" if document["event"] is None else "events of negatives", document["state"]
    tables = [_Table(noun, document[key]) for key, noun in (("segments", "limit"), ("by", "level")) if document[key]]
    facts = _facts(document, counted) + [(f"by {each.record['column']}", each.in_words()) for each in tables]
    if state is not None:
        calls = f"{state['n_calls']:,} call{'' if state['n_calls'] == 1 else 's'} since {state['began']}"
        facts.append(("so far", f"{calls}, {state['n_rows']:,} rows, kept in {state['path']}"))
    print_result(document, as_json, title, facts)
    for each in () if as_json else tables:
        each.print(counted)


@dataclass(frozen=True, slots=True)
class _Table:
    """Monitors by limit or by level, out of a document."""

    noun: str
    record: dict[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.record[f"{self.noun}s"]
        return found

    def name(self, row: dict[str, Any]) -> str:
        return limit_name(row[self.noun], row.get("segments", ()))

    def in_words(self) -> str:
        """Which of the monitors have raised an alarm."""
        raised = [self.name(each) for each in self.rows if each["alarm"] or each["change"]]
        n = f"{len(self.rows):,} {self.noun}{'' if len(self.rows) == 1 else 's'}"
        return f"ALARM in {len(raised):,} of {n}: {listed(raised)}" if raised else f"no alarm in {n}"

    def print(self, counted: str) -> None:
        rows = [
            [
                self.name(each),
                percent(each["tau"]),
                f"{each['n_negative']:,}",
                percent(each["fpr"]),
                percent(each["fpr_lower_bound"]),
                percent(each["fpr_upper_bound"]),
                _alarms(each),
                each["verdict"],
            ]
            for each in self.rows
        ]
        by = f"{'Limits by' if self.noun == 'limit' else 'By'} {self.record['column']}"
        title = f"{by}: all alarms together are ever false with probability at most {self.record['delta']:g}"
        head = [self.noun, "tolerance", counted, "FPR", "at least", "at most", "state", "verdict"]
        if rows:
            print_rows(title, head, rows, numeric=range(1, 6))


def _alarms(found: dict[str, Any]) -> str:
    """Both alarms of a monitor in a few words."""
    places = {"ALARM": found["alarm_at_negative"], "CHANGE": found["change_at_negative"]}
    told = [f"{word} at negative {place:,}" for word, place in places.items() if place is not None]
    return ", ".join(told) or f"evidence {found['evidence']:.3g} of {found['evidence_needed']:.4g}"


def _facts(found: dict[str, Any], counted: str) -> list[tuple[str, str]]:
    bounds = f"at least {percent(found['fpr_lower_bound'])}, at most {percent(found['fpr_upper_bound'])}"
    return [
        ("state", "ALARM" if found["alarm"] or found["change"] else "no alarm"),
        ("over all negatives", _state(found["alarm_at_negative"], found["evidence"], found["evidence_needed"])),
        ("since a change", _state(found["change_at_negative"], found["change_evidence"], found["run_length"])),
        ("tolerance", f"{percent(found['tau'])}; {_VERDICTS[found['verdict']]}"),
        (f"{counted} seen", f"{found['n_negative']:,}, of them {found['n_false_alarms']:,} false alarms"),
        ("false-alarm rate (FPR)", percent(found["fpr"])),
        ("FPR bounds", f"{bounds}, each at {confidence(found['delta'])} over all looks"),
    ]


def _state(raised_at: int | None, evidence: float, needed: float) -> str:
    if raised_at is not None:
        return f"ALARM at negative {raised_at:,}"
    if math.isinf(needed):
        return "turned off"
    return f"no alarm; evidence {evidence:.4g}, the alarm is raised at {needed:g}"
