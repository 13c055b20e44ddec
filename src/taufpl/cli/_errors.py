"""Exit codes of commands, and errors, warnings and notes as one sentence on stderr."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from typer.core import TyperGroup

from taufpl.exceptions import UnseenValuesWarning

# 0 is success.
FAILED = 1
BAD_COMMAND_LINE = 2
EXIT_BROKEN = 3
EXIT_UNDECIDED = 4
INTERRUPTED = 130

EXIT_CODES = (
    "Exit codes: 0 done; 1 failed, for the reason given; 2 a command line that cannot be understood; 3 the tolerance "
    "is broken (evaluate: provably; monitor: either alarm); 4 evaluate cannot tell whether the tolerance is kept; "
    "130 interrupted; 143 terminated by SIGTERM, 129 by SIGHUP."
)
# A word of a message that is longer than this is some field of a file, and is cut.
_LONG_WORD = r"\S{301,}"
# Parameters that messages of the library name, and the options that they are here; some are no option.
_OPTIONS = (
    (r", (raise[^,.]*), or set insufficient='infinite'[^.]*", r", or \1"),
    (r",? or set insufficient='infinite'[^.]*", ""),
    (r"\bset threshold='cross' and leave order out", "give --threshold cross and no --time"),
    (r"\bset threshold='(\w+)'", r"give --threshold \1"),
    (r"\bthreshold=HeldOut\(share=([\d.]+)\)", r"--holdout \1"),
    (r"\(share='?([\w.]+)'?\)", r"(--holdout \1)"),
    (r"(?<![\w/.=-])restart=True\b", "--restart"),
    (r"(?<![\w/.=-])(looks|threshold)='(\w+)'", r"--\1 \2"),
    (r"(?<![\w/.=-])looks=(\d[\d.]*\d|\d)", r"--looks \1"),
)


class CommandLineError(ValueError):
    """The options contradict each other, or one of them has no meaning."""


class Terminated(KeyboardInterrupt):
    """A signal asks the process to end: an exception, so that drafts of files are removed on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


@contextmanager
def termination_raises() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise :class:`Terminated`, where nobody else has a use for them."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    mine = threading.current_thread() is threading.main_thread()
    taken = [each for each in numbers if mine and signal.getsignal(each) is signal.SIG_DFL]
    for each in taken:
        signal.signal(each, _terminate)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)


def _terminate(number: int, _: Any) -> None:
    # A second signal must not interrupt the cleaning that the first one starts.
    signal.signal(number, signal.SIG_IGN)
    raise Terminated(number)


class CommandGroup(TyperGroup):
    """Commands whose errors become a sentence on stderr and an exit code, and whose warnings become notes.

    The option ``--debug``, which lets errors through with their traceback, may stand before or after the command.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        (debug,) = (option for option in self.params if option.name == "debug")
        for command in self.commands.values():
            command.params.append(debug)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                # Commands count such values over all batches of a file, and say so once.
                warnings.simplefilter("ignore", UnseenValuesWarning)
                warnings.showwarning = _note_warning
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            word, code = "interrupted", INTERRUPTED
            if isinstance(error, Terminated):
                word, code = "terminated", error.exit_code
            _end(f"{word}; what was finished is kept, and nothing is half-written.", code)
        except BrokenPipeError:
            # Whoever read stdout has gone. Nothing more can be said there, not even at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(FAILED) from None
        except CommandLineError as error:
            _end(str(error), BAD_COMMAND_LINE)
        except Exception as error:
            # typer's own ways to end are exceptions too: they carry an exit code.
            if ctx.meta.get("debug") or hasattr(error, "exit_code"):
                raise
            _end(_sentence(error), FAILED)


def remember_debugging(context: typer.Context, wanted: bool) -> None:
    """Keep for the whole command line that ``--debug`` was given."""
    if wanted:
        context.meta["debug"] = True


def _sentence(error: BaseException) -> str:
    """An error as one line for people."""
    if isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f"{os.fspath(error.filename)}: "
        return f"{name}{error.strerror[0].lower()}{error.strerror[1:]}."
    if isinstance(error, MemoryError):
        return "there is not enough memory for this. Give fewer rows or columns."
    text = with_options(error) or type(error).__name__
    if isinstance(error, ImportError | OSError | ValueError):
        return text
    return f"{type(error).__name__}: {text} (--debug shows where)"


def with_options(message: Warning | BaseException | str) -> str:
    """A message of the library on one line, with options of commands in the place of parameters."""
    text = " ".join(str(message).split())
    for parameter, option in _OPTIONS:
        text = re.sub(parameter, option, text)
    return text


def note(text: str) -> None:
    """Say something on stderr that is no error."""
    print(f"taufpl: note: {_shortened(text)}", file=sys.stderr)


def _note_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    note(with_options(message))


def _shortened(text: str) -> str:
    return re.sub(_LONG_WORD, lambda word: f"{word[0][:100]}… ({len(word[0]):,} characters)", text)


def _end(text: str, code: int) -> None:
    with suppress(OSError):
        print(f"taufpl: {_shortened(text)}", file=sys.stderr)
    raise typer.Exit(code)
