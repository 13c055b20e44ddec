"""Results that many blocks need, such as the mean of all rows: computed once, not anew by every block in every pass."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import scipy.sparse

from taufpl._extras import require
from taufpl.operators.remote.dask._source import Chunks

# A result that comes from this many sources, or from half of all, is a sum over rows and not a row's neighbour.
_MANY_SOURCES = 32
# Bytes of all results together: every block takes those along that it needs.
_MOST_BYTES = 1 << 22
_SEVERAL = -1

_Needs = Mapping[Any, Iterable[Any]]


def settle_shared(chunks: Chunks, groups: Sequence[Sequence[int]]) -> Chunks:
    """The same chunks, with small results that several blocks need put in as numbers.

    Rows that are read in every pass are computed block by block, each from its own part of the graph. That part holds
    every row, if X is standardised lazily, say, and each pass would read all rows once for every block. `groups` are
    the chunks of each block.
    """
    if len(groups) < 2:
        return chunks
    found = shared_results(chunks, groups)
    if not found:
        return chunks
    dask = require("dask", "dask", "for dask collections")
    make = require("dask.delayed", "dask", "for dask collections").Delayed
    take = dask.delayed(_if_small, pure=False)
    values = dask.compute(*(take(make(key, chunks.graph), _MOST_BYTES // len(found)) for key in found))
    settled = {key: _node(key, value) for key, value in zip(found, values, strict=True) if value is not None}
    return replace(chunks, graph={**chunks.graph, **settled})


def shared_results(chunks: Chunks, groups: Sequence[Sequence[int]]) -> list[Any]:
    """Keys that several blocks need and that many sources go into; nothing above such a key is looked at."""
    graph, needs = require("dask.optimization", "dask", "for dask collections").cull(chunks.graph, chunks.keys)
    needs = {key: [each for each in needs[key] if _is_task(graph[each])] for key in graph}
    enough = max(2, min(_MANY_SOURCES, sum(_is_task(graph[key]) and not needs[key] for key in graph) // 2))
    owner = {chunks.keys[i]: number for number, group in enumerate(groups) for i in group}
    found = []
    # From the chunks to their sources.
    for key in reversed(require("dask.core", "dask", "for dask collections").toposort(graph, dependencies=needs)):
        if key not in owner:
            continue
        if owner[key] == _SEVERAL and _has_sources(key, needs, enough):
            found.append(key)
            continue
        for each in needs[key]:
            owner[each] = owner[key] if owner.get(each, owner[key]) == owner[key] else _SEVERAL
    return found


def _has_sources(key: Any, needs: _Needs, enough: int) -> bool:
    """Whether a result comes from at least `enough` sources."""
    seen, waiting, n_sources = {key}, [key], 0
    while waiting and n_sources < enough:
        below = list(needs[waiting.pop()])
        n_sources += not below
        new = set(below) - seen
        seen |= new
        waiting += new
    return n_sources >= enough


def _is_task(node: Any) -> bool:
    """Whether a node is computed, and not data that the graph holds."""
    if hasattr(node, "dependencies"):
        return not hasattr(node, "value")
    return isinstance(node, tuple | list | str)


def _if_small(value: Any, most_bytes: int) -> Any:
    """A result, or None if it is too large to be sent about."""
    stored = value.data if scipy.sparse.issparse(value) else value
    n_bytes = getattr(stored, "nbytes", None)
    return value if (sys.getsizeof(value) if n_bytes is None else n_bytes) <= most_bytes else None


def _node(key: Any, value: Any) -> Any:
    """A value as a node of a graph, in the form that this version of Dask has for it."""
    forms = sys.modules.get("dask._task_spec")
    return value if forms is None else forms.DataNode(key, value)
