"""What was promised, and whether these rows bear it out, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taufpl.report._figures import Rates
from taufpl.report._format import count, counted, one_in, rate, score
from taufpl.report._subject import Subject
from taufpl.thresholding import Evidence, negatives_needed, negatives_to_settle, tolerance_verdict

GUARANTEE, CLOSE, NOTHING = "guarantee", "close", "none"
KEPT, OPEN, BROKEN = "kept", "open", "broken"


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise in a sentence, what it rests on, and how strong it is: "guarantee", "close" or "none"."""

    kind: str
    headline: str
    text: str
    strategy: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rows say: "kept", "open" or "broken", in a word, and why."""

    kind: str
    word: str
    reason: str


def promise_of(subject: Subject, which: int | None = None) -> Promise:
    """Put the evidence of a tolerance, the strictest by default, in words."""
    which = subject.main if which is None else which
    evidence, at_most = subject.evidence[which], one_in(subject.taus[which])
    strategy = getattr(subject.final, "strategy_", getattr(subject.final, "threshold", None))
    if evidence is None:
        return Promise(
            NOTHING,
            f"No promise: set so that {at_most} of the harmless training cases may raise an alarm.",
            "This is a ranking. Its threshold is a quantile of the very rows that it was trained on, which flatter it: "
            "on new cases expect more false alarms than that. A classifier with a guarantee sets its threshold on rows "
            "that were held out.",
            "training quantile",
        )
    if np.isposinf(evidence.threshold):
        return _nobody(subject, evidence, at_most)
    if evidence.guaranteed:
        return _guaranteed(subject, evidence, at_most)
    if evidence.caveats:
        return _voided(evidence, at_most)
    if strategy == "cross" and evidence.delta is not None:
        return _crossed(evidence, at_most)
    if evidence.rounds is not None:
        return _rounds(evidence, at_most)
    return Promise(
        NOTHING,
        f"No promise: set so that {at_most} of the harmless cases it was set on may raise an alarm.",
        f"The threshold is a quantile of the cases that were at hand, not a bound for new ones. "
        f"{_checked_on(evidence)} Expect more false alarms on new cases about every second time, or more often.",
        "training quantile" if strategy == "train" else "best score at hand",
    )


def _nobody(subject: Subject, evidence: Evidence, at_most: str) -> Promise:
    needed = negatives_needed(evidence.tau, subject.delta)
    return Promise(
        GUARANTEE if evidence.guaranteed else NOTHING,
        "No case raises an alarm, harmless or not.",
        f"To promise with {rate(1.0 - subject.delta)} confidence that at most {at_most} harmless cases "
        f"{_raises(at_most)} an alarm takes at least {count(needed)} harmless cases that the model has not seen; there "
        f"were {count(evidence.n_negative)}. So the threshold was put out of reach: the promise holds, and nothing is "
        "found.",
        "too few harmless cases",
    )


def _guaranteed(subject: Subject, evidence: Evidence, at_most: str) -> Promise:
    assert evidence.delta is not None
    together = (
        f" It is one of {len(subject.taus)} tolerances that hold together with that confidence."
        if len(subject.taus) > 1
        else ""
    )
    return Promise(
        GUARANTEE,
        f"With {rate(1.0 - evidence.delta)} confidence, at most {at_most} harmless cases {_raises(at_most)} an alarm.",
        f"The threshold was set on {counted(evidence.n_negative, 'harmless case')} that the model had never seen. The "
        "statement is proven for any kind of scores and data, as long as new cases come from the same source as "
        f"those did.{together}",
        "unseen harmless cases",
    )


def _voided(evidence: Evidence, at_most: str) -> Promise:
    """A guarantee that would hold but for what was found in the rows."""
    return Promise(
        NOTHING,
        f"No promise: aimed at {at_most} harmless cases raising an alarm, but the cases behind it are not independent.",
        f"The threshold was set on {counted(evidence.n_negative, 'harmless case')} that the model was not fitted on, "
        f"which would prove the promise. It is not proven here: {'; '.join(evidence.caveats)}.",
        "harmless cases that are not independent",
    )


def _crossed(evidence: Evidence, at_most: str) -> Promise:
    assert evidence.delta is not None
    confidence = rate(1.0 - evidence.delta)
    if evidence.fpr_upper_bound > evidence.tau * (1.0 + 1e-12):
        return Promise(
            NOTHING,
            f"No promise: too few harmless cases for {at_most} at {confidence} confidence.",
            f"The threshold lies at the highest of {counted(evidence.n_negative, 'harmless case')}; at least "
            f"{count(negatives_needed(evidence.tau, evidence.delta))} would be needed. What they bear out is at most "
            f"{rate(evidence.fpr_upper_bound)} false alarms.",
            "cross-fitting, too few cases",
        )
    return Promise(
        CLOSE,
        f"With about {confidence} confidence, at most {at_most} harmless cases {_raises(at_most)} an alarm.",
        f"The threshold rests on {counted(evidence.n_negative, 'harmless case')}, each scored by a model that had not "
        "seen it (cross-fitting). That comes close to a guarantee and has been measured to hold, but it is not a "
        "proof. New cases must come from the same source.",
        "cross-fitting",
    )


def _rounds(evidence: Evidence, at_most: str) -> Promise:
    assert evidence.rounds is not None
    n_rounds = counted(len(evidence.rounds), "round")
    if evidence.delta is None:
        return Promise(
            NOTHING,
            f"No promise: aimed at {at_most} harmless cases raising an alarm, on average.",
            f"The threshold is the mean of {n_rounds} of out-of-bootstrap thresholds. On new cases the rate comes "
            f"near the tolerance, and lies above it about every second time. {_checked_on(evidence)}",
            f"out-of-bootstrap, {n_rounds}",
        )
    return Promise(
        CLOSE,
        f"Set with care so that at most {at_most} harmless cases {_raises(at_most)} an alarm; not proven.",
        f"The threshold is the mean of {n_rounds}, in each of which the rows left out chose a threshold that would "
        f"keep the tolerance with {rate(1.0 - evidence.delta)} confidence. For their mean nothing is proven. "
        f"{_checked_on(evidence)}",
        f"out-of-bootstrap, {n_rounds}",
    )


def _checked_on(evidence: Evidence) -> str:
    total = counted(evidence.n_negative, "harmless case")
    return f"When it was set, {count(evidence.n_false_positive)} of {total} lay above."


def _raises(at_most: str) -> str:
    return "raises" if at_most.startswith("1 in") else "raise"


def verdict_on(rates: Rates, tau: float, delta: float, is_new: bool | None) -> Verdict:
    """Say whether these rows show that the tolerance is kept, or that it is broken.

    Kept: the upper bound is within the tolerance, on rows that are new. Broken: the lower bound lies above it, which
    counts on rows that were trained on, too, since those flatter the model.
    """
    confidence = rate(1.0 - delta)
    if rates.fpr is None:
        return Verdict(OPEN, "Open", "There are no harmless cases in this data, so that no rate can be measured.")
    here = f"{count(rates.n_false)} of {counted(rates.n_negative, 'harmless case')} raised an alarm ({rate(rates.fpr)})"
    found = tolerance_verdict(rates.n_false, rates.n_negative, tau, delta)
    if found == BROKEN:
        return Verdict(
            BROKEN, "Broken", f"{here}. With {confidence} confidence the rate is above {rate(tau)}, the tolerance."
        )
    if found == OPEN:
        side = "at" if rates.fpr == tau else "under" if rates.fpr < tau else "over"
        return Verdict(
            OPEN,
            "Open",
            f"{here}: {side} the tolerance of {rate(tau)}, but with so few cases the rate may be up to "
            f"{rate(rates.fpr_upper)} at {confidence} confidence. {_settling(rates, tau, delta)}",
        )
    if is_new:
        return Verdict(
            KEPT,
            "Kept",
            f"{here}. With {confidence} confidence the rate is at most {rate(rates.fpr_upper)}: within {rate(tau)}.",
        )
    why = (
        "it is not known whether the model has seen these rows"
        if is_new is None
        else "these rows helped to build the model and flatter it"
    )
    return Verdict(OPEN, "Open", f"{here}, which would be within {rate(tau)}; but {why}.")


def _settling(rates: Rates, tau: float, delta: float) -> str:
    """How many harmless cases would settle an open verdict."""
    needed = negatives_to_settle(rates.n_false, rates.n_negative, tau, delta)
    if needed is None:
        return "At this rate no number of cases would tell."
    return f"About {count(needed)} harmless cases at this rate would tell."


def facts_of(subject: Subject, promise: Promise) -> list[tuple[str, str]]:
    """Terms of the promise and their values."""
    evidence: Any = subject.evidence[subject.main]
    words = {GUARANTEE: "yes, proven", CLOSE: "close to one, not proven", NOTHING: "none"}
    facts = [
        ("Tolerance τ", rate(subject.tau)),
        ("Guarantee", words[promise.kind]),
        ("Threshold set by", promise.strategy),
        ("Threshold", score(subject.threshold)),
    ]
    if evidence is not None:
        if promise.kind != NOTHING:
            facts[1:1] = [("Confidence 1 − δ", rate(1.0 - subject.delta))]
        facts.append(("Rests on", counted(evidence.n_negative, "harmless case")))
    return facts
