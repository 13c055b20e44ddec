"""The application and its commands."""

from __future__ import annotations

import typer

from taufpl import __version__
from taufpl.cli._errors import guarded
from taufpl.cli._reproduce import reproduce_command

app = typer.Typer(
    name="taufpl",
    help="Binary classification under a hard tolerance on the false-positive rate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("reproduce")(guarded(reproduce_command))


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"taufpl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    # Both have done their work: the version is printed, and `guarded` looks for --debug itself.
    del version, debug
