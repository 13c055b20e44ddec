"""The application, its commands, and how a command line is run."""

from __future__ import annotations

import sys
from typing import Annotated, Any, get_type_hints

import typer

from taufpl.cli._compare import compare
from taufpl.cli._demo import demo
from taufpl.cli._diff import diff
from taufpl.cli._errors import (
    BAD_COMMAND_LINE,
    EXIT_CODES,
    INTERRUPTED,
    CommandGroup,
    remember_debugging,
    termination_raises,
)
from taufpl.cli._evaluate import evaluate
from taufpl.cli._export import ExportCommand, export
from taufpl.cli._fit import FitCommand, fit
from taufpl.cli._info import info
from taufpl.cli._monitor import monitor
from taufpl.cli._plan import plan
from taufpl.cli._predict import predict
from taufpl.cli._recalibrate import recalibrate
from taufpl.cli._report import report
from taufpl.cli._reproduce import reproduce

app = typer.Typer(
    name="taufpl",
    cls=CommandGroup,
    help=f"Binary classification under a hard tolerance on the false-alarm rate (FPR).\n\n{EXIT_CODES}",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_CLASSES: dict[Any, Any] = {fit: FitCommand, export: ExportCommand}
for command in (
    fit, compare, predict, evaluate, recalibrate, monitor, info, diff, plan, report, export, demo, reproduce,
):  # fmt: skip
    # Annotations are read here once; typer would read each of them four times.
    command.__annotations__ = get_type_hints(command, include_extras=True)
    app.command(command.__name__, cls=_CLASSES.get(command))(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        from taufpl import __version__

        print(f"taufpl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", callback=remember_debugging, expose_value=False, help="Show the traceback of an error."
        ),
    ] = False,
) -> None:
    del version, debug  # their callbacks have done it


def run(arguments: list[str] | None = None) -> int:
    """Run a command line, and return its exit code; what is wrong with it is said in one sentence."""
    command: Any = typer.main.get_command(app)
    try:
        with termination_raises():
            ended = command.main(args=arguments, prog_name="taufpl", standalone_mode=False)
        return ended if isinstance(ended, int) else 0
    except KeyboardInterrupt as error:
        return getattr(error, "exit_code", INTERRUPTED)
    except Exception as error:
        # typer brings its own copy of click, or takes that which is installed: told by what its errors can do.
        if type(error).__name__ == "Abort":
            return getattr(error.__cause__, "exit_code", INTERRUPTED)
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
            return BAD_COMMAND_LINE
        # Some releases of typer check values by pydantic, which puts words of its own before ours.
        text = " ".join(error.format_message().split()).replace("Value error, ", "")
        text += "" if text.endswith((".", "?", "!")) else "."
        context = getattr(error, "ctx", None)
        hint = "" if context is None else f" Try '{context.command_path} -h'."
        print(f"taufpl: {text[:1].lower()}{text[1:]}{hint}", file=sys.stderr)
        return int(getattr(error, "exit_code", BAD_COMMAND_LINE))
