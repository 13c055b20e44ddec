"""Results of a command as JSON, as tables and in words, what a model promises among them; progress; output files."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taufpl._choices import ANY, USUAL_DELTA
from taufpl.cli._errors import note

if TYPE_CHECKING:
    from taufpl.thresholding import Evidence

# Seconds between two lines about long work, where stderr is no terminal.
PERIOD = 30.0
# Characters of a bar.
_BAR = 20
# The key under which documents, and the header of a model file, keep the budget of alarms.
BUDGET = "budget"
# Names of levels in one sentence.
_MOST_NAMES = 5
# Longest name of a level in a table.
_LONGEST = 40


def print_result(document: Mapping[str, Any], as_json: bool, title: str, facts: Sequence[tuple[str, str]]) -> None:
    """Print a result as JSON, or as a table of facts with a name and a text each."""
    if as_json:
        print_json(document)
    else:
        print_rows(title, None, facts)


def print_json(document: Mapping[str, Any]) -> None:
    """One document on stdout; NaN and infinities become null."""
    from taufpl._records import plain

    print(json.dumps(plain(document, lenient=True), indent=2, ensure_ascii=False, allow_nan=False))


def print_rows(
    title: str, head: Sequence[str] | None, rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()
) -> None:
    """A table, with a head or without, on stdout as it is now; where that is no terminal, as wide as it takes."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Texts, since a string may hold what rich takes for markup: names of files and columns do.
    table = Table(title=Text(title, "table.title"), title_justify="left", show_header=head is not None)
    for place, name in enumerate(head or [""] * len(rows[0])):
        table.add_column(Text(name), justify="right" if place in numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = 160
    console.print(table)


class _Lines:
    """Lines on stderr that say now and then how far long work is, for logs, where a bar has no place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._began, self._ended = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def _tell(self) -> None:
        while not self._ended.wait(PERIOD):
            spent = time.monotonic() - self._began
            print(f"taufpl: {self.text} ({spent:.0f} s so far)", file=sys.stderr, flush=True)

    def __enter__(self) -> _Lines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()  # or a last line could follow the result


@contextmanager
def working(text: str, has_end: bool = True) -> Iterator[Any]:
    """A spinner on stderr while something takes its time; where that is no terminal, a line now and then.

    Of work without an end there are no lines. Yields a function that changes the text.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    if not console.is_terminal and not has_end:
        yield lambda _: None
        return
    if not console.is_terminal:
        with _Lines(text) as lines:
            yield lambda now: setattr(lines, "text", now)
        return
    with console.status(Text(text)) as status:
        yield lambda text: status.update(Text(text))


# Told how many steps are done, parts of one included, how many there are, and which is the last.
Move = Callable[[float, float, str], None]


@contextmanager
def progress_bar(text: str) -> Iterator[Move]:
    """A bar on stderr while steps are counted; where that is no terminal, a line now and then.

    Yields the function that moves it.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        with _Lines(text) as lines:
            yield lambda n_done, n_steps, last: setattr(
                lines, "text", f"{text}: {int(n_done)} of {n_steps:.0f} steps, {last}"
            )
        return
    columns = (BarColumn(_BAR), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    texts = [TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[last]")]
    # The step is cut to what is left beside bar, counts and times, which would else give way to it.
    room = max(1, console.width - len(text) - _BAR - 28)
    with Progress(texts[0], *columns, texts[1], console=console) as progress:
        bar = progress.add_task(text, total=None, last="")

        def move(n_done: float, n_steps: float, last: str) -> None:
            shown = last if len(last) <= room else f"{last[: room - 1]}…"
            progress.update(bar, completed=n_done, total=n_steps, last=shown)

        yield move


def percent(rate: float | None) -> str:
    """A rate with enough digits for its size."""
    if rate is None or math.isnan(rate):
        return "not known"
    return f"{rate:.2%}" if rate >= 0.01 or rate == 0 else f"{100 * rate:.3g}%"


def confidence(delta: float) -> str:
    """The confidence of a bound that fails with probability delta, to three digits of delta: 99.9% is not 100%."""
    return f"{100.0 - float(f'{100.0 * delta:.3g}'):.12g}% confidence"


def number(value: float | None) -> str:
    """A number in six digits."""
    return "not known" if value is None or math.isnan(value) else f"{value:.6g}"


def check_output(path: Path, *inputs: Path | None) -> None:
    """Refuse a path that cannot be written, or is one of the files that are read, before any work is done."""
    from taufpl._files import draft_of

    if path.is_dir():
        raise ValueError(f"{path}: is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist; make it first.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: is not a regular file; name one that can be replaced.")
    for other in inputs:
        if other is not None and other.exists() and path.exists() and path.samefile(other):
            raise ValueError(f"{path}: is the file that is read; name another one for the output.")
    probe = draft_of(path)
    try:
        probe.open("xb").close()
    except OSError as error:
        raise ValueError(f"{path}: cannot be written ({error.strerror}).") from error
    finally:
        with suppress(OSError):
            probe.unlink()


def id_name(id_column: str | None, own: Collection[str]) -> str:
    """The name of the first column of a file beside its own ones, with which it must not share one."""
    if id_column is None:
        return "row"
    if id_column not in own:
        return id_column
    note(f"--id {id_column}: the output has a column of that name; the id is written as id_{id_column}.")
    return f"id_{id_column}"


def looks_in_words(looks: int | str) -> str:
    """What a promise about a threshold adds where it is one of several over the life of a model."""
    if looks == 1:
        return ""
    return (
        ", for all thresholds of the sequence together" if looks == ANY else f", the share of one of {looks} thresholds"
    )


def np_score_of(fpr: float, recall: float | None, tau: float) -> float | None:
    """max(FPR, tau) / tau - recall, or None without positives."""
    return None if recall is None else max(fpr, tau) / tau - recall


def np_score_fact(score: float | None) -> tuple[str, str]:
    """The NP-score and what it is."""
    return "NP-score", f"{number(score)} (max(FPR, tolerance) / tolerance - recall: 0 is best)"


def evidence_record(evidence: Any) -> dict[str, Any]:
    """What is known about a threshold that was chosen, for a document."""
    return {
        "tau": evidence.tau,
        "delta": evidence.delta,
        "fpr_estimate": evidence.fpr_estimate,
        "fpr_upper_bound": evidence.fpr_upper_bound,
        "recall_estimate": evidence.tpr_estimate,
        "n_negative_used": evidence.n_negative,
        "guaranteed": evidence.guaranteed,
        "caveats": list(evidence.caveats),
    }


def fpr_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The false-alarm rate that a document from :func:`evidence_record` tells."""
    return [
        ("false-alarm rate (FPR)", f"{percent(document['fpr_estimate'])} of the negatives that chose the threshold"),
        ("FPR upper bound", f"{percent(document['fpr_upper_bound'])} at {confidence(document['delta'])}"),
    ]


def limit_name(name: str, segments: Sequence[str]) -> str:
    """A name for a table; that of a limit with the segments that share it."""
    return _shortened(name) if list(segments) in ([], [name]) else f"{_shortened(name)} ({in_words(segments)})"


def in_words(names: Sequence[str]) -> str:
    """Some names of levels in a sentence."""
    return listed(list(map(_shortened, names)))


def listed(names: Sequence[str]) -> str:
    """Names one after the other; of many, the first ones and how many there are more."""
    shown, rest = ", ".join(names[:_MOST_NAMES]), len(names) - _MOST_NAMES
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def _shortened(level: str) -> str:
    """A name of a level, cut where it is long."""
    line = " ".join(level.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def limits_record(head: Any) -> dict[str, Any]:
    """The limits of a model, for a document: one a tolerance for all rows, or one a segment or several together.

    Thresholds are on the scale of the scores, also where low scores mean positive.
    """
    segments = head.segments_
    if segments is None:
        several = head.evidence_ if isinstance(head.evidence_, tuple) else (head.evidence_,)
        names = ["all rows"] * len(several)
    else:
        several, names = segments.evidence, segments.limits
    members = {} if segments is None else segments.members
    sign = 1.0 if getattr(head, "higher_is_positive", True) else -1.0
    limits = [
        _limit_record(name, [each for each, limit in members.items() if limit == name], evidence, sign)
        for name, evidence in zip(names, several, strict=True)
    ]
    return {"limits": limits, "unproven_segments": [] if segments is None else list(segments.unproven)}


def _limit_record(name: str, segments: list[str], evidence: Evidence, sign: float) -> dict[str, Any]:
    return {
        "limit": name,
        "segments": segments,
        "tau": evidence.tau,
        "delta": evidence.delta,
        "looks": evidence.looks,
        "n_negative": evidence.n_negative,
        "n_false_positive": evidence.n_false_positive,
        "threshold": sign * evidence.threshold,
        "fpr_upper_bound": evidence.fpr_upper_bound,
        "recall": evidence.tpr_estimate,
        "recall_interval": evidence.tpr_interval,
        "guaranteed": evidence.guaranteed,
        "caveats": evidence.caveats,
    }


def guarantee_in_words(record: Mapping[str, Any], column: str | None = None, about: str = "") -> str:
    """Whether a threshold has a guarantee, or those of all limits by a column, and if not, why."""
    limit = percent(record["tau"]) if column is None else f"tolerance, of any limit by {column}"
    promise = f"P(FPR > {limit}) <= {record['delta'] or USUAL_DELTA:.4g}{about}{looks_in_words(record['looks'])}"
    if record["guaranteed"]:
        return f"yes: {promise}"
    return f"no: {'; '.join(record['caveats']) or f'{promise} is aimed at, not proven'}"


def print_limits(document: dict[str, Any], column: str | None, delta: float | None = None) -> None:
    """A table of the limits of a document; those by segment hold together with probability 1 - delta."""
    rows = [
        [
            limit_name(each["limit"], each["segments"]),
            percent(each["tau"]),
            f"{each['n_negative']:,}",
            number(each["threshold"]),
            f"{percent(each['fpr_upper_bound'])} at {confidence(each['delta'] or USUAL_DELTA)}",
            percent(each["recall"]),
            guarantee_in_words(each),
        ]
        for each in document["limits"]
    ]
    unproven = document["unproven_segments"]
    if unproven:
        rows.append([f"none ({in_words(unproven)})", "", "", "the strictest", "", "", "no: too few negatives"])
    title = "Limits" if column is None else f"Limits by {column}"
    if delta is not None and all(each["guaranteed"] for each in document["limits"]):
        which = "those that are proven" if unproven else "all"
        title += f": {which} hold together with probability 1 - {delta:g}"
    head = ["limit", "tolerance", "negatives", "threshold", "FPR at most", "recall", "guaranteed"]
    print_rows(title, head, rows, numeric=range(1, 6))


def budget_promise(record: Any, guaranteed: bool) -> tuple[str, str]:
    """A budget out of a document as a fact about a model, whose tolerance is proven or not."""
    from taufpl._records import read_record
    from taufpl.planning import AlarmBudget

    budget = read_record(AlarmBudget, record, BUDGET)
    promise = (
        f"with {confidence(budget.delta)}, at most {budget.alarms_per_day:,} alarms on a day of {budget.volume:,} "
        f"rows; in the mean at most {budget.expected_alarms:,.0f}"
    )
    unproven = "" if guaranteed else "not promised, since the tolerance is not proven; aimed at: "
    return BUDGET, unproven + promise
