"""Options that several commands have, and how their values are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _open_unit(value: float | None) -> float | None:
    """Strictly between 0 and 1."""
    if value is not None and not 0.0 < value < 1.0:
        raise typer.BadParameter(f"must lie strictly between 0 and 1; got {value:g}.")
    return value


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, from taufpl fit.")]
Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="CSV, TSV, Parquet, Arrow, LIBSVM or npz; text may be packed as .gz.")
]
Target = Annotated[
    str | None, typer.Option("--target", help="The column with the labels. [default: the one of the training data]")
]
Tau = Annotated[float, typer.Option("--tau", callback=_open_unit, help="Tolerated false-positive rate.")]
OtherTau = Annotated[float | None, typer.Option("--tau", callback=_open_unit, help="[default: the model's]")]
Delta = Annotated[
    float, typer.Option("--delta", callback=_open_unit, help="Probability with which the tolerance may be exceeded.")
]
OtherDelta = Annotated[float | None, typer.Option("--delta", callback=_open_unit, help="[default: the model's]")]
Share = Annotated[
    float | None,
    typer.Option(
        "--holdout", callback=_open_unit, help="Share of the negatives that np holds out. [default: one half, or less]"
    ),
]
BaseRate = Annotated[
    float | None, typer.Option("--base-rate", callback=_open_unit, help="Share of positives. [default: as in DATA]")
]
ChunkRows = Annotated[int, typer.Option("--chunk-rows", min=1, help="Rows that are held in memory at a time.")]
