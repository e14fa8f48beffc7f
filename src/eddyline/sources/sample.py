"""A look at some data: what could a stream of it be declared as?

Parquet, Arrow and Avro say themselves which types they hold; for JSON and CSV they are guessed (`inference`). A guess is kept
only if the values that were looked at fit it, by the code that reads the stream later. NOT NULL is proposed only where the data
says so: that there is no NULL among some rows does not mean that none will come.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet

from eddyline.errors import EddylineError, SchemaError, did_you_mean
from eddyline.expressions import Context, check_time_format, convert
from eddyline.model import Stream
from eddyline.sources.formats import FileFormat
from eddyline.sources.inference import Guess, guess_of_text, guess_of_values
from eddyline.sources.ingestion import infer_schema
from eddyline.sources.rows import ARRIVAL, rows_in_schema
from eddyline.sources.sample_data import STANDARD_INPUT, SampleContents, SampleError, format_of, inputs_of
from eddyline.time_properties import TIME_UNIT, UNIT_US, checked_time, with_time
from eddyline.types import STRING, TIMESTAMP, TIMESTAMP_NTZ, is_numeric, type_name

N_ROWS = 1_000
N_EXAMPLES = 3
_NAME_OF_TIME = re.compile(
    r"(?i)(^|_)(ts|time|timestamp|at|when|date|epoch|millis|micros)(_|$|ms|us)|(Time|At|Ts|Timestamp)$"
)
_FIRST_US, _LAST_US = 631_152_000_000_000, 4_102_444_800_000_000  # from 1990 to 2100
EXAMPLE_WIDTH = 24


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """A column, with its evidence in the data."""

    name: str
    type: pa.DataType
    nullable: bool
    n_nulls: int
    examples: tuple[str, ...]
    note: str | None = None

    @property
    def ddl(self) -> str:
        """The column as it is written in a schema."""
        return f"{_quoted(self.name)} {type_name(self.type)}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a stream of the data could be declared as."""

    name: str
    columns: tuple[ProposedColumn, ...]
    time: str | None
    time_properties: tuple[tuple[str, str], ...]  # how it is read, where it is no TIMESTAMP
    format: FileFormat
    folder: Path | None  # that files of the stream come into; None: standard input
    glob: str | None  # which of them, where the usual endings do not say it
    n_rows: int  # that were looked at
    n_unfit: int  # rows and lines among them that would not fit
    notes: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type, c.nullable) for c in self.columns])

    def to_sql(self) -> str:
        """The statement that declares the stream."""
        columns = ",\n".join(f"  {column.ddl}" for column in self.columns)
        properties = () if self.time is None else (("time", self.time), *self.time_properties)
        listed = ", ".join(f"{word} = '{_escaped(value)}'" for word, value in properties)
        return f"CREATE TABLE {self.name} (\n{columns}\n){f' TBLPROPERTIES ({listed})' if listed else ''};\n"

    def to_toml(self, base: Path) -> str:
        """The part of a pipeline file in folder `base` that declares the stream and its source."""
        columns = [column.ddl for column in self.columns]
        one_line = _text(", ".join(columns))
        schema = one_line if len(one_line) <= 100 else _text_block(columns)
        lines = [f"[streams.{self.name if self.name.isascii() else _text(self.name)}]", f"schema = {schema}"]
        if self.time is not None:
            properties = (("time", self.time), *self.time_properties)
            lines += [f"{word} = {_text(value)}" for word, value in properties]
        source = self._source(base)
        if source:
            lines.append(
                f"source = {{ {', '.join(f'{key} = {_text(value)}' for key, value in source.items())} }}"
            )
        return "\n".join(lines) + "\n"

    def _source(self, base: Path) -> dict[str, str]:
        if self.folder is None and not self.format.has_lines:
            return {}  # what is not lines cannot come by a pipe
        source = {"type": "stdin"}
        if self.folder is not None:
            folder, base = self.folder.absolute(), base.absolute()
            path = folder.relative_to(base) if folder.is_relative_to(base) else folder
            source = {"type": "files", "path": str(path).replace("${", "$${")}
        source["format"] = self.format.name
        if self.glob is not None:
            source["glob"] = self.glob
        if self.format.delimiter != ",":
            source["delimiter"] = self.format.delimiter
        return source


def propose(
    name: str,
    sample: Path | BinaryIO,
    *,
    n_rows: int = N_ROWS,
    file_format: str | None = None,
    delimiter: str | None = None,
    time: str | None = None,
    time_unit: str | None = None,
    time_format: str | None = None,
    time_zone: str = "UTC",
) -> Proposal:
    """Look at the first rows of a file, of the files of a folder in the order of their names, or of an open file.

    `time` is the column that says when a row happened; without it, the only TIMESTAMP is taken, or else the only column that by
    name and values counts time since 1970. Raises SampleError.
    """
    where = str(sample) if isinstance(sample, Path) else STANDARD_INPUT
    inputs = inputs_of(sample, file_format)
    found = file_format or format_of(inputs[0])
    contents = SampleContents(delimiter)
    for each in inputs:
        with each:
            each.add_rows_as(found, contents, n_rows)
        if contents.n_rows >= n_rows or (contents.types and contents.n_rows):
            break
    if not contents.columns:
        why = contents.problems[0] if contents.problems else "It is empty."
        if contents.n_rows:
            why = "All objects are empty."
        raise SampleError(f"there is no row in {where}", detail=why, hint="Give data with some rows.")
    columns = tuple(
        _column(name, values, contents, found, time_zone) for name, values in contents.columns.items()
    )
    columns = tuple(column for column in columns if column.name != ARRIVAL)
    found_time, read_as = _time(name, columns, contents, time, time_unit, time_format)
    proposal = Proposal(
        name,
        columns,
        found_time,
        read_as,
        FileFormat(found, delimiter=contents.delimiter or ","),
        None if not isinstance(sample, Path) else sample if sample.is_dir() else sample.parent,
        _glob(sample, found),
        contents.n_rows,
        len(contents.problems) + _n_unfit(columns, contents, found, time_zone),
        tuple(_notes(contents)),
    )
    _check(proposal)
    return proposal


# --------------------------------------------------------------------------------------------- what it could be


def _column(
    name: str, values: list[Any], contents: SampleContents, file_format: str, time_zone: str
) -> ProposedColumn:
    declared = contents.types.get(name)
    if declared is not None:
        strange = contents.strange.get(name)
        note = None if strange is None else f"Avro has {strange} here, which SQL has no type for"
        guess, nullable = Guess(declared.type, note), declared.nullable
    else:
        guess, nullable = _guess(name, values, file_format, time_zone), True
    present = [value for value in values if value is not None]
    return ProposedColumn(
        name, guess.type, nullable, len(values) - len(present), _examples(present), guess.note
    )


def _guess(name: str, values: list[Any], file_format: str, time_zone: str) -> Guess:
    if file_format == "csv":
        guess = guess_of_text(values)
        texts = pa.array(values, STRING)
        problems = convert(texts, guess.type, Context(time_zone=time_zone)).problems
        n_unfit = sum(int(mask.sum()) for mask, _ in problems)
    else:
        guess = guess_of_values(values)
        n_unfit = _n_unfit_json(
            pa.schema([pa.field(name, guess.type)]), [{name: v} for v in values], time_zone
        )
    if n_unfit and guess.note is None:
        return Guess(
            STRING, f"{n_unfit} of the values are not {type_name(guess.type)}, though they look like it"
        )
    return guess


def _n_unfit_json(schema: pa.Schema, rows: Sequence[dict[str, Any]], time_zone: str) -> int:
    rows = [{name: value for name, value in row.items() if name != ARRIVAL} for row in rows]
    return len(rows_in_schema(Stream("sample", schema), rows, time_zone)[2])


def _n_unfit(
    columns: Sequence[ProposedColumn], contents: SampleContents, file_format: str, time_zone: str
) -> int:
    """How many of the rows would be dead letters."""
    if file_format != "json":
        return 0
    schema = pa.schema([pa.field(column.name, column.type) for column in columns])
    rows = [
        dict(zip(contents.columns, row, strict=True)) for row in zip(*contents.columns.values(), strict=True)
    ]
    return _n_unfit_json(schema, rows, time_zone)


def _examples(values: Sequence[Any]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for value in values:
        text = value if isinstance(value, str) else _value_text(value)
        text = " ".join(text.split())
        found[text if len(text) <= EXAMPLE_WIDTH else text[: EXAMPLE_WIDTH - 1] + "…"] = None
        if len(found) == N_EXAMPLES:
            break
    return tuple(found)


def _value_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _time(
    name: str,
    columns: Sequence[ProposedColumn],
    contents: SampleContents,
    time_column: str | None,
    unit: str | None,
    pattern: str | None,
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """The time column, and how it is read."""
    if time_column is None:
        times = [column.name for column in columns if column.type in (TIMESTAMP, TIMESTAMP_NTZ)]
        counting = {c.name: likely_unit(contents.columns[c.name]) for c in columns if _may_count_time(c)}
        likely = [(column, each) for column, each in counting.items() if each is not None]
        if len(times) == 1:
            return times[0], ()
        if not times and len(likely) == 1:
            return likely[0][0], ((TIME_UNIT, likely[0][1]),)
        return None, ()
    column = {each.name.lower(): each for each in columns}.get(time_column.lower())
    if column is None:
        hint = did_you_mean(time_column, [c.name for c in columns], noun="column")
        raise SampleError(f"there is no column {time_column} in the data for {name}", hint=hint)
    if unit is None and pattern is None and is_numeric(column.type):
        unit = likely_unit(contents.columns[column.name])
    stream = with_time(Stream(name, pa.schema([column_field(column)])), column.name, unit, pattern)
    try:
        stream = checked_time(stream)
        check_time_format(stream)
    except EddylineError as error:
        raise SampleError(error.problem, detail=error.detail, hint=error.hint) from None
    return column.name, stream.properties


def column_field(column: ProposedColumn) -> pa.Field:
    return pa.field(column.name, column.type, column.nullable)


def _may_count_time(column: ProposedColumn) -> bool:
    return is_numeric(column.type) and _NAME_OF_TIME.search(column.name) is not None


def likely_unit(values: Sequence[Any]) -> str | None:
    """The unit in which all of these are times of these decades, if there is one."""
    try:
        numbers = [float(value) for value in values if value is not None]
    except (TypeError, ValueError):
        return None
    for unit, unit_us in UNIT_US.items():
        if numbers and all(_FIRST_US <= number * float(unit_us) <= _LAST_US for number in numbers):
            return unit
    return None


def _glob(sample: Path | BinaryIO, file_format: str) -> str | None:
    if not isinstance(sample, Path) or sample.is_dir() or FileFormat(file_format).has_ending(sample.name):
        return None
    return f"*{sample.suffix}" if sample.suffix else sample.name


def _notes(contents: SampleContents) -> Iterator[str]:
    if contents.problems:
        others = f", and {len(contents.problems) - 1} more" if len(contents.problems) > 1 else ""
        yield f"not a row: {contents.problems[0]}{others}"
    if ARRIVAL in contents.columns:
        yield f"{ARRIVAL} numbers the rows; it is not a column"


def _check(proposal: Proposal) -> None:
    """Raises SampleError if no stream can have these columns."""
    for column in proposal.columns:
        if "`" in column.name or not column.name or "\n" in column.name:
            raise SampleError(
                f"{column.name!r} cannot be the name of a column",
                hint="Rename it where the data is written.",
            )
    try:
        infer_schema(proposal.schema)
    except SchemaError as error:
        raise SampleError(error.problem, detail=error.detail, hint=error.hint) from None


# --------------------------------------------------------------------------------------------- as text


def _quoted(name: str) -> str:
    """A name as a schema wants it."""
    is_plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if is_plain else f"`{name}`"


def _escaped(text: str) -> str:
    """The value as it is written between quotation marks in SQL."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _text(text: str) -> str:
    """The text as a TOML string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _text_block(lines: Sequence[str]) -> str:
    inside = ",\n".join(f"  {_text(line)[1:-1]}" for line in lines)
    return f'"""\n{inside}"""'
