"""`source = { type = "generator", … }`: which values the columns of made-up rows have."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from eddyline.errors import did_you_mean
from eddyline.model import Stream
from eddyline.pipeline.model import GeneratorSource
from eddyline.pipeline.tables import Table
from eddyline.sources import KINDS, ColumnGenerator, default_generator, rows_in_schema
from eddyline.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, is_decimal, is_integer, type_name

MAX_COUNT = 10_000_000
_OPTIONS = {
    "value": (),
    "choice": ("weights",),
    "uniform": ("decimals",),
    "normal": ("decimals",),
    "sequence": ("step",),
    "text": ("count",),
    "time": ("step", "jitter"),
}


def read_generator(source: Table, stream: Stream, on_change: str, time_zone: str) -> GeneratorSource | None:
    """The generator of a stream, or None if it has a mistake that leaves nothing to make."""
    rate = source.number("rate", None, above=0)
    n_rows = source.whole("rows", -1, least=1)
    step_us = 1_000 if rate is None else max(1, round(1_000_000 / rate))
    columns = source.table("columns", f"the columns of stream {stream.name}")
    stated = columns.values if columns is not None else {}
    spelling = {f.name.lower(): f.name for f in stream.schema}
    by_column: dict[str, ColumnGenerator] = {}
    for name in stated:
        assert columns is not None
        column = spelling.get(name.lower())
        if column is None:
            hint = did_you_mean(name, stream.schema.names, noun="column")
            problem = f"there is no column {name} in stream {stream.name}"
            columns.document.wrong((*columns.at, name), problem, hint=hint, of_key=True)
            continue
        one = columns.table(name, f"column {name}")
        generator = (
            None if one is None else _column(one, stream, stream.schema.field(column), step_us, time_zone)
        )
        if generator is not None:
            by_column[column] = generator
    for f in stream.schema:
        if f.name.lower() in {name.lower() for name in stated}:
            continue
        default = default_generator(f.name, f.type, step_us)
        if default is None and not f.nullable:
            source.missing(
                f"values for column {f.name}", hint=f"Add {f.name} = {{ choice = […] }} to its columns."
            )
        elif default is None:
            by_column[f.name] = ColumnGenerator(f.name, f.type, "value", values=(None,))
        else:
            by_column[f.name] = default
    return GeneratorSource(
        columns=tuple(by_column.values()),
        rate=rate,
        rows=None if n_rows < 0 else n_rows,
        seed=source.whole("seed", 0),
        on_change=on_change,
        place=source.place(),
    )


def _column(
    table: Table, stream: Stream, field: pa.Field, step_us: int, time_zone: str
) -> ColumnGenerator | None:
    kinds = [key for key in table.values if key in KINDS]
    if len(kinds) != 1:
        known = f"one of {', '.join(KINDS)}"
        unknown = [key for key in table.values if key not in KINDS]
        hint = did_you_mean(unknown[0], KINDS, noun="kind") if unknown and not kinds else f"Say {known}."
        table.document.wrong(table.at, f"column {field.name} needs {known}", hint=hint, of_key=True)
        return None
    kind = kinds[0]
    n_mistakes = len(table.document.mistakes)
    table.only((kind, "nulls", *_OPTIONS[kind]))
    if kind not in _kinds_of(field.type):
        fitting = ", ".join(_kinds_of(field.type))
        table.wrong(
            kind, f"{kind} does not make {type_name(field.type)}", hint=f"For such a column use {fitting}."
        )
        return None
    nulls = table.number("nulls", 0.0) or 0.0
    if not 0 <= nulls <= 1 or (nulls and not field.nullable):
        table.wrong(
            "nulls", f"nulls is {nulls:g}", hint="Give a share from 0 to 1, and 0 where NULL is not allowed."
        )
    reader = _OptionReader(table, stream, field, step_us, time_zone)
    options = getattr(reader, kind)()
    if len(table.document.mistakes) > n_mistakes:
        return None
    return ColumnGenerator(field.name, field.type, kind, nulls=nulls, **options)


def _kinds_of(t: pa.DataType) -> tuple[str, ...]:
    """What can make values of a type."""
    if is_integer(t):
        return ("value", "choice", "uniform", "normal", "sequence", "time")
    if pa.types.is_floating(t) or is_decimal(t):
        return ("value", "choice", "uniform", "normal", "sequence")
    if pa.types.is_string(t):
        return ("value", "choice", "text")
    if t in (TIMESTAMP, TIMESTAMP_NTZ, DATE):
        return ("value", "choice", "time")
    return ("value", "choice")


class _OptionReader:
    """The options of each kind, read from the table of a column."""

    def __init__(self, table: Table, stream: Stream, field: pa.Field, step_us: int, time_zone: str) -> None:
        self._table = table
        self._stream = stream
        self._field = field
        self._step_us = step_us
        self._time_zone = time_zone

    def value(self) -> dict[str, Any]:
        return {"values": self._typed("value", [self._table.values["value"]])}

    def choice(self) -> dict[str, Any]:
        values = self._table.values["choice"]
        if not isinstance(values, list) or not values:
            self._table.wrong("choice", "choice must be a list of values", hint='Write choice = ["a", "b"].')
            return {}
        weights = self._table.values.get("weights", [])
        is_fine = isinstance(weights, list) and all(_is_number(w) and w >= 0 for w in weights)
        if not is_fine or (weights and (len(weights) != len(values) or sum(weights) <= 0)):
            self._table.wrong("weights", "weights must be a number for each value of choice, not all 0")
            return {}
        return {"values": self._typed("choice", values), "weights": tuple(float(w) for w in weights)}

    def uniform(self) -> dict[str, Any]:
        low, high = self._pair("uniform", "the lowest and the highest value")
        if low > high:
            self._table.wrong(
                "uniform", f"uniform goes from {low:g} to {high:g}", hint="The lower bound comes first."
            )
        return {"low": low, "high": high, "decimals": self._decimals()}

    def normal(self) -> dict[str, Any]:
        mean, deviation = self._pair("normal", "the mean and the deviation")
        if deviation < 0:
            self._table.wrong("normal", f"the deviation is {deviation:g}", hint="Give one of at least 0.")
        return {"low": mean, "high": deviation, "decimals": self._decimals()}

    def sequence(self) -> dict[str, Any]:
        return {
            "low": self._table.number("sequence", 0.0) or 0.0,
            "high": self._table.number("step", 1.0) if self._table.has("step") else 1.0,
        }

    def text(self) -> dict[str, Any]:
        template = self._table.text("text", "") or ""
        count = self._table.whole("count", 100, least=1)
        try:
            is_fine = template.format(0) != template.format(1)
        except (ValueError, IndexError, KeyError, AttributeError):
            is_fine = False
        if not is_fine:
            self._table.wrong(
                "text", f"{template!r} has no place for a number", hint='Write text = "card-{}".'
            )
        if count > MAX_COUNT:
            self._table.wrong("count", f"count is {count}", hint=f"Give at most {MAX_COUNT}.")
        return {"template": template, "count": count}

    def time(self) -> dict[str, Any]:
        start = self._table.values["time"]
        start_us: int | None = None
        if start != "now":
            typed = rows_in_schema(
                Stream("time", pa.schema([("time", TIMESTAMP)])), [{"time": start}], self._time_zone
            )[0]
            if typed.num_rows:
                start_us = typed.column(0).view(pa.int64())[0].as_py()
            else:
                hint = 'Write time = "now", or "2026-01-01 09:30:00".'
                self._table.wrong("time", f"{start!r} is not a time", hint=hint)
        return {
            "start_us": start_us,
            "step_us": self._table.duration_us("step", self._step_us),
            "jitter_us": self._table.duration_us("jitter", 0),
        }

    # ----------------------------------------------------------------------------------------- inside

    def _typed(self, key: str, values: Sequence[Any]) -> tuple[Any, ...]:
        """The values as the column has them."""
        field = self._field
        stream = Stream(self._stream.name, pa.schema([field]))
        rows, _, misfits = rows_in_schema(stream, [{field.name: value} for value in values], self._time_zone)
        if misfits:
            self._table.wrong(key, misfits[0][1])
            return ()
        return tuple(rows.column(0).to_pylist())

    def _pair(self, key: str, words: str) -> tuple[float, float]:
        value = self._table.values[key]
        if not isinstance(value, list) or len(value) != 2 or not all(_is_number(v) for v in value):
            self._table.wrong(key, f"{key} takes two numbers, {words}", hint=f"Write {key} = [0, 100].")
            return 0.0, 0.0
        return value[0], value[1]

    def _decimals(self) -> int | None:
        return self._table.whole("decimals", 0) if self._table.has("decimals") else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, (bool, datetime.datetime))
