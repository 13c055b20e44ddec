"""``taufpl report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taufpl._extras import require
from taufpl._types import Array
from taufpl.cli._data_file import DataFile, find_data_file
from taufpl.cli._loaded_model import open_model
from taufpl.cli._options import ShareRange
from taufpl.cli._output import check_output, print_json, working
from taufpl.cli._seen import SeenCounter, is_training_file
from taufpl.cli._unseen import Unseen
from taufpl.report import write_report


def report_command(
    model: Path,
    data: Path,
    output: Path,
    target: str | None,
    volume: float,
    base_rate: ShareRange | None,
    by: str | None,
    id_column: str | None,
    title: str | None,
    examples: int,
    is_new: bool,
    as_json: bool,
) -> None:
    """Run ``taufpl report``."""
    file = find_data_file(data)
    check_output(output, data, model)
    loaded = open_model(model)
    with working(f"reading {data}") as tell:
        rows = loaded.labelled_reader(file, target, id_column, by).load()
        seen = SeenCounter(file, loaded)
        seen.hits(rows)
        n_seen = seen.note().n_seen
        trained_on = n_seen == len(rows) or seen.chose_threshold or is_training_file(loaded, rows)
        unseen = Unseen.by(loaded)
        unseen.update(rows)
        tell(f"writing {output}")
        write_report(
            loaded.model,
            rows.X,
            loaded.labels(rows),
            output,
            title=title,
            volume_per_day=volume,
            base_rate=None if base_rate is None else base_rate.value,
            n_examples=examples,
            ids=_named(rows.numbers, _numbered(file)) if id_column is None else _named(rows.ids, id_column),
            data_is_new=False if trained_on else True if is_new else None,
            seen=loaded.saved.seen,
            unseen_values=unseen.values,
            segments=_named(rows.segments if loaded.limits is not None else None, loaded.layout.segment),
            by=_named(rows.levels, by),
        )
    unseen.note(file)
    document = {
        "output": str(output),
        "n_rows": len(rows),
        "n_seen_before": n_seen,
        "trained_on": trained_on,
        **unseen.record(),
    }
    if as_json:
        print_json(document)
    else:
        print(f"{output}: {len(rows):,} rows{', which the model has seen' if trained_on else ''}")


def _numbered(file: DataFile) -> str:
    """What the report calls row numbers, which are those that ``taufpl predict`` writes."""
    return f"Row of {file.name if file.path is None else file.path.name}, from 1"


def _named(labels: Array | None, name: str | None) -> Any:
    """Labels with the name of their column."""
    return None if labels is None else require("pandas", "cli", "to hold tables").Series(labels, name=name)
