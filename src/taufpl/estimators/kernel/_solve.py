"""The ranking problem in the space of a kernel: solve, find weights of the rows, certify against the exact kernel.

With K = F F' + E, E >= 0, and a = (alpha, -beta) the dual weights of the rows::

    P_exact(w) = P(w)                    for w in the span of the landmarks: its scores and its norm are the same
    D_exact(alpha, beta) = D(alpha, beta) - a' E a / (2 m^2 reg)

So the optimum of the exact kernel problem lies between D_exact of any feasible pair and P of the w that was found.
a' E a is the squared length of a sum of vectors, which is at most the square of the sum of their lengths, and so it is
for sums of groups of them: with groups g of rows, a' E a <= (sum_g sqrt(a_g' E a_g))^2. One group makes it exact;
groups of one row take no more than the diagonal of E.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.estimators._solve import Ranking, SolverChoice, solve_ranking
from taufpl.estimators.kernel._rows import Approximation, KernelRows, Rows, Vector, make_rows, make_rows_from
from taufpl.kernels import Kernel
from taufpl.problem import RankingProblem, top_count
from taufpl.solvers import Callback, Result, Status

# Values of the kernel that a certificate may take, and the largest group of rows.
_MOST_VALUES = 50_000_000
_LARGEST_GROUP = 4000
# Landmarks are not chosen anew where what the features leave out costs less than so many times the tolerance.
_GOOD_ENOUGH = 10.0
# To tell which rows have a weight, this gap does.
_ROUGH = 1e-2


@dataclass(frozen=True, slots=True)
class KernelRanking:
    """A ranking in the space of a kernel.

    Attributes
    ----------
    ranking : Ranking
        On the features.
    problem : RankingProblem
    weights : ndarray of shape (n,)
        c: the score of x is sum_i c_i k(x_i, x). Most are zero.
    """

    ranking: Ranking
    problem: RankingProblem
    weights: Vector


def pose(rows: KernelRows, positive: Rows, negative: Rows, tau: float, reg: float) -> RankingProblem:
    """The problem on the features, with k = floor(tau n) + 1."""
    return RankingProblem(rows.operator, positive, negative, top_count(tau, negative.size), reg)


def rank_rows(
    kernel: Kernel,
    X: Any,
    classes: tuple[Rows, Rows],
    tau: float,
    reg: float,
    how: Approximation,
    choice: SolverChoice,
    rng: np.random.Generator,
    callback: Callback | None = None,
) -> tuple[KernelRows, KernelRanking]:
    """Features and ranking of some rows, with landmarks that suit the ranking.

    The best function of the whole space is a sum over the rows with a dual weight alone. A first solution tells about
    which rows these are; landmarks among them are worth more than others. P of both solutions is that of the exact
    kernel, so that the better one is known.
    """
    rows = make_rows(kernel, X, how, rng, classes)
    problem = pose(rows, *classes, tau, reg)
    if rows.exact or not how.refine:
        return rows, solve_kernel_ranking(rows, problem, choice, callback=callback)
    first = solve_kernel_ranking(rows, problem, replace(choice, tol=max(choice.tol, _ROUGH)), callback=callback)
    result = first.ranking.result
    left = result.dual - exact_dual(rows, problem, result)
    if not first.ranking.collapsed and left > _GOOD_ENOUGH * choice.tol * result.primal:
        refined = make_rows_from(_worth_landmarks(rows, problem, result), kernel, X, how, rng)
        posed = pose(refined, *classes, tau, reg)
        start = replace(result, coef=posed.primal_from_dual(result.alpha, result.beta), history=())
        again = solve_kernel_ranking(refined, posed, choice, start, callback)
        if again.ranking.result.primal < result.primal:
            return refined, again
    return rows, solve_kernel_ranking(rows, problem, choice, result, callback)


def _worth_landmarks(rows: KernelRows, problem: RankingProblem, result: Result) -> Rows:
    """Rows with a dual weight; where they are few, the first of the other landmarks fill up the number."""
    support = np.flatnonzero(signed(problem, result.alpha, result.beta))
    others = rows.pivots[~np.isin(rows.pivots, support)][: max(0, rows.pivots.size - support.size)]
    return np.sort(np.concatenate((support, others)))


def solve_kernel_ranking(
    rows: KernelRows,
    problem: RankingProblem,
    choice: SolverChoice,
    start: Result | None = None,
    callback: Callback | None = None,
) -> KernelRanking:
    """Solve, and say the solution in terms of the rows."""
    ranking = solve_ranking(problem, choice, start, callback)
    if ranking.result.status is Status.STALLED:
        ranking = _solve_along_regs(problem, choice, ranking)
    if ranking.collapsed:
        return KernelRanking(ranking, problem, np.zeros(rows.operator.shape[0]))
    if rows.exact:
        linked = _linked(problem, ranking.result, choice.tol)
        if linked is not None:
            weights = signed(problem, linked.alpha, linked.beta) / problem.ridge
            return KernelRanking(replace(ranking, result=linked), problem, weights)
    return KernelRanking(ranking, problem, rows.weights(ranking.result.coef))


def _solve_along_regs(problem: RankingProblem, choice: SolverChoice, stalled: Ranking) -> Ranking:
    """Come from larger values of reg, each solved from the one before, and keep what that brings if it is more.

    Where there are as many features as rows, the solution for a small reg is too far away from w = 0.
    """
    start: Result | None = None
    ranking = stalled
    for reg in [*np.geomspace(0.1, problem.reg, _n_steps(problem.reg), endpoint=False), problem.reg]:
        ranking = solve_ranking(problem.replace(reg=float(reg)), choice, start)
        start = ranking.result
    return ranking if ranking.result.gap < stalled.result.gap else stalled


def _n_steps(reg: float) -> int:
    """Steps of a factor of about 10 from 0.1 on."""
    return max(0, math.ceil(-math.log10(reg)) - 1)


def signed(problem: RankingProblem, alpha: NDArray[np.float64], beta: NDArray[np.float64]) -> Vector:
    """Dual weights of all rows: alpha of the positives, minus beta of the negatives."""
    weights = np.zeros(problem.operator.shape[0])
    weights[problem.positive_rows] = alpha
    weights[problem.negative_rows] = -beta
    return weights


def _linked(problem: RankingProblem, result: Result, tol: float) -> Result | None:
    """The point w = v / (m reg) that the dual pair stands for, if it is within the tolerance too.

    Only rows with a dual weight have a weight in it: often a third of them, where w itself takes all pivots. The best
    pair and the best point may come from different iterations, so that it has to be asked.
    """
    coef = problem.primal_from_dual(result.alpha, result.beta)
    positive, negative = problem.scores(coef)
    primal = problem.primal(positive, problem.top_mean(negative), float(coef @ coef))
    gap = (primal - result.dual) / primal
    return replace(result, coef=coef, primal=primal, gap=gap) if gap <= max(tol, result.gap) else None


def exact_dual(rows: KernelRows, problem: RankingProblem, result: Result) -> float:
    """A lower bound on the objective of the exact kernel, from the pair of a result, at its best scale.

    Takes 50 million values of the kernel at most; with up to 4,000 rows of weight it is D_exact itself.
    """
    duals = signed(problem, result.alpha, result.beta)
    support = np.flatnonzero(duals)
    if not support.size:
        return result.dual
    dual_direction = problem.combine(result.alpha, result.beta)
    squared = float(dual_direction @ dual_direction) + left_out(rows, support, duals[support])
    return problem.dual(result.alpha, squared)[0]


def left_out(rows: KernelRows, support: Rows, weights: Vector) -> float:
    """An upper bound on a' E a for weights of some rows, by groups of rows."""
    size = int(min(max(_MOST_VALUES // support.size, 1), _LARGEST_GROUP))
    # By chance, so that what is left of the rows of one group points in all directions.
    order = np.random.default_rng(0).permutation(support.size)
    total = 0.0
    for start in range(0, support.size, size):
        part = order[start : start + size]
        total += np.sqrt(_left_out_of_group(rows, support[part], weights[part]))
    return float(total * total)


def _left_out_of_group(rows: KernelRows, group: Rows, weights: Vector) -> float:
    if group.size == 1:
        return float(weights[0] ** 2 * rows.residual[group[0]])
    explained = rows.operator.rmatvec_rows(weights, group)
    exact = float(weights @ (rows.gram(group) @ weights))
    # By Cauchy's inequality it cannot be more than this, whatever rounding says.
    most = float(np.abs(weights) @ np.sqrt(rows.residual[group])) ** 2
    return min(max(exact - float(explained @ explained), 0.0), most)
