"""``taufpl fit``."""

from __future__ import annotations

import math
import time
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.exceptions import ConvergenceWarning

from taufpl.cli._errors import CommandLineError
from taufpl.cli._options import Data, Delta, Share, Tau
from taufpl.cli._output import Json, check_output, number, percent, print_facts, print_json, print_rows, working
from taufpl.cli._pipelines import Settings, fit, head_of
from taufpl.cli._rows import Training, load_training
from taufpl.cli._source import Source, find_source
from taufpl.persistence import fingerprint, save_model
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

    CROSS = "cross"
    NP = "np"
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
        Threshold, typer.Option(help="How the threshold is chosen; np has a guarantee.")
    ] = Threshold.CROSS,
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
    holdout: Share = 0.5,
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
    settings = Settings(tau, delta, threshold.value, model.value, weight, holdout, seed, jobs)
    document, training = _fit_file(find_source(data), output, target, drop or [], positive, settings)
    if as_json:
        print_json(document)
    else:
        _print(document, training)


def _fit_file(
    source: Source, output: Path, target: str | None, drop: list[str], positive: str | None, settings: Settings
) -> tuple[dict[str, Any], Training]:
    """Read, fit, write; what there is to say about it, and the rows, which have been overwritten."""
    began = time.perf_counter()
    with working(f"reading {source.name}") as tell:
        training = load_training(source, target, drop, positive)
        _check_negatives(source, training, settings)
        record = _record(training)
        read = time.perf_counter()
        tell(f"fitting on {len(training.y):,} rows")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = fit(training, settings)
        tell(f"writing {output}")
        header = save_model(fitted, output, training=record)
    document = {
        "output": str(output),
        **_results(fitted),
        **{name: record[name] for name in ("n_rows", "n_negative", "n_positive")},
        "negative_label": training.negative,
        "positive_label": training.positive,
        "model_kind": settings.model,
        "columns": record["layout"]["columns"],
        "n_columns": record["layout"]["n_columns"] or len(training.layout.used),
        "notes": _notes(caught),
        "seconds": {"reading": read - began, "all": time.perf_counter() - began},
        "created": header.created,
    }
    return document, training


def _record(training: Training) -> dict[str, Any]:
    """What the header shall say; before the fit, which overwrites the rows."""
    n_positive = int((training.y == training.positive).sum())
    return {
        "n_rows": len(training.y),
        "n_negative": len(training.y) - n_positive,
        "n_positive": n_positive,
        "fingerprint": fingerprint(training.X, training.y),
        "layout": training.layout.record(),
    }


def _check_negatives(source: Source, training: Training, settings: Settings) -> None:
    """Too few negatives for a guarantee: say so before anything is fitted, with the number that would do."""
    if settings.threshold != "np":
        return
    n_negative = int((training.y == training.negative).sum())
    needed = negatives_needed(settings.tau, settings.delta)
    held = max(1, min(round(settings.holdout * n_negative), n_negative - 1))
    if held < needed:
        total = math.ceil(needed / settings.holdout)
        share = math.ceil(100 * needed / n_negative) / 100
        advice = f"; --holdout {share:g} would hold out enough" if share < 0.9 else ""
        raise ValueError(
            f"{source.name}: {n_negative:,} negatives are too few for the guarantee of --threshold np at tau "
            f"{settings.tau:g} and delta {settings.delta:g}: {needed:,} must be held out, so that about {total:,} are "
            f"needed{advice}. Or take --threshold cross, or a larger --tau or --delta."
        )


def _results(model: Any) -> dict[str, Any]:
    head = head_of(model)
    evidence = head.evidence_
    recall = evidence.tpr_estimate
    inner = head_of(getattr(head, "estimator_", head))
    return {
        "tau": evidence.tau,
        "delta": evidence.delta,
        "threshold_strategy": head.threshold,
        "threshold": head.threshold_,
        "fpr_estimate": evidence.fpr_estimate,
        "fpr_upper_bound": evidence.fpr_upper_bound,
        "recall_estimate": recall,
        "np_score": None if recall is None else max(evidence.fpr_estimate, evidence.tau) / evidence.tau - recall,
        "dual_gap": getattr(inner, "dual_gap_", None),
        "kernel_gap": getattr(inner, "kernel_gap_", None),
        "reg": getattr(inner, "reg_", getattr(inner, "reg", None) if hasattr(inner, "dual_gap_") else None),
        "n_negative_used": evidence.n_negative,
        "guaranteed": evidence.guaranteed,
    }


def _notes(caught: list[warnings.WarningMessage]) -> list[str]:
    """What the fit has warned of, each once; that a candidate has not converged to the last digit is no news."""
    texts = [" ".join(str(each.message).split()) for each in caught if each.category is not ConvergenceWarning]
    return list(dict.fromkeys(texts))


def _print(document: dict[str, Any], training: Training) -> None:
    gap = document["dual_gap"]
    recall = document["recall_estimate"]
    unknown = "not measured: all positives were trained on; evaluate tells"
    promise = f"P(FPR > {percent(document['tau'])}) <= {document['delta']:g}"
    facts = [
        ("rows", f"{document['n_negative']:,} negative ({training.negative}), {document['n_positive']:,} positive "
                 f"({training.positive})"),
        ("tolerance", f"{percent(document['tau'])}, threshold by {document['threshold_strategy']}"),
        ("FPR estimate", percent(document["fpr_estimate"])),
        ("FPR upper bound", f"{percent(document['fpr_upper_bound'])} at {1 - document['delta']:.0%} confidence"),
        ("recall", unknown if recall is None else percent(recall)),
        ("NP-score", number(document["np_score"])),
        ("threshold", number(document["threshold"])),
        ("negatives used", f"{document['n_negative_used']:,}"),
        ("guaranteed", f"yes: {promise}" if document["guaranteed"] else f"no: {promise} is aimed at, not proven"),
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
