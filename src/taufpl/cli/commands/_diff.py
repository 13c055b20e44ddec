"""The options of ``taufpl diff``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taufpl.cli._errors import CommandLineError
from taufpl.cli._options import Json, Target
from taufpl.cli.commands._deferred import deferred


@deferred("taufpl.cli._diff")
def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A model file.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Another one.")],
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="Rows: which of them change sides?", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write all rows that change sides: .csv or .parquet.")
    ] = None,
    target: Target = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="A column to take along.", show_default="row numbers")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what changed between two models, and on a file which rows change sides.

    Settings, thresholds, columns, versions and history are compared; where NEW was made from OLD by recalibrate, that
    is said. With DATA every row is decided by both, and those that change sides are counted, by label where DATA has
    the column with the labels.
    """
    if data is None and (output or target or id_column):
        given = "-o" if output else "--target" if target else "--id"
        raise CommandLineError(f"{given} is about rows: give DATA, too.")
