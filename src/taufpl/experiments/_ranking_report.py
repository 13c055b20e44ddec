"""The ranking table with the paper's figures beside ours, what it comes to, and its pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from taufpl.experiments import _paper
from taufpl.experiments._ranking import DATASETS, EARLY, METHODS, OURS, RIVALS
from taufpl.experiments._store import write_text
from taufpl.experiments._summary import CellKey, Mean, mean, ranking_cells
from taufpl.experiments._tables import command_to_fill, markdown, percent, share
from taufpl.experiments._tasks import Row

Cells = dict[CellKey, Mean]

_TIES_MATTER = 0.0015


def write(rows: Sequence[Row], folder: Path, command: str) -> list[Path]:
    """Write ``table.md`` and ``shares.png``."""
    from taufpl.experiments._plots import draw_ranking

    cells, with_ties = ranking_cells(rows), ranking_cells(rows, "share_with_ties")
    text = "\n\n".join(
        [
            "# Ranking: share of test positives above the tau quantile of the test negatives",
            f"    {command}",
            "Mean over rounds ± its standard error; under it what the paper prints, where it prints anything. "
            "`automatic` and `RankSVM` are not in the paper; `-early` are the paper's rankings with the end of the "
            "solver chosen on the folds as well. `spambase-unit` is spambase with columns divided by their standard "
            "deviation, then rows by their norm. Positives that tie with the quantile are not above it; "
            "where it matters, brackets hold the share with ties in random order, as sorting leaves them.",
            table(cells, with_ties),
            "## What it comes to",
            *(_summary(cells, with_ties, form) for form in _forms(cells)),
            "## Cost of a whole search (five folds, fit on all rows included; median over rounds, seconds)",
            costs(rows),
        ]
    )
    path = folder / "table.md"
    write_text(path, text + "\n")
    return [path, *draw_ranking(cells, folder)]


def table(cells: Cells, with_ties: Cells) -> str:
    """Datasets and tolerances down, methods across."""
    lines = []
    for dataset in DATASETS:
        ran = any(key[0] == dataset for key in cells)
        for tau in _paper.taus("ranking", dataset):
            line = [dataset, percent(tau)]
            for method in METHODS:
                cell = cells.get((dataset, tau, method))
                printed = _paper.figure("ranking", dataset, tau, EARLY.get(method, method))
                paper = "" if method in ("RankSVM", "automatic") else f"<br>paper {share(printed)}"
                line.append((_cell(cell, with_ties[dataset, tau, method]) if cell else "–") + paper)
            lines.append(line)
        if not ran:
            lines.append([dataset, command_to_fill("ranking", dataset), *[""] * len(METHODS)])
    return markdown(["dataset", "tau", *METHODS], lines)


def _cell(cell: Mean, with_ties: Mean) -> str:
    text = f"{share(cell.value)} ± {share(cell.error)}"
    return text if with_ties.value - cell.value < _TIES_MATTER else f"{text} ({share(with_ties.value)})"


def _forms(cells: Cells) -> list[str]:
    """Forms of a dataset to count: of one that has two, each takes its turn."""
    others = [form for form in _paper.FORMS if any(key[0] == form for key in cells)]
    return ["", *others]


def _summary(cells: Cells, with_ties: Cells, form: str) -> str:
    """What the cells come to, with a dataset in another form, if any."""
    left_out = {_paper.FORMS[form]} if form else set(_paper.FORMS)
    strict, random = (
        {key: cell for key, cell in each.items() if key[0] not in left_out} for each in (cells, with_ties)
    )
    title = f"With {form} in the place of {_paper.FORMS[form]}" if form else "With features as at their source"
    parts = (f"### {title}", against_paper(strict), against_rivals(strict), "With ties in random order:")
    return "\n\n".join((parts[0], "\n".join(parts[1:3]), parts[3], against_paper(random)))


def against_paper(cells: Cells) -> str:
    """In how many cells our rankings reach the figures of the paper's; the automatic one against the better of both."""
    papers = OURS[:2]
    sides = {method: (EARLY.get(method, method),) if method != "automatic" else papers for method in OURS}
    lines = []
    for method, rivals in sides.items():
        pairs = []
        for (dataset, tau, own), cell in cells.items():
            printed = [_paper.figure("ranking", dataset, tau, rival) for rival in rivals]
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


def against_rivals(cells: Cells) -> str:
    """In how many cells ours reach every rival that was run."""
    sides = {"The better of tau-Rank and 2tau-Rank": OURS[:2], "automatic": ("automatic",), "Any of ours": OURS}
    return "\n".join(f"- {name}: {_against_rivals(cells, ours)}" for name, ours in sides.items())


def _against_rivals(cells: Cells, ours: Sequence[str]) -> str:
    best_of: dict[tuple[str, float], dict[bool, Mean]] = defaultdict(dict)
    for (dataset, tau, method), cell in cells.items():
        if method in ours or method in RIVALS:
            sides = best_of[dataset, tau]
            side = method in ours
            sides[side] = max(sides.get(side, cell), cell, key=lambda each: each.value)
    both = [sides for sides in best_of.values() if len(sides) == 2]
    at_or_above = sum(sides[True].value >= sides[False].value for sides in both)
    within = sum(sides[True].value >= sides[False].value - sides[True].error for sides in both)
    return (
        f"at or above every rival that was run in {at_or_above} of {len(both)} cells, "
        f"within one standard error of the best rival or above it in {within}."
    )


def costs(rows: Sequence[Row]) -> str:
    """What a search takes for one tolerance, on each dataset."""
    seconds: dict[tuple[str, str], dict[tuple[int, float], float]] = defaultdict(dict)
    counts: dict[str, tuple[str, list[float]]] = {}
    for row in rows:
        key = (row["dataset"], row["method"])
        # A shared search counts once a round, whatever the number of tolerances that it served.
        part = 0.0 if int(row["shared_search"]) else float(row["tau"])
        seconds[key][int(row["round"]), part] = float(row["search_seconds"]) + float(row["fit_seconds"])
        counts.setdefault(row["method"], (row["n_params"], []))[1].append(float(row["n_fits"]))
    datasets = [name for name in DATASETS if any(key[0] == name for key in seconds)]
    lines = []
    for method in METHODS:
        if method not in counts:
            continue
        n_params, fits = counts[method]
        line = [method, n_params, f"{mean(fits).value:.0f}"]
        for dataset in datasets:
            own = sorted(seconds.get((dataset, method), {}).values())
            line.append(f"{own[len(own) // 2]:.2f}" if own else "–")
        lines.append(line)
    return markdown(["method", "hyper-parameters", "fits in a search, mean", *datasets], lines)
