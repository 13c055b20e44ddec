"""The paper: the methods that it compares with, its data sets, and its experiments, run again.

Users find them in `taufpl.baselines`, `taufpl.datasets` and `taufpl.experiments`; each is loaded when it is first asked
for, and nothing else of this package knows of them.
"""

from typing import TYPE_CHECKING

from taufpl._extras import on_demand

if TYPE_CHECKING:
    from taufpl.paper._experiments import EXPERIMENTS, reproduce
    from taufpl.paper._libsvm import LIBSVM_DATASETS, DatasetInfo, fetch_libsvm
    from taufpl.paper._linear_baselines import BiasShiftedSVM, CostSensitiveLogisticRegression, CostSensitiveSVM
    from taufpl.paper._partial_auc import PartialAUCSVM
    from taufpl.paper._protocol import Trial
    from taufpl.paper._published_projections import bisection, ibis, ptkc, sort_based, sort_based_cone
    from taufpl.paper._ranking_baselines import RankSVM, TopPush

__all__ = [
    "EXPERIMENTS",
    "LIBSVM_DATASETS",
    "BiasShiftedSVM",
    "CostSensitiveLogisticRegression",
    "CostSensitiveSVM",
    "DatasetInfo",
    "PartialAUCSVM",
    "RankSVM",
    "TopPush",
    "Trial",
    "bisection",
    "fetch_libsvm",
    "ibis",
    "ptkc",
    "reproduce",
    "sort_based",
    "sort_based_cone",
]

__getattr__ = on_demand(
    __name__,
    {
        "taufpl.paper._experiments": ["EXPERIMENTS", "reproduce"],
        "taufpl.paper._libsvm": ["LIBSVM_DATASETS", "DatasetInfo", "fetch_libsvm"],
        "taufpl.paper._linear_baselines": ["BiasShiftedSVM", "CostSensitiveLogisticRegression", "CostSensitiveSVM"],
        "taufpl.paper._partial_auc": ["PartialAUCSVM"],
        "taufpl.paper._protocol": ["Trial"],
        "taufpl.paper._published_projections": ["bisection", "ibis", "ptkc", "sort_based", "sort_based_cone"],
        "taufpl.paper._ranking_baselines": ["RankSVM", "TopPush"],
    },
)
