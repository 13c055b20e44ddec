"""The options of ``taufpl export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from taufpl.cli._errors import CommandLineError
from taufpl.cli._options import Model
from taufpl.cli.commands._deferred import deferred


@deferred("taufpl.cli._export")
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
    if onnx is None and to is None and not sql:
        raise CommandLineError("--onnx, --json or --sql is needed: the form to export to.")
    if onnx is not None and sql:
        raise CommandLineError("--onnx and --sql are two exports; ask for one.")


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
