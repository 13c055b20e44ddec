"""The methods that the paper compares with, and others: scorers in memory, and projections."""

from taufpl.baselines._bias_shifted import BiasShiftedSVM
from taufpl.baselines._cost_sensitive import CostSensitiveLogisticRegression, CostSensitiveSVM
from taufpl.baselines._partial_auc import (
    PartialAUCSVM,
    partial_auc_path as partial_auc_path,
    range_count as range_count,
)
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
