"""``taufpl export``: ONNX, JSON and SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from taufpl.cli._data_file import find_data_file
from taufpl.cli._errors import CommandLineError
from taufpl.cli._options import Model
from taufpl.cli._output import check_output, print_json, working
from taufpl.exceptions import ExportError

if TYPE_CHECKING:
    import numpy as np

    from taufpl._types import Array
    from taufpl.cli._columns import Layout
    from taufpl.cli._loaded_model import LoadedModel
    from taufpl.preprocessing import ColumnPlan

_STDOUT = Path("-")
# Rows on which a graph is held against the model.
_SAMPLE = 512


def export(
    model: Model,
    onnx: Annotated[
        Path | None, typer.Option(help="Write the whole decision as an ONNX graph; takes the extra onnx.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Write a linear model as JSON; alone or with - on stdout, beside --onnx or --sql a "
            "description of what was done.",
        ),
    ] = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print a linear model as SQL.")] = False,
    table: Annotated[str | None, typer.Option(help="Of --sql: a query over this table, not an expression.")] = None,
    dialect: Annotated[str, typer.Option(help="Of --sql: ansi, mysql or tsql.")] = "ansi",
    data: Annotated[Path | None, typer.Option(help="Of --onnx: rows on which the graph must agree.")] = None,
    segment: Annotated[
        str | None,
        typer.Option(help="The column with the segments of rows.", show_default="that of the training data"),
    ] = None,
) -> None:
    """Write a model in a form that other systems run: the whole decision, preprocessing and threshold included."""
    from taufpl._files import written_whole

    if onnx is None and to is None and not sql:
        raise CommandLineError("--onnx, --json or --sql is needed: the form to export to.")
    if onnx is not None and sql:
        raise CommandLineError("--onnx and --sql are two exports; ask for one.")

    from taufpl.cli._loaded_model import open_model
    from taufpl.persistence import save_onnx, to_json, to_sql

    for path in (onnx, to):
        if path is not None and path != _STDOUT:
            check_output(path, model, data)
    loaded = open_model(model)
    segment = _segment_column(loaded, segment)
    written: dict[str, Any] = {}
    if onnx is not None:
        with working(f"writing {onnx}"):
            save_onnx(loaded.model, onnx, _sample(loaded, data), segment_column=segment)
        written["onnx"] = str(onnx)
    if sql:
        with _linear_alone():
            written["sql"] = to_sql(loaded.model, table=table, dialect=dialect, segment_column=segment)
    if to is not None and not (written and to == _STDOUT):
        with _linear_alone():
            document = to_json(loaded.model, segment_column=segment)
        if to == _STDOUT:
            print_json(document)
            return
        with written_whole(to) as draft:
            draft.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        written["json"] = str(to)
    if to == _STDOUT:
        print_json(written)
    else:
        for text in written.values():
            print(text)


def _segment_column(model: LoadedModel, given: str | None) -> str | None:
    """The column with the labels of segments, that is given or known from the fit; None without segments."""
    if model.limits is None:
        if given is not None:
            raise CommandLineError(f"--segment {given}: the model has one threshold for all rows.")
        return None
    known = given or model.layout.segment
    if known is None and model.limits.column is None:
        raise CommandLineError("--segment is needed: the model does not know the name of the column with the segments.")
    return known


@contextmanager
def _linear_alone() -> Iterator[None]:
    """Say in an error of an export that few models can have how to get one of those."""
    try:
        yield
    except ExportError as error:
        raise ValueError(f"{error} On the command line: --onnx, or a model of taufpl fit --model linear.") from error


def _sample(model: LoadedModel, data: Path | None) -> Any:
    """Rows as the model will get them: some of a file, or made up within the ranges of the training data."""
    from taufpl.cli._columns import FoundLayout
    from taufpl.cli._row_reader import RowReader

    if data is not None:
        return next(RowReader(find_data_file(data), model.layout).batches(_SAMPLE)).X
    if isinstance(model.layout, FoundLayout):
        if not hasattr(model.model, "feature_names_in_"):
            return len(model.layout.columns)
        raise ValueError(f"{model.path}: does not know the types of its columns; give rows by --data.")
    if model.layout.is_sparse:
        return model.layout.n_columns
    return _made_up(model.layout)


def _made_up(layout: Layout) -> Any:
    import numpy as np

    from taufpl.cli._columns import frame_of

    rng = np.random.default_rng(0)
    known = {column.name: column for column in layout.columns}
    numbers = np.empty((_SAMPLE, len(layout.numbers)))
    for place, name in enumerate(layout.numbers):
        column = known[name]
        low, high = float(column.low or 0.0), float(column.high or 0.0)
        values = rng.uniform(size=_SAMPLE)
        numbers[:, place] = low + (high - low) * (values.round() if column.kind == "boolean" else values)
        if column.n_missing:
            numbers[rng.random(_SAMPLE) < 0.1, place] = np.nan
    dates = {name: _timestamps_between(rng, known[name]) for name in layout.dates}
    texts = {
        name: rng.choice(np.array([*known[name].levels, "another"], dtype=object), _SAMPLE)
        for name in layout.categories
    }
    return frame_of(numbers, layout.numbers, dates | texts)


def _timestamps_between(rng: np.random.Generator, column: ColumnPlan) -> Array:
    """Dates in the range of the training rows, missing where some were."""
    seconds = rng.uniform(float(column.low or 0.0), float(column.high or 0.0), _SAMPLE)
    timestamps = seconds.astype("datetime64[s]").astype("datetime64[us]")
    if column.n_missing:
        timestamps[rng.random(_SAMPLE) < 0.1] = "NaT"
    return timestamps


class ExportCommand(TyperCommand):
    """A command whose ``--json`` may stand alone, as it does everywhere, or have a file after it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let a lone ``--json`` mean standard output."""
        followers = [*args[1:], "--"]
        given = [
            "--json=-" if word == "--json" and follower.startswith("-") and follower != "-" else word
            for word, follower in zip(args, followers, strict=True)
        ]
        return list(super().parse_args(ctx, given))
