"""Files of rows: how the format of one is told, and tables by pyarrow, read whole or in batches, and guarded in CSV.

What is wrong with a file is said in a ValueError, with the line where it can be told.
"""

from __future__ import annotations

import io
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from taufpl._extras import require

if TYPE_CHECKING:
    from taufpl._types import Array, Vector

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
_SVMLIGHT = rb"^[^\s:,;]+(?:\s+qid:\d+)?(?:\s+\d+:[^\s:]+)+\s*(?:#.*)?$"


class DataFile(NamedTuple):
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
        import gzip

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
    import hashlib

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
        format = "svmlight" if re.match(_SVMLIGHT, first) else "csv"
    return DataFile(path, format, gzipped, delimiter_of(first))


def _first_line(file: DataFile) -> bytes:
    """The first line that is neither empty nor a comment of LIBSVM's format."""
    import gzip

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


# A row, the header too, must fit in a block: where one does not, larger blocks are tried.
_BLOCKS = (1 << 20, 1 << 24, 1 << 28)
_TOO_LONG = "straddl"
_NO_HEADER = "Empty CSV"
# Errors of pyarrow that are said again in the words of whoever has to mend the file.
_RAGGED = r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)"
_VALUE = r"(?s)column #(\d+): (?:Row #(\d+): )?CSV conversion error to ([^:]+): invalid value '(.*)'"
_TYPES = {"double": "a number", "bool": "true or false", "int64": "a whole number"}
# Errors that readers raise on a damaged file.
_DAMAGE = (OSError, ValueError, EOFError, zlib.error)


def arrow(module: str = "") -> Any:
    """The module pyarrow, or one of its parts, such as ``.compute``."""
    return require(f"pyarrow{module}", "cli", "to read tables")


def read_table(file: DataFile, text: str | None = None) -> Any:
    """A whole file as a pyarrow.Table, with the types that the values of all rows suggest.

    One column of a CSV file can be read as the texts that stand there.
    """
    types = {}
    if text is not None and file.format == "csv":
        names = read_names(file)
        check_names(file, names)
        types = {name: arrow().string() if name == text else None for name in names}
    with _explaining(file, types):
        if file.format == "csv":
            table = _read_csv(file, types)
        else:
            with _columnar(file) as (schema, batches):
                table = arrow().Table.from_batches(batches(None, 1 << 16), schema)
        names = table.column_names
    check_names(file, names)
    if not table.num_rows:
        raise ValueError(f"{file.name}: has a header, but no rows.")
    return table


def read_names(file: DataFile, header: bytes | None = None) -> list[str]:
    """Names of the columns, from the beginning of the file, or from a header line that has been read already."""
    with _explaining(file, header=header):
        return _names(file, header)


def _names(file: DataFile, header: bytes | None) -> list[str]:
    if file.format != "csv":
        with _columnar(file) as (schema, _):
            return list(schema.names)
    if header is None:
        with file.open() as stream:
            header = stream.readline()
    line = header.rstrip(b"\r\n") + b"\n"
    return list(arrow(".csv").read_csv(_memory_file(line), **_csv_options(file, block=len(line))).column_names)


def _memory_file(text: bytes) -> Any:
    """Some bytes to read as a file, in memory of Arrow.

    A thread of Arrow may be the last to let go of them: were they Python's, it would need the interpreter for that,
    and where that is about to end the process would crash.
    """
    memory = arrow().BufferOutputStream()
    memory.write(text)
    return arrow().BufferReader(memory.getvalue())


def stream_table(file: DataFile, types: Mapping[str, Any], rows: int) -> Iterator[Any]:
    """Columns of a file in record batches of at most `rows` rows.

    `types` names the columns and, for CSV, the types that they are read as; None leaves a type open.
    """
    with _explaining(file, types):
        for batch in _csv_batches(file, types) if file.format == "csv" else _columnar_batches(file, types, rows):
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)


def _columnar_batches(file: DataFile, types: Mapping[str, Any], rows: int) -> Iterator[Any]:
    with _columnar(file) as (_, batches):
        yield from batches(list(types), rows)


@contextmanager
def _columnar(file: DataFile) -> Iterator[tuple[Any, Callable[[list[str] | None, int], Iterator[Any]]]]:
    """Schema of a Parquet or Arrow file, and a function that reads columns, or all (None), in batches of rows."""
    if file.format == "parquet":
        with arrow(".parquet").ParquetFile(file.path) as parquet:
            yield parquet.schema_arrow, lambda names, rows: parquet.iter_batches(batch_size=rows, columns=names)
        return
    ipc = arrow(".ipc")
    with arrow().memory_map(str(file.path)) as memory:
        try:
            reader = ipc.open_file(memory)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        except ValueError:
            # The other format of Arrow, for streams.
            memory.seek(0)
            reader = batches = ipc.open_stream(memory)
        yield reader.schema, lambda names, _: (each if names is None else each.select(names) for each in batches)


def _csv_batches(file: DataFile, types: Mapping[str, Any]) -> Iterator[Any]:
    """Batches of a CSV file; after a row that is longer than a block, the rest in larger ones."""
    done = 0
    for block in _BLOCKS:
        seen = 0
        try:
            with arrow(".csv").open_csv(str(file.path), **_csv_options(file, types, block=block)) as reader:
                for batch in reader:
                    seen += batch.num_rows
                    if seen > done:
                        yield batch.slice(max(0, batch.num_rows - (seen - done)))
                        done = seen
            return
        except ValueError as error:
            if not _may_fit(error, block):
                raise


def parse_rows(file: DataFile, header: bytes, lines: bytes, types: Mapping[str, Any]) -> list[Any]:
    """Lines of a CSV stream under its header, as batches."""
    text = header.rstrip(b"\r\n") + b"\n" + lines
    with _explaining(file, types, header):
        options = _csv_options(file, types, block=len(text), threads=False)
        return list(arrow(".csv").read_csv(_memory_file(text), **options).combine_chunks().to_batches())


def _read_csv(file: DataFile, types: Mapping[str, Any] | None = None, *, threads: bool = True) -> Any:
    # Parsing takes more memory than its result, and the allocator of the system is the one that gives it back.
    arrow().set_memory_pool(arrow().system_memory_pool())
    for block in _BLOCKS:
        try:
            return arrow(".csv").read_csv(str(file.path), **_csv_options(file, types, block=block, threads=threads))
        except ValueError as error:
            if not _may_fit(error, block):
                raise


def _may_fit(error: ValueError, block: int) -> bool:
    """Whether a larger block may hold the row, or the header, that this one does not."""
    return block < _BLOCKS[-1] and any(words in str(error) for words in (_TOO_LONG, _NO_HEADER))


def _csv_options(
    file: DataFile, types: Mapping[str, Any] | None = None, *, block: int, threads: bool = True
) -> dict[str, Any]:
    csv, columns = arrow(".csv"), types or {}
    return {
        "read_options": csv.ReadOptions(use_threads=threads, block_size=max(_BLOCKS[0], block)),
        "parse_options": csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=True),
        # An empty field is missing, in text too. No columns: all of them.
        "convert_options": csv.ConvertOptions(
            strings_can_be_null=True,
            column_types={name: kind for name, kind in columns.items() if kind is not None},
            include_columns=list(columns),
        ),
    }


def guess_type(values: Any) -> Any:
    """A column of texts, read as the type that a CSV file with these values alone would have."""
    pa, csv, compute = arrow(), arrow(".csv"), arrow(".compute")
    coded = values.combine_chunks().dictionary_encode()
    # Equal texts say the same, and an empty first line would be no row.
    different = pa.table({"value": coded.dictionary, "place": pa.array(range(len(coded.dictionary)))})
    memory = pa.BufferOutputStream()
    csv.write_csv(different, memory)
    # A line is a text, whose quotation marks are doubled, and its place; it must fit in a block.
    longest = compute.max(compute.binary_length(coded.dictionary)).as_py() or 0
    options = _csv_options(DataFile(None, "csv"), block=2 * longest + 100)
    read = csv.read_csv(pa.BufferReader(memory.getvalue()), **options).column("value")
    return values if pa.types.is_string(read.type) else read.take(coded.indices)


def doubles_of(values: Any) -> Vector:
    """Numbers of pyarrow as doubles, NaN where one is missing."""
    doubles: Vector = values.cast(arrow().float64(), safe=False).to_numpy(zero_copy_only=False)
    return doubles


def timestamps_of(values: Any) -> Array:
    """Dates of pyarrow, or texts that are dates, as those of NumPy to the microsecond; a time zone becomes UTC.

    A text that is no date is a ValueError.
    """
    pa, zone = arrow(), getattr(values.type, "tz", None)
    if not pa.types.is_temporal(values.type):
        values, zone = _parsed_dates(values), None
    timestamps: Array = values.cast(pa.timestamp("us", zone), safe=False).to_numpy(zero_copy_only=False)
    return timestamps.astype("datetime64[us]")


def _parsed_dates(texts: Any) -> Any:
    """Texts of one kind, with or without a time zone, as dates."""
    pa = arrow()
    *others, last = (pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in ("UTC", None))
    for kind in others:
        with suppress(ValueError):
            return texts.cast(kind)
    return texts.cast(last)


def check_names(file: DataFile, names: list[str]) -> None:
    """Refuse two columns with one name: nobody could tell them apart."""
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"{file.name}: there are two columns named {twice[0]!r}; give them different names.")


@contextmanager
def _explaining(file: DataFile, types: Mapping[str, Any] | None = None, header: bytes | None = None) -> Iterator[None]:
    """Turn errors of readers into a sentence that says where the file is damaged."""
    try:
        yield
    except _DAMAGE as error:
        raise ValueError(f"{file.name}{_reason(file, error, types, header)}") from error


def _reason(file: DataFile, error: Exception, types: Mapping[str, Any] | None, header: bytes | None) -> str:
    """An error in words; of a CSV file with the line, which one more reading without threads tells."""
    text = str(error)
    if isinstance(error, EOFError | zlib.error) or (
        file.gzipped and isinstance(error, OSError) and error.errno is None
    ):
        return f": is no whole gzip file ({_short(text)})."
    if isinstance(error, OSError) and error.errno is not None:
        return f": cannot be read ({error.strerror or error})."
    if file.format != "csv":
        return f": is damaged, or no file in the format {file.format} ({_short(text)})."
    if not (re.search(_RAGGED, text) or re.search(_VALUE, text)):
        return _csv_reason(file, text, [])
    if "Row #" not in text and file.path is not None:
        try:
            _read_csv(file, types, threads=False)
        except ValueError as again:
            text = str(again)
    names: list[str] = []
    # A header that cannot be read either is no reason to fail at explaining: columns then have numbers.
    with suppress(*_DAMAGE):
        names = _names(file, header)
    return _csv_reason(file, text, names)


def _csv_reason(file: DataFile, text: str, names: list[str]) -> str:
    ragged, value = re.search(_RAGGED, text), re.search(_VALUE, text)
    if ragged:
        line, expected, got = ragged.groups()
        return f"{_line(file, line)}: {got} fields where the header has {expected}. Mend or remove that row."
    if value:
        place, line, kind, found = value.groups()
        column = names[int(place)] if int(place) < len(names) else int(place) + 1
        return f"{_line(file, line)}, column {column!r}: {_short(found)!r} is not {_TYPES.get(kind, kind)}."
    if "UTF8" in text or "utf-8" in text:
        return ": is not encoded in UTF-8. Save it so, for example: iconv -f latin1 -t utf-8."
    if _TOO_LONG in text:
        return f": a row is longer than {_BLOCKS[-1] >> 20} MiB. Is a quotation mark opened and never closed?"
    if _NO_HEADER in text:
        return ": is empty, or no CSV file."
    return f": is no CSV file ({_short(text)})."


def _line(file: DataFile, row: str | None) -> str:
    return f", line {_line_of_row(file, int(row))}" if row else ""


def _line_of_row(file: DataFile, row: int) -> int:
    """The line where a row begins: pyarrow counts rows, without empty lines, and values may go over several lines.

    The row itself where the file cannot be read once more.
    """
    import csv

    if file.path is None or not file.path.is_file():
        return row
    with (
        suppress(csv.Error, *_DAMAGE),
        file.open() as stream,
        io.TextIOWrapper(stream, "utf-8", errors="replace", newline="") as text,
    ):
        reader, n_rows, end = csv.reader(text, delimiter=file.delimiter), 0, 0
        for values in reader:
            n_rows += bool(values)
            if n_rows == row:
                return end + 1
            end = reader.line_num
    return row


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"


def is_number(value: Any) -> bool:
    """Whether a text, or whatever a cell holds, is a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


# What begins a formula in one spreadsheet or another; tabs and line ends before it are skipped by some.
_FORMULA = r"^[=+\-@\t\r\n]"
# A sign with a number after it is that number.
_NUMBER = r"^[+\-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+\-]?[0-9]+)?$"


def guard_formulas(table: Any) -> tuple[Any, int]:
    """Put an apostrophe before every text of a pyarrow.Table that begins a formula, names of columns included.

    Numbers, and texts that are numbers, stay as they are. The number of cells that were changed is returned, too.
    """
    columns, counts = zip(*map(_guarded, table.columns), strict=True)
    names, _ = _guarded(arrow().array(table.column_names))
    return arrow().table(list(columns), names=names.to_pylist()), sum(counts)


def _guarded(values: Any) -> tuple[Any, int]:
    pa, compute = arrow(), arrow(".compute")
    types = pa.types
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (types.is_string(values.type) or types.is_large_string(values.type) or types.is_string_view(values.type)):
        return values, 0
    values = values.cast(pa.large_string())
    is_formula = compute.and_not(
        compute.match_substring_regex(values, _FORMULA), compute.match_substring_regex(values, _NUMBER)
    )
    mark, nothing = (pa.scalar(text, pa.large_string()) for text in ("'", ""))
    marked = compute.binary_join_element_wise(mark, values, nothing)
    return compute.if_else(is_formula, marked, values), compute.sum(is_formula).as_py() or 0
