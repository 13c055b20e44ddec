"""What is in a model file, told from its text alone: nothing of it is built, and nothing is imported for it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from taufpl.exceptions import ModelFileError
from taufpl.persistence._allowed_types import is_bit_generator, is_known

# Text of JSON grows when it becomes objects: it counts by this factor against the bound on memory.
_GROWTH = 16
_SCHEMA = "schema.json"
# The oldest way of writing that skops still reads and that has the meaning which is assumed here.
_OLDEST_PROTOCOL = 2


def read_schema(data: bytes, max_bytes: int) -> dict[str, Any]:
    """The description of the object that a file holds, once its sizes have been found sane.

    Raises
    ------
    ModelFileError
        It is not such a file, it is damaged, or it would need more memory than `max_bytes`.
    """
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            _check_sizes(archive, max_bytes)
            schema = json.loads(archive.read(_SCHEMA))
            _check_arrays(archive)
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


def _check_sizes(archive: ZipFile, max_bytes: int) -> None:
    """Sizes as the archive declares them: no member is read beyond its own. Sparse matrices are archives themselves."""
    total = 0
    for info in archive.infolist():
        if info.filename != _SCHEMA and not info.filename.endswith((".npy", ".npz")):
            raise ModelFileError(f"it holds {info.filename!r}, and model files hold arrays only")
        total += info.file_size * (_GROWTH if info.filename == _SCHEMA else 1)
    _check_total(total, max_bytes)
    for info in archive.infolist():
        if info.filename.endswith(".npz"):
            with ZipFile(io.BytesIO(archive.read(info))) as inner:
                total += sum(part.file_size for part in inner.infolist())
    _check_total(total, max_bytes)


def _check_total(total: int, max_bytes: int) -> None:
    if total > max_bytes:
        raise ModelFileError(
            f"it declares content that would take {total:,} bytes, more than max_bytes={max_bytes:,}; raise that if "
            "you know where the file comes from"
        )


def _check_arrays(archive: ZipFile) -> None:
    """Every array is as long as its header says, so that none asks for memory that the file does not fill."""
    for info in archive.infolist():
        if info.filename.endswith(".npy"):
            _check_header(archive.read(info))
        elif info.filename.endswith(".npz"):
            with ZipFile(io.BytesIO(archive.read(info))) as inner:
                for part in inner.infolist():
                    _check_header(inner.read(part))


def _check_header(content: bytes) -> None:
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject or int(np.prod(shape, dtype=object)) * dtype.itemsize != len(content) - stream.tell():
        raise ModelFileError("an array in it is not as long as it says")


def refused_types(schema: dict[str, Any], extra: Iterable[str] = ()) -> list[str]:
    """Names of the types that a file must not hold, sorted; empty where it may be loaded."""
    trusted = frozenset(extra)
    refused = set()
    for node in _nodes(schema):
        loader, name = node["__loader__"], f"{node.get('__module__')}.{node.get('__class__')}"
        if not isinstance(loader, str) or not is_known(loader, name, trusted):
            refused.add(_readable(node, str(loader), name))
        elif loader == "RandomGeneratorNode" and not is_bit_generator(bit_generator := _bit_generator(node)):
            refused.add(f"numpy.random.{bit_generator}")
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


def _readable(node: dict[str, Any], loader: str, name: str) -> str:
    """The type by its name, and by the method where it is one that would be called."""
    content = node.get("content")
    if loader == "MethodNode" and isinstance(content, dict):
        return f"{name}.{content.get('func')} (a method)"
    if loader == "FunctionNode":
        return f"{name} (a function)"
    return name


def _bit_generator(node: dict[str, Any]) -> Any:
    try:
        return json.loads(node["content"]["bit_generator"]["content"]["bit_generator"]["content"])
    except (KeyError, TypeError, ValueError):
        return None
