"""Whether the negatives of a file are enough for a guarantee, and errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from taufpl._types import Array, Mask
from taufpl.cli._data_file import DataFile
from taufpl.cli._output import looks_in_words
from taufpl.estimators import next_threshold


@contextmanager
def about(file: DataFile) -> Iterator[None]:
    """Let errors begin with the name of the file whose rows they are about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from error


def check_enough(
    file: DataFile,
    screen: Any,
    is_negative: Mask,
    groups: Array | None,
    *,
    holdout: float | str | None = None,
    advice: str = "",
    unseen: str = "",
    restart: bool = False,
) -> int:
    """How many negatives there are for the next threshold of a classifier, fitted or not; too few are refused.

    With a `holdout`, not all of them can choose.
    """
    delta, needed = next_threshold(screen, restart)
    n_negative = int(is_negative.sum()) if groups is None else np.unique(groups[is_negative]).size
    most = (
        n_negative if holdout is None else n_negative - 1 if holdout == "auto" else round(float(holdout) * n_negative)
    )
    # Limits by segment count negatives by segment.
    if most < needed and screen.segments_ is None:
        what = "negatives" if groups is None else "groups with negatives"
        raise ValueError(
            f"{file.name}: {n_negative:,} {what}{unseen} are too few for the guarantee at tau {np.min(screen.tau):g} "
            f"and delta {delta:g}{looks_in_words(screen.looks)}; {needed:,} are needed.{advice}"
        )
    return n_negative
