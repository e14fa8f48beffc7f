"""Rows of CSV into the schema of a stream: text first, then columns, each converted as SQL casts text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from eddyline.errors import SchemaError
from eddyline.expressions import Context, can_cast, convert
from eddyline.model import Stream
from eddyline.sources.ingestion import IngestedRows, Misfit, ordered_rows
from eddyline.sources.json_lines import unreadable
from eddyline.sources.lines import Broken, Line, LinePlaces
from eddyline.sources.plain_text import plainly_converted
from eddyline.sources.rows import ARRIVAL, checked_columns
from eddyline.sources.schema_changes import UNCHANGED, change_of_header
from eddyline.types import BIGINT, STRING, type_name

_SPACE = b" \t\r\n"


class CsvRows:
    """Rows of CSV with known columns. A field is read as SQL casts text; an empty field without quotation marks is NULL."""

    def __init__(
        self,
        stream: Stream,
        time_zone: str,
        columns: Sequence[str],
        delimiter: str = ",",
        *,
        header_of: str | None = None,
    ) -> None:
        """Raises SchemaError if the columns cannot be those of the stream.

        If they come from a header, of what `header_of` names, there may be others, which are ignored, and some may be missing.
        """
        self._stream = stream
        self._context = Context(time_zone=time_zone)
        self._delimiter = delimiter
        self._change = UNCHANGED if header_of is None else change_of_header(stream, columns, header_of)
        self._names = checked_columns(stream, columns) if header_of is None else list(columns)

    @staticmethod
    def header(row: Line, delimiter: str) -> list[str]:
        """The column names of a header row."""
        if isinstance(row, Broken):
            raise SchemaError("the header cannot be read", detail=row.problem)
        try:
            row.decode()
            table = _parsed_rows(row, None, delimiter, [])
            return [name.strip() for name in table.schema.names]
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise SchemaError("the header cannot be read", detail=str(error)) from None

    def rows(
        self, lines: Sequence[Line], first: int, where: str, places: Sequence[str] | None = None
    ) -> IngestedRows:
        at = LinePlaces(lines, first, where, places)
        misfits: list[Misfit] = []
        texts, numbers = _rows_among(lines, at, misfits)
        if places is not None:  # a message may end its line
            texts = [text.rstrip(b"\r\n") for text in texts]
        table, numbers = self._table(texts, numbers, at, misfits)
        return self._typed_rows(table, numbers, at, misfits)

    def _table(
        self, texts: Sequence[bytes], numbers: Sequence[int], at: LinePlaces, misfits: list[Misfit]
    ) -> tuple[pa.Table, Sequence[int]]:
        """The rows as columns of text, and the line of each; rows with another number of fields are set apart."""
        wrong: list[tuple[int, str, str]] = []
        table = _parsed_rows(b"\n".join(texts), self._names, self._delimiter, wrong)
        if table.num_rows + len(wrong) != len(texts):  # Arrow saw other row ends than we: one by one, then
            return self._table_row_by_row(texts, numbers, at, misfits)
        for row, text, problem in wrong:
            misfits.append(unreadable(text.encode(), problem, at[numbers[row]]))
        skipped = {row for row, _, _ in wrong}
        return table, [n for row, n in enumerate(numbers) if row not in skipped] if skipped else numbers

    def _table_row_by_row(
        self, texts: Sequence[bytes], numbers: Sequence[int], at: LinePlaces, misfits: list[Misfit]
    ) -> tuple[pa.Table, Sequence[int]]:
        tables, parsed_numbers = [_parsed_rows(b"", self._names, self._delimiter, [])], []
        for text, number in zip(texts, numbers, strict=True):
            wrong: list[tuple[int, str, str]] = []
            table = _parsed_rows(text, self._names, self._delimiter, wrong)
            if table.num_rows == 1:
                tables.append(table)
                parsed_numbers.append(number)
            else:
                problem = wrong[0][2] if wrong else "the row cannot be taken apart into fields"
                misfits.append(unreadable(text, problem, at[number]))
        return pa.concat_tables(tables), parsed_numbers

    def _typed_rows(
        self, table: pa.Table, numbers: Sequence[int], at: LinePlaces, misfits: list[Misfit]
    ) -> IngestedRows:
        columns: list[pa.Array] = []
        bad: dict[int, str] = {}
        places = {name.lower(): k for k, name in enumerate(self._names)}
        for f in self._stream.schema:
            k = places.get(f.name.lower())
            values = pa.nulls(len(table), STRING) if k is None else _one_array(table.column(k))
            columns.append(self._converted_column(f.name, f.type, values, bad))
            if not f.nullable and columns[-1].null_count:
                for row in np.flatnonzero(columns[-1].is_null().to_numpy(zero_copy_only=False)).tolist():
                    bad.setdefault(row, f"column {f.name} is NULL, which the stream does not allow")
        arrival = None
        if ARRIVAL in places:
            counted = self._converted_column(ARRIVAL, BIGINT, _one_array(table.column(places[ARRIVAL])), bad)
            _check_arrivals(counted, bad)
            arrival = np.asarray(counted.fill_null(0).to_numpy(zero_copy_only=False))
        for row, message in sorted(bad.items()):
            as_text = {name: table.column(k)[row].as_py() for k, name in enumerate(self._names)}
            misfits.append(Misfit(as_text, f"{message} ({at[numbers[row]]})"))
        if bad:
            fine = np.setdiff1d(np.arange(len(table)), np.fromiter(bad, np.int64, len(bad)))
            columns = [column.take(pa.array(fine)) for column in columns]
            arrival = None if arrival is None else arrival[fine]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._stream.schema)
        return replace(ordered_rows(self._stream, rows, arrival, misfits), change=self._change)

    def _converted_column(self, name: str, t: pa.DataType, values: pa.Array, bad: dict[int, str]) -> pa.Array:
        plain = plainly_converted(values, t, self._context)
        if plain is not None:
            return plain
        converted = convert(values, t, self._context)
        for mask, _ in converted.problems:
            for row in np.flatnonzero(mask).tolist():
                bad.setdefault(row, f"column {name}: {values[row].as_py()!r} is not {type_name(t)}")
        return converted.values


def unfit_for_csv(stream: Stream) -> list[str]:
    """Columns of a stream that text cannot be cast to."""
    return [f.name for f in stream.schema if not can_cast(STRING, f.type)]


def _parsed_rows(
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
    earlier_numbers: set[int] = set()
    for row, number in enumerate(numbers.to_pylist()):
        if number is None:
            bad.setdefault(row, f"{ARRIVAL} is NULL")
        elif row not in bad:
            if number in earlier_numbers:
                bad[row] = f"{ARRIVAL} {number} is there twice"
            earlier_numbers.add(number)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays([*column.chunks, pa.array([], column.type)])
    )


def _rows_among(
    lines: Sequence[Line], at: LinePlaces, misfits: list[Misfit]
) -> tuple[Sequence[bytes], Sequence[int]]:
    """The lines that may be rows, and their numbers; not the blank ones."""
    try:
        if all(map(bytes.strip, lines)):  # type: ignore[arg-type]
            b"\n".join(lines).decode()  # type: ignore[arg-type]
            return lines, range(len(lines))  # type: ignore[return-value]
    except (TypeError, UnicodeDecodeError):  # some are broken: one by one, then
        pass
    texts: list[bytes] = []
    numbers: list[int] = []
    not_in_utf8: list[Misfit] = []
    for number, line in enumerate(lines):
        if isinstance(line, Broken):
            misfits.append(unreadable(line.beginning, line.problem, at[number]))
        elif line.strip(_SPACE):
            try:
                line.decode()
                texts.append(line)
                numbers.append(number)
            except UnicodeDecodeError:
                not_in_utf8.append(unreadable(line, "the line is not UTF-8", at[number]))
        elif at.are_stated:  # a message, not the space between lines
            misfits.append(unreadable(line, "the line is blank", at[number]))
    misfits += not_in_utf8
    return texts, numbers
