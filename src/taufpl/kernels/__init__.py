"""Kernels: functions of two rows, and features of low rank with an error that is known."""

from taufpl.kernels._cholesky import PartialFactor as PartialFactor, partial_cholesky as partial_cholesky
from taufpl.kernels._estimator import KernelEstimator as KernelEstimator
from taufpl.kernels._features import PivotedCholeskyFeatures
from taufpl.kernels._functions import Kernel, make_kernel
from taufpl.kernels._map import LandmarkMap as LandmarkMap
from taufpl.kernels._rounding import score_sizes as score_sizes

__all__ = ["Kernel", "PivotedCholeskyFeatures", "make_kernel"]
