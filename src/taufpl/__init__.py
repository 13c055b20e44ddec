"""Binary classification under a hard tolerance on the false-positive rate.

Its names and packages are loaded when they are first asked for.
"""

from typing import TYPE_CHECKING

from taufpl._extras import on_demand

if TYPE_CHECKING:
    from taufpl._version import __version__ as __version__
    from taufpl.estimators import (
        KernelTauFPLClassifier,
        KernelTauFPLRanker,
        NeymanPearsonClassifier,
        ScoreScreen,
        ScreeningClassifier,
        TauFPLClassifier,
        TauFPLRanker,
        TauFPLRankerCV,
        TauPath,
        tau_path,
    )
    from taufpl.kernels import PivotedCholeskyFeatures

__all__ = [
    "KernelTauFPLClassifier",
    "KernelTauFPLRanker",
    "NeymanPearsonClassifier",
    "PivotedCholeskyFeatures",
    "ScoreScreen",
    "ScreeningClassifier",
    "TauFPLClassifier",
    "TauFPLRanker",
    "TauFPLRankerCV",
    "TauPath",
    "tau_path",
]

_PACKAGES = (
    "baselines",
    "datasets",
    "estimators",
    "exceptions",
    "experiments",
    "inspection",
    "kernels",
    "metrics",
    "monitoring",
    "operators",
    "persistence",
    "planning",
    "plotting",
    "preprocessing",
    "problem",
    "projection",
    "report",
    "solvers",
    "thresholding",
)

__getattr__ = on_demand(
    __name__,
    {
        "taufpl._version": ["__version__"],
        "taufpl.estimators": [name for name in __all__ if name != "PivotedCholeskyFeatures"],
        "taufpl.kernels": ["PivotedCholeskyFeatures"],
    },
    _PACKAGES,
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES, "__version__"})
