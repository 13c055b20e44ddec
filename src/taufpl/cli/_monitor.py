"""``taufpl monitor``: an alarm when FPR has left the tolerance, over all negatives or since a change."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from taufpl._choices import OTHERS
from taufpl.cli._data_file import DataFile, arrow, check_is_file, digest_of, find_data_file
from taufpl.cli._errors import EXIT_BROKEN, CommandLineError
from taufpl.cli._options import ChunkRows, Json, Model, OtherDelta, OtherTau, Target
from taufpl.cli._output import check_output, confidence, limit_name, listed, percent, print_result, print_rows, working

if TYPE_CHECKING:
    from taufpl.cli._loaded_model import LoadedModel, Unseen
    from taufpl.cli._row_reader import RowBatch, RowReader
    from taufpl.monitoring import FPRMonitor, SegmentMonitor

    Watch = FPRMonitor | SegmentMonitor
    # That of the limits of a model, "segments", and that of the levels of a column, "by"; else that of all "rows".
    Watches = dict[str, Watch]

_KIND = "taufpl monitor state"
_VERSION = 1
_VERDICTS = {
    "within": "within: the upper bound on FPR is within the tolerance",
    "left": "LEFT: FPR has provably been above the tolerance",
    "open": "open: neither is proven",
}


def monitor(
    model: Model,
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="A file of labelled rows in their order, or - for CSV on stdin.")
    ],
    target: Target = None,
    event: Annotated[
        str | None, typer.Option("--event", help="A column that names events; rows of one event count once.")
    ] = None,
    tau: OtherTau = None,
    delta: OtherDelta = None,
    run_length: Annotated[
        float | None,
        typer.Option(
            "--run-length",
            help="Negatives in which the change detector may give one false signal, on average; inf turns it off.",
            show_default="5000 / tau",
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", help="A column: each of its levels is watched, too, beside all rows.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="A file that keeps the monitor: the next call goes on from there.")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Begin anew, whatever --state keeps.")] = False,
    chunk_rows: ChunkRows = 1024,
    as_json: Json = False,
) -> None:
    """Watch labelled rows in the order of their coming, and stop with an alarm when FPR has left the tolerance.

    FPR is the false-alarm rate, the share of negatives that the model flags. Two alarms watch. The test over all
    negatives is ever wrong with probability at most delta, however long it watches. The change detector finds a recent
    rise much sooner after a good past; while FPR keeps to the tolerance it is wrong at most once in --run-length
    negatives, on average. Exit code 3 says that either was raised, and the output says which; 0 that the rows ended
    without one. Rows of stdin are evaluated as they come, one a line.

    Each limit of a model with segments has both alarms, too, and with --by each level of a column; all together are
    wrong as rarely as said. With --state a file is read to its end, and the monitor is kept for the next call; an alarm
    stays, and with it exit code 3, until --reset.
    """
    if reset and state is None:
        raise CommandLineError("--reset is for --state FILE, in which a monitor is kept.")

    from taufpl.cli._loaded_model import Unseen, open_model

    file = DataFile(None, "csv") if stream == "-" else find_data_file(Path(stream))
    if state is not None:
        check_output(state, model, file.path)
    loaded = open_model(model)
    watches = _new_watches(loaded, by, tau, delta, run_length)
    reader = loaded.labelled_reader(file, target, event, by)
    if event is not None and not file.is_table:
        raise CommandLineError(f"--event {event}: the columns of a {file.format} file have no names.")
    kept = earlier = None
    if state is not None:
        kept = _MonitorState(digest_of(model), event, by, {}, 0, 0, 0, _now(), _now())
        earlier = _content_of(state)
        if earlier is not None:
            begun = _read_state(state, earlier, is_dropped=reset)
            watches, kept = (watches, kept) if begun is None else (_go_on(state, begun, kept, watches), begun)
    call = _Call(loaded, watches, state, kept, earlier, Unseen.by(loaded))
    call.read(reader, chunk_rows)
    call.unseen.note(file)
    document = {
        "n_rows": call.n_rows,
        "n_negative_rows": call.n_negative_rows,
        "event": event,
        **_watch_record(watches, loaded, by),
        "state": call.state_record(),
        **call.unseen.record(),
    }
    _print_watch(document, file.name, as_json)
    sys.stdout.flush()
    if file.path is not None:
        # Only now: where the result could not be told, the file can be given again.
        call.keep()
    if document["alarm"] or document["change"]:
        raise typer.Exit(EXIT_BROKEN)


def _new_watches(
    model: LoadedModel, by: str | None, tau: float | None, delta: float | None, run_length: float | None
) -> Watches:
    """Monitors that have seen nothing; two of them share delta, and the false signals of changes."""
    from taufpl.monitoring import FPRMonitor, SegmentMonitor
    from taufpl.thresholding import tolerance_of

    delta, limits, of_all = model.delta if delta is None else delta, model.limits, model.tau if tau is None else tau
    if limits is None:
        return (
            {"rows": FPRMonitor(of_all, delta, run_length)}
            if by is None
            else {"by": SegmentMonitor(of_all, delta, run_length)}
        )
    # Small segments have been proven together, and are watched so; as are those that were never seen.
    own = {name: each.tau for name, each in zip(limits.limits, limits.evidence, strict=True)}
    taus = {OTHERS: tolerance_of(OTHERS, model.tolerances), **own} if tau is None else {OTHERS: tau}
    if by is None:
        return {"segments": SegmentMonitor(taus, delta, run_length, own)}
    usual = FPRMonitor(min(taus.values())).run_length
    share = delta / 2.0, 2.0 * (usual if run_length is None else run_length)
    levels = model.tolerances if tau is None and by == model.layout.segment else of_all
    return {"segments": SegmentMonitor(taus, *share, own), "by": SegmentMonitor(levels, *share)}


@dataclass
class _Call:
    """The rows of one call, and the monitors that they are shown to."""

    model: LoadedModel
    watches: Watches
    path: Path | None  # of the state
    state: _MonitorState | None
    earlier: bytes | None  # the file of the state as it was read
    unseen: Unseen
    n_rows: int = 0
    n_negative_rows: int = 0

    def read(self, reader: RowReader, chunk_rows: int) -> None:
        """Show the rows to the monitors; keep those of stdin, whose rows are gone, also where a signal ends it."""
        is_live = reader.file.path is None
        try:
            with working(f"watching {reader.file.name}", has_end=reader.file.path is not None) as tell:
                self._read(reader, chunk_rows, tell, stops=is_live or self.state is None)
        except KeyboardInterrupt:
            if is_live:
                self._count()
                self.keep()
            raise
        self._count()
        if is_live:
            self.keep()

    def _read(self, reader: RowReader, chunk_rows: int, tell: Any, *, stops: bool) -> None:
        before = _n_raised(self.watches)
        for rows in reader.batches(chunk_rows):
            self._feed(rows)
            self.n_rows += len(rows)
            self.unseen.update(rows)
            all_rows = _of_all_rows(self.watches)
            tell(f"{all_rows.n_seen:,} negatives, FPR {percent(all_rows.fpr)}")
            if stops and _n_raised(self.watches) != before:
                break

    def _feed(self, rows: RowBatch) -> None:
        """Show the negatives among some rows to the monitors."""
        import numpy as np

        from taufpl.cli._columns import event_names
        from taufpl.monitoring import SegmentMonitor

        assert rows.labels is not None
        negatives = np.flatnonzero(rows.labels == 0)
        events = None if rows.ids is None else event_names(rows.ids.take(arrow().array(negatives)))
        flags = self.model.scores(rows)[negatives] > 0
        for name, watch in self.watches.items():
            levels = rows.segments if name == "segments" else rows.levels
            if isinstance(watch, SegmentMonitor):
                assert levels is not None
                watch.update(flags, levels[negatives], events)
            else:
                watch.update(flags, events)
        self.n_negative_rows += int(negatives.size)

    def _count(self) -> None:
        if self.path is not None and self.state is not None:
            self.state = self.state.after(self.watches, self.n_rows, self.n_negative_rows)
            _check_unchanged(self.path, self.earlier)

    def keep(self) -> None:
        """Write the state, where there is one."""
        if self.path is not None and self.state is not None:
            self.state.write(self.path, self.earlier)

    def state_record(self) -> dict[str, Any] | None:
        """What is kept for the next call, for a document."""
        if self.state is None:
            return None
        names = ("n_calls", "n_rows", "n_negative_rows", "began", "updated")
        return {"path": str(self.path), **{name: getattr(self.state, name) for name in names}}


def _n_raised(watches: Watches) -> int:
    """How many alarms stand; none is ever taken back."""
    return sum(each.alarm + each.change for each in _all_monitors(watches))


def _of_all_rows(watches: Watches) -> FPRMonitor:
    """The monitor of all rows."""
    first = next(iter(watches.values()))
    return first.whole if hasattr(first, "whole") else first


def _all_monitors(watches: Watches) -> list[FPRMonitor]:
    """The monitors of all rows, of limits and of levels."""
    return [_of_all_rows(watches), *chain(*(getattr(each, "monitors", {}).values() for each in watches.values()))]


def _watch_record(watches: Watches, model: LoadedModel, by: str | None) -> dict[str, Any]:
    """What monitors have found, for a document; alarm and change are those of all rows, of a limit or of a level."""
    members = {} if model.limits is None else model.limits.members
    return {
        **_record(_of_all_rows(watches)),
        "alarm": any(each.alarm for each in _all_monitors(watches)),
        "change": any(each.change for each in _all_monitors(watches)),
        "segments": _table_record(watches.get("segments"), model.layout.segment, "limit", members),
        "by": _table_record(watches.get("by"), by, "level"),
    }


def _table_record(
    watch: Any, column: str | None, noun: str, members: Mapping[str, str] | None = None
) -> dict[str, Any] | None:
    """What the monitors of limits, with the segments that share each, or of levels have found."""
    if watch is None:
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


def _print_watch(document: dict[str, Any], title: str, as_json: bool) -> None:
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


class _Table(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class _MonitorState:
    """A monitor between two calls, with what it was begun with."""

    model: str  # digest of the model file
    event: str | None
    by: str | None
    monitors: dict[str, dict[str, Any]]
    n_calls: int
    n_rows: int
    n_negative_rows: int
    began: str
    updated: str

    def after(self, watches: Watches, n_rows: int, n_negative_rows: int) -> _MonitorState:
        """The state after one more call."""
        return replace(
            self,
            monitors={name: each.to_dict() for name, each in watches.items()},
            n_calls=self.n_calls + 1,
            n_rows=self.n_rows + n_rows,
            n_negative_rows=self.n_negative_rows + n_negative_rows,
            updated=_now(),
        )

    def write(self, path: Path, earlier: bytes | None) -> None:
        """Write the state beside its file, and rename it, where the file is still as it was earlier (None: absent)."""
        from taufpl._files import write_whole
        from taufpl._records import plain

        content = {"kind": _KIND, "version": _VERSION, **plain(asdict(self))}
        text = json.dumps({**content, "checksum": _checksum(content)}, allow_nan=False)
        write_whole(path, text.encode(), lambda: _check_unchanged(path, earlier))


def _content_of(path: Path) -> bytes | None:
    """All bytes of a file, or None where there is none."""
    if not path.exists():
        return None
    check_is_file(path)
    return path.read_bytes()


def _check_unchanged(path: Path, earlier: bytes | None) -> None:
    """Refuse to replace a state that another call has written since it was read."""
    if _content_of(path) != earlier:
        raise ValueError(
            f"{path}: another call has written it while this one was reading rows, which count for nothing. Give them "
            "again, one call at a time."
        )


def _read_state(path: Path, text: bytes, *, is_dropped: bool = False) -> _MonitorState | None:
    """The state that was read from a file; one that is damaged, or holds something else, is a ValueError.

    Where it `is_dropped`, to begin anew, it is enough that the file is a state.
    """
    from taufpl._records import read_record

    try:
        content = json.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: is damaged, or no state of taufpl monitor. Name another file, or remove this one."
        ) from error
    if not isinstance(content, dict) or content.get("kind") != _KIND:
        raise ValueError(f"{path}: is no state of taufpl monitor. Name another file.")
    if is_dropped:
        return None
    if content.get("version") != _VERSION:
        raise ValueError(f"{path}: is of version {content.get('version')!r}; this taufpl reads version {_VERSION}.")
    if content.pop("checksum", None) != _checksum(content):
        raise ValueError(f"{path}: has been changed since it was written. Begin anew by --reset.")
    try:
        return read_record(_MonitorState, content, "the state")
    except ValueError as error:
        raise ValueError(f"{path}: {error}. Begin anew by --reset.") from error


def _go_on(path: Path, state: _MonitorState, fresh: _MonitorState, watches: Watches) -> Watches:
    """The monitors in a state, which must be of the same model and settings as the fresh ones."""
    if state.model != fresh.model:
        raise ValueError(
            f"{path}: is the state of another model, or of this one before it was fitted or recalibrated anew. "
            "Name another file, or begin anew by --reset."
        )
    for option in ("event", "by"):
        _check_same(path, f"--{option}", getattr(state, option), getattr(fresh, option))
    if state.monitors.keys() != watches.keys():
        raise ValueError(f"{path}: has other monitors than this call. Begin anew by --reset.")
    return {name: _resumed(path, state.monitors[name], each) for name, each in watches.items()}


def _resumed(path: Path, kept: dict[str, Any], fresh: Watch) -> Watch:
    try:
        found = type(fresh).from_dict(kept)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}. Begin anew by --reset.") from error
    for option, value in _settings(found).items():
        _check_same(path, option, value, _settings(fresh)[option])
    return found


def _settings(watch: Watch) -> dict[str, Any]:
    from taufpl.monitoring import FPRMonitor

    if isinstance(watch, FPRMonitor):
        return {"--tau": watch.tau, "--delta": watch.delta, "--run-length": watch.run_length}
    return {
        "--tau": watch.tau,
        "--delta": watch.delta,
        "--run-length": watch.whole.run_length / 2.0,
        "segments": watch.segments,
    }


def _check_same(path: Path, option: str, before: Any, now: Any) -> None:
    if before != now:
        raise ValueError(
            f"{path}: was begun with {option} {_shown(before)}, and now it is {_shown(now)}. Name another file, or "
            "begin anew by --reset."
        )


def _shown(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 200 else text[:199] + "…"


def _checksum(content: dict[str, Any]) -> str:
    import hashlib

    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
