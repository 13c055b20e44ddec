"""Options that several commands have, and how their values are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

# A guarantee at a tolerance takes more than 3 / tau negatives: below this one there are no such files.
_LEAST_TAU = 1e-12


def _share(value: str | float) -> float:
    """A number strictly between 0 and 1; whoever means percent is told how to write it."""
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        raise typer.BadParameter(_as_share(text)) from None
    if not 0.0 < number < 1.0:
        hint = f" It is a share: {_percent(number)}" if 1.0 <= number < 100.0 else ""
        raise typer.BadParameter(f"must lie strictly between 0 and 1; got {number:g}.{hint}")
    return number


def _as_share(text: str) -> str:
    """What is wrong with a text that should be a number, and the number that may be meant."""
    bare = text.removesuffix("%").strip().replace(",", ".")
    try:
        number = float(bare)
    except ValueError:
        return f"must be a number strictly between 0 and 1; got {text!r}."
    if text.endswith("%"):
        hint = _percent(number) if 0.0 < number < 100.0 else "1 % is 0.01."
        return f"must be a share, a number strictly between 0 and 1; got {text!r}. {hint}"
    return f"must be a number with a decimal point; got {text!r}. Did you mean {bare}?"


def _percent(number: float) -> str:
    return f"{number:g} % is {number / 100.0:g}."


def _tolerance(value: str | float) -> float:
    tau = _share(value)
    if tau < _LEAST_TAU:
        raise typer.BadParameter(
            f"must be at least {_LEAST_TAU:g}; got {tau:g}, at which a guarantee takes more than "
            f"{3.0 / _LEAST_TAU:,.0f} negatives."
        )
    return tau


def _share_option(name: str, what: str, parser: Any = _share) -> Any:
    return typer.Option(name, parser=parser, metavar="SHARE", help=what)


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, from taufpl fit.")]
Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="CSV, TSV, Parquet, Arrow, LIBSVM or npz; text may be packed as .gz.")
]
Target = Annotated[
    str | None, typer.Option("--target", help="The column with the labels. [default: the one of the training data]")
]
Tau = Annotated[float, _share_option("--tau", "Tolerated false-positive rate; 0.01 is 1 %.", _tolerance)]
OtherTau = Annotated[float | None, _share_option("--tau", "[default: the model's]", _tolerance)]
Delta = Annotated[float, _share_option("--delta", "Probability with which the tolerance may be exceeded.")]
OtherDelta = Annotated[float | None, _share_option("--delta", "[default: the model's]")]
Share = Annotated[
    float | None,
    _share_option(
        "--holdout", "Share of the negatives that np holds out. [default: about one half, or what a proof takes]"
    ),
]
BaseRate = Annotated[float | None, _share_option("--base-rate", "Share of positives. [default: as in DATA]")]
ChunkRows = Annotated[int, typer.Option("--chunk-rows", min=1, help="Rows that are held in memory at a time.")]
