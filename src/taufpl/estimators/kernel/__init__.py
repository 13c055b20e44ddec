"""Rankings and classifiers in the space of a kernel."""

from taufpl.estimators.kernel._classifier import KernelTauFPLClassifier
from taufpl.estimators.kernel._ranker import KernelTauFPLRanker
from taufpl.estimators.kernel._scorer import KernelScorer

__all__ = ["KernelScorer", "KernelTauFPLClassifier", "KernelTauFPLRanker"]
