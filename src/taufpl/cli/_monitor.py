"""``taufpl monitor``: an alarm when FPR has left the tolerance, over all negatives or since a change."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from taufpl.cli._errors import BROKEN, CommandLineError
from taufpl.cli._options import ChunkRows, Model, OtherDelta, OtherTau, Target
from taufpl.cli._output import Json, confidence, percent, print_facts, print_json, working
from taufpl.cli._rows import Rows, rows_of, stream_rows, wanted_types
from taufpl.cli._saved import Saved, open_model
from taufpl.cli._source import TABLES, Source, delimiter_of, find_source, standard_input
from taufpl.cli._tables import arrow, csv_names, parse_rows
from taufpl.cli._unseen import note_unseen, unseen_counter
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
            help="Negatives in which the change detector may give one false signal, on average; 5000 / tau if not "
            "given; inf turns it off.",
        ),
    ] = None,
    chunk_rows: ChunkRows = 1024,
    as_json: Json = False,
) -> None:
    """Watch labelled rows in the order of their coming, and stop with an alarm when FPR has left the tolerance.

    Two alarms watch. The test over all negatives is ever wrong with probability at most delta, however long it
    watches. The change detector finds a recent rise much sooner after a good past; while FPR keeps to the tolerance it
    is wrong at most once in --run-length negatives, on average. Exit code 3 says that either was raised, and the output
    says which; 0 that the rows ended without one. Rows of stdin are judged as they come, one a line.
    """
    saved = open_model(model)
    watch = FPRMonitor(saved.tau if tau is None else tau, saved.delta if delta is None else delta, run_length)
    source = standard_input() if stream == "-" else find_source(Path(stream))
    unseen_values, n_rows, n_negative_rows = unseen_counter(saved), 0, 0
    with working(f"watching {source.name}") as tell:
        for rows in _rows(saved, source, target, event, chunk_rows):
            n_rows = rows.start + len(rows)
            n_negative_rows += _feed(watch, saved, rows)
            unseen_values.update(rows.X)
            tell(f"{watch.n_seen:,} negatives, FPR {percent(watch.fpr)}")
            if watch.alarm or watch.change:
                break
    note_unseen(source.name, unseen_values)
    if as_json:
        own = {"n_rows": n_rows, "n_negative_rows": n_negative_rows, "event": event}
        print_json({**own, **_document(watch), "unseen": unseen_values.record()})
    else:
        _print(source.name, watch, "negatives seen" if event is None else "events of negatives seen")
    if watch.alarm or watch.change:
        raise typer.Exit(BROKEN)


def _feed(watch: FPRMonitor, saved: Saved, rows: Rows) -> int:
    """Show the negatives of some rows to the monitor, and give their number."""
    assert rows.labels is not None
    negatives = np.flatnonzero(rows.labels == 0)
    events = None if rows.ids is None else rows.ids.take(arrow().array(negatives)).to_pylist()
    watch.update(saved.scores(rows)[negatives] > 0, events)
    return int(negatives.size)


def _document(watch: FPRMonitor) -> dict[str, Any]:
    """What a monitor has found, by name."""
    return {
        "alarm": watch.alarm,
        "alarm_at_negative": watch.alarm_at,
        "change": watch.change,
        "change_at_negative": watch.change_at,
        "verdict": watch.verdict,
        "n_negative": watch.n_seen,
        "n_false_alarms": watch.n_false_alarms,
        "fpr": watch.fpr,
        "fpr_lower_bound": watch.fpr_lower_bound,
        "fpr_upper_bound": watch.fpr_upper_bound,
        "evidence": watch.evidence,
        "evidence_needed": 1.0 / watch.delta,
        "change_evidence": watch.change_evidence,
        "run_length": watch.run_length,
        "tau": watch.tau,
        "delta": watch.delta,
    }


def _print(title: str, watch: FPRMonitor, counted: str) -> None:
    bounds = f"at least {percent(watch.fpr_lower_bound)}, at most {percent(watch.fpr_upper_bound)}"
    print_facts(
        title,
        [
            ("state", "ALARM" if watch.alarm or watch.change else "no alarm"),
            ("over all negatives", _state(watch.alarm_at, watch.evidence, 1.0 / watch.delta)),
            ("since a change", _state(watch.change_at, watch.change_evidence, watch.run_length)),
            ("tolerance", f"{percent(watch.tau)}; {_VERDICTS[watch.verdict]}"),
            (counted, f"{watch.n_seen:,}, of them {watch.n_false_alarms:,} false alarms"),
            ("FPR", percent(watch.fpr)),
            ("FPR bounds", f"{bounds}, each at {confidence(watch.delta)} over all looks"),
        ],
    )


def _state(raised_at: int | None, evidence: float, needed: float) -> str:
    if raised_at is not None:
        return f"ALARM at negative {raised_at:,}"
    return (
        "turned off" if math.isinf(needed) else f"no alarm; evidence {evidence:.4g}, the alarm is raised at {needed:g}"
    )


def _rows(saved: Saved, source: Source, target: str | None, event: str | None, chunk: int) -> Iterator[Rows]:
    wanted = saved.target_in(source, target)
    if event is not None and source.format not in TABLES:
        raise CommandLineError(f"--event {event}: the columns of a {source.format} file have no names.")
    if source.path is not None:
        return stream_rows(
            source, saved.layout, classes=saved.classes, target=wanted, id_column=event, chunk=chunk
        )  # fmt: skip
    return _live_rows(saved, source, wanted, event, chunk)


def _live_rows(saved: Saved, source: Source, target: str | None, event: str | None, chunk: int) -> Iterator[Rows]:
    """Rows of standard input as soon as they are there."""
    header = sys.stdin.buffer.readline()
    if not header.strip():
        raise ValueError("standard input: is empty; it must begin with a header line of column names.")
    source = Source(None, "csv", delimiter=delimiter_of(header))
    names = csv_names(source, header)
    types = wanted_types(source, saved.layout, names, target, event)
    start = 0
    for lines in _lines(chunk):
        batch = parse_rows(source, header if header.endswith(b"\n") else header + b"\n", lines, types)
        if batch.num_rows:
            yield rows_of(source, batch, saved.layout, saved.classes, target, event, start)
            start += batch.num_rows
    if not start:
        raise ValueError("standard input: has a header, but no rows.")


def _lines(most: int) -> Iterator[bytes]:
    """Whole lines, as many as have come, and no more than asked for."""
    left = b""
    stream: Any = sys.stdin.buffer
    while part := stream.read1(1 << 20):
        *whole, left = (left + part).split(b"\n")
        for start in range(0, len(whole), most):
            yield b"\n".join(whole[start : start + most]) + b"\n"
    if left.strip():
        yield left
