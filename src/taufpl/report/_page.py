"""The report as a string and as a file."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from taufpl._files import write_whole
from taufpl.persistence import SeenRows
from taufpl.preprocessing import UnseenCounter
from taufpl.report import _details, _sections
from taufpl.report._findings import Findings, investigate
from taufpl.report._format import rate
from taufpl.report._html import asset, embedded, fill, note, text


def render_report(
    model: Any,
    X: Any,
    y: Any,
    *,
    title: str | None = None,
    volume_per_day: float = 10_000,
    base_rate: float | None = None,
    n_examples: int = 10,
    feature_names: Any = None,
    training: Any = None,
    data_is_new: bool | None = None,
    seen: SeenRows | None = None,
    unseen_values: UnseenCounter | None = None,
) -> str:
    """Report on a fitted model as one HTML page that needs nothing else: no network, no other file.

    It says what was promised and on what evidence, whether the given rows bear it out, and what the alarms mean a day;
    a slider shows what other tolerances would give.

    Parameters
    ----------
    model : estimator
        A fitted TauFPLClassifier, NeymanPearsonClassifier, TauFPLRanker or TauFPLRankerCV, a pipeline that ends in one,
        or a search over them.
    X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
        Rows to report on, best new ones.
    y : array-like of shape (n_samples,)
        Their labels. One class may be missing; what cannot be told then is left out.
    title : str, default=None
    volume_per_day : float, default=10_000
        Cases that are screened a day.
    base_rate : float, default=None
        Share of positives among them; None takes that of the given rows, which were often collected otherwise.
    n_examples : int, default=10
        Rows to show on either side of the threshold. They are real rows: 0 shows none. At most 500.
    feature_names : sequence of str, default=None
        None takes the columns of a frame, or what the model has kept.
    training : tuple (X, y), default=None
        The rows that the model was fitted on, to set beside the given ones. Where `data_is_new` is None, they settle
        the question if none, or all, of the given rows have the features of a training row.
    data_is_new : bool, default=None
        Whether neither the model nor its threshold has seen the given rows. Unless they are new, the report does not
        call a promise kept.
    seen : SeenRows, default=None
        Record of the rows that the model has met, as :func:`taufpl.persistence.load_model` gives it. Rows that it knows
        are left out and counted; where it knows all of them they are not new, whatever `data_is_new` says.
    unseen_values : UnseenCounter, default=None
        What the given rows have that the training rows never had, counted; None counts it where `X` and the training
        rows are given as frames.

    Returns
    -------
    str

    Notes
    -----
    Verdicts come from the false positives among the given negatives at the threshold in use, and from Clopper and
    Pearson's bounds at the model's delta (0.05 if it has none): *kept* if the upper bound is at most tau and the rows
    are new, *broken* if the lower bound is above tau, else *open*.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import TauFPLClassifier
    >>> from taufpl.report import render_report
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> X = rng.normal(size=(2200, 5)) + y[:, np.newaxis]
    >>> screen = TauFPLClassifier(tau=0.05, threshold="np", random_state=0).fit(X, y)
    >>> new_y = np.repeat([0, 1], [20_000, 500])
    >>> new_X = rng.normal(size=(20_500, 5)) + new_y[:, np.newaxis]
    >>> page = render_report(screen, new_X, new_y, data_is_new=True)
    >>> "confidence, at most 1 in 20 harmless cases raises an alarm." in page
    True
    """
    found = investigate(
        model,
        X,
        y,
        volume_per_day=volume_per_day,
        base_rate=base_rate,
        n_examples=n_examples,
        feature_names=feature_names,
        training=training,
        data_is_new=data_is_new,
        seen=seen,
        unseen_values=unseen_values,
    )
    return fill(
        "page.html",
        title=text(f"Screening at a tolerance of {rate(found.subject.tau)}" if title is None else title),
        style=asset("style.css"),
        script=asset("script.js"),
        meta=_details.meta_line(found),
        body=_body(found),
        footer=_details.footer(found, datetime.now().astimezone()),
        data=embedded(found.data()),
    )


def write_report(
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    volume_per_day: float = 10_000,
    base_rate: float | None = None,
    n_examples: int = 10,
    feature_names: Any = None,
    training: Any = None,
    data_is_new: bool | None = None,
    seen: SeenRows | None = None,
    unseen_values: UnseenCounter | None = None,
) -> Path:
    """Write the page of :func:`render_report` to a file.

    The file is written beside its place and then moved there, so that nobody ever reads half of it.

    Parameters
    ----------
    model, X, y
        As in :func:`render_report`.
    path : str or path-like
        Where to write; folders are made as needed, and a file that is there is replaced.
    title, volume_per_day, base_rate, n_examples, feature_names, training, data_is_new, seen, unseen_values
        As in :func:`render_report`.

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from taufpl import TauFPLRanker
    >>> from taufpl.report import write_report
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [500, 50])
    >>> X = rng.normal(size=(550, 5)) + y[:, np.newaxis]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(TauFPLRanker(tau=0.05).fit(X, y), X, y, Path(folder) / "report.html", data_is_new=False)
    ...     "No promise" in path.read_text(encoding="utf-8")
    True
    """
    page = render_report(
        model,
        X,
        y,
        title=title,
        volume_per_day=volume_per_day,
        base_rate=base_rate,
        n_examples=n_examples,
        feature_names=feature_names,
        training=training,
        data_is_new=data_is_new,
        seen=seen,
        unseen_values=unseen_values,
    )
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, page.encode())
    return target


def _body(found: Findings) -> str:
    collapsed = (
        note(
            "<strong>The ranking has collapsed.</strong> All weights are zero, and nothing is predicted positive.",
            "bad",
        )
        if found.collapsed
        else ""
    )
    return "\n".join(
        [
            _sections.promise_section(found),
            _sections.novelty_note(found),
            _details.unseen_note(found),
            collapsed,
            _sections.cards(found),
            _sections.several_section(found),
            _sections.roc_section(found),
            _sections.explore_section(found),
            _sections.tolerance_section(found),
            _details.scores_section(found),
            _details.rounds_section(found),
            _details.features_section(found),
            _details.examples_section(found),
            _details.training_section(found),
            _details.parameters_section(found),
        ]
    )
