"""The options of ``taufpl demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taufpl.cli._options import Json
from taufpl.cli.commands._deferred import deferred


@deferred("taufpl.cli._demo")
def demo(
    folder: Annotated[Path, typer.Option("-o", "--folder", help="Where pictures and report go.")] = Path("demo"),
    as_json: Json = False,
) -> None:
    """Screen mail for spam at a tolerance of 1 %: six ways, on mail that none of them has seen.

    One of them is what people do by hand: the threshold is the quantile of the scores that the training rows get.
    """
