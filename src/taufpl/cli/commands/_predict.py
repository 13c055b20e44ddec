"""The options of ``taufpl predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taufpl.cli._options import CHUNK_ROWS, ChunkRows, Data, Json, Model, ScoringJobs
from taufpl.cli.commands._deferred import deferred


@deferred("taufpl.cli._predict")
def predict(
    model: Model,
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="What to write: .csv or .parquet.")],
    id_column: Annotated[
        str | None, typer.Option("--id", help="A column to take along.", show_default="row numbers")
    ] = None,
    guard: Annotated[
        bool,
        typer.Option(
            "--guard-formulas/--no-guard-formulas",
            help="In CSV, put an apostrophe before texts that a spreadsheet would run: those that begin with = + - @.",
        ),
    ] = True,
    n_reasons: Annotated[
        int,
        typer.Option(
            "--reasons",
            min=0,
            max=100,
            metavar="N",
            help="Add N reasons to each row that is decided positive.",
        ),
    ] = 0,
    chunk_rows: ChunkRows = CHUNK_ROWS,
    jobs: ScoringJobs = 1,
    as_json: Json = False,
) -> None:
    """Score the rows of a file, and decide.

    Writes one row a row: its number, from 1, or the column that --id names; score, which is measured from the
    threshold, so that it is above 0 exactly where the decision is positive; and decision, one of the two labels. A
    column of --id that is itself named score or decision is written as id_score or id_decision.

    --reasons 3 adds reason_1 to reason_3: a column of the row, its value, and how far that raised the score above that
    of negatives. They say what the model made of a row, not what caused anything.
    """
