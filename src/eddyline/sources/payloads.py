"""Lines of JSON or CSV into the schema of a stream. A line that does not fit costs its row, and says where it stood."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv

from eddyline.errors import SchemaError, did_you_mean
from eddyline.expressions import Context, can_cast
from eddyline.expressions.conversions import convert
from eddyline.model import Stream
from eddyline.sources.ingest import Ingested, Misfit, ordered
from eddyline.sources.lines import SHOWN_BYTES, Broken, Line
from eddyline.sources.rows import ARRIVAL, rows_in_schema
from eddyline.types import BIGINT, BINARY, STRING, is_decimal, type_name

NOT_READABLE = "LINE_CANNOT_BE_READ"
_SPACE = b" \t\r\n"


class Decoder(Protocol):
    """Lines of one format into rows of one stream."""

    def rows(self, lines: Sequence[Line], first: int, where: str) -> Ingested:
        """Rows of these lines; `first` is the number of the first line, `where` the name of the file or the like."""
        ...


# --------------------------------------------------------------------------------------------- JSON


class JsonLines:
    """One JSON object per line."""

    def __init__(self, stream: Stream, time_zone: str) -> None:
        self._stream = stream
        self._time_zone = time_zone
        self._binary = {f.name.lower() for f in stream.schema if f.type == BINARY}
        is_exact = any(is_decimal(f.type) for f in stream.schema)
        self.decoder = json.JSONDecoder(parse_float=_Exact) if is_exact else json.JSONDecoder()

    def rows(self, lines: Sequence[Line], first: int, where: str) -> Ingested:
        values: list[Any] = []
        numbers: list[int] = []
        misfits: list[Misfit] = []
        for number, line in enumerate(lines, first):
            if isinstance(line, Broken):
                misfits.append(_unreadable(line.beginning, line.problem, where, number))
                continue
            try:
                text = line.decode().strip()
                if text:
                    values.append(self.decoder.decode(text))
                    numbers.append(number)
            except UnicodeDecodeError:
                misfits.append(_unreadable(line, "the line is not UTF-8", where, number))
            except (json.JSONDecodeError, RecursionError) as error:
                at = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
                misfits.append(_unreadable(line, f"the line is not JSON{at}", where, number))
        return self.objects(values, numbers, where, misfits=misfits)

    def objects(
        self,
        values: Sequence[Any],
        numbers: Sequence[int],
        where: str,
        *,
        noun: str = "line",
        misfits: Sequence[Misfit] = (),
    ) -> Ingested:
        """Rows of JSON values that were decoded already; `numbers` say which line, or whatever `noun` is, each came from."""
        found = list(misfits)
        rows: list[dict[str, Any]] = []
        place: dict[int, int] = {}  # by the identity of a row
        for number, value in zip(numbers, values, strict=True):
            if not isinstance(value, dict):
                shown = json.dumps(value, ensure_ascii=False)[:SHOWN_BYTES]
                message = f"the {noun} is {_kind(value)}, not an object ({where}, {noun} {number})"
                found.append(Misfit({"_text": shown}, message, NOT_READABLE))
                continue
            problem = self._decode_binary(value)
            if problem:
                found.append(Misfit(value, f"{problem} ({where}, {noun} {number})"))
                continue
            rows.append(value)
            place[id(value)] = number
        rows, unnumbered = _soundly_numbered(rows)
        batch, arrival, unfit = rows_in_schema(self._stream, rows, self._time_zone)
        for row, message in [*unnumbered, *unfit]:
            found.append(Misfit(row, f"{message} ({where}, {noun} {place[id(row)]})"))
        return ordered(self._stream, batch, arrival, found)

    def _decode_binary(self, row: dict[str, Any]) -> str | None:
        """BINARY travels as base64, as Spark reads and writes it."""
        if not self._binary:
            return None
        for name, value in row.items():
            if name.lower() in self._binary and isinstance(value, str):
                try:
                    row[name] = base64.b64decode(value, validate=True)
                except (binascii.Error, ValueError):
                    return f"column {name}: {value[:100]!r} is not base64"
        return None


class _Exact(float):
    """A number that remembers how it was written, so that a DECIMAL loses no digit."""

    __slots__ = ("_written",)
    _written: str

    def __new__(cls, written: str) -> _Exact:
        number = super().__new__(cls, written)
        number._written = written
        return number

    def __repr__(self) -> str:
        return str(Decimal(self._written))


def _kind(value: Any) -> str:
    return {list: "an array", str: "a string", bool: "a truth value", type(None): "null"}.get(
        type(value), "a number"
    )


def _soundly_numbered(
    rows: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[tuple[dict[str, Any], str]]]:
    """If some rows have an `_arrival`, those that have none of their own are set apart."""
    if not any(row.get(ARRIVAL) is not None for row in rows):
        return rows, []
    sound: list[dict[str, Any]] = []
    wrong: list[tuple[dict[str, Any], str]] = []
    seen: set[int] = set()
    for row in rows:
        number = row.get(ARRIVAL)
        if not isinstance(number, int) or isinstance(number, bool):
            wrong.append((row, f"{ARRIVAL} is {number!r}, not a whole number as in the other rows"))
        elif number in seen:
            wrong.append((row, f"{ARRIVAL} {number} is there twice"))
        else:
            seen.add(number)
            sound.append(row)
    return sound, wrong


# --------------------------------------------------------------------------------------------- CSV


class CsvRows:
    """Rows of CSV with known columns. A field is read as SQL casts text; an empty field without quotation marks is NULL."""

    def __init__(self, stream: Stream, time_zone: str, columns: Sequence[str], delimiter: str = ",") -> None:
        """Raises SchemaError if the columns cannot be those of the stream."""
        self._stream = stream
        self._context = Context(time_zone=time_zone)
        self._delimiter = delimiter
        self._names = _checked_columns(stream, columns)

    @staticmethod
    def header(row: Line, delimiter: str) -> list[str]:
        """The column names of a header row."""
        if isinstance(row, Broken):
            raise SchemaError("the header cannot be read", detail=row.problem)
        try:
            table = _parsed(row, None, delimiter, [])
            return [name.strip() for name in table.schema.names]
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise SchemaError("the header cannot be read", detail=str(error)) from None

    def rows(self, lines: Sequence[Line], first: int, where: str) -> Ingested:
        misfits: list[Misfit] = []
        texts: list[bytes] = []
        numbers: list[int] = []
        number = first
        for line in lines:
            if isinstance(line, Broken):
                misfits.append(_unreadable(line.beginning, line.problem, where, number))
                number += 1
                continue
            if line.strip(_SPACE):
                texts.append(line)
                numbers.append(number)
            number += 1 + line.count(b"\n")
        texts, numbers = _in_utf8(texts, numbers, where, misfits)
        table, numbers = self._table(texts, numbers, where, misfits)
        return self._typed(table, numbers, where, misfits)

    def _table(
        self, texts: list[bytes], numbers: list[int], where: str, misfits: list[Misfit]
    ) -> tuple[pa.Table, list[int]]:
        """The rows as columns of text, and the line of each; rows with another number of fields are set apart."""
        wrong: list[tuple[int, str, str]] = []
        table = _parsed(b"\n".join(texts), self._names, self._delimiter, wrong)
        if table.num_rows + len(wrong) != len(texts):  # Arrow saw other row ends than we: one by one, then
            return self._table_row_by_row(texts, numbers, where, misfits)
        for at, text, problem in wrong:
            misfits.append(_unreadable(text.encode(), problem, where, numbers[at]))
        skipped = {at for at, _, _ in wrong}
        return table, [
            number for at, number in enumerate(numbers) if at not in skipped
        ] if skipped else numbers

    def _table_row_by_row(
        self, texts: list[bytes], numbers: list[int], where: str, misfits: list[Misfit]
    ) -> tuple[pa.Table, list[int]]:
        tables, kept = [_parsed(b"", self._names, self._delimiter, [])], []
        for text, number in zip(texts, numbers, strict=True):
            wrong: list[tuple[int, str, str]] = []
            table = _parsed(text, self._names, self._delimiter, wrong)
            if table.num_rows == 1:
                tables.append(table)
                kept.append(number)
            else:
                problem = wrong[0][2] if wrong else "the row cannot be taken apart into fields"
                misfits.append(_unreadable(text, problem, where, number))
        return pa.concat_tables(tables), kept

    def _typed(self, table: pa.Table, numbers: list[int], where: str, misfits: list[Misfit]) -> Ingested:
        columns: list[pa.Array] = []
        bad: dict[int, str] = {}
        given = {name.lower(): at for at, name in enumerate(self._names)}
        for f in self._stream.schema:
            at = given.get(f.name.lower())
            values = pa.nulls(len(table), STRING) if at is None else _one_array(table.column(at))
            columns.append(self._converted(f.name, f.type, values, bad))
            if not f.nullable and columns[-1].null_count:
                for row in np.flatnonzero(columns[-1].is_null().to_numpy(zero_copy_only=False)).tolist():
                    bad.setdefault(row, f"column {f.name} is NULL, which the stream does not allow")
        arrival = None
        if ARRIVAL in given:
            counted = self._converted(ARRIVAL, BIGINT, _one_array(table.column(given[ARRIVAL])), bad)
            _check_arrivals(counted, bad)
            arrival = np.asarray(counted.fill_null(0).to_numpy(zero_copy_only=False))
        fine = np.setdiff1d(np.arange(len(table)), np.fromiter(bad, np.int64, len(bad)))
        for row, message in sorted(bad.items()):
            as_text = {name: table.column(at)[row].as_py() for at, name in enumerate(self._names)}
            misfits.append(Misfit(as_text, f"{message} ({where}, line {numbers[row]})"))
        if bad:
            columns = [column.take(pa.array(fine)) for column in columns]
            arrival = None if arrival is None else arrival[fine]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._stream.schema)
        return ordered(self._stream, rows, arrival, misfits)

    def _converted(self, name: str, t: pa.DataType, values: pa.Array, bad: dict[int, str]) -> pa.Array:
        converted = convert(values, t, self._context)
        for mask, _ in converted.problems:
            for row in np.flatnonzero(mask).tolist():
                bad.setdefault(row, f"column {name}: {values[row].as_py()!r} is not {type_name(t)}")
        return converted.values


def unfit_for_csv(stream: Stream) -> list[str]:
    """Columns of a stream that text cannot be cast to."""
    return [f.name for f in stream.schema if not can_cast(STRING, f.type)]


def _checked_columns(stream: Stream, columns: Sequence[str]) -> list[str]:
    known = {f.name.lower(): f for f in stream.schema}
    seen: set[str] = set()
    for name in columns:
        if name.lower() in seen:
            raise SchemaError(f"column {name} is there twice", hint="Names are not case-sensitive.")
        seen.add(name.lower())
        if name.lower() not in known and name != ARRIVAL:
            raise SchemaError(
                f"there is no column {name} in stream {stream.name}",
                hint=did_you_mean(name, stream.schema.names, noun="column"),
            )
    missing = [f.name for f in stream.schema if f.name.lower() not in seen and not f.nullable]
    if missing:
        raise SchemaError(
            f"column {missing[0]} is missing, and stream {stream.name} does not allow NULL there",
            hint="Add it, or declare the column without NOT NULL.",
        )
    return list(columns)


def _parsed(
    body: bytes, names: Sequence[str] | None, delimiter: str, wrong: list[tuple[int, str, str]]
) -> pa.Table:
    """Rows as columns of text; into `wrong` go (row number from 0, text, problem) of those that have other fields."""
    if not body and names is not None:
        return pa.table({name: pa.array([], STRING) for name in names})

    def set_apart(row: Any) -> str:
        problem = f"the row has {row.actual_columns} fields, expected {row.expected_columns}"
        wrong.append((row.number - 1, row.text, problem))
        return "skip"

    return pyarrow.csv.read_csv(
        pa.py_buffer(body + b"\n"),
        pyarrow.csv.ReadOptions(use_threads=False, block_size=len(body) + 2, column_names=names),
        pyarrow.csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            invalid_row_handler=set_apart,
            ignore_empty_lines=False,
        ),
        pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names or (), STRING),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,
        ),
    )


def _check_arrivals(numbers: pa.Array, bad: dict[int, str]) -> None:
    seen: set[int] = set()
    for row, number in enumerate(numbers.to_pylist()):
        if number is None:
            bad.setdefault(row, f"{ARRIVAL} is NULL")
        elif row not in bad:
            if number in seen:
                bad[row] = f"{ARRIVAL} {number} is there twice"
            seen.add(number)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays([*column.chunks, pa.array([], column.type)])
    )


def _in_utf8(
    texts: list[bytes], numbers: list[int], where: str, misfits: list[Misfit]
) -> tuple[list[bytes], list[int]]:
    try:
        b"\n".join(texts).decode()
        return texts, numbers
    except UnicodeDecodeError:
        kept: list[tuple[bytes, int]] = []
        for text, number in zip(texts, numbers, strict=True):
            try:
                text.decode()
                kept.append((text, number))
            except UnicodeDecodeError:
                misfits.append(_unreadable(text, "the line is not UTF-8", where, number))
        return [text for text, _ in kept], [number for _, number in kept]


def _unreadable(line: bytes, problem: str, where: str, number: int) -> Misfit:
    shown = line[:SHOWN_BYTES].decode(errors="replace")
    return Misfit({"_text": shown}, f"{problem} ({where}, line {number})", NOT_READABLE)
