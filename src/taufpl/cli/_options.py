"""Options of commands as types, and how their values are checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from taufpl.cli._pipelines import MODELS
from taufpl.estimators.strategies import STRATEGIES

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


def _one_of(names: Iterable[str]) -> Callable[[str], str]:
    """A parser that takes one of these names."""

    def parse(value: str) -> str:
        if value not in names:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, names))}.")
        return value

    return parse


def _penalty(value: str | float) -> str | float:
    try:
        if value == "cv" or 0.0 < float(value) < math.inf:
            return "cv" if value == "cv" else float(value)
    except ValueError:
        pass
    raise typer.BadParameter(f"must be cv or a number above 0; got {value!r}.")


def _option(name: str, what: str, parser: Any = _share, metavar: str = "SHARE", default: str | bool = True) -> Any:
    return typer.Option(name, parser=parser, metavar=metavar, help=what, show_default=default)


_THRESHOLDS = ("auto", *STRATEGIES)

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, from taufpl fit.")]
Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="CSV, TSV, Parquet, Arrow, LIBSVM or npz; text may be packed as .gz.")
]
Target = Annotated[
    str | None, typer.Option("--target", help="The column with the labels.", show_default="that of the training data")
]
Tau = Annotated[float, _option("--tau", "Tolerated false-alarm rate (FPR); 0.01 is 1 %.", _tolerance)]
OtherTau = Annotated[float | None, _option("--tau", "Tolerated FPR.", _tolerance, default="the model's")]
Delta = Annotated[float, _option("--delta", "Probability of an FPR above the tolerance; confidence is 1 - delta.")]
OtherDelta = Annotated[float | None, _option("--delta", "Confidence is 1 - delta.", default="the model's")]
Threshold = Annotated[
    str,
    _option(
        "--threshold",
        "How the threshold is chosen. auto: np, or cross with too few negatives. "
        + " ".join(f"{name}: {strategy.summary}." for name, strategy in STRATEGIES.items()),
        _one_of(_THRESHOLDS),
        "|".join(_THRESHOLDS),
    ),
]
ModelName = Annotated[
    str,
    _option(
        "--model",
        "linear: the automatic ranking; paper: tau-FPL; kernel: the same with a kernel; or of scikit-learn.",
        _one_of(MODELS),
        "|".join(MODELS),
    ),
]
Penalty = Annotated[
    str, _option("--reg", "Penalty of --model paper or kernel; cv chooses it by folds.", _penalty, "cv|NUMBER")
]
Holdout = Annotated[
    float | None,
    _option(
        "--holdout",
        "Share of the negatives that np holds out to choose the threshold.",
        default="about one half, or what a proof takes",
    ),
]
BaseRate = Annotated[float | None, _option("--base-rate", "Share of positives.", default="as in DATA")]
ChunkRows = Annotated[int, typer.Option("--chunk-rows", min=1, help="Rows that are held in memory at a time.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the random division of rows.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
