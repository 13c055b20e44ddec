"""The options of ``taufpl report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taufpl.cli._options import BaseRateRange, By, Data, Json, Model, Target
from taufpl.cli.commands._deferred import deferred


@deferred("taufpl.cli._report")
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
