"""Binary classification under a hard tolerance on the false-positive rate."""

from importlib.metadata import version as _version

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

__version__ = _version("taufpl")
