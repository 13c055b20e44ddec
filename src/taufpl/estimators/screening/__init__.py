"""ScreeningClassifier: scorers of several families, joined by a stack, under a tolerance."""

from taufpl.estimators.screening._candidates import EFFORTS as EFFORTS
from taufpl.estimators.screening._classifier import ScreeningClassifier
from taufpl.estimators.screening._leaderboard import Standing, ranked
from taufpl.estimators.screening._member import StackMember
from taufpl.estimators.screening._stack import StackedScorer

__all__ = ["ScreeningClassifier", "StackMember", "StackedScorer", "Standing", "ranked"]
