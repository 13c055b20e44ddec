"""``taufpl evaluate``: whether labelled rows bear the tolerance out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from taufpl.cli._data_file import DataFile, find_data_file
from taufpl.cli._errors import EXIT_BROKEN, EXIT_UNDECIDED, note
from taufpl.cli._options import (
    CHUNK_ROWS,
    BaseRateRange,
    By,
    ChunkRows,
    Data,
    Json,
    Model,
    OtherDelta,
    ScoringJobs,
    ShareRange,
    Target,
)
from taufpl.cli._output import (
    confidence,
    limit_name,
    listed,
    np_score_fact,
    np_score_of,
    percent,
    print_result,
    print_rows,
    working,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from taufpl._types import Array, Mask
    from taufpl.cli._loaded_model import LoadedModel, SeenCounter, Unseen
    from taufpl.cli._row_reader import RowBatch, RowReader
    from taufpl.thresholding import JudgedLevels


def evaluate(
    model: Model,
    data: Data,
    target: Target = None,
    delta: OtherDelta = None,
    base_rate: BaseRateRange = None,
    by: By = None,
    chunk_rows: ChunkRows = CHUNK_ROWS,
    jobs: ScoringJobs = 1,
    as_json: Json = False,
) -> None:
    """Measure a model on labelled rows that it has not seen.

    FPR, the false-alarm rate, is the share of negatives that the model flags; recall is that of positives. Exit code 3
    says that the tolerance is provably broken: the lower bound on FPR, at confidence 1 - delta, is above it. Exit code
    0 says that it is kept: the upper bound is within it. Exit code 4 says that the rows cannot tell.

    A model with segments is judged by its limits, with bounds that hold for all of them together; segments that share a
    limit are judged as one. With --by the rates of each level of a column follow, with bounds that hold for all levels
    together; then exit code 3 says that the tolerance is provably broken in the verdict or in a level.
    """
    from taufpl.cli._loaded_model import SeenCounter, Unseen, group_column, open_model

    file, loaded = find_data_file(data), open_model(model)
    reader = loaded.labelled_reader(file, target, group_column(file, loaded), by)
    seen, unseen = SeenCounter(file, loaded), Unseen.by(loaded)
    by_segment, by_level, n_known = _count(loaded, reader, seen, unseen, chunk_rows, jobs)
    found, whole = seen.note(), by_segment.whole
    only_fresh = bool(((found.n_seen and found.separable) or n_known > 0) and whole[0, 0] > 0)
    counts = (whole[0] if only_fresh else whole.sum(axis=0)).tolist()
    may_be_training = _check(file, loaded, counts, found.n_seen) or seen.chose_threshold
    unseen.note(file)
    delta = loaded.delta if delta is None else delta
    may_be_kept = not (may_be_training or ((found.n_seen or n_known) and not only_fresh))
    limits, levels = _judged(by_segment, by_level, loaded, by, only_fresh=only_fresh, delta=delta, is_new=may_be_kept)
    document = {
        **_measure(loaded, counts, delta, may_be_kept, limits),
        **_precision(counts, base_rate, delta),
        "n_seen_before": found.n_seen,
        "n_known_group": n_known,
        **unseen.record(),
        "segments": None if limits is None else limits.record(),
        "by": None if levels is None else levels.record(),
    }
    verdict = _verdict(document, may_be_kept) if limits is None else _levels_in_words(limits)
    print_result(document, as_json, str(data), _facts(document, verdict, levels))
    tables = [each for each in (limits, levels) if each is not None]
    for each in () if as_json else tables:
        _print_levels(each)
    if "broken" in (document["verdict"], *(each.verdict for each in tables)):
        raise typer.Exit(EXIT_BROKEN)
    if document["verdict"] == "open":
        raise typer.Exit(EXIT_UNDECIDED)


class _LevelTally:
    """Negatives, false alarms, positives and true alarms by level, of fresh rows and of those that were seen before."""

    def __init__(self) -> None:
        self._counts: dict[str, NDArray[np.int64]] = {}

    def add(self, levels: Array | None, is_seen: Mask, is_flagged: Mask, is_positive: Mask) -> None:
        """Count labelled rows; without levels, all are of one."""
        import numpy as np

        from taufpl.thresholding import level_counts

        names, codes = np.unique(np.full(is_seen.size, "") if levels is None else levels, return_inverse=True)
        counts = level_counts(2 * codes + is_seen, 2 * names.size, is_positive, is_flagged).reshape(-1, 2, 4)
        for name, each in zip(names.tolist(), counts, strict=True):
            self._counts[name] = self._counts.get(name, 0) + each

    @property
    def whole(self) -> NDArray[np.int64]:
        """Numbers of rows of all levels."""
        import numpy as np

        return np.sum([*self._counts.values()], axis=0) if self._counts else np.zeros((2, 4), np.int64)

    def counts(self, only_fresh: bool) -> tuple[list[str], NDArray[np.int64]]:
        """Levels that have rows, and their counts; of all rows, or of those that were not seen before."""
        import numpy as np

        by_level = {name: each[0] if only_fresh else each.sum(axis=0) for name, each in sorted(self._counts.items())}
        found = {name: each for name, each in by_level.items() if each.any()}
        return list(found), np.stack([*found.values()])


def _judged(
    by_segment: _LevelTally,
    by_level: _LevelTally,
    model: LoadedModel,
    by: str | None,
    *,
    only_fresh: bool,
    delta: float,
    is_new: bool,
) -> tuple[JudgedLevels | None, JudgedLevels | None]:
    """The limits of the model, and the levels of a column; None where there are none."""
    from taufpl.thresholding import JudgedLevels, rates_of_levels, rates_of_limits

    limits = levels = None
    if model.limits is not None:
        rates = rates_of_limits(*by_segment.counts(only_fresh), model.limits, model.head.tau, delta)
        limits = JudgedLevels(str(model.layout.segment), tuple(rates), delta, is_new, are_limits=True)
    if by is not None:
        rates = rates_of_levels(*by_level.counts(only_fresh), model.tolerance_of(by), delta)
        levels = JudgedLevels(by, tuple(rates), delta, is_new)
    return limits, levels


def _count(
    model: LoadedModel, reader: RowReader, seen: SeenCounter, unseen: Unseen, chunk_rows: int, jobs: int
) -> tuple[_LevelTally, _LevelTally, int]:
    """Labelled rows of a file, one of each group, by segment and by level, and how many are of known groups."""
    from taufpl.cli._loaded_model import counting_rows, in_known_group
    from taufpl.cli._row_reader import in_order

    by_segment, by_level, events = _LevelTally(), _LevelTally(), set[tuple[str, int]]()
    n_unlabelled = n_known_group = 0

    def decide(rows: RowBatch) -> tuple[RowBatch, Mask]:
        return rows, model.scores(rows) > 0

    with (
        working(f"reading {reader.file.name}") as tell,
        in_order(decide, reader.batches(chunk_rows), jobs) as decided,
    ):
        for rows, is_flagged in decided:
            assert rows.labels is not None
            known, counting = in_known_group(model, rows), counting_rows(rows, events)
            is_seen = seen.hits(rows) | known
            n_unlabelled += int((rows.labels[counting] < 0).sum())
            counting &= rows.labels >= 0
            for tally, levels in ((by_segment, rows.segments), (by_level, rows.levels)):
                own = None if levels is None else levels[counting]
                tally.add(own, is_seen[counting], is_flagged[counting], rows.labels[counting] == 1)
            n_known_group += int(known.sum())
            unseen.update(rows)
            tell(f"{rows.start + len(rows):,} rows")
    if n_unlabelled:
        note(f"{reader.file.name}: {n_unlabelled:,} rows without a label are left out.")
    return by_segment, by_level, n_known_group


def _check(file: DataFile, model: LoadedModel, counts: list[int], n_seen: int | None) -> bool:
    """Refuse rows on which nothing can be measured; say whether they may be the training rows, and nothing tells."""
    n_negative, n_false, n_positive, n_true = counts
    if not n_negative:
        raise ValueError(f"{file.name}: there are no negatives, {model.classes[0]!r}, to measure FPR on.")
    known = model.training
    same_size = (n_negative, n_positive) == (known.get("n_negative"), known.get("n_positive"))
    may_be_training = n_seen is None and same_size and _flags_as_in_fit(model, n_false, n_true)
    if may_be_training:
        note(f"{file.name}: has as many rows of each class as the training data; if it is that, the rates flatter.")
    return may_be_training


def _flags_as_in_fit(model: LoadedModel, n_false: int, n_true: int) -> bool:
    """Whether as many rows are flagged as when the threshold was chosen; that is told of scores without groups alone.

    All rows of their fit chose the threshold, so that the very rows have the very counts.
    """
    from taufpl.estimators import ScoreScreen

    found = model.head.evidence_
    if not isinstance(model.head, ScoreScreen) or model.layout.group is not None or isinstance(found, tuple):
        return True
    return bool((n_false, n_true) == (found.n_false_positive, found.n_true_positive))


def _measure(
    model: LoadedModel, counts: list[int], delta: float, may_be_kept: bool, limits: JudgedLevels | None
) -> dict[str, Any]:
    """Rates and bounds over all rows, and a verdict: that on the limits where the model has some."""
    import numpy as np

    from taufpl.thresholding import (
        fpr_upper_bound,
        negatives_to_settle,
        share_interval,
        share_lower_bound,
        tolerance_verdict,
    )

    n, n_false, n_positive, n_true = counts
    tau, fpr = model.tau, n_false / n
    found, is_one = tolerance_verdict(n_false, n, tau, delta), limits is None
    verdict = limits.verdict if limits is not None else "open" if found == "kept" and not may_be_kept else found
    recall = n_true / n_positive if n_positive else None
    low, high = (None, None) if recall is None else share_interval(n_true, n_positive, delta)
    return {
        "tau": tau,
        "delta": delta,
        "n_negative": n,
        "n_positive": n_positive,
        "n_false_positive": n_false,
        "n_true_positive": n_true,
        "fpr": fpr,
        "fpr_lower_bound": share_lower_bound(n_false, n, delta),
        "fpr_upper_bound": fpr_upper_bound(n_false, n, delta),
        "recall": recall,
        "recall_low": low,
        "recall_high": high,
        "np_score": np_score_of(fpr, recall, tau),
        "precision": n_true / (n_false + n_true) if n_positive and n_false + n_true else None,
        "verdict": verdict,
        "n_negative_to_settle": negatives_to_settle(n_false, n, tau, delta) if is_one and found == "open" else None,
        "promised_upper_bound": float(np.max(model.head.fpr_upper_bound_)),
    }


def _precision(counts: list[int], base_rate: ShareRange | None, delta: float) -> dict[str, Any]:
    """Precision at both ends of the base rate, and its lower bound over the range."""
    from taufpl.planning import precision_at, precision_lower_bound

    n, n_false, n_positive, n_true = counts
    if base_rate is None:
        return {"base_rate": None, "precision_at_base_rate": None, "precision_lower_bound": None}
    if not n_positive:
        raise ValueError("--base-rate is for precision, and there are no positives to measure the recall on.")
    return {
        "base_rate": base_rate,
        "precision_at_base_rate": [precision_at(each, n_true / n_positive, n_false / n) for each in base_rate],
        "precision_lower_bound": precision_lower_bound(n_false, n, n_true, n_positive, base_rate, delta),
    }


def _precision_facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Precision in the traffic, where its base rate is known."""
    if document["base_rate"] is None:
        return []
    base_rate, measured = (
        percent(low) if low == high else f"{percent(low)} to {percent(high)}"
        for low, high in (document["base_rate"], document["precision_at_base_rate"])
    )
    bound = f"at least {percent(document['precision_lower_bound'])} at {confidence(document['delta'])}"
    return [(f"precision, base rate {base_rate}", f"{measured}; {bound}")]


def _facts(document: dict[str, Any], verdict: str, levels: JudgedLevels | None) -> list[tuple[str, str]]:
    from taufpl.cli._loaded_model import seen_before

    segments = document["segments"]
    taus = [document["tau"]] if segments is None else sorted(each["tau"] for each in segments["limits"])
    sure, recall = confidence(document["delta"]), percent(document["recall"])
    if document["recall"] is not None:
        recall += f", between {percent(document['recall_low'])} and {percent(document['recall_high'])} at {sure}"
    return [
        ("rows", f"{document['n_negative']:,} negative, {document['n_positive']:,} positive"),
        ("seen before", seen_before(document["n_seen_before"])),
        ("tolerance", percent(taus[0]) if taus[0] == taus[-1] else f"{percent(taus[0])} to {percent(taus[-1])} by "
                                                                   f"{segments['column']}"),
        ("false-alarm rate (FPR)", f"{percent(document['fpr'])} ({document['n_false_positive']:,} false alarms)"),
        ("FPR bounds", f"at least {percent(document['fpr_lower_bound'])}, at most "
                       f"{percent(document['fpr_upper_bound'])}, each at {sure}"),
        ("recall", recall),
        np_score_fact(document["np_score"]),
        ("precision", percent(document["precision"])),
        *_precision_facts(document),
        ("verdict", verdict),
        *([] if levels is None else [(f"by {levels.column}", _levels_in_words(levels))]),
    ]  # fmt: skip


def _verdict(document: dict[str, Any], may_be_kept: bool) -> str:
    """The verdict on the tolerance in a word, and why."""
    if document["verdict"] == "kept":
        return "kept: the upper bound on FPR is within the tolerance"
    if document["verdict"] == "broken":
        return "broken: even the lower bound on FPR is above the tolerance"
    if not may_be_kept:
        return "open: the model has seen these rows, or some of them"
    needed = document["n_negative_to_settle"]
    if needed is None:
        return "open: FPR is as good as equal to the tolerance, and no number of negatives would tell"
    return f"open: {document['n_negative']:,} negatives cannot tell; about {needed:,} would, at this FPR"


def _print_levels(found: JudgedLevels) -> None:
    """A table of rates by level, or by limit."""
    head = [
        found.noun, "tolerance", "negatives", "FPR", "at least", "at most",
        "positives", "recall", "interval", "verdict",
    ]  # fmt: skip
    rows = [
        [
            limit_name(each.level, each.segments),
            percent(each.tau),
            f"{each.n_negative:,}",
            percent(each.fpr),
            percent(each.fpr_lower_bound),
            percent(each.fpr_upper_bound),
            f"{each.n_positive:,}",
            percent(each.recall),
            " to ".join(map(percent, each.recall_interval)),
            found.verdict_on(each),
        ]
        for each in found.rates
    ]
    by = f"{'Limits by' if found.are_limits else 'By'} {found.column}"
    title = f"{by}: bounds hold for all {found.noun}s together, at {confidence(found.delta)}"
    print_rows(title, head, rows, numeric=range(1, 9))


def _levels_in_words(found: JudgedLevels) -> str:
    """In which levels or limits the tolerance is provably broken, else in how many it is kept."""
    broken, is_open = (
        [limit_name(each.level, each.segments) for each in found.with_verdict(verdict)]
        for verdict in ("broken", "open")
    )
    n = f"{len(found.rates):,} {found.noun}{'' if len(found.rates) == 1 else 's'}"
    if broken:
        return f"broken in {len(broken):,} of {n}: {listed(broken)}"
    settled = f"kept in {len(found.rates) - len(is_open):,} of {n}"
    return f"{settled}; open: {listed(is_open)}" if is_open else settled
