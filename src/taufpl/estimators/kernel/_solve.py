"""The kernel ranking on landmarks: which rows become landmarks, the solution there, and its certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from taufpl._types import Matrix, RowIndices, Vector
from taufpl.estimators._linear import SolverChoice, solve_ranking
from taufpl.estimators._table import Ranking
from taufpl.kernels import Kernel, LandmarkMap, PartialFactor, partial_cholesky
from taufpl.operators import KnownGramOperator, Operator, as_operator
from taufpl.problem import Certificate, RankingProblem, top_count
from taufpl.solvers import Callback, Result, Status

# Up to this many rows "auto" is exact.
MOST_EXACT_ROWS = 2000
# Landmarks where no number is given.
USUAL_COMPONENTS = 500
# With as many features as this share of the rows, systems of the rows with weight are smaller than those of features;
# with few rows either is small, and the second way takes fewer steps.
_MANY_FEATURES = 0.25
_FEW_ROWS = 400


@dataclass(frozen=True, slots=True)
class Approximation:
    """How the kernel matrix is represented: the parameters of that name of :class:`KernelTauFPLRanker`."""

    mode: str = "auto"
    n_components: int | None = None
    pivoting: str = "random"
    n_candidates: int | None = 20_000
    tol: float = 1e-8
    refine: bool = True

    def is_exact(self, n_rows: int) -> bool:
        """Whether all pivots are taken."""
        if self.mode == "auto":
            return self.n_components is None and n_rows <= MOST_EXACT_ROWS
        return self.mode == "exact"

    def n_landmarks(self, n_rows: int) -> int:
        """Most landmarks of an approximation of low rank."""
        return min(self.n_components or USUAL_COMPONENTS, n_rows)

    def candidates(self, classes: tuple[RowIndices, RowIndices], rng: np.random.Generator) -> RowIndices:
        """Rows among which landmarks are chosen: as many of either class, as far as there are, ascending.

        Where positives are rare, landmarks by the error of all rows alone would leave most of them out, and what sets
        them apart.
        """
        n_landmarks = self.n_landmarks(sum(rows.size for rows in classes))
        count = max(min(rows.size for rows in classes), n_landmarks)
        if self.n_candidates is not None:
            count = min(count, max(self.n_candidates, n_landmarks) // 2 + 1)
        parts = [rows if rows.size <= count else rng.choice(rows, count, replace=False) for rows in classes]
        return np.sort(np.concatenate(parts))


@dataclass(frozen=True, slots=True)
class KernelRows:
    """Training rows X (or their precomputed kernel matrix) with the features F that a kernel gives them.

    F is the operator, of shape (n, r). The pivots are the landmarks among the rows, the lower triangle their rows of F.
    The residual is the diagonal of E; it is rounding if the features are exact. The trace is that of K.
    """

    kernel: Kernel
    X: Any
    operator: Operator
    pivots: RowIndices
    triangle: Matrix
    residual: Vector
    trace: float
    exact: bool

    def pose(self, classes: tuple[RowIndices, RowIndices], tau: float, reg: float) -> RankingProblem:
        """The ranking problem on the features, with k = floor(tau n) + 1."""
        return RankingProblem(self.operator, *classes, top_count(tau, classes[1].size), reg)

    def weights(self, coef: Vector) -> Vector:
        """Weights c with sum_i c_i k(x_i, x_j) = F_j w: zero but for the landmarks."""
        weights = np.zeros(self.operator.shape[0])
        weights[self.pivots] = solve_triangular(self.triangle, coef, lower=True, trans="T", check_finite=False)
        return weights


def make_rows(
    kernel: Kernel, X: Any, how: Approximation, rng: np.random.Generator, candidates: RowIndices | None
) -> KernelRows:
    """Factor the kernel of all rows: with landmarks among the candidates, or, without candidates, exactly."""
    n_rows = X.shape[0]
    diagonal = kernel.diagonal(X)
    if candidates is None:
        chosen = partial_cholesky(kernel, X, n_rows, 0.0, "greedy", rng)
        pivots, residual, operator = chosen.pivots, chosen.residual, _exact_operator(kernel, X, chosen)
    else:
        chosen = partial_cholesky(kernel, X, how.n_landmarks(n_rows), how.tol, how.pivoting, rng, candidates)
        pivots, features, residual = candidates[chosen.pivots], chosen.factor, chosen.residual
        if candidates.size < n_rows:
            features, squares = LandmarkMap(kernel, kernel.points(X, pivots), chosen.triangle).features(X)
            residual = diagonal - squares
        operator = as_operator(features)
    residual, trace = np.maximum(residual, 0.0), float(diagonal.sum())
    return KernelRows(kernel, X, operator, pivots, chosen.triangle, residual, trace, exact=candidates is None)


def _exact_operator(kernel: Kernel, X: Any, chosen: PartialFactor) -> Operator:
    n_rows, rank = chosen.factor.shape
    if n_rows <= _FEW_ROWS or rank < _MANY_FEATURES * n_rows:
        return as_operator(chosen.factor)
    return KnownGramOperator(chosen.factor, np.asarray(kernel.between(X), dtype=np.float64))


# Values of the kernel that a certificate may take, and the largest group of rows.
_MOST_VALUES = 50_000_000
_LARGEST_GROUP = 4000
# Landmarks are not chosen anew where what the features leave out costs less than this many times the tolerance.
_GOOD_ENOUGH = 10.0
# Gap of the first solution, which tells about which rows have a weight.
_ROUGH = 1e-2


@dataclass(frozen=True, slots=True)
class KernelRanking:
    """A ranking of training rows in the space of a kernel, with the problem on their features that it solves.

    The score of x is sum_i weights_i k(x_i, x), over all rows; most weights are zero.
    """

    rows: KernelRows
    problem: RankingProblem
    ranking: Ranking
    weights: Vector

    def report(self) -> KernelReport:
        """What a fit says of this ranking."""
        rows, problem = self.rows, self.problem
        counts = (problem.n_positive, problem.n_negative, problem.k)
        traces = (float(rows.residual.sum()), rows.trace)
        return KernelReport(self.ranking, counts, self.exact_dual(), rows.exact, traces, rows.operator.shape[1])

    def exact_dual(self) -> float:
        """A lower bound on the objective of the exact kernel, from the dual pair at its best scale.

        Takes 50 million values of the kernel at most; with up to 4,000 rows of weight it is D_exact itself.
        """
        problem, result = self.problem, self.ranking.result
        duals = problem.row_weights(result.alpha, result.beta)
        support = np.flatnonzero(duals)
        if not support.size:
            return result.dual
        dual_direction = problem.combine(result.alpha, result.beta)
        squared = float(dual_direction @ dual_direction) + left_out(self.rows, support, duals[support])
        return problem.dual(result.alpha, squared)[0]


@dataclass(frozen=True, slots=True)
class KernelReport:
    """What a fit says of a ranking when its rows and features are gone.

    The counts are those of positives, of negatives, and of negatives that decide; the traces those of what the features
    leave out, and of the whole kernel.
    """

    ranking: Ranking
    counts: tuple[int, int, int]
    exact_dual: float
    exact: bool
    traces: tuple[float, float]
    n_components: int


def rank_rows(
    kernel: Kernel,
    X: Any,
    classes: tuple[RowIndices, RowIndices],
    tau: float,
    reg: float,
    how: Approximation,
    choice: SolverChoice,
    rng: np.random.Generator,
    callback: Callback | None = None,
) -> KernelRanking:
    """Rank some rows, with landmarks that suit the ranking.

    The best function of the whole space is a sum over the rows with a dual weight alone. A first solution tells about
    which rows these are; landmarks among them are worth more than others. P of both solutions is that of the exact
    kernel, so that the better one is known.
    """
    rows = make_rows(kernel, X, how, rng, None if how.is_exact(X.shape[0]) else how.candidates(classes, rng))
    problem = rows.pose(classes, tau, reg)
    if rows.exact or not how.refine:
        return solve_kernel_ranking(rows, problem, choice, callback=callback)
    first = solve_kernel_ranking(rows, problem, replace(choice, tol=max(choice.tol, _ROUGH)), callback=callback)
    result = first.ranking.result
    left = result.dual - first.exact_dual()
    if not first.ranking.collapsed and left > _GOOD_ENOUGH * choice.tol * result.primal:
        refined = make_rows(kernel, X, how, rng, _refined_candidates(first))
        posed = refined.pose(classes, tau, reg)
        start = replace(result, coef=posed.primal_from_dual(result.alpha, result.beta), history=())
        second = solve_kernel_ranking(refined, posed, choice, start, callback)
        if second.ranking.result.primal < result.primal:
            return second
    return solve_kernel_ranking(rows, problem, choice, result, callback)


def _refined_candidates(first: KernelRanking) -> RowIndices:
    """Rows with a dual weight; where they are fewer than the landmarks, the first of the other landmarks too."""
    result, pivots = first.ranking.result, first.rows.pivots
    support = np.flatnonzero(first.problem.row_weights(result.alpha, result.beta))
    others = pivots[~np.isin(pivots, support)][: max(0, pivots.size - support.size)]
    return np.sort(np.concatenate((support, others)))


def solve_kernel_ranking(
    rows: KernelRows,
    problem: RankingProblem,
    choice: SolverChoice,
    start: Result | None = None,
    callback: Callback | None = None,
) -> KernelRanking:
    """Solve the problem on the features, and express the solution by weights of the rows."""
    ranking = solve_ranking(problem, choice, start, callback)
    if ranking.result.status is Status.STALLED:
        ranking = _solve_along_regs(problem, choice, ranking)
    if ranking.collapsed:
        return KernelRanking(rows, problem, ranking, np.zeros(rows.operator.shape[0]))
    linked = _linked(problem, ranking.result, choice.tol) if rows.exact else None
    if linked is None:
        return KernelRanking(rows, problem, ranking, rows.weights(ranking.result.coef))
    weights = problem.row_weights(linked.alpha, linked.beta) / problem.ridge
    return KernelRanking(rows, problem, replace(ranking, result=linked), weights)


def _solve_along_regs(problem: RankingProblem, choice: SolverChoice, stalled: Ranking) -> Ranking:
    """Come from larger values of reg, each solved from the one before, and keep that solution if its gap is smaller.

    Where there are as many features as rows, the solution for a small reg is too far away from w = 0.
    """
    start: Result | None = None
    ranking = stalled
    n_steps = max(0, math.ceil(-math.log10(problem.reg)) - 1)  # of a factor of about 10, from 0.1 on
    for reg in [*np.geomspace(0.1, problem.reg, n_steps, endpoint=False), problem.reg]:
        ranking = solve_ranking(problem.replace(reg=float(reg)), choice, start)
        start = ranking.result
    return ranking if ranking.result.gap < stalled.result.gap else stalled


def _linked(problem: RankingProblem, result: Result, tol: float) -> Result | None:
    """The point w = v / (m reg) that the dual pair stands for, if it is within the tolerance too.

    Only rows with a dual weight have a weight in it: often a third of them, where w itself takes all pivots. The best
    pair and the best point may come from different iterations, so that its gap has to be computed.
    """
    coef = problem.primal_from_dual(result.alpha, result.beta)
    certificate = Certificate(problem.objective(coef), result.dual)
    if certificate.gap > max(tol, result.gap):
        return None
    return replace(result, coef=coef, primal=certificate.primal, gap=certificate.gap)


def left_out(rows: KernelRows, support: RowIndices, weights: Vector) -> float:
    """An upper bound on a' E a for weights of some rows, by groups of rows."""
    size = int(min(max(_MOST_VALUES // support.size, 1), _LARGEST_GROUP))
    # Groups are drawn at random, so that the residuals of the rows of one group point in all directions.
    order = np.random.default_rng(0).permutation(support.size)
    total = 0.0
    for start in range(0, support.size, size):
        part = order[start : start + size]
        total += np.sqrt(_left_out_of_group(rows, support[part], weights[part]))
    return float(total * total)


def _left_out_of_group(rows: KernelRows, group: RowIndices, weights: Vector) -> float:
    if group.size == 1:
        return float(weights[0] ** 2 * rows.residual[group[0]])
    explained = rows.operator.rmatvec_rows(weights, group)
    gram = np.asarray(rows.kernel.between(rows.kernel.restrict(rows.X, group)), dtype=np.float64)
    exact = float(weights @ (gram @ weights))
    # By Cauchy's inequality it cannot be more than this, whatever rounding says.
    most = float(np.abs(weights) @ np.sqrt(rows.residual[group])) ** 2
    return min(max(exact - float(explained @ explained), 0.0), most)
