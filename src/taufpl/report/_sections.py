"""The parts of the page that say what was promised, what was measured, and what another tolerance would give."""

from __future__ import annotations

from typing import Any

from taufpl.report import _plots
from taufpl.report._figures import TABLE_TAUS, Choice, measured_choice, proven_choice
from taufpl.report._findings import Findings
from taufpl.report._format import NONE, amount, count, counted, rate, score
from taufpl.report._html import card, facts, fill, note, section, table, text
from taufpl.report._promise import BROKEN, KEPT, facts_of
from taufpl.thresholding import negatives_needed, share_interval

_ICONS = {
    "kept": '<path d="M8.5 14.5l4 4 8-9"/>',
    "broken": '<path d="M9.5 9.5l9 9m0-9l-9 9"/>',
    "open": '<path d="M10.8 11.2a3.3 3.3 0 1 1 4.9 3c-1.1.6-1.7 1.2-1.7 2.4M14 20.4v.1"/>',
}
CHIPS = {KEPT: "good", BROKEN: "bad"}


def promise_section(found: Findings) -> str:
    """The promise, the verdict on it, and its terms."""
    promise, verdict = found.promise, found.verdict
    eyebrow = {"guarantee": "The promise", "close": "The aim", "none": "What is promised"}[promise.kind]
    icon = (
        '<svg viewBox="0 0 28 28" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round" '
        f'stroke-linejoin="round" aria-hidden="true"><circle cx="14" cy="14" r="12.6"/>{_ICONS[verdict.kind]}</svg>'
    )
    return (
        '<section class="panel promise" aria-labelledby="promise"><div>'
        f'<p class="eyebrow">{eyebrow}</p><h2 id="promise">{text(promise.headline)}</h2>'
        f'<p class="lead">{text(promise.text)}</p></div>'
        f'<div class="verdict {verdict.kind}" id="verdict"><p class="eyebrow">The tolerance, on this data</p>'
        f'<p class="word">{icon}{text(verdict.word)}</p><p>{text(verdict.reason)}</p></div>'
        f"{facts(facts_of(found.subject, promise))}</section>"
    )


def novelty_note(found: Findings) -> str:
    """Whether these rows can test the promise at all."""
    training, n = found.training, found.subject.scores.size
    shared = None if training is None else training.n_shared
    overlap = "" if shared is None else f" {count(shared)} of {counted(n, 'row')} have the features of a training row."
    record = found.given.sentence()
    if found.is_new:
        known = "None of these rows has the features of a training row." if shared == 0 else ""
        strange = overlap if shared else ""
        return note(
            f"<strong>New data.</strong> The rows of this report were not used to build the model. {known}{strange}"
            f"{record}",
            "good",
        )
    if found.is_new is None:
        return note(
            "<strong>New data? Not known.</strong> If the model has seen these rows, or its threshold was set on them, "
            f"they flatter it, and the rates below prove nothing about new cases.{overlap}{record}",
            "open",
        )
    return note(
        "<strong>Not new data.</strong> The model was built with these rows, and they flatter it: the rates below "
        f"describe the past and prove nothing about new cases.{overlap}{record}",
        "open",
    )


def cards(found: Findings) -> str:
    """The four key figures."""
    used, traffic = found.used, found.traffic
    confidence = rate(1.0 - found.subject.delta)
    precision, worst = found.precision()
    true, false = traffic.alarms(used.fpr, used.recall)
    total = None if true is None or false is None else true + false
    base = "share of positives not known" if traffic.base_rate is None else f"if {rate(traffic.base_rate)} are positive"
    proviso = "" if found.is_new else ", were these rows new"
    bound = f"at most {rate(used.fpr_upper)} with {confidence} confidence{proviso}"
    between = f"between {rate(used.recall_low)} and {rate(used.recall_high)}, {confidence} confidence"
    least = f"{rate(worst)} at the worse ends of both intervals" if worst is not None and precision is not None else ""
    split = f"{amount(true)} true, {amount(false)} false" if total is not None else "not known without both rates"
    if not used.n_positive and used.fpr is not None:
        split = f"at most {amount(traffic.volume * used.fpr)} false ones; true ones not known"
    no_negative, no_positive = "no harmless cases in this data", "no positive cases in this data"
    return (
        '<div class="cards">'
        + card(
            "False-alarm rate (FPR)",
            rate(used.fpr),
            [bound, f"{count(used.n_false)} of {counted(used.n_negative, 'harmless case')}"]
            if used.n_negative
            else [no_negative],
            key="card-fpr",
        )
        + card(
            "Recall",
            rate(used.recall),
            [between, f"{count(used.n_true)} of {counted(used.n_positive, 'positive')} found"]
            if used.n_positive
            else [no_positive],
            key="card-recall",
        )
        + card("Precision", rate(precision), [base, least] if least else [base], key="card-precision")
        + card(
            "Alarms a day",
            amount(total),
            [split, f"among {amount(traffic.volume)} cases a day, {base}"],
            key="card-alarms",
        )
        + "</div>"
    )


def roc_section(found: Findings) -> str:
    """The curve, where both classes are there."""
    used = found.used
    title = "What each tolerance would catch"
    if not (used.n_negative and used.n_positive):
        missing = "positive" if used.n_negative else "harmless"
        return section(
            "roc", title, f"There are no {missing} cases in this data, so that there is no curve to draw.", ""
        )
    left = "" if used.n_false else " No harmless case lies above the threshold: it is drawn at the left end."
    return section(
        "roc",
        title,
        "Recall, the share of positives that raise an alarm, against the share of harmless cases that do. The shaded "
        f"side is within the tolerance.{left}",
        _plots.roc(found.subject, used, found.subject.delta),
    )


def explore_section(found: Findings) -> str:
    """The slider with its figures beside those in use."""
    steps = found.slider
    if steps is None:
        return ""
    taus, own = steps["tau"], steps["own"]
    decades = [i for i, tau in enumerate(taus) if f"{tau:.6e}".startswith("1.000000e")]
    scale = "".join(
        f'<span style="left:{100 * i / max(1, len(taus) - 1):.2f}%">{rate(taus[i])}</span>' for i in decades
    )
    ways = ""
    if "proven" in steps:
        condition = "" if found.is_new else ", if these rows are new"
        ways = fill("ways.html", confidence=rate(1.0 - found.subject.delta), condition=condition)
    base = found.traffic.base_rate
    body = fill(
        "explore.html",
        tau=rate(taus[own]),
        last=str(len(taus) - 1),
        at=str(own),
        scale=scale,
        ways=ways,
        volume=f"{found.traffic.volume:g}" if found.traffic.volume < 1e6 else f"{found.traffic.volume:.0f}",
        base="" if base is None else f"{100.0 * base:.4g}",
        comparison=_comparison(found, measured_choice(found.subject, taus[own], found.subject.delta)),
    )
    return section(
        "try",
        "Try another tolerance",
        "Which threshold would these rows give for another tolerance, and what would it mean a day? Bounds hold for a "
        "tolerance that is chosen before one looks.",
        body,
        classes="try-it",
    )


def _comparison(found: Findings, tried: Choice | None) -> str:
    used = found.used
    assert tried is not None
    columns = {
        "used": _day(found, used.threshold, used.n_false, used.n_true, used.fpr_upper),
        "tried": _day(found, tried.threshold, tried.n_false, tried.n_true, tried.fpr_upper),
    }
    names = {
        "threshold": "Threshold",
        "fpr": "False-alarm rate (FPR)",
        "fpr_upper": f"Upper bound, {rate(1.0 - found.subject.delta)} confidence",
        "recall": "Recall",
        "alarms": "Alarms a day",
        "true_alarms": "of which true",
        "false_alarms": "of which false",
        "missed": "Positives missed a day",
        "precision": "Precision",
    }
    rows = [
        [name, *(f'<span id="{column}-{key}">{text(values[key])}</span>' for column, values in columns.items())]
        for key, name in names.items()
    ]
    head = ["", "In use", f'<span id="tried-name">At τ = {rate(found.subject.tau)}</span>']
    return (
        "<div>"
        + table("", head, rows, classes="comparison", numeric=(1, 2))
        + '<p class="help" id="tried-note" role="status"></p></div>'
    )


def _day(found: Findings, threshold: float, n_false: int, n_true: int, upper: float | None) -> dict[str, str]:
    used, traffic = found.used, found.traffic
    fpr = n_false / used.n_negative if used.n_negative else None
    recall = n_true / used.n_positive if used.n_positive else None
    true, false = traffic.alarms(fpr, recall)
    positives = None if traffic.base_rate is None else traffic.volume * traffic.base_rate
    return {
        "threshold": score(threshold),
        "fpr": rate(fpr),
        "fpr_upper": rate(upper),
        "recall": rate(recall),
        "alarms": amount(None if true is None or false is None else true + false),
        "true_alarms": amount(true),
        "false_alarms": amount(false),
        "missed": amount(None if positives is None or recall is None else positives * (1.0 - recall)),
        "precision": rate(traffic.precision(fpr, recall)),
    }


def tolerance_section(found: Findings) -> str:
    """Recall at other tolerances, and what a guarantee there would take."""
    subject = found.subject
    if not found.used.n_negative:
        return ""
    delta, taus = subject.delta, sorted({*TABLE_TAUS, subject.tau})
    proof = found.is_new is not False
    head = ["Tolerance τ", "FPR here", "Recall here"]
    head += [f"Recall with guarantee, {rate(1.0 - delta)}"] if proof else []
    head += ["Harmless cases needed for the guarantee"]
    rows = []
    for tau in taus:
        needed = negatives_needed(tau, delta)
        enough = needed <= found.used.n_negative
        chip = "" if enough or not proof else '<span class="chip open">too few here</span> '
        rows.append(
            [
                rate(tau),
                *_measured(found, measured_choice(subject, tau, delta)),
                *([_recall(found, proven_choice(subject, tau, delta))] if proof else []),
                f"<span>{chip}{count(needed)}</span>",
            ]
        )
    return section(
        "tolerances",
        "Recall at other tolerances",
        f"By the thresholds that the {counted(found.used.n_negative, 'harmless case')} of this data give: the lowest "
        "with the measured rate within the tolerance"
        + (", and the one with a guarantee, if these rows are new." if proof else "."),
        table("", head, rows, classes="stack", numeric=range(1, len(head)), marked=taus.index(subject.tau)),
    )


def _measured(found: Findings, choice: Choice | None) -> list[str]:
    assert choice is not None
    return [rate(choice.n_false / found.used.n_negative), _recall(found, choice)]


def _recall(found: Findings, choice: Choice | None) -> str:
    m = found.used.n_positive
    if choice is None or not m:
        return NONE
    low, high = share_interval(choice.n_true, m, found.subject.delta)
    return f"<span>{rate(choice.n_true / m)} <small>{rate(low)} to {rate(high)}</small></span>"


def several_section(found: Findings) -> str:
    """The tolerances of a model that has more than one."""
    subject = found.subject
    if len(subject.taus) == 1:
        return ""
    head = [
        "Tolerance τ",
        "Threshold",
        "FPR here",
        f"Upper bound, {rate(1.0 - subject.delta)}",
        "Recall here",
        "Verdict",
    ]
    order = sorted(range(len(subject.taus)), key=lambda i: subject.taus[i])
    rows: list[Any] = []
    for i in order:
        rates, verdict = found.rates[i], found.verdicts[i]
        chip = f'<span class="chip {CHIPS.get(verdict.kind, "open")}">{text(verdict.word)}</span>'
        rows.append(
            [
                rate(subject.taus[i]),
                score(rates.threshold),
                rate(rates.fpr),
                rate(rates.fpr_upper),
                rate(rates.recall),
                chip,
            ]
        )
    return section(
        "several",
        "The tolerances of this model",
        "The model has a threshold for each. The strictest, marked, decides what is predicted. Bounds and verdicts are "
        "for each tolerance by itself.",
        table("", head, rows, classes="stack", numeric=range(1, 5), marked=0),
    )
