"""Kernels: functions of two rows, and features of low rank with an error that is known."""

from taufpl.kernels._cholesky import PartialFactor, partial_cholesky
from taufpl.kernels._estimator import KernelEstimator
from taufpl.kernels._features import PivotedCholeskyFeatures
from taufpl.kernels._functions import Kernel, make_kernel
from taufpl.kernels._map import LandmarkMap
from taufpl.kernels._rounding import score_sizes

__all__ = [
    "Kernel",
    "KernelEstimator",
    "LandmarkMap",
    "PartialFactor",
    "PivotedCholeskyFeatures",
    "make_kernel",
    "partial_cholesky",
    "score_sizes",
]
