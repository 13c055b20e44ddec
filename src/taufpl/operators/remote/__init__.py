"""Remote rows: on a device, in files, on the workers of a cluster."""

from taufpl.operators.remote._arrays import ArrayBlock
from taufpl.operators.remote._as_blocks import as_blocks, header
from taufpl.operators.remote._blocks import (
    Block,
    Blocks,
    Deferred,
    DeferredReduction,
    Matrix,
    Ordered,
    Reduction,
    Selected,
    State,
    Sums,
    Vector,
)
from taufpl.operators.remote._file_rows import FileRows
from taufpl.operators.remote._foreign import rows_on_host
from taufpl.operators.remote._labels import check_rows, divide, label_counts
from taufpl.operators.remote._local import LoadedBlock, LocalBlocks, as_block
from taufpl.operators.remote._numpy import NumpyBlock
from taufpl.operators.remote._order import Entries, order_statistic
from taufpl.operators.remote._scores import fetched, lazy_labels, linear_scores, map_rows

__all__ = [
    "ArrayBlock",
    "Block",
    "Blocks",
    "Deferred",
    "DeferredReduction",
    "Entries",
    "FileRows",
    "LoadedBlock",
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
