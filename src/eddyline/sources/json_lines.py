"""Lines of JSON, one object each, into the schema of a stream.

Here is what a line means. Most lines never come so far: `json_columns` reads them as columns, all at once, and leaves to this
page those for which it is not certain of the same answer.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.model import Stream
from eddyline.sources.ingestion import IngestedRows, Misfit, ordered_rows
from eddyline.sources.json_columns import ReadAsColumns, columns_for
from eddyline.sources.lines import SHOWN_BYTES, Broken, Line, LinePlaces
from eddyline.sources.rows import ARRIVAL, rows_in_schema, soundly_numbered
from eddyline.sources.schema_changes import MOST_IGNORED, SchemaChange, why_ignored
from eddyline.types import BINARY, is_decimal

NOT_READABLE = "LINE_CANNOT_BE_READ"
_SPACE = b" \t\r\n"
_PIECES = 4  # lines that were refused together are tried again in pieces of a fourth,
_MOST, _LEAST = 1 << 20, 50  # but not fewer than so many: those are read as fast one by one


class JsonLines:
    """One JSON object per line."""

    def __init__(self, stream: Stream, time_zone: str) -> None:
        self._stream = stream
        self._time_zone = time_zone
        self._binary = {f.name.lower() for f in stream.schema if f.type == BINARY}
        is_exact = any(is_decimal(f.type) for f in stream.schema)
        self.decoder = json.JSONDecoder(parse_float=_Exact) if is_exact else json.JSONDecoder()
        self._columns = columns_for(stream, time_zone)
        self._n_at_once = _MOST
        self._ignored_names: dict[
            str, str
        ] = {}  # names that were met and are no columns, and what is said of them

    def rows(
        self, lines: Sequence[Line], first: int, where: str, places: Sequence[str] | None = None
    ) -> IngestedRows:
        at = LinePlaces(lines, first, where, places)
        read = self._read_as_columns(lines)
        values, numbers, misfits = self._decoded_values(lines, read.rest, at)
        if read.batches and any(
            isinstance(value, dict) and value.get(ARRIVAL) is not None for value in values
        ):
            read = _ColumnLines(
                rest=list(range(len(lines)))
            )  # numbers of their own: each row is judged by the others
            values, numbers, misfits = self._decoded_values(lines, read.rest, at)
        fitted = self._fitting_rows(values, [at[number] for number in numbers], misfits, noun="line")
        rows, unknown = fitted.rows, fitted.unknown_names | read.unknown_names
        if read.batches:
            fitted_numbers = [numbers[k] for k in fitted.places]
            order = np.argsort(
                np.concatenate([*read.numbers, np.array(fitted_numbers, np.int64)]), kind="stable"
            )
            rows = pa.concat_batches([*read.batches, rows])
            if fitted_numbers:
                rows = rows.take(pa.array(order))
        return self._ordered_rows(rows, fitted, unknown)

    def objects(
        self, values: Sequence[Any], numbers: Sequence[int], where: str, *, noun: str
    ) -> IngestedRows:
        """Rows of JSON values that were decoded already; `numbers` say which `noun` of the file each was."""
        fitted = self._fitting_rows(
            values, [f"{where}, {noun} {number}" for number in numbers], [], noun=noun
        )
        return self._ordered_rows(fitted.rows, fitted, fitted.unknown_names)

    def _ordered_rows(self, rows: pa.RecordBatch, fitted: _FittingRows, unknown: set[str]) -> IngestedRows:
        found = ordered_rows(self._stream, rows, fitted.arrival, fitted.misfits)
        for name in sorted(unknown - self._ignored_names.keys())[: MOST_IGNORED - len(self._ignored_names)]:
            self._ignored_names[name] = why_ignored(self._stream, name)
        ignored = {name: self._ignored_names[name] for name in sorted(unknown & self._ignored_names.keys())}
        return replace(found, change=SchemaChange(ignored=ignored)) if ignored else found

    # ----------------------------------------------------------------------------------------- as columns

    def _read_as_columns(self, lines: Sequence[Line]) -> _ColumnLines:
        """What can be read so, in pieces: smaller after one that was refused, larger after one that was not."""
        if self._columns is None or len(lines) < _LEAST:
            return _ColumnLines(rest=list(range(len(lines))))
        read = _ColumnLines()
        texts, numbers, read.rest = _objects_among(lines)
        if texts:
            self._columns.expect(texts)
        at, n_left_out = 0, _LEAST
        while at < len(texts):
            piece = slice(at, min(at + self._n_at_once, len(texts)))
            found = self._columns.read(texts[piece]) if piece.stop - at >= _LEAST else None
            if found is not None:
                read.add(found, np.array(numbers[piece]))
                self._n_at_once, n_left_out = min(_MOST, self._n_at_once * _PIECES), _LEAST
                at = piece.stop
            elif self._n_at_once > _LEAST and piece.stop - at > _LEAST:
                self._n_at_once = max(_LEAST, (piece.stop - at) // _PIECES)
            else:
                read.rest += numbers[at : at + n_left_out]
                at, n_left_out = at + n_left_out, n_left_out * 2
        read.rest.sort()
        return read

    # ----------------------------------------------------------------------------------------- row by row

    def _decoded_values(
        self, lines: Sequence[Line], line_numbers: Sequence[int], at: LinePlaces
    ) -> tuple[list[Any], list[int], list[Misfit]]:
        """The values of the wanted lines, which lines they are, and those that are not JSON."""
        values: list[Any] = []
        numbers: list[int] = []
        misfits: list[Misfit] = []
        for number in line_numbers:
            line = lines[number]
            if isinstance(line, Broken):
                misfits.append(unreadable(line.beginning, line.problem, at[number]))
                continue
            try:
                text = line.decode().strip()
                if text:
                    values.append(self.decoder.decode(text))
                    numbers.append(number)
                elif at.are_stated:  # a message, not the space between lines
                    misfits.append(unreadable(line, "the line is blank", at[number]))
            except UnicodeDecodeError:
                misfits.append(unreadable(line, "the line is not UTF-8", at[number]))
            except json.JSONDecodeError as error:
                misfits.append(unreadable(line, f"the line is not JSON at column {error.colno}", at[number]))
            except (RecursionError, ValueError):  # too deep; or a whole number of thousands of digits
                misfits.append(unreadable(line, "the line is not JSON", at[number]))
        return values, numbers, misfits

    def _fitting_rows(
        self, values: Sequence[Any], places: Sequence[str], misfits: list[Misfit], *, noun: str
    ) -> _FittingRows:
        """Rows of the values that are objects and fit."""
        rows: list[dict[str, Any]] = []
        number: dict[int, int] = {}  # which value a row is, by its identity
        for k, value in enumerate(values):
            if not isinstance(value, dict):
                shown = json.dumps(value, ensure_ascii=False)[:SHOWN_BYTES]
                message = f"the {noun} is {_kind(value)}, not an object ({places[k]})"
                misfits.append(Misfit({"_text": shown}, message, NOT_READABLE))
                continue
            problem = self._decode_binary(value)
            if problem:
                misfits.append(Misfit(value, f"{problem} ({places[k]})"))
                continue
            rows.append(value)
            number[id(value)] = k
        rows, unnumbered = soundly_numbered(rows)
        unknown: set[str] = set()
        batch, arrival, unfit = rows_in_schema(self._stream, rows, self._time_zone, unknown=unknown)
        for row, message in [*unnumbered, *unfit]:
            misfits.append(Misfit(row, f"{message} ({places[number[id(row)]]})"))
        apart = {id(row) for row, _ in unfit}
        fitting_places = [number[id(row)] for row in rows if id(row) not in apart]
        return _FittingRows(batch, arrival, misfits, fitting_places, unknown)

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


@dataclass(slots=True)
class _ColumnLines:
    """Lines that were read as columns, and the numbers of the rest."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    numbers: list[npt.NDArray[np.int64]] = field(default_factory=list)  # of the lines in each batch
    rest: list[int] = field(default_factory=list)
    unknown_names: set[str] = field(default_factory=set)  # names that are no columns

    def add(self, found: ReadAsColumns, numbers: npt.NDArray[np.int64]) -> None:
        self.unknown_names.update(found.unknown_names)
        if found.is_certain is None:
            self.batches.append(found.rows)
            self.numbers.append(numbers)
        else:
            self.batches.append(found.rows.filter(pa.array(found.is_certain)))
            self.numbers.append(numbers[found.is_certain])
            self.rest += numbers[~found.is_certain].tolist()


@dataclass(frozen=True, slots=True)
class _FittingRows:
    """Rows that fit, and which of the values given they were."""

    rows: pa.RecordBatch
    arrival: npt.NDArray[np.int64] | None
    misfits: list[Misfit]
    places: list[int]
    unknown_names: set[str]  # names that are no columns


def _objects_among(lines: Sequence[Line]) -> tuple[Sequence[bytes], Sequence[int], list[int]]:
    """The lines that look like an object, without space around, and their numbers; the numbers of others."""
    try:
        body = b"\n".join(lines)  # type: ignore[arg-type]
        if body[:1] == b"{" and body[-1:] == b"}":
            n_between = len(lines) - 1
            if body.count(b"}\n{") == n_between == body.count(b"\n"):
                return lines, range(len(lines)), []  # type: ignore[return-value]
    except TypeError:  # some are broken
        pass
    texts: list[bytes] = []
    numbers: list[int] = []
    others: list[int] = []
    for number, line in enumerate(lines):
        text = line.strip(_SPACE) if isinstance(line, bytes) else b"broken"
        if text[:1] == b"{" and text[-1:] == b"}":
            texts.append(text.replace(b"\n", b" "))  # a message may have more than one line
            numbers.append(number)
        else:
            others.append(number)
    return texts, numbers, others


def unreadable(line: bytes, problem: str, place: str) -> Misfit:
    """A line that cannot be taken apart, by its beginning."""
    shown = line[:SHOWN_BYTES].decode(errors="replace")
    return Misfit({"_text": shown}, f"{problem} ({place})", NOT_READABLE)


class _Exact(float):
    """A number that remembers how it was written, so that a DECIMAL loses no digit."""

    __slots__ = ("_text",)
    _text: str

    def __new__(cls, written: str) -> _Exact:
        number = super().__new__(cls, written)
        number._text = written
        return number

    def __repr__(self) -> str:
        try:
            return str(Decimal(self._text))
        except InvalidOperation:  # an exponent of twenty digits
            return self._text


def _kind(value: Any) -> str:
    return {list: "an array", str: "a string", bool: "a truth value", type(None): "null"}.get(
        type(value), "a number"
    )
