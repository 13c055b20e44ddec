"""The options of ``taufpl plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taufpl.cli._errors import CommandLineError
from taufpl.cli._options import Json, PlannedDelta, PlannedTau, Target
from taufpl.cli.commands._deferred import deferred


@deferred("taufpl.cli._plan")
def plan(
    model: Annotated[Path | None, typer.Argument(metavar="MODEL", help="A model file, to tell the recall.")] = None,
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="Labelled rows that the model has not seen.")
    ] = None,
    tau: PlannedTau = None,
    delta: PlannedDelta = None,
    negatives: Annotated[
        int | None,
        typer.Option("--negatives", min=1, help="Negatives at hand, N.", show_default="what a proof needs"),
    ] = None,
    target: Target = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A picture to write, .png.")] = None,
    as_json: Json = False,
) -> None:
    """Plan how many negatives to label: what a proof needs, and what N, 2N and 10N of them bring.

    The fewer negatives choose the threshold, the more of the tolerance stays unused. With MODEL and DATA the plan tells
    the recall that each number would give; of a model with --looks it is about the next threshold. It is about one
    threshold for all rows, not about models with segments.
    """
    if model is not None and data is None:
        raise CommandLineError("MODEL needs DATA, too: the recall is that of a model on labelled rows.")
