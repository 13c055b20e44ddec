"""Linear rankings: the trimmed one, that of Gaussian recall, and the candidates among which "auto" chooses."""

from taufpl.estimators.rankings._candidates import (
    AutoFitter,
    all_names as all_names,
    as_good_as_best as as_good_as_best,
    average as average,
    find_candidates as find_candidates,
    telling_features as telling_features,
)
from taufpl.estimators.rankings._gaussian_recall import (
    GaussianRecall as GaussianRecall,
    NegativeMoments as NegativeMoments,
    fit_gaussian_recall as fit_gaussian_recall,
)
from taufpl.estimators.rankings._plain import (
    LOGISTIC as LOGISTIC,
    SQUARED_HINGE as SQUARED_HINGE,
    PenalisedLoss as PenalisedLoss,
    constant_direction as constant_direction,
)
from taufpl.estimators.rankings._trimmed import (
    fit_trimmed as fit_trimmed,
    following_share as following_share,
    rank,
    trimmed_path as trimmed_path,
)

__all__ = ["AutoFitter", "rank"]
