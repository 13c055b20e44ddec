"""``taufpl predict``: scores and decisions for files of any length."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from taufpl._extras import require
from taufpl._files import written_whole
from taufpl.cli._errors import note
from taufpl.cli._formulas import guard_formulas
from taufpl.cli._options import ChunkRows, Data, Model
from taufpl.cli._output import Json, check_output, percent, print_facts, print_json, working
from taufpl.cli._rows import CHUNK_ROWS, Rows, stream_rows
from taufpl.cli._saved import Saved, open_model
from taufpl.cli._source import find_source
from taufpl.cli._tables import arrow
from taufpl.cli._unseen import note_unseen, unseen_counter

# The columns that every file of decisions has.
_OWN = ("score", "decision")


def predict_command(
    model: Model,
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="What to write: .csv or .parquet.")],
    id_column: Annotated[
        str | None, typer.Option("--id", help="A column to take along. [default: row numbers]")
    ] = None,
    guard: Annotated[
        bool,
        typer.Option(
            "--guard-formulas/--no-guard-formulas",
            help="In CSV, put an apostrophe before texts that a spreadsheet would run: those that begin with = + - @.",
        ),
    ] = True,
    chunk_rows: ChunkRows = CHUNK_ROWS,
    as_json: Json = False,
) -> None:
    """Score the rows of a file, and decide.

    Writes one row a row: its number, from 1, or the column that --id names; score, which is measured from the
    threshold, so that it is above 0 exactly where the decision is positive; and decision, one of the two labels. A
    column of --id that is itself named score or decision is written as id_score or id_decision.
    """
    source = find_source(data)
    check_output(output, data, model)
    if output.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"{output}: decisions are written as .csv or .parquet.")
    saved = open_model(model)
    unseen_values = unseen_counter(saved)
    name = _id_name(id_column)
    is_guarded = guard and output.suffix.lower() == ".csv"
    n_rows = n_positive = n_guarded = 0
    with working(f"reading {data}") as tell, written_whole(output) as draft:
        parts = stream_rows(source, saved.layout, id_column=id_column, chunk=chunk_rows)
        with _writer(output, draft) as write:
            for rows in parts:
                table, found = _decide(saved, rows, name)
                if is_guarded:
                    table, n_touched = guard_formulas(table)
                    n_guarded += n_touched
                write(table)
                unseen_values.update(rows.X)
                n_rows, n_positive = n_rows + len(rows), n_positive + found
                tell(f"{n_rows:,} rows")
    note_unseen(source.name, unseen_values)
    if n_guarded:
        note(
            f"{output}: {n_guarded:,} texts begin as a formula does and have an apostrophe before them; "
            "--no-guard-formulas writes them as they are."
        )
    document = {
        "output": str(output),
        "n_rows": n_rows,
        "n_positive": n_positive,
        "share_positive": n_positive / n_rows,
        "n_guarded": n_guarded,
        "positive_label": saved.classes[1],
        "negative_label": saved.classes[0],
        "unseen": unseen_values.record(),
    }
    if as_json:
        print_json(document)
    else:
        positive = f"{n_positive:,} ({percent(n_positive / n_rows)})"
        print_facts(str(output), [("rows", f"{n_rows:,}"), (f"decided {saved.classes[1]}", positive)])


def _id_name(id_column: str | None) -> str:
    """The name of the first column, which must not be that of another."""
    if id_column is None:
        return "row"
    if id_column not in _OWN:
        return id_column
    note(f"--id {id_column}: decisions have a column of that name; the id is written as id_{id_column}.")
    return f"id_{id_column}"


def _decide(saved: Saved, rows: Rows, name: str) -> tuple[Any, int]:
    """A table of decisions, and how many are positive."""
    pa = arrow()
    scores = saved.scores(rows)
    is_positive = scores > 0
    first = pa.array(np.arange(rows.start + 1, rows.start + len(rows) + 1)) if rows.ids is None else rows.ids
    labels = pa.array(saved.classes)
    decisions = labels.take(pa.array(is_positive.astype(np.int8)))
    return pa.table([first, pa.array(scores), decisions], names=[name, *_OWN]), int(is_positive.sum())


@contextmanager
def _writer(output: Path, draft: Path) -> Iterator[Any]:
    """A function that appends a table to the file."""
    writers: list[Any] = []

    def write(table: Any) -> None:
        if not writers:
            if output.suffix.lower() == ".csv":
                writers.append(require("pyarrow.csv", "cli", "to write CSV").CSVWriter(draft, table.schema))
            else:
                parquet = require("pyarrow.parquet", "cli", "to write Parquet")
                writers.append(parquet.ParquetWriter(draft, table.schema))
        writers[0].write_table(table.cast(writers[0].schema) if hasattr(writers[0], "schema") else table)

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()
