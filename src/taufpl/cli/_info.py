"""``taufpl info``: what a model file holds, and the history of its threshold."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from taufpl._choices import ANY
from taufpl.cli._errors import note
from taufpl.cli._options import Json, Model
from taufpl.cli._output import BUDGET, budget_promise, limits_record, number, print_json, print_limits, print_rows

if TYPE_CHECKING:
    from taufpl.cli._loaded_model import LoadedModel
    from taufpl.thresholding import ThresholdRecord

_VERSIONS = ("library_version", "sklearn_version", "numpy_version", "python_version", "format_version")
# Which scores of a column of their own are positive, by higher_is_positive.
_FLAGGED = {None: None, True: "above the threshold", False: "below the threshold"}
# More columns than that are counted, not listed.
_MOST_LISTED = 60


def info(model: Model, as_json: Json = False) -> None:
    """Say what a model file holds: tolerance, thresholds and their evidence, history, columns, versions."""
    from taufpl.cli._loaded_model import open_model

    loaded = open_model(model)
    document = model_record(loaded)
    if as_json:
        print_json(document)
        return
    print_rows(str(model), None, _facts(loaded, document))
    together = None if loaded.limits is None else loaded.head.evidence_.delta
    print_limits(document, loaded.layout.segment, together)
    print_history("History", loaded.history)
    _print_columns(document["columns"])


def model_record(model: LoadedModel) -> dict[str, Any]:
    """What is known of a model out of a file, for a document."""
    head, header, training = model.head, model.saved.header, model.training
    spent = sum(each.delta_spent for each in model.history)
    looks = getattr(head, "looks", 1)
    return {
        "path": str(model.path),
        "size_bytes": model.path.stat().st_size,
        "created": header.created,
        "model": training.get("model"),
        "scorer": training.get("scorer"),
        "preprocessing": _preprocessing(model),
        "tau": head.tau,
        "delta": model.delta,
        "looks": looks,
        "delta_spent": spent,
        "delta_left": None if looks == 1 else max(0.0, model.delta - spent),
        "threshold_strategy": training.get("threshold_strategy"),
        "threshold": head.threshold_,
        "flagged_scores": _FLAGGED[getattr(head, "higher_is_positive", None)],
        **limits_record(head),
        "negative_label": model.classes[0],
        "positive_label": model.classes[1],
        BUDGET: training.get(BUDGET),
        **{name: training.get(name) for name in ("n_rows", "n_negative", "n_positive", "fingerprint")},
        "keeps_seen_rows": model.saved.seen is not None,
        "history": [asdict(each) for each in model.history],
        "columns": [{"name": each.name, "kind": each.kind, "note": each.note} for each in model.layout.columns],
        "n_columns": model.layout.n_columns or len(model.layout.columns),
        **{name: getattr(model.layout, name) for name in ("target", "group", "time", "segment")},
        "versions": {name: getattr(header, name) for name in _VERSIONS},
    }


def _preprocessing(model: LoadedModel) -> list[str]:
    """Names of the steps before the scorer, those of its own pipeline included."""
    from taufpl.estimators import StackedScorer, steps_and_last

    steps, head = steps_and_last(model.model)
    inner, scorer = steps_and_last(head.estimators_[0]) if hasattr(head, "estimators_") else ((), None)
    encoder = [scorer.encoder_] if isinstance(scorer, StackedScorer) else []
    return [each if isinstance(each, str) else type(each).__name__ for each in (*steps, *inner, *encoder)]


def _facts(model: LoadedModel, document: dict[str, Any]) -> list[tuple[str, str]]:
    counts = {kind: document[f"n_{kind}"] for kind in ("negative", "positive")}
    training = [f"{count:,} {kind}" for kind, count in counts.items() if isinstance(count, int)]
    scorer = document["scorer"]
    facts = [
        ("model", f"{document['model']}{f' of {scorer}' if scorer else ''}"),
        ("preprocessing", ", ".join(document["preprocessing"]) or "none"),
        ("labels", f"{document['positive_label']} is looked for, {document['negative_label']} are the others"),
        ("fitted on", ", ".join(training) or "not known"),
        *([("flagged scores", document["flagged_scores"])] if document["flagged_scores"] else []),
        ("threshold by", str(document["threshold_strategy"])),
        ("delta", _delta_in_words(document)),
        *[(name, str(document[name])) for name in ("target", "group", "time", "segment") if document[name]],
        ("record of rows seen", "yes" if document["keeps_seen_rows"] else "no"),
        ("written", f"{document['created']} by taufpl {model.saved.header.library_version}, scikit-learn "
                    f"{model.saved.header.sklearn_version}, NumPy {model.saved.header.numpy_version}, Python "
                    f"{model.saved.header.python_version}"),
        ("size", f"{document['size_bytes']:,} bytes"),
    ]  # fmt: skip
    if document[BUDGET] is not None:
        proven = all(each["guaranteed"] for each in document["limits"])
        facts.append(budget_promise(document[BUDGET], proven))
    return facts


def _delta_in_words(document: dict[str, Any]) -> str:
    """How thresholds over the life of the model share delta."""
    delta, spent, left = document["delta"], document["delta_spent"], document["delta_left"]
    if document["looks"] == 1:
        chosen = sum(each["delta_spent"] > 0 for each in document["history"])
        again = f": {chosen} thresholds, {spent:g} in all" if chosen > 1 else ""
        return f"{delta:g}, spent again by every threshold{again}"
    how = "at every look together" if document["looks"] == ANY else f"shared by {document['looks']} thresholds"
    return f"{delta:g}, {how}; {spent:g} spent, {left:g} left"


def print_history(title: str, history: tuple[ThresholdRecord, ...]) -> None:
    """The thresholds that were chosen, as a table."""
    head = ["event", "at (UTC)", "negatives", "threshold before", "threshold", "delta spent", "rows of"]
    rows = [
        [
            each.event,
            "not known" if each.at is None else each.at.removesuffix("+00:00"),
            f"{each.n_negative:,}",
            "" if each.threshold_before is None else number(each.threshold_before),
            number(each.threshold),
            f"{each.delta_spent:g}",
            each.source or "",
        ]
        for each in history
    ]
    print_rows(title, head, rows, numeric=(2, 3, 4, 5))


def _print_columns(columns: list[dict[str, Any]]) -> None:
    if not columns:
        note("the model was fitted on sparse rows, whose columns have no names.")
        return
    rows = [[each["name"], each["kind"], each["note"]] for each in columns[:_MOST_LISTED]]
    print_rows("Columns", ["column", "taken as", "note"], rows)
    if len(columns) > _MOST_LISTED:
        print(f"{len(columns) - _MOST_LISTED:,} more columns; --json has them all.")
