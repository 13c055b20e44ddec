"""``taufpl report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taufpl._extras import require
from taufpl.cli._data_file import find_data_file
from taufpl.cli._options import BaseRateRange, By, Data, Json, Model, Target
from taufpl.cli._output import check_output, print_json, working

if TYPE_CHECKING:
    from taufpl._types import Array


def report(
    model: Model,
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file to write.")],
    target: Target = None,
    volume: Annotated[float, typer.Option(min=0, help="Cases that are screened a day.")] = 10_000,
    base_rate: BaseRateRange = None,
    by: By = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="A column that names the examples.", show_default="row numbers")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    examples: Annotated[int, typer.Option(min=0, max=500, help="Rows to show around the threshold; 0 for none.")] = 10,
    is_new: Annotated[
        bool, typer.Option("--new", help="Neither the model nor its threshold has seen these rows.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a report on a model as one HTML file that needs nothing else.

    A model with segments is judged by its limits; --by adds the rates of the levels of a column. Only with --new
    the report may call the promise kept. Rows that the model has seen are recognised and left out.
    """
    from taufpl.cli._loaded_model import SeenCounter, Unseen, is_training_file, open_model
    from taufpl.report import write_report

    file = find_data_file(data)
    check_output(output, data, model)
    loaded = open_model(model)
    # Row numbers are those that ``taufpl predict`` writes.
    numbered = f"Row of {data.name}, from 1"
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
            ids=_named(rows.numbers, numbered) if id_column is None else _named(rows.ids, id_column),
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


def _named(labels: Array | None, name: str | None) -> Any:
    """Labels with the name of their column."""
    return None if labels is None else require("pandas", "cli", "to hold tables").Series(labels, name=name)
