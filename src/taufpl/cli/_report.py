"""``taufpl report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from taufpl.cli._fresh import Comparison, is_training_file
from taufpl.cli._options import BaseRate, Data, Model, Target
from taufpl.cli._output import Json, check_output, print_json, working
from taufpl.cli._rows import load_rows
from taufpl.cli._saved import open_model
from taufpl.cli._source import find_source
from taufpl.cli._unseen import note_unseen, unseen_counter
from taufpl.report import write_report


def report_command(
    model: Model,
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file to write.")],
    target: Target = None,
    volume: Annotated[float, typer.Option(min=0, help="Cases that are screened a day.")] = 10_000,
    base_rate: BaseRate = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    examples: Annotated[int, typer.Option(min=0, max=500, help="Rows to show around the threshold; 0 for none.")] = 10,
    is_new: Annotated[
        bool, typer.Option("--new", help="Neither the model nor its threshold has seen these rows.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a report on a model as one HTML file that needs nothing else.

    Only with --new it may call the promise kept. Rows that the model has seen are recognised and left out of it.
    """
    source = find_source(data)
    check_output(output, data, model)
    saved = open_model(model)
    with working(f"reading {data}") as tell:
        rows = load_rows(source, saved.layout, saved.classes, saved.target_in(source, target))
        assert rows.labels is not None
        y = np.asarray(saved.head.classes_)[rows.labels]
        comparison = Comparison(source, saved)
        comparison.hits(rows)
        n_seen = None if (found := comparison.judge_and_note()) is None else found.n_seen
        trained_on = n_seen == len(rows) or is_training_file(saved, rows)
        unseen_values = unseen_counter(saved)
        unseen_values.update(rows.X)
        tell(f"writing {output}")
        write_report(
            saved.model,
            rows.X,
            y,
            output,
            title=title,
            volume_per_day=volume,
            base_rate=base_rate,
            n_examples=examples,
            data_is_new=False if trained_on else True if is_new else None,
            seen=saved.seen,
            unseen_values=unseen_values,
        )
    note_unseen(source.name, unseen_values)
    document = {
        "output": str(output),
        "n_rows": len(rows),
        "n_seen_before": n_seen,
        "trained_on": trained_on,
        "unseen": unseen_values.record(),
    }
    if as_json:
        print_json(document)
    else:
        print(f"{output}: {len(rows):,} rows{', which the model has seen' if trained_on else ''}")
