"""``taufpl diff``: what changed between two models, and which rows change sides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from taufpl.cli._data_file import DataFile, arrow, find_data_file, guard_formulas, read_names
from taufpl.cli._errors import CommandLineError
from taufpl.cli._info import model_record, print_history
from taufpl.cli._options import Json, Target
from taufpl.cli._output import check_output, id_name, limits_record, number, print_json, print_rows, working

if TYPE_CHECKING:
    from taufpl._types import Labels, Mask, RowIndices, Vector
    from taufpl.cli._loaded_model import LoadedModel
    from taufpl.cli._row_reader import RowReader

# Entries of the record of a model that are compared one by one.
_COMPARED = (
    "model", "scorer", "preprocessing", "tau", "delta", "looks", "threshold_strategy", "flagged_scores", "target",
    "group", "time", "segment", "n_negative", "n_positive",
)  # fmt: skip
# What a fitted scorer has learned, whatever its class: nothing that a recalibration changes.
_LEARNED = ("estimators_", "coef_", "support_vectors_", "dual_coef_", "gamma_")
# Rows that change sides and are shown.
_MOST_SHOWN = 10
_DESCENT = {
    "same": "the histories are the same",
    "new from old": "NEW was made from OLD",
    "old from new": "OLD was made from NEW",
    "none": "neither was made from the other",
}


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A model file.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Another one.")],
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="Rows: which of them change sides?", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write all rows that change sides: .csv or .parquet.")
    ] = None,
    target: Target = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="A column to take along.", show_default="row numbers")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what changed between two models, and on a file which rows change sides.

    Settings, thresholds, columns, versions and history are compared; where NEW was made from OLD by recalibrate, that
    is said. With DATA every row is decided by both, and those that change sides are counted, by label where DATA has
    the column with the labels.
    """
    if data is None and (output or target or id_column):
        given = "-o" if output else "--target" if target else "--id"
        raise CommandLineError(f"{given} is about rows: give DATA, too.")

    from taufpl.cli._loaded_model import open_model

    if output is not None:
        check_output(output, old, new, data)
        if output.suffix.lower() not in (".csv", ".parquet"):
            raise ValueError(f"{output}: rows that change sides are written as .csv or .parquet.")
    models = open_model(old), open_model(new)
    _check_comparable(*models)
    document = _compared(*models)
    changes = None
    if data is not None:
        with working(f"reading {data}"):
            changes = _decide(find_data_file(data), *models, target, id_column)
        document["rows"] = _changes_record(changes, *models)
        if output is not None:
            _write(output, changes, models[1], id_column)
            document["output"] = str(output)
    if as_json:
        print_json(document)
    else:
        _print(document, *models)


def _check_comparable(old: LoadedModel, new: LoadedModel) -> None:
    """Refuse models for other labels, or for tables without a column in common."""
    if old.classes != new.classes:
        raise ValueError(
            f"{new.path}: decides between {new.classes[0]!r} and {new.classes[1]!r}, and {old.path} between "
            f"{old.classes[0]!r} and {old.classes[1]!r}: their decisions cannot be compared."
        )
    is_same_kind = old.layout.is_sparse == new.layout.is_sparse
    if not is_same_kind or (old.layout.columns and not {*_names(old)} & {*_names(new)}):
        raise ValueError(f"{new.path}: is about other columns than {old.path}; the two have none in common.")


def _names(model: LoadedModel) -> list[str]:
    return [column.name for column in model.layout.columns]


def _compared(old: LoadedModel, new: LoadedModel) -> dict[str, Any]:
    before, after = model_record(old), model_record(new)
    kinds = [{each.name: each.kind for each in model.layout.columns} for model in (old, new)]
    thresholds = [dict(_thresholds(model)) for model in (old, new)]
    return {
        "old": str(old.path),
        "new": str(new.path),
        "descent": _descent(old, new),
        "same_scorer": _same(_learned(old), _learned(new)),
        "settings": {
            name: {"old": before[name], "new": after[name]}
            for name in _COMPARED
            if _plain(before[name]) != _plain(after[name])
        },
        "thresholds": {
            name: {"old": thresholds[0].get(name), "new": thresholds[1].get(name)}
            for name in dict.fromkeys([*thresholds[0], *thresholds[1]])
        },
        "columns": {
            name: {"old": kinds[0].get(name), "new": kinds[1].get(name)}
            for name in dict.fromkeys([*kinds[0], *kinds[1]])
            if kinds[0].get(name) != kinds[1].get(name)
        },
        "versions": {
            name: {"old": before["versions"][name], "new": after["versions"][name]}
            for name in before["versions"]
            if before["versions"][name] != after["versions"][name]
        },
        "history": {"old": before["history"], "new": after["history"]},
    }


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value


def _thresholds(model: LoadedModel) -> Iterator[tuple[str, float]]:
    """Thresholds by segment, or by tolerance."""
    for each in limits_record(model.head)["limits"]:
        yield each["limit"] if model.limits is not None else f"{each['limit']}, at {each['tau']:g}", each["threshold"]


def _learned(model: LoadedModel) -> list[Any]:
    """What the scorer and its preprocessing have learned."""
    from taufpl.estimators import steps_and_last

    steps, head = steps_and_last(model.model)
    return [steps, {name: getattr(head, name) for name in _LEARNED if hasattr(head, name)}]


def _same(a: Any, b: Any) -> bool:
    """Whether two objects hold the same values. Pickles differ by what an object shares with others, too."""
    import numpy as np

    if a is b or type(a) is not type(b):
        return a is b
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.hasobject:
            return _same(a.tolist(), b.tolist())
        return np.array_equal(a, b) or a.tobytes() == b.tobytes()  # not a number is the same as itself
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(value, b[key]) for key, value in a.items())
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, str | bytes | int | set | frozenset):
        return bool(a == b)
    if isinstance(a, float | complex | np.generic):
        return bool(a == b or (a != a and b != b))
    return _same(_parts(a), _parts(b))


def _parts(value: Any) -> list[Any]:
    """What an object would be made of again."""
    made = value.__reduce_ex__(4)
    return (
        [made] if isinstance(made, str) else [list(part) if isinstance(part, Iterator) else part for part in made[1:]]
    )


def _descent(old: LoadedModel, new: LoadedModel) -> str:
    """Whether one model was made from the other, told by their histories."""
    before, after = old.history, new.history
    if before == after:
        return "same"
    if after[: len(before)] == before:
        return "new from old"
    return "old from new" if before[: len(after)] == after else "none"


class _Changes(NamedTuple):
    """Rows of a file under two models: scores measured from each threshold, labels where there are some."""

    old: Vector
    new: Vector
    labels: Labels | None
    ids: Any

    @property
    def to_positive(self) -> Mask:
        """Rows that only the new model decides positive."""
        return (self.new > 0) & ~(self.old > 0)

    @property
    def to_negative(self) -> Mask:
        """Rows that only the old model decides positive."""
        return (self.old > 0) & ~(self.new > 0)

    @property
    def moved(self) -> RowIndices:
        """Places of the rows that change sides."""
        return (self.to_positive | self.to_negative).nonzero()[0]

    def counts(self, moved: Mask) -> dict[str, int | None]:
        """How many rows move, and how many of them are negatives and positives."""
        by_label = [None if self.labels is None else int((moved & (self.labels == each)).sum()) for each in (0, 1)]
        return {"n": int(moved.sum()), "n_negative": by_label[0], "n_positive": by_label[1]}


def _decide(file: DataFile, old: LoadedModel, new: LoadedModel, target: str | None, id_column: str | None) -> _Changes:
    """Decide every row of a file by both models; it is read once where they take the same columns."""
    import numpy as np

    known = old.layout.target or new.layout.target
    if target is None and file.is_table and known in read_names(file):
        target = known
    sides: tuple[list[Vector], list[Vector]] = ([], [])
    labels: list[Any] = []
    ids: list[Any] = []
    is_same = old.layout == new.layout
    for rows in _reader(file, old, target, id_column).batches():
        sides[0].append(old.scores(rows))
        if is_same:
            sides[1].append(new.scores(rows))
        labels.append(rows.labels)
        ids.append(rows.ids)
    if not is_same:
        sides[1].extend(new.scores(rows) for rows in _reader(file, new, target, id_column).batches())
    return _Changes(
        np.concatenate(sides[0]),
        np.concatenate(sides[1]),
        None if target is None else np.concatenate(labels),
        None if id_column is None else np.concatenate([np.asarray(each, object) for each in ids]),
    )


def _reader(file: DataFile, model: LoadedModel, target: str | None, id_column: str | None) -> RowReader:
    from taufpl.cli._row_reader import RowReader

    return RowReader(file, model.layout, None if target is None else model.classes, target, id_column)


def _changes_record(changes: _Changes, old: LoadedModel, new: LoadedModel) -> dict[str, Any]:
    return {
        "n_rows": changes.new.size,
        "n_positive_before": int((changes.old > 0).sum()),
        "n_positive_now": int((changes.new > 0).sum()),
        "to_positive": changes.counts(changes.to_positive),
        "to_negative": changes.counts(changes.to_negative),
        "first": [
            {
                "row": place + 1,
                **({} if changes.ids is None else {"id": changes.ids[place]}),
                "label": None if changes.labels is None or changes.labels[place] < 0 else
                         new.classes[changes.labels[place]],
                "decision_before": old.classes[int(changes.old[place] > 0)],
                "decision_now": new.classes[int(changes.new[place] > 0)],
                "score_before": float(changes.old[place]),
                "score_now": float(changes.new[place]),
            }
            for place in changes.moved[:_MOST_SHOWN].tolist()
        ],
    }  # fmt: skip


def _write(path: Path, changes: _Changes, model: LoadedModel, id_column: str | None) -> None:
    """Write all rows that change sides."""
    import numpy as np

    from taufpl._files import written_whole

    pa, moved = arrow(), changes.moved
    labels = pa.array(model.classes)
    columns = {}
    if changes.labels is not None:
        found = changes.labels[moved]
        columns["label"] = labels.take(pa.array(np.where(found < 0, 0, found), mask=found < 0))
    for side, scores in (("before", changes.old), ("now", changes.new)):
        columns[f"score_{side}"] = pa.array(scores[moved])
        columns[f"decision_{side}"] = labels.take(pa.array((scores[moved] > 0).astype(np.int8)))
    ids = pa.array(moved + 1 if changes.ids is None else changes.ids[moved])
    table = pa.table({id_name(id_column, columns): ids, **columns})
    with written_whole(path) as draft:
        if path.suffix.lower() == ".parquet":
            arrow(".parquet").write_table(table, draft)
        else:
            arrow(".csv").write_csv(guard_formulas(table)[0], draft)


def _print(document: dict[str, Any], old: LoadedModel, new: LoadedModel) -> None:
    rows = [
        ["descent", "", _DESCENT[document["descent"]]],
        ["scorer", "", "the same" if document["same_scorer"] else "another one"],
        *([name.replace("_", " "), _shown(each["old"]), _shown(each["new"])]
          for name, each in document["settings"].items()),
        *([f"threshold, {name}", *("not there" if side is None else number(side) for side in each.values())]
          for name, each in document["thresholds"].items()),
        *([f"column {name}", each["old"] or "not there", each["new"] or "not there"]
          for name, each in document["columns"].items()),
        *([name.replace("_", " "), str(each["old"]), str(each["new"])] for name, each in document["versions"].items()),
    ]  # fmt: skip
    print_rows(f"{document['old']} and {document['new']}", ["", "OLD", "NEW"], rows)
    if document["descent"] in ("none", "old from new"):
        print_history(f"History of {document['old']}", old.history)
    if document["descent"] != "old from new":
        print_history(f"History of {document['new']}", new.history)
    if "rows" in document:
        _print_changes(document["rows"], new)


def _shown(value: Any) -> str:
    return (
        ", ".join(map(str, value)) if isinstance(value, list | tuple) else "not known" if value is None else str(value)
    )


def _print_changes(record: dict[str, Any], model: LoadedModel) -> None:
    negative, positive = model.classes
    rows = []
    for name, label in (("to_positive", positive), ("to_negative", negative)):
        counts = record[name]
        by_label = [
            "not known" if counts[each] is None else f"{counts[each]:,}" for each in ("n_negative", "n_positive")
        ]
        rows.append([f"now decided {label}", f"{counts['n']:,}", *by_label])
    title = f"Of {record['n_rows']:,} rows, {record['n_positive_before']:,} were decided {positive}, now "
    head = ["", "rows", f"that are {negative}", f"that are {positive}"]
    print_rows(f"{title}{record['n_positive_now']:,}", head, rows, numeric=(1, 2, 3))
    if record["first"]:
        names = list(record["first"][0])
        cells = [
            [number(each[name]) if name.startswith("score") else "" if each[name] is None else str(each[name])
             for name in names]
            for each in record["first"]
        ]  # fmt: skip
        print_rows("The first rows that change sides", [name.replace("_", " ") for name in names], cells)
