"""The function that the Newton solver minimises between two moves of its proximal centre.

::

    psi(w) = (m reg/2)|w|^2 + max over the dual set of
             { -alpha . s+ - sum_i l*(-alpha_i) + beta . s- - |beta - centre|^2 / (2 sigma) }

with s = X w. Where l*(-a) = (c/2) a^2 - b a, the maximiser is a projection with weight sigma c, of
alpha0 = (b - s+)/c and beta0 = centre + sigma s-, and

    grad psi(w) = m reg w - X+' alpha + X-' beta.

Only beta needs the proximal term: the conjugate is strongly convex in alpha already.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taufpl.problem import RankingProblem
from taufpl.projection import Thresholds
from taufpl.projection._checks import LEAST_WEIGHT, MOST_WEIGHT
from taufpl.projection._project import project_topk_simplex_into

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Maximiser:
    """The pair that attains the maximum, with the thresholds of its projection."""

    alpha: Vector
    beta: Vector
    thresholds: Thresholds


@dataclass(frozen=True, slots=True)
class Activity:
    """Which entries of a maximiser move: indices among positives and among negatives.

    Attributes
    ----------
    active : ndarray
        alpha > 0.
    free : ndarray
        0 < beta < cap.
    capped : ndarray
        beta = cap.
    """

    active: Rows
    free: Rows
    capped: Rows

    @classmethod
    def of(cls, maximiser: Maximiser) -> Activity:
        """Read it off the maximiser."""
        loaded = np.flatnonzero(maximiser.beta)
        at_cap = maximiser.beta[loaded] >= maximiser.thresholds.cap
        return cls(np.flatnonzero(maximiser.alpha), loaded[~at_cap], loaded[at_cap])


class Smoothing:
    """psi for one problem, with a centre and a sigma that the solver moves.

    Buffers are reused: targets and maximiser are overwritten by the next ones.
    """

    def __init__(self, problem: RankingProblem, centre: Vector, sigma: float) -> None:
        curvature = problem.loss.conjugate_curvature
        if curvature is None:
            raise ValueError(
                f"the Newton solver needs a loss with a quadratic conjugate, got {type(problem.loss).__name__}; "
                "use the accelerated solver."
            )
        self.problem = problem
        self.centre = centre
        self.curvature = curvature
        self.sigma = sigma
        self.guess: Thresholds | None = None
        sizes = (problem.n_positive, problem.n_negative)
        self.targets = (np.empty(sizes[0]), np.empty(sizes[1]))
        self._pair = (np.empty(sizes[0]), np.empty(sizes[1]))

    @property
    def sigma(self) -> float:
        """Proximal step; kept where the projection accepts the weight that it gives to alpha."""
        return self._sigma

    @sigma.setter
    def sigma(self, value: float) -> None:
        self._sigma = min(max(value, 2.0 * LEAST_WEIGHT / self.curvature), 0.5 * MOST_WEIGHT / self.curvature)

    @property
    def weight(self) -> float:
        """Weight of alpha in the projection."""
        return self.sigma * self.curvature

    def maximise(self, positive_scores: Vector, negative_scores: Vector) -> Maximiser:
        """The maximising pair at these scores; `targets` then holds (alpha0, beta0)."""
        alpha, beta = self.targets
        np.subtract(self.problem.loss.conjugate_slope, positive_scores, out=alpha)
        alpha /= self.curvature
        np.multiply(negative_scores, self.sigma, out=beta)
        beta += self.centre
        self.guess = project_topk_simplex_into(alpha, beta, self.problem.k, self.weight, self.guess, self._pair)
        return Maximiser(*self._pair, self.guess)

    def move_centre(self, beta: Vector, sigma: float) -> None:
        """Take a new centre and a new sigma."""
        np.copyto(self.centre, beta)
        self.sigma = sigma


def rank_one(
    counts: tuple[int, int, int], means: tuple[Vector, Vector, Vector], k: int, weight: float
) -> tuple[Vector, float] | None:
    """Vector z and 1/rho of the last term of the generalised Hessian.

    ::

        H = m reg I + (1/c) Xc_A' Xc_A + sigma Xc_F' Xc_F + (sigma/rho) z z'
        q = 1 - |D|/k     rho = weight/|A| + q^2/|F| + |D|/k^2
        z = -mean(X_A) + q mean(X_F) + (1/k) sum(X_D)

    Parameters
    ----------
    counts, means
        Of the active positives A, the free negatives F and the capped ones D.
    k, weight
        Of the projection.

    Returns
    -------
    (z, 1/rho), or None where the term is absent: F is empty and D is not k rows, or A is empty.
    """
    n_active, n_free, n_capped = counts
    if n_active == 0 or (n_free == 0 and n_capped != k):
        return None
    share = 1.0 - n_capped / k
    rho = weight / n_active + n_capped / k**2
    z = (n_capped / k) * means[2] - means[0]
    if n_free:
        rho += share * share / n_free
        z += share * means[1]
    return z, 1.0 / rho
