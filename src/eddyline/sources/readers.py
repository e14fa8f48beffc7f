"""Files of JSON, CSV, Parquet, Arrow and Avro, read piece by piece, from any place where reading ended before.

Only a piece is in memory at a time: a block of lines or records, a batch of a row group. What Arrow or the system say about a
file that cannot be read leaves as `UnreadableFile`.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet

from eddyline.model import Stream
from eddyline.sources.avro import AvroFile, RecordRows, UnreadableAvro, written_columns
from eddyline.sources.columns import may_become
from eddyline.sources.csv_rows import CsvRows
from eddyline.sources.formats import COMPRESSIONS, FileFormat
from eddyline.sources.ingestion import IngestedRows, ingest
from eddyline.sources.json_arrays import BrokenArray, array_elements
from eddyline.sources.json_lines import JsonLines
from eddyline.sources.lines import Line, LineCutter, LineQueue, RowCutter, n_lines
from eddyline.sources.payloads import Decoder
from eddyline.sources.positions import FilePlace
from eddyline.sources.rows import ARRIVAL, may_hold
from eddyline.sources.schema_changes import FileColumn, SchemaChange, SchemaChanged, change_of
from eddyline.types import NULL, canonical, type_name

BLOCK_BYTES = 1 << 20
_BOM = codecs.BOM_UTF8
UNREADABLE = (OSError, pa.ArrowException, EOFError, UnicodeDecodeError)  # what Arrow raises at damaged files


class UnreadableFile(Exception):
    """The rest of a file cannot be read; it may be that it is still being written."""


class FileReader(Protocol):
    """One open file."""

    place: FilePlace  # where the next read begins

    def read(self, max_rows: int, max_bytes: int) -> IngestedRows | None:
        """The next rows; None at the end. Raises UnreadableFile, and SchemaError if the file can never fit the stream."""
        ...

    def close(self) -> None: ...


def open_file(
    path: Path,
    file_format: FileFormat,
    stream: Stream,
    time_zone: str,
    place: FilePlace,
    needed: frozenset[str] | None = None,
    n_rows: int | None = None,
) -> FileReader:
    """Open a file where reading is to go on.

    With `needed`, a file of columns leaves others out if that changes no row. With `n_rows`, no more are going to be read, and
    none behind them need be looked at.

    Raises UnreadableFile; SchemaChanged if it has columns the stream is to have first; SchemaError if it can never fit.
    """
    try:
        if file_format.name == "parquet":
            return _Batches(path.name, stream, time_zone, place, _ParquetFile(path, n_rows), needed)
        if file_format.name == "arrow":
            return _Batches(path.name, stream, time_zone, place, _ArrowFile(path), needed)
        if file_format.name == "avro":
            return _AvroRecords(path, stream, time_zone, place)
        if file_format.name == "csv":
            return _csv_file(path, stream, time_zone, place, file_format)
        blocks = _Blocks(path)
        if blocks.begins_array():
            return _JsonArray(path.name, stream, time_zone, place, blocks)
        return _LineFile(path.name, JsonLines(stream, time_zone), place, blocks)
    except UNREADABLE as error:
        raise UnreadableFile(_reason(error)) from None


def _reason(error: BaseException) -> str:
    """What went wrong, without the path: the folder may be a secret."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return first.split(". Detail:")[0][:300]


# --------------------------------------------------------------------------------------------- text


class _Blocks:
    """The bytes of a file, decompressed, block by block."""

    def __init__(self, path: Path) -> None:
        self._is_plain = not path.name.lower().endswith(COMPRESSIONS)
        self._file: Any = open(path, "rb") if self._is_plain else pa.input_stream(str(path))  # noqa: SIM115
        self._ahead = self._first = self._more()

    def begins_array(self) -> bool:
        return self._first.removeprefix(_BOM).lstrip()[:1] == b"["

    def skip_to(self, byte: int) -> int:
        """From the beginning to a byte, or to behind the mark some editors write first; returns which byte that is."""
        if byte == 0 and self._first.startswith(_BOM):
            byte = len(_BOM)
        if self._is_plain:
            self._file.seek(byte)
            self._ahead = b""
            return byte
        n_remaining = byte
        while n_remaining > 0 and (block := self.read()):
            self._ahead = block[n_remaining:]
            n_remaining -= len(block)
        return byte

    def read(self) -> bytes:
        """The next bytes; none at the end."""
        block, self._ahead = self._ahead, b""
        return block or self._more()

    def _more(self) -> bytes:
        try:
            if self._is_plain:
                return bytes(self._file.read(BLOCK_BYTES))
            return bytes(self._file.read_buffer(BLOCK_BYTES))  # `read` never frees its bytes when it raises
        except UNREADABLE as error:
            raise UnreadableFile(_reason(error)) from None

    def close(self) -> None:
        self._file.close()


class _LineFile:
    """A file of lines, or of CSV rows, from a place on."""

    def __init__(
        self,
        name: str,
        decoder: Decoder,
        place: FilePlace,
        blocks: _Blocks,
        rows_of: RowCutter | None = None,
    ) -> None:
        self.place = FilePlace(place.n_rows, blocks.skip_to(place.byte), place.line)
        self._name = name
        self._decoder = decoder
        self._blocks = blocks
        self._lines_of = LineCutter()
        self._rows_of = rows_of
        self._pending_lines = LineQueue()
        self._is_end = False

    def read(self, max_rows: int, max_bytes: int) -> IngestedRows | None:
        while not self._is_end and not self._pending_lines.is_full(max_rows, max_bytes):
            self._pending_lines.add(self._next_rows())
        lines = self._pending_lines.take(max_rows, max_bytes)
        if not lines:
            return None
        rows = self._decoder.rows(lines, self.place.line, self._name)
        self.place = FilePlace(
            self.place.n_rows + len(lines),
            self.place.byte + sum(map(len, lines)) + len(lines),
            self.place.line + n_lines(lines),
        )
        return rows

    def _next_rows(self) -> list[Line]:
        block = self._blocks.read()
        if block:
            lines = self._lines_of.feed(block)
            return lines if self._rows_of is None else self._rows_of.feed(lines)
        self._is_end = True
        lines = self._lines_of.end()
        return lines if self._rows_of is None else [*self._rows_of.feed(lines), *self._rows_of.end()]

    def close(self) -> None:
        self._blocks.close()


def _csv_file(
    path: Path, stream: Stream, time_zone: str, place: FilePlace, file_format: FileFormat
) -> FileReader:
    columns = file_format.columns
    if not columns:
        header_place, columns = _csv_header(path, file_format.delimiter)
        if not columns:
            return _LineFile(path.name, CsvRows(stream, time_zone, stream.schema.names), place, _Blocks(path))
        place = header_place if place.byte == 0 else place
    header_of = None if file_format.columns else f"file {path.name}"
    decoder = CsvRows(stream, time_zone, columns, file_format.delimiter, header_of=header_of)
    return _LineFile(path.name, decoder, place, _Blocks(path), RowCutter(file_format.delimiter))


def _csv_header(path: Path, delimiter: str) -> tuple[FilePlace, tuple[str, ...]]:
    """The names in the first row, and where the rows begin; no names if the file is empty."""
    blocks = _Blocks(path)
    try:
        byte = blocks.skip_to(0)
        lines_of, rows_of = LineCutter(), RowCutter(delimiter)
        rows: list[Line] = []
        while not rows:
            block = blocks.read()
            rows = rows_of.feed(lines_of.feed(block) if block else lines_of.end())
            if not block:
                rows += rows_of.end()
                break
    finally:
        blocks.close()
    if not rows:
        return FilePlace(), ()
    return FilePlace(0, byte + len(rows[0]) + 1, 1 + n_lines(rows[:1])), tuple(
        CsvRows.header(rows[0], delimiter)
    )


class _JsonArray:
    """A file that holds one JSON array, read element by element."""

    def __init__(self, name: str, stream: Stream, time_zone: str, place: FilePlace, blocks: _Blocks) -> None:
        self.place = place
        self._name = name
        self._lines = JsonLines(stream, time_zone)
        self._blocks = blocks
        self._blocks.skip_to(0)
        self._elements = array_elements(self._blocks.read, self._lines.decoder)
        for _ in range(place.n_rows):
            if self._next() is None:
                break

    def read(self, max_rows: int, max_bytes: int) -> IngestedRows | None:
        values: list[Any] = []
        nbytes = 0
        while len(values) < max_rows and nbytes < max_bytes:
            element = self._next()
            if element is None:
                break
            values.append(element[0])
            nbytes += element[1]
        if not values:
            return None
        first = self.place.n_rows + 1
        self.place = FilePlace(self.place.n_rows + len(values))
        return self._lines.objects(values, range(first, first + len(values)), self._name, noun="element")

    def _next(self) -> tuple[Any, int] | None:
        try:
            return next(self._elements, None)
        except BrokenArray as error:
            raise UnreadableFile(str(error)) from None

    def close(self) -> None:
        self._blocks.close()


# --------------------------------------------------------------------------------------------- records


class _AvroRecords:
    """A file of Avro records."""

    def __init__(self, path: Path, stream: Stream, time_zone: str, place: FilePlace) -> None:
        self.place = place
        self._name = path.name
        self._file = open(path, "rb")  # noqa: SIM115
        try:
            records = AvroFile(self._file)
            change = _change(stream, written_columns(records.schema), path.name, _is_held)
            self._rows = RecordRows(stream, time_zone, records.schema, change)
        except UnreadableAvro as error:
            self._file.close()
            raise UnreadableFile(str(error)) from None
        except BaseException:
            self._file.close()
            raise
        self._records = records.records(place.n_rows)
        self._damage: UnreadableAvro | None = None  # met behind records that are still to be handed over

    def read(self, max_rows: int, max_bytes: int) -> IngestedRows | None:
        records: list[dict[str, Any]] = []
        nbytes = 0
        try:
            while self._damage is None and len(records) < max_rows and nbytes < max_bytes:
                record, size = next(self._records)
                records.append(record)
                nbytes += size
        except StopIteration:
            pass
        except UnreadableAvro as error:
            self._damage = error
        if not records:
            if self._damage is not None:
                raise UnreadableFile(str(self._damage)) from None
            return None
        first = self.place.n_rows + 1
        self.place = FilePlace(self.place.n_rows + len(records))
        places = [f"{self._name}, record {first + k}" for k in range(len(records))]
        return self._rows.rows(records, places)

    def close(self) -> None:
        self._file.close()


def _is_held(t: pa.DataType, column: FileColumn) -> bool:
    return column.type in (None, NULL) or may_hold(t, column.type)  # without a type: value by value


# --------------------------------------------------------------------------------------------- columns


def _change(
    stream: Stream, written: list[FileColumn], name: str, fits: Callable[[pa.DataType, FileColumn], bool]
) -> SchemaChange:
    """How the columns of a file differ from those of the stream. Raises SchemaChanged if the stream is to have more of them."""
    change = change_of(stream, written, f"file {name}", fits)
    if change.added:
        raise SchemaChanged(stream.name, SchemaChange(change.added))
    return change


class _BatchFile(Protocol):
    schema: pa.Schema

    def batches(self, from_row: int, size: int, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows from `from_row` on, all columns or these."""
        ...

    def close(self) -> None: ...


class _ParquetFile:
    def __init__(self, path: Path, n_rows: int | None) -> None:
        self._file = pyarrow.parquet.ParquetFile(path)
        self._n_rows = n_rows
        self.schema = self._file.schema_arrow

    def batches(self, from_row: int, size: int, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        metadata = self._file.metadata
        group, before = 0, 0
        while group < metadata.num_row_groups and before + metadata.row_group(group).num_rows <= from_row:
            before += metadata.row_group(group).num_rows
            group += 1
        end, behind = group, before
        while end < metadata.num_row_groups and (self._n_rows is None or behind < from_row + self._n_rows):
            behind += metadata.row_group(end).num_rows
            end += 1
        groups = list(range(group, end))
        batches = (
            self._file.iter_batches(batch_size=size, row_groups=groups, columns=columns)
            if groups
            else iter(())
        )
        return _without_first(map(sound, batches), from_row - before)

    def close(self) -> None:
        self._file.close()


class _ArrowFile:
    """An Arrow file or an Arrow stream. Not mapped: a mapped file that shrinks takes the process with it."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path))
        self._is_file = self._file.read(6) == b"ARROW1"
        self._reader = self._opened_reader(None)
        self.schema = self._reader.schema

    def _opened_reader(self, places: Sequence[int] | None) -> Any:
        """A reader of all columns, or of those at these places."""
        self._file.seek(0)
        options = pa.ipc.IpcReadOptions(included_fields=None if places is None else list(places))
        kind = pa.ipc.open_file if self._is_file else pa.ipc.open_stream
        return kind(self._file, options=options)

    def batches(self, from_row: int, size: int, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        if columns is not None:
            self._reader = self._opened_reader([self.schema.get_field_index(name) for name in columns])
        if self._is_file:
            batches = (self._reader.get_batch(k) for k in range(self._reader.num_record_batches))
        else:
            batches = iter(self._reader)
        return _without_first(map(sound, batches), from_row)

    def close(self) -> None:
        self._file.close()


def _kind(t: pa.DataType) -> str:
    known = canonical(t)
    return str(t) if known is None else type_name(known)


def sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch; raises if its buffers do not hold what they say, or text is not UTF-8: Arrow believes what is written."""
    batch.validate(full=True)
    return batch


def _without_first(batches: Iterator[pa.RecordBatch], n_rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if n_rows < batch.num_rows:
            yield batch.slice(n_rows)
        n_rows = max(0, n_rows - batch.num_rows)


class _Batches:
    """A file of columns."""

    def __init__(
        self,
        name: str,
        stream: Stream,
        time_zone: str,
        place: FilePlace,
        file: _BatchFile,
        needed: frozenset[str] | None = None,
    ) -> None:
        self.place = place
        self._name = name
        self._stream = stream
        self._time_zone = time_zone
        self._file = file
        try:
            written = [FileColumn(f.name, f.type, _kind(f.type)) for f in file.schema]
            self._change = _change(stream, written, name, lambda t, column: may_become(column.type, t))
        except BaseException:
            file.close()
            raise
        self._left_out = _left_out(stream, file.schema, needed)
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._rest: pa.RecordBatch | None = None

    def read(self, max_rows: int, max_bytes: int) -> IngestedRows | None:
        batch = self._next_batch(max_rows)
        if batch is None:
            return None
        n_rows = min(max_rows, batch.num_rows)
        if batch.nbytes > max_bytes:
            n_rows = min(n_rows, max(1, batch.num_rows * max_bytes // batch.nbytes))
        self._rest = batch.slice(n_rows) if n_rows < batch.num_rows else None
        try:
            rows = ingest(self._stream, self._in_columns(batch.slice(0, n_rows)), self._time_zone)
        except pa.ArrowException as error:
            raise UnreadableFile(_reason(error)) from None
        self.place = FilePlace(self.place.n_rows + n_rows)
        misfits = [replace(m, message=f"{m.message} ({self._name})") for m in rows.misfits]
        return replace(rows, misfits=misfits, change=self._change, left_out=self._left_out)

    def _next_batch(self, size: int) -> pa.RecordBatch | None:
        if self._rest is not None:
            return self._rest
        try:
            if self._batches is None:
                self._batches = self._file.batches(self.place.n_rows, size, self._columns())
            return next(self._batches, None)
        except UNREADABLE as error:
            raise UnreadableFile(_reason(error)) from None

    def _columns(self) -> list[str] | None:
        """The columns of the file that are read; None: all."""
        if not self._left_out:
            return None
        left_out = {name.lower() for name in self._left_out}
        return [name for name in self._file.schema.names if name.lower() not in left_out]

    def _in_columns(self, batch: pa.RecordBatch) -> pa.Table:
        """The columns of the stream, NULL where there is none to read, and the arrival numbers; nothing else."""
        table = pa.Table.from_batches([batch])
        places = {name.lower(): k for k, name in enumerate(batch.schema.names)}
        if not self._change.missing and places.keys() == {f.name.lower() for f in self._stream.schema}:
            return table
        columns = {
            f.name: pa.nulls(len(table), f.type)
            if f.name in self._change.missing or f.name in self._left_out
            else table.column(places[f.name.lower()])
            for f in self._stream.schema
        }
        if ARRIVAL in batch.schema.names:
            columns[ARRIVAL] = table.column(ARRIVAL)
        return pa.table(columns)

    def close(self) -> None:
        self._file.close()


def _left_out(stream: Stream, schema: pa.Schema, needed: frozenset[str] | None) -> frozenset[str]:
    """Columns that no query needs and of which no value can fail to fit, so that rows are the same without them."""
    if needed is None or any("." in name for name in schema.names):  # a dot means a field inside a column
        return frozenset()
    written = {f.name.lower(): f.type for f in schema}
    found = [
        f.name
        for f in stream.schema
        if f.nullable
        and f.name not in needed
        and f.name.lower() in written
        and _always_fits(written[f.name.lower()], f.type)
    ]
    if len(found) == len(schema.names):
        found.pop()  # rows are counted by some column
    return frozenset(found)


def _always_fits(written: pa.DataType, t: pa.DataType) -> bool:
    return written == t or (pa.types.is_temporal(written) and canonical(written) == t)
