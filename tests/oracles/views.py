"""Views and joins of views, one row at a time: every relation is a list of all its rows, made anew from the rows that arrived.

A query registered with version v sees rows whose version is not below v; of a join each row that it combines has to be visible.
The rows of a table are there for all queries.

  inner       every combination that ON and WHERE take
  left, anti  what has no match is decided by the first round after which no match can come: a row that came after it would be
              late. If the other input is a table, that is at once
  semi        a row that has a match in a table when it comes, once, with the oldest match
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

Values = dict[str, Any]


class Row(NamedTuple):
    """`arrivals` are the numbers of the declared streams' rows it is made of, `version` is that of the round that made it."""

    values: Values
    arrivals: tuple[int, ...]
    time: int | None
    is_late: bool
    version: int
    made_at: int  # the arrival number of its latest row, or the last one of the round that decided it


class Change(NamedTuple):
    """A row of a table, by its key; without values it deletes. One with the values that the key has changes nothing."""

    key: Any
    values: Values | None
    arrival: int


class RoundEnd(NamedTuple):
    """How far streams are after a round; a row is late if its time is below the watermark of its stream before its round."""

    version: int
    last_arrival: int
    watermarks: Mapping[str, int]


class Query(NamedTuple):
    """A select or join: over which relations, what it keeps, what it shows, and which column is its time."""

    inputs: tuple[str, ...]
    keeps: Callable[..., bool]  # WHERE; of left, anti and semi joins ON
    shows: Callable[..., Values]
    time: str | None = None
    kind: str = "inner"
    reach_s: int = 0  # of left and anti joins: by so much a match may come after the row, in event time
    behind_s: tuple[
        int, ...
    ] = ()  # by input: by so much its time may lie below that of the input, which is a stream


@dataclass
class History:
    """What arrived, in order."""

    streams: dict[str, list[Row]]
    tables: dict[str, list[Change]] = field(default_factory=dict)
    rounds: list[RoundEnd] = field(default_factory=list)


def rows_of(
    name: str, history: History, queries: Mapping[str, Query], versions: Mapping[str, int]
) -> Iterator[Row]:
    """The rows of a declared stream or of a view; a view has those that its query saw."""
    if name in history.streams:
        yield from history.streams[name]
        return
    query, since = queries[name], versions[name]
    streams = [
        [row for row in rows_of(each, history, queries, versions) if row.version >= since]
        for each in query.inputs
        if each not in history.tables
    ]
    if len(query.inputs) > 1:
        streams = [[row for row in rows if not row.is_late] for rows in streams]
    if query.kind == "inner":
        for combination in product(*streams):
            for partners in product(*_tables(query, history, max(row.made_at for row in combination))):
                rows = (*combination, *partners)
                if query.keeps(*(row.values for row in rows)):
                    yield _joined(query, rows, combination)
        return
    for row in streams[0]:
        is_at_once = len(streams) == 1
        others = _tables(query, history, row.made_at)[0] if is_at_once else streams[1]
        matches = [other for other in others if query.keeps(row.values, other.values)]
        if query.kind == "left":
            for other in matches:
                yield _joined(query, (row, other), (row,) if is_at_once else (row, other))
        elif query.kind == "semi" and matches:
            oldest = min(matches, key=lambda other: other.arrivals)
            yield _joined(query, (row, oldest), (row,))
        if not matches and query.kind in ("left", "anti"):
            yield from _unmatched(query, row, history, queries, is_at_once=is_at_once)


def _joined(query: Query, rows: Sequence[Row], streams: Sequence[Row]) -> Row:
    """`streams` are those of the rows that are of streams: tables are found as they are."""
    shown = query.shows(*(row.values for row in rows))
    return Row(
        shown,
        tuple(number for row in rows for number in row.arrivals),
        None if query.time is None else shown[query.time],
        len(query.inputs) == 1 and rows[0].is_late,
        max(row.version for row in streams),
        max(row.made_at for row in streams),
    )


def _unmatched(
    query: Query, row: Row, history: History, queries: Mapping[str, Query], *, is_at_once: bool
) -> Iterator[Row]:
    """A row that has no match, when that is certain."""
    shown = query.shows(row.values, None)
    time = None if query.time is None else shown[query.time]
    no_rows = (0,) * n_rows(query.inputs[1], queries)
    alone = Row(shown, row.arrivals + no_rows, time, False, row.version, row.made_at)
    if is_at_once:
        yield alone
        return
    for end in history.rounds:
        watermark = _watermark(query.inputs[1], end, queries)
        if end.last_arrival >= row.made_at and watermark is not None and watermark > row.time + query.reach_s:
            yield alone._replace(version=end.version, made_at=end.last_arrival)
            return


def n_rows(name: str, queries: Mapping[str, Query]) -> int:
    """How many rows of streams and tables each row of a relation is made of."""
    if name not in queries:
        return 1
    return sum(n_rows(each, queries) for each in queries[name].inputs)


def _watermark(name: str, end: RoundEnd, queries: Mapping[str, Query]) -> int | None:
    """No row of a relation that is made after this round has a time below."""
    if name not in queries:
        return end.watermarks.get(name)
    query = queries[name]
    below = [
        (_watermark(each, end, queries), behind)
        for each, behind in zip(query.inputs, query.behind_s, strict=False)
    ]
    return None if any(at is None for at, _ in below) else min(at - behind for at, behind in below)


def _tables(query: Query, history: History, at: int) -> list[list[Row]]:
    """The rows of its tables as one that came with this number finds them."""
    found = []
    for name in query.inputs:
        if name in history.tables:
            current: dict[Any, Row] = {}
            for change in history.tables[name]:
                known = current.get(change.key)
                if change.arrival > at or (known is not None and known.values == change.values):
                    continue
                current.pop(change.key, None)
                if change.values is not None:
                    current[change.key] = Row(change.values, (change.arrival,), None, False, 0, 0)
            found.append(list(current.values()))
    return found
