"""The command ``taufpl``."""

from __future__ import annotations

import contextlib
import os
import sys

from taufpl._extras import install_command

__all__ = ["main"]


def main() -> None:
    """Run the command line; without its extra installed, say how to get it."""
    try:
        from taufpl.cli._app import run
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"taufpl: {error.name} is needed for the command line. Install it with: {install_command('cli')}")
    except KeyboardInterrupt:
        sys.exit(130)
    _leave(run())


def _leave(code: int) -> None:
    """End the process with an exit code.

    After a signal (codes above 128), threads of the work that it broke off may still be in compiled code, and closing
    the interpreter below them can crash: the process then ends at once.
    """
    if code > 128:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)
