"""Data sets in a folder: LIBSVM's text, plain or packed, and its parsed form."""

from __future__ import annotations

import bz2
import contextlib
import hashlib
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy.sparse import csr_matrix, vstack
from sklearn.datasets import load_svmlight_file

from taufpl._files import written_whole
from taufpl._types import Array
from taufpl.datasets._registry import DatasetInfo, TextFile
from taufpl.exceptions import DatasetError

_OPENERS: dict[str, Any] = {"": open, ".bz2": bz2.open, ".xz": lzma.open}
# Exceptions that reading a damaged file may raise; packed text and archives have their own.
_DAMAGE = (OSError, EOFError, KeyError, TypeError, ValueError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


# Features in CSR, and labels 0 and 1.
LabelledRows = tuple[Any, Array]


def find_text(file: TextFile, folder: Path) -> Path | None:
    """Path of a file in a folder, under its own name or packed; None if it is not there."""
    candidates = (folder / f"{file.name}{ending}" for ending in _OPENERS)
    return next((path for path in candidates if path.is_file()), None)


def read_text(info: DatasetInfo, paths: list[Path]) -> LabelledRows:
    """Parse the files of a data set and join them."""
    parts = [_parse(info, file, path) for file, path in zip(info.files, paths, strict=True)]
    data = vstack([data for data, _ in parts], format="csr")
    where = " and ".join(str(path) for path in paths)
    return _check(info, csr_matrix(data), np.concatenate([labels for _, labels in parts]), where)


def read_parsed(info: DatasetInfo, path: Path) -> LabelledRows:
    """Read what SciPy's ``save_npz`` writes, with the labels beside it under the key ``y``."""
    try:
        # NumPy leaves a file open that turns out to be no archive, unless it was given an open one.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = (archive["data"].astype(np.float64, copy=False), archive["indices"], archive["indptr"])
            data = csr_matrix(arrays, shape=tuple(int(size) for size in archive["shape"]))
            labels = archive["y"]
        data.check_format(full_check=True)
    except _DAMAGE as error:
        raise DatasetError(f"{path} is damaged or has another layout ({_reason(error)}). Remove it.") from error
    return _check(info, data, labels, str(path))


def write_parsed(info: DatasetInfo, rows: LabelledRows, folder: Path) -> None:
    """Keep the parsed form for the next call, whole or not at all."""
    data, target = rows
    # Where it cannot be written, the next call parses the text again.
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with written_whole(folder / f"{info.name}.npz") as draft, draft.open("xb") as stream:
            np.savez_compressed(
                stream,
                data=data.data,
                indices=data.indices,
                indptr=data.indptr,
                shape=np.array(data.shape),
                format=np.array(b"csr"),
                y=(2 * target - 1).astype(np.int8),
                n_train=np.array(info.n_train),
            )


def new_digest(checksum: str) -> Any:
    """The hash that a checksum of the form ``"sha256:..."`` was made with."""
    return hashlib.new(checksum.partition(":")[0], usedforsecurity=False)


class _Lines:
    """Lines of a file, hashed while they are parsed, since unpacking the file twice would be slow."""

    def __init__(self, stream: BinaryIO, digest: Any) -> None:
        self._stream = stream
        self._digest = digest
        self.read = stream.read  # the parser only asks whether there is such a method

    def __iter__(self) -> Iterator[bytes]:
        for line in self._stream:
            self._digest.update(line)
            yield line


def _parse(info: DatasetInfo, file: TextFile, path: Path) -> tuple[Any, Array]:
    expected = file.text_checksum
    digest = new_digest(expected or "sha256:")
    try:
        with _OPENERS[path.suffix if path.suffix in _OPENERS else ""](path, "rb") as stream:
            data, labels = load_svmlight_file(_Lines(stream, digest), n_features=info.n_features, zero_based=False)
    except _DAMAGE as error:
        raise DatasetError(f"{path} is no complete file in LIBSVM's format ({_reason(error)}). Remove it.") from error
    found = f"{digest.name}:{digest.hexdigest()}"
    if expected is not None and found != expected:
        raise DatasetError(f"{path} is not the file that LIBSVM publishes: {found}, not {expected}. Remove it.")
    if data.shape[0] != file.n_rows:
        raise DatasetError(f"{path} has {data.shape[0]:,} rows, not {file.n_rows:,}. Remove it.")
    return data, labels


def _check(info: DatasetInfo, data: Any, labels: Array, where: str) -> LabelledRows:
    """Check shape and class counts against the known ones, and tell the positive class by its count."""
    if data.shape != info.shape or labels.shape != info.shape[:1]:
        raise DatasetError(
            f"{where}: shape {data.shape} with {labels.size:,} labels, but {info.name} has shape {info.shape}. "
            "Remove it."
        )
    if not np.isfinite(data.data).all():
        raise DatasetError(f"{where}: some values are not finite numbers. Remove it.")
    values, counts = np.unique(labels, return_counts=True)
    classes = dict(zip(counts.tolist(), values.tolist(), strict=True))
    if sorted(counts.tolist()) != sorted((info.n_positive, info.n_negative)):
        raise DatasetError(
            f"{where}: classes of {' and '.join(f'{count:,}' for count in counts)} rows, but {info.name} has "
            f"{info.n_positive:,} positives and {info.n_negative:,} negatives. Remove it."
        )
    data.sum_duplicates()
    return data, (labels == classes[info.n_positive]).astype(np.int64)


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
