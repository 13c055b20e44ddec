"""Which files can be read, and how a file's format is told."""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_BY_SUFFIX = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".svmlight": "svmlight",
    ".npz": "npz",
}
KNOWN = ".csv, .tsv, .parquet, .feather, .arrow, .svm, .libsvm, .npz; text may be packed as .gz"
TABLES = ("csv", "parquet", "arrow")

# The beginning of a line of LIBSVM's format: a label, then numbers with indices before them.
_SVMLIGHT = re.compile(rb"^[^\s:,;]+(?:\s+qid:\d+)?(?:\s+\d+:[^\s:]+)+\s*(?:#.*)?$")


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or standard input, and its format.

    Attributes
    ----------
    path : Path or None
        None is standard input.
    format : {"csv", "parquet", "arrow", "svmlight", "npz"}
    packed : bool
        Whether it is gzipped.
    delimiter : str
        Of a CSV file.
    """

    path: Path | None
    format: str
    packed: bool = False
    delimiter: str = ","

    @property
    def name(self) -> str:
        """What errors call it."""
        return "standard input" if self.path is None else str(self.path)

    def open(self) -> BinaryIO:
        """The bytes, unpacked."""
        if self.path is None:
            return sys.stdin.buffer
        opener: Any = gzip.open if self.packed else open
        return opener(self.path, "rb")


def find_source(path: Path) -> Source:
    """Tell the format of a file by its name, and that of .txt by its content.

    Raises
    ------
    ValueError
        There is no such file, it is empty, or its format is not known.
    """
    if not path.exists():
        raise ValueError(f"{path}: there is no such file.")
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; name a file in it.")
    packed = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if packed else path).suffix.lower()
    if suffix not in _BY_SUFFIX and suffix != ".txt":
        raise ValueError(f"{path}: the format {suffix or 'without a suffix'!r} is not known; known are {KNOWN}.")
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{path}: is empty.")
    kind = _BY_SUFFIX.get(suffix)
    if packed and kind not in ("csv", "svmlight", None):
        raise ValueError(f"{path}: only text may be packed as .gz; unpack it first.")
    if kind not in ("csv", "svmlight", None):
        assert kind is not None
        return Source(path, kind)
    first = _first_line(path, packed)
    if kind is None:
        kind = "svmlight" if _SVMLIGHT.match(first) else "csv"
    return Source(path, kind, packed, delimiter_of(first))


def standard_input() -> Source:
    """Standard input, as CSV with a header; its delimiter is told when the header has come."""
    return Source(None, "csv")


def _first_line(path: Path, packed: bool) -> bytes:
    """The first line that is neither empty nor a comment of LIBSVM's format."""
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            for _ in range(100):
                line = file.readline(1 << 20)
                if not line or (line.strip() and not line.lstrip().startswith(b"#")):
                    return line.strip()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: is no whole gzip file ({error}).") from error
    return b""


def delimiter_of(header: bytes) -> str:
    """The most frequent of the usual ones in the header."""
    return max(",;\t|", key=lambda mark: (header.count(mark.encode()), mark == ","))
