"""``taufpl monitor``: an alarm when FPR has left the tolerance, over all negatives or since a change."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from taufpl.cli._data_file import DataFile, find_data_file
from taufpl.cli._errors import BROKEN, CommandLineError
from taufpl.cli._loaded_model import LoadedModel, note_unseen, open_model
from taufpl.cli._options import ChunkRows, Json, Model, OtherDelta, OtherTau, Target
from taufpl.cli._output import confidence, percent, print_result, working
from taufpl.cli._row_reader import RowBatch
from taufpl.cli._tables import arrow
from taufpl.monitoring import FPRMonitor

_VERDICTS = {
    "within": "within: the upper bound on FPR is within the tolerance",
    "left": "LEFT: FPR has provably been above the tolerance",
    "open": "open: neither is proven",
}


def monitor_command(
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
    chunk_rows: ChunkRows = 1024,
    as_json: Json = False,
) -> None:
    """Watch labelled rows in the order of their coming, and stop with an alarm when FPR has left the tolerance.

    FPR is the false-alarm rate, the share of negatives that the model flags. Two alarms watch. The test over all
    negatives is ever wrong with probability at most delta, however long it watches. The change detector finds a recent
    rise much sooner after a good past; while FPR keeps to the tolerance it is wrong at most once in --run-length
    negatives, on average. Exit code 3 says that either was raised, and the output says which; 0 that the rows ended
    without one. Rows of stdin are evaluated as they come, one a line.
    """
    loaded = open_model(model)
    watch = FPRMonitor(loaded.tau if tau is None else tau, loaded.delta if delta is None else delta, run_length)
    file = DataFile(None, "csv") if stream == "-" else find_data_file(Path(stream))
    reader = loaded.labelled_reader(file, target, event)
    if event is not None and not file.is_table:
        raise CommandLineError(f"--event {event}: the columns of a {file.format} file have no names.")
    unseen, n_rows, n_negative_rows = loaded.unseen_counter(), 0, 0
    with working(f"watching {file.name}") as tell:
        for rows in reader.batches(chunk_rows):
            n_rows = rows.start + len(rows)
            n_negative_rows += _feed(watch, loaded, rows)
            unseen.update(rows.X)
            tell(f"{watch.n_seen:,} negatives, FPR {percent(watch.fpr)}")
            if watch.alarm or watch.change:
                break
    note_unseen(file, unseen)
    document = {
        "n_rows": n_rows,
        "n_negative_rows": n_negative_rows,
        "event": event,
        **_record(watch),
        "unseen": unseen.record(),
    }
    print_result(document, as_json, file.name, _facts(watch, "negatives" if event is None else "events of negatives"))
    if watch.alarm or watch.change:
        raise typer.Exit(BROKEN)


def _feed(watch: FPRMonitor, model: LoadedModel, rows: RowBatch) -> int:
    """Show the negatives among some rows to the monitor, and return their number."""
    assert rows.labels is not None
    negatives = np.flatnonzero(rows.labels == 0)
    events = None if rows.ids is None else rows.ids.take(arrow().array(negatives)).to_pylist()
    watch.update(model.scores(rows)[negatives] > 0, events)
    return int(negatives.size)


def _record(watch: FPRMonitor) -> dict[str, Any]:
    """What a monitor has found, for a document."""
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


def _facts(watch: FPRMonitor, counted: str) -> list[tuple[str, str]]:
    bounds = f"at least {percent(watch.fpr_lower_bound)}, at most {percent(watch.fpr_upper_bound)}"
    return [
        ("state", "ALARM" if watch.alarm or watch.change else "no alarm"),
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
