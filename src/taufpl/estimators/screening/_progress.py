"""How far a long fit is: told to whoever watches, a bar of the command or lines on the screen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Told how many steps are done, how many there are, and what the last one was.
Watcher = Callable[[int, int, str], None]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Tell a function of the steps of all fits in this context."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def current_watcher(verbose: int) -> Watcher | None:
    """Who is told: the watcher of this context, else the screen where `verbose` asks for it."""
    return _watcher.get() or (print_step if verbose else None)


def print_step(n_done: int, n_steps: int, what: str) -> None:
    """Print a step as a line."""
    print(f"[{n_done}/{n_steps}] {what}", file=sys.stderr, flush=True)
