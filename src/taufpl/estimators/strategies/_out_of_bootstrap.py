"""Threshold by `oob`, the paper's: in each round a random part trains and the rest picks a threshold."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from taufpl.estimators._table import NO_ROUNDING, Scores, Table
from taufpl.estimators.strategies._base import (
    STRATEGIES,
    Fitter,
    Outcome,
    Plan,
    Span,
    Strategy,
    evidence_from_counts,
    span_of,
)
from taufpl.thresholding import Evidence, NPScoreRule, OrderStatistic, Rounds, ThresholdRule, TrainQuantile


def out_of_bootstrap(fitter: Fitter, table: Table, plan: Plan) -> Outcome:
    """Take the mean of the thresholds of random rounds.

    The models are those of the rounds, or one fitted on all rows. In the second case a round's threshold is brought to
    that model's scale by the mean and the standard deviation that both models give to the negatives. A row counts as
    positive where the rounds that held it out say so on average.
    """
    _check_classes(table)
    with table.rounds(plan.n_rounds, plan.train_share, plan.seed) as parts, table.tally(len(plan.taus)) as tally:
        fitter.prepare(table)
        whole = fitter.fit(table) if plan.combine == "refit" or fitter.learns_from_neighbours else None
        models, found, rounding = [], [], NO_ROUNDING
        run = partial(_one_round, fitter=fitter, near=whole, rules=_rules(plan))
        for model, scores, figures in parts.map(run, what="round"):
            models.append(model)
            found.append(figures)
            tally.add(scores, figures[0])
            rounding = max(rounding, scores.rounding, key=lambda each: each.sums)
        by_tolerance = np.ascontiguousarray(np.transpose(found, (2, 1, 0)))
        evidence = []
        for which, (tau, figures) in enumerate(zip(plan.taus, by_tolerance, strict=True)):
            rounds = Rounds(*figures)
            mean = float(rounds.thresholds.mean())
            evidence.append(evidence_from_counts(plan, tau, mean, tally.counts(which), rounds))
    if plan.combine == "mean":
        return Outcome(tuple(models), tuple(evidence), rounding)
    spans = [span_of(fitter.scores(model, table.negatives()).negative) for model in (*models, whole)]
    return Outcome((whole,), tuple(replace(each, threshold=_rescaled(each, spans)) for each in evidence), rounding)


def _check_classes(table: Table) -> None:
    for name, count in (("positive", table.n_positive), ("negative", table.n_negative)):
        if count < 2:
            raise ValueError(
                f"threshold='oob' needs at least 2 {name}s, one to train on and one to hold out; got {count}. "
                "Give more of them, or choose a threshold that needs no split."
            )


def _one_round(
    train: Table, held_out: Table, *, fitter: Fitter, near: Any, rules: list[ThresholdRule]
) -> tuple[Any, Scores, list[list[float]]]:
    """A model, its held-out scores, and for each tolerance the threshold and the shares of both classes above it."""
    model = fitter.fit(train, near)
    scores = fitter.scores(model, held_out)
    chosen = [rule.choose(scores.negative, scores.positive).threshold for rule in rules]
    thresholds = [scores.rounding.raised(each) for each in chosen]
    shares = [[sample.share_above(each) for each in thresholds] for sample in (scores.negative, scores.positive)]
    return model, scores, [thresholds, *shares]


def _rules(plan: Plan) -> list[ThresholdRule]:
    """How a round picks its threshold, for each tolerance."""
    if plan.delta is not None:
        return [OrderStatistic(tau, plan.delta, "largest") for tau in plan.taus]
    kind = round_rule(plan)
    return [kind(tau) for tau in plan.taus]


def round_rule(plan: Plan) -> type[NPScoreRule | TrainQuantile]:
    """The rule of a round without a delta."""
    return NPScoreRule if plan.rule == "np_score" else TrainQuantile


def _rescaled(evidence: Evidence, spans: list[Span]) -> float:
    """The mean of the rounds' thresholds, each in standard deviations from its own mean, on the last scale."""
    assert evidence.rounds is not None
    *own, (mean, deviation) = spans
    standard = [(t - at) / width for t, (at, width) in zip(evidence.rounds.thresholds, own, strict=True)]
    return mean + deviation * float(np.mean(standard))


STRATEGIES["oob"] = Strategy(
    out_of_bootstrap,
    promises=lambda plan: plan.delta is not None,
    rule=round_rule,
)
