"""The paper's Algorithm 1, ended as in the paper where the dual value hardly moves, which certifies nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from taufpl._types import Vector
from taufpl.problem import RankingProblem
from taufpl.projection import project_topk_simplex


def early_ends(problem: RankingProblem, ends: Sequence[float], norm: float, max_iter: int = 1000) -> list[Vector]:
    """Points on the way to the optimum, one for each end.

    Accelerated projected gradient on the dual from zero, with constant steps and without restarts. It ends where a step
    changes the dual value by less than `end` times that value, or after `max_iter` steps. `ends` descend; `norm` is the
    spectral norm of the rows, or a bound on it.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.operators import as_operator
    >>> X = as_operator(np.array([[2.0], [3.0], [0.0], [1.0]]))
    >>> problem = RankingProblem(X, [0, 1], [2, 3], k=1, reg=0.1)
    >>> rough, close = early_ends(problem, [0.1, 1e-9], X.spectral_norm())
    >>> bool(0 < rough[0] < close[0])
    True
    """
    step = 1.0 / (norm * norm / problem.ridge + problem.loss.conjugate_smoothness)
    alpha, beta = before = np.zeros(problem.n_positive), np.zeros(problem.n_negative)
    dual_direction = direction_before = np.zeros(problem.n_features)
    momentum, carry, last = 1.0, 0.0, math.nan
    guess = None
    found: list[Vector] = []
    for _ in range(max_iter):
        ahead = alpha + carry * (alpha - before[0]), beta + carry * (beta - before[1])
        direction_ahead = dual_direction + carry * (dual_direction - direction_before)
        positive, negative = problem.scores(direction_ahead / problem.ridge)
        slope = positive + problem.loss.conjugate_derivative(ahead[0])
        before, direction_before = (alpha, beta), dual_direction
        alpha, beta, guess = project_topk_simplex(
            ahead[0] - step * slope, ahead[1] + step * negative, problem.k, guess=guess, return_thresholds=True
        )
        dual_direction = problem.combine(alpha, beta)
        squared = float(dual_direction @ dual_direction)
        value = squared / (2.0 * problem.ridge) + float(problem.loss.conjugate(alpha).sum())
        while len(found) < len(ends) and abs(value - last) <= ends[len(found)] * abs(value):
            found.append(dual_direction / problem.ridge)
        if len(found) == len(ends):
            break
        following = 0.5 + math.sqrt(0.25 + momentum * momentum)
        momentum, carry, last = following, (momentum - 1.0) / following, value
    return found + [dual_direction / problem.ridge] * (len(ends) - len(found))
