"""Files of rows: which ones a command reads, and how the format of one is told."""

from __future__ import annotations

import gzip
import hashlib
import re
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_FORMATS = {
    "csv": (".csv", ".tsv", ".tab"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".feather", ".arrow", ".ipc"),
    "svmlight": (".svm", ".libsvm", ".svmlight"),
    "npz": (".npz",),
    "text": (".txt",),  # CSV or LIBSVM's text, told by the first line
}
_BY_SUFFIX = {suffix: format for format, suffixes in _FORMATS.items() for suffix in suffixes}
_TEXTS = ("csv", "svmlight", "text")
_KNOWN = ".csv, .tsv, .parquet, .feather, .arrow, .svm, .libsvm, .npz; text may be packed as .gz"

# The beginning of a line of LIBSVM's format: a label, then numbers with indices before them.
_SVMLIGHT = re.compile(rb"^[^\s:,;]+(?:\s+qid:\d+)?(?:\s+\d+:[^\s:]+)+\s*(?:#.*)?$")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows, or standard input (`path` is None), in one of the formats csv, parquet, arrow, svmlight, npz."""

    path: Path | None
    format: str
    gzipped: bool = False
    delimiter: str = ","

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return "standard input" if self.path is None else str(self.path)

    @property
    def source(self) -> str:
        """The name of the file without its folder, for the history in model files, which holds text alone."""
        return "standard input" if self.path is None else self.path.name.encode(errors="replace").decode()

    @property
    def is_table(self) -> bool:
        """Whether the columns have names and types."""
        return self.format in ("csv", "parquet", "arrow")

    def open(self) -> BinaryIO:
        """The file as a stream of bytes that are not compressed."""
        if self.path is None:
            return sys.stdin.buffer
        opener: Any = gzip.open if self.gzipped else open
        return opener(self.path, "rb")


def check_is_file(path: Path) -> None:
    """Refuse a path where nothing is, or a folder."""
    if not path.exists():
        raise ValueError(f"{path}: there is no such file.")
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; name a file in it.")


def digest_of(path: Path) -> str:
    """A digest of all bytes of a file."""
    check_is_file(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_data_file(path: Path) -> DataFile:
    """A file that is there and not empty, whose format is told by its name, and that of .txt by its content."""
    check_is_file(path)
    gzipped = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if gzipped else path).suffix.lower()
    if suffix not in _BY_SUFFIX:
        raise ValueError(f"{path}: the format {suffix or 'without a suffix'!r} is not known; known are {_KNOWN}.")
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{path}: is empty.")
    format = _BY_SUFFIX[suffix]
    if format not in _TEXTS:
        if gzipped:
            raise ValueError(f"{path}: only text may be packed as .gz; unpack it first.")
        return DataFile(path, format)
    first = _first_line(DataFile(path, format, gzipped))
    if format == "text":
        format = "svmlight" if _SVMLIGHT.match(first) else "csv"
    return DataFile(path, format, gzipped, delimiter_of(first))


def _first_line(file: DataFile) -> bytes:
    """The first line that is neither empty nor a comment of LIBSVM's format."""
    try:
        with file.open() as stream:
            for _ in range(100):
                line = stream.readline(1 << 20)
                if not line or (line.strip() and not line.lstrip().startswith(b"#")):
                    return line.strip()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{file.name}: is no whole gzip file ({error}).") from error
    return b""


def delimiter_of(header: bytes) -> str:
    """The delimiter of a CSV file: the most frequent of the usual four in its header."""
    return max(",;\t|", key=lambda mark: (header.count(mark.encode()), mark == ","))
