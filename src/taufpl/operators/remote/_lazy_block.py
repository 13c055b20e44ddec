"""Rows that are loaded for a task that reads them, and for no longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from taufpl.operators.remote._blocks import Block
from taufpl.operators.remote._local import LoadedBlock, as_block
from taufpl.operators.remote._numpy import NumpyBlock


class LazyBlock(LoadedBlock):
    """A block of known shape, so that it is not loaded before a task multiplies with it.

    Most rounds of a solver look at the state alone, and then nothing is read. Tasks that run at the same time get an
    object each (`anew`), which is gone with the task: one task reads the rows at most once, and no memory stays behind.

    Parameters
    ----------
    load : callable
        Gives the rows, as NumPy array or SciPy matrix. Called again for every task that reads them.
    shape : tuple of int
        Rows of this block, and features.
    """

    xp = np
    exact = True

    def __init__(self, load: Callable[[], Any], shape: tuple[int, int]) -> None:
        self._load = load
        self._rows: Block | None = None
        self._shell = NumpyBlock(np.empty((0, shape[1])))
        self._shell.shape = shape
        self.shape, self.scratch = shape, {}

    def anew(self) -> LazyBlock:
        """The same rows, not loaded.

        With a `scratch` of its own: what is noted there keeps vectors of the state alive, which a cluster that is short
        of memory believes to have written to disk.
        """
        return LazyBlock(self._load, self.shape)

    @property
    def rows(self) -> Block:
        """The block that was read."""
        if self._rows is None:
            self._rows = as_block(self._load())
            if self._rows.shape != self.shape:
                raise ValueError(
                    f"A block of rows must be the same each time it is read: it had shape {self.shape}, and now has "
                    f"{self._rows.shape}. Was its file written to?"
                )
        return self._rows

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_rows": None}
