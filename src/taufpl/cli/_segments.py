"""Limits by segment at the command line: their options, the labels of rows, and what is told about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from taufpl._types import Array
from taufpl.cli._by_level import in_words, shortened
from taufpl.cli._errors import CommandLineError
from taufpl.cli._labels import read_levels
from taufpl.cli._output import number, percent, print_rows
from taufpl.cli._tables import arrow
from taufpl.thresholding import MISSING_LEVEL, OTHERS, Evidence

# Segments without a proof that a table shows.
_MOST_ROWS = 20


def tolerances_of(segment: str | None, tau_for: Sequence[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """The tolerances of ``--tau-for`` by canonical name, one a segment."""
    if tau_for and segment is None:
        raise CommandLineError("--tau-for is for --segment COLUMN, which says of which segment a row is.")
    found: dict[str, float] = {}
    for name, tau in tau_for:
        if name == OTHERS:
            raise CommandLineError(f"--tau-for {OTHERS}: --tau is the tolerance of all segments without their own.")
        if name in found:
            raise CommandLineError(f"--tau-for {name} is given twice.")
        found[name] = tau
    return tuple(found.items())


def refuse_beside_segment(model: str, threshold: str, budget: float | None) -> None:
    """Refuse options of ``fit`` that have no meaning with a threshold for each segment."""
    if threshold not in ("auto", "np"):
        raise CommandLineError(f"--segment is for --threshold auto or np; {threshold} has one threshold for all rows.")
    if model == "kernel":
        raise CommandLineError("--segment is not for --model kernel, which has one threshold for all rows.")
    if budget is not None:
        raise CommandLineError("--alarms-per-day is for one threshold; with --segment give --tau and --tau-for.")


def segment_labels(table: Any, name: str | None) -> Array | None:
    """The segment of each row of a table: numbers where the column has some, else canonical texts."""
    if name is None:
        return None
    values, types = table.column(name), arrow().types
    if types.is_floating(values.type) or (types.is_integer(values.type) and not values.null_count):
        return np.asarray(values.to_numpy())
    return read_levels(values)


def as_numbers(labels: Array) -> Array:
    """Canonical texts of numbers as those, with all their digits; texts where one is none."""
    try:
        return np.array([_number_in(text) for text in labels.tolist()], dtype=object)
    except ValueError:
        return labels


def _number_in(text: str) -> float:
    if text == MISSING_LEVEL:
        return math.nan
    return int(text) if text.removeprefix("-").isdigit() else float(text)


def limits_record(head: Any) -> dict[str, Any]:
    """The limits of a model with segments, for a document; nothing for other models."""
    found = getattr(head, "segments_", None)
    if found is None:
        return {}
    sign = 1.0 if getattr(head, "higher_is_positive", True) else -1.0
    limits = [
        _limit_record(name, each, [member for member, limit in found.members.items() if limit == name], sign)
        for name, each in zip(found.limits, found.evidence, strict=True)
    ]
    return {"limits": limits, "unproven_segments": list(found.unproven)}


def _limit_record(name: str, evidence: Evidence, segments: list[str], sign: float) -> dict[str, Any]:
    return {
        "limit": name,
        "segments": segments,
        "tau": evidence.tau,
        "delta": evidence.delta,
        "n_negative": evidence.n_negative,
        "n_false_positive": evidence.n_false_positive,
        "threshold": sign * evidence.threshold,
        "fpr_upper_bound": evidence.fpr_upper_bound,
        "recall": evidence.tpr_estimate,
        "recall_interval": evidence.tpr_interval,
        "guaranteed": evidence.guaranteed,
    }


def print_limits(document: dict[str, Any], column: str | None) -> None:
    """A table of limits, where a document has some."""
    if "limits" not in document:
        return
    rows = [
        [
            _limit_name(each),
            percent(each["tau"]),
            f"{each['n_negative']:,}",
            number(each["threshold"]),
            percent(each["fpr_upper_bound"]),
            percent(each["recall"]),
            "yes" if each["guaranteed"] else "no",
        ]
        for each in document["limits"]
    ]
    unproven = document["unproven_segments"]
    rows += [[shortened(name), "", "", "the strictest", "", "", "no"] for name in unproven[:_MOST_ROWS]]
    title = f"Limits by {column or 'segment'}"
    if all(each["guaranteed"] for each in document["limits"]):
        title += f": all hold together with probability 1 - {document['delta']:g}"
    head = ["segment", "tolerance", "negatives", "threshold", "FPR at most", "recall", "proven"]
    print_rows(title, head, rows, numeric=range(1, 6))
    if len(unproven) > _MOST_ROWS:
        print(f"{len(unproven) - _MOST_ROWS:,} more segments that are not proven; --json has them all.")


def _limit_name(limit: dict[str, Any]) -> str:
    name = shortened(limit["limit"])
    return name if limit["segments"] == [limit["limit"]] else f"{name} ({in_words(limit['segments'])})"
