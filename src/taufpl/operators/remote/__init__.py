"""Remote rows: on a device, in files, on the workers of a cluster."""

from taufpl.operators._rows import Matrix, Vector
from taufpl.operators.remote._arrays import ArrayBlock
from taufpl.operators.remote._as_blocks import as_blocks, header
from taufpl.operators.remote._backends import LazyRows, as_block
from taufpl.operators.remote._blocks import (
    Block,
    Blocks,
    Deferred,
    DeferredReduction,
    Ordered,
    Reduction,
    Selected,
    State,
    Sums,
)
from taufpl.operators.remote._file_rows import FileRows
from taufpl.operators.remote._labels import check_rows, divide, label_counts
from taufpl.operators.remote._local import LocalBlocks
from taufpl.operators.remote._numpy import NumpyBlock
from taufpl.operators.remote._order import Entries, order_statistic
from taufpl.operators.remote._scores import fetched, lazy_labels, linear_scores, map_rows, rows_on_host

__all__ = [
    "ArrayBlock",
    "Block",
    "Blocks",
    "Deferred",
    "DeferredReduction",
    "Entries",
    "FileRows",
    "LazyRows",
    "LocalBlocks",
    "Matrix",
    "NumpyBlock",
    "Ordered",
    "Reduction",
    "Selected",
    "State",
    "Sums",
    "Vector",
    "as_block",
    "as_blocks",
    "check_rows",
    "divide",
    "fetched",
    "header",
    "label_counts",
    "lazy_labels",
    "linear_scores",
    "map_rows",
    "order_statistic",
    "rows_on_host",
]
