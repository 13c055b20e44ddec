"""Which class serves which array, and rows that are loaded when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from taufpl.operators._base import Rows
from taufpl.operators._formats import operator_on
from taufpl.operators.remote._arrays import ArrayBlock, ArrayRows
from taufpl.operators.remote._blocks import Block
from taufpl.operators.remote._numpy import NumpyBlock
from taufpl.operators.remote._sparse_torch import SparseTorchRows, is_sparse_tensor


def as_rows(X: Any) -> Rows:
    """The rows of an array, by its type: a new format has its line here."""
    if isinstance(X, Rows):
        return X
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return operator_on(X)
    return SparseTorchRows(X) if is_sparse_tensor(X) else ArrayRows(X)


def as_block(X: Any) -> Block:
    """The block of an array, by its type; a callable without arguments is called whenever its rows are needed.

    Examples
    --------
    >>> import numpy as np
    >>> as_block(np.eye(3)).dot(np.ones(3))
    array([1., 1., 1.])
    """
    if isinstance(X, Block):
        return X
    if callable(X):
        # Loaded once at first, to learn the number of rows and their library.
        first = as_block(X())
        return first.on(LazyRows(X, first.shape, exact=first.exact))
    rows = as_rows(X)
    return ArrayBlock(rows, rows.library) if isinstance(rows, ArrayRows) else NumpyBlock(rows)


def _of_loaded(name: str) -> Callable[..., Any]:
    return lambda self, *arguments, **options: getattr(self.loaded, name)(*arguments, **options)


class LazyRows(Rows):
    """Rows that are loaded for a task that multiplies with them, and for no longer.

    Most rounds of a solver look at the state alone, and then nothing is read. `load` gives the same rows every time.
    """

    def __init__(self, load: Callable[[], Any], shape: tuple[int, int], *, exact: bool = True) -> None:
        self.load, self.shape, self.exact = load, shape, exact
        self._loaded: Rows | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    @property
    def loaded(self) -> Rows:
        """The rows, read unless they are held."""
        if self._loaded is None:
            rows = as_rows(self.load())
            if rows.shape != self.shape:
                raise ValueError(
                    f"A block of rows must be the same each time it is read: it had shape {self.shape}, and now has "
                    f"{rows.shape}. Was its file written to?"
                )
            self._loaded = rows
        return self._loaded

    def forget(self) -> None:
        """Let go of the rows."""
        self._loaded = None

    # No method needs more than the rows.
    dot, add, moments, squares, take = map(_of_loaded, ("dot", "add", "moments", "squares", "take"))


def with_own_rows(block: Block) -> Block:
    """The block that a task is given which may run beside others: what it loads, and its scratch, go with it.

    What is noted in scratch keeps vectors of the state alive, which a cluster that is short of memory believes to have
    written to disk.
    """
    rows = block.rows
    if not isinstance(rows, LazyRows):
        return block
    return block.on(LazyRows(rows.load, rows.shape, exact=rows.exact))
