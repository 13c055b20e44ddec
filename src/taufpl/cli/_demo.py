"""``taufpl demo``: six ways to screen mail at a tolerance of 1 %, as a table, pictures and a report."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from taufpl._extras import require
from taufpl.cli._options import Json
from taufpl.cli._output import percent, print_json, print_rows, progress_bar, working

TAU = 0.01
_FLAGSHIP = "ScreeningClassifier"
_LINEAR = "TauFPLClassifier, linear"
_BY_HAND = "gradient boosting, training quantile"
_GUARDED = "gradient boosting, guarded"


def demo(
    folder: Annotated[Path, typer.Option("-o", "--folder", help="Where pictures and report go.")] = Path("demo"),
    as_json: Json = False,
) -> None:
    """Screen mail for spam at a tolerance of 1 %: six ways, on mail that none of them has seen.

    One of them is what people do by hand: the threshold is the quantile of the scores that the training rows get.
    """
    import numpy as np
    from sklearn.model_selection import train_test_split

    from taufpl.datasets import load_spambase
    from taufpl.estimators import steps_within, watching

    require("matplotlib", "plot", "to draw the demo")
    folder.mkdir(parents=True, exist_ok=True)
    X, y = load_spambase(return_X_y=True, as_frame=True)
    # A copy of a mail is no new evidence, and must not lie on both sides of the division.
    different = ~X.duplicated()
    X, y = X[different], y[different]
    X, new_X, y, new_y = train_test_split(X, y, test_size=1 / 3, stratify=y, random_state=0)
    ways, models, rows = _fits(X, np.asarray(y)), {}, []
    with progress_bar("fitting") as move:
        for place, (name, fit_model) in enumerate(ways.items()):
            move(place, len(ways), name)
            began = time.perf_counter()
            with watching(steps_within(move, place, len(ways), name)):
                models[name] = fit_model()
            rows.append(_evaluate(name, models[name], time.perf_counter() - began, new_X, new_y))
        move(len(ways), len(ways), "done")
    with working("drawing"):
        files = _write(models, new_X, new_y, folder)
    document = {
        "tau": TAU,
        "n_train": len(y),
        "n_new_negative": int(np.sum(new_y == 0)),
        "n_new_positive": int(np.sum(new_y == 1)),
        "rows": rows,
        "files": files,
    }
    if as_json:
        print_json(document)
    else:
        _print(document)


def _fits(X: Any, y: Any) -> dict[str, Callable[[], Any]]:
    """Six ways to screen, each a function that returns a fitted model."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from taufpl.estimators import NeymanPearsonClassifier, ScreeningClassifier, TauFPLClassifier

    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    boosting = HistGradientBoostingClassifier(random_state=0)
    paper = TauFPLClassifier(TAU, ranking="paper", tau_scale=1.0, threshold="oob", delta=None, random_state=0)
    return {
        _FLAGSHIP: lambda: ScreeningClassifier(TAU, random_state=0).fit(X, y),
        _BY_HAND: lambda: NeymanPearsonClassifier(boosting, TAU, threshold="train", random_state=0).fit(X, y),
        _GUARDED: lambda: NeymanPearsonClassifier(boosting, TAU, random_state=0).fit(X, y),
        _LINEAR: lambda: _fit_linear(X, y),
        "logistic regression, guarded": lambda: NeymanPearsonClassifier(logistic, TAU, random_state=0).fit(X, y),
        "tau-FPL, as in the paper": lambda: make_pipeline(StandardScaler(), paper).fit(X, y),
    }


def _fit_linear(X: Any, y: Any) -> Any:
    """The model of `taufpl fit --model linear`, whose scales are learned from the training rows alone."""
    from taufpl.cli._columns import Layout
    from taufpl.cli._training_file import FitOptions, FitRows, fit_rows, screen_for
    from taufpl.preprocessing import ColumnPlan

    options = FitOptions(tau=TAU, model="linear")
    train = screen_for(1, options).training_rows(y)
    columns = tuple(ColumnPlan(str(name), "number") for name in X.columns)
    return fit_rows(FitRows(X.copy(), y, Layout(columns, None), 1, train=train), options)


def _evaluate(name: str, model: Any, seconds: float, new_X: Any, new_y: Any) -> dict[str, Any]:
    """The rates of a model on rows that no model has seen, and what it guarantees."""
    import numpy as np

    from taufpl.estimators import last_step

    flagged = np.asarray(model.predict(new_X) == 1)
    head = last_step(model)
    guaranteed = bool(head.evidence_.guaranteed)
    fpr = float(flagged[new_y == 0].mean())
    return {
        "name": name,
        "fpr": fpr,
        "recall": float(flagged[new_y == 1].mean()),
        "promised_upper_bound": head.fpr_upper_bound_ if guaranteed else None,
        "guaranteed": guaranteed,
        "seconds": seconds,
        "within_tolerance": fpr <= TAU,
    }


def _write(models: dict[str, Any], X: Any, y: Any, folder: Path) -> list[str]:
    """ROC curves and scores as pictures, and the report on the flagship."""
    from matplotlib.figure import Figure

    from taufpl._files import written_whole
    from taufpl.plotting import ROCDisplay, ScoreDisplay
    from taufpl.report import write_report

    roc, scores = (Figure(figsize=size, layout="constrained") for size in ((7, 5.5), (7, 5)))
    axes = roc.add_subplot()
    for name in (_FLAGSHIP, _BY_HAND, _LINEAR):
        ROCDisplay.from_estimator(models[name], X, y, tau=TAU, name=name, ax=axes)
    ScoreDisplay.from_estimator(models[_FLAGSHIP], X, y, ax=scores.add_subplot())
    for name, picture in (("roc.png", roc), ("scores.png", scores)):
        with written_whole(folder / name) as draft:
            picture.savefig(draft, dpi=120, format="png")
    report = write_report(models[_FLAGSHIP], X, y, folder / "report.html", title="Spam at 1 %", data_is_new=True)
    return [str(folder / "roc.png"), str(folder / "scores.png"), str(report)]


def _print(document: dict[str, Any]) -> None:
    print_rows(
        f"Spam at a tolerance of {percent(TAU)}, on {document['n_new_negative']:,} other mails and "
        f"{document['n_new_positive']:,} spam mails that no model has seen",
        ["", "FPR", "recall", "promised: at most", "guaranteed", "seconds", "within the tolerance here?"],
        [
            [
                row["name"],
                percent(row["fpr"]),
                percent(row["recall"]),
                "nothing" if row["promised_upper_bound"] is None else percent(row["promised_upper_bound"]),
                "yes" if row["guaranteed"] else "no",
                f"{row['seconds']:.2f}",
                "yes" if row["within_tolerance"] else "NO",
            ]
            for row in document["rows"]
        ],
        numeric=(1, 2, 3, 5),
    )
    for file in document["files"]:
        print(file)
