"""What a storage format must provide, in memory or remote. A new format is one class with these five methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from taufpl._types import Vector


class Rows(ABC):
    """Rows x_i of a matrix X in one storage format.

    Vectors with an entry a feature come in as NumPy arrays. Everything else is an array of the library that holds X:
    indices of rows (None: all of them, in order), vectors with an entry a row, and results, which are in double
    precision.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns of X.
    exact : bool
        Whether `dot` adds up in double precision even where it is not asked to.
    """

    shape: tuple[int, int]
    exact: bool = True

    @abstractmethod
    def dot(self, w: Vector, rows: Any | None = None, *, exact: bool = False) -> Any:
        """x_i . w for each of the rows; one pass. If `exact`, in double precision throughout."""

    @abstractmethod
    def add(self, values: Any, rows: Any | None = None) -> Any:
        """Sum of values_i x_i over the rows, with values_i in the order of the rows."""

    @abstractmethod
    def moments(self, rows: Any, shift: Vector) -> tuple[Any, Any]:
        """Sums of (x_i - shift)(x_i - shift)' and of x_i - shift over the rows."""

    @abstractmethod
    def squares(self, rows: Any | None, axis: int) -> Any:
        """Sums of squares along each of the rows (axis 1), or down each column over the rows (axis 0)."""

    @abstractmethod
    def take(self, rows: Any | None) -> Any:
        """A copy of some rows, as an array or a sparse matrix; or all rows (None), which may be no copy."""
