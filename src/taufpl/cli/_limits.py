"""Limits of a model, one a tolerance or one a segment: what is told of them in documents and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taufpl.cli._by_level import in_words, limit_name
from taufpl.cli._output import confidence, looks_in_words, number, percent, print_rows
from taufpl.thresholding import USUAL_DELTA, Evidence


def limits_record(head: Any) -> dict[str, Any]:
    """The limits of a model, for a document: one a tolerance for all rows, or one a segment or several together.

    Thresholds are on the scale of the scores, also where low scores mean positive.
    """
    segments = head.segments_
    if segments is None:
        several = head.evidence_ if isinstance(head.evidence_, tuple) else (head.evidence_,)
        names = ["all rows"] * len(several)
    else:
        several, names = segments.evidence, segments.limits
    members = {} if segments is None else segments.members
    sign = 1.0 if getattr(head, "higher_is_positive", True) else -1.0
    limits = [
        _limit_record(name, [each for each, limit in members.items() if limit == name], evidence, sign)
        for name, evidence in zip(names, several, strict=True)
    ]
    return {"limits": limits, "unproven_segments": [] if segments is None else list(segments.unproven)}


def _limit_record(name: str, segments: list[str], evidence: Evidence, sign: float) -> dict[str, Any]:
    return {
        "limit": name,
        "segments": segments,
        "tau": evidence.tau,
        "delta": evidence.delta,
        "looks": evidence.looks,
        "n_negative": evidence.n_negative,
        "n_false_positive": evidence.n_false_positive,
        "threshold": sign * evidence.threshold,
        "fpr_upper_bound": evidence.fpr_upper_bound,
        "recall": evidence.tpr_estimate,
        "recall_interval": evidence.tpr_interval,
        "guaranteed": evidence.guaranteed,
        "caveats": evidence.caveats,
    }


def guarantee_in_words(record: Mapping[str, Any], column: str | None = None, about: str = "") -> str:
    """Whether a threshold has a guarantee, or those of all limits by a column, and if not, why."""
    limit = percent(record["tau"]) if column is None else f"tolerance, of any limit by {column}"
    promise = f"P(FPR > {limit}) <= {record['delta'] or USUAL_DELTA:.4g}{about}{looks_in_words(record['looks'])}"
    if record["guaranteed"]:
        return f"yes: {promise}"
    return f"no: {'; '.join(record['caveats']) or f'{promise} is aimed at, not proven'}"


def print_limits(document: dict[str, Any], column: str | None, delta: float | None = None) -> None:
    """A table of the limits of a document; those by segment hold together with probability 1 - delta."""
    rows = [
        [
            limit_name(each["limit"], each["segments"]),
            percent(each["tau"]),
            f"{each['n_negative']:,}",
            number(each["threshold"]),
            f"{percent(each['fpr_upper_bound'])} at {confidence(each['delta'] or USUAL_DELTA)}",
            percent(each["recall"]),
            guarantee_in_words(each),
        ]
        for each in document["limits"]
    ]
    unproven = document["unproven_segments"]
    if unproven:
        rows.append([f"none ({in_words(unproven)})", "", "", "the strictest", "", "", "no: too few negatives"])
    title = "Limits" if column is None else f"Limits by {column}"
    if delta is not None and all(each["guaranteed"] for each in document["limits"]):
        which = "those that are proven" if unproven else "all"
        title += f": {which} hold together with probability 1 - {delta:g}"
    head = ["limit", "tolerance", "negatives", "threshold", "FPR at most", "recall", "guaranteed"]
    print_rows(title, head, rows, numeric=range(1, 6))
