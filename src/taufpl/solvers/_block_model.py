"""The piecewise model of `_model.py` where rows live in blocks: near rows are fetched, held ones are moments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.operators import as_operator, stacked
from taufpl.problem.remote._problem import BlockRankingProblem, Point
from taufpl.problem.remote._working_set import HeldMoments, Near, NearRows
from taufpl.solvers._model import FrozenModel, Held, Shape
from taufpl.solvers._moments import Moments
from taufpl.solvers._smoothing import Maximiser

Vector = NDArray[np.float64]


class BlockModel(FrozenModel):
    """The model at a point.

    Parameters
    ----------
    problem : BlockRankingProblem
    sigma : float
    point : Point
    t : float
        Length of the last step.
    size : int
        Negatives to follow.
    shifts : pair of ndarray
        About the mean rows of active and of free rows.
    most : int
        Rows that a Gram matrix is made of at most.
    """

    def __init__(
        self,
        problem: BlockRankingProblem,
        sigma: float,
        point: Point,
        t: float,
        size: int,
        shifts: tuple[Vector, Vector],
        most: int,
    ) -> None:
        blocks, thresholds = problem.blocks, point.projection.thresholds
        projection = point.projection
        n_below = projection.n_held - point.counts[1] - point.counts[2]
        # What blocks hold anyway is enough, or else all within reach of one step from zero to the cap.
        floor = projection.floor if n_below >= size else projection.local[1] - thresholds.cap
        near = Near(projection, sigma, problem.curvature, t, size / blocks.shape[0], min(floor, projection.floor))
        strides = (max(1, point.counts[0] // most), max(1, point.counts[1] // most))
        held = blocks.reduce(HeldMoments(near, shifts, strides))
        fetched = blocks.gather(NearRows(near))
        self.shape = Shape(sigma, problem.curvature, problem.slope, problem.ridge)
        self.k = problem.k
        self.start = self.guess = thresholds
        self._follow([part[0] for part in fetched], [part[1] for part in fetched])
        self.positive_scores, self.negative_scores, self.centre = (
            np.concatenate([part[i] for part in fetched]) for i in (2, 3, 4)
        )
        self.now = self._pair(problem, sigma)
        self.tried = (0.0, self.positive_scores, self.negative_scores, None)
        self._hold(problem, sigma, held, shifts)
        blocks.count((2.0 * float(held[0][3:].sum()) + float(held[0][:3].sum())) / blocks.shape[0])

    def _follow(self, positives: list[Any], negatives: list[Any]) -> None:
        self.n_positive = sum(part.shape[0] for part in positives)
        self.rows = as_operator(stacked([*positives, *negatives]))

    def _pair(self, problem: BlockRankingProblem, sigma: float) -> Maximiser:
        """Alpha and beta of the near rows."""
        thresholds = self.start
        alpha = (problem.slope - self.positive_scores) / problem.curvature - thresholds.lam / (
            sigma * problem.curvature
        )
        beta = self.centre + sigma * self.negative_scores - thresholds.mu
        return Maximiser(np.maximum(alpha, 0.0), np.clip(beta, 0.0, thresholds.cap), thresholds)

    def _hold(self, problem: BlockRankingProblem, sigma: float, held: Any, shifts: tuple[Vector, Vector]) -> None:
        counts, distances, active_gram, active_sum, free_gram, free_sum, active_pull, free_pull, capped_sum = held
        n_active, n_free, n_capped = (int(x) for x in counts[:3])
        above = distances / np.maximum(counts[:3], 1.0)
        thresholds = self.start
        u = thresholds.lam / (sigma * problem.curvature)
        active = scaled_moments(n_active, counts[3], shifts[0], active_gram, active_sum)
        free = scaled_moments(n_free, counts[4], shifts[1], free_gram, free_sum)
        self.active = Held(active, u + float(above[0]), -1.0 / problem.curvature, active_pull)
        self.free = Held(free, thresholds.mu + float(above[1]), sigma, free_pull)
        self.n_capped = n_capped
        self.capped_mean = capped_sum / max(1, n_capped)
        self.capped_target = thresholds.mu + float(above[2])


def scaled_moments(count: int, n_taken: float, shift: Vector, gram: NDArray[np.float64], total: Vector) -> Moments:
    """Moments of so many rows, from the sums around a shift over some of them."""
    if count == 0 or n_taken == 0:
        return Moments(0, shift, np.zeros_like(gram))
    apart = total / n_taken
    gram = gram - n_taken * np.outer(apart, apart)
    return Moments(count, shift + apart, gram * (count / n_taken))
