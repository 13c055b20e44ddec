"""Labels of a file: which of the two is looked for, and how those of another file are matched with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from taufpl._types import Array, Labels
from taufpl.cli._data_file import DataFile
from taufpl.cli._tables import arrow
from taufpl.thresholding import MISSING_LEVEL, canonical, level_text

# Pairs of words of which everybody knows the positive one.
_WORDS = {"no": "yes", "n": "y", "false": "true", "f": "t", "neg": "pos", "negative": "positive", "off": "on"}
NEGATIVE, POSITIVE, MISSING = 0, 1, -1


def _distinct(values: Any) -> tuple[list[Any], Labels]:
    """Different labels of a pyarrow column or a NumPy array, and the place of each row's among them; -1: missing."""
    column = arrow().array(values) if isinstance(values, np.ndarray) else values
    joined = column.combine_chunks() if hasattr(column, "chunks") else column
    if not arrow().types.is_dictionary(joined.type):
        joined = joined.dictionary_encode()
    different = joined.dictionary.to_pylist()
    codes = joined.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    # NaN is not a label, wherever it comes from.
    for place, label in enumerate(different):
        if label is None or label != label:
            codes[codes == place] = -1
    return different, codes


def read_levels(values: Any) -> Array:
    """The level of each row of a pyarrow column, as canonical text."""
    different, codes = _distinct(values)
    return np.array([*map(level_text, different), MISSING_LEVEL], dtype=object)[codes]


def event_names(values: Any) -> list[str | None]:
    """The event of each row of a pyarrow column: the same text in every format, None where it is missing."""
    return [None if text == MISSING_LEVEL else text for text in read_levels(values).tolist()]


def read_labels(file: DataFile, name: str, values: Any, positive: str | None) -> tuple[Array, Any]:
    """The labels of rows that train, and which of the two is that of positives.

    Refused are labels of which one is missing, more or fewer than two, and two of which nobody can tell which is
    looked for.
    """
    different, codes = _distinct(values)
    n_missing = int(np.count_nonzero(codes < 0))
    if n_missing:
        first = int(np.argmax(codes < 0)) + 1
        raise ValueError(
            f"{file.name}: the target {name!r} is missing in {n_missing:,} rows, first in row {first:,}. Leave those "
            "rows out."
        )
    places = np.unique(codes).tolist()
    labels = [_plain(different[place]) for place in places]
    if len(labels) != 2:
        shown = ", ".join(repr(label) for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
        raise ValueError(
            f"{file.name}: the target {name!r} must have two labels; it has {len(labels):,}: {shown}."
            + (" Choose the column by --target." if len(labels) > 2 else " There is nothing to tell apart.")
        )
    found = _positive(file, name, labels, positive)
    return np.array(labels)[(codes == places[1]).astype(np.intp)], labels[found]


def match_labels(file: DataFile, name: str, values: Any, classes: list[Any], first_row: int = 0) -> Labels:
    """Labels of a column as NEGATIVE, POSITIVE or MISSING; a label that the model does not know is refused."""
    known = {canonical(label): code for label, code in zip(classes, (NEGATIVE, POSITIVE), strict=True)}
    different, codes = _distinct(values)
    texts = [canonical(label) for label in different]
    for place in np.unique(codes[codes >= 0]).tolist():
        if texts[place] not in known:
            row = first_row + int(np.argmax(codes == place)) + 1
            raise ValueError(
                f"{file.name}, row {row:,}: the label {different[place]!r} in {name!r} is none of the model's, "
                f"{classes[0]!r} and {classes[1]!r}. Write labels as the model knows them."
            )
    meaning = np.array([*(known.get(text, MISSING) for text in texts), MISSING])
    return meaning[codes]


def _positive(file: DataFile, name: str, labels: list[Any], wanted: str | None) -> int:
    """Which of two labels is looked for."""
    texts = [canonical(label) for label in labels]
    if wanted is not None:
        if canonical(wanted) not in texts:
            raise ValueError(
                f"{file.name}: the target {name!r} has the labels {labels[0]!r} and {labels[1]!r}, and not "
                f"{wanted!r}, which --positive names."
            )
        return texts.index(canonical(wanted))
    if not isinstance(labels[0], str) and not isinstance(labels[1], str):
        return int(np.argmax(labels))
    words = [text.lower() for text in texts]
    for place in (0, 1):
        if _WORDS.get(words[1 - place]) == words[place]:
            return place
    raise ValueError(
        f"{file.name}: which of the labels {labels[0]!r} and {labels[1]!r} of {name!r} is looked for? Say so by "
        f"--positive {labels[0]} or --positive {labels[1]}."
    )


def _plain(label: Any) -> Any:
    """Whole numbers as such: LIBSVM's labels are floats."""
    if isinstance(label, bool) or not isinstance(label, int | float):
        return label if isinstance(label, bool | str) else str(label)
    return int(label) if float(label).is_integer() else label
