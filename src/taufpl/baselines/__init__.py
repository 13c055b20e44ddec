"""Other people's methods, for comparison."""

from taufpl.baselines._bias_shifted import BiasShiftedSVM
from taufpl.baselines._cost_sensitive import CostSensitiveLogisticRegression, CostSensitiveSVM
from taufpl.baselines._partial_auc import PartialAUCSVM
from taufpl.baselines._rank_svm import RankSVM
from taufpl.baselines._toppush import TopPush

__all__ = [
    "BiasShiftedSVM",
    "CostSensitiveLogisticRegression",
    "CostSensitiveSVM",
    "PartialAUCSVM",
    "RankSVM",
    "TopPush",
]
