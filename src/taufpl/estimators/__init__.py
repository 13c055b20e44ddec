"""Estimators: validate, build the problem, solve it, set the threshold."""

from taufpl.estimators._classifier import TauFPLClassifier
from taufpl.estimators._kernel_classifier import KernelTauFPLClassifier
from taufpl.estimators._kernel_ranker import KernelTauFPLRanker
from taufpl.estimators._neyman_pearson import NeymanPearsonClassifier
from taufpl.estimators._path import TauPath, tau_path
from taufpl.estimators._ranker import TauFPLRanker
from taufpl.estimators._ranker_cv import TauFPLRankerCV

__all__ = [
    "KernelTauFPLClassifier",
    "KernelTauFPLRanker",
    "NeymanPearsonClassifier",
    "TauFPLClassifier",
    "TauFPLRanker",
    "TauFPLRankerCV",
    "TauPath",
    "tau_path",
]
