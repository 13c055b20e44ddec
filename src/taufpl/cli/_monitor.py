"""``taufpl monitor``: an alarm when FPR has provably left the tolerance."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from taufpl.cli._errors import BROKEN
from taufpl.cli._options import ChunkRows, Model, OtherDelta, OtherTau, Target
from taufpl.cli._output import Json, percent, print_facts, print_json, working
from taufpl.cli._rows import Rows, rows_of, stream_rows, wanted_types
from taufpl.cli._saved import Saved, open_model
from taufpl.cli._source import Source, delimiter_of, find_source, standard_input
from taufpl.cli._tables import csv_names, parse_rows
from taufpl.monitoring import FPRMonitor


def monitor_command(
    model: Model,
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="A file of labelled rows in their order, or - for CSV on stdin.")
    ],
    target: Target = None,
    tau: OtherTau = None,
    delta: OtherDelta = None,
    chunk_rows: ChunkRows = 1024,
    as_json: Json = False,
) -> None:
    """Watch labelled rows in the order of their coming, and stop with an alarm when FPR has left the tolerance.

    The probability of a false alarm is at most delta, however long it watches. Exit code 3 says that there was an
    alarm, 0 that the rows ended without one. Rows of stdin are judged as they come, one a line.
    """
    saved = open_model(model)
    watch = FPRMonitor(saved.tau if tau is None else tau, saved.delta if delta is None else delta)
    source = standard_input() if stream == "-" else find_source(Path(stream))
    n_rows = 0
    with working(f"watching {source.name}") as tell:
        for rows in _rows(saved, source, target, chunk_rows):
            assert rows.labels is not None
            n_rows = rows.start + len(rows)
            alarm = watch.update((saved.scores(rows) > 0)[rows.labels == 0])
            tell(f"{watch.n_seen:,} negatives, FPR {percent(watch.fpr)}")
            if alarm:
                break
    document = {
        "alarm": watch.alarm,
        "alarm_at_negative": watch.alarm_at,
        "n_rows": n_rows,
        "n_negative": watch.n_seen,
        "n_false_alarms": watch.n_false_alarms,
        "fpr": watch.fpr,
        "fpr_lower_bound": watch.fpr_lower_bound,
        "evidence": watch.evidence,
        "evidence_needed": 1.0 / watch.delta,
        "tau": watch.tau,
        "delta": watch.delta,
    }
    if as_json:
        print_json(document)
    else:
        _print(source.name, watch)
    if watch.alarm:
        raise typer.Exit(BROKEN)


def _print(title: str, watch: FPRMonitor) -> None:
    state = f"ALARM at negative {watch.alarm_at:,}" if watch.alarm_at is not None else "no alarm"
    print_facts(
        title,
        [
            ("state", state),
            ("negatives seen", f"{watch.n_seen:,}, of them {watch.n_false_alarms:,} false alarms"),
            ("FPR", f"{percent(watch.fpr)}, at least {percent(watch.fpr_lower_bound)}"),
            ("tolerance", percent(watch.tau)),
            ("evidence", f"{watch.evidence:.4g}; the alarm is raised at {1 / watch.delta:g}"),
        ],
    )


def _rows(saved: Saved, source: Source, target: str | None, chunk: int) -> Iterator[Rows]:
    wanted = saved.target_in(source, target)
    if source.path is not None:
        return stream_rows(source, saved.layout, classes=saved.classes, target=wanted, chunk=chunk)
    return _live_rows(saved, source, wanted, chunk)


def _live_rows(saved: Saved, source: Source, target: str | None, chunk: int) -> Iterator[Rows]:
    """Rows of standard input as soon as they are there."""
    header = sys.stdin.buffer.readline()
    if not header.strip():
        raise ValueError("standard input: is empty; it must begin with a header line of column names.")
    source = Source(None, "csv", delimiter=delimiter_of(header))
    names = csv_names(source, header)
    types = wanted_types(source, saved.layout, names, target, None)
    start = 0
    for lines in _lines(chunk):
        batch = parse_rows(source, header if header.endswith(b"\n") else header + b"\n", lines, types)
        if batch.num_rows:
            yield rows_of(source, batch, saved.layout, saved.classes, target, None, start)
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
