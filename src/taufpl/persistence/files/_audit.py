"""The audit of a model file from its text alone: no object is built, and no module imported."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from taufpl.exceptions import ModelFileError
from taufpl.persistence.files._allowed_types import BIT_GENERATORS, OWN, TREE, is_allowed
from taufpl.persistence.files._tree_list import TreeRecord

# Text of JSON grows when it becomes objects: it counts by this factor against the bound on memory.
_GROWTH = 16
_SCHEMA = "schema.json"
# The oldest way of writing that skops still reads and that has the meaning which is assumed here.
_OLDEST_PROTOCOL = 2
# Numbers from which NumPy seeds generators, where nobody asks for more.
_POOL = np.random.SeedSequence().pool_size


def read_schema(data: bytes, max_bytes: int) -> dict[str, Any]:
    """The description of the object that a file holds, once the sizes in the file have been found sane.

    A file that is of another kind, is damaged, or would need more memory than `max_bytes`, is a ModelFileError.
    """
    if len(data) > max_bytes:
        raise ModelFileError(f"it is longer than max_bytes={max_bytes:,}")
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            _check_members(archive, max_bytes)
            schema = json.loads(archive.read(_SCHEMA))
    except ModelFileError:
        raise
    except BadZipFile as error:
        raise ModelFileError("it is not a zip archive, or a damaged one") from error
    except KeyError as error:
        raise ModelFileError(f"it is a zip archive without {_SCHEMA}, which a model file has") from error
    except Exception as error:
        raise ModelFileError(f"its {_SCHEMA} or its arrays cannot be read ({type(error).__name__})") from error
    if not isinstance(schema, dict) or not isinstance(protocol := schema.get("protocol"), int):
        raise ModelFileError(f"its {_SCHEMA} does not describe an object")
    if isinstance(protocol, bool) or protocol < _OLDEST_PROTOCOL:
        raise ModelFileError(f"it is written in protocol {protocol!r} of skops, and no model file is")
    return schema


def _check_members(archive: ZipFile, max_bytes: int) -> None:
    """Hold sizes as the archive declares them, and lengths of arrays as their headers do, against the content.

    No member is read beyond its declared size. Sparse matrices are archives themselves.
    """
    total = 0
    for info in archive.infolist():
        if info.filename != _SCHEMA and not info.filename.endswith((".npy", ".npz")):
            raise ModelFileError(f"it holds {info.filename!r}, and model files hold arrays only")
        total += info.file_size * (_GROWTH if info.filename == _SCHEMA else 1)
    _check_total(total, max_bytes)
    for info in archive.infolist():
        if info.filename.endswith(".npy"):
            _check_array(archive.read(info))
        elif info.filename.endswith(".npz"):
            with ZipFile(io.BytesIO(archive.read(info))) as inner:
                total += sum(part.file_size for part in inner.infolist())
                _check_total(total, max_bytes)
                for part in inner.infolist():
                    _check_array(inner.read(part))


def _check_total(total: int, max_bytes: int) -> None:
    if total > max_bytes:
        raise ModelFileError(
            f"it declares content that would take {total:,} bytes, more than max_bytes={max_bytes:,}; raise that if "
            "you know where the file comes from"
        )


def _check_array(content: bytes) -> None:
    """An array is as long as its header says, so that it asks for no memory that the file does not fill."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject or int(np.prod(shape, dtype=object)) * dtype.itemsize != len(content) - stream.tell():
        raise ModelFileError("an array in it is not as long as it says")


def refused_types(schema: dict[str, Any], extra: Iterable[str] = ()) -> list[str]:
    """Names of the types that a file must not hold, sorted; empty where the file may be loaded."""
    trusted = frozenset(extra)
    refused = set()
    for node in _nodes(schema):
        loader, name = node["__loader__"], f"{node.get('__module__')}.{node.get('__class__')}"
        content: Any = node.get("content")
        if not isinstance(loader, str) or not is_allowed(loader, name, trusted):
            is_method = loader == "MethodNode" and isinstance(content, dict)
            refused.add(f"{name}.{content.get('func')}" if is_method else name)
        elif loader == "RandomGeneratorNode" and (generator := _bit_generator(content)) not in BIT_GENERATORS:
            refused.add(f"numpy.random.{generator}")
        elif loader == "RandomGeneratorNode" and (size := _pool_size(content)) != _POOL:
            refused.add(f"numpy.random.SeedSequence(pool_size={size})")
    return sorted(refused)


def _nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every description of an object, however deep; without recursion, which a file could exhaust."""
    stack: list[Any] = [schema]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if "__loader__" in item:
                yield item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def _bit_generator(content: Any) -> str | None:
    try:
        return str(json.loads(content["bit_generator"]["content"]["bit_generator"]["content"]))
    except (KeyError, TypeError, ValueError):
        return None


def _pool_size(content: Any) -> Any:
    try:
        described = content["seed_seq"]["content"].get("pool_size")
        return _POOL if described is None else json.loads(described["content"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def as_read_here(data: bytes, schema: dict[str, Any]) -> bytes:
    """The file with classes of this library under the modules where they are now, and records in the place of trees.

    skops would make a tree of whatever arrays the file holds, and the compiled code of trees crash on some of them; a
    generator of random numbers would be seeded from a pool of any size, which takes its square of steps. `schema` is
    changed in place.
    """
    moved = False
    for node in _nodes(schema):
        module, name = node.get("__module__"), node.get("__class__")
        if node["__loader__"] == "TreeNode" and f"{module}.{name}" == TREE:
            moved = True
            _make_tree_record(node)
        elif node["__loader__"] == "RandomGeneratorNode":
            moved = True
            # What is audited must be what is built: skops takes an earlier object of the same number in its place.
            for each in _nodes(node.get("content", {})):
                each.pop("__id__", None)
        elif isinstance(module, str) and module.startswith("taufpl.") and isinstance(name, str) and name in OWN:
            moved = moved or module != OWN[name]
            node["__module__"] = OWN[name]
    if not moved:
        return data
    stream = io.BytesIO()
    with ZipFile(io.BytesIO(data)) as archive, ZipFile(stream, "w") as copy:
        for info in archive.infolist():
            content = json.dumps(schema) if info.filename == _SCHEMA else archive.read(info)
            copy.writestr(info.filename, content)
    return stream.getvalue()


def _make_tree_record(node: dict[str, Any]) -> None:
    """Change the description of a tree into that of an object with its parts."""
    text = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}
    try:
        parts = {"args": node.pop("__reduce__")["args"], "state": node["content"]}
    except (KeyError, TypeError) as error:
        raise ModelFileError("a tree in it has no parts") from error
    node.update(__class__=TreeRecord.__name__, __module__=OWN[TreeRecord.__name__], __loader__="ObjectNode")
    node["content"] = {
        **{"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "content": parts},
        "key_types": {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [text, text]},
    }
