"""How far a long fit is: told to whoever watches, a bar of the command or lines on the screen.

A fit tells of its steps by `tell`, or by `step`, inside which other steps are parts of one. Worker processes and
threads have no watcher: their parent tells of what they have done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# Told how many steps are done, parts of one included, how many there are, and what was done last or has begun.
Watcher = Callable[[float, float, str], None]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: Watcher | None) -> Iterator[None]:
    """Tell a function of the steps of all fits in this context, or, by None, nobody."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextmanager
def printing(verbose: int) -> Iterator[None]:
    """Print the steps of fits in this context where `verbose` asks for it, unless somebody watches already."""
    with watching(_watcher.get() or (_print_step if verbose else None)):
        yield


def _print_step(n_done: float, n_steps: float, what: str) -> None:
    # Thirds and the like may add up to a little less than a whole step.
    print(f"[{int(n_done + 1e-9)}/{n_steps:.0f}] {what}", file=sys.stderr, flush=True)


def is_watched() -> bool:
    """Whether anybody is told of steps."""
    return _watcher.get() is not None


def tell(n_done: int, n_steps: int, what: str) -> None:
    """Tell how many steps are done, and what was done last or, where none is done, has begun."""
    if (watcher := _watcher.get()) is not None:
        watcher(n_done, n_steps, what)


@contextmanager
def step(n_done: int, n_steps: int, what: str) -> Iterator[None]:
    """Tell of the steps inside as parts of one; where there are none, of this one when it is done."""
    watcher, told = _watcher.get(), False
    if watcher is None or n_steps == 1:
        yield
        return
    tell_part = steps_within(watcher, n_done, n_steps, what)

    def inside(part: float, parts: float, text: str) -> None:
        nonlocal told
        told = True
        tell_part(part, parts, text)

    with watching(inside):
        yield
    if not told:
        watcher(n_done + 1, n_steps, what)


def call_as_step(n_done: int, n_steps: int, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, called as one of several steps; for generators, which must not yield inside `step`."""
    with step(n_done, n_steps, _numbered(what, n_done + 1, n_steps)):
        return function(*arguments)


def each_told(results: Iterable[Any], n_steps: int, what: str) -> Iterator[Any]:
    """The results of workers, each told as a step when it comes."""
    for number, result in enumerate(results, 1):
        tell(number, n_steps, _numbered(what, number, n_steps))
        yield result


def _numbered(what: str, number: int, n_steps: int) -> str:
    return f"{what} {number} of {n_steps}"


def steps_within(watcher: Watcher, n_done: int, n_steps: int, text: str) -> Watcher:
    """A function that tells a watcher of parts of one step, the next one."""
    return lambda part, parts, what: watcher(n_done + part / parts, n_steps, f"{text}: {what}")
