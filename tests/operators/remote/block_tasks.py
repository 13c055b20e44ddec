"""Tasks for the tests of engines, in a module that the workers of a cluster can import."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Begin:
    """Scores of the rows as state, and how many rows there are."""

    coef: Any

    def __call__(self, block, state):
        scores = block.dot(self.coef)
        return {**state, "scores": scores}, (block.shape[0], scores.sum())


@dataclass(frozen=True)
class Move:
    """Add to the scores; the order of such changes shows in the result."""

    factor: float
    shift: float
    seconds: float = 0.0

    def __call__(self, block, state):
        time.sleep(self.seconds)
        return {**state, "scores": self.factor * state["scores"] + self.shift}


@dataclass(frozen=True)
class Total:
    """Number and sum of the scores, and the sum of the rows weighted by them."""

    def __call__(self, block, state):
        return len(state["scores"]), state["scores"].sum(), block.settle(block.add(state["scores"], None))[0]


@dataclass(frozen=True)
class Nothing:
    def __call__(self, block, state):
        return (1,)


@dataclass(frozen=True)
class Whole:
    """Everything that a block holds, for small data."""

    def __call__(self, block, state):
        eye = np.eye(block.shape[1])
        return np.column_stack([block.dot(column) for column in eye]), dict(state)


@dataclass(frozen=True)
class Square:
    """A large result: d x d."""

    def __call__(self, block, state):
        gram, _ = block.settle(block.moments(np.arange(block.shape[0]), np.zeros(block.shape[1])))[0]
        return (gram,)


@dataclass(frozen=True)
class Slow:
    """Wait, and count the calls in a folder."""

    folder: str
    seconds: float

    def __call__(self, block, state):
        Path(self.folder, f"{state['number']}-{time.time_ns()}").touch()
        time.sleep(self.seconds)
        return (1,)


@dataclass(frozen=True)
class Fail:
    """What a bug does."""

    def __call__(self, block, state):
        raise ZeroDivisionError(f"block {state['number']}")


@dataclass(frozen=True)
class KillOnce:
    """End the worker that runs the first block, but only once."""

    flag: str

    def __call__(self, block, state):
        if state["number"] == 0 and not Path(self.flag).exists():
            Path(self.flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return block.shape[0], state["scores"].sum()


@dataclass(frozen=True)
class Kill:
    """End every worker that runs the first block."""

    def __call__(self, block, state):
        if state["number"] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return (1,)
