"""The options of ``taufpl reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taufpl._choices import EXPERIMENTS
from taufpl.cli.commands._deferred import deferred


@deferred("taufpl.cli._reproduce")
def reproduce(
    experiment: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}; all of them by default.")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Run on this dataset; may be given several times. [default: all at hand]")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Run this method; may be given several times. [default: all]")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="[default: 30 for up to 10,000 rows, 10 above, as in the paper]")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Trials at the same time; -1 for all cores.")] = 1,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="The smallest sets, 2 rounds, thin grids.")] = False,
    folder: Annotated[Path | None, typer.Option("-o", "--folder", help="[default: results, or results-quick]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Run the paper's experiments again and write tables, pictures and raw rounds.

    Interrupted, the same command goes on where it was.
    """
