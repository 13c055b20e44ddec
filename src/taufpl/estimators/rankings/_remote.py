"""The linear rankings of "auto" on remote rows, by rounds of reductions."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from taufpl._types import Array, Vector
from taufpl.estimators._linear import solve_ranking
from taufpl.estimators._table import Table
from taufpl.estimators.rankings._candidates import (
    LOOSE,
    MOST_ALTERNATIONS,
    SCREENED,
    TRIMMED,
    TRIMMED_SCALE,
    all_names,
)
from taufpl.estimators.rankings._gaussian_recall import (
    MOST_FEATURES,
    RIDGES,
    NegativeMoments,
    Positives,
    fit_gaussian_recall,
)
from taufpl.estimators.rankings._plain import START, Name
from taufpl.estimators.rankings._trimmed import best_length, kept_count, kept_share
from taufpl.estimators.remote import CLASSES, BlockTable, start_from
from taufpl.operators import as_operator
from taufpl.operators.remote import Block, Deferred, State, Sums, stack_rows
from taufpl.problem import top_count
from taufpl.thresholding import share_above

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


# Most positives, and values of these, that come to the caller: a share of 20,000 has a standard error of at most .0035.
_MOST_POSITIVES = 20_000
_MOST_VALUES = 1 << 23


def find_block_candidates(
    table: Table, tau: float, wanted: Collection[Name] | None = None
) -> tuple[dict[Name, Vector], NegativeMoments]:
    """Coefficients of all candidates that remote rows have, or of those that are wanted, and the negatives' moments."""
    assert isinstance(table, BlockTable)
    names = [name for name in all_names() if not name[0].startswith(SCREENED)] if wanted is None else wanted
    spread = Spread.of(table, MOST_FEATURES)
    _, variances = spread.joint((1.0, 1.0))
    n_negative, n_rows = spread.counts[0], sum(spread.counts)
    variances = (np.diag(variances) if variances.ndim == 2 else variances) / n_rows
    moments = NegativeMoments(spread.means[0], spread.scatters[0] / n_negative, variances)
    knows_tau = any(name[0] in ("normal", "trimmed") for name in names)
    found = _plain_candidates(table, spread, {*names, *([START] if knows_tau else [])})
    if knows_tau:
        found |= _tau_candidates(table, moments, tau, found[START], names)
    return {name: found[name] for name in all_names() if name in names}, moments


def _plain_candidates(table: BlockTable, spread: Spread, wanted: Collection[Name]) -> dict[Name, Vector]:
    """Each family from weak to strong, every one from the one before."""
    found: dict[Name, Vector] = {}
    for family in ("logistic", "svm"):
        before: tuple[MarginLoss, BlockLoss, Weights] | None = None
        for name in sorted(name for name in wanted if name[0] == family):
            *costs, strength = name[1:]
            loss = MarginLoss(family, (costs[0] if costs else 1.0, 1.0))
            if before is not None and before[0] == loss:
                problem, start = before[1:]
            else:
                problem, start = BlockLoss(table, spread, loss), None
            weights = problem.minimise(strength, start)
            found[name] = weights.coef
            before = (loss, problem, weights)
    return found


def _tau_candidates(
    table: BlockTable, moments: NegativeMoments, tau: float, start: Vector, wanted: Collection[Name]
) -> dict[Name, Vector]:
    """Rankings by Gaussian recall from the start, that of logistic regression; trimmed ones from the first of them."""
    sample = _sampled_positives(table)
    positives = Positives(as_operator(sample), np.arange(sample.shape[0]))
    found: dict[Name, Vector] = {}
    for ridge in RIDGES:
        if ridge == RIDGES[0] or ("normal", ridge) in wanted:
            found["normal", ridge] = fit_gaussian_recall(positives, moments, tau, ridge, start)
    first = found["normal", RIDGES[0]]
    if any(name[0] == "trimmed" for name in wanted):
        caught = 0.0
        for coef in (start, first):
            scores = table.scores(coef)
            caught = max(caught, share_above(scores.positive, scores.negative, tau))
        trimmed = _Trimmed(table, sample, top_count(TRIMMED_SCALE * tau, table.n_negative))
        for factor, regs in TRIMMED:
            smallest = min((reg for reg in regs if ("trimmed", factor, reg) in wanted), default=math.inf)
            needed = [reg for reg in regs if reg >= smallest]
            share = kept_share(caught, factor, table.n_positive)
            found |= {("trimmed", factor, reg): coef for reg, coef in trimmed.path(share, needed, first)}
    return found


@dataclass(frozen=True)
class _Trimmed:
    """Trimmed rankings on the rows of a table, with k of the negatives; lengths are fitted on sampled positives."""

    table: BlockTable
    sample: Any
    k: int

    def path(self, share: float, regs: Collection[float], start: Vector) -> list[tuple[float, Vector]]:
        """Each reg, largest first, with its coefficients, found from those before; 0 from the first collapse on."""
        found: list[tuple[float, Vector]] = []
        hopeless = False
        for reg in sorted(regs, reverse=True):
            coef, hopeless = (found[-1][1], True) if hopeless else self._alternate(share, reg, start)
            if coef.any():
                start = coef
            found.append((reg, coef))
        return found

    def _alternate(self, share: float, reg: float, start: Vector) -> tuple[Vector, bool]:
        """Coefficients from a direction, and whether its first convex problem collapsed."""
        count = kept_count(share, self.table.n_positive)
        scores = self.table.scores(start)
        coef = start
        for alternation in range(MOST_ALTERNATIONS):
            floor = scores.positive.at_rank(self.table.n_positive - count + 1)
            length = 1.0 if alternation else self._length(scores.negative, share, reg, start)
            with self.table.chosen_problem(self.k, reg, floor) as problem:
                ranking = solve_ranking(problem, LOOSE, start_from(length * coef))
            coef = ranking.result.coef
            if ranking.collapsed:
                return coef, alternation == 0
            if alternation + 1 < MOST_ALTERNATIONS:
                scores = self.table.scores(coef)
        return coef, False

    def _length(self, negative: Any, share: float, reg: float, start: Vector) -> float:
        at = negative.at_rank(negative.size - self.k + 1)
        top = at + float(self.table.blocks.reduce(ExcessOver(at))[0]) / self.k
        positive = np.asarray(self.sample @ start)
        count = kept_count(share, positive.size)
        margins = np.partition(positive, -count)[-count:] - top
        return best_length(margins, reg * float(start @ start))


def _sampled_positives(table: BlockTable) -> Any:
    """Some positives of every block, evenly, as an array or a CSR matrix."""
    most = min(_MOST_POSITIVES, max(1, _MOST_VALUES // table.blocks.shape[1]))
    parts = table.blocks.gather(TakePositives(math.ceil(table.n_positive / most)))
    return stack_rows([part for part in parts if part.shape[0]])


@dataclass(frozen=True, slots=True)
class TakePositives:
    """One of this many positives of a block, on the host."""

    stride: int

    def __call__(self, block: Block, state: State) -> Any:
        rows = block.xp.nonzero(state["is_positive"])[0][:: self.stride]
        return block.take(rows) if rows.shape[0] else np.zeros((0, block.shape[1]))


@dataclass(frozen=True, slots=True)
class ExcessOver:
    """Reduction: by how much the scores of negatives exceed a threshold in all."""

    threshold: float

    def __call__(self, block: Block, state: State) -> Sums:
        over = block.xp.clip(state["negative_scores"] - self.threshold, 0.0, None)
        return (float(block.to_host(block.xp.sum(over))[0]),)
