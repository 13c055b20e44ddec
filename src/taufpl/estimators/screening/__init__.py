"""The flagship: scorers of several families, joined by a stack, under a tolerance."""

from taufpl.estimators.screening._classifier import ScreeningClassifier
from taufpl.estimators.screening._stack import StackedScorer, StackMember

__all__ = ["ScreeningClassifier", "StackMember", "StackedScorer"]
