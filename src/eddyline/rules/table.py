"""A rules table: a CSV or Parquet file whose every row makes a query from a template.

A row that cannot be used is refused and named, and the rest are used. Texts of a CSV file become what the template compares them
with, so `007` stays a text beside a STRING column and is a number beside an INT. All work is on columns: a million rows are
never looked at one by one.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from eddyline.errors import (
    EddylineError,
    PropertyError,
    SchemaError,
    TypeMismatchError,
    UnknownNameError,
    did_you_mean,
)
from eddyline.expressions import Context, Frame, can_cast, convert, evaluate
from eddyline.functions import FunctionRegistry
from eddyline.model import AtomKind, Condition, Properties, Shape
from eddyline.sql import Shapes, Streams, over_a_limit, parameter_names
from eddyline.types import BIGINT, DOUBLE, NULL, STRING, canonical, is_floating, is_integer, type_name

NAME = "_name"  # a column of this name says what each query is called, whatever the template's name
MAX_REFUSED = 1_000  # rows named; all are counted
_PARAMETER = re.compile(r":(\w+)")


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row of a rules table that makes no query. Rows are counted from 1, without the header."""

    file: Path
    row: int
    name: str | None
    reason: str

    def as_dict(self) -> dict[str, Any]:
        return {"file": str(self.file), "row": self.row, "name": self.name, "reason": self.reason}

    def __str__(self) -> str:
        called = f" ({self.name})" if self.name else ""
        return f"{self.file}: row {self.row}{called}: {self.reason}"


@dataclass(slots=True)
class Rows:
    """The good rows of a table: a name and a value for each slot of the shape, and which row of the file each was."""

    shape: Shape
    types: dict[str, pa.DataType]  # of the parameters
    names: list[str]
    slots: list[pa.Array]
    numbers: npt.NDArray[np.int64]
    refused: list[RefusedRow]
    n_refused: int
    refused_names: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.names)

    def without(self, bad: dict[int, str], file: Path) -> None:
        """Refuse rows, given by position with the reason for each."""
        if not bad:
            return
        for at in sorted(bad):
            if len(self.refused) < MAX_REFUSED:
                self.refused.append(RefusedRow(file, int(self.numbers[at]), self.names[at] or None, bad[at]))
        self.n_refused += len(bad)
        self.refused_names += [self.names[at] for at in bad]
        kept_mask = np.ones(len(self.names), dtype=bool)
        kept_mask[list(bad)] = False
        places = np.flatnonzero(kept_mask)
        self.names = [self.names[at] for at in places]
        self.slots = [column.take(pa.array(places)) for column in self.slots]
        self.numbers = self.numbers[places]


@dataclass(slots=True)
class _Table:
    """A file as it was read: columns, the number of each row, and rows that are not even rows."""

    file: Path
    columns: pa.Table
    numbers: npt.NDArray[np.int64]
    refused: list[RefusedRow]
    is_text: bool


def read_rows(
    file: Path,
    name: str,
    text: str,
    key: Sequence[str],
    *,
    properties: Properties,
    shapes: Shapes,
    streams: Streams,
    functions: FunctionRegistry,
    context: Context,
) -> Rows:
    """The queries a table makes. Raises an EddylineError if the template or the whole table is unusable."""
    table = _read(file)
    used = parameter_names(text)
    name_fields = [NAME] if NAME in table.columns.schema.names else _name_fields(name)
    for column in (*used, *name_fields, *key):
        if column not in table.columns.schema.names:
            raise UnknownNameError(
                f"{file.name} has no column {column}",
                detail=f"It is {_role(column, used, name_fields)}.",
                hint=did_you_mean(column, table.columns.schema.names, noun="column"),
            )
    if not name_fields:
        raise PropertyError(
            f"the name {name!r} would be that of every row",
            hint=f'Put a column that identifies the rows into it, such as "{name}-{{{table.columns.schema.names[0]}}}".',
        )
    types = _parameter_types(table, text, used, shapes, streams, functions)
    shape, literals = shapes.shape_of(text, streams, functions, params=types or None, properties=properties)
    names = _names(table, "{" + NAME + "}" if name_fields == [NAME] else name)
    bad = _bad_keys(table, names, [*name_fields, *key])
    slots: list[pa.Array] = []
    for slot, literal in zip(shape.slots, literals, strict=True):
        if slot.name is None:
            slots.append(pa.repeat(pa.scalar(literal, slot.type), len(names)))
            continue
        values = _array(table.columns.column(slot.name))
        converted = convert(values, slot.type, context)
        for mask, _ in converted.problems:
            for at in np.flatnonzero(mask):
                bad.setdefault(
                    int(at), f"{slot.name}: {values[int(at)].as_py()!r} is not {type_name(slot.type)}"
                )
        slots.append(converted.values)
    for row, (_, failure) in over_a_limit(shape, slots, context.time_zone).items():
        bad.setdefault(row, f"its constants go over a limit: {failure.message}")
    rows = Rows(shape, types, names, slots, table.numbers, table.refused, len(table.refused))
    rows.without(bad, file)
    rows.refused.sort(key=lambda refused: refused.row)
    return rows


def never_matching(rows: Rows, context: Context) -> int:
    """How many of the rows make a query that can never match."""
    if not len(rows):
        return 0
    frame = Frame(len(rows), {}, rows.slots, context)
    conditions = [branch.condition for branch in rows.shape.all_branches]
    return int(np.logical_and.reduce([_never(frame, each, len(rows)) for each in conditions]).sum())


def _never(frame: Frame, condition: Condition, n: int) -> npt.NDArray[np.bool_]:
    never = np.zeros(n, dtype=bool)
    for expression in condition.never:
        never |= _truth(frame, expression)
    for clause in condition.clauses:
        if all(atom.kind is AtomKind.CONSTANT for atom in clause.atoms):
            never |= ~np.logical_or.reduce([_truth(frame, atom.condition) for atom in clause.atoms])
    return never


def _truth(frame: Frame, expression: Any) -> npt.NDArray[np.bool_]:
    values = frame.array(evaluate(expression, frame))
    return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False))


# --------------------------------------------------------------------------------------------- reading


def _read(file: Path) -> _Table:
    try:
        if file.suffix.lower() in (".parquet", ".pq"):
            columns = pq.read_table(file)
            return _Table(file, columns, np.arange(1, columns.num_rows + 1), [], is_text=False)
        if file.suffix.lower() in (".csv", ".tsv"):
            return _read_csv(file, "\t" if file.suffix.lower() == ".tsv" else ",")
    except FileNotFoundError:
        raise SchemaError(
            f"there is no rules table {file}", hint="Its path starts at the folder of the file that names it."
        ) from None
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise SchemaError(
            f"the rules table {file} cannot be read", detail=str(error).partition("\n")[0]
        ) from None
    raise SchemaError(f"{file.name} is not a rules table", hint="Write a .csv, .tsv or .parquet file.")


def _read_csv(file: Path, delimiter: str) -> _Table:
    refused: list[RefusedRow] = []

    def skip(row: Any) -> str:
        reason = f"{row.actual_columns} values for {row.expected_columns} columns"
        refused.append(RefusedRow(file, row.number - 1, None, reason))
        return "skip"

    one_by_one = pacsv.ReadOptions(use_threads=False)  # threads do not know the numbers of rows
    parse = pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip)
    with pacsv.open_csv(file, read_options=one_by_one, parse_options=parse) as reader:
        header = reader.schema.names
    twice = next((column for column in header if header.count(column) > 1), None)
    if twice is not None:
        raise SchemaError(f"{file.name} has two columns {twice}", hint="Give every column its own name.")
    refused.clear()
    as_text = pacsv.ConvertOptions(
        column_types=dict.fromkeys(header, STRING),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    columns = pacsv.read_csv(file, read_options=one_by_one, parse_options=parse, convert_options=as_text)
    numbers = np.arange(1, columns.num_rows + len(refused) + 1)
    numbers = np.setdiff1d(numbers, np.array([r.row for r in refused], np.int64), assume_unique=True)
    return _Table(file, columns, numbers, refused, is_text=True)


def _array(column: pa.ChunkedArray) -> pa.Array:
    values = column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks else pa.array([], values.type)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    known = canonical(values.type)
    return values if known is None or known == values.type else values.cast(known, safe=False)


# --------------------------------------------------------------------------------------------- names


def _name_fields(name: str) -> list[str]:
    try:
        return [field for _, field, _, _ in string.Formatter().parse(name) if field is not None]
    except ValueError as error:
        raise PropertyError(
            f"{name!r} cannot be the name of queries",
            detail=f"{error}.",
            hint='Write a name such as "watch-{user}".',
        ) from None


def _names(table: _Table, name: str) -> list[str]:
    """The name of each query; "" for a row whose name would hold NULL."""
    pieces = list(string.Formatter().parse(name))
    columns = {field: _array(table.columns.column(field)) for _, field, _, _ in pieces if field is not None}
    is_plain = all(not spec and not conversion for _, _, spec, conversion in pieces)
    if is_plain and all(c.type == STRING or is_integer(c.type) for c in columns.values()):
        parts: list[Any] = []
        for words, field, _, _ in pieces:
            parts.append(pa.scalar(words))
            if field is not None:
                parts.append(columns[field].cast(STRING))
        joined = pc.binary_join_element_wise(*parts, pa.scalar(""))
        return [joined_name or "" for joined_name in joined.to_pylist()]
    rows = zip(*(column.to_pylist() for column in columns.values()), strict=True)
    joined_name = []
    for row in rows:
        try:
            joined_name.append("" if None in row else name.format(**dict(zip(columns, row, strict=True))))
        except (ValueError, TypeError) as error:
            raise PropertyError(
                f"the name {name!r} cannot be formatted with {row!r}", detail=f"{error}."
            ) from None
    return joined_name


def _bad_keys(table: _Table, names: list[str], keys: list[str]) -> dict[int, str]:
    bad: dict[int, str] = {}
    for column in dict.fromkeys(keys):
        values = table.columns.column(column)
        if values.null_count:
            for at in np.flatnonzero(values.is_null().to_numpy()):
                bad.setdefault(int(at), f"{column} is empty, and it is part of the key")
    if len(set(names)) < len(names):
        first: dict[str, int] = {}
        for place, name in enumerate(names):
            if name and first.setdefault(name, place) != place:
                row = int(table.numbers[first[name]])
                bad.setdefault(place, f"the key already exists, in row {row}")
    return bad


def _role(column: str, used: list[str], name_fields: list[str]) -> str:
    if column in used:
        return f"the parameter :{column} of the template"
    return "part of the name of each query" if column in name_fields else "given as key"


# --------------------------------------------------------------------------------------------- types


def _parameter_types(
    table: _Table,
    text: str,
    used: list[str],
    shapes: Shapes,
    streams: Streams,
    functions: FunctionRegistry,
) -> dict[str, pa.DataType]:
    """The type of each parameter: that of its column, and for texts of a CSV file what the template compares it with."""
    if not table.is_text:
        types: dict[str, pa.DataType] = {}
        for column in used:
            found = table.columns.schema.field(column).type
            t = canonical(found.value_type if pa.types.is_dictionary(found) else found)
            if t is None:
                raise TypeMismatchError(
                    f"column {column} of {table.file.name} has type {found}, which SQL does not have"
                )
            types[column] = t
        return types
    met = _met_types(text, used, shapes, streams, functions)
    return {column: _text_type(_array(table.columns.column(column)), t) for column, t in met.items()}


def _met_types(
    text: str, used: list[str], shapes: Shapes, streams: Streams, functions: FunctionRegistry
) -> dict[str, pa.DataType]:
    """What each parameter is compared with. One that is compared with nothing is a text."""
    slot_values = dict.fromkeys(used, NULL)
    while True:
        try:
            shape, _ = shapes.shape_of(text, streams, functions, params=slot_values or None)
            break
        except EddylineError as error:
            waiting = [column for column, t in slot_values.items() if t == NULL]
            if not waiting:
                raise
            marked_text = "" if error.span is None else text[error.span.start : error.span.end]
            named = [column for column in _PARAMETER.findall(marked_text) if column in waiting]
            slot_values |= dict.fromkeys(named or waiting, STRING)
    met: dict[str, pa.DataType] = {}
    for slot in shape.slots:
        if slot.name is not None and (slot.name not in met or met[slot.name] == NULL):
            met[slot.name] = slot.type
    return {column: STRING if met.get(column, NULL) == NULL else met[column] for column in used}


def _text_type(values: pa.Array, met: pa.DataType) -> pa.DataType:
    """The type to read texts as. A whole-number column may be compared with larger or broken numbers, if the rows have such."""
    if pa.types.is_list(met):
        met = met.value_type
    if is_floating(met):
        return DOUBLE
    if is_integer(met):
        unfit = {t: _n_problems(values, t) for t in (met, BIGINT, DOUBLE)}
        return min(unfit, key=lambda t: unfit[t])
    return met if can_cast(STRING, met) else STRING


def _n_problems(values: pa.Array, t: pa.DataType) -> int:
    return sum(int(mask.sum()) for mask, _ in convert(values, t, Context()).problems)
