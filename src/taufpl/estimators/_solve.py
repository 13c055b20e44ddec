"""Solve a ranking problem as an estimator needs it: to a direction that can be trusted, or to the word that it is none.

P(0) = l(0) whatever the data, so that a relative gap of 1e-4 says little where P* is close to l(0): with a large reg,
say, w = 0 itself may lie within the tolerance although every small step in the right direction ranks well. What counts
then is the share of the possible gain: l(0) - P(w) beside l(0) - D, its upper bound. Either that share becomes large,
or the bound becomes negligible, and w = 0 is the answer: the ranking has collapsed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from taufpl.problem import BaseRankingProblem
from taufpl.solvers import Accelerated, Callback, Newton, Record, Result, Solver

# The share of the possible gain under which a direction is not trusted.
_TRUSTED_SHARE = 0.5
# The next try aims at a gap of this share of the possible gain.
_AIM = 0.1
# Gains under this are hard to tell from rounding; they are looked for at a smaller reg, where they are of this size.
_TOO_FINE = 1e-9
_PLAIN = 1e-4

_DEFAULT_MAX_ITER = {"newton": 1_000, "accelerated": 100_000}


@dataclass(frozen=True, slots=True)
class SolverChoice:
    """A solver by name, with the settings that estimators share.

    Attributes
    ----------
    name : {"newton", "accelerated"}
    tol : float
        Relative gap.
    max_iter : int or None
        None stands for the solver's own.
    no_gain : float
        Gains over w = 0 under this are none, in units that do not depend on reg or on the scale of the features. To be
        sure of a collapse takes a gap as small as this.
    """

    name: str = "newton"
    tol: float = 1e-4
    max_iter: int | None = None
    no_gain: float = 1e-8

    def make(self, tol: float | None = None) -> Solver:
        """Build the solver, for another tolerance if one is given."""
        kind = Newton if self.name == "newton" else Accelerated
        max_iter = _DEFAULT_MAX_ITER[self.name] if self.max_iter is None else self.max_iter
        return kind(tol=self.tol if tol is None else tol, max_iter=max_iter)

    def solve(
        self, problem: BaseRankingProblem, start: Result | None = None, callback: Callback | None = None
    ) -> Result:
        """Solve as `solve_ranking` does, for whoever wants a solver."""
        return solve_ranking(problem, self, start, callback).result


@dataclass(frozen=True, slots=True)
class Ranking:
    """A result, and whether it is the collapsed one, w = 0."""

    result: Result
    collapsed: bool


def solve_ranking(
    problem: BaseRankingProblem, choice: SolverChoice, start: Result | None = None, callback: Callback | None = None
) -> Ranking:
    """Solve to the tolerance, and further where the gain over w = 0 is still in doubt.

    Parameters
    ----------
    problem : RankingProblem or BlockRankingProblem
    choice : SolverChoice
    start : Result, default=None
        Of a neighbouring problem, with another k or reg. Remote rows go on from where their last solve has ended.
    callback : callable, default=None
        Gets the records of all runs as if they were one.
    """
    result = choice.make().solve(problem, start, callback)
    at_zero = problem.primal_at_zero
    while result.converged:
        possible = at_zero - result.dual
        if at_zero - result.primal > _TRUSTED_SHARE * possible:
            break
        if possible * _units(problem) <= choice.no_gain:
            return Ranking(replace(result, coef=np.zeros(problem.n_features), primal=at_zero), collapsed=True)
        if possible < _TOO_FINE:
            return _solve_with_less(problem, choice, possible)
        following = _shifted(callback, result.history)
        result = _joined(result, choice.make(_AIM * possible).solve(problem, result, following))
    return Ranking(result, collapsed=not result.coef.any())


def _units(problem: BaseRankingProblem) -> float:
    """1 + reg / (2 R^2), R^2 the mean squared distance of the positives from the mean negative.

    With dist the distance of the mean positive from what the negatives can average to, the gain is about
    dist^2 / (R^2 + reg/2); times this it is dist^2 / R^2, whatever reg is and wherever the origin lies.
    """
    squares = problem.positive_spread()
    return 1.0 + 0.5 * problem.reg / squares if squares > 0 else 1.0


def _solve_with_less(problem: BaseRankingProblem, choice: SolverChoice, possible: float) -> Ranking:
    """Solve at a reg so much smaller that the gain can be seen, and take the direction over.

    Where the penalty outweighs all else, the gain falls as 1/reg, and so does the length of w; its direction stays.
    """
    factor = possible / _PLAIN
    ranking = solve_ranking(problem.replace(reg=problem.reg * factor), choice)
    result = ranking.result
    if ranking.collapsed:
        return ranking
    coef = result.coef * factor
    certificate = problem.certify(coef, result.alpha, result.beta)
    kept = replace(result, coef=coef, primal=certificate.primal, dual=certificate.dual, gap=certificate.gap)
    return Ranking(kept, collapsed=False)


def _shifted(callback: Callback | None, history: tuple[Record, ...]) -> Callback | None:
    """Pass records on with the cost of an earlier run added."""
    if callback is None or not history:
        return callback
    last = history[-1]
    return lambda record: callback(_after(last, record))


def _after(last: Record, record: Record) -> Record:
    """A record of a run that began where another one ended."""
    return replace(
        record,
        n_passes=last.n_passes + record.n_passes,
        seconds=last.seconds + record.seconds,
        n_rounds=last.n_rounds + record.n_rounds,
    )


def _joined(first: Result, second: Result) -> Result:
    """The second result, which started from the first, with the cost of both."""
    last = first.history[-1]
    return replace(
        second,
        n_iter=first.n_iter + second.n_iter,
        n_passes=first.n_passes + second.n_passes,
        n_rounds=first.n_rounds + second.n_rounds,
        n_projections=first.n_projections + second.n_projections,
        history=first.history + tuple(_after(last, record) for record in second.history),
    )
