"""Kernels: functions of two rows, and features of low rank with an error that is known."""

from taufpl.kernels._cholesky import PartialFactor as PartialFactor, partial_cholesky as partial_cholesky
from taufpl.kernels._features import (
    KernelEstimator as KernelEstimator,
    LandmarkMap as LandmarkMap,
    PivotedCholeskyFeatures,
)
from taufpl.kernels._functions import Kernel, make_kernel, score_sizes as score_sizes

__all__ = ["Kernel", "PivotedCholeskyFeatures", "make_kernel"]
