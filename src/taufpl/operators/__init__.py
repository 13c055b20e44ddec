"""Products with the data, whatever their storage: the only layer that knows how X is stored."""

from taufpl.operators._base import Operator
from taufpl.operators._contents import contents
from taufpl.operators._convert import as_operator

__all__ = ["Operator", "as_operator", "contents"]
