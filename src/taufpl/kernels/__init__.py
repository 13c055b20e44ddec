"""Kernels: functions of two rows, and features of low rank with an error that is known."""

# For the layers above alone, so that these names are not in `__all__`.
from taufpl.kernels._cholesky import PartialFactor as PartialFactor, partial_cholesky as partial_cholesky
from taufpl.kernels._features import PivotedCholeskyFeatures
from taufpl.kernels._functions import (
    KERNEL_NAMES as KERNEL_NAMES,
    Kernel,
    check_suits as check_suits,
    make_kernel,
    takes_sparse as takes_sparse,
)
from taufpl.kernels._map import LandmarkMap as LandmarkMap
from taufpl.kernels._rounding import score_sizes as score_sizes

__all__ = ["Kernel", "PivotedCholeskyFeatures", "make_kernel"]
