"""The options of ``taufpl monitor``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taufpl.cli._errors import CommandLineError
from taufpl.cli._options import ChunkRows, Json, Model, OtherDelta, OtherTau, Target
from taufpl.cli.commands._deferred import deferred


@deferred("taufpl.cli._monitor")
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
