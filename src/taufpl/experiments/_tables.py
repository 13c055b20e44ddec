"""Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def share(value: float | None) -> str:
    """A figure between 0 and 1 as the paper prints it: three digits, no zero before the point."""
    if value is None or math.isnan(value):
        return "N/A"
    return f"{value:.3f}".replace("0.", ".", 1)


def rate(value: float | None) -> str:
    """A false-positive rate, which may be far under one in a thousand."""
    if value is None or math.isnan(value):
        return "N/A"
    return f"{value:.5f}".rstrip("0").rstrip(".").replace("0.", ".", 1) if 0 < value < 0.001 else share(value)


def percent(tau: float) -> str:
    """A tolerance."""
    return f"{100 * tau:g} %"


def command_to_fill(experiment: str, dataset: str) -> str:
    """How to run what has not been run."""
    return f"not run: `taufpl reproduce {experiment} --dataset {dataset}`"
