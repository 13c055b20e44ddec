"""Solve a ranking problem over rows in blocks as an estimator needs it; the reasons are those of `_solve.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.estimators._block_table import Part
from taufpl.estimators._solve import AIM, PLAIN, TOO_FINE, TRUSTED_SHARE, SolverChoice, after, shifted
from taufpl.operators.remote import Block, State, Sums, order_statistic
from taufpl.problem import BlockRankingProblem, Certificate
from taufpl.solvers import BlockNewton, BlockResult, Callback

Vector = NDArray[np.float64]

_MOST_STEPS = 1_000


@dataclass(frozen=True, slots=True)
class BlockRanking:
    """A result, whether it is the collapsed one, w = 0, and what the next solve on the same blocks may start from."""

    result: BlockResult
    collapsed: bool
    latest: BlockResult


@contextmanager
def posed(part: Part, k: int, reg: float) -> Iterator[BlockRankingProblem]:
    """The problem on the rows of a part; its vectors are let go of at the end."""
    blocks = part.blocks.fork(_Pose())
    try:
        yield BlockRankingProblem(blocks, part.n_positive, part.n_negative, k, reg)
    finally:
        blocks.release()


def rank_part(
    part: Part, k: int, reg: float, choice: SolverChoice, callback: Callback | None = None
) -> tuple[BlockRanking, BlockRankingProblem]:
    """Solve on the rows of a part, from w = 0."""
    with posed(part, k, reg) as problem:
        return solve_block_ranking(problem, choice, callback=callback), problem


def solve_block_ranking(
    problem: BlockRankingProblem,
    choice: SolverChoice,
    start: BlockResult | None = None,
    callback: Callback | None = None,
) -> BlockRanking:
    """Solve to the tolerance, and further where the gain over w = 0 is still in doubt.

    The start must be the `latest` of the last solve on the same blocks.
    """
    latest = result = _solver(choice, choice.tol).solve(problem, start, callback)
    at_zero = float(problem.loss.value(np.zeros(1))[0])
    while result.converged:
        possible = at_zero - result.dual
        if at_zero - result.primal > TRUSTED_SHARE * possible:
            break
        if possible * _units(problem) <= choice.no_gain:
            result = replace(result, coef=np.zeros(problem.n_features), primal=at_zero)
            break
        if possible < TOO_FINE:
            return _solve_with_less(problem, choice, possible)
        following = shifted(callback, result.history)
        latest = _solver(choice, AIM * possible).solve(problem, latest, following)
        result = _joined(result, latest)
    return BlockRanking(result, not result.coef.any(), latest)


def _solver(choice: SolverChoice, tol: float) -> BlockNewton:
    return BlockNewton(tol=tol, max_iter=_MOST_STEPS if choice.max_iter is None else choice.max_iter)


def _units(problem: BlockRankingProblem) -> float:
    """1 + reg / (2 R^2), R^2 the mean squared distance of the positives from the mean negative."""
    positive, negative, squares = problem.blocks.reduce(_Moments())
    problem.blocks.count(1.0)
    means = positive / problem.n_positive, negative / problem.n_negative
    spread = float(squares) / problem.n_positive - float(means[0] @ means[0])
    total = max(spread, 0.0) + float(np.square(means[0] - means[1]).sum())
    return 1.0 + 0.5 * problem.reg / total if total > 0 else 1.0


def _solve_with_less(problem: BlockRankingProblem, choice: SolverChoice, possible: float) -> BlockRanking:
    """Solve at a reg so much smaller that the gain can be seen, and take the direction over."""
    factor = possible / PLAIN
    ranking = solve_block_ranking(problem.replace(reg=problem.reg * factor), choice)
    if ranking.collapsed:
        return ranking
    coef = ranking.result.coef * factor
    certificate = _certify(problem, coef)
    kept = replace(ranking.result, coef=coef, primal=certificate.primal, dual=certificate.dual, gap=certificate.gap)
    return BlockRanking(kept, False, ranking.latest)


def _certify(problem: BlockRankingProblem, coef: Vector) -> Certificate:
    """Both values from scratch: P(w), and D of the pair that the blocks have kept. Two passes."""
    m, blocks = problem.n_positive, problem.blocks
    up, total, squares, down = blocks.reduce(_Pull())
    dual_direction = up - down
    conjugates = 0.5 * problem.curvature * float(squares) - problem.slope * float(total)
    dual = -(float(dual_direction @ dual_direction) / (2.0 * problem.ridge) + conjugates) / m
    scored = blocks.fork(_Score(coef))
    try:
        kth = order_statistic(scored, _read_negative, problem.n_negative - problem.k + 1)
        top = kth + float(scored.reduce(_Excess(kth))[0]) / problem.k
        losses = float(scored.reduce(_Losses(problem.slope + top))[0])
    finally:
        scored.release()
    blocks.count(2.0)
    return Certificate(losses / (2.0 * problem.curvature * m) + 0.5 * problem.reg * float(coef @ coef), dual)


@dataclass(frozen=True)
class _Pose:
    """The state that a problem begins with, from masks."""

    def __call__(self, block: Block, state: State) -> State:
        return {
            "number": state["number"],
            "positive": block.xp.nonzero(state["is_positive"])[0],
            "is_negative": state["is_negative"],
        }


@dataclass(frozen=True)
class _Moments:
    """Sums of the rows of both classes, and of the squares of the positives."""

    def __call__(self, block: Block, state: State) -> Sums:
        positive, negative = _rows(block, state)
        sums = (block.add(_ones(block, rows), rows) for rows in (positive, negative))
        return (*sums, float(block.squares(positive).sum()))


@dataclass(frozen=True)
class _Pull:
    """X+' alpha, sums of alpha and of its squares, and X-' beta."""

    def __call__(self, block: Block, state: State) -> Sums:
        xp, alpha = block.xp, state["alpha"]
        total, squares = block.to_host(xp.sum(alpha), xp.sum(alpha * alpha))
        return block.add(alpha, state["positive"]), float(total), float(squares), block.add(state["beta"], None)


@dataclass(frozen=True)
class _Score:
    """Scores of positives and of negatives."""

    coef: Vector

    def __call__(self, block: Block, state: State) -> State:
        positive, negative = (block.dot(self.coef, rows, exact=True) for rows in _rows(block, state))
        return {"positive": positive, "negative": negative}


def _read_negative(block: Block, state: State) -> Any:
    return state["negative"]


@dataclass(frozen=True)
class _Excess:
    """Sum of what negatives score above a number."""

    kth: float

    def __call__(self, block: Block, state: State) -> Sums:
        over = _positive_part(block, state["negative"] - self.kth)
        return (float(block.to_host(block.xp.sum(over))[0]),)


@dataclass(frozen=True)
class _Losses:
    """Sum of squares of how far positives score below a number."""

    bend: float

    def __call__(self, block: Block, state: State) -> Sums:
        below = _positive_part(block, self.bend - state["positive"])
        return (float(block.to_host(block.xp.sum(below * below))[0]),)


def _positive_part(block: Block, values: Any) -> Any:
    return block.xp.where(values > 0, values, block.xp.zeros_like(values))


def _rows(block: Block, state: State) -> tuple[Any, Any]:
    return state["positive"], block.xp.nonzero(state["is_negative"])[0]


def _ones(block: Block, rows: Any) -> Any:
    return block.asarray(np.ones(int(rows.shape[0])))


def _joined(first: BlockResult, second: BlockResult) -> BlockResult:
    """The second result, which started from the first, with the cost of both."""
    last = first.history[-1]
    return replace(
        second,
        n_iter=first.n_iter + second.n_iter,
        n_projections=first.n_projections + second.n_projections,
        n_rounds=first.n_rounds + second.n_rounds,
        n_passes=first.n_passes + second.n_passes,
        history=first.history + tuple(after(last, record) for record in second.history),
    )
