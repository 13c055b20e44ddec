"""The report as a string and as a file, and the page of ``taufpl compare``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from taufpl import __version__
from taufpl._checks import check_count, check_number
from taufpl._extras import require
from taufpl._files import write_whole
from taufpl._sklearn import safe_indexing
from taufpl.persistence import SeenRows
from taufpl.planning import check_base_rate
from taufpl.preprocessing import UnseenCounter, without_unseen_warnings
from taufpl.report import _format, _pictures
from taufpl.report._findings import Findings, levels_of, limits_of_rows
from taufpl.report._scored_rows import (
    DailyCases,
    column_of,
    compare_training,
    leave_out_seen,
    measured_rates,
    name_rows,
    rates_at,
    score_rows,
    slider,
)
from taufpl.report._weights import features_of
from taufpl.thresholding import negatives_needed

# The page stays well under 3 MB, long names and all.
_MOST_EXAMPLES = 500


def render_report(
    model: Any,
    X: Any,
    y: Any,
    *,
    title: str | None = None,
    volume_per_day: float = 10_000,
    base_rate: float | tuple[float, float] | None = None,
    n_examples: int = 10,
    feature_names: Any = None,
    ids: Any = None,
    training: Any = None,
    data_is_new: bool | None = None,
    seen: SeenRows | None = None,
    unseen_values: UnseenCounter | None = None,
    segments: Any = None,
    by: Any = None,
) -> str:
    """Report on a fitted model as one HTML page that needs nothing else: no network, no other file.

    It says what was promised and on what evidence, whether the given rows bear it out, and what the alarms mean a day;
    a slider shows what other tolerances would give.

    Parameters
    ----------
    model : estimator
        A fitted classifier or ranker of this package, a pipeline that ends in one, or a search over them.
    X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
        Rows to report on, best new ones.
    y : array-like of shape (n_samples,)
        Their labels. One class may be missing; what cannot be told then is left out.
    title : str, default=None
    volume_per_day : float, default=10_000
        Cases that are screened a day.
    base_rate : float or tuple of two floats, default=None
        Share of positives among them, or its lowest and highest value: figures are then those at the middle, and the
        bound on precision holds for the whole range. None takes the share in the given rows, which were often collected
        otherwise.
    n_examples : int, default=10
        Rows to show on either side of the threshold. They are real rows: 0 shows none. At most 500.
    feature_names : sequence of str, default=None
        None takes the columns of a frame, or what the model has kept.
    ids : str or array-like of shape (n_samples,), default=None
        A column of X, or the id of each row, by which the examples are called. None takes the index of a frame, else
        numbers from 0.
    training : tuple (X, y), default=None
        The rows that the model was fitted on, to set beside the given ones. Where `data_is_new` is None, they settle
        the question if none, or all, of the given rows have the features of a training row.
    data_is_new : bool, default=None
        Whether neither the model nor its threshold has seen the given rows. Unless they are new, the report does not
        call a promise kept.
    seen : SeenRows, default=None
        Record of the rows that the model has seen, as :func:`taufpl.persistence.load_model` gives it. Rows that it
        knows are left out and counted; where it knows all of them they are not new, whatever `data_is_new` says.
    unseen_values : UnseenCounter, default=None
        What the given rows have that the training rows never had, counted; None counts it where `X` and the training
        rows are given as frames.
    segments : array-like of shape (n_samples,), default=None
        The segment of each row, where the model has a threshold for each segment and finds none in a column of X.
    by : str or array-like of shape (n_samples,), default=None
        A column of X, or the level of each row: false-alarm rate and recall of each level, with bounds that hold for
        all levels together. The limits of a model with segments are shown, and judged, in any case.

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
    n_examples = check_count("n_examples", n_examples)
    if n_examples > _MOST_EXAMPLES:
        raise ValueError(
            f"n_examples must be at most {_MOST_EXAMPLES}, a report is no place for a table; got {n_examples}."
        )
    largest = np.finfo(np.float64).max
    volume = _check_number("volume_per_day", volume_per_day, largest, "a number of cases, at least 0")
    span = check_base_rate(base_rate) if isinstance(base_rate, (tuple, list)) else None
    if span is not None:
        base_rate = (span[0] + span[1]) / 2.0
    elif base_rate is not None:
        base_rate = _check_number("base_rate", base_rate, 1.0, "a share between 0 and 1: write 0.01 for 1 %")
    if data_is_new is not None and not isinstance(data_is_new, (bool, np.bool_)):
        raise TypeError(f"data_is_new must be True, False or None, got {data_is_new!r}.")
    given = leave_out_seen(X, y, data_is_new, seen)
    segments, levels = (_kept(name, each, X, given.kept) for name, each in (("segments", segments), ("by", by)))
    rows = score_rows(model, given.X, given.y, segments)
    with without_unseen_warnings:
        compared = None if training is None else compare_training(rows, training)
        features = features_of(rows, feature_names)
    is_new = given.is_new
    if is_new is None and compared is not None:
        is_new = {0: True, rows.scores.size: False}.get(compared.n_shared)
    if base_rate is None and rows.negative.size and rows.positive.size:
        base_rate = rows.positive.size / rows.scores.size
    found = Findings(
        rows,
        tuple(rates_at(rows, threshold) for threshold in rows.thresholds),
        DailyCases(volume, base_rate, span),
        is_new,
        given,
        features,
        feature_names,
        name_rows(ids, X, given.kept),
        compared,
        slider(rows, is_proof=is_new is not False),
        _pictures.histogram_edges(rows),
        n_examples,
        _count_unseen(X, training) if unseen_values is None else unseen_values,
        limits_of_rows(rows, _name_of(segments, getattr(rows.final, "segments", None), usual="segment"), is_new),
        levels_of(rows, levels, _name_of(by, usual="level"), is_new),
    )
    title = f"Screening at a tolerance of {found.tolerance_text}" if title is None else title
    template = templates().get_template("page.html")
    return _printable(template.render(found=found, rows=rows, used=found.used, title=title, made=_made_by()))


def write_report(
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    volume_per_day: float = 10_000,
    base_rate: float | tuple[float, float] | None = None,
    n_examples: int = 10,
    feature_names: Any = None,
    ids: Any = None,
    training: Any = None,
    data_is_new: bool | None = None,
    seen: SeenRows | None = None,
    unseen_values: UnseenCounter | None = None,
    segments: Any = None,
    by: Any = None,
) -> Path:
    """Write the page of :func:`render_report` to a file.

    The file is written beside its place and then moved there, so that nobody ever reads half of it.

    Parameters
    ----------
    model, X, y
        As in :func:`render_report`.
    path : str or path-like
        Where to write; folders are made as needed, and a file that is there is replaced.
    title, volume_per_day, base_rate, n_examples, feature_names, ids, training, data_is_new, seen, unseen_values
        As in :func:`render_report`.
    segments, by
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
        ids=ids,
        training=training,
        data_is_new=data_is_new,
        seen=seen,
        unseen_values=unseen_values,
        segments=segments,
        by=by,
    )
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, page.encode())
    return target


def render_comparison(document: Mapping[str, Any]) -> str:
    """A document of ``taufpl compare`` as one HTML page that needs nothing else."""
    template = templates().get_template("comparison.html")
    return _printable(template.render(found=document, picture=_pictures.recalls(document["models"]), made=_made_by()))


def _made_by() -> str:
    """The version that makes a page, and when."""
    now = datetime.now().astimezone()
    return f"{__version__} on {now:%Y-%m-%d at %H:%M} ({now.tzname() or 'local time'})"


def _printable(page: str) -> str:
    """A page without what cannot be written: half a surrogate pair, and NUL, which has no place in HTML."""
    return page.encode("utf-8", "replace").decode("utf-8").replace("\x00", "�")


@cache
def templates() -> Any:
    """The templates of the page. All that they print is escaped, and a name that they do not know is an error."""
    jinja2 = require("jinja2", "report", "to write a report")
    folder = files("taufpl.report") / "templates"
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawn = (_pictures.bars, _pictures.guaranteed, _pictures.histogram, _pictures.roc)
    functions = (*_format.FUNCTIONS, *drawn, measured_rates, negatives_needed, repr)
    found.globals.update({each.__name__: each for each in functions}, NONE=_format.NONE)
    found.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return found


def _kept(name: str, labels: Any, X: Any, kept: Any) -> Any:
    """Labels of the rows that are reported on: those given, or a column of X by its name."""
    labels = column_of(X, name, labels, "level")
    return labels if labels is None or kept is None else safe_indexing(labels, kept)


def _name_of(*sources: Any, usual: str) -> str:
    """What levels are called: the name of the first source that has one."""
    names = [each if isinstance(each, str) else getattr(each, "name", None) for each in sources]
    return next((name for name in names if isinstance(name, str)), usual)


def _count_unseen(X: Any, training: Any) -> UnseenCounter | None:
    """Values of the rows that the training rows never had, where both are frames."""
    if training is None or not (hasattr(X, "iloc") and hasattr(training[0], "iloc")):
        return None
    counter = UnseenCounter.from_rows(training[0])
    counter.update(X)
    return counter


def _check_number(name: str, value: Any, most: float, needed: str) -> float:
    """Return a number from 0 to `most`."""
    number = check_number(name, value)
    if not 0.0 <= number <= most:
        raise ValueError(f"{name} must be {needed}; got {value!r}.")
    return number
