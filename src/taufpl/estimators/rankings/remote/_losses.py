"""Linear classifiers by a penalised loss over remote rows: logistic regression and support vector machines.

With s_i = (x_i - mean) . w + b, costs c_i of the two classes and labels y_i = +-1::

    f(w, b) = |w|^2 / 2 + strength sum of c_i l(y_i s_i)

A round reads every row once, for f and its gradient. L-BFGS needs few of them in coordinates in which the Hessian is
about the identity: those of the covariance of the rows, which all losses on the same rows share, at the mean curvature
of the loss. Around the mean row the intercept stands apart from the weights, and weights along which all rows score the
same stay 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from taufpl._types import Array, Vector
from taufpl.estimators.remote import CLASSES, BlockTable
from taufpl.operators.remote import Block, Deferred, State, Sums

# L-BFGS ends where a step lowers f by less than this share; held-out rows judge what came out.
_ENOUGH = 1e-7
_MOST_STEPS = 60


@dataclass(frozen=True, slots=True)
class Spread:
    """Of negatives, then of positives: counts, mean rows, and scatter matrices about them or the diagonals of these."""

    counts: tuple[int, int]
    means: tuple[Vector, Vector]
    scatters: tuple[Array, Array]

    @classmethod
    def of(cls, table: BlockTable, most_features: int) -> Spread:
        """Two passes; with more features than that the diagonals alone."""
        counts, d = table.sizes, table.blocks.shape[1]
        sums = table.blocks.reduce(SumRows())
        means = sums[0] / counts[0], sums[1] / counts[1]
        whole = d <= most_features
        # About the mean of each class, so that nothing cancels.
        scatters = table.blocks.reduce(Scatters(means, whole))
        table.blocks.count(2.0)
        return cls(counts, means, (scatters[0], scatters[1]))

    def joint(self, weights: tuple[float, float]) -> tuple[Vector, Array]:
        """Mean of all rows, those of a class weighted, and the weighted scatter about it."""
        sums = [weight * count for weight, count in zip(weights, self.counts, strict=True)]
        mean = (sums[0] * self.means[0] + sums[1] * self.means[1]) / (sums[0] + sums[1])
        scatter = weights[0] * self.scatters[0] + weights[1] * self.scatters[1]
        for total, own in zip(sums, self.means, strict=True):
            apart = own - mean
            scatter = scatter + total * (np.outer(apart, apart) if scatter.ndim == 2 else apart * apart)
        return mean, scatter


@dataclass(frozen=True, slots=True)
class MarginLoss:
    """A loss of the margin y s, by name, with the costs of errors on negatives and on positives."""

    name: str
    costs: tuple[float, float] = (1.0, 1.0)

    def at(self, xp: Any, margins: Any) -> tuple[Any, Any, Any]:
        """Loss, minus its slope, and its curvature."""
        if self.name == "logistic":
            small = xp.exp(-xp.abs(margins))
            missed = xp.where(margins > 0, small, xp.ones_like(small)) / (1.0 + small)
            return xp.log1p(small) + xp.clip(-margins, 0.0, None), missed, missed * (1.0 - missed)
        short = xp.clip(1.0 - margins, 0.0, None)
        return short * short, 2.0 * short, 2.0 * xp.astype(short > 0, xp.float64)


@dataclass(frozen=True, slots=True)
class Weights:
    """Coefficients, the intercept beside rows about the mean, and the mean curvature of the loss there."""

    coef: Vector
    intercept: float
    curvature: float


class BlockLoss:
    """The minimum of f for one loss on the rows of a table, and several strengths in turn."""

    def __init__(self, table: BlockTable, spread: Spread, loss: MarginLoss) -> None:
        self.table, self.loss = table, loss
        self.total = float(np.dot(spread.counts, loss.costs))
        self.mean, scatter = spread.joint(loss.costs)
        self.covariance = scatter / self.total
        share = loss.costs[1] * spread.counts[1] / self.total
        if loss.name == "logistic":
            self.first = Weights(np.zeros(self.mean.size), float(np.log(share / (1.0 - share))), share * (1.0 - share))
        else:
            self.first = Weights(np.zeros(self.mean.size), 2.0 * share - 1.0, 2.0)

    def minimise(self, strength: float, start: Weights | None = None) -> Weights:
        """The minimum for a strength, from that of another one."""
        start = start or self.first
        scale = _Scale.of(self.covariance, strength * self.total * max(start.curvature, 1e-6))
        at = np.append(scale.into(start.coef), scale.intercept * start.intercept)
        known: dict[bytes, tuple[float, Vector, float]] = {}

        def evaluate(u: Vector) -> tuple[float, Vector, float]:
            if u.tobytes() not in known:
                known.clear()
                known[u.tobytes()] = self._evaluate(u, scale, strength)
            return known[u.tobytes()]

        # In these units the first step of L-BFGS, which has length 1, is the Newton step of the coordinates.
        unit = max(float(np.linalg.norm(evaluate(at)[1])), 1e-300)
        found = minimize(
            lambda u: (evaluate(unit * u)[0] / unit**2, evaluate(unit * u)[1] / unit),
            at / unit,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _MOST_STEPS, "ftol": _ENOUGH, "gtol": 0.0, "maxcor": 20},
        )
        end = unit * np.asarray(found.x)
        return Weights(scale.out_of(end[:-1]), float(end[-1]) / scale.intercept, evaluate(end)[2])

    def _evaluate(self, u: Vector, scale: _Scale, strength: float) -> tuple[float, Vector, float]:
        """f, its gradient in the coordinates, and the mean curvature. One round."""
        coef, intercept = scale.out_of(u[:-1]), float(u[-1]) / scale.intercept
        task = LossAndGradient(self.loss, coef, intercept - float(self.mean @ coef))
        sums, along = self.table.blocks.reduce(task)
        self.table.blocks.count(2.0)
        gradient = coef - strength * (along - float(sums[1]) * self.mean)
        slope = -strength * float(sums[1]) / scale.intercept
        value = 0.5 * float(coef @ coef) + strength * float(sums[0])
        return value, np.append(scale.gradient(gradient), slope), float(sums[2]) / self.total


@dataclass(frozen=True, slots=True)
class _Scale:
    """Coordinates u = R w in which R' R = I + weight covariance is the identity."""

    root: Array  # upper triangular, or a diagonal
    intercept: float

    @classmethod
    def of(cls, covariance: Array, weight: float) -> _Scale:
        intercept = float(np.sqrt(weight))
        if covariance.ndim == 1:
            return cls(np.sqrt(1.0 + weight * covariance), intercept)
        return cls(cholesky(np.eye(covariance.shape[0]) + weight * covariance), intercept)

    def into(self, coef: Vector) -> Vector:
        product: Vector = self.root @ coef if self.root.ndim == 2 else self.root * coef
        return product

    def out_of(self, u: Vector) -> Vector:
        return solve_triangular(self.root, u) if self.root.ndim == 2 else u / self.root

    def gradient(self, gradient: Vector) -> Vector:
        """A gradient with respect to w, with respect to u."""
        return solve_triangular(self.root, gradient, trans="T") if self.root.ndim == 2 else gradient / self.root


# Tasks.


@dataclass(frozen=True, slots=True)
class SumRows:
    """Reduction: sums of the rows of both classes."""

    def __call__(self, block: Block, state: State) -> Sums:
        masks = [block.xp.astype(state[f"is_{name}"], block.xp.float64) for name in CLASSES]
        return block.settle(*(block.add(mask, None) for mask in masks))


@dataclass(frozen=True, slots=True)
class Scatters:
    """Reduction: scatter matrices of both classes about a row each, or their diagonals."""

    about: tuple[Vector, Vector]
    whole: bool

    def __call__(self, block: Block, state: State) -> Sums:
        rows = [block.xp.nonzero(state[f"is_{name}"])[0] for name in CLASSES]
        if self.whole:
            return tuple(gram for gram, _ in block.settle(*map(block.moments, rows, self.about)))
        return tuple(
            block.squares(own) - own.shape[0] * about * about for own, about in zip(rows, self.about, strict=True)
        )


@dataclass(frozen=True, slots=True)
class LossAndGradient:
    """Reduction: sums of the losses of x . w + b, of minus their slopes and of curvatures; minus slopes times rows."""

    loss: MarginLoss
    coef: Vector
    offset: float

    def __call__(self, block: Block, state: State) -> Sums:
        xp = block.xp
        negative, positive = (xp.astype(state[f"is_{name}"], xp.float64) for name in CLASSES)
        signs = positive - negative
        weights = self.loss.costs[0] * negative + self.loss.costs[1] * positive
        losses, slopes, curvatures = self.loss.at(xp, signs * (block.dot(self.coef) + self.offset))
        slopes = weights * signs * slopes
        sums = Deferred.stacked(xp.matmul(weights, losses), xp.sum(slopes), xp.matmul(weights, curvatures))
        return block.settle(sums, block.add(slopes, None))
