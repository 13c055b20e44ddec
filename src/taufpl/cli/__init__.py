"""The command ``taufpl``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; without its extra installed, say how to get it."""
    try:
        from taufpl.cli._app import run
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"taufpl: {error.name} is needed for the command line. Install it with: pip install 'taufpl[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(run())
