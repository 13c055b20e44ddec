"""What the readers of the text formats have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taufpl.exceptions import ModelFileError
from taufpl.persistence._tree_nodes import TreeNodes


@dataclass(frozen=True, slots=True)
class BoosterText:
    """The trees of a booster, checked, and the text from which its library makes them.

    The text is written anew from what was checked: nothing else of a file comes to the compiled parser. The raw score
    of a row is start + share * (sum of the values of its leaves), and its probability 1 / (1 + exp(-steepness * raw
    score)). `n_used` counts the trees that predictions use where that is known from the text.
    """

    text: str
    trees: list[TreeNodes]
    n_features: int
    start: float = 0.0
    share: float = 1.0
    steepness: float = 1.0
    zero_is_missing: bool = False
    n_used: int | None = None


def require_that(condition: Any, trouble: str) -> None:
    """Refuse a model for a reason."""
    if not condition:
        raise ModelFileError(trouble)


def numbers(values: Any, count: int, kind: Any) -> NDArray[Any]:
    """An array of `count` numbers, from numbers or their texts."""
    try:
        found = np.array(values, dtype=kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError("numbers of a tree in it cannot be read") from error
    require_that(found.shape == (count,), "the parts of a tree in it have different lengths")
    return found


def plain_texts(values: Any, count: int) -> Sequence[str]:
    """A list of texts, `count` of them."""
    require_that(
        isinstance(values, list) and len(values) == count and all(isinstance(each, str) for each in values),
        "the names of the features of a booster in it do not fit their number",
    )
    return values
