"""Two versions of the sources, each in a process of its own, which fit the same rows in turns.

A script that compares versions lists its cases, calls `serve` when it is started with ``--serve``, and starts itself
that way once for each version. What else runs on the machine meets both alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

Fit = Callable[[], Any]


def serve(cases: Mapping[str, Callable[[], Fit]], tell: Callable[[Any], dict[str, float]] | None = None) -> None:
    """Fit what is asked for by name, line by line; answer with the seconds, and with what the result tells."""
    warnings.simplefilter("ignore")
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print must not be taken for an answer
    print(json.dumps(list(cases)), file=answer, flush=True)
    ready: dict[str, Fit] = {}
    for line in sys.stdin:
        name, warm = json.loads(line)
        if name not in ready:
            ready = {name: cases[name]()}
            if warm:
                ready[name]()
        began = time.perf_counter()
        result = ready[name]()
        seconds = time.perf_counter() - began
        print(json.dumps([seconds, tell(result) if tell else {}]), file=answer, flush=True)


class Version:
    """One version of the sources in a process of its own, which runs the script that serves it."""

    def __init__(self, script: str, source: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, script, "--serve"],
            env=os.environ | {"PYTHONPATH": os.path.abspath(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names: list[str] = self._answer()

    def fit(self, name: str, *, warm: bool = True) -> tuple[float, dict[str, float]]:
        """Seconds of one fit, after one that does not count if it is the first, and what its result tells."""
        assert self.process.stdin is not None
        print(json.dumps([name, warm]), file=self.process.stdin, flush=True)
        seconds, told = self._answer()
        return seconds, told

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"The process of a version ended with code {self.process.wait()}; see its message above."
            )
        return json.loads(line)
