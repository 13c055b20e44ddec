"""The one question whether X is in memory, and one set of names for arrays of all libraries."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl._extras import require


def array_compat() -> Any:
    """The package array_api_compat, or the copy of it that scikit-learn brings along."""
    try:
        return import_module("array_api_compat")
    except ImportError:
        return import_module("sklearn.externals.array_api_compat")


def namespace(x: Any) -> Any:
    """The library of an array."""
    compat = array_compat()
    xp = compat.array_namespace(x)
    return _TorchNames(xp) if compat.is_torch_array(x) else xp


class _TorchNames:
    """PyTorch by the names of the standard, with a few functions that launch one kernel each instead of several.

    The standard lets indices count from the end, which ours never do, and lets a conversion copy where nothing changes.
    Types are not mixed, except where numbers are put together for the way to the host: then integers become floats.
    """

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._torch = require("torch", "gpu", "for tensors")

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._xp, name)
        setattr(self, name, value)
        return value

    def take(self, x: Any, indices: Any, *, axis: int = 0) -> Any:
        return x.index_select(axis, indices)

    def astype(self, x: Any, dtype: Any, *, copy: bool = False) -> Any:
        return x.to(dtype)

    def nonzero(self, x: Any) -> tuple[Any]:
        return (x.nonzero()[:, 0],)

    def concat(self, arrays: Any, *, axis: int = 0) -> Any:
        return self._torch.cat(arrays, axis)

    def cumulative_sum(self, x: Any) -> Any:
        return x.cumsum(0)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return self._torch.where(condition, x, y)

    def sum(self, x: Any, *, axis: int | None = None) -> Any:
        return x.sum(axis)

    def clip(self, x: Any, low: float, high: float | None) -> Any:
        return x.clamp(low, high)

    def matmul(self, x: Any, y: Any) -> Any:
        return x @ y


def is_remote(X: Any) -> bool:
    """Whether X is for :func:`as_blocks`: a dask collection, or an array of another library than NumPy and SciPy.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.operators import is_remote
    >>> is_remote(np.eye(2)), is_remote([[1, 2]])
    (False, False)
    """
    return is_collection(X) or is_foreign_array(X)


def is_collection(X: Any) -> bool:
    """Whether X is any collection of dask, without importing dask where it is not used."""
    return "dask" in sys.modules and bool(require("dask.base", "dask", "for dask collections").is_dask_collection(X))


# Arrays that do not say what library they are of.
_SILENT = (("torch", "Tensor"), ("cupy", "ndarray"))


def is_foreign_array(X: Any) -> bool:
    """An array by the array API standard, or of PyTorch or CuPy, which have other ways to say so."""
    if isinstance(X, np.ndarray | np.generic):
        return False
    loaded = ((sys.modules.get(library), name) for library, name in _SILENT)
    kinds = tuple(getattr(module, name) for module, name in loaded if module is not None)
    return hasattr(X, "__array_namespace__") or isinstance(X, kinds)


def device_of(x: Any) -> Any:
    """The device of an array."""
    return array_compat().device(x)


def are_together(X: Any, y: Any) -> bool:
    """Whether two arrays are of one library, other than NumPy, and on one device."""
    if not (is_foreign_array(X) and is_foreign_array(y)):
        return False
    compat = array_compat()
    return compat.array_namespace(X) is compat.array_namespace(y) and device_of(X) == device_of(y)


def to_numpy(values: Any) -> NDArray[Any]:
    """A NumPy array of the same numbers, from wherever they are; type and shape stay."""
    if not is_foreign_array(values):
        return np.asarray(values)
    compat = array_compat()
    if compat.is_torch_array(values):
        return np.array(plain(values).cpu().numpy())
    if compat.is_cupy_array(values):
        return np.asarray(values.get())
    return np.array(np.from_dlpack(values))


def plain(X: Any) -> Any:
    """The numbers alone: PyTorch may have been asked to follow what becomes of them."""
    return X.detach() if hasattr(X, "detach") else X


def like(X: Any, values: NDArray[Any]) -> Any:
    """Numbers as an array of X's library, on X's device."""
    return namespace(X).asarray(values, device=array_compat().device(X))
