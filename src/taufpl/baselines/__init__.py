"""The methods that the paper compares with, and others: scorers in memory, and projections.

They are loaded from `taufpl.paper` when they are first asked for.
"""

from typing import TYPE_CHECKING

from taufpl._extras import on_demand

if TYPE_CHECKING:
    from taufpl.paper import (
        BiasShiftedSVM,
        CostSensitiveLogisticRegression,
        CostSensitiveSVM,
        PartialAUCSVM,
        RankSVM,
        TopPush,
    )

__all__ = [
    "BiasShiftedSVM",
    "CostSensitiveLogisticRegression",
    "CostSensitiveSVM",
    "PartialAUCSVM",
    "RankSVM",
    "TopPush",
]

__getattr__ = on_demand(__name__, {"taufpl.paper": __all__}, ["projection"])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "projection"})
