"""Products with rows, whatever their storage: the only layer that knows how X is stored.

Rows in memory are served here. Remote rows (on a device, on a cluster, in files) are served by
:mod:`taufpl.operators.remote`, which is loaded when one of its names is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taufpl.operators._base import Operator, add_square
from taufpl.operators._blas import one_blas_thread
from taufpl.operators._chunks import map_chunks, scratch
from taufpl.operators._compat import is_foreign_array, like, to_numpy
from taufpl.operators._contents import contents
from taufpl.operators._convert import as_operator
from taufpl.operators._known_gram import KnownGramOperator
from taufpl.operators._magnitude import LARGEST_VALUE, check_squares
from taufpl.operators._pairs import FAR, FixedRows, is_dense, middle, spread, square_sums, work_type
from taufpl.operators._remote import is_remote
from taufpl.operators._stack import stacked

if TYPE_CHECKING:
    from taufpl.operators.remote import Block, Blocks, FileRows, LocalBlocks, as_blocks, lazy_labels, linear_scores

__all__ = [
    "FAR",
    "LARGEST_VALUE",
    "Block",
    "Blocks",
    "FileRows",
    "FixedRows",
    "KnownGramOperator",
    "LocalBlocks",
    "Operator",
    "add_square",
    "as_blocks",
    "as_operator",
    "check_squares",
    "contents",
    "is_dense",
    "is_foreign_array",
    "is_remote",
    "lazy_labels",
    "like",
    "linear_scores",
    "map_chunks",
    "middle",
    "one_blas_thread",
    "scratch",
    "spread",
    "square_sums",
    "stacked",
    "to_numpy",
    "work_type",
]


def __getattr__(name: str) -> Any:
    """Load remote rows when one of their public names is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("taufpl.operators.remote"), name)
