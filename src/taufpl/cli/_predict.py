"""``taufpl predict``: scores and decisions for files of any length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from taufpl._files import written_whole
from taufpl.cli._data_file import find_data_file
from taufpl.cli._errors import note
from taufpl.cli._formulas import guard_formulas
from taufpl.cli._in_order import in_order
from taufpl.cli._loaded_model import LoadedModel, open_model
from taufpl.cli._output import check_output, id_name, percent, print_result, working
from taufpl.cli._reasons import ReasonColumns
from taufpl.cli._row_reader import RowBatch, RowReader
from taufpl.cli._tables import arrow
from taufpl.cli._unseen import Unseen

# The columns that every file of decisions has.
_OWN = ("score", "decision")
# The column that decisions of models with segments have beside these.
_SEGMENT = "segment"


def predict_command(
    model: Path,
    data: Path,
    output: Path,
    id_column: str | None,
    guard: bool,
    n_reasons: int,
    chunk_rows: int,
    jobs: int,
    as_json: bool,
) -> None:
    """Run ``taufpl predict``."""
    file = find_data_file(data)
    check_output(output, data, model)
    if output.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"{output}: decisions are written as .csv or .parquet.")
    loaded = open_model(model)
    reasons = ReasonColumns(loaded, n_reasons)
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
    _note_guarded(output, n_guarded)
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
    open_writer = arrow(".csv").CSVWriter if path.suffix.lower() == ".csv" else arrow(".parquet").ParquetWriter
    with written_whole(path) as draft, ExitStack() as stack:
        writer: Any = None

        def write(table: Any) -> None:
            nonlocal writer
            writer = writer or stack.enter_context(open_writer(draft, table.schema))
            writer.write_table(table)

        yield write


def _note_guarded(output: Path, n_guarded: int) -> None:
    if n_guarded:
        note(
            f"{output}: {n_guarded:,} texts begin as a formula does and have an apostrophe before them; "
            "--no-guard-formulas writes them as they are."
        )


def _decide(
    model: LoadedModel, rows: RowBatch, name: str, reasons: ReasonColumns, tell: Callable[[str], None]
) -> tuple[Any, int]:
    """A table of decisions, and how many are positive."""
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
