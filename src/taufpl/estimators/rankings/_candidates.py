"""The linear rankings that "auto" tries, how they are compared on held-out rows, and how the best are averaged.

Which ranking is best at a small tau is hard to tell: floor(tau n) + 1 held-out negatives decide, and the best of many
noisy figures is the luckiest. Hence few candidates, none of them bad; a criterion that looks at neighbouring tolerances
too; and no choice among those that cannot be told from the best, but their average, which is a linear ranking again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from taufpl._types import Mask, RowIndices, Vector
from taufpl.estimators._array_table import LARGE, ArrayTable
from taufpl.estimators._linear import SolverChoice
from taufpl.estimators._reading import ENOUGH_POSITIVES
from taufpl.estimators._table import LinearModel, Table
from taufpl.estimators.rankings._gaussian_recall import RIDGES, NegativeMoments, fit_gaussian_recall, mean_and_variances
from taufpl.estimators.rankings._plain import PLAIN, START, Name, plain_candidates, start_candidate
from taufpl.estimators.rankings._trimmed import following_share, trimmed_path
from taufpl.estimators.strategies import LinearFitter
from taufpl.operators import as_operator, is_dense, one_blas_thread
from taufpl.problem import RankingProblem, top_count
from taufpl.thresholding import Sample, share_above

# Candidates only have to be told apart, and an early end regularises: recall is a little higher than at 1e-2.
LOOSE = SolverChoice(tol=5e-2, max_iter=100, no_gain=1e-4)
MOST_ALTERNATIONS = 2
# The trimmed ranking trains at this multiple of tau: the mean of more negatives is less noisy.
TRIMMED_SCALE = 4.0
# Multiples of the share of positives that a start catches, and the values of reg at each.
TRIMMED = ((1.25, (1.0, 0.01)), (2.0, (0.01,)))
# Screened candidates see the features whose class means are at least this many standard errors apart, a quarter of all
# features at most: with many more they would be the other candidates once again, at their price.
SCREENED = "screened "
_TELLING = 3.0
_MOST_SCREENED = 0.25
# Tolerances that a held-out criterion looks at, as multiples of tau.
_NEIGHBOURS = (0.5, 1.0, 2.0)
# Most candidates that are averaged.
_MOST_KEPT = 5
# Deviations from 0 at which a column, and times the smallest deviation at which the largest one, is far away.
_FAR = 5e5
# Columns that vary by this share of their size are constant.
_ROUNDED = 64.0 * float(np.finfo(np.float64).eps)
# Variances of this size, or of one over it, are unusual.
_HUGE = 1e60
# Up to this many rows a second division into folds is taken: which rows happen to share a fold moves the order of the
# candidates most where rows are few, and there it costs little.
FEW_ROWS = 4_000


@dataclass(frozen=True, slots=True)
class Units:
    """The mean and the deviation of each feature, in whose units features are fitted that lie far from each other."""

    centre: Vector
    deviation: Vector

    @classmethod
    def of(cls, table: Table) -> Units | None:
        """Those of these rows; None for sparse and remote rows, and where doubles do as they are.

        Moments that cancel say which columns to look at. Those that are constant but for rounding have an infinite
        deviation: their features and weights are 0.
        """
        if not isinstance(table, ArrayTable) or not is_dense(table.X):
            return None
        assert table.operator is not None
        mean, variances = mean_and_variances(table.operator, table.by_class)
        suspect = variances <= np.square(mean / _FAR)
        varies, is_rounded = ~suspect, False
        for column in np.flatnonzero(suspect):
            values = np.asarray(table.X[table.by_class, column], dtype=np.float64)
            spread, varies[column] = np.ptp(values), np.ptp(values) > _ROUNDED * np.abs(values).max()
            is_rounded = is_rounded or bool(spread > 0.0 and not varies[column])
        if not varies.any():
            raise ValueError(
                "no column of X varies by more than rounding: there is nothing to tell the classes apart by."
            )
        sizes = variances[varies & ~suspect]
        smallest, largest = sizes.min(initial=1.0), sizes.max(initial=1.0)
        is_usual = max(largest, 1.0 / smallest) < _HUGE and largest < _FAR**2 * sizes.min(initial=largest)
        if is_usual and not is_rounded and not np.any(varies & suspect):
            return None
        part = table.X[table.by_class].astype(np.float64)
        size = np.abs(part).max(axis=0)  # whose square may be 0, or infinite
        part /= np.where(size > 0, size, 1.0)
        deviation = size * part.std(axis=0)
        return cls(size * part.mean(axis=0), np.where(varies & (deviation > 0), deviation, np.inf))


class AutoFitter(LinearFitter):
    """Fits the candidates that held-out folds could not tell from the best, and averages them."""

    def __init__(self, tau: float, cv: int) -> None:
        self.tau, self.cv = tau, cv
        self.units: Units | None = None
        self.kept: list[Name] = []
        self.selection: dict[str, Any] = {}

    def prepare(self, table: Table) -> None:
        """Judge all candidates on folds of these rows, which are divided twice where they are few."""
        # By all of X, not by the rows of a fold: every fold must have the same candidates.
        frugal = isinstance(table, ArrayTable) and table.X.size > LARGE
        self.units = Units.of(table)
        with ExitStack() as opened:
            folds = opened.enter_context(table.search_folds(self.cv, enough=ENOUGH_POSITIVES))
            if table.n_positive + table.n_negative <= FEW_ROWS:
                folds = folds + opened.enter_context(table.search_folds(self.cv, seed=0))
            judge = partial(_judge, tau=self.tau, units=self.units, frugal=frugal)
            judged, counts = zip(*folds.map(judge, what="comparing rankings, fold"), strict=True)
        names = list(judged[0])
        shares = np.array([[fold[name] for fold in judged] for name in names])
        mean = shares.mean(axis=1)
        kept = as_good_as_best(mean, min(table.n_positive, sum(counts)))
        self.kept = [names[index] for index in kept]
        simplest = max(mean[index] for index, name in enumerate(names) if name[0] == "logistic")
        self.selection = {
            "candidate": [f"{name[0]}({', '.join(f'{x:g}' for x in name[1:])})" for name in names],
            "mean_share": mean,
            "std_share": shares.std(axis=1, ddof=1) if len(folds) > 1 else np.zeros(len(names)),
            "over_logistic": mean - simplest,
            "kept": np.isin(np.arange(len(names)), kept),
        }

    def fit(self, table: Table, near: Any = None) -> LinearModel:
        """Fit what was kept on these rows."""
        found, moments = _find(table, self.tau, self.units, self.kept)
        coef = average(list(found.values()), moments)
        return LinearModel(coef if self.units is None else coef / self.units.deviation)


def _judge(
    train: Table, held_out: Table, *, tau: float, units: Units | None, frugal: bool
) -> tuple[dict[Name, float], int]:
    """Held-out share of every candidate on one fold, and how many positives were held out."""
    found, _ = _find(train, tau, units, frugal=frugal)
    judged = held_out.compact()
    shares = {}
    for name, coef in found.items():
        scores = judged.scores(coef if units is None else coef / units.deviation)
        shares[name] = held_out_share(scores.positive, scores.negative, tau)
    return shares, held_out.n_positive


def _find(
    table: Table, tau: float, units: Units | None, wanted: list[Name] | None = None, *, frugal: bool = False
) -> tuple[dict[Name, Vector], NegativeMoments]:
    """Candidates on a copy of these rows of X in some units, positives first; on remote rows where these are."""
    if not isinstance(table, ArrayTable):
        from taufpl.estimators.rankings._remote import find_block_candidates

        return find_block_candidates(table, tau, wanted)
    part, cut = table.X[table.by_class], table.n_positive
    if units is not None:
        part = (part - units.centre) / units.deviation
    # Candidates choose k and reg themselves.
    problem = RankingProblem(as_operator(part), np.arange(cut), np.arange(cut, part.shape[0]), 1, 1.0)
    moments = NegativeMoments.of(problem)
    with one_blas_thread:
        return find_candidates(part, problem, moments, tau, wanted, frugal=frugal), moments


def find_candidates(
    X: Any,
    problem: RankingProblem,
    moments: NegativeMoments,
    tau: float,
    wanted: Collection[Name] | None = None,
    *,
    frugal: bool = False,
) -> dict[Name, Vector]:
    """Coefficients of all candidates, or of those that are wanted, in the order of `all_names`.

    X and the moments are of the rows of the problem, whose k and reg do not matter. A frugal search leaves out the
    support vector machines: liblinear holds 16 bytes for a value of X beside X itself.
    """
    is_positive = np.zeros(problem.operator.shape[0], dtype=bool)
    is_positive[problem.positive_rows] = True
    names = all_names() if wanted is None else wanted
    knows_tau = any(name[0] in ("normal", "trimmed") for name in names)
    wanted_plain = {*names, *([START] if knows_tau else [])}
    found = plain_candidates(X, problem.operator, is_positive, wanted_plain, frugal=frugal)
    if knows_tau:
        found |= _tau_candidates(problem, moments, tau, found[START], names)
    if any(name[0].startswith(SCREENED) for name in names):
        found |= _screened_candidates(X, problem, moments, tau, is_positive, names)
    return {name: coef for name, coef in found.items() if name in names}


def all_names() -> list[Name]:
    """The names of all candidates, the simpler first."""
    know_tau: list[Name] = [("normal", ridge) for ridge in RIDGES]
    know_tau += [("trimmed", factor, reg) for factor, regs in TRIMMED for reg in regs]
    return [*PLAIN, *know_tau, *((SCREENED + name[0], *name[1:]) for name in (START, *know_tau))]


def _tau_candidates(
    problem: RankingProblem, moments: NegativeMoments, tau: float, start: Vector, wanted: Collection[Name]
) -> dict[Name, Vector]:
    """Rankings by Gaussian recall from a start, that of logistic regression, and trimmed ones from the first of them.

    These are the wanted ones, and those on the way to them: the first by Gaussian recall, trimmed ones of larger regs.
    """
    found: dict[Name, Vector] = {}
    for ridge in RIDGES:
        if ridge == RIDGES[0] or ("normal", ridge) in wanted:
            found["normal", ridge] = fit_gaussian_recall(problem, moments, tau, ridge, start)
    first = found["normal", RIDGES[0]]
    k = top_count(TRIMMED_SCALE * tau, problem.n_negative)
    for factor, regs in TRIMMED:
        smallest = min((reg for reg in regs if ("trimmed", factor, reg) in wanted), default=math.inf)
        needed = [reg for reg in regs if reg >= smallest]
        if needed:
            share = following_share(problem, tau, factor, [start, first])
            path = trimmed_path(problem.replace(k=k), share, needed, LOOSE, first, MOST_ALTERNATIONS)
            found |= {("trimmed", factor, reg): ranking.result.coef for reg, ranking in path}
    return found


def _screened_candidates(
    X: Any, problem: RankingProblem, moments: NegativeMoments, tau: float, is_positive: Mask, wanted: Collection[Name]
) -> dict[Name, Vector]:
    """Logistic regression and the rankings that know tau, on the features that tell the classes apart."""
    names = {(name[0].removeprefix(SCREENED), *name[1:]) for name in wanted if name[0].startswith(SCREENED)}
    columns = telling_features(problem, moments)
    part = X[:, columns].copy()  # NumPy gathers columns along the columns; a copy has contiguous rows
    small = RankingProblem(as_operator(part), problem.positive_rows, problem.negative_rows, problem.k, problem.reg)
    found: dict[Name, Vector] = {START: start_candidate(part, small.operator, is_positive)}
    if names != {START}:
        found |= _tau_candidates(small, moments.of_features(columns), tau, found[START], names)
    screened: dict[Name, Vector] = {}
    for name, coef in found.items():
        screened[SCREENED + name[0], *name[1:]] = np.zeros(problem.n_features)
        screened[SCREENED + name[0], *name[1:]][columns] = coef
    return screened


def telling_features(problem: RankingProblem, moments: NegativeMoments) -> RowIndices:
    """Features with means at least 3 standard errors apart: at least one, at most the quarter that is furthest apart.

    ::

        t_j = (mean_j+ - mean_j-) / sqrt(V_j+ / m + V_j- / n)

    Two passes over the positives. A feature whose classes differ in variance alone is not seen.
    """
    mean, variances = mean_and_variances(problem.operator, problem.positive_rows)
    squares = variances / problem.n_positive + moments.negative_variances() / problem.n_negative
    apart = np.abs(mean - moments.mean)
    apart[apart <= _ROUNDED * np.abs(mean)] = 0.0  # as in constant columns
    distances = apart / np.sqrt(np.maximum(squares, np.finfo(float).tiny))
    most = max(1, int(_MOST_SCREENED * problem.n_features))
    count = min(max(1, int(np.count_nonzero(distances >= _TELLING))), most)
    return np.sort(np.argsort(-distances, kind="stable")[:count])


def held_out_share(positive_scores: Vector | Sample, negative_scores: Vector | Sample, tau: float) -> float:
    """Mean of the shares of positives above the thresholds of tau/2, tau and 2 tau, on the rows of one fold."""
    return float(np.mean([share_above(positive_scores, negative_scores, min(f * tau, 0.99)) for f in _NEIGHBOURS]))


def as_good_as_best(shares: Vector, n_positive: int) -> RowIndices:
    """Positions of the candidates that held-out rows cannot tell from the best, in the order given; the first five.

    ::

        { c : p_c >= p - sqrt(p (1 - p) / m) },   p = max over c of p_c

    Of more than five, those with the highest shares are taken; of equal shares, the simpler. The shares p_c are means
    over the folds of :func:`held_out_share`, m counts the positives of all folds together.
    """
    best = float(shares.max())
    first = np.argsort(-shares, kind="stable")[:_MOST_KEPT]
    return np.sort(first[shares[first] >= best - math.sqrt(best * (1.0 - best) / n_positive)])


def average(coefs: Sequence[Vector], moments: NegativeMoments) -> Vector:
    """Mean of rankings, each at the length at which negatives score with standard deviation 1."""
    mean: Vector = np.mean([moments.standardised(coef) for coef in coefs], axis=0)
    return mean
