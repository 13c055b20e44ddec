"""Commands whose work is loaded when they run, so that help and errors of usage wait for nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any


def deferred(module: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a function that has options and help alone be done by its namesake in a module, ``NAME_command``.

    Its own body, which sees the values first, may refuse what the options alone tell to be wrong.
    """

    def defer(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            command(**values)
            getattr(import_module(module), f"{command.__name__}_command")(**values)

        return run

    return defer
