"""How the candidates of a stack stand, and which columns it needs most, as entries of a document and as tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl.cli._output import confidence, percent, print_rows
from taufpl.cli._pipelines import FitOptions
from taufpl.thresholding import USUAL_DELTA

# Columns that are printed, the most important first; --json has all.
_MOST_COLUMNS = 10


def leaderboard_record(head: Any, options: FitOptions) -> dict[str, Any]:
    """Candidates with their recall, weight and seconds, the stack first, and columns with the recall that they bring.

    Both are None for models that are no stack; so is what wide sparse data have no answer to.
    """
    if options.model != "auto":
        return {"effort": None, "leaderboard": None, "importances": None}
    return {
        "effort": options.effort,
        "leaderboard": head.leaderboard_.to_dict("records"),
        "importances": _importances(head),
    }


def _importances(head: Any) -> list[dict[str, Any]] | None:
    """Columns, the most important first."""
    values = getattr(head, "feature_importances_", None)
    if values is None:
        return None
    names = getattr(head, "feature_names_in_", [f"x{place}" for place in range(len(values))])
    order = np.argsort(-values, kind="stable").tolist()
    return [{"column": str(names[place]), "recall_lost": float(values[place])} for place in order]


def print_leaderboard(document: dict[str, Any]) -> None:
    """Print what a document tells of a stack; nothing for other models."""
    if document["leaderboard"] is None:
        return
    rows = [
        [
            each["candidate"],
            percent(each["recall"]),
            f"{percent(each['recall_low'])} to {percent(each['recall_high'])}",
            "" if place == 0 else f"{each['weight']:.2f}",
            f"{each['seconds']:.1f}",
        ]
        for place, each in enumerate(document["leaderboard"])
    ]
    head = ["candidate", "recall", f"at {confidence(USUAL_DELTA)}", "weight", "seconds"]
    title = f"Leaderboard: recall at {percent(document['tau'])} FPR, on training rows that were left out"
    print_rows(title, head, rows, numeric=(1, 3, 4))
    important = [each for each in document["importances"] or () if each["recall_lost"] > 0][:_MOST_COLUMNS]
    if important:
        rows = [[each["column"], f"{100 * each['recall_lost']:.2f}"] for each in important]
        print_rows("Columns that bring most of the recall", ["column", "points of recall lost without it"], rows, (1,))
