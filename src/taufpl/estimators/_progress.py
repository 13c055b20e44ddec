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

from joblib.parallel import get_active_backend

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
    print(f"[{int(n_done)}/{n_steps:.0f}] {what}", file=sys.stderr, flush=True)


def one_by_one() -> dict[str, Any]:
    """The option of joblib's Parallel that has results come one by one, where they are told of and the backend can."""
    can = getattr(get_active_backend()[0], "supports_return_generator", False)
    return {"return_as": "generator"} if can and _watcher.get() is not None else {}


def tell(n_done: int, n_steps: int, what: str) -> None:
    """Tell how many steps are done, and what was done last or, where none is done, has begun."""
    if (watcher := _watcher.get()) is not None:
        watcher(n_done, n_steps, what)


@contextmanager
def step(n_done: int, n_steps: int, what: str) -> Iterator[None]:
    """Tell of the steps inside as parts of one; where there are none, of this one when it is done.

    The only step there is goes without saying: what is inside is told as it is.
    """
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
