"""``taufpl plan``: how many negatives a proof needs, and what more of them would bring."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taufpl._choices import ANY, USUAL_DELTA
from taufpl._extras import require
from taufpl.cli._data_file import find_data_file
from taufpl.cli._errors import CommandLineError
from taufpl.cli._options import Json, PlannedDelta, PlannedTau, Target
from taufpl.cli._output import check_output, confidence, looks_in_words, percent, print_json, print_rows, working

if TYPE_CHECKING:
    from taufpl._types import Vector
    from taufpl.cli._loaded_model import LoadedModel
    from taufpl.planning import LabelPlan, PlannedLabels

# Who chooses the threshold by how many of the negatives.
_WAYS = ("fit: about half are held out", "recalibrate: all")
# Where neither --tau nor a model says it.
_USUAL_TAU = 0.01


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

    from taufpl.cli._loaded_model import open_model
    from taufpl.estimators import next_threshold
    from taufpl.planning import plan_labels

    if output is not None:
        check_output(output, model, data)
        require("matplotlib", "plot", "to draw a plan")
        if output.suffix.lower() != ".png":
            raise CommandLineError(f"{output}: the picture is written as .png.")
    scores: dict[str, Vector] = {}
    looks: int | str = 1
    if model is not None and data is not None:
        loaded = open_model(model)
        looks = loaded.head.looks
        # Of a model with several thresholds over its life, the next one has a share of delta.
        tau, delta = tau or loaded.tau, delta or (loaded.delta if looks == 1 else next_threshold(loaded.head)[0])
        scores = _scores(loaded, data, target)
    found = plan_labels(tau or _USUAL_TAU, delta or USUAL_DELTA, negatives, **scores, every_look=looks == ANY)
    if output is not None:
        with working(f"writing {output}"):
            _draw(found, output)
    if as_json:
        counts = {f"n_{name}": each.size for name, each in scores.items()}
        print_json({**asdict(found), "looks": looks, **counts, "output": None if output is None else str(output)})
    else:
        _print(found, looks)


def _scores(model: LoadedModel, data: Path, target: str | None) -> dict[str, Vector]:
    """Scores of negatives and positives that the model has not seen, one of each group where there are groups."""
    import numpy as np

    from taufpl.cli._loaded_model import counting_rows, fresh_rows, group_column, in_known_group

    if not np.all(np.isfinite(model.head.thresholds_)):
        raise ValueError(f"{model.path}: its threshold is infinite, so that its scores cannot be told apart.")
    if getattr(model.head, "segments_", None) is not None:
        raise ValueError(f"{model.path}: has a threshold for each segment; plan for one segment at a time, without it.")
    file = find_data_file(data)
    with working(f"reading {data}"):
        rows = model.labelled_reader(file, target, group_column(file, model)).load()
        rows = rows.take(~in_known_group(model, rows))
        rows, _ = fresh_rows(file, model, rows)
        rows = rows.take(counting_rows(rows, set()))
        scores, labels = model.scores(rows), rows.labels
    found = {f"{name}_scores": scores[labels == code] for code, name in enumerate(("negative", "positive"))}
    for name, each in found.items():
        if not each.size:
            raise ValueError(f"{file.name}: there are no {name.split('_')[0]}s that the model has not seen.")
    return found


def _draw(plan: LabelPlan, path: Path) -> None:
    from matplotlib.figure import Figure

    from taufpl._files import written_whole
    from taufpl.plotting import LabelPlanDisplay

    has_recall = plan.curve[0].recall is not None
    figure = Figure(figsize=(12, 5) if has_recall else (7, 5), layout="constrained")
    axes = figure.subplots(1, 2) if has_recall else figure.add_subplot()
    LabelPlanDisplay.from_plan(plan, ax=axes)
    with written_whole(path) as draft:
        figure.savefig(draft, dpi=120, format="png")


def _print(plan: LabelPlan, looks: int | str) -> None:
    has_recall = plan.curve[0].recall is not None
    head = ["negatives", "by", "choose the threshold", "may be above", "tolerance in use, mean"]
    if has_recall:
        head += ["recall, mean", f"interval, {confidence(plan.delta)}"]
    pairs = [
        pair for both in zip(plan.held_out, plan.all_choose, strict=True) for pair in zip(both, _WAYS, strict=True)
    ]
    print_rows(
        f"A proof of {percent(plan.tau)} at {confidence(plan.delta)} needs {plan.n_needed:,} negatives that choose the "
        f"threshold{', those of earlier thresholds included' if looks == ANY else looks_in_words(looks)}",
        head,
        [_cells(each, way, has_recall) for each, way in pairs],
        numeric=(0, 2, 3, 4, 5),
    )


def _cells(planned: PlannedLabels, way: str, has_recall: bool) -> list[str]:
    first = [f"{planned.n_negative:,}", way, f"{planned.n_threshold:,}"]
    if planned.n_above is None:
        return [*first, "no proof", "", *(["", ""] if has_recall else [])]
    first += [f"{planned.n_above:,}", percent(planned.usable_share)]
    if planned.recall is None or planned.recall_interval is None:
        return first
    return [*first, percent(planned.recall), " to ".join(percent(end) for end in planned.recall_interval)]
