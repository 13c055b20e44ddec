"""The experiments that judge systems: rankings by the share of positives at the top, classifiers by their rates."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator

from taufpl._types import Mask
from taufpl.estimators import NeymanPearsonClassifier, TauFPLClassifier
from taufpl.paper._linear_baselines import CostSensitiveSVM
from taufpl.paper._protocol import (
    FORMS,
    LabelledData,
    Row,
    RunSettings,
    Trial,
    joined,
    legend,
    markdown,
    noted,
    panels,
    percent,
    printed_figure,
    read_dataset,
    save_picture,
    table_datasets,
    table_taus,
    write_table,
)
from taufpl.paper._systems import CHOOSERS, Params, np_score, ranking_score, rates, share_with_ties
from taufpl.plotting.style import CYCLE, GREY, percent_axis, tidy
from taufpl.thresholding import negatives_needed

CellKey = tuple[str, float, str]  # dataset, tau, method


class Mean(NamedTuple):
    """A mean over rounds with its standard error, NaN for a single round."""

    value: float
    error: float


def mean(values: Iterable[float]) -> Mean:
    """The mean of some figures."""
    figures = np.array(list(values), dtype=np.float64)
    error = float(figures.std(ddof=1) / math.sqrt(figures.size)) if figures.size > 1 else math.nan
    return Mean(float(figures.mean()), error)


def by_cell(rows: Iterable[Row]) -> dict[CellKey, list[Row]]:
    """Rows of all rounds, by dataset, tolerance and method."""
    cells: dict[CellKey, list[Row]] = defaultdict(list)
    for row in rows:
        cells[row["dataset"], float(row["tau"]), row["method"]].append(row)
    return dict(cells)


def share(value: float | None) -> str:
    """A figure between 0 and 1 as the paper prints it: three digits, no zero before the point."""
    if value is None or math.isnan(value):
        return "N/A"
    return f"{value:.3f}".replace("0.", ".", 1)


def rate(value: float) -> str:
    """A false-positive rate, with more digits where it is under one in a thousand."""
    return f"{value:.5f}".rstrip("0").rstrip(".").replace("0.", ".", 1) if 0 < value < 0.001 else share(value)


def cell_table(
    table: str, datasets: Iterable[str], methods: Sequence[str], cells: Iterable[CellKey], text: Callable[..., str]
) -> str:
    """Datasets and the paper's tolerances down, methods across; `text` is called with dataset, tolerance and method.

    A dataset without cells has a line more, with the command that fills them.
    """
    present = {dataset for dataset, _, _ in cells}
    lines = []
    for dataset in datasets:
        for tau in table_taus(table, dataset):
            lines.append([dataset, percent(tau), *(text(dataset, tau, method) for method in methods)])
        if dataset not in present:
            command = f"not run: `taufpl reproduce {table} --dataset {dataset}`"
            lines.append([dataset, command, *[""] * len(methods)])
    return markdown(["dataset", "tau", *methods], lines)


# A value with its error or None, by dataset, tolerance and method.
Curves = Mapping[CellKey, tuple[float, float | None]]
Styles = Mapping[str, tuple[str, str]]  # colour and line of each method


def _draw_curves(
    table: str, datasets: Sequence[str], curves: Curves, styles: Styles, label: str, *limits: float
) -> tuple[Any, Any]:
    """A panel a dataset, in it a curve a method against the tolerance; limits are those of the values."""
    figure, axes = panels(len(datasets))
    methods = {key[2] for key in curves}
    for ax, dataset in zip(axes, datasets, strict=True):
        taus = table_taus(table, dataset)
        for method in filter(methods.__contains__, styles):
            own = [(tau, *curves[dataset, tau, method]) for tau in taus if (dataset, tau, method) in curves]
            x, y, errors = zip(*own, strict=True) if own else ((), (), ())
            colour, line = styles[method]
            ax.plot(x, y, color=colour, linestyle=line, marker="o", markersize=4, linewidth=1.3, label=method)
            if None not in errors:
                ax.errorbar(x, y, errors, fmt="none", ecolor=colour, elinewidth=1.3, capsize=2)
        ax.set(xscale="log", xlabel="tolerated FPR", title=dataset, ylabel=label if ax is axes[0] else "")
        percent_axis(ax.xaxis)
        ax.set_xticks(taus)
        ax.tick_params(axis="x", which="minor", bottom=False)
        tidy(ax)
        if limits:
            ax.set_ylim(limits)
    return figure, axes


def _draw_printed(
    table: str, datasets: Sequence[str], axes: Any, styles: Styles, value_of: Callable[[Any], float]
) -> None:
    """The paper's figures as crosses."""
    for ax, dataset in zip(axes, datasets, strict=True):
        for method, (colour, _) in styles.items():
            for tau in table_taus(table, dataset):
                printed = printed_figure(table, dataset, tau, method)
                if printed is not None:
                    ax.plot(tau, value_of(printed), "x", color=colour, markersize=7, alpha=0.8)
    axes[0].plot([], [], "x", color=GREY, label="printed in the paper")


RANKING_SETS = ("heart", "spambase", "spambase-unit", "real-sim", "w8a")
# The paper's systems, then others; ours come last.
RANKING_RIVALS = ("CS-SVM", "TopPush", "SVM-pAUC-tight", "RankSVM")
# With the end of the solver chosen on the folds, beside the exact ones; named after the figures of the paper.
EARLY = {"tau-Rank-early": "tau-Rank", "2tau-Rank-early": "2tau-Rank"}
OUR_RANKINGS = ("tau-Rank", "2tau-Rank", *EARLY, "automatic")
RANKING_METHODS = RANKING_RIVALS + OUR_RANKINGS
# Left out unless it is asked for: its search at six tolerances takes hours on tens of thousands of rows.
SLOW = "SVM-pAUC-tight"
RANKING_COLUMNS = (
    "tau", "share", "share_with_ties", "params", "n_params", "n_fits", "search_seconds", "fit_seconds",
    "shared_search", "note",
)  # fmt: skip

ShareCells = dict[CellKey, Mean]

# Rankings whose solver ends early have the colour of the exact ones.
_EXACT = dict(zip((method for method in RANKING_METHODS if method not in EARLY), CYCLE, strict=True))
_RANKING_STYLES = {
    method: (_EXACT[EARLY.get(method, method)], "--" if method in EARLY else "-") for method in RANKING_METHODS
}

# A share that grows by less than this when ties are broken at random is printed without brackets.
_TIES_MATTER = 0.0015


def run_ranking(trial: Trial, settings: RunSettings) -> list[Row]:
    """Search and fit one method on one split, and leave one row a tolerance."""
    seed = settings.seed_of(trial.round)
    train, test = read_dataset(trial.dataset).split(seed)
    with noted() as notes:
        choices = CHOOSERS[trial.method](*train, table_taus("ranking", trial.dataset), "ranking", seed, settings.coarse)
    return [
        {
            "tau": tau,
            "share": float(ranking_score(choice.rule, *test, [tau])[0]),
            "share_with_ties": share_with_ties(choice.rule, *test, tau),
            "params": json.dumps(choice.params),
            "n_params": choice.n_params,
            "n_fits": choice.n_fits,
            "search_seconds": choice.search_seconds,
            "fit_seconds": choice.fit_seconds,
            "shared_search": int(choice.shared),
            "note": joined(notes),
        }
        for tau, choice in zip(table_taus("ranking", trial.dataset), choices, strict=True)
    ]


def share_cells(rows: Sequence[Row], column: str = "share") -> ShareCells:
    """The mean share of each cell; strictly above the quantile, or, by "share_with_ties", with ties in random order."""
    return {key: mean(float(row[column]) for row in own) for key, own in by_cell(rows).items()}


def write_ranking(rows: Sequence[Row], folder: Path, command: str) -> list[Path]:
    """Write ``table.md`` and ``shares.png``."""
    cells, with_ties = share_cells(rows), share_cells(rows, "share_with_ties")
    forms = ["", *(form for form in FORMS if any(key[0] == form for key in cells))]
    path = write_table(
        folder,
        "# Ranking: share of test positives above the tau quantile of the test negatives",
        f"    {command}",
        "Mean over rounds ± its standard error; under it what the paper prints, where it prints anything. "
        "`automatic` and `RankSVM` are not in the paper; `-early` are the paper's rankings with the end of the "
        "solver chosen on the folds as well. `spambase-unit` is spambase with columns divided by their standard "
        "deviation, then rows by their norm. Positives that tie with the quantile are not above it; "
        "where it matters, brackets hold the share with ties in random order, as sorting leaves them.",
        share_table(cells, with_ties),
        "## What it comes to",
        *(_ranking_summary(cells, with_ties, form) for form in forms),
        "## Cost of a whole search (five folds, fit on all rows included; median over rounds, seconds)",
        costs(rows),
    )
    return [path, *draw_ranking(cells, folder)]


def share_table(cells: ShareCells, with_ties: ShareCells) -> str:
    """The mean shares, with the paper's figures under them."""

    def text(dataset: str, tau: float, method: str) -> str:
        key = (dataset, tau, method)
        printed = printed_figure("ranking", dataset, tau, EARLY.get(method, method))
        paper = "" if method in ("RankSVM", "automatic") else f"<br>paper {share(printed)}"
        return (_share_text(cells[key], with_ties[key]) if key in cells else "–") + paper

    return cell_table("ranking", RANKING_SETS, RANKING_METHODS, cells, text)


def _share_text(cell: Mean, with_ties: Mean) -> str:
    text = f"{share(cell.value)} ± {share(cell.error)}"
    return text if with_ties.value - cell.value < _TIES_MATTER else f"{text} ({share(with_ties.value)})"


def _ranking_summary(cells: ShareCells, with_ties: ShareCells, form: str) -> str:
    """The counts of cells, with one dataset in another form, if any: each dataset counts once."""
    left_out = {FORMS[form]} if form else set(FORMS)
    strict, random = (
        {key: cell for key, cell in each.items() if key[0] not in left_out} for each in (cells, with_ties)
    )
    title = f"With {form} in the place of {FORMS[form]}" if form else "With features as at their source"
    results = f"{against_paper(strict)}\n{against_rivals(strict)}"
    return "\n\n".join((f"### {title}", results, "With ties in random order:", against_paper(random)))


def against_paper(cells: ShareCells) -> str:
    """In how many cells our rankings reach the figures of the paper's; the automatic one against the better of both."""
    lines = []
    for method in OUR_RANKINGS:
        rivals = OUR_RANKINGS[:2] if method == "automatic" else (EARLY.get(method, method),)
        pairs = []
        for (dataset, tau, own), cell in cells.items():
            printed = [printed_figure("ranking", dataset, tau, rival) for rival in rivals]
            if own == method and None not in printed:
                pairs.append((cell, max(printed)))
        reached = sum(cell.value >= printed - cell.error for cell, printed in pairs)
        above = sum(cell.value > printed for cell, printed in pairs)
        of_both = ", of the better of tau-Rank and 2tau-Rank," if len(rivals) > 1 else ""
        lines.append(
            f"- {method}: at or above the paper's figure{of_both} minus one standard error in {reached} of "
            f"{len(pairs)} cells, above it in {above}."
        )
    return "\n".join(lines)


def against_rivals(cells: ShareCells) -> str:
    """In how many cells ours reach every rival that was run."""
    sides = {
        "The better of tau-Rank and 2tau-Rank": OUR_RANKINGS[:2],
        "automatic": ("automatic",),
        "Any of ours": OUR_RANKINGS,
    }
    lines = []
    for name, ours in sides.items():
        best: dict[bool, dict[tuple[str, float], Mean]] = {True: {}, False: {}}
        for (dataset, tau, method), cell in cells.items():
            if method in ours or method in RANKING_RIVALS:
                side = best[method in ours]
                side[dataset, tau] = max(side.get((dataset, tau), cell), cell, key=lambda each: each.value)
        both = [(cell, best[False][place]) for place, cell in best[True].items() if place in best[False]]
        at_or_above = sum(own.value >= rival.value for own, rival in both)
        within = sum(own.value >= rival.value - own.error for own, rival in both)
        lines.append(
            f"- {name}: at or above every rival that was run in {at_or_above} of {len(both)} cells, "
            f"within one standard error of the best rival or above it in {within}."
        )
    return "\n".join(lines)


def draw_ranking(cells: ShareCells, folder: Path) -> list[Path]:
    """Share of positives against the tolerance, a panel a dataset, the paper's figures as crosses."""
    datasets = [name for name in RANKING_SETS if any(key[0] == name for key in cells)]
    if not datasets:
        return []
    figure, axes = _draw_curves("ranking", datasets, cells, _RANKING_STYLES, "share of positives at the top")
    _draw_printed("ranking", datasets, axes, _RANKING_STYLES, lambda printed: printed)
    legend(figure, axes[0])
    return [save_picture(figure, folder / "shares.png")]


def costs(rows: Sequence[Row]) -> str:
    """Fits and seconds of a search for one tolerance, on each dataset."""
    seconds: dict[tuple[str, str], dict[tuple[int, float], float]] = defaultdict(dict)
    counts: dict[str, tuple[str, list[float]]] = {}
    for row in rows:
        # A shared search counts once a round, whatever the number of tolerances that it served.
        part = 0.0 if int(row["shared_search"]) else float(row["tau"])
        taken = float(row["search_seconds"]) + float(row["fit_seconds"])
        seconds[row["dataset"], row["method"]][int(row["round"]), part] = taken
        counts.setdefault(row["method"], (row["n_params"], []))[1].append(float(row["n_fits"]))
    datasets = [name for name in RANKING_SETS if any(key[0] == name for key in seconds)]
    lines = []
    for method in filter(counts.__contains__, RANKING_METHODS):
        n_params, fits = counts[method]
        line = [method, n_params, f"{mean(fits).value:.0f}"]
        for dataset in datasets:
            own = sorted(seconds.get((dataset, method), {}).values())
            line.append(f"{own[len(own) // 2]:.2f}" if own else "–")
        lines.append(line)
    return markdown(["method", "hyper-parameters", "fits in a search, mean", *datasets], lines)


# The paper's systems with the thresholds of the paper, our automatic ranking, and each scorer under the guarantee.
OWN = ("BS-SVM", "CS-LR", "CS-SVM", "CS-SVM-OOB", "tau-FPL", "2tau-FPL", "default")
GUARANTEED = ("BS-SVM np", "CS-LR np", "CS-SVM np", "tau-FPL np", "2tau-FPL np")
CLASSIFICATION_METHODS = OWN + GUARANTEED
OUR_CLASSIFIERS = ("tau-FPL", "2tau-FPL")
DELTA = 0.05
CLASSIFICATION_COLUMNS = ("tau", "fpr", "tpr", "params", "n_fits", "search_seconds", "note")

# The scorer behind a classifier, by the name that it has in the ranking experiment.
_SCORERS = {"CS-SVM-OOB": "CS-SVM", "tau-FPL": "tau-Rank", "2tau-FPL": "2tau-Rank"}
_TAU_SCALES = {"tau-FPL": 1.0, "2tau-FPL": 2.0}

_OWN_STYLES = {method: (colour, "-") for method, colour in zip(OWN, CYCLE, strict=True)}
# Classifiers under the guarantee have the colour of their scorer.
_ALL_STYLES = _OWN_STYLES | {method: (_OWN_STYLES[method.removesuffix(" np")][0], "--") for method in GUARANTEED}


class Decisions(NamedTuple):
    """The rows that a classifier calls positive, None where it refuses its guarantee, and the cost of its search."""

    alarms: Mask | None
    params: Params = {}  # noqa: RUF012
    n_fits: int = 0
    search_seconds: float = 0.0
    note: str = ""


def run_classification(trial: Trial, settings: RunSettings) -> list[Row]:
    """Fit one method on one split, and leave one row a tolerance."""
    train, test = read_dataset(trial.dataset).split(settings.seed_of(trial.round))
    decide = _decide_own if trial.method in OWN else _decide_guaranteed
    with noted() as notes:
        every = decide(trial, train, test.X, table_taus("classification", trial.dataset), settings)
    rows = []
    for tau, decisions in zip(table_taus("classification", trial.dataset), every, strict=True):
        alarms, note = decisions.alarms, "; ".join(filter(None, (decisions.note, joined(notes))))
        fpr, tpr = (math.nan, math.nan) if alarms is None else rates(alarms, test.y)
        row = (tau, fpr, tpr, json.dumps(decisions.params), decisions.n_fits, decisions.search_seconds, note)
        rows.append(dict(zip(CLASSIFICATION_COLUMNS, row, strict=True)))
    return rows


def _decide_own(
    trial: Trial, train: LabelledData, new_X: Any, taus: list[float], settings: RunSettings
) -> list[Decisions]:
    """Decisions with the threshold that the method comes with."""
    seed = settings.seed_of(trial.round)
    if trial.method == "default":
        models = (TauFPLClassifier(tau, threshold="cross", random_state=seed) for tau in taus)
        return [Decisions(model.fit(*train).predict(new_X) == 1) for model in models]
    if trial.method in _SCORERS:
        return _decide_out_of_bootstrap(trial, train, new_X, taus, settings)
    choices = CHOOSERS[trial.method](*train, taus, "np", seed, settings.coarse)
    return [
        Decisions(choice.rule.scores(new_X) > choice.rule.threshold(tau), *choice.search)
        for tau, choice in zip(taus, choices, strict=True)
    ]


def _decide_out_of_bootstrap(
    trial: Trial, train: LabelledData, new_X: Any, taus: list[float], settings: RunSettings
) -> list[Decisions]:
    """Decisions of a scorer that is chosen by its ranking, as the paper chooses its own, and then gets a threshold."""
    seed, scorer = settings.seed_of(trial.round), _SCORERS[trial.method]
    known = settings.chosen(trial.dataset, scorer, trial.round, taus)
    if known:
        searches: list[tuple[Params, int, float]] = [(params, 0, 0.0) for params in known]
    else:
        choices = CHOOSERS[scorer](*train, taus, "ranking", seed, settings.coarse)
        searches = [choice.search for choice in choices]
    models = (_out_of_bootstrap(trial.method, search[0], tau, seed) for tau, search in zip(taus, searches, strict=True))
    return [
        Decisions(model.fit(*train).predict(new_X) == 1, *search)
        for model, search in zip(models, searches, strict=True)
    ]


def _out_of_bootstrap(method: str, params: Params, tau: float, seed: int) -> Any:
    threshold: Params = {"threshold": "oob", "delta": None, "random_state": seed}
    if method in _TAU_SCALES:
        return TauFPLClassifier(tau, ranking="paper", tau_scale=_TAU_SCALES[method], **threshold, **params)
    return NeymanPearsonClassifier(CostSensitiveSVM(**params), tau, **threshold)


def _decide_guaranteed(
    trial: Trial, train: LabelledData, new_X: Any, taus: list[float], settings: RunSettings
) -> list[Decisions]:
    """Decisions under a threshold that half of the negatives choose, which see neither the search nor the fit."""
    seed, method = settings.seed_of(trial.round), trial.method.removesuffix(" np")
    X, y = train
    negatives = np.random.default_rng(seed).permutation(np.flatnonzero(y == 0))
    held_out = np.sort(negatives[: negatives.size // 2])
    rest = np.setdiff1d(np.arange(y.size), held_out)
    enough = [tau for tau in taus if held_out.size >= negatives_needed(tau, DELTA)]
    choices = CHOOSERS[_SCORERS.get(method, method)](X[rest], y[rest], enough, "ranking", seed, settings.coarse)
    every = [Decisions(None, note=f"{held_out.size} negatives are too few") for _ in taus]
    for tau, choice in zip(enough, choices, strict=True):
        scorer = FrozenEstimator(choice.rule.model)
        model = NeymanPearsonClassifier(scorer, tau, delta=DELTA).fit(X[held_out], y[held_out])
        every[taus.index(tau)] = Decisions(model.predict(new_X) == 1, *choice.search)
    return every


class ClassifierCell(NamedTuple):
    """Rates of a classifier over rounds.

    `mean_score` is the mean of the rounds' NP-scores, `score` the NP-score of the mean rates, which is what the paper's
    table shows, and `violations` the share of rounds in which the rate on the test part was above tau.
    """

    fpr: Mean
    tpr: Mean
    mean_score: Mean
    score: float
    violations: float


ClassifierCells = dict[CellKey, ClassifierCell | None]


def classifier_cells(rows: Iterable[Row]) -> ClassifierCells:
    """The rates of each cell; None where there were too few negatives for the guarantee."""
    cells: ClassifierCells = {}
    for key, own in by_cell(rows).items():
        tau = key[1]
        both = [(float(row["fpr"]), float(row["tpr"])) for row in own if not math.isnan(float(row["fpr"]))]
        if not both:
            cells[key] = None
            continue
        fpr, tpr = (mean(part) for part in zip(*both, strict=True))
        scores = mean(np_score(*pair, tau) for pair in both)
        violations = sum(pair[0] > tau for pair in both) / len(both)
        cells[key] = ClassifierCell(fpr, tpr, scores, np_score(fpr.value, tpr.value, tau), violations)
    return cells


def write_classification(rows: Sequence[Row], folder: Path, command: str) -> list[Path]:
    """Write ``table.md`` and the pictures."""
    cells = classifier_cells(rows)
    path = write_table(
        folder,
        "# Classification: rates on the test part and NP-scores",
        f"    {command}",
        "(mean FPR, mean TPR), NP-score of the mean rates, which is what the paper's table shows, and in brackets "
        "the mean of the rounds' NP-scores ± its standard error; under it what the paper prints. Less is better. "
        "`default` is the automatic ranking of `TauFPLClassifier` with threshold `cross`: it uses all negatives.",
        score_table(cells),
        "## What it comes to",
        classification_summary(cells),
        "## Share of rounds with a test FPR above tau, with each method's own threshold",
        violation_table(cells, OWN),
        f'## The same scorers under `threshold="np"` (delta {DELTA:g}): share of rounds above tau, and mean TPR',
        "Half of the training negatives choose the threshold and see neither the search nor the fit. The rate on "
        "a test part scatters around the true one, so that it may exceed tau in more rounds than the true rate "
        'does. "few": too few negatives for the guarantee, which is then refused.',
        violation_table(cells, GUARANTEED, with_recall=True),
    )
    return [path, *draw_classification(cells, folder)]


def score_table(cells: ClassifierCells) -> str:
    """The mean rates and NP-scores, with the paper's figures under them."""
    return cell_table("classification", table_datasets("classification"), OWN, cells, partial(_rates_text, cells))


def _rates_text(cells: ClassifierCells, dataset: str, tau: float, method: str) -> str:
    cell, text = cells.get((dataset, tau, method)), "–"
    if cell is not None:
        text = (
            f"({rate(cell.fpr.value)}, {share(cell.tpr.value)}), **{share(cell.score)}** "
            f"[{share(cell.mean_score.value)} ± {share(cell.mean_score.error)}]"
        )
    printed = printed_figure("classification", dataset, tau, method)
    if printed is not None:
        text += f"<br>paper ({rate(printed[0])}, {share(printed[1])}), {share(printed[2])}"
    return text


def classification_summary(cells: ClassifierCells) -> str:
    """The numbers of cells that reach the paper."""
    scores = {key: cell.score for key, cell in cells.items() if cell is not None and key[2] in OWN}
    places = sorted({key[:2] for key in scores if key[2] in OUR_CLASSIFIERS})

    def best(place: tuple[str, float], methods: Sequence[str]) -> float:
        return min((scores[*place, method] for method in methods if (*place, method) in scores), default=math.inf)

    lines = []
    for name, methods in [
        *((method, (method,)) for method in OUR_CLASSIFIERS),
        ("The better of tau-FPL and 2tau-FPL", OUR_CLASSIFIERS),
    ]:
        compared = [place for place in places if best(place, methods) < math.inf]
        papers = [min(printed_figure("classification", *place, method)[2] for method in methods) for place in compared]
        reached = sum(best(place, methods) <= paper for place, paper in zip(compared, papers, strict=True))
        lines.append(
            f"- {name}: NP-score of the mean rates at or under the paper's in {reached} of {len(compared)} cells."
        )
    for name, methods in (("tau-FPL or 2tau-FPL", OUR_CLASSIFIERS), ("default", ("default",))):
        lowest = sum(best(place, methods) <= best(place, OWN) for place in places)
        lines.append(
            f"- {name}: the lowest NP-score of all systems run, or level with it, in {lowest} of {len(places)} cells."
        )
    return "\n".join(lines)


def violation_table(cells: ClassifierCells, methods: Sequence[str], *, with_recall: bool = False) -> str:
    """The share of rounds in which each classifier was above the tolerance on the test part."""

    def text(*key: Any) -> str:
        cell = cells.get(key)
        if cell is None:
            return "few" if key in cells else "–"
        return f"{cell.violations:.2f}" + (f", {share(cell.tpr.value)}" if with_recall else "")

    present = {dataset for dataset, _, _ in cells}
    datasets = [name for name in table_datasets("classification") if name in present]
    return cell_table("classification", datasets, methods, cells, text)


def draw_classification(cells: ClassifierCells, folder: Path) -> list[Path]:
    """NP-scores with the methods' own thresholds, and how often tolerances were broken, also under the guarantee."""
    table = "classification"
    datasets = [name for name in table_datasets(table) if any(key[0] == name for key in cells)]
    if not datasets:
        return []
    known = {key: cell for key, cell in cells.items() if cell is not None}
    scores: Curves = {key: (cell.score, None) for key, cell in known.items()}
    label = "NP-score of the mean rates (less is better)"
    figure, axes = _draw_curves(table, datasets, scores, _OWN_STYLES, label, 0, 1.6)
    _draw_printed(table, datasets, axes, _OWN_STYLES, lambda printed: printed[2])
    legend(figure, axes[0])
    shares: Curves = {key: (cell.violations, None) for key, cell in known.items()}
    label = "share of rounds with test FPR above tau"
    second, axes = _draw_curves(table, datasets, shares, _ALL_STYLES, label, -0.03, 1.03)
    legend(second, axes[0])
    return [save_picture(figure, folder / "np_scores.png"), save_picture(second, folder / "violations.png")]
