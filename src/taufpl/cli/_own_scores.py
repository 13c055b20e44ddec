"""``taufpl fit --score``: a threshold on a column of scores that the file has already."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl._types import Vector
from taufpl.cli._data_file import DataFile
from taufpl.cli._errors import CommandLineError
from taufpl.cli._frames import frame_of
from taufpl.cli._layout import Layout
from taufpl.cli._matrices import is_number
from taufpl.cli._output import number
from taufpl.cli._pipelines import FitOptions
from taufpl.cli._tables import arrow, doubles_of
from taufpl.preprocessing import ColumnPlan


def plan_scores(file: DataFile, table: Any, options: FitOptions) -> tuple[Any, Layout]:
    """A frame of nothing but the scores, and the layout of the file; rows without a score are refused."""
    name = options.score
    assert name is not None
    for option, other in (("--group", options.group), ("--segment", options.segment)):
        if name == other:
            raise CommandLineError(f"--score {name} is the column of {option}, too.")
    scores = _read_scores(file, name, table.column(name))
    columns = tuple(
        ColumnPlan(name, "number", low=float(scores.min()), high=float(scores.max()))
        if each == name
        else ColumnPlan(each, "dropped", "is not the score")
        for each in table.column_names
        if each != options.target
    )
    layout = Layout(
        columns, options.target, group=options.group, segment=options.segment, score=name, n_rows=scores.size
    )
    return frame_of(scores[:, np.newaxis], [name], {}), layout


def _read_scores(file: DataFile, name: str, values: Any) -> Vector:
    types = arrow().types
    kinds = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    if not any(is_kind(values.type) for is_kind in kinds):
        texts = [(row, each) for row, each in enumerate(values.to_pylist(), 1) if each is not None]
        row, first = next(((row, each) for row, each in texts if not is_number(each)), texts[0])
        raise ValueError(
            f"{file.name}, row {row:,}: column {name!r} must hold numbers, the scores; got {first!r}, of type "
            f"{values.type}."
        )
    scores = doubles_of(values.cast(arrow().uint8()) if types.is_boolean(values.type) else values)
    is_wrong = ~np.isfinite(scores)
    if is_wrong.any():
        raise ValueError(
            f"{file.name}: column {name!r} has no finite number in {int(is_wrong.sum()):,} rows, first in row "
            f"{int(is_wrong.argmax()) + 1:,}. Leave those rows out, or give them a score."
        )
    return scores


def threshold_text(document: dict[str, Any]) -> str:
    """The threshold of a document as it is printed: of a column of scores, as the comparison that it is."""
    threshold, name = document["threshold"], document["score"]
    if name is None:
        return number(threshold)
    # All digits, for whoever takes it elsewhere.
    return f"{name} {'<' if document['lower_is_positive'] else '>'} {threshold!r}"
