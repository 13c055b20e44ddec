"""The classification table with the paper's figures beside ours, the broken tolerances, and the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from taufpl.experiments import _paper
from taufpl.experiments._classification import DELTA, GUARANTEED, OURS, OWN
from taufpl.experiments._store import write_text
from taufpl.experiments._summary import CellKey, ClassifierCell, classifier_cells
from taufpl.experiments._tables import command_to_fill, markdown, percent, rate, share
from taufpl.experiments._tasks import Row

Cells = dict[CellKey, ClassifierCell | None]


def write(rows: Sequence[Row], folder: Path, command: str) -> list[Path]:
    """Write ``table.md`` and the pictures."""
    from taufpl.experiments._plots import draw_classification

    cells = classifier_cells(rows)
    text = "\n\n".join(
        [
            "# Classification: rates on the test part and NP-scores",
            f"    {command}",
            "(mean FPR, mean TPR), NP-score of the mean rates, which is what the paper's table shows, and in brackets "
            "the mean of the rounds' NP-scores ± its standard error; under it what the paper prints. Less is better. "
            "`default` is the automatic ranking of `TauFPLClassifier` with threshold `cross`: it uses all negatives.",
            score_table(cells),
            "## What it comes to",
            summary(cells),
            "## Share of rounds with a test FPR above tau, with each method's own threshold",
            violation_table(cells, OWN),
            f'## The same scorers under `threshold="np"` (delta {DELTA:g}): share of rounds above tau, and mean TPR',
            "Half of the training negatives choose the threshold and see neither the search nor the fit. The rate on "
            "a test part scatters around the true one, so that it may exceed tau in more rounds than the true rate "
            'does. "few": too few negatives for the guarantee, which is then refused.',
            violation_table(cells, GUARANTEED, with_recall=True),
        ]
    )
    path = folder / "table.md"
    write_text(path, text + "\n")
    return [path, *draw_classification(cells, folder)]


def score_table(cells: Cells) -> str:
    """Datasets and tolerances down, methods across."""
    lines = []
    for dataset in _paper.datasets("classification"):
        for tau in _paper.taus("classification", dataset):
            line = [dataset, percent(tau)]
            for method in OWN:
                printed = _paper.figure("classification", dataset, tau, method)
                paper = (
                    ""
                    if printed is None
                    else f"<br>paper ({rate(printed[0])}, {share(printed[1])}), {share(printed[2])}"
                )
                line.append(_cell(cells.get((dataset, tau, method))) + paper)
            lines.append(line)
        if not any(key[0] == dataset for key in cells):
            lines.append([dataset, command_to_fill("classification", dataset), *[""] * len(OWN)])
    return markdown(["dataset", "tau", *OWN], lines)


def _cell(cell: ClassifierCell | None) -> str:
    if cell is None:
        return "–"
    return (
        f"({rate(cell.fpr.value)}, {share(cell.tpr.value)}), **{share(cell.score)}** "
        f"[{share(cell.mean_score.value)} ± {share(cell.mean_score.error)}]"
    )


def summary(cells: Cells) -> str:
    """How many cells reach the paper."""
    lines = []
    choices = [(f"{method}", (method,)) for method in OURS] + [("The better of tau-FPL and 2tau-FPL", OURS)]
    places = sorted({key[:2] for key, cell in cells.items() if key[2] in OURS and cell is not None})
    for name, methods in choices:
        reached, compared = 0, 0
        for dataset, tau in places:
            ours = [cell.score for method in methods if (cell := cells.get((dataset, tau, method))) is not None]
            papers = [_paper.figure("classification", dataset, tau, method)[2] for method in methods]
            compared += bool(ours)
            reached += bool(ours) and min(ours) <= min(papers)
        lines.append(f"- {name}: NP-score of the mean rates at or under the paper's in {reached} of {compared} cells.")
    for name, methods in (("tau-FPL or 2tau-FPL", OURS), ("default", ("default",))):
        best = sum(_is_best(cells, dataset, tau, methods) for dataset, tau in places)
        lines.append(
            f"- {name}: the lowest NP-score of all systems run, or level with it, in {best} of {len(places)} cells."
        )
    return "\n".join(lines)


def _is_best(cells: Cells, dataset: str, tau: float, methods: Sequence[str]) -> bool:
    scores = {method: cell.score for method in OWN if (cell := cells.get((dataset, tau, method))) is not None}
    ours = [score for method, score in scores.items() if method in methods]
    return bool(ours) and min(ours) <= min(scores.values())


def violation_table(cells: Cells, methods: Sequence[str], *, with_recall: bool = False) -> str:
    """How often each classifier was above the tolerance on the test part."""
    lines = []
    for dataset, tau in sorted({key[:2] for key in cells}, key=_paper_order):
        line = [dataset, percent(tau)]
        for method in methods:
            key = (dataset, tau, method)
            cell = cells.get(key)
            if cell is None:
                line.append("few" if key in cells else "–")
            else:
                line.append(f"{cell.violations:.2f}" + (f", {share(cell.tpr.value)}" if with_recall else ""))
        lines.append(line)
    return markdown(["dataset", "tau", *methods], lines)


def _paper_order(place: tuple[str, float]) -> tuple[int, float]:
    return _paper.datasets("classification").index(place[0]), place[1]
