"""Remote rows: on a device, in files, on the workers of a cluster."""

from taufpl.operators.remote._arrays import ArrayBlock as ArrayBlock, ArraySelected as ArraySelected
from taufpl.operators.remote._as_blocks import (
    as_blocks as as_blocks,
    current_client as current_client,
    device_rows as device_rows,
    fetched as fetched,
    header as header,
    lazy_labels as lazy_labels,
    linear_scores as linear_scores,
    map_rows as map_rows,
    named_rows as named_rows,
    on_cuda as on_cuda,
    rows_on_host as rows_on_host,
)
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
from taufpl.operators.remote._dask_blocks import (
    DaskBlocks as DaskBlocks,
    as_collections as as_collections,
    watched as watched,
)
from taufpl.operators.remote._dask_chunks import FileRows as FileRows
from taufpl.operators.remote._local import (
    LazyRows as LazyRows,
    LocalBlocks as LocalBlocks,
    as_block as as_block,
    stack_rows as stack_rows,
)
from taufpl.operators.remote._summaries import (
    Entries as Entries,
    check_rows as check_rows,
    divide as divide,
    label_counts as label_counts,
    order_statistic as order_statistic,
)
