"""Products with the data, whatever their storage: the only layer that knows how X is stored."""

from taufpl.operators._base import Operator
from taufpl.operators._contents import contents
from taufpl.operators._convert import as_operator
from taufpl.operators._magnitude import LARGEST_VALUE, check_squares
from taufpl.operators._remote import as_blocks, is_remote
from taufpl.operators.remote._blocks import Block, Blocks
from taufpl.operators.remote._file_rows import FileRows
from taufpl.operators.remote._local import LocalBlocks
from taufpl.operators.remote._scores import lazy_labels, linear_scores

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
