"""A query with aggregates taken apart: the rows of its stream that take part, the groups they make, and what decides of these.

Queries that select from a view with aggregates are such queries once the view is written out: what they say of its rows stands
beside HAVING.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.aggregates import RoundTime
from eddyline.catalog import QueryRecord
from eddyline.durations import duration_text
from eddyline.engine import AggregateReplay, NumberedClassRows, RoundEngine, encoded, event_times
from eddyline.errors import NotBuiltError
from eddyline.explain.explanations import condition_texts
from eddyline.explain.join_why import last_marked_rows
from eddyline.expressions import Context
from eddyline.filters import selected_rows
from eddyline.model import (
    OVERFLOW,
    WINDOW,
    Aggregating,
    Aggregation,
    Condition,
    SessionWindow,
    Shape,
    Stream,
    TemporalBound,
)
from eddyline.sql import aggregate_names
from eddyline.types import python_rows

RETAINED = 1_000_000  # rows of a stream at most: all that are retained

Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GroupedQuery:
    """A query over declared streams that aggregates rows of one of them."""

    record: QueryRecord
    aggregating: Aggregating
    class_record: QueryRecord  # the same text, of which the shape is what stands below the aggregates
    stream: Stream
    names: Mapping[str, str]  # of the columns of its groups, in the words of the text

    @property
    def aggregation(self) -> Aggregation:
        return self.aggregating.aggregation

    def over(self, aggregation: Aggregation) -> GroupedQuery:
        """The same over the aggregation of the query or view that has the aggregates: a text in which views are written out does
        not say how long these keep groups, nor that windows are results only when they close."""
        plain = replace(aggregation, name="", is_final=False, keep_us=None)
        if replace(self.aggregation, name="", is_final=False, keep_us=None) != plain:
            stated = replace(self.aggregation, is_final=aggregation.is_final, keep_us=aggregation.keep_us)
            return replace(self, aggregating=replace(self.aggregating, aggregation=stated))
        return replace(self, aggregating=replace(self.aggregating, aggregation=aggregation))

    @property
    def noun(self) -> str:
        """What its entries are."""
        return entry_noun(self.aggregation)

    @property
    def leaves_late_rows_out(self) -> bool:
        """Whether rows behind the watermark are in none of its windows and frames; groups without a window have them."""
        return (self.aggregation.is_over or self.aggregation.window is not None) and not (
            self.aggregation.reads_table
        )

    @property
    def identity(self) -> list[str]:
        """The columns that tell its groups apart."""
        return [*self.aggregation.keys, *(() if self.aggregation.window is None else (WINDOW,))]

    def class_rows(
        self,
        rows: pa.RecordBatch,
        context: Context,
        arrivals: Places | None = None,
        is_late: Mask | None = None,
    ) -> NumberedClassRows:
        """The rows that take part, of these rows of its stream, numbered by their places where nothing else is said. Without
        `is_late` late ones are not told apart."""
        found = selected_rows(self.class_record.shape, (), rows, context)
        numbers = np.arange(rows.num_rows) if arrivals is None else arrivals
        of_stream = rows.take(pa.array(found.places))
        late = np.zeros(rows.num_rows, dtype=bool) if is_late is None else is_late
        return NumberedClassRows(found.columns, of_stream, numbers[found.places], late[found.places])

    def recent_rows(self, rounds: RoundEngine, since_version: int) -> tuple[pa.RecordBatch, Mask]:
        """The rows retained in memory that came in a version or later, and which were late then; of a table those it has. The
        locks are held."""
        if not self.aggregation.reads_table:
            since = replace(self.class_record, version_from=since_version)
            return last_marked_rows(rounds, since, 0, RETAINED)
        planned = rounds.flow.plan(rounds.progress)
        assert planned is not None, f"{self.stream.name} is no table"
        rows = rounds.flow.table_rows(planned, self.stream.name.lower())
        return rows, np.zeros(rows.num_rows, dtype=bool)

    def class_conditions(self) -> list[str]:
        """What stands below the aggregates and decides of single rows, as text."""
        return condition_texts(self.class_record)

    @property
    def without_conditions(self) -> Shape:
        """The columns of its class, of any row."""
        return replace(self.class_record.shape, condition=Condition(()))

    def replay(self, time_zone: str) -> AggregateReplay:
        """Its aggregates over rows that are pushed, outside of rounds."""
        return AggregateReplay(self.class_record.shape.output, self.aggregating, self.stream, time_zone)

    def entries_of(self, rows: NumberedClassRows, context: Context) -> pa.RecordBatch:
        """The groups that rows make, or the rows with the values over their frames, oldest first."""
        replay = self.replay(context.time_zone)
        if self.aggregation.is_over:
            return replay.values(rows, RoundTime(context.now_us, None, None))[1]
        replay.push(rows, RoundTime(context.now_us, None, None))
        return replay.entries(context.now_us)

    def groups(self, entries: pa.RecordBatch) -> list[dict[str, Any]]:
        """What tells entries apart, in the words of the text; of OVER the columns of the row."""
        if self.aggregation.is_over:
            names = [name for name in entries.schema.names if name in self.stream.schema.names]
        else:
            names = self.identity
        return self._spoken(entries, names)

    def values(self, entries: pa.RecordBatch) -> list[dict[str, Any]]:
        """The aggregates of entries; of one that does not fit its type, that."""
        found = self._spoken(entries, [call.name for call in self.aggregating.calls])
        for call in self.aggregating.calls:
            if call.can_overflow:
                for at, wrong in enumerate(entries.column(call.name + OVERFLOW).to_pylist()):
                    if wrong:
                        found[at][self.names[call.name]] = "does not fit its type"
        return found

    def _spoken(self, entries: pa.RecordBatch, names: Sequence[str]) -> list[dict[str, Any]]:
        rows = python_rows(entries.select(names)) if names else [{}] * entries.num_rows
        return [{self.names.get(name, name): value for name, value in row.items()} for row in rows]

    def spoken_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values of columns of entries by what the text calls them."""
        shown = {name: value for name, value in values.items() if not name.endswith(OVERFLOW)}
        return {self.names.get(name, name): value for name, value in shown.items()}

    def places_of(self, entries: pa.RecordBatch, row: NumberedClassRows, time_us: int | None) -> list[int]:
        """The entries that a row of the class is in, if it was taken into them: those of its key, and of windows that hold its
        time."""
        places = np.flatnonzero(self.has_key_of(row.columns, entries)).tolist()
        if self.aggregation.window is None:
            return places
        spans = self.spans(entries.take(pa.array(places, pa.int64())))
        reach = self.aggregation.window.gap_us if isinstance(self.aggregation.window, SessionWindow) else 0
        return [
            at
            for at, (start, end) in zip(places, spans, strict=True)
            if time_us is not None and start - reach <= time_us < end + (reach > 0)
        ]

    def has_key_of(self, one: pa.RecordBatch, rows: pa.RecordBatch) -> Mask:
        """Which rows are grouped with a row."""
        keys = self.aggregation.keys
        if not keys:
            return np.ones(rows.num_rows, dtype=bool)
        (wanted,) = encoded([one.column(name) for name in keys])
        return np.asarray(pc.equal(encoded([rows.column(name) for name in keys]), wanted))

    def key_bytes(self, rows: pa.RecordBatch) -> list[bytes]:
        """What they are grouped by, as bytes that are equal where SQL groups together."""
        keys = self.aggregation.keys
        if not keys:
            return [b""] * rows.num_rows
        found: list[bytes] = encoded([rows.column(name) for name in keys]).to_pylist()
        return found

    def within_bounds(
        self, rows: pa.RecordBatch, now_us: int
    ) -> list[tuple[TemporalBound, npt.NDArray[np.bool_]]]:
        """Of each temporal filter, which rows of the class pass it at a time."""
        found = []
        for bound in self.aggregation.bounds:
            times = rows.column(bound.column).cast(pa.int64())
            is_there = np.asarray(times.is_valid())
            us = np.asarray(times.fill_null(0))
            if bound.leave_us is not None:
                is_there &= now_us < us + bound.leave_us
            if bound.enter_us is not None:
                is_there &= now_us >= us + bound.enter_us
            found.append((bound, is_there))
        return found

    def spans(self, entries: pa.RecordBatch) -> Iterator[tuple[int, int]]:
        """Start and end of the windows of entries, in microseconds."""
        window = entries.column(WINDOW)
        starts, ends = (window.field(k).cast(pa.int64()).to_pylist() for k in (0, 1))
        return zip(starts, ends, strict=True)

    def window_times(self, rows: NumberedClassRows, time_zone: str) -> list[int | None]:
        """The times whose windows hold rows, in microseconds; None: none do."""
        column = self.aggregation.window_time
        found: pa.Array | None
        if column is not None:
            found = rows.columns.column(column).cast(pa.int64())
        else:
            found = event_times(self.stream, rows.stream_rows, time_zone)
        times: list[int | None] = [None] * len(rows) if found is None else found.to_pylist()
        return times

    def bound_texts(self) -> list[str]:
        """Its temporal filters, as text."""
        found = []
        for bound in self.aggregation.bounds:
            column = self.names.get(bound.column, bound.column)
            if bound.leave_us is not None:
                found.append(
                    f"{column} {'>=' if bound.leave_us % 1000 == 1 else '>'} {_now(-bound.leave_us)}"
                )
            if bound.enter_us is not None:
                found.append(
                    f"{column} {'<' if bound.enter_us % 1000 == 1 else '<='} {_now(-bound.enter_us)}"
                )
        return found


def _now(distance_us: int) -> str:
    """now() and an interval, which a microsecond may have been added to."""
    whole = round(distance_us / 1000) * 1000 if abs(distance_us) % 1000 in (1, 999) else distance_us
    if not whole:
        return "now()"
    return f"now() {'-' if whole < 0 else '+'} INTERVAL '{duration_text(abs(whole))}'"


def entry_noun(aggregation: Aggregation) -> str:
    """What the entries of an aggregation are."""
    if aggregation.is_over:
        return "row"
    if aggregation.window is None:
        return "group"
    return "session" if isinstance(aggregation.window, SessionWindow) else "window"


@dataclass(frozen=True, slots=True)
class LiveGroups:
    """Where the groups that a registered query sees are kept: by its own id, or by that of the body of a view it reads."""

    id: int
    since_version: int
    aggregation: Aggregation


def live_groups(rounds: RoundEngine, record: QueryRecord) -> LiveGroups:
    """Of a query with aggregates as it was registered, so with its views by name. The lock is held."""
    id_, reader = record.id, record.name
    while record.shape.aggregating is None:
        name = record.shape.inputs[0].stream
        view = rounds.catalog.views.relation(name) or rounds.catalog.views.find(name)
        if view is None or len(view.feeds) != 1 or not view.feeds[0].query_id:
            raise NotBuiltError(
                f"why of {reader}, which reads groups of a subquery, is not built in this version",
                hint="Register the subquery, and let the query read it.",
            )
        id_, record = view.feeds[0].body_id, rounds.catalog.record(view.feeds[0].query_id)
    return LiveGroups(id_, record.version_from, record.shape.aggregating.aggregation)


def has_aggregates(shape: Shape) -> bool:
    """Whether results of a shape are not those of single rows."""
    return any(each.aggregating is not None for each in shape.plain_shapes())


def grouped_query(rounds: RoundEngine, record: QueryRecord) -> GroupedQuery | None:
    """A query over declared streams, taken apart; None if it has no aggregates. The lock is held.

    Raises NotBuiltError for aggregates of which this is not known.
    """
    shape = record.shape
    if not has_aggregates(shape):
        return None
    view = shape.inputs[0].view
    class_shape = None if view is None else view.shape
    is_plain = class_shape is not None and not class_shape.branches and class_shape.join is None
    stream = None
    if is_plain and class_shape is not None and shape.aggregating is not None and not shape.branches:
        stream = rounds.catalog.find_stream(class_shape.inputs[0].stream)
    if (
        class_shape is None
        or shape.aggregating is None
        or stream is None
        or class_shape.aggregating is not None
    ):
        raise NotBuiltError(
            f"why, trials, receipts and proofs of {record.name or 'the query'} are not built in this version",
            detail="They are built for aggregates over the rows of one stream or table, and views of these.",
            hint="Ask about a query that selects the rows: the same FROM and WHERE without aggregates.",
        )
    class_record = replace(record, shape=class_shape, constants=())
    return GroupedQuery(record, shape.aggregating, class_record, stream, aggregate_names(shape))
