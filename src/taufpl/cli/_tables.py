"""Reading tables by pyarrow: CSV, Parquet and Arrow, as a whole or in batches."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from taufpl._extras import require
from taufpl.cli._source import Source

# A row must fit in a block: where one does not, larger blocks are tried.
_BLOCKS = (1 << 20, 1 << 24, 1 << 28)
_TOO_LONG = "straddl"
# What pyarrow says, in the words of whoever has to mend the file.
_RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_VALUE = re.compile(r"column #(\d+): (?:Row #(\d+): )?CSV conversion error to ([^:]+): invalid value '(.*)'", re.DOTALL)
_KINDS = {"double": "a number", "bool": "true or false", "int64": "a whole number"}


# What readers raise on a file that is not what it should be.
_DAMAGE = (OSError, ValueError, EOFError, zlib.error)


def arrow() -> Any:
    """The module pyarrow."""
    return require("pyarrow", "cli", "to read tables")


def read_table(source: Source) -> Any:
    """All of a table, with the types that its values suggest.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    ValueError
        The file is damaged; the message says where.
    """
    try:
        if source.format == "csv":
            table = _read_csv(source, threads=True)
        elif source.format == "parquet":
            table = require("pyarrow.parquet", "cli", "to read Parquet").read_table(source.path)
        else:
            with arrow().memory_map(str(source.path)) as file:
                table = _open_arrow(file).read_all()
        names = table.column_names
    except _DAMAGE as error:
        raise _explained(source, error) from error
    check_names(source, names)
    if not table.num_rows:
        raise ValueError(f"{source.name}: has a header, but no rows.")
    return table


def read_names(source: Source) -> list[str]:
    """Names of the columns, from the beginning of the file."""
    try:
        return _names(source)
    except _DAMAGE as error:
        raise _explained(source, error) from error


def _names(source: Source) -> list[str]:
    if source.format == "csv":
        with source.open() as stream:
            return _header_names(source, stream.readline())
    if source.format == "parquet":
        return list(require("pyarrow.parquet", "cli", "to read Parquet").read_schema(source.path).names)
    with arrow().memory_map(str(source.path)) as file:
        return list(_open_arrow(file).schema.names)


def csv_names(source: Source, header: bytes) -> list[str]:
    """Names in a header line."""
    try:
        return _header_names(source, header)
    except ValueError as error:
        raise ValueError(f"{source.name}{_csv_reason(str(error), [])}") from error


def _header_names(source: Source, header: bytes) -> list[str]:
    csv = require("pyarrow.csv", "cli", "to read CSV")
    line = header.rstrip(b"\r\n") + b"\n"
    table = csv.read_csv(
        arrow().BufferReader(line), _reading(csv, len(line)), parse_options=_parsing(csv, source.delimiter)
    )
    return list(table.column_names)


def stream_table(source: Source, types: Mapping[str, Any], rows: int) -> Iterator[Any]:
    """A table batch by batch.

    Parameters
    ----------
    source : Source
    types : mapping of str to pyarrow.DataType
        The columns that are wanted, and, for CSV, the types that they are read as; None leaves a type open.
    rows : int
        The most rows that a batch may have.

    Yields
    ------
    pyarrow.RecordBatch
    """
    try:
        for batch in _batches(source, types, rows):
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
    except _DAMAGE as error:
        raise _explained(source, error, types) from error


def _batches(source: Source, types: Mapping[str, Any], rows: int) -> Iterator[Any]:
    wanted = list(types)
    if source.format == "parquet":
        with require("pyarrow.parquet", "cli", "to read Parquet").ParquetFile(source.path) as file:
            yield from file.iter_batches(batch_size=rows, columns=wanted)
    elif source.format == "arrow":
        with arrow().memory_map(str(source.path)) as memory:
            file = _open_arrow(memory)
            for place in range(getattr(file, "num_record_batches", 0)):
                yield file.get_batch(place).select(wanted)
            if not hasattr(file, "num_record_batches"):
                yield from (batch.select(wanted) for batch in file)
    else:
        yield from _csv_batches(source, types)


def _csv_batches(source: Source, types: Mapping[str, Any]) -> Iterator[Any]:
    """Batches of a CSV file; after a row that is longer than a block, the rest in larger ones."""
    csv = require("pyarrow.csv", "cli", "to read CSV")
    done = 0
    for block in _BLOCKS:
        seen = 0
        try:
            with csv.open_csv(
                str(source.path),
                read_options=_reading(csv, block),
                parse_options=_parsing(csv, source.delimiter),
                convert_options=_converting(csv, types),
            ) as reader:
                for batch in reader:
                    seen += batch.num_rows
                    if seen > done:
                        yield batch.slice(max(0, batch.num_rows - (seen - done)))
                        done = seen
            return
        except ValueError as error:
            if _TOO_LONG not in str(error) or block == _BLOCKS[-1]:
                raise


def parse_rows(source: Source, header: bytes, lines: bytes, types: Mapping[str, Any]) -> Any:
    """Some lines of a CSV stream, under its header."""
    csv = require("pyarrow.csv", "cli", "to read CSV")
    try:
        table = csv.read_csv(
            arrow().BufferReader(header + lines),
            read_options=_reading(csv, len(header + lines), threads=False),
            parse_options=_parsing(csv, source.delimiter),
            convert_options=_converting(csv, types),
        )
    except ValueError as error:
        raise ValueError(f"{source.name}{_csv_reason(str(error), csv_names(source, header))}") from error
    return arrow().RecordBatch.from_arrays(
        [arrow().concat_arrays(column.chunks) if column.num_chunks else [] for column in table.columns],
        schema=table.schema,
    )


def _read_csv(source: Source, *, threads: bool, types: Mapping[str, Any] | None = None) -> Any:
    csv = require("pyarrow.csv", "cli", "to read CSV")
    # Parsing takes more memory than its result, and the allocator of the system is the one that gives it back.
    arrow().set_memory_pool(arrow().system_memory_pool())
    for block in _BLOCKS:
        try:
            return csv.read_csv(
                str(source.path),
                read_options=_reading(csv, block, threads=threads),
                parse_options=_parsing(csv, source.delimiter),
                convert_options=_converting(csv, types),
            )
        except ValueError as error:
            if _TOO_LONG not in str(error) or block == _BLOCKS[-1]:
                raise


def _reading(csv: Any, n_bytes: int, *, threads: bool = True) -> Any:
    return csv.ReadOptions(use_threads=threads, block_size=max(_BLOCKS[0], n_bytes))


def guess_type(values: Any) -> Any:
    """A column of texts, read as the type that a CSV file with these values alone would have."""
    pa, csv = arrow(), require("pyarrow.csv", "cli", "to read CSV")
    coded = values.combine_chunks().dictionary_encode()
    # Equal texts say the same, and an empty first line would be no row.
    different = pa.table({"value": coded.dictionary, "place": pa.array(range(len(coded.dictionary)))})
    memory = pa.BufferOutputStream()
    csv.write_csv(different, memory)
    # A line is a text, whose quotation marks are doubled, and its place; it must fit in a block.
    compute = require("pyarrow.compute", "cli", "to read CSV")
    longest = compute.max(compute.binary_length(coded.dictionary)).as_py() or 0
    read = csv.read_csv(
        pa.BufferReader(memory.getvalue()),
        read_options=_reading(csv, 2 * longest + 100),
        parse_options=_parsing(csv, ","),
        convert_options=_converting(csv, None),
    ).column("value")
    return values if pa.types.is_string(read.type) else read.take(coded.indices)


def _parsing(csv: Any, delimiter: str) -> Any:
    return csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _converting(csv: Any, types: Mapping[str, Any] | None) -> Any:
    """An empty field is missing, in text too."""
    if types is None:
        return csv.ConvertOptions(strings_can_be_null=True)
    fixed = {name: kind for name, kind in types.items() if kind is not None}
    return csv.ConvertOptions(strings_can_be_null=True, column_types=fixed, include_columns=list(types))


def _open_arrow(file: Any) -> Any:
    """The file format of Arrow, or its stream format."""
    ipc = require("pyarrow.ipc", "cli", "to read Arrow")
    try:
        return ipc.open_file(file)
    except ValueError:
        file.seek(0)
        return ipc.open_stream(file)


def check_names(source: Source, names: list[str]) -> None:
    """Refuse two columns with one name: nobody could tell them apart."""
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"{source.name}: there are two columns named {twice[0]!r}; give them different names.")


def _explained(source: Source, error: Exception, types: Mapping[str, Any] | None = None) -> ValueError:
    """The error in words; of a CSV file with the line, which one more reading without threads tells."""
    packing = isinstance(error, EOFError | zlib.error | gzip.BadGzipFile)
    if packing or (source.packed and isinstance(error, OSError) and error.errno is None):
        return ValueError(f"{source.name}: is no whole gzip file ({_short(str(error))}).")
    if isinstance(error, OSError) and error.errno is not None:
        return ValueError(f"{source.name}: cannot be read ({error.strerror or error}).")
    text = str(error)
    if source.format != "csv":
        return ValueError(f"{source.name}: is damaged, or no file in the format {source.format} ({_short(text)}).")
    known = _RAGGED.search(text) or _VALUE.search(text)
    if known and "Row #" not in text:
        try:
            _read_csv(source, threads=False, types=types)
        except ValueError as again:
            text = str(again)
    names: list[str] = []
    if known:
        # A header that cannot be read either is no reason to fail at explaining: columns then have numbers.
        with suppress(*_DAMAGE):
            names = _names(source)
    return ValueError(f"{source.name}{_csv_reason(text, names)}")


def _csv_reason(text: str, names: list[str]) -> str:
    ragged, value = _RAGGED.search(text), _VALUE.search(text)
    if ragged:
        line, expected, got = ragged.groups()
        return f"{_line(line)}: {got} fields where the header has {expected}. Mend or remove that row."
    if value:
        place, line, kind, found = value.groups()
        column = names[int(place)] if int(place) < len(names) else int(place) + 1
        return f"{_line(line)}, column {column!r}: {_short(found)!r} is not {_KINDS.get(kind, kind)}."
    if "UTF8" in text or "utf-8" in text:
        return ": is not encoded in UTF-8. Save it so, for example: iconv -f latin1 -t utf-8."
    if _TOO_LONG in text:
        return f": a row is longer than {_BLOCKS[-1] >> 20} MiB. Is a quotation mark opened and never closed?"
    if "Empty CSV" in text:
        return ": is empty, or no CSV file."
    return f": is no CSV file ({_short(text)})."


def _line(number: str | None) -> str:
    return f", line {number}" if number else ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"
