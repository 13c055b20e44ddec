"""Remote rows: on a device, in files, on the workers of a cluster."""

from taufpl.operators.remote._array_entries import ArraySelected as ArraySelected
from taufpl.operators.remote._arrays import ArrayBlock as ArrayBlock
from taufpl.operators.remote._as_blocks import (
    as_blocks as as_blocks,
    current_client as current_client,
    header as header,
)
from taufpl.operators.remote._backends import LazyRows as LazyRows, as_block as as_block
from taufpl.operators.remote._blocks import (
    Block as Block,
    Blocks as Blocks,
    Deferred as Deferred,
    DeferredReduction as DeferredReduction,
    Reduction as Reduction,
    Selected as Selected,
    State as State,
    Sums as Sums,
)
from taufpl.operators.remote._file_rows import FileRows as FileRows
from taufpl.operators.remote._labels import check_rows as check_rows, divide as divide, label_counts as label_counts
from taufpl.operators.remote._local import LocalBlocks as LocalBlocks
from taufpl.operators.remote._numpy import stack_rows as stack_rows
from taufpl.operators.remote._order import Entries as Entries, order_statistic as order_statistic
from taufpl.operators.remote._scores import (
    device_rows as device_rows,
    fetched as fetched,
    lazy_labels as lazy_labels,
    linear_scores as linear_scores,
    map_rows as map_rows,
    named_rows as named_rows,
    on_cuda as on_cuda,
    rows_on_host as rows_on_host,
)
from taufpl.operators.remote.dask._blocks import DaskBlocks as DaskBlocks
from taufpl.operators.remote.dask._training import as_collections as as_collections, watched as watched
