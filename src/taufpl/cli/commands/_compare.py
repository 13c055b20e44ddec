"""The options of ``taufpl compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taufpl._choices import USUAL_DELTA
from taufpl.cli._options import (
    Data,
    Delta,
    Drop,
    Effort,
    Group,
    Holdout,
    Jobs,
    Json,
    Models,
    Positive,
    Seed,
    Tau,
    Threshold,
    TrainingTarget,
)
from taufpl.cli.commands._deferred import deferred

_USUAL_MODELS = "auto,linear,logistic,boosting,forest"


@deferred("taufpl.cli._compare")
def compare(
    data: Data,
    target: TrainingTarget = None,
    tau: Tau = 0.01,
    delta: Delta = USUAL_DELTA,
    threshold: Threshold = "auto",
    models: Models = _USUAL_MODELS,
    effort: Effort = None,
    folds: Annotated[
        int, typer.Option("--folds", min=2, help="Parts of the rows, each scored by fits on the others.")
    ] = 5,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="An HTML page to write, with a picture.", show_default="none")
    ] = None,
    positive: Positive = None,
    drop: Drop = None,
    group: Group = None,
    holdout: Holdout = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Fit several models on parts of a file, and say what each finds in the rest under the tolerance.

    Each row is scored once by every model, fitted without it: columns, preprocessing, candidates and threshold
    included. No model is written. FPR, the false-alarm rate, is the share of negatives that are flagged; recall is that
    of positives.
    """
