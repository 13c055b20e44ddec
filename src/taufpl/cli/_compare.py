"""``taufpl compare``: what each model would find under the tolerance, on rows that it was fitted without."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taufpl._choices import USUAL_DELTA
from taufpl.cli._data_file import find_data_file
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
from taufpl.cli._output import check_output, confidence, percent, print_json, print_rows, progress_bar, working

if TYPE_CHECKING:
    from taufpl._types import Mask
    from taufpl.cli._training_file import EvaluatedModel, Evaluation, FitOptions

_USUAL_MODELS = "auto,linear,logistic,boosting,forest"


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
    from taufpl._files import write_whole
    from taufpl.cli._training_file import FitOptions, cross_evaluate, effort_for, read_source
    from taufpl.report import render_comparison

    names = list(dict.fromkeys(models.split(",")))
    options = FitOptions(
        target=target, positive=positive, drop=tuple(drop or ()), group=group, tau=tau, delta=delta,
        threshold=threshold, effort=effort_for(effort, names), holdout="auto" if holdout is None else holdout,
        seed=seed, jobs=jobs,
    )  # fmt: skip
    if output is not None:
        check_output(output, data)
    began = time.perf_counter()
    file = find_data_file(data)
    with working(f"reading {file.name}"):
        source = read_source(file, options)
    with progress_bar("comparing") as move:
        evaluation = cross_evaluate(source, options, names, folds, move)
    document = {
        "data": file.name,
        **_document(evaluation, options),
        "seconds": time.perf_counter() - began,
    }
    if output is not None:
        write_whole(output, render_comparison(document).encode())
        document["output"] = str(output)
    if as_json:
        print_json(document)
    else:
        _print(document)


def _document(evaluation: Evaluation, options: FitOptions) -> dict[str, Any]:
    """Rates of every model with their bounds, the best first, and what the figures mean."""
    is_negative = evaluation.is_counted & ~evaluation.is_positive
    is_positive = evaluation.is_counted & evaluation.is_positive
    rows = [_rates(model, evaluation, is_negative, is_positive, options) for model in evaluation.models]
    best = max(rows, key=lambda row: (row["guaranteed"], row["verdict"] != "broken", row["recall"]))
    of_best = next(model for model in evaluation.models if model.name == best["model"])
    for row, model in zip(rows, evaluation.models, strict=True):
        row["n_found_by_this_alone"] = int((model.flagged & ~of_best.flagged & is_positive).sum())
        row["n_found_by_best_alone"] = int((of_best.flagged & ~model.flagged & is_positive).sum())
    rows.sort(key=lambda row: (row is not best, -row["recall"]))
    document = {
        "tau": options.tau,
        "delta": options.delta,
        "n_folds": evaluation.n_folds,
        "group": options.group,
        "effort": options.effort if "auto" in (row["model"] for row in rows) else None,
        "n_negative": int(is_negative.sum()),
        "n_positive": int(is_positive.sum()),
        "n_left_out": int((~evaluation.is_counted).sum()),
        "best": best["model"],
        "models": rows,
    }
    return {**document, "notes": _notes(document)}


def _rates(
    model: EvaluatedModel, evaluation: Evaluation, is_negative: Mask, is_positive: Mask, options: FitOptions
) -> dict[str, Any]:
    """What one model does to the rows that count."""
    from taufpl.thresholding import fpr_upper_bound, share_interval, share_lower_bound, tolerance_verdict

    n_negative, n_positive = int(is_negative.sum()), int(is_positive.sum())
    n_false, n_found = int((model.flagged & is_negative).sum()), int((model.flagged & is_positive).sum())
    low, high = share_interval(n_found, n_positive, options.delta)
    of_folds = [model.flagged[is_negative & (evaluation.folds == fold)].mean() for fold in range(evaluation.n_folds)]
    return {
        "model": model.name,
        "n_found": n_found,
        "recall": n_found / n_positive,
        "recall_low": low,
        "recall_high": high,
        "n_false_alarms": n_false,
        "fpr": n_false / n_negative,
        "fpr_lower_bound": share_lower_bound(n_false, n_negative, options.delta),
        "fpr_upper_bound": fpr_upper_bound(n_false, n_negative, options.delta),
        "fpr_of_folds": [float(rate) for rate in of_folds],
        "verdict": tolerance_verdict(n_false, n_negative, options.tau, options.delta),
        "guaranteed": all(model.guaranteed),
        "caveats": list(model.caveats),
        "strategies": list(model.strategies),
        "seconds": model.seconds,
    }


def _notes(document: dict[str, Any]) -> list[str]:
    """What the figures mean, a sentence or two each."""
    tau, delta, n_folds, n_models = (
        percent(document["tau"]), document["delta"], document["n_folds"], len(document["models"]),
    )  # fmt: skip
    rows = "Every row" if document["group"] is None else f"One row of every {document['group']} and class"
    notes = [
        f"{rows} is scored once by each model, fitted without it on {n_folds - 1}/{n_folds} of the rows: columns, "
        "preprocessing and threshold included. taufpl fit takes all rows: its threshold rests on more negatives, so "
        "that it usually finds a little more.",
        f"Guaranteed: P(FPR > {tau}) <= {delta:g} is proven for each of the {n_folds} fits, by negatives among its own "
        f"rows that chose its threshold. FPR and recall are means over the {n_folds} fits, measured on rows that they "
        f"have not seen; bounds and intervals are at {confidence(delta)}, for one model at a time.",
    ]
    if n_models > 1:
        notes.append(
            f"Whoever takes the best of {n_models} models by this table and fits it on the same rows has looked at the "
            f"negatives that will choose the threshold: take --delta {delta / n_models:.3g} there, {delta:g} / "
            f"{n_models}, for the same promise; or fit on other rows. A model that was chosen beforehand needs neither."
        )
    caveats = {row["model"]: row["caveats"] for row in document["models"] if row["caveats"] and not row["guaranteed"]}
    notes += [f"{name} is not guaranteed: {'; '.join(own)}." for name, own in caveats.items()]
    if document["n_left_out"]:
        what = "copies of others" if document["group"] is None else f"more of one {document['group']}"
        notes.append(f"{document['n_left_out']:,} rows are {what}: they are fitted on, but not counted.")
    return notes


def _print(document: dict[str, Any]) -> None:
    rows = [
        [
            row["model"],
            percent(row["recall"]),
            f"{percent(row['recall_low'])} to {percent(row['recall_high'])}",
            "best" if row["model"] == document["best"]
            else f"+{row['n_found_by_this_alone']:,} / -{row['n_found_by_best_alone']:,}",
            percent(row["fpr"]),
            percent(row["fpr_upper_bound"]),
            row["verdict"],
            "yes" if row["guaranteed"] else "no",
            f"{row['seconds']:.1f}",
        ]
        for row in document["models"]
    ]  # fmt: skip
    print_rows(
        f"{document['data']}: {document['n_negative']:,} negatives and {document['n_positive']:,} positives at a "
        f"tolerance of {percent(document['tau'])}",
        [
            "model", "recall", "interval", "found / missed beside best", "FPR", "at most", "tolerance", "guaranteed",
            "seconds",
        ],
        rows,
        numeric=(1, 3, 4, 5, 8),
    )  # fmt: skip
    for text in document["notes"]:
        print(f"- {text}")
    if "output" in document:
        print(document["output"])
