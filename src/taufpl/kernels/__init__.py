"""Kernels: functions of two rows, and features of low rank with an error that is known."""

from taufpl.kernels._features import PivotedCholeskyFeatures
from taufpl.kernels._functions import Kernel, make_kernel

__all__ = ["Kernel", "PivotedCholeskyFeatures", "make_kernel"]
