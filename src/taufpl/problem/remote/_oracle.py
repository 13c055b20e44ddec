"""The oracle over rows in blocks: nothing with an entry a row on this side, and as few rounds as can be.

A step costs:

1. one pass for its scores; the same round looks for the thresholds of the projection at full length;
2. one round, mostly, in which the few entries near the thresholds come here: the slope of psi is then exact. A shorter
   or longer step is tried by two rounds more;
3. one round that evaluates the pair: its dual direction and the sums of a certificate, reading rows with weight only;
4. one for Gram matrices of those rows; with the model, another one for the rows that it follows.

Where the centre moves, a projection around the new one, another two or three rounds, comes before the next step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taufpl._types import Vector
from taufpl.operators.remote import Reduction, Sums
from taufpl.problem._ranking import Certificate
from taufpl.problem.remote._hessian import BlockHessian
from taufpl.problem.remote._problem import BlockPoint, BlockRankingProblem, Top, Totals
from taufpl.problem.remote._tasks import Keep, Pair, Recentre, Step
from taufpl.projection import Thresholds
from taufpl.projection.remote import FirstRound, Projection, project_by_rounds

_KEY = "oracle"
# From the coefficients of other rows, sigma is larger by this factor than from w = 0.
_BOLDER = 5.0


@dataclass(frozen=True, slots=True)
class _Kept:
    """The end of a solve, without the problem: the point that the states of the blocks belong to."""

    totals: Totals
    coef: Vector
    t: float
    direction: Vector
    point: BlockPoint
    sigma: float


class BlockOracle(BlockHessian):
    """psi over blocks of rows. The point is `coef` + `t` `direction`, as the blocks have it."""

    model_is_cheap = False

    def __init__(self, problem: BlockRankingProblem) -> None:
        super().__init__(problem)
        self.coef = self.direction = np.zeros(problem.n_features)
        self.t = 0.0
        self.tried: dict[float, Projection] = {}

    @property
    def here(self) -> Vector:
        """The present point."""
        return self.coef + self.t * self.direction

    def start(self, start: Any | None, sigma: float) -> None:
        """Go to w = 0 with the even pair; or, given a start, on from where the last solve on these blocks ended.

        Where there was none, the start is the coefficients of other rows, with the even pair as the centre: the pair
        that the scores of such a point have, beta on the k highest alone, is a bad one, and takes more steps.
        """
        problem, kept = self.problem, self.problem.kept.get(_KEY)
        if start is None or not isinstance(kept, _Kept):
            self.sigma = sigma * problem.full_total / problem.k
            if start is not None and start.coef.any():
                self._start_at(start.coef)
                return
            self.totals: Totals = problem.begin()
            self._forget(self.totals)
            self.point = problem.first_point(self.totals, self.sigma)
            return
        self.totals, self.coef, self.t, self.direction = kept.totals, kept.coef, kept.t, kept.direction
        self._forget(self.totals)
        self.point, self.sigma = kept.point, kept.sigma
        cap = max(self.point.theta * self.point.total, 1e-300) / problem.k
        self._recentre(None, self.warm_sigma(sigma * cap, cap, kept.sigma))
        self._evaluate(self.point.top)

    def _start_at(self, coef: Vector) -> None:
        """Go to a point, around the even pair."""
        self.totals, self.coef = self.problem.begin(coef), coef
        self._forget(self.totals)
        self.sigma *= _BOLDER
        _, top = self.problem.exact_primal(coef, 0.0, Top(0.0, 0.0, 1.0))
        self._project(None)
        self._evaluate(top)

    def finish(self) -> tuple[None, None]:
        """Leave the point to the next solve; the pair stays with the blocks."""
        end = (self.totals, self.coef, self.t, self.direction, self.point, self.sigma)
        self.problem.kept[_KEY] = _Kept(*end)
        return None, None

    # Values.

    def _evaluate(self, top: Top, *, curvature: bool = False) -> None:
        """Take the last projection as the point's."""
        also = self._curvature_task(self.projection, self.point.counts) if curvature else None
        self.point, found = self.problem.evaluate(self.here, self.projection, self.t, top, also)
        if curvature:
            self._take(self.point, found)

    def tighten(self) -> None:
        """Make the present primal value exact. A few rounds, no pass."""
        point = self.point
        primal, top = self.problem.exact_primal(point.coef, self.t, point.top, point.samples)
        self.point = replace(point, primal=primal, slack=0.0, top=top)

    def settle(self, coef: Vector, tol: float) -> Certificate:
        """Let the blocks keep the pair, and make both values exact; go on from the point where the gap does not hold.

        Scores of single-precision rows are computed anew for it, rows converted first.
        """
        problem, point = self.problem, self.point
        self.blocks.change(Keep(point.pair))
        anew = not (self.totals.exact and np.array_equal(coef, self.here))
        if anew:
            problem.rescore(coef)
            self.coef, self.t, self.direction = coef, 0.0, np.zeros_like(coef)
        primal, top = problem.exact_primal(coef, self.t, point.top, None if anew else point.samples)
        self.point = replace(point, coef=coef, primal=primal, slack=0.0, top=top)
        certificate = Certificate(primal, point.dual)
        if anew and certificate.gap > tol:
            self._project(point.projection.thresholds)
            self._evaluate(top)
        return certificate

    # Projections.

    def _project(self, guess: Thresholds | None, first: FirstRound | None = None) -> None:
        self.n_projections += 1
        task = self.problem.task(self.sigma, self.t, with_moves=False)
        self.projection = project_by_rounds(self.blocks, task, guess, first)

    def _recentre(self, pair: Pair | None, sigma: float) -> None:
        """The pair, or the one that blocks have kept, becomes the centre; project around it.

        Free entries then have about the score of the k-th, which tells where the thresholds are.
        """
        old, grown = self.point.projection.thresholds, sigma / self.sigma
        self.sigma = sigma
        guess = None
        if old.total > 0:
            middle, spread = self.sigma * self.point.top.at, max(grown, 1.0) * old.cap
            width = (max(old.widths[0], 1e-3), 0.25 * spread, 0.25 * spread)
            guess = Thresholds(old.lam * grown, middle, old.cap, old.total, width)
        self._project(guess, lambda task: self.blocks.change_and_reduce(Recentre(pair, task)))

    def adapt(self, sigma: float, *, recentre: bool, curvature: bool) -> None:
        point = self.point
        if recentre:
            self._recentre(Pair(point.projection, point.cap, point.ratio, point.ratio), sigma)
        else:
            self.sigma = sigma
            self._project(None)
        self._evaluate(point.top, curvature=curvature)

    def step(self, direction: Vector, expected: Thresholds | None) -> None:
        """Note a step; its pass is part of the first projection along it."""
        self.gone, self.coef, self.t, self.direction = self.t, self.here, 0.0, direction
        self.expected, self.tried = expected, {}

    def project(self, t: float) -> float:
        guess, first = self.expected, self._take_step if not self.tried else None
        if self.tried:
            nearest = min(self.tried, key=lambda other: abs(other - t))
            guess = _between(self.point.projection.thresholds, nearest, self.tried[nearest].thresholds, t)
        self.n_projections += 1
        task = self.problem.task(self.sigma, t)
        found = self.tried[t] = project_by_rounds(self.blocks, task, guess, first)
        return found.moved[0] - found.moved[1]

    def _take_step(self, task: Reduction) -> Sums:
        self.blocks.count(1.0)
        return self.blocks.change_and_reduce(Step(self.gone, self.direction, task))

    def accept(self, t: float) -> None:
        top, self.t = self.point.top, t
        if t not in self.tried:
            self._project(self.point.projection.thresholds)
            self._evaluate(top)
            return
        self.projection = self.tried[t]
        total = self.projection.thresholds.total
        drift = t * self.projection.moved[1] / total if total > 0 else 0.0
        self._evaluate(Top(top.mean + drift, top.at + drift, max(top.width, abs(drift), 1e-9)))


def _between(before: Thresholds, tried: float, there: Thresholds, t: float) -> Thresholds | None:
    """Thresholds at t, on the line through those at 0 and at a step length that was tried."""
    if not (before.total > 0 and there.total > 0):
        return None
    share = t / tried
    pairs = ((before.lam, there.lam), (before.mu, there.mu), (before.cap, there.cap))
    lam, mu, cap = (x + share * (y - x) for x, y in pairs)
    cap = max(cap, 0.1 * before.cap)
    change = 0.25 * abs(share - 1.0)
    steps = (abs(there.mu - before.mu), abs(there.mu + there.cap - before.mu - before.cap))
    widths = [max(change * step, width) for step, width in zip(steps, there.widths[1:], strict=True)]
    return Thresholds(lam, mu, cap, cap, (there.widths[0], widths[0], widths[1]))
