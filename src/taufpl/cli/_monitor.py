"""``taufpl monitor``: an alarm when FPR has left the tolerance, over all negatives or since a change."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from taufpl.cli._data_file import DataFile, find_data_file
from taufpl.cli._errors import BROKEN, CommandLineError
from taufpl.cli._labels import event_names
from taufpl.cli._loaded_model import LoadedModel, open_model
from taufpl.cli._monitor_output import all_monitors, of_all_rows, print_watch, watch_record
from taufpl.cli._monitor_state import (
    MonitorState,
    Watches,
    check_unchanged,
    content_of,
    go_on,
    new_state,
    read_state,
)
from taufpl.cli._output import check_output, percent, working
from taufpl.cli._row_reader import RowBatch, RowReader
from taufpl.cli._tables import arrow
from taufpl.cli._unseen import Unseen
from taufpl.monitoring import FPRMonitor, SegmentMonitor
from taufpl.thresholding import OTHERS, tolerance_of


def monitor_command(
    model: Path,
    stream: str,
    target: str | None,
    event: str | None,
    tau: float | None,
    delta: float | None,
    run_length: float | None,
    by: str | None,
    state: Path | None,
    reset: bool,
    chunk_rows: int,
    as_json: bool,
) -> None:
    """Run ``taufpl monitor``."""
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
        kept, earlier = new_state(model, event, by), content_of(state)
        if earlier is not None:
            watches, kept = _resumed(state, earlier, reset, kept, watches)
    call = _Call(loaded, watches, state, kept, earlier, Unseen.by(loaded))
    call.read(reader, chunk_rows)
    call.unseen.note(file)
    document = {
        "n_rows": call.n_rows,
        "n_negative_rows": call.n_negative_rows,
        "event": event,
        **watch_record(watches, loaded, by),
        "state": call.state_record(),
        **call.unseen.record(),
    }
    print_watch(document, file.name, as_json)
    sys.stdout.flush()
    if file.path is not None:
        # Only now: where the result could not be told, the file can be given again.
        call.keep()
    if document["alarm"] or document["change"]:
        raise typer.Exit(BROKEN)


def _new_watches(
    model: LoadedModel, by: str | None, tau: float | None, delta: float | None, run_length: float | None
) -> Watches:
    """Monitors that have seen nothing; two of them share delta, and the false signals of changes."""
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


def _resumed(
    path: Path, text: bytes, reset: bool, fresh: MonitorState, watches: Watches
) -> tuple[Watches, MonitorState]:
    """The monitors that a file keeps, where there is no reset; what is no state is not replaced."""
    earlier = read_state(path, text, is_dropped=reset)
    return (watches, fresh) if earlier is None else (go_on(path, earlier, fresh, watches), earlier)


@dataclass(slots=True)
class _Call:
    """The rows of one call, and the monitors that they are shown to."""

    model: LoadedModel
    watches: Watches
    path: Path | None  # of the state
    state: MonitorState | None
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
            all_rows = of_all_rows(self.watches)
            tell(f"{all_rows.n_seen:,} negatives, FPR {percent(all_rows.fpr)}")
            if stops and _n_raised(self.watches) != before:
                break

    def _feed(self, rows: RowBatch) -> None:
        """Show the negatives among some rows to the monitors."""
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
            check_unchanged(self.path, self.earlier)

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
    return sum(each.alarm + each.change for each in all_monitors(watches))
