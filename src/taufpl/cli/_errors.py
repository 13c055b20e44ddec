"""How a command ends: exit codes, and errors in one sentence."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec

import typer

# 0 is success; 2, which typer uses, a command line that cannot be understood.
FAILED = 1
INTERRUPTED = 130

Given = ParamSpec("Given")


def guarded(command: Callable[Given, Any]) -> Callable[Given, None]:
    """Turn what a command raises into a sentence on stderr and an exit code; with ``--debug`` show the traceback."""

    @functools.wraps(command)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            _end("interrupted; what was finished is kept, and nothing is half-written.", INTERRUPTED)
        except (ImportError, OSError, ValueError) as error:
            if "--debug" in sys.argv:
                raise
            _end(str(error), FAILED)

    return run


def _end(text: str, code: int) -> None:
    print(f"taufpl: {text}", file=sys.stderr)
    raise typer.Exit(code)
