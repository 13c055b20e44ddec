"""Rankings and classifiers in the space of a kernel."""

from taufpl.estimators.kernel._classifier import KernelTauFPLClassifier
from taufpl.estimators.kernel._ranker import KernelScorer, KernelTauFPLRanker

__all__ = ["KernelScorer", "KernelTauFPLClassifier", "KernelTauFPLRanker"]
