"""Products with rows, whatever their storage: the only layer that knows how X is stored.

Rows in memory are served here. Remote rows (on a device, on a cluster, in files) are served by
:mod:`taufpl.operators.remote`, which is loaded when one of its names is first asked for.
"""

from typing import TYPE_CHECKING

from taufpl._extras import deprecated, on_demand
from taufpl.operators._array_api import (
    are_together as are_together,
    device_of as device_of,
    is_collection as is_collection,
    is_foreign_array as is_foreign_array,
    is_remote,
    like as like,
    namespace as namespace,
    plain as plain,
    to_numpy as to_numpy,
)
from taufpl.operators._formats import KnownGramOperator as KnownGramOperator, as_operator
from taufpl.operators._operator import Operator, add_square as add_square
from taufpl.operators._threads import (
    ignoring as ignoring,
    map_chunks as map_chunks,
    n_threads as n_threads,
    one_blas_thread as one_blas_thread,
    scratch as scratch,
    thread_limit as thread_limit,
    worker as worker,
)
from taufpl.operators._values import (
    FAR as FAR,
    LARGEST_VALUE,
    FixedRows as FixedRows,
    check_squares,
    contents,
    is_dense as is_dense,
    middle as middle,
    spread as spread,
    square_sums as square_sums,
    stacked as stacked,
    work_type as work_type,
)

if TYPE_CHECKING:
    from taufpl.operators.remote import Block, Blocks, FileRows, LocalBlocks, as_blocks, lazy_labels, linear_scores

__all__ = [
    "LARGEST_VALUE",
    "Block",
    "Blocks",
    "FileRows",
    "LocalBlocks",
    "Operator",
    "as_blocks",
    "as_operator",
    "check_squares",
    "contents",
    "is_remote",
    "lazy_labels",
    "linear_scores",
]

_remote_names = on_demand(__name__, {"taufpl.operators.remote": __all__})
__getattr__ = deprecated(__name__, {"is_elsewhere": is_remote}, _remote_names)
