"""The attributes of a booster in a file, checked: they come to compiled code with every prediction."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np

from taufpl.persistence.boosting._text import require_that

_THREADS = ("n_jobs", "num_threads", "num_thread", "nthread", "nthreads", "n_threads", "thread_count")
# LightGBM allocates for each thread and ends the process where that fails.
_MAX_THREADS = 1024
_FURTHER = ("_other_params", "kwargs", "_init_params")  # settings beside those of the constructor, by library


def check_state(kind: type, state: dict[str, Any]) -> None:
    """Refuse attributes that hide methods of the class, and settings that ask for any number of threads."""
    is_text = kind.__module__.startswith("lightgbm")
    for name, value in _settings(state):
        require_that(isinstance(name, str) and name.isidentifier(), f"a booster in it has a setting named {name!r}")
        if name in _THREADS:
            is_count = value is None or (isinstance(value, Integral) and abs(int(value)) <= _MAX_THREADS)
            require_that(
                is_count,
                f"a booster in it has {name}={value!r:.40}, which must be None or an integer up to {_MAX_THREADS}",
            )
        elif is_text and name != "_classes":
            # LightGBM gets its settings as one text of names and values, where an equals sign begins another one.
            require_that(not _has_equals_sign(value), f"a booster in it has the text of several settings in {name}")
    hidden = sorted(name for name in state if hasattr(kind, name))
    require_that(not hidden, f"a booster in it has attributes in the place of methods: {', '.join(hidden)}")


def _settings(state: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    yield from state.items()
    for name in _FURTHER:
        further = state.get(name, {})
        require_that(isinstance(further, dict), f"a booster in it has no settings in {name}")
        yield from further.items()


def _has_equals_sign(value: Any) -> bool:
    parts = value.ravel() if isinstance(value, np.ndarray) else value
    return isinstance(value, str | list | tuple | set | np.ndarray) and any("=" in str(part) for part in parts)
