"""`rank` solves the ranking of an estimator: the convex one, or the trimmed one, which gives up positives out of reach.

With c = ceil(share m) and the m positives' losses l_i(w) = l(x_i+ . w - T_k(X- w))::

    F(w) = min over subsets S of c positives of  (1/c) sum_{i in S} l_i(w) + (reg/2) |w|^2

For a fixed w the best S holds the c positives with the highest scores; for a fixed S the problem in w is the convex one
of :class:`taufpl.problem.RankingProblem`. Neither step increases F, and there are finitely many S. The end depends on
the start, so that there may be several, and the lowest F wins. A start gives a direction only: its length is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from taufpl._types import RowIndices, Vector
from taufpl.estimators._linear import SolverChoice, solve_ranking
from taufpl.estimators._table import Ranking
from taufpl.estimators.rankings._gaussian_recall import RIDGES, NegativeMoments, fit_gaussian_recall
from taufpl.problem import RankingProblem
from taufpl.solvers import Callback, Result, Status
from taufpl.thresholding import share_above

# Gap of the convex problems on the way; the last one is solved to the tolerance that was asked for.
_LOOSE = 1e-2
# An alternation that lowers F by less than this share of it, or than the tolerance, is the last.
_SMALL_GAIN = 1e-3
# Negatives that may come to be among the k highest: this many times k and some more are looked at, unless these are
# more than a share of all.
_NEAR, _LEAST_NEAR, _MOST_NEAR = 3, 1000, 0.5
# Fewest positives that a following share keeps: fewer say too little about a direction.
_FEWEST = 20
# A following share gives up at least a few positives: with all of them the problem would be the convex one.
_LARGEST_SHARE = 0.98


@dataclass(frozen=True, slots=True)
class TrimmedRanking(Ranking):
    """The ranking at which the alternation ended; collapsed if every start ended at w = 0.

    The result is that of the convex problem on the chosen positives: its gap certifies that problem, not the choice.
    Where the tolerance is no smaller than that of the alternations, the result is that of the last alternation, for the
    positives that were chosen before it. Its passes are those of all starts together. `chosen` are positions among
    `positive_rows`; `objectives` are F after each alternation of the start that won, and never increase.
    """

    chosen: RowIndices
    objectives: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Iterate:
    """Coefficients, the scores that they give, and the dual weights of the negatives that belong to them."""

    coef: Vector
    positive: Vector
    negative: Vector
    beta: Vector


def rank(
    problem: RankingProblem,
    share: float,
    tau: float,
    choice: SolverChoice,
    start: Result | None = None,
    callback: Callback | None = None,
    *,
    goes_on: bool = False,
) -> Ranking:
    """The convex ranking of a problem, or, where only a share of the positives is kept, the trimmed one.

    The convex solver starts from the result of a neighbouring problem, whose direction is also one more start of the
    trimmed ranking; with `goes_on`, as along a path, the only one. Other starts are found for the tolerance tau. The
    callback sees the records of a convex solve.
    """
    if kept_count(share, problem.n_positive) == problem.n_positive:
        return solve_ranking(problem, choice, start, callback)
    directions = [start.coef] if start is not None and start.coef.any() else []
    if not (goes_on and directions):
        directions += find_starts(problem, tau)
    return fit_trimmed(problem, share, choice, directions)


def find_starts(problem: RankingProblem, tau: float) -> list[Vector]:
    """Directions to start from: difference of the means, rankings by Gaussian recall, convex solution at k = n."""
    positive = np.full(problem.n_positive, 1.0 / problem.n_positive)
    difference = problem.combine(positive, np.full(problem.n_negative, 1.0 / problem.n_negative))
    if not difference.any():
        return []
    moments = NegativeMoments.of(problem)
    gaussian = [fit_gaussian_recall(problem, moments, tau, ridge, difference) for ridge in RIDGES]
    all_negatives = solve_ranking(problem.replace(k=problem.n_negative), SolverChoice(tol=_LOOSE))
    return [difference, *gaussian, all_negatives.result.coef]


def fit_trimmed(
    problem: RankingProblem, share: float, choice: SolverChoice, starts: Sequence[Vector], max_alternations: int = 10
) -> TrimmedRanking:
    """Minimise the trimmed objective from each start, by at most this many alternations, and keep the lowest.

    The share of the positives that are kept is above 0 and at most 1; at 1 it is the convex problem, without starts.
    Else starts hold at least one direction that is not 0.
    """
    count = kept_count(share, problem.n_positive)
    before = problem.operator.n_passes
    directions = [start for start in starts if start.any()]
    if count == problem.n_positive:
        ranking = solve_ranking(problem, choice)
        end = TrimmedRanking(ranking.result, ranking.collapsed, np.arange(count), (ranking.result.primal,))
    elif not directions:
        raise ValueError(
            f"starts must hold a direction that is not 0, got {len(starts)} starts, all 0. "
            "Give the coefficients of a linear classifier, or the difference of the class means."
        )
    else:
        loose = replace(choice, tol=max(choice.tol, _LOOSE))
        small_gain = max(_SMALL_GAIN, choice.tol)
        ends = [_alternate(problem, count, loose, start, max_alternations, small_gain) for start in directions]
        end = min(ends, key=lambda end: end.objectives[-1])
        if choice.tol < loose.tol:
            end = _polish(problem, choice, end)
    return replace(end, result=replace(end.result, n_passes=problem.operator.n_passes - before))


def trimmed_path(
    problem: RankingProblem,
    share: float,
    regs: Sequence[float],
    choice: SolverChoice,
    start: Vector,
    max_alternations: int = 5,
) -> Iterator[tuple[float, TrimmedRanking]]:
    """Yield each reg, largest first, with its trimmed ranking, which starts from the one before.

    A ranking that collapses is passed over as a start. Where its first alternation collapses, those of smaller regs do
    too: from the same direction they choose the same positives, and a collapse of the problem on these does not depend
    on reg.
    """
    hopeless: TrimmedRanking | None = None
    for reg in sorted(set(regs), reverse=True):
        found = hopeless or fit_trimmed(problem.replace(reg=reg), share, choice, [start], max_alternations)
        if not found.collapsed:
            start = found.result.coef
        elif len(found.objectives) == 1:
            hopeless = replace(found, result=replace(found.result, n_passes=0.0))
        yield reg, found


def following_share(problem: RankingProblem, tau: float, factor: float, starts: Sequence[Vector]) -> float:
    """A share of positives to keep: a multiple of the share that the best start catches of the training positives.

    ::

        share = factor max over starts of (1/m) # { i : s_i+ > b },   b the (floor(tau n) + 1)-th largest negative

    between 20 positives and all but 2 %. It is taken once and then stays: F's of different shares do not compare, so
    that an alternation with a share that moves would not be monotone in anything. One pass a start.
    """
    return kept_share(max(share_above(*problem.scores(start), tau) for start in starts), factor, problem.n_positive)


def kept_share(caught: float, factor: float, n_positive: int) -> float:
    """A multiple of the share that is caught, between 20 positives and all but 2 %."""
    return min(_LARGEST_SHARE, max(factor * caught, min(1.0, _FEWEST / n_positive)))


def kept_count(share: float, n_positive: int) -> int:
    """C = ceil(share m), at least 1.

    Examples
    --------
    >>> kept_count(0.07, 100), kept_count(0.071, 100), kept_count(1.0, 100)
    (7, 8, 100)
    """
    if not 0 < share <= 1:
        raise ValueError(f"positive_share must be above 0 and at most 1, got {share!r}.")
    # A product such as .07 * 100 lies just above the whole number that was meant.
    return max(1, min(n_positive, math.ceil(share * n_positive * (1.0 - 4e-16))))


def _alternate(
    problem: RankingProblem, count: int, choice: SolverChoice, start: Vector, max_alternations: int, small_gain: float
) -> TrimmedRanking:
    """Alternate from one direction until the chosen positives stay the same, or F hardly falls."""
    at = _first_iterate(problem, count, start)
    chosen = _highest(at.positive, count)
    objectives: list[float] = []
    while True:
        ranking, at = _solve_chosen(problem, choice, at, chosen)
        following = _highest(at.positive, count)
        top, squared = problem.top_mean(at.negative), float(at.coef @ at.coef)
        objectives.append(problem.primal(at.positive[following], top, squared))
        done = ranking.collapsed or len(objectives) >= max_alternations or np.array_equal(following, chosen)
        if done or (len(objectives) > 1 and objectives[-2] - objectives[-1] <= small_gain * objectives[-1]):
            return TrimmedRanking(ranking.result, ranking.collapsed, following, tuple(objectives))
        chosen = following


def _polish(problem: RankingProblem, choice: SolverChoice, end: TrimmedRanking) -> TrimmedRanking:
    """Solve the convex problem on the last choice to the tolerance that was asked for."""
    if end.collapsed:
        return end
    coef = end.result.coef
    at = _Iterate(coef, *problem.scores(coef), end.result.beta)
    ranking, _ = _solve_chosen(problem, choice, at, end.chosen)
    objectives = (*end.objectives, ranking.result.primal)
    return TrimmedRanking(ranking.result, ranking.collapsed, end.chosen, objectives)


def _solve_chosen(
    problem: RankingProblem, choice: SolverChoice, at: _Iterate, chosen: RowIndices
) -> tuple[Ranking, _Iterate]:
    """Solve the convex problem on the chosen positives, from alpha as the margins give it, and the beta there was.

    Only the k highest negatives count, and they are looked for among those that are high now: T_k of a part is at most
    T_k of all, so that the dual value of the part is a lower bound for all. Where the gap to P on all negatives is too
    large, those that are high by then join the part. One more pass for each part.
    """
    near = _near_negatives(at.negative, problem.k)
    while True:
        part = _part(problem, chosen, near)
        ranking = solve_ranking(part, choice, _start(part, at, chosen, near))
        coef, beta = ranking.result.coef, np.zeros(problem.n_negative)
        beta[near] = ranking.result.beta
        at = _Iterate(coef, *problem.scores(coef), beta)
        primal = part.primal(at.positive[chosen], problem.top_mean(at.negative), float(coef @ coef))
        result = replace(ranking.result, beta=beta, primal=primal, gap=(primal - ranking.result.dual) / primal)
        is_whole = near.size == problem.n_negative
        if is_whole or ranking.collapsed or not result.converged or result.gap <= choice.tol:
            return Ranking(ranking.result if is_whole else result, ranking.collapsed), at
        near = np.union1d(near, _near_negatives(at.negative, problem.k))


def _near_negatives(scores: Vector, k: int) -> RowIndices:
    """Positions of the negatives that may come to be among the k highest, ascending; all where they are not few."""
    count = _NEAR * k + _LEAST_NEAR
    if count > _MOST_NEAR * scores.size:
        return np.arange(scores.size)
    return np.sort(np.argpartition(scores, -count)[-count:])


def _part(problem: RankingProblem, chosen: RowIndices, near: RowIndices) -> RankingProblem:
    """The problem of some positives and negatives, on a copy of these rows if negatives are left out."""
    operator, positive, negative = problem.operator, problem.positive_rows[chosen], problem.negative_rows[near]
    if near.size < problem.n_negative:
        operator = operator.take_rows(np.concatenate((positive, negative)))
        positive, negative = np.arange(chosen.size), np.arange(chosen.size, chosen.size + near.size)
    return RankingProblem(operator, positive, negative, problem.k, problem.reg, problem.loss)


def _start(part: RankingProblem, at: _Iterate, chosen: RowIndices, near: RowIndices) -> Result:
    negative, beta = at.negative[near], at.beta[near]
    alpha = -part.loss.derivative(at.positive[chosen] - part.top_mean(negative))
    if not alpha.any():  # no loss left, only the penalty: any other pair is a better start than (0, 0)
        alpha = np.ones(chosen.size)
    beta = beta * (float(alpha.sum()) / max(float(beta.sum()), 1e-300))
    return Result(at.coef, alpha, beta, np.inf, -np.inf, np.inf, 0, 0.0, Status.MAX_ITER, ())


def _highest(scores: Vector, count: int) -> RowIndices:
    """Positions of the highest scores, in order of position; of equals, the first."""
    return np.sort(np.argsort(-scores, kind="stable")[:count])


def _first_iterate(problem: RankingProblem, count: int, start: Vector) -> _Iterate:
    """The direction at its best length, with the weight of the negatives on the k highest."""
    positive, negative = problem.scores(start)
    margins = np.partition(positive, -count)[-count:] - problem.top_mean(negative)
    length = best_length(margins, problem.reg * float(start @ start))
    beta = np.zeros(problem.n_negative)
    beta[np.argpartition(negative, -problem.k)[-problem.k :]] = 1.0
    return _Iterate(length * start, length * positive, length * negative, beta)


def best_length(margins: Vector, penalty: float) -> float:
    """Argmin over t of mean max(0, 1 - t u_i)^2 + (penalty/2) t^2, or a length for the start where it is not positive.

    That length is 1 / mean |u|, at most sqrt(2 / penalty), where the penalty alone is as high as the loss at t = 0: the
    margins of rows that tie are 0, or what rounding leaves of 0, and bound no length.
    """
    length = 0.0
    if margins.mean() > 0:
        for _ in range(50):  # Newton from the left on a derivative that is piecewise linear
            active = margins[margins * length < 1.0]
            curvature = 2.0 * float(np.square(active).sum()) / margins.size + penalty
            previous, length = length, 2.0 * float(active.sum()) / margins.size / max(curvature, 1e-300)
            if abs(length - previous) <= 1e-6 * length:
                break
    return length if length > 0 else 1.0 / max(float(np.abs(margins).mean()), math.sqrt(penalty / 2.0), 1e-300)
