"""The parts of the page that look into the model: scores, rounds, features, examples, parameters."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from taufpl import __version__
from taufpl.report import _plots
from taufpl.report._features import row_name
from taufpl.report._figures import nearest_rows
from taufpl.report._findings import Findings, fingerprint
from taufpl.report._format import NONE, count, counted, rate, score
from taufpl.report._html import facts, note, section, table, text

_N_FEATURES, _N_REASONS, _N_REMARKS = 15, 3, 12
_REPR_LENGTH = 200


def scores_section(found: Findings) -> str:
    """Histogram of both classes."""
    title = "Scores of both classes"
    if found.edges is None:
        return section("scores", title, "The scores have no range that could be drawn.", "")
    out = "" if np.isfinite(found.subject.threshold) else " The threshold is out of reach and not drawn."
    return section(
        "scores",
        title,
        "Raw scores, from which the threshold has not been taken off: what lies above it raises an alarm. "
        f"Errors are in the stronger colour. Far scores are counted in the outermost bins.{out}",
        _plots.histogram(found.subject, found.used, found.edges),
    )


def rounds_section(found: Findings) -> str:
    """Thresholds of the rounds of out-of-bootstrap thresholding."""
    evidence = found.subject.evidence[found.subject.main]
    if evidence is None or evidence.rounds is None:
        return ""
    rounds = evidence.rounds
    # A model that was fitted anew on all rows has another scale than those of the rounds.
    same_scale = getattr(found.subject.final, "combine", "mean") == "mean"
    over = int(np.count_nonzero(rounds.fpr > evidence.tau * (1.0 + 4e-16)))
    infinite = int(np.count_nonzero(~np.isfinite(rounds.thresholds)))
    terms = [
        ("Rounds", count(len(rounds))),
        ("Spread of thresholds", score(rounds.spread)),
        ("Mean FPR, rows left out", rate(float(rounds.fpr.mean()))),
        ("Mean recall, rows left out", rate(float(rounds.tpr.mean()))),
        ("Rounds above the tolerance", f"{count(over)} of {count(len(rounds))}"),
    ]
    if infinite:
        terms.append(("Rounds with an infinite threshold", count(infinite)))
    return section(
        "rounds",
        "Thresholds of the rounds",
        "In each round a part of the rows trained a ranking and the rest chose a threshold. How far they lie apart "
        "tells how firmly the mean stands.",
        _plots.rounds_plot(rounds, found.subject.threshold if same_scale else None) + facts(terms, "plain spaced"),
    )


def features_section(found: Findings) -> str:
    """The features that weigh most."""
    features = found.features
    heaviest = features.heaviest(_N_FEATURES)
    if features.kind == "none":
        intro = "The scorer has neither linear weights nor importances, so that there are none to show."
    elif not heaviest:
        intro = "All weights are zero: no feature moves the score."
    elif features.kind == "linear":
        intro = (
            "By how much one standard deviation of a feature, as it varies in this data, moves the score: to the right "
            "towards an alarm, to the left away from it."
        )
    else:
        intro = "Importances as the scorer reports them. They tell what it uses, not in which direction."
    body = ""
    if heaviest:
        low, high = min(weight for _, weight in heaviest), max(weight for _, weight in heaviest)
        rows = [[f"<span>{text(name)}</span>", _plots.bar(each, low, high), score(each, 3)] for name, each in heaviest]
        body = table("", ["Feature", "", "Weight"], rows, classes="weights", numeric=(2,))
        if (rest := int(np.count_nonzero(features.weights)) - len(heaviest)) > 0:
            body += f'<p class="help">{counted(rest, "more feature")} with smaller weights.</p>'
    return section("features", "Features that weigh most", intro, body)


def examples_section(found: Findings) -> str:
    """Rows on both sides of the threshold."""
    if not found.n_examples:
        return ""
    above, below = nearest_rows(found.subject, found.n_examples)
    parts = []
    for rows, caption in ((above, "Just above the threshold: alarms"), (below, "At or just below it: no alarm")):
        if rows.size:
            parts.append(_examples(found, rows, caption))
    if not above.size:
        parts.insert(0, note("No row of this data scores above the threshold: there is no alarm to show."))
    intro = (
        "The rows nearest to the threshold on either side: where the model is least sure. The score is the raw score "
        "minus the threshold."
    )
    if found.features.linear:
        intro += " Beside them the features that moved their scores most, compared with the mean row."
    return section("examples", "Examples around the threshold", intro, "".join(parts), classes="long")


def _examples(found: Findings, rows: Any, caption: str) -> str:
    subject, why = found.subject, bool(found.features.linear)
    labels = subject.labels
    head = ["Row", "Score", "Raw score", "True label", "Outcome", *(["Moved most by"] if why else [])]
    lines = []
    for row in rows.tolist():
        value, positive = float(subject.scores[row]), bool(subject.is_positive[row])
        alarm = value > subject.threshold
        word = ("true alarm" if alarm else "missed") if positive else ("false alarm" if alarm else "rightly passed")
        tone = "good" if alarm == positive else "bad"
        lines.append(
            [
                f"<span>{text(_short(row_name(subject.outer, row, found.given.kept)))}</span>",
                _distance(value, subject.threshold),
                score(value),
                text(_short(str(labels[positive]))),
                f'<span class="chip {tone}">{word}</span>',
                *([_reasons(found, row)] if why else []),
            ]
        )
    return table(caption, head, lines, classes="stack examples", numeric=(1, 2))


def _reasons(found: Findings, row: int) -> str:
    moved = found.features.reasons(row, _N_REASONS)
    inside = " ".join(f"<span>{text(name)} <b>{_signed(by, 2)}</b></span>" for name, by in moved)
    return f'<div class="why">{inside or NONE}</div>'


def _distance(value: float, threshold: float) -> str:
    """How far a score lies from the threshold; a tie but for rounding is one."""
    by = value - threshold
    if not np.isfinite(by):
        return NONE
    return "0" if abs(by) < 1e-9 * max(abs(value), abs(threshold)) else _signed(by)


def _signed(value: float, digits: int = 3) -> str:
    return score(value, digits) if value <= 0 else f"+{score(value, digits)}"


def _short(value: str, most: int = 60) -> str:
    return value if len(value) <= most else value[: most - 1] + "…"


def training_section(found: Findings) -> str:
    """These rows beside the training rows."""
    if found.training is None:
        return ""
    both = (found.training.rates, found.used)
    rows = [
        ["Rows", *(count(each.n_negative + each.n_positive) for each in both)],
        ["Positives", *(_share(each.n_positive, each.n_negative + each.n_positive) for each in both)],
        ["FPR at the threshold in use", *(rate(each.fpr) for each in both)],
        ["Recall at the threshold in use", *(rate(each.recall) for each in both)],
    ]
    shared = found.training.n_shared
    told = "could not be compared" if shared is None else _share(shared, found.subject.scores.size)
    rows.append(["Rows with the features of a training row", "", told])
    return section(
        "training",
        "Beside the training rows",
        "Rates that differ much between the two columns say that the model knows its training rows by heart, or that "
        "the data have changed.",
        table("", ["", "Training rows", "These rows"], rows, numeric=(1, 2)),
    )


def unseen_note(found: Findings) -> str:
    """Remarkable values that the training rows never had."""
    remarks = [] if found.unseen_values is None else found.unseen_values.remarks()
    if not remarks:
        return ""
    lines = [text(f"{each}.") for each in remarks[:_N_REMARKS]]
    if len(remarks) > _N_REMARKS:
        lines.append(f"{counted(len(remarks) - _N_REMARKS, 'more remark')} of this kind.")
    return note(
        "<strong>Values that training never saw.</strong> The rates below are those of rows that differ from the "
        f"training rows, by column.<br>{'<br>'.join(lines)}",
        "open",
    )


def _share(part: int, total: int) -> str:
    return f"{count(part)} ({rate(part / total)})" if total else count(part)


def parameters_section(found: Findings) -> str:
    """How the model was made."""
    model, final = found.subject.model, found.subject.final
    pairs = [(name, _plain(value)) for name, value in sorted(final.get_params(deep=False).items())]
    known = counted(len(pairs), "parameter")
    if isinstance(model, Pipeline):
        pairs.insert(0, ("pipeline", " → ".join(type(step).__name__ for _, step in model.steps)))
    return section(
        "parameters",
        "Parameters of the model",
        "",
        f"<details><summary>{text(type(final).__name__)}, {known}</summary>{facts(pairs, 'plain code')}</details>",
    )


def _plain(value: Any) -> str:
    """A value in one line of modest length."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= _REPR_LENGTH else shown[: _REPR_LENGTH - 1] + "…"


def meta_line(found: Findings) -> str:
    """Model and rows, in a line under the title."""
    used, (negative, positive) = found.used, found.subject.labels
    return (
        f"{text(type(found.subject.final).__name__)} on {counted(found.subject.scores.size, 'row')}: "
        f"{counted(used.n_negative, 'harmless case')} (label {text(_short(repr(negative)))}) and "
        f"{counted(used.n_positive, 'positive')} (label {text(_short(repr(positive)))}, which raises an alarm)"
    )


def footer(found: Findings, now: datetime) -> str:
    """Who made this, when, from what."""
    used, subject = found.used, found.subject
    wide = getattr(subject.final, "n_features_in_", None)
    columns = "" if wide is None else f", {counted(int(wide), 'feature')}"
    return (
        f"<p>Made by taufpl {text(__version__)} on {now:%Y-%m-%d at %H:%M} ({text(now.tzname() or 'local time')}).</p>"
        f"<p>Data: {counted(subject.scores.size, 'row')}{columns}, {counted(used.n_negative, 'negative')}, "
        f"{counted(used.n_positive, 'positive')}; fingerprint of scores and labels {fingerprint(subject)}.</p>"
        "<p>FPR is the share of negatives, harmless cases, above the threshold; recall that of positives. Upper bounds "
        "and intervals are Clopper and Pearson’s.</p>"
    )
