"""``taufpl fit``."""

from __future__ import annotations

import math
import time
import warnings
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning

from taufpl.cli._errors import CommandLineError
from taufpl.cli._groups import RECORD, record_groups
from taufpl.cli._layout import DATE
from taufpl.cli._options import Data, Delta, Share, Tau
from taufpl.cli._output import (
    Json,
    check_output,
    confidence,
    number,
    percent,
    print_facts,
    print_json,
    print_rows,
    working,
)
from taufpl.cli._pipelines import Settings, fit, head_of, screen_for
from taufpl.cli._rows import Training, Wanted, load_training
from taufpl.cli._source import Source, find_source
from taufpl.persistence import SeenRows, fingerprint, save_model
from taufpl.thresholding import negatives_needed


class ModelKind(StrEnum):
    """What is fitted."""

    LINEAR = "linear"
    PAPER = "paper"
    KERNEL = "kernel"
    LOGISTIC = "logistic"
    BOOSTING = "boosting"
    FOREST = "forest"


class Threshold(StrEnum):
    """How the threshold is chosen."""

    AUTO = "auto"
    NP = "np"
    CROSS = "cross"
    OOB = "oob"
    TRAIN = "train"


# More columns than that are counted, not listed.
_MOST_LISTED = 40


def _reg(value: str) -> str:
    try:
        good = value == "cv" or 0.0 < float(value) < math.inf
    except ValueError:
        good = False
    if not good:
        raise typer.BadParameter(f"must be cv or a number above 0; got {value!r}.")
    return value


def fit_command(
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="The model file to write, by custom .skops.")],
    target: Annotated[str | None, typer.Option(help="The column with the labels; LIBSVM and npz have y.")] = None,
    tau: Tau = 0.01,
    delta: Delta = 0.05,
    threshold: Annotated[
        Threshold,
        typer.Option(
            help="How the threshold is chosen. auto: np, which has a guarantee, or cross with too few negatives."
        ),
    ] = Threshold.AUTO,
    model: Annotated[
        ModelKind,
        typer.Option(
            help="linear: the automatic ranking; paper: tau-FPL; kernel: the same with a kernel; or of scikit-learn."
        ),
    ] = ModelKind.LINEAR,
    reg: Annotated[
        str, typer.Option(callback=_reg, help="Penalty of --model paper or kernel: cv, or a number.")
    ] = "cv",
    positive: Annotated[
        str | None, typer.Option(help="The label to find. [default: the larger number, true, yes]")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Leave this column out; may be given several times.")] = None,
    group: Annotated[
        str | None,
        typer.Option(help="A column whose equal values say which rows belong together: a customer, a device."),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option("--time", help="A column that says when a row came: the latest negatives choose the threshold."),
    ] = None,
    holdout: Share = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    jobs: Annotated[int, typer.Option(help="Fits at the same time; -1 for all cores.")] = 1,
    as_json: Json = False,
) -> None:
    """Fit a model on a file and write it, with its preprocessing, to another.

    Numbers are filled and scaled, texts become one feature a level, dates, identifiers and constant columns are left
    out; what was done is printed and kept in the model file.
    """
    if reg != "cv" and model not in ("paper", "kernel"):
        raise CommandLineError(f"--reg {reg} is the penalty of --model paper and kernel; --model {model} has none.")
    if jobs == 0:
        raise CommandLineError("--jobs must be a number of fits, or -1 for all cores; got 0.")
    check_output(output, data)
    weight = reg if reg == "cv" else float(reg)
    if time_column is not None and threshold not in ("auto", "np"):
        raise CommandLineError(
            f"--time is for --threshold np or auto; the folds of {threshold} mix earlier and later rows."
        )
    share: float | str = "auto" if holdout is None else holdout
    settings = Settings(tau, delta, threshold.value, model.value, weight, share, seed, jobs)
    wanted = Wanted(target, positive, tuple(drop or ()), group, time_column)
    document, training = _fit_file(find_source(data), output, wanted, settings)
    if as_json:
        print_json(document)
    else:
        _print(document, training)


def _fit_file(source: Source, output: Path, wanted: Wanted, settings: Settings) -> tuple[dict[str, Any], Training]:
    """Read, fit, write; what there is to say about it, and the rows, which have been overwritten."""
    began = time.perf_counter()
    with working(f"reading {source.name}") as tell:
        training = load_training(source, wanted, partial(_training_rows, source, settings))
        record, seen = _record(training), SeenRows(training.X)
        read = time.perf_counter()
        tell(f"fitting on {len(training.y):,} rows")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = fit(training, settings)
        tell(f"writing {output}")
        header = save_model(fitted, output, training=record, seen=seen)
    document = {
        "output": str(output),
        **_results(fitted),
        **{name: record[name] for name in ("n_rows", "n_negative", "n_positive")},
        "negative_label": training.negative,
        "positive_label": training.positive,
        "model_kind": settings.model,
        "group": wanted.group,
        "time": wanted.time,
        "columns": record["layout"]["columns"],
        "n_columns": record["layout"]["n_columns"] or len(training.layout.used),
        "notes": [*_notes(caught), *_dates(training)],
        "seconds": {"reading": read - began, "all": time.perf_counter() - began},
        "created": header.created,
    }
    return document, training


def _record(training: Training) -> dict[str, Any]:
    """What the header shall say; before the fit, which overwrites the rows."""
    n_positive = int((training.y == training.positive).sum())
    groups = {} if training.groups is None else {RECORD: record_groups(training.groups)}
    return {
        **groups,
        "n_rows": len(training.y),
        "n_negative": len(training.y) - n_positive,
        "n_positive": n_positive,
        "fingerprint": fingerprint(training.X, training.y),
        "layout": training.layout.record(),
    }


def _training_rows(source: Source, settings: Settings, y: Any, positive: Any, groups: Any, times: Any) -> Any:
    """The rows that the scorer may learn from, once it is clear that the others will do for a guarantee."""
    if settings.threshold == "np":
        n_negative = int((y != positive).sum()) if groups is None else len(np.unique(groups[y != positive]))
        needed = negatives_needed(settings.tau, settings.delta)
        most = n_negative - 1 if settings.holdout == "auto" else round(float(settings.holdout) * n_negative)
        if most < needed:
            what = "negatives" if groups is None else "groups with negatives"
            advice = "Leave --holdout out" if needed < n_negative else "Take --threshold cross"
            raise ValueError(
                f"{source.name}: {n_negative:,} {what} are too few for the guarantee of --threshold np at tau "
                f"{settings.tau:g} and delta {settings.delta:g}: {needed:,} must be held out, and others must be left "
                f"to learn from. {advice}, or take a larger --tau or --delta."
            )
    return screen_for(positive, settings).training_rows(y, groups, times)


def _dates(training: Training) -> list[str]:
    """Dates are no features, and might say what is earlier."""
    dates = [column.name for column in training.layout.columns if column.kind == "dropped" and column.note == DATE]
    if not dates or training.times is not None:
        return []
    return [
        f"dates are left out: {', '.join(dates)}. With --time {dates[0]} the latest negatives choose the threshold."
    ]


def _results(model: Any) -> dict[str, Any]:
    head = head_of(model)
    evidence = head.evidence_
    recall = evidence.tpr_estimate
    inner = head_of(getattr(head, "estimator_", head))
    return {
        "tau": evidence.tau,
        "delta": evidence.delta,
        "threshold_strategy": head.strategy_,
        "threshold": head.threshold_,
        "fpr_estimate": evidence.fpr_estimate,
        "fpr_upper_bound": evidence.fpr_upper_bound,
        "recall_estimate": recall,
        "recall_interval": evidence.tpr_interval,
        "np_score": None if recall is None else max(evidence.fpr_estimate, evidence.tau) / evidence.tau - recall,
        "dual_gap": getattr(inner, "dual_gap_", None),
        "kernel_gap": getattr(inner, "kernel_gap_", None),
        "reg": getattr(inner, "reg_", getattr(inner, "reg", None) if hasattr(inner, "dual_gap_") else None),
        "n_negative_used": evidence.n_negative,
        "guaranteed": evidence.guaranteed,
        "caveats": list(evidence.caveats),
    }


def _notes(caught: list[warnings.WarningMessage]) -> list[str]:
    """What the fit has warned of, each once; that a candidate has not converged to the last digit is no news."""
    texts = [" ".join(str(each.message).split()) for each in caught if each.category is not ConvergenceWarning]
    return list(dict.fromkeys(texts))


def _promise(document: dict[str, Any]) -> str:
    """Whether the promise is proven, and if not, why."""
    promise = f"P(FPR > {percent(document['tau'])}) <= {document['delta']:g}"
    if document["group"] is not None:
        promise += f", FPR being that of a random negative of a random {document['group']}"
    if document["guaranteed"]:
        return f"yes: {promise}"
    return f"no: {'; '.join(document['caveats']) or f'{promise} is aimed at, not proven'}"


def _print(document: dict[str, Any], training: Training) -> None:
    gap = document["dual_gap"]
    recall, interval = document["recall_estimate"], document["recall_interval"]
    found = (
        "not measured: that takes two positives, of two groups where there are groups"
        if recall is None
        else percent(recall)
    )
    if interval is not None:
        found += f", {percent(interval[0])} to {percent(interval[1])} at {confidence(document['delta'])}"
    facts = [
        ("rows", f"{document['n_negative']:,} negative ({training.negative}), {document['n_positive']:,} positive "
                 f"({training.positive})"),
        ("tolerance", f"{percent(document['tau'])}, threshold by {document['threshold_strategy']}"),
        ("FPR estimate", percent(document["fpr_estimate"])),
        ("FPR upper bound", f"{percent(document['fpr_upper_bound'])} at {confidence(document['delta'])}"),
        ("recall", found),
        ("NP-score", number(document["np_score"])),
        ("threshold", number(document["threshold"])),
        ("negatives used", f"{document['n_negative_used']:,}" + (", one of each group" if document["group"] else "")),
        ("guaranteed", _promise(document)),
    ]  # fmt: skip
    if gap is not None and not math.isnan(gap):
        facts.insert(7, ("gap", number(gap)))
    if document["kernel_gap"] is not None:
        facts.insert(8, ("gap to the exact kernel", number(document["kernel_gap"])))
    facts += [("note", text) for text in document["notes"]]
    print_facts(f"{document['output']}: {document['model_kind']}", facts)
    columns = training.layout.columns
    listed = columns if len(columns) <= _MOST_LISTED else [each for each in columns if each.note or each.n_missing]
    rows = [[each.name, each.kind, f"{each.n_missing:,}", each.note] for each in listed[:_MOST_LISTED]]
    if rows:
        print_rows("Columns", ["column", "taken as", "missing", "note"], rows, numeric=(2,))
    rest = len(columns) - len(rows)
    if rest:
        print(f"{rest:,} more columns, taken as numbers.")
