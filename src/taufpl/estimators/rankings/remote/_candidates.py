"""The candidates of "auto" on remote rows, by the same names as in memory.

Logistic regression and support vector machines come from rounds over all rows (`_losses.py`). Rankings by Gaussian
recall need the moments of the negatives, which all rows give, and positives, of which some thousands say as much about
a direction: these come to the caller. Trimmed rankings alternate between a floor for the scores of positives and the
convex problem over blocks. Screened candidates are for rows in memory.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl._types import Vector
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
from taufpl.estimators.rankings.remote._losses import BlockLoss, MarginLoss, Spread, Weights
from taufpl.estimators.remote import BlockTable, start_from
from taufpl.operators import as_operator
from taufpl.operators.remote import Block, State, Sums, stack_rows
from taufpl.problem import top_count
from taufpl.thresholding import share_above

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
