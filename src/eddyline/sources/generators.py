"""Made-up rows: for trying rules, for demonstrations, for load.

The value of a column in row n follows from the seed, the column and n alone, so rows are the same however they are cut into
rounds, and a restart goes on exactly where the last committed round ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.durations import DAY_US
from eddyline.model import Stream
from eddyline.sources.ingestion import IngestedRows
from eddyline.sources.positions import SourceBatch, SourceProgress
from eddyline.sources.references import PlannedInput, Reference
from eddyline.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, is_decimal, is_integer

KINDS = ("value", "choice", "uniform", "normal", "sequence", "text", "time")
_PER_COUNT = 4  # 64-bit numbers Philox makes of one count
_WORDS = (
    "alder",
    "birch",
    "cedar",
    "elm",
    "fir",
    "hazel",
    "larch",
    "maple",
    "oak",
    "pine",
    "rowan",
    "willow",
)
VALUE_BYTES = 12  # a guess for texts and the like, until some were made here
GATHER_S = 0.05  # rows that are due share a round
REFERENCE_ROWS = 1 << 17
MADE_AT_ONCE = 1 << 15
MOST_DUE = 1 << 40  # where there is no end


@dataclass(frozen=True, slots=True)
class ColumnGenerator:
    """How the values of one column are made.

    value      always `values[0]`
    choice     one of `values`, by `weights` if given
    uniform    between `low` and `high`, rounded to `decimals`
    normal     around `low` with deviation `high`, rounded to `decimals`
    sequence   `low` + row number × `high`
    text       `template` with a number below `count` in its braces
    time       `start_us` + row number × `step_us`, up to `jitter_us` earlier; without a start, when the first row was made
    """

    column: str
    type: pa.DataType
    kind: str
    values: tuple[Any, ...] = ()
    weights: tuple[float, ...] = ()
    low: float = 0
    high: float = 0
    decimals: int | None = None
    template: str = ""
    count: int = 0
    start_us: int | None = None
    step_us: int = 1_000
    jitter_us: int = 0
    nulls: float = 0.0  # share of rows

    def make(self, seed: int, first: int, n: int, started_us: int) -> pa.Array:
        """The values of rows `first` to `first + n - 1`."""
        array = getattr(self, f"_{self.kind}")(_Numbers(seed, self.column, first, n), started_us)
        if self.nulls:
            is_null = _Numbers(seed, f"{self.column} nulls", first, n).shares() < self.nulls
            array = pc.if_else(pa.array(~is_null), array, pa.scalar(None, array.type))
        return array

    def _value(self, numbers: _Numbers, started_us: int) -> pa.Array:
        return pa.repeat(pa.scalar(self.values[0], self.type), numbers.n)

    def _choice(self, numbers: _Numbers, started_us: int) -> pa.Array:
        weights = np.array(self.weights or [1.0] * len(self.values))
        ends = np.cumsum(weights) / weights.sum()
        which = np.minimum(np.searchsorted(ends, numbers.shares(), side="right"), len(ends) - 1)
        return pa.array(self.values, self.type).take(pa.array(which))

    def _uniform(self, numbers: _Numbers, started_us: int) -> pa.Array:
        if is_integer(self.type):
            span = int(self.high) - int(self.low) + 1
            return pa.array(int(self.low) + numbers.below(span), self.type)
        return self._rounded_values(self.low + numbers.shares() * (self.high - self.low))

    def _normal(self, numbers: _Numbers, started_us: int) -> pa.Array:
        other = _Numbers(numbers.seed, f"{self.column} angle", numbers.first, numbers.n)
        radius = np.sqrt(-2.0 * np.log(1.0 - numbers.shares()))
        return self._rounded_values(self.low + self.high * radius * np.cos(2.0 * np.pi * other.shares()))

    def _rounded_values(self, values: npt.NDArray[np.floating[Any]]) -> pa.Array:
        if is_decimal(self.type):
            return pa.array([f"{value:.{self.type.scale}f}" for value in values]).cast(self.type)
        if is_integer(self.type):
            return pa.array(np.round(values).astype(np.int64)).cast(self.type)
        return pa.array(values if self.decimals is None else np.round(values, self.decimals), self.type)

    def _sequence(self, numbers: _Numbers, started_us: int) -> pa.Array:
        rows = numbers.rows()
        if is_integer(self.type):
            return pa.array(int(self.low) + rows * int(self.high)).cast(self.type)
        return self._rounded_values(self.low + rows * float(self.high))

    def _text(self, numbers: _Numbers, started_us: int) -> pa.Array:
        distinct, places = np.unique(numbers.below(self.count), return_inverse=True)
        texts = pa.array([self.template.format(int(number)) for number in distinct], pa.string())
        return texts.take(pa.array(places))

    def _time(self, numbers: _Numbers, started_us: int) -> pa.Array:
        start = started_us if self.start_us is None else self.start_us
        times = start + numbers.rows() * self.step_us
        if self.jitter_us:
            times = times - numbers.below(self.jitter_us + 1)
        if self.type == DATE:
            return pa.array((times // DAY_US).astype(np.int32)).view(DATE)
        if self.type in (TIMESTAMP, TIMESTAMP_NTZ):
            return pa.array(times, pa.int64()).view(self.type)
        return pa.array(times, pa.int64()).cast(self.type)


def default_generator(column: str, t: pa.DataType, step_us: int = 1_000) -> ColumnGenerator | None:
    """How a column without settings is filled; None for types that need some."""
    if t in (TIMESTAMP, TIMESTAMP_NTZ, DATE):
        return ColumnGenerator(column, t, "time", step_us=step_us)
    if is_integer(t) or pa.types.is_floating(t) or is_decimal(t):
        decimals = 2 if pa.types.is_floating(t) else None
        return ColumnGenerator(column, t, "uniform", low=0, high=100, decimals=decimals)
    if pa.types.is_boolean(t):
        return ColumnGenerator(column, t, "choice", values=(True, False))
    if pa.types.is_string(t):
        return ColumnGenerator(column, t, "choice", values=_WORDS)
    return None


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Random numbers of some rows of one column, by counting: no row needs the rows before it."""

    seed: int
    column: str
    first: int
    n: int

    def raw(self) -> npt.NDArray[np.uint64]:
        begin, end = self.first // _PER_COUNT, -(-(self.first + self.n) // _PER_COUNT)
        key = np.array([self.seed % 2**64, crc32(self.column.lower().encode())], np.uint64)
        bits = np.random.Philox(key=key, counter=[begin, 0, 0, 0])
        numbers = bits.random_raw((end - begin) * _PER_COUNT)
        offset = self.first - begin * _PER_COUNT
        return np.asarray(numbers[offset : offset + self.n], np.uint64)

    def shares(self) -> npt.NDArray[np.float64]:
        """From 0 up to but without 1."""
        return (self.raw() >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, count: int) -> npt.NDArray[np.int64]:
        return (self.shares() * count).astype(np.int64)

    def rows(self) -> npt.NDArray[np.int64]:
        return np.arange(self.first, self.first + self.n, dtype=np.int64)


class Generator:
    """Rows of one stream as its column generators say: `rate` rows a second and `n_rows` in all, if given.

    With `is_paced` off all rows are there at once, and one round of them where there is no end.
    """

    def __init__(
        self,
        stream: Stream,
        columns: Sequence[ColumnGenerator],
        *,
        seed: int = 0,
        rate: float | None = None,
        n_rows: int | None = None,
        position: dict[str, int] | None = None,
        is_paced: bool = True,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._by_column = {column.column: column for column in columns}
        self.redeclare(stream)
        self._seed = seed
        self._rate = rate
        self._n_rows = n_rows
        self._is_paced = is_paced
        self._clock = clock
        self._first = self._next = (position or {}).get("row", 0)
        self._started_us = (position or {}).get("started_us") or clock_us()
        self._began = clock()
        self._row_bytes: float = sum(_usual_bytes(f.type) for f in stream.schema)

    def redeclare(self, stream: Stream) -> None:
        self._stream = stream
        self._columns = [
            self._by_column.get(f.name)
            or default_generator(f.name, f.type)
            or ColumnGenerator(f.name, f.type, "value", values=(None,))
            for f in stream.schema
        ]

    def take(self, max_rows: int, max_bytes: int) -> SourceBatch | None:
        n = min(max_rows, self._n_due(), max(1, int(max_bytes / self._row_bytes)))
        if n <= 0:
            return None
        arrays = [column.make(self._seed, self._next, n, self._started_us) for column in self._columns]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._stream.schema)
        self._row_bytes = max(1.0, rows.nbytes / n)
        self._next += n
        return SourceBatch(IngestedRows(rows), {"row": self._next, "started_us": self._started_us})

    # ----------------------------------------------------------------------------------------- by reference

    def backlog_bytes(self) -> int:
        return int(min(self._n_due(), MOST_DUE) * self._row_bytes)

    def plan(self, max_rows: int, max_bytes: int) -> PlannedInput | None:
        n = min(max_rows, self._n_due(), max(1, int(max_bytes / self._row_bytes)))
        if n <= 0:
            return None
        references = []
        for first in range(self._next, self._next + n, REFERENCE_ROWS):
            size = min(REFERENCE_ROWS, self._next + n - first)
            what = {
                "columns": tuple(self._columns),
                "seed": self._seed,
                "first": first,
                "n": size,
                "started_us": self._started_us,
            }
            references.append(Reference("generator", what, int(size * self._row_bytes)))
        position = {"row": self._next + n, "started_us": self._started_us}
        return PlannedInput(tuple(references), lambda counts: position)

    def move_to(self, position: dict[str, int]) -> None:
        self._next = position["row"]

    def note_refusal(self, reference: Reference, why: str) -> None:
        raise AssertionError(f"made-up rows cannot be read: {why}")

    def _n_due(self) -> int:
        """How many rows should be there by now and are not."""
        n_remaining = 1 << 62 if self._n_rows is None else self._n_rows - self._next
        if not self._is_paced:
            return n_remaining if self._n_rows is not None or self._next == self._first else 0
        if self._rate is None:
            return n_remaining
        return min(n_remaining, self._first + int((self._clock() - self._began) * self._rate) - self._next)

    def wait_s(self) -> float:
        if self.is_finished:
            return 60.0
        if self._rate is None or not self._is_paced:
            return 0.0
        due_at = self._began + (self._next + 1 - self._first) / self._rate
        return max(GATHER_S, due_at - self._clock())

    def progress(self) -> SourceProgress:
        due = self._n_due()
        return SourceProgress(f"row {self._next:,}", max(0, due) if due < 1 << 61 else None, "rows")

    @property
    def is_pending(self) -> bool:
        return not self._is_paced and self._n_due() > 0

    @property
    def is_finished(self) -> bool:
        return self._n_rows is not None and self._next >= self._n_rows

    def close(self) -> None:
        """Do nothing: a generator holds no resource."""


def _usual_bytes(t: pa.DataType) -> float:
    """What a value takes in memory; workers make the rows, so none can be measured here."""
    try:
        return float(t.bit_width) / 8
    except ValueError:  # of no fixed size
        return VALUE_BYTES


def read_generated(reference: Reference, stream: Stream, time_zone: str) -> Iterator[IngestedRows]:
    """The rows of a reference of a generator."""
    what = reference.what
    columns: dict[str, ColumnGenerator] = {column.column: column for column in what["columns"]}
    end = what["first"] + what["n"]
    for first in range(what["first"], end, MADE_AT_ONCE):
        n = min(MADE_AT_ONCE, end - first)
        arrays = [
            columns[f.name].make(what["seed"], first, n, what["started_us"])
            if f.name in columns
            else pa.nulls(n, f.type)
            for f in stream.schema
        ]
        yield IngestedRows(pa.RecordBatch.from_arrays(arrays, schema=stream.schema))
