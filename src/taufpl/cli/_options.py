"""Options of commands as types, and how their values are checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from taufpl._choices import ANY, EFFORTS, THRESHOLDS

# Models of the command: the stack, which does its own preprocessing; the rankings of this library; and scorers of
# scikit-learn that get a threshold of this library.
RANKINGS = ("linear", "paper", "kernel")
MODELS = ("auto", *RANKINGS, "logistic", "boosting", "forest")
USUAL_EFFORT = "normal"
# Rows that are held in memory at a time.
CHUNK_ROWS = 65_536
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


class ShareRange(NamedTuple):
    """The lowest and the highest value of a share."""

    low: float
    high: float

    @property
    def value(self) -> float | tuple[float, float]:
        """One share where both are the same."""
        return self.low if self.low == self.high else (self.low, self.high)


def _share_range(value: str) -> ShareRange:
    """LOW:HIGH, or one share."""
    found = ShareRange(*(_share(each) for each in (value.split(":") * 2)[:2])) if value.count(":") < 2 else None
    if found is None or found.low > found.high:
        raise typer.BadParameter(f"must be a share, or LOW:HIGH with the lower share first; got {value!r}.")
    return found


def _tolerance(value: str | float) -> float:
    tau = _share(value)
    if tau < _LEAST_TAU:
        raise typer.BadParameter(
            f"must be at least {_LEAST_TAU:g}; got {tau:g}, at which a guarantee takes more than "
            f"{3.0 / _LEAST_TAU:,.0f} negatives."
        )
    return tau


class SegmentTolerance(NamedTuple):
    """A segment, as canonical text, and its tolerance."""

    segment: str
    tau: float


def _segment_tolerance(value: str) -> SegmentTolerance:
    """NAME=SHARE; the name may have an equals sign in it."""
    name, equals, share = value.rpartition("=")
    if not equals or not name.strip():
        raise typer.BadParameter(f"must be a segment and its tolerance, such as EU=0.005; got {value!r}.")
    tau = _tolerance(share)
    from taufpl.thresholding import level_text

    return SegmentTolerance(level_text(name), tau)


def _one_of(names: Iterable[str]) -> Callable[[str], str]:
    """A parser that takes one of these names."""

    def parse(value: str) -> str:
        if value not in names:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, names))}.")
        return value

    return parse


def _models(value: str) -> str:
    """Names of models between commas, of which none is strange."""
    names = [name.strip() for name in value.split(",") if name.strip()]
    strange = [name for name in names if name not in MODELS]
    if strange or not names:
        known = ", ".join(MODELS)
        raise typer.BadParameter(f"must be names between commas, of {known}; got {value!r}.")
    return ",".join(names)


def _penalty(value: str | float) -> str | float:
    try:
        if value == "cv" or 0.0 < float(value) < math.inf:
            return "cv" if value == "cv" else float(value)
    except ValueError:
        pass
    raise typer.BadParameter(f"must be cv or a number above 0; got {value!r}.")


def _looks(value: str | int) -> int | str:
    """A number of thresholds, or any."""
    text = str(value).strip()
    if text == ANY:
        return ANY
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"must be any, or how many thresholds there will be, 1 or more; got {value!r}.")
    return int(text)


def _jobs(value: int | None) -> int | None:
    if value == 0:
        raise typer.BadParameter("must be a number above 0, or -1 for all cores, -2 for all but one, ...; got 0.")
    return value


def _option(name: str, what: str, parser: Any = _share, metavar: str = "SHARE", default: str | bool = True) -> Any:
    return typer.Option(name, parser=parser, metavar=metavar, help=what, show_default=default)


_THRESHOLDS = ("auto", *THRESHOLDS)

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, from taufpl fit.")]
Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="CSV, TSV, Parquet, Arrow, LIBSVM or npz; text may be packed as .gz.")
]
Target = Annotated[
    str | None, typer.Option("--target", help="The column with the labels.", show_default="that of the training data")
]
Tau = Annotated[float, _option("--tau", "Tolerated false-alarm rate (FPR); 0.01 is 1 %.", _tolerance)]
TauOrBudget = Annotated[
    float | None,
    _option("--tau", "Tolerated false-alarm rate (FPR); 0.01 is 1 %.", _tolerance, default="0.01"),
]
AlarmsPerDay = Annotated[
    int | None,
    typer.Option(
        "--alarms-per-day", min=1, help="In the place of --tau: all alarms, false and true, that a day may have."
    ),
]
Volume = Annotated[int | None, typer.Option("--volume", min=1, help="Rows a day, for --alarms-per-day.")]
MostPositives = Annotated[
    float | None,
    _option(
        "--base-rate",
        "The largest share of positives in the traffic.",
        default="an upper bound from the labels in DATA",
    ),
]
PlannedTau = Annotated[float | None, _option("--tau", "Tolerated FPR.", _tolerance, default="the model's, or 0.01")]
PlannedDelta = Annotated[float | None, _option("--delta", "Confidence is 1 - delta.", default="the model's, or 0.05")]
OtherTau = Annotated[float | None, _option("--tau", "Tolerated FPR.", _tolerance, default="the model's")]
Delta = Annotated[float, _option("--delta", "Probability of an FPR above the tolerance; confidence is 1 - delta.")]
OtherDelta = Annotated[float | None, _option("--delta", "Confidence is 1 - delta.", default="the model's")]
Threshold = Annotated[
    str,
    _option(
        "--threshold",
        "How the threshold is chosen. auto: np, or cross with too few negatives. "
        + " ".join(f"{name}: {summary}." for name, summary in THRESHOLDS.items()),
        _one_of(_THRESHOLDS),
        "|".join(_THRESHOLDS),
    ),
]
ModelName = Annotated[
    str,
    _option(
        "--model",
        "auto: boosting, forests and others, joined; linear: the automatic ranking, which SQL can run; paper: tau-FPL; "
        "kernel: the same with a kernel; or of scikit-learn.",
        _one_of(MODELS),
        "|".join(MODELS),
    ),
]
Models = Annotated[str, _option("--models", "Models to compare, with commas between them.", _models, "NAME,NAME,...")]
Effort = Annotated[
    str | None,
    _option("--effort", "How much time --model auto takes.", _one_of(EFFORTS), "|".join(EFFORTS), default=USUAL_EFFORT),
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
BaseRateRange = Annotated[
    ShareRange | None,
    _option(
        "--base-rate",
        "Share of positives in the traffic, or its range, for which precision is bounded.",
        _share_range,
        "SHARE|LOW:HIGH",
        default="as in DATA, without a bound",
    ),
]
By = Annotated[str | None, typer.Option("--by", help="A column of DATA: rates for each of its levels, too.")]
Looks = Annotated[
    str,
    _option(
        "--looks",
        "How many thresholds, by fit and recalibrate, share delta: recalibrate refuses one more. any: negatives add "
        "up, and all thresholds hold together. 1: every threshold has its own delta.",
        _looks,
        "NUMBER|any",
    ),
]
ChunkRows = Annotated[int, typer.Option("--chunk-rows", min=1, help="Rows of a batch, which is held in memory.")]
Positive = Annotated[
    str | None, typer.Option("--positive", help="The label to find.", show_default="the larger number, true, yes")
]
Score = Annotated[
    str | None,
    typer.Option("--score", help="A column of scores from a scorer of yours: only the threshold is chosen, for it."),
]
LowerIsPositive = Annotated[bool, typer.Option("--lower-is-positive", help="Of --score: low scores mean positive.")]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="Leave this column out; may be given several times.")]
Group = Annotated[
    str | None,
    typer.Option("--group", help="A column whose equal values say which rows belong together: a customer, a device."),
]
Segment = Annotated[
    str | None,
    typer.Option("--segment", help="A column: each of its levels gets a threshold, and all tolerances hold together."),
]
TauFor = Annotated[
    list[SegmentTolerance] | None,
    _option(
        "--tau-for",
        "Tolerance of one segment; may be given several times. --tau is that of all others.",
        _segment_tolerance,
        "NAME=SHARE",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        callback=_jobs,
        help="Fits at the same time; -1 for all cores, -2 for all but one. By default one; linear fits on 2 to 20 "
        "million values then take all cores.",
    ),
]
ScoringJobs = Annotated[
    int,
    typer.Option(
        "--jobs", callback=_jobs, help="Batches scored at the same time; -1 for all cores, -2 for all but one."
    ),
]
TrainingTarget = Annotated[
    str | None, typer.Option("--target", help="The column with the labels; LIBSVM and npz have y.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the random division of rows.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
