"""Losses of a margin u and their conjugates.

A new loss is one class here. It must be convex, decreasing, differentiable, at least 1 at u = 0 and finite there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from scipy.optimize import minimize_scalar

from taufpl._types import Vector


class Loss(ABC):
    """A convex decreasing loss l(u) and its conjugate l*(-a) = max over u of -a u - l(u), for a >= 0.

    Attributes
    ----------
    conjugate_curvature : float or None
        c, where ``l*(-a) = (c/2) a^2 - conjugate_slope a`` on a >= 0; None where the conjugate is not of this form.
        The Newton solver needs it.
    conjugate_slope : float
        See above; without meaning where `conjugate_curvature` is None.
    conjugate_smoothness : float
        Largest second derivative of l*(-a) on a >= 0, which bounds a gradient step on the dual; may be np.inf.
    """

    conjugate_curvature: float | None = None
    conjugate_slope: float = math.nan
    conjugate_smoothness: float = math.inf

    @abstractmethod
    def value(self, margins: Vector) -> Vector:
        """l(u), entry by entry."""

    @abstractmethod
    def derivative(self, margins: Vector) -> Vector:
        """l'(u), entry by entry; never positive."""

    @abstractmethod
    def conjugate(self, alpha: Vector) -> Vector:
        """l*(-alpha), entry by entry, for alpha >= 0."""

    @abstractmethod
    def conjugate_derivative(self, alpha: Vector) -> Vector:
        """Derivative of a -> l*(-a) at alpha, entry by entry."""

    def best_scale(self, alpha: Vector, quadratic: float) -> float:
        """Argmin over theta >= 0 of theta^2 quadratic + sum_i l*(-theta alpha_i), for an alpha that is not zero."""

        def along_ray(theta: float) -> float:
            return theta * theta * quadratic + float(self.conjugate(theta * alpha).sum())

        upper = 1.0
        while upper < 1e12 and along_ray(2.0 * upper) < along_ray(upper):
            upper *= 2.0
        return float(minimize_scalar(along_ray, bounds=(0.0, 2.0 * upper), method="bounded").x)


class SquaredHinge(Loss):
    """The truncated quadratic loss of the paper.

    ::

        l(u) = max(0, 1 - u)^2        l'(u) = -2 max(0, 1 - u)        l*(-a) = a^2/4 - a  for a >= 0

    Examples
    --------
    >>> import numpy as np
    >>> SquaredHinge().value(np.array([-1.0, 0.0, 2.0]))
    array([4., 1., 0.])
    """

    conjugate_curvature = 0.5
    conjugate_slope = 1.0
    conjugate_smoothness = 0.5

    def value(self, margins: Vector) -> Vector:
        """l(u) = max(0, 1 - u)^2."""
        return np.square(np.maximum(1.0 - margins, 0.0))

    def derivative(self, margins: Vector) -> Vector:
        """l'(u) = -2 max(0, 1 - u)."""
        return -2.0 * np.maximum(1.0 - margins, 0.0)

    def conjugate(self, alpha: Vector) -> Vector:
        """l*(-a) = a^2/4 - a."""
        return alpha * (0.25 * alpha - 1.0)

    def conjugate_derivative(self, alpha: Vector) -> Vector:
        """a/2 - 1."""
        return 0.5 * alpha - 1.0

    def best_scale(self, alpha: Vector, quadratic: float) -> float:
        """S / (2 Q) with S = sum alpha and ``Q = quadratic + |alpha|^2 / 4``."""
        return 0.5 * float(alpha.sum()) / (quadratic + 0.25 * float(alpha @ alpha))
