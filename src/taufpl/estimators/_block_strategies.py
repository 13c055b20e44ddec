"""The four ways to divide the data between model and threshold, for rows in blocks (`_strategies.py` for all others).

The same rules choose from the same counts and order statistics; the rows are divided where they are. A random part has
the same size as in memory, but other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from taufpl.estimators._block_parts import Dealt, DealtPositives, HeldOut
from taufpl.estimators._block_scores import Direction, Held, Of, score, span
from taufpl.estimators._block_table import Part
from taufpl.estimators._holdout import check_held_out, held_out_size, recall_folds
from taufpl.estimators._plan import Plan
from taufpl.estimators._search import possible_folds
from taufpl.estimators._strategies import Outcome, evidence_from_counts, rescaled, round_rules
from taufpl.operators.remote import Block, State, Sums
from taufpl.thresholding import (
    BlockSample,
    CrossFitRule,
    Evidence,
    JointOrderStatistic,
    Rounds,
    ThresholdRule,
    TopSample,
    TrainQuantile,
)

Vector = NDArray[np.float64]


class BlockFitter(Protocol):
    """A way to fit linear models on parts.

    Attributes
    ----------
    tells_of_all_rows : bool
        Whether the fit on all rows is reported even where it is not used.
    """

    tells_of_all_rows: bool

    def prepare(self, part: Part) -> None:
        """Choose what is chosen once before any fit, from these rows alone."""

    def fit(self, part: Part) -> Any:
        """Fit a model on these rows."""

    def direction(self, model: Any) -> Direction:
        """The score of a model."""


def hold_out(fitter: BlockFitter, part: Part, plan: Plan) -> Outcome:
    """`np`: negatives that are held out, and never fitted on, choose the threshold with a guarantee."""
    n_negative, n_positive = part.sizes
    if n_negative < 2:
        raise ValueError("threshold='np' needs at least 2 negatives, one to fit on and one to hold out; got 1.")
    n_held = held_out_size(n_negative, plan)
    if plan.insufficient == "raise":
        check_held_out(n_held, n_negative, plan)
    division = HeldOut.draw((n_held, 0), (n_negative, n_positive), plan.seed)
    with part.divided(division) as divided, divided.rows_of(0) as train, divided.rows_of(1) as held_out:
        fitter.prepare(train)
        model = fitter.fit(train)
        score(held_out, fitter.direction(model))
        scores = Held.of(held_out).negative
        rule = JointOrderStatistic(plan.taus, plan.bound_delta, plan.insufficient)
        evidence, scale = rule.choose_all(scores), scores.largest
        return Outcome((model,), _with_recall(fitter, train, held_out, plan, evidence), scale)


def _with_recall(
    fitter: BlockFitter, train: Part, held_out: Part, plan: Plan, evidence: tuple[Evidence, ...]
) -> tuple[Evidence, ...]:
    """Evidence with the recall by folds over the positives, as in memory."""
    n_folds, n_fitted = recall_folds(train.n_positive, plan)
    if not n_folds:
        return evidence
    caught, n_counted = np.zeros(len(evidence), dtype=np.int64), 0
    with train.divided(DealtPositives.folds(n_folds, plan.seed)) as divided:
        for fold in range(n_fitted):
            with divided.rows_of(fold, others=True) as rest:
                direction = fitter.direction(fitter.fit(rest))
            score(held_out, direction)
            negative = Held.of(held_out).negative
            thresholds = [np.inf if each.rank is None else negative.at_rank(each.rank) for each in evidence]
            with divided.rows_of(fold) as own:
                score(own, direction)
                positive = BlockSample(own.blocks, Of("positive"), "positive_scores")
                caught += [positive.n_above(threshold) for threshold in thresholds]
                n_counted += positive.size
    return tuple(each.with_caught(int(count), n_counted) for each, count in zip(evidence, caught, strict=True))


def cross_fit(fitter: BlockFitter, part: Part, plan: Plan) -> Outcome:
    """`cross`: the model is fitted on all rows; models of folds tell how much that flatters it (`CrossFitRule`)."""
    fitter.prepare(part)
    model = fitter.fit(part)
    target = span(part, fitter.direction(model))
    negative = Held.of(part).negative
    n_folds = possible_folds(plan.n_folds, part.n_positive, part.n_negative)
    rule = CrossFitRule(plan.taus, plan.bound_delta, n_folds)
    lowest = rule.lowest(negative)
    with part.divided(Dealt.folds(n_folds, plan.seed)) as divided:
        folds = [_cross_fit_fold(fitter, divided, fold, target, lowest) for fold in range(n_folds)]
        moved, tops = zip(*folds, strict=True)
        divided.blocks.change(_ScoreByFold(moved))
        held_out = Held.of(replace(part, blocks=divided.blocks))
        assert held_out.positive is not None
        fold_train = TopSample(np.concatenate(tops), (n_folds - 1) * part.n_negative)
        found = rule.choose_all(negative, held_out.negative, fold_train)
        evidence = tuple(each.with_recall(held_out.positive) for each in found)
        return Outcome((model,), evidence, max(negative.largest, held_out.negative.largest))


def _cross_fit_fold(
    fitter: BlockFitter, divided: Any, fold: int, target: tuple[float, float], lowest: float
) -> tuple[Direction, Vector]:
    """The score of a fold's model on the target's scale, and the scores above `lowest` of what it was fitted on."""
    with divided.rows_of(fold, others=True) as train:
        own = fitter.direction(fitter.fit(train))
        at, width = span(train, own)
        factor = target[1] / width
        top = BlockSample(train.blocks, Of("negative")).above(at + (lowest - target[0]) / factor)
    moved = Direction(factor * own.coef, target[0] + factor * (own.intercept - at))
    return moved, target[0] + factor * (top - at)


def train_quantile(fitter: BlockFitter, part: Part, plan: Plan) -> Outcome:
    """`train`: the quantile of the negatives that the model was fitted on; folds tell what that is worth."""
    fitter.prepare(part)
    model = fitter.fit(part)
    thresholds, scale = _train_thresholds(fitter, model, part, plan)
    counts = np.zeros((len(plan.taus), 2))
    n_folds = possible_folds(plan.n_folds, part.n_positive, part.n_negative)
    with part.divided(Dealt.folds(n_folds, plan.seed)) as divided:
        for fold in range(n_folds):
            with divided.rows_of(fold, others=True) as train:
                own = fitter.fit(train)
                cuts, _ = _train_thresholds(fitter, own, train, plan)
            with divided.rows_of(fold) as held_out:
                score(held_out, fitter.direction(own))
                scores = Held.of(held_out)
                assert scores.positive is not None
                counts += [[scores.negative.n_above(cut), scores.positive.n_above(cut)] for cut in cuts]
    evidence = tuple(
        evidence_from_counts(threshold, tau, plan, (n_false, part.n_negative), (n_caught, part.n_positive))
        for threshold, tau, (n_false, n_caught) in zip(thresholds, plan.taus, counts, strict=True)
    )
    return Outcome((model,), evidence, scale)


def _train_thresholds(fitter: BlockFitter, model: Any, part: Part, plan: Plan) -> tuple[list[float], float]:
    score(part, fitter.direction(model))
    scores = Held.of(part).negative
    return [TrainQuantile(tau).choose(scores).threshold for tau in plan.taus], scores.largest


@dataclass(frozen=True)
class _Round:
    """A model, its threshold for each tolerance with the shares above, and the size of its largest score."""

    model: Any
    thresholds: tuple[float, ...]
    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    scale: float


def out_of_bootstrap(fitter: BlockFitter, part: Part, plan: Plan) -> Outcome:
    """`oob`, the paper's: in each round a random part trains and the rest picks a threshold; the mean is taken."""
    counts = part.sizes
    for count, name in zip(counts, ("negative", "positive"), strict=True):
        if count < 2:
            raise ValueError(
                f"threshold='oob' needs at least 2 {name}s, one to train on and one to hold out; got {count}. "
                "Give more of them, or choose a threshold that needs no split."
            )
    fitter.prepare(part)
    whole = fitter.fit(part) if plan.combine == "refit" or fitter.tells_of_all_rows else None
    held = tuple(count - min(max(round(plan.train_share * count), 1), count - 1) for count in counts)
    seeds = np.random.default_rng(plan.seed).integers(2**31 - 1, size=plan.n_rounds).tolist()
    rules = round_rules(plan)
    book = part.blocks.fork(_Open(len(plan.taus)))
    try:
        rounds = []
        for seed in seeds:
            with replace(part, blocks=book).divided(HeldOut.draw((held[0], held[1]), counts, seed)) as divided:
                rounds.append(_one_round(fitter, divided, rules))
                booked = divided.blocks.fork(_Book(fitter.direction(rounds[-1].model), rounds[-1].thresholds))
            book.release()
            book = booked
        evidence = tuple(_out_of_bag(book.reduce(_Tally(i)), i, rounds, plan) for i in range(len(plan.taus)))
    finally:
        book.release()
    scale = max(each.scale for each in rounds)
    if plan.combine == "mean":
        return Outcome(tuple(each.model for each in rounds), evidence, scale)
    spans = [span(part, fitter.direction(model)) for model in (*(each.model for each in rounds), whole)]
    return Outcome((whole,), tuple(replace(each, threshold=rescaled(each, spans)) for each in evidence), scale)


def _one_round(fitter: BlockFitter, divided: Any, rules: list[ThresholdRule]) -> _Round:
    with divided.rows_of(0) as train:
        model = fitter.fit(train)
    with divided.rows_of(1) as held_out:
        score(held_out, fitter.direction(model))
        scores = Held.of(held_out)
        assert scores.positive is not None
        found = tuple(rule.choose(scores.negative, scores.positive).threshold for rule in rules)
        fpr = tuple(scores.negative.share_above(threshold) for threshold in found)
        tpr = tuple(scores.positive.share_above(threshold) for threshold in found)
        return _Round(model, found, fpr, tpr, scores.negative.largest)


def _out_of_bag(tally: Sums, place: int, rounds: list[_Round], plan: Plan) -> Evidence:
    """Count a row as positive where the rounds that held it out say so on average."""
    n_negative, n_false, n_positive, n_caught = (int(each) for each in tally)
    found = Rounds(
        *(np.array([getattr(each, name)[place] for each in rounds]) for name in ("thresholds", "fpr", "tpr"))
    )
    counts = (n_false, n_negative), (n_caught, n_positive)
    return evidence_from_counts(float(found.thresholds.mean()), plan.taus[place], plan, *counts, found)


BLOCK_STRATEGIES: dict[str, Callable[[BlockFitter, Part, Plan], Outcome]] = {
    "train": train_quantile,
    "oob": out_of_bootstrap,
    "cross": cross_fit,
    "np": hold_out,
}


@dataclass(frozen=True)
class _ScoreByFold:
    """Scores of every row by the direction of its fold; those of folds follow each other."""

    directions: tuple[Direction, ...]

    def __call__(self, block: Block, state: State) -> State:
        xp, found = block.xp, {}
        for name in ("negative", "positive"):
            parts = [
                direction(block, xp.nonzero(state[f"is_{name}"] & (state["part"] == fold))[0])
                for fold, direction in enumerate(self.directions)
            ]
            found[f"{name}_scores"] = xp.concat(parts)
        return {**state, **found}


@dataclass(frozen=True)
class _Open:
    """No row has been held out so far."""

    n_taus: int

    def __call__(self, block: Block, state: State) -> State:
        nothing = block.xp.zeros_like(block.xp.astype(state["is_positive"], block.xp.float64))
        return {**state, "times": nothing, **{f"total_{i}": nothing for i in range(self.n_taus)}}


@dataclass(frozen=True)
class _Book:
    """Add the score minus threshold of the rows that a round has held out, for each tolerance."""

    direction: Direction
    thresholds: tuple[float, ...]

    def __call__(self, block: Block, state: State) -> State:
        xp = block.xp
        held_out = state["part"] == 1
        scores = self.direction(block, None)
        kept = {name: value for name, value in state.items() if name != "part"}
        kept["times"] = state["times"] + xp.astype(held_out, xp.float64)
        for i, threshold in enumerate(self.thresholds):
            kept[f"total_{i}"] = state[f"total_{i}"] + xp.where(held_out, scores - threshold, xp.zeros_like(scores))
        return kept


@dataclass(frozen=True)
class _Tally:
    """Negatives that were held out at all, those above on average, and the same of positives."""

    place: int

    def __call__(self, block: Block, state: State) -> Sums:
        xp, found = block.xp, []
        for name in ("negative", "positive"):
            seen = state[f"is_{name}"] & (state["times"] > 0)
            found += [xp.count_nonzero(seen), xp.count_nonzero(seen & (state[f"total_{self.place}"] > 0))]
        return tuple(int(count) for count in block.to_host(*found))
