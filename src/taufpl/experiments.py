"""The paper's experiments, run again: its protocol, its systems, its figures beside ours.

They are loaded from `taufpl.paper` when they are first asked for.
"""

from typing import TYPE_CHECKING

from taufpl._extras import on_demand

if TYPE_CHECKING:
    from taufpl.paper import EXPERIMENTS, Trial as Trial, reproduce

__all__ = ["EXPERIMENTS", "reproduce"]

__getattr__ = on_demand(__name__, {"taufpl.paper": [*__all__, "Trial"]})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
