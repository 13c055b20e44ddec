"""The options of ``taufpl fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from taufpl._choices import USUAL_DELTA
from taufpl.cli._errors import CommandLineError
from taufpl.cli._options import (
    AlarmsPerDay,
    Data,
    Delta,
    Drop,
    Effort,
    Group,
    Holdout,
    Jobs,
    Json,
    Looks,
    LowerIsPositive,
    ModelName,
    MostPositives,
    Penalty,
    Positive,
    Score,
    Seed,
    Segment,
    TauFor,
    TauOrBudget,
    Threshold,
    TrainingTarget,
    Volume,
)
from taufpl.cli.commands._deferred import deferred
from taufpl.cli.commands._refusals import (
    refuse_beside_budget,
    refuse_beside_score,
    refuse_beside_segment,
    refuse_tolerances,
)

# Groups of options in the help, in the order of the parameters.
_PANELS = {
    "Rows and columns": ("target", "positive", "drop", "group", "time_column"),
    "Tolerance and threshold": ("tau", "delta", "threshold", "holdout", "looks"),
    "Model": ("model", "effort", "reg", "seed", "jobs"),
    "A tolerance for each segment": ("segment", "tau_for"),
    "Scores of your own": ("score", "lower_is_positive"),
    "A budget of alarms in the place of --tau": ("alarms_per_day", "volume", "base_rate"),
}


@deferred("taufpl.cli._fit")
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="The model file to write, by custom .skops.")],
    as_json: Json = False,
    target: TrainingTarget = None,
    positive: Positive = None,
    drop: Drop = None,
    group: Group = None,
    time_column: Annotated[
        str | None,
        typer.Option("--time", help="A column that says when a row came: the latest negatives choose the threshold."),
    ] = None,
    tau: TauOrBudget = None,
    delta: Delta = USUAL_DELTA,
    threshold: Threshold = "auto",
    holdout: Holdout = None,
    looks: Looks = "1",
    model: ModelName = "auto",
    effort: Effort = None,
    reg: Penalty = "cv",
    seed: Seed = 0,
    jobs: Jobs = None,
    segment: Segment = None,
    tau_for: TauFor = None,
    score: Score = None,
    lower_is_positive: LowerIsPositive = False,
    alarms_per_day: AlarmsPerDay = None,
    volume: Volume = None,
    base_rate: MostPositives = None,
) -> None:
    """Fit a model on a file and write it, with its preprocessing, to another.

    Numbers are filled and scaled, texts become one feature a level, dates a few numbers; identifiers and constant
    columns are left out. What was done is printed and kept in the model file. --model auto, the default, joins
    boosting, forests and others, and prints how each stands at the tolerance.

    --segment country gives every country a threshold, --score model_score chooses one for scores that the file has
    already, and --alarms-per-day finds the tolerance that a budget allows.
    """
    if score is not None:
        refuse_beside_score(model, threshold, effort, reg, holdout, drop, time_column)
    elif lower_is_positive:
        raise CommandLineError("--lower-is-positive is about the column of --score, which is not given.")
    if reg != "cv" and model not in ("paper", "kernel"):
        raise CommandLineError(f"--reg {reg} is the penalty of --model paper and kernel; --model {model} has none.")
    refuse_tolerances(segment, tau_for or ())
    if segment is not None:
        refuse_beside_segment(model, threshold, alarms_per_day)
    refuse_beside_budget(alarms_per_day, volume, base_rate, tau, threshold, group)


class FitCommand(TyperCommand):
    """``fit``, whose help shows its many options in groups."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        panels = {name: panel for panel, names in _PANELS.items() for name in names}
        for option in self.params:
            if option.name in panels:
                option.rich_help_panel = panels[option.name]  # type: ignore[attr-defined]
