"""``taufpl predict``: scores and decisions for files of any length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taufpl.cli._data_file import arrow, find_data_file, guard_formulas
from taufpl.cli._errors import note
from taufpl.cli._options import CHUNK_ROWS, ChunkRows, Data, Json, Model, ScoringJobs
from taufpl.cli._output import check_output, id_name, percent, print_result, working

if TYPE_CHECKING:
    from taufpl._types import Mask
    from taufpl.cli._loaded_model import LoadedModel
    from taufpl.cli._row_reader import RowBatch

# The columns that every file of decisions has.
_OWN = ("score", "decision")
# The column that decisions of models with segments have beside these.
_SEGMENT = "segment"
# Rows between two words of progress on reasons.
_STEP = 100


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
    from taufpl.cli._loaded_model import Unseen, open_model
    from taufpl.cli._row_reader import RowReader, in_order

    file = find_data_file(data)
    check_output(output, data, model)
    if output.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"{output}: decisions are written as .csv or .parquet.")
    loaded = open_model(model)
    reasons = _ReasonColumns(loaded, n_reasons)
    unseen = Unseen.by(loaded)
    name = id_name(id_column, [*_OWN, *([] if loaded.limits is None else [_SEGMENT]), *reasons.names])
    n_rows = n_positive = n_guarded = 0
    batches = RowReader(file, loaded.layout, id_column=id_column).batches(chunk_rows)
    is_guarded = guard and output.suffix.lower() == ".csv"
    with working(f"reading {data}") as tell, _writer(output) as write:

        def decide(rows: RowBatch) -> tuple[RowBatch, Any, int, int]:
            table, found = _decide(loaded, rows, name, reasons, tell)
            table, n_touched = guard_formulas(table) if is_guarded else (table, 0)
            return rows, table, found, n_touched

        with in_order(decide, batches, jobs) as decided:
            for rows, table, found, n_touched in decided:
                write(table)
                unseen.update(rows)
                n_rows, n_positive, n_guarded = n_rows + len(rows), n_positive + found, n_guarded + n_touched
                tell(f"{n_rows:,} rows")
    unseen.note(file)
    if n_guarded:
        note(
            f"{output}: {n_guarded:,} texts begin as a formula does and have an apostrophe before them; "
            "--no-guard-formulas writes them as they are."
        )
    negative, positive = loaded.classes
    share = n_positive / n_rows
    document = {
        "output": str(output),
        "n_rows": n_rows,
        "n_positive": n_positive,
        "share_positive": share,
        "n_guarded": n_guarded,
        "positive_label": positive,
        "negative_label": negative,
        **unseen.record(),
    }
    facts = [("rows", f"{n_rows:,}"), (f"decided {positive}", f"{n_positive:,} ({percent(share)})")]
    print_result(document, as_json, str(output), facts)


@contextmanager
def _writer(path: Path) -> Iterator[Callable[[Any], None]]:
    """A function that writes one table after another to a file, which appears once all are written."""
    from taufpl._files import written_whole

    open_writer = arrow(".csv").CSVWriter if path.suffix.lower() == ".csv" else arrow(".parquet").ParquetWriter
    with written_whole(path) as draft, ExitStack() as stack:
        writer: Any = None

        def write(table: Any) -> None:
            nonlocal writer
            writer = writer or stack.enter_context(open_writer(draft, table.schema))
            writer.write_table(table)

        yield write


def _decide(
    model: LoadedModel, rows: RowBatch, name: str, reasons: _ReasonColumns, tell: Callable[[str], None]
) -> tuple[Any, int]:
    """A table of decisions, and how many are positive."""
    import numpy as np

    pa = arrow()
    scores = model.scores(rows)
    is_positive = scores > 0
    first = pa.array(np.arange(rows.start + 1, rows.start + len(rows) + 1)) if rows.ids is None else rows.ids
    labels = pa.array(model.classes)
    decisions = labels.take(pa.array(is_positive.astype(np.int8)))
    columns = {name: first, **dict(zip(_OWN, (pa.array(scores), decisions), strict=True))}
    if rows.segments is not None:
        columns[_SEGMENT] = pa.array(rows.segments, pa.string())
    columns |= dict(zip(reasons.names, reasons.of(rows, is_positive, tell), strict=True))
    return pa.table(columns), int(is_positive.sum())


class _ReasonColumns:
    """The columns reason_1, reason_2, ... of a file of decisions: texts for rows that are flagged, else nothing."""

    def __init__(self, model: LoadedModel, n_reasons: int) -> None:
        from taufpl.inspection import TypicalNegatives, unwrap_explainable

        self.model = model
        self.names = [f"reason_{place}" for place in range(1, n_reasons + 1)]
        try:
            if n_reasons:
                unwrap_explainable(model.model)
            self.negatives = TypicalNegatives.of_header(model.saved.header) if n_reasons else None
        except ValueError as error:
            raise ValueError(f"--reasons: {model.path}: {error}") from error

    def of(self, rows: RowBatch, is_flagged: Mask, tell: Callable[[str], None]) -> list[Any]:
        """One array of pyarrow a column."""
        import numpy as np

        from taufpl._sklearn import safe_indexing
        from taufpl.inspection import reasons

        texts: list[list[str | None]] = [[None] * len(rows) for _ in self.names]
        flagged = np.flatnonzero(is_flagged) if self.names else np.empty(0, np.intp)
        for start in range(0, flagged.size, _STEP):
            tell(f"reasons for {flagged.size:,} rows, {start:,} are done")
            some = flagged[start : start + _STEP]
            found = reasons(self.model.model, safe_indexing(rows.X, some), self.negatives, len(texts))
            for row, own in zip(some, found, strict=True):
                for place, reason in enumerate(own):
                    texts[place][row] = str(reason)
        return [arrow().array(each, arrow().string()) for each in texts]
