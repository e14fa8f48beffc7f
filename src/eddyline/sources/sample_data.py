"""The first rows of some data, whatever it is written in, as columns of values."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet

from eddyline.choices import FILE_ENDINGS, FORMATS
from eddyline.errors import EddylineError, SchemaError
from eddyline.model import Stream
from eddyline.sources.avro import AvroFile, UnreadableAvro, sql_schema
from eddyline.sources.csv_rows import CsvRows
from eddyline.sources.formats import FileFormat
from eddyline.sources.ingestion import infer_schema
from eddyline.sources.json_arrays import BrokenArray, array_elements
from eddyline.sources.lines import Broken, Line, LineCutter, RowCutter
from eddyline.sources.readers import UNREADABLE, sound
from eddyline.types import STRING, python_rows

MAX_BYTES = 64 << 20  # of a file of lines
STANDARD_INPUT = "standard input"
_BLOCK_BYTES = 1 << 20
_DELIMITERS = ",;\t|"
_BEGINNINGS = {b"PAR1": "parquet", b"ARROW1": "arrow", b"Obj\x01": "avro", b"{": "json", b"[": "json"}


class SampleError(EddylineError):
    """No schema can be proposed from this data."""


# --------------------------------------------------------------------------------------------- what there is


@dataclass(slots=True)
class SampleContents:
    """What was read so far."""

    delimiter: str | None
    columns: dict[str, list[Any]] = field(default_factory=dict)  # a value per row, None where there is none
    types: dict[str, pa.Field] = field(default_factory=dict)  # where the data says them itself
    strange: dict[str, str] = field(default_factory=dict)  # columns of a type SQL has not
    problems: list[str] = field(default_factory=list)  # lines that are not rows
    n_rows: int = 0

    def add(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if name not in self.columns:
                self.columns[name] = [None] * self.n_rows
            self.columns[name].append(value)
        self.n_rows += 1
        for values in self.columns.values():
            if len(values) < self.n_rows:
                values.append(None)


class SampleInput:
    """A file, or standard input, from its beginning."""

    def __init__(self, title: str, path: Path | None, stream: BinaryIO | None) -> None:
        self.title = title
        self._path = path
        self._stream: Any = stream
        self._first: bytes | None = None
        self._n_bytes = 0

    def __enter__(self) -> SampleInput:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None and self._stream is not None:
            self._stream.close()
            self._stream = self._first = None

    def beginning(self) -> bytes:
        """The first bytes, decompressed, without the mark some editors write first; they are read again by `read`."""
        if self._first is None:
            self._first = self._more()
        return self._first.removeprefix(codecs.BOM_UTF8)

    def read(self) -> bytes:
        """The next bytes; none at the end, or when enough was read."""
        first, self._first = self.beginning(), b""
        block = first or self._more()
        self._n_bytes += len(block)
        return block if self._n_bytes <= MAX_BYTES else b""

    def _more(self) -> bytes:
        try:
            if self._stream is None:
                self._stream = pa.input_stream(str(self._path))
            if self._path is not None:
                return bytes(self._stream.read_buffer(_BLOCK_BYTES))
            read = getattr(self._stream, "read1", self._stream.read)  # of a pipe: what is there
            return bytes(read(_BLOCK_BYTES))
        except UNREADABLE as error:
            raise self.unreadable(error) from None

    def whole(self) -> Any:
        """For formats that are read from anywhere."""
        if self._path is not None:
            return str(self._path)
        return io.BytesIO(self.beginning() + self._stream.read())

    def unreadable(self, error: BaseException) -> SampleError:
        detail = (
            error.strerror if isinstance(error, OSError) and error.strerror else str(error).split("\n")[0]
        )
        return SampleError(f"{self.title} cannot be read", detail=detail or type(error).__name__)

    def add_rows_as(self, file_format: str, contents: SampleContents, n_rows: int) -> None:
        """Add what is seen of its first rows. Raises SampleError."""
        try:
            _LOOKS[file_format](self, contents, n_rows)
        except (*UNREADABLE, UnreadableAvro, BrokenArray) as error:
            if not contents.n_rows:
                raise self.unreadable(error) from None
            contents.problems.append(f"{self.title} cannot be read further: {error}")


def inputs_of(sample: Path | BinaryIO, file_format: str | None) -> list[SampleInput]:
    if not isinstance(sample, Path):
        return [SampleInput(STANDARD_INPUT, None, sample)]
    try:
        if not sample.is_dir():
            sample.stat()
            return [SampleInput(str(sample), sample, None)]
        files = sorted(f for f in sample.iterdir() if f.name[0] not in "._" and f.is_file())
    except OSError as error:
        raise SampleError(f"{sample} cannot be read", detail=error.strerror) from None
    formats = [file_format] if file_format else list(FORMATS)
    known = [f for f in files if any(FileFormat(each).has_ending(f.name) for each in formats)]
    if known and file_format is None:
        first = next(each for each in FORMATS if FileFormat(each).has_ending(known[0].name))
        known = [f for f in known if FileFormat(first).has_ending(f.name)]
    chosen = known or (files if file_format else [])
    if not chosen:
        endings = ", ".join(ending for each in formats for ending in FILE_ENDINGS[each])
        raise SampleError(
            f"there is nothing to look at in {sample}",
            detail=f"No file of it ends in one of {endings}.",
            hint="Name a file, or say how the files are written with --format.",
        )
    return [SampleInput(str(f), f, None) for f in chosen]


def format_of(first: SampleInput) -> str:
    """By the ending of the name, else by how it begins."""
    for each in FORMATS:
        if FileFormat(each).has_ending(first.title):
            return each
    begins = first.beginning().lstrip()
    for beginning, each in _BEGINNINGS.items():
        if begins.startswith(beginning):
            return each
    is_text = b"\0" not in begins and "\ufffd" not in begins[:200].decode(errors="replace")[:-3]
    if is_text:
        return "csv"
    raise SampleError(
        f"it is not clear how {first.title} is written",
        hint=f"Say it with --format: {', '.join(FORMATS)}.",
    )


# --------------------------------------------------------------------------------------------- formats


def _lines(data: SampleInput) -> Iterator[Line]:
    cutter = LineCutter()
    while block := data.read():
        yield from cutter.feed(block)
    yield from cutter.end()


def _look_at_json(data: SampleInput, contents: SampleContents, n_rows: int) -> None:
    decoder = json.JSONDecoder()
    if data.beginning().lstrip()[:1] == b"[":
        for number, (value, _) in enumerate(array_elements(data.read, decoder), 1):
            _add_object(value, f"{data.title}, element {number}", contents)
            if contents.n_rows >= n_rows:
                return
        return
    for number, line in enumerate(_lines(data), 1):
        place = f"{data.title}, line {number}"
        try:
            text = (
                ""
                if isinstance(line, Broken)
                else line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            )
            if isinstance(line, Broken):
                contents.problems.append(f"{line.problem} ({place})")
            elif text:
                _add_object(decoder.decode(text), place, contents)
        except (ValueError, RecursionError):
            contents.problems.append(f"the line is not JSON ({place})")
        if contents.n_rows >= n_rows:
            return


def _add_object(value: Any, place: str, contents: SampleContents) -> None:
    if isinstance(value, dict) and all(map(_is_unicode, value)):
        contents.add(value)
    elif isinstance(value, dict):
        contents.problems.append(f"a name in it is half a character ({place})")
    else:
        contents.problems.append(f"it is not an object ({place})")


def _is_unicode(name: str) -> bool:
    """Whether it has no half of a pair of surrogates, which JSON can write alone."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _look_at_csv(data: SampleInput, contents: SampleContents, n_rows: int) -> None:
    lines = _lines(data)
    header = next((line for line in lines if len(line)), None)
    if header is None:
        return
    if isinstance(header, bytes):
        header = header.removeprefix(codecs.BOM_UTF8)
        if contents.delimiter is None:
            contents.delimiter = max(_DELIMITERS, key=lambda each: header.count(each.encode()))
    delimiter = contents.delimiter or ","
    names = _header(header, delimiter, data.title)
    rows = RowCutter(delimiter)
    stream = Stream("sample", pa.schema([pa.field(name, STRING) for name in names]))
    decoder = CsvRows(stream, "UTC", names, delimiter)
    pending: list[Line] = []
    for line in lines:
        pending += rows.feed([line])
        if contents.n_rows + len(pending) >= n_rows:
            break
    else:
        pending += rows.end()
    found = decoder.rows(pending, 2, data.title)
    contents.problems += [misfit.message for misfit in found.misfits]
    for name in names:
        contents.columns.setdefault(name, [None] * contents.n_rows)
    for row in found.rows.to_pylist():
        contents.add(row)


def _header(header: Line, delimiter: str, title: str) -> list[str]:
    try:
        names = CsvRows.header(header, delimiter)
    except SchemaError as error:
        raise SampleError(f"the first row of {title} cannot be read", detail=error.detail) from None
    for at, name in enumerate(names, 1):
        if not name:
            raise SampleError(
                f"column {at} of {title} has no name",
                hint="The first row has to name the columns; add names, or another first row.",
            )
    return names


def _look_at_parquet(data: SampleInput, contents: SampleContents, n_rows: int) -> None:
    file = pyarrow.parquet.ParquetFile(data.whole())
    _take_batches(file.schema_arrow, file.iter_batches(batch_size=n_rows), contents, n_rows)


def _look_at_arrow(data: SampleInput, contents: SampleContents, n_rows: int) -> None:
    source = data.whole()
    file = pa.OSFile(source) if isinstance(source, str) else pa.BufferReader(source.getvalue())
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    if is_file:
        reader = pa.ipc.open_file(file)
        batches = (reader.get_batch(k) for k in range(reader.num_record_batches))
    else:
        reader = pa.ipc.open_stream(file)
        batches = iter(reader)
    _take_batches(reader.schema, batches, contents, n_rows)


def _take_batches(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], contents: SampleContents, n_rows: int
) -> None:
    _take_schema(schema, contents)
    for batch in map(sound, batches):
        for row in python_rows(batch.slice(0, n_rows - contents.n_rows)):
            contents.add(row)
        if contents.n_rows >= n_rows:
            return


def _look_at_avro(data: SampleInput, contents: SampleContents, n_rows: int) -> None:
    source = data.whole()
    with open(source, "rb") if isinstance(source, str) else source as file:
        records = AvroFile(file)
        schema, strange = sql_schema(records.schema)
        contents.strange.update(strange)
        _take_schema(schema, contents)
        for record, _ in records.records():
            contents.add(record)
            if contents.n_rows >= n_rows:
                return


def _take_schema(schema: pa.Schema, contents: SampleContents) -> None:
    for f in infer_schema(schema):
        contents.types[f.name] = f
        contents.columns[f.name] = []


_LOOKS: dict[str, Callable[[SampleInput, SampleContents, int], None]] = {
    "json": _look_at_json,
    "csv": _look_at_csv,
    "parquet": _look_at_parquet,
    "arrow": _look_at_arrow,
    "avro": _look_at_avro,
}
