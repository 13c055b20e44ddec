"""The options of ``taufpl recalibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taufpl.cli._options import Json, Model, Target
from taufpl.cli.commands._deferred import deferred


@deferred("taufpl.cli._recalibrate")
def recalibrate(
    model: Model,
    negatives: Annotated[Path, typer.Argument(metavar="NEGATIVES", help="Rows that the model has never seen.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The model file to write.", show_default="MODEL is replaced")
    ] = None,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart", help="Of a model with --looks any: forget its negatives, for half of the delta left."
        ),
    ] = False,
    target: Target = None,
    as_json: Json = False,
) -> None:
    """Choose the threshold anew from fresh negatives, with a guarantee; the scorer stays as it is.

    Where the file has the column with the labels, its negatives choose and its positives tell the recall. Without that
    column all rows count as negatives, and the result says so. Where the model was fitted with --group, the file must
    have that column, too.
    """
