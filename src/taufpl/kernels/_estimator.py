"""The base of all estimators with a kernel: its parameters, validation of rows, and tags."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from taufpl._sklearn import Interval, StrOptions
from taufpl.kernels._functions import KERNEL_NAMES, Kernel, check_suits, make_kernel, takes_sparse
from taufpl.kernels._scale import GAMMA_RULES


class KernelEstimator(BaseEstimator):
    """An estimator with the parameters of :func:`make_kernel`, and those by which landmarks are chosen."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
        "gamma": [StrOptions(set(GAMMA_RULES)), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Real, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "pivoting": [StrOptions({"random", "greedy"})],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def _make_kernel(self, gamma: float | str, X: Any = None) -> Kernel:
        """The kernel at a gamma; the name of a rule for gamma is resolved by the rows X, which are checked."""
        return make_kernel(self.kernel, gamma, self.degree, self.coef0, self.kernel_params, X)

    def _validated(self, X: Any, y: Any = "no_validation", *, dtype: Any, reset: bool = True) -> Any:
        """Rows in the form that the kernel takes; new rows (reset=False) are checked to suit it."""
        sparse = False if self.kernel == "precomputed" else "csr"
        found = validate_data(self, X, y, reset=reset, accept_sparse=sparse, dtype=dtype)
        if not reset:
            check_suits(self.kernel, found)
        return found

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(int(check_random_state(self.random_state).randint(2**31 - 1)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.kernel)
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.positive_only = self.kernel == "chi2"
        return tags
