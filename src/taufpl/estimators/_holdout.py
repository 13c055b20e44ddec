"""How many negatives `np` holds out, which ones, and whether there are enough for a proof."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taufpl.estimators._labels import split_rows
from taufpl.estimators._plan import Plan
from taufpl.estimators._units import Rows, Units
from taufpl.exceptions import TooFewNegativesWarning
from taufpl.thresholding import negatives_needed, simultaneous_ranks

# threshold="auto" proves nothing where that would leave the scorer less than this share of the negatives, or fewer.
_LEAST_TRAIN_SHARE = 0.2
_LEAST_TRAIN_COUNT = 10
# Positives that a model without them has to score: they tell the recall to three percentage points either way.
_ENOUGH_POSITIVES = 1000


@dataclass(frozen=True, slots=True)
class HoldOut:
    """Rows that train, and rows that were held out of everything.

    Attributes
    ----------
    train : ndarray of int
    negatives : ndarray of int
        They choose the threshold: one negative of each unit that is held out.
    positives : ndarray of int
        Positives that are held out with them, because they belong to such a unit or came as late.
    """

    train: Rows
    negatives: Rows
    positives: Rows


def held_out_size(n_units: int, plan: Plan) -> int:
    """How many of the units with a negative are held out, at least 1 and at most all but one.

    "auto" is one half, or as many as the guarantee needs, snapped: of all sizes that leave as many negatives above the
    threshold, the smallest. What it saves trains the scorer, and the guarantee is as tight as before.
    """
    if plan.holdout != "auto":
        return max(1, min(round(float(plan.holdout) * n_units), n_units - 1))
    size = max(1, min(max(round(0.5 * n_units), needed_by(plan)), n_units - 1))
    return snapped(size, plan.taus, plan.bound_delta)


def snapped(size: int, taus: Sequence[float], delta: float) -> int:
    """The smallest sample whose thresholds leave at least as many negatives above them as a sample of this size."""
    wanted = _above(size, taus, delta)
    if wanted.min() < 0:  # a guarantee cannot be had for one of the tolerances
        return size
    return bisect_left(range(size), True, lo=1, key=lambda n: bool(np.all(_above(n, taus, delta) >= wanted)))


def _above(size: int, taus: Sequence[float], delta: float) -> NDArray[np.int64]:
    """How many of `size` negatives the threshold of each tolerance leaves above it; -1 where there is no threshold."""
    return np.array([-1 if rank is None else size - rank for rank in simultaneous_ranks(size, taus, delta)])


def recall_folds(n_positive: int, plan: Plan) -> tuple[int, int]:
    """Folds into which the positives are divided to measure the recall, and how many folds a model is fitted without.

    Few positives are all scored by a model without them; of many, as few folds as hold 1,000 of them. (0, 0) where the
    recall is not measured.
    """
    n_folds = min(plan.n_folds, n_positive)
    if not plan.measure_recall or n_folds < 2:
        return 0, 0
    return n_folds, min(n_folds, math.ceil(_ENOUGH_POSITIVES * n_folds / n_positive))


def needed_by(plan: Plan) -> int:
    """Held-out negatives that the guarantee takes; of several tolerances, what sharing delta equally would take."""
    return negatives_needed(min(plan.taus), plan.bound_delta / len(plan.taus))


def enough_for_proof(plan: Plan) -> int:
    """Fewest negatives at which threshold="auto" is "np": those that the guarantee takes, and some to train on."""
    needed, share = needed_by(plan), 1.0 - _LEAST_TRAIN_SHARE if plan.holdout == "auto" else float(plan.holdout)
    return max(math.ceil(needed / share), needed + _LEAST_TRAIN_COUNT)


def choose_strategy(threshold: str, n_units: int, plan: Plan, *, ordered: bool = False) -> str:
    """The strategy that "auto" stands for: "np" with enough negatives for a proof, else "cross", with a warning.

    Parameters
    ----------
    threshold : str
        As it was given.
    n_units : int
        Units with a negative.
    plan : Plan
    ordered : bool
        Whether rows have times, which "cross" cannot respect.
    """
    if threshold != "auto":
        if ordered and threshold != "np":
            raise ValueError(
                f"order is for threshold='np', or 'auto' with enough negatives; got threshold={threshold!r}, whose "
                "folds mix earlier and later rows."
            )
        return threshold
    needed, enough = needed_by(plan), enough_for_proof(plan)
    if n_units >= max(2, enough) or plan.insufficient == "infinite":
        return "np"
    warnings.warn(
        f"tau={min(plan.taus):g} at delta={plan.bound_delta:g} needs {needed:,} negatives held out for a proof, at "
        f"least {enough:,} in all; there are {n_units:,}. The threshold was chosen by 'cross', which is measured, not "
        f"proven{', and which does not respect the order of the rows' if ordered else ''}. Collect more negatives, "
        f"raise tau or delta, or set threshold='cross'{' and leave order out' if ordered else ''} to accept this.",
        TooFewNegativesWarning,
        stacklevel=4,
    )
    return "cross"


def check_held_out(n_held: int, n_units: int, plan: Plan) -> None:
    """Refuse before anything is fitted, with the numbers that would do."""
    # Sharing delta equally is not the best that can be done; where it just fails, the rule itself decides.
    if n_held >= negatives_needed(min(plan.taus), plan.bound_delta):
        return
    needed = needed_by(plan)
    advice = (
        f"holdout={min(0.99, 1.01 * needed / n_units):.2g} would hold out enough"
        if 1.2 * needed < n_units
        else f"about {2 * needed:,} negatives in all are needed"
    )
    raise ValueError(
        f"tau={min(plan.taus):g} at delta={plan.bound_delta:g} needs at least {needed:,} negatives held out, got "
        f"{n_held:,} of {n_units:,} (holdout={plan.holdout!r}): {advice}. Or raise tau or delta, take "
        "threshold='cross', which uses all negatives, or set insufficient='infinite' to predict nobody positive."
    )


def divide(
    positive_rows: Rows, negative_rows: Rows, units: Units, plan: Plan, *, needs_positives: bool = True
) -> HoldOut:
    """Hold negatives out: at random, or, where rows have times, the latest. Units stay whole.

    Raises
    ------
    ValueError
        Nothing would be left to train on, or there are too few negatives for the guarantee.
    """
    own = np.unique(units.of(negative_rows))
    if own.size < 2:
        raise ValueError("threshold='np' needs at least 2 negatives, one to fit on and one to hold out; got 1.")
    n_held = held_out_size(own.size, plan)
    if plan.insufficient == "raise":
        check_held_out(n_held, own.size, plan)
    rows = np.sort(np.concatenate((positive_rows, negative_rows)))
    if units.times is None:
        train, negatives, others = _hold_out_units(rows, negative_rows, units, own, n_held, plan.seed)
    else:
        train, negatives, others = _hold_out_latest(rows, negative_rows, units, n_held, plan.seed)
    positive, negative = split_rows(train, positive_rows)
    if not negative.size or (needs_positives and not positive.size):
        raise ValueError(
            "nothing would be left to learn from: holding out the negatives that choose the threshold, with all rows "
            f"of their {'groups' if units.times is None else 'time and later'}, leaves {positive.size} positives and "
            f"{negative.size} negatives."
        )
    return HoldOut(train, negatives, split_rows(others, positive_rows)[0])


def _hold_out_units(
    rows: Rows, negative_rows: Rows, units: Units, own: Rows, n_held: int, seed: int
) -> tuple[Rows, Rows, Rows]:
    """Rows that train, one negative of each of some random units, and all rows of these units."""
    held = np.isin(units.of(rows), np.random.default_rng(seed).permutation(own)[:n_held])
    is_held = np.isin(negative_rows, rows[held], assume_unique=True)
    return rows[~held], units.one_each(negative_rows[is_held], seed), rows[held]


def _hold_out_latest(rows: Rows, negative_rows: Rows, units: Units, n_held: int, seed: int) -> tuple[Rows, Rows, Rows]:
    """Rows that train, the latest negatives, and all rows that came as late, of units that do not train.

    A unit is as late as the one negative of it that is drawn at random: its last row would favour units with many rows.
    Earlier rows train, but for those of units that are held out; later rows of other units take no part.
    """
    assert units.times is not None
    drawn = units.one_each(negative_rows, seed)
    cutoff = np.sort(units.times[drawn])[-n_held]
    negatives = drawn[units.times[drawn] >= cutoff]
    is_late = units.times[rows] >= cutoff
    train = rows[~is_late & ~units.with_all(negatives, rows)]
    return train, negatives, rows[is_late & ~units.with_all(train, rows)]
