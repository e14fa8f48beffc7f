"""What queries with aggregates have in common: a class of rows, how they are grouped in time, and the aggregates they need.

The rows of a class are those of a view without a name: everything below the aggregates, WHERE and the expressions of GROUP BY or
PARTITION BY. An aggregation makes a relation of its own from them, whose filters decide HAVING and QUALIFY:

    rows of the class      #k0, #k1 (GROUP BY or PARTITION BY), #e0, #e1 (arguments that can fail), plain columns of the input
    rows of aggregation    #k0, #k1, window, and a column for each aggregate that some query needs: #sum(amount)
    rows of OVER           all columns of the class, and a column for each aggregate over a frame
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from eddyline.types import TIMESTAMP

WINDOW = "window"  # the column of a window: STRUCT<start, end>
WINDOW_TYPE = pa.struct([("start", TIMESTAMP), ("end", TIMESTAMP)])
NOW = (
    "#now"  # a column of entries: now() of the round before for an entry as it was, and of the round as it is
)
CLOSED, FORGOTTEN = "closed", "forgotten"  # why entries leave that no row takes away: their window, or `keep`
OVERFLOW = "#overflow"  # behind the name of an aggregate: whether its value does not fit its type

RUNNING, WINDOWS, SESSIONS, TEMPORAL, OVER = (
    "running",
    "windows",
    "sessions",
    "temporal filters",
    "over",
)  # kinds


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """[start, end) with start = offset + k * slide and end = start + size, in microseconds."""

    size_us: int
    slide_us: int
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """Rows of a group that are at most so far apart."""

    gap_us: int


@dataclass(frozen=True, slots=True)
class OverFrame:
    """The rows before a row, and itself, that OVER computes something of."""

    unit: str = "range"  # or rows
    preceding: int | None = None  # microseconds, or rows; None: all of them


@dataclass(frozen=True, slots=True)
class TemporalBound:
    """A comparison of a time of the row with now(): it holds for enter <= now < leave."""

    column: str  # TIMESTAMP of the rows of the class
    leave_us: int | None = None  # leave = its value + leave_us; None: it does not end
    enter_us: int | None = None  # enter = its value + enter_us; None: it holds from the beginning


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate: a function over columns of the rows of a class."""

    function: str  # as in spec names: count, sum, avg, min, max, …; mean, every, any_value, stddev … have become those they mean
    arguments: tuple[str, ...]
    types: tuple[pa.DataType, ...]  # of the arguments
    type: pa.DataType  # of its value
    filter: str | None = None  # a BOOLEAN column: only rows where it is true count
    is_distinct: bool = False
    ignores_nulls: bool = False
    frame: OverFrame | None = None  # of OVER
    n_back: int = 0  # of lag
    default: object = None  # of lag: a Python value of the type
    keys: tuple[str, ...] | None = None  # PARTITION BY of OVER, where it is not that of the aggregation
    relative_error: float | None = None  # the standard deviation of an estimate; None: the value is exact

    @property
    def name(self) -> str:
        """The name of its column: equal calls have the same."""
        distinct = "DISTINCT " if self.is_distinct else ""
        words = [f"#{self.function}({distinct}{', '.join(self.arguments)})"]
        words += ["IGNORE NULLS"] if self.ignores_nulls else []
        words += [f"FILTER {self.filter}"] if self.filter is not None else []
        words += [f"BACK {self.n_back} ELSE {self.default!r}"] if self.function == "lag" else []
        words += [f"WITHIN {self.relative_error!r}"] if self.relative_error is not None else []
        words += [f"OVER {self.frame.unit} {self.frame.preceding}"] if self.frame is not None else []
        words += [f"BY ({', '.join(self.keys)})"] if self.keys is not None else []
        return " ".join(words)

    @property
    def can_overflow(self) -> bool:
        """Whether its value may not fit its type."""
        of = self.types[0] if self.types else None
        if self.function == "sum":
            return pa.types.is_integer(of) or pa.types.is_decimal(of)
        return self.function == "avg" and pa.types.is_decimal(of)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A relation of aggregates over one class of rows. Queries on it differ in HAVING, QUALIFY, projection and aggregates."""

    name: str
    rows: str  # the relation of the rows of its class
    keys: tuple[str, ...]  # columns of these rows: GROUP BY without the window, or PARTITION BY
    is_over: bool = False  # a row for each row, never revised
    window: TimeWindow | SessionWindow | None = None
    window_time: str | None = (
        None  # over a table: the TIMESTAMP column of the rows that windows hold; else it is their time
    )
    is_final: bool = False  # a window gives one result, when it closes
    keep_us: int | None = None  # how long groups stay without rows; None: for ever
    bounds: tuple[TemporalBound, ...] = ()
    reads_table: bool = False  # rows of the class come and go

    @property
    def kind(self) -> str:
        """The kind of structure that has its rows."""
        if self.is_over:
            return OVER
        if self.bounds:
            return TEMPORAL
        if self.window is None:
            return RUNNING
        return WINDOWS if isinstance(self.window, TimeWindow) else SESSIONS

    @property
    def is_table(self) -> bool:
        """Whether its rows are an answer that changes; otherwise they only come."""
        return not self.is_over and not self.is_final


@dataclass(frozen=True, slots=True)
class Aggregating:
    """What one query reads: an aggregation, and the aggregates of it that it needs."""

    aggregation: Aggregation
    calls: tuple[AggregateCall, ...]
    deadlines: tuple[
        TemporalBound, ...
    ] = ()  # comparisons in HAVING of TIMESTAMP aggregates, by name, with now()
