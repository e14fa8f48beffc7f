"""What the reference knows of relations after a round, and of windows in time.

append-only   rows come, each in a round: streams, selections over them, OVER, final windows
table         entries by identity: keyed streams, running groups, windows that change, selections over tables
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.aggregates.reference_sql import TimeGroup, Type
from tests.aggregates.reference_values import Window

Instant = datetime.datetime
EPOCH = Instant(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Row:
    """A row of an append-only relation, or an entry of a table."""

    values: dict[str, Any]
    g: tuple[int, ...]
    ts: Instant | None
    number: int  # of its round
    is_late: bool = False
    window: Window | None = None  # of an entry


@dataclass
class Output:
    """A relation after a round."""

    columns: dict[str, Type]
    time: str | None = None
    before: Instant | None = None  # the watermark when the round began
    after: Instant | None = None
    rows: list[Row] = field(default_factory=list)
    entries: dict[Any, Row] | None = None  # None: append-only
    closes: TimeGroup | None = None  # windows of these entries close
    changes: list[tuple[int, Any, Row | None]] = field(default_factory=list)  # of a keyed stream: by arrival


@dataclass(frozen=True)
class Round:
    number: int
    now: Instant
    times: tuple[Instant, ...]  # now() of all rounds


@dataclass
class Told:
    """What a round tells, by query."""

    changes: dict[str, list[tuple[str, tuple[Any, ...]]]] = field(default_factory=dict)
    dead: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def joined(sources: Mapping[str, Output]) -> Output:
    """All combinations of rows, under the names that queries give: one stream with tables, or tables only.

    A row of the stream meets the rows that tables have when it arrives. Late rows meet none.
    """
    columns: dict[str, Type] = {}
    for alias, source in sources.items():
        columns |= source.columns | {f"{alias}.{name}": type_ for name, type_ in source.columns.items()}
    streams = [alias for alias, source in sources.items() if source.entries is None]
    if not streams:
        tables = [source.entries.items() for source in sources.values()]
        pairs = [zip(*combination, strict=True) for combination in itertools.product(*tables)]
        return Output(columns, entries={i: _together(sources, rows, rows[0]) for i, rows in pairs})
    if len(streams) > 1:
        raise NotImplementedError("joins of several streams without a key")
    found = replace(sources[streams[0]], columns=columns, rows=[])
    for row in sources[streams[0]].rows:
        if not row.is_late:
            sides = [[row] if s.entries is None else _before(s, row.g[-1]) for s in sources.values()]
            found.rows += [_together(sources, rows, row) for rows in itertools.product(*sides)]
    return found


def _before(table: Output, arrival: int) -> list[Row]:
    """The rows of a keyed stream before an arrival number."""
    found: dict[Any, Row | None] = {}
    for at, identity, row in table.changes:
        if at < arrival:
            found[identity] = row
    return [row for row in found.values() if row is not None]


def _together(aliases: Mapping[str, Output], rows: Sequence[Row], driver: Row) -> Row:
    values: dict[str, Any] = {}
    for alias, row in zip(aliases, rows, strict=True):
        values |= row.values | {f"{alias}.{name}": value for name, value in row.values.items()}
    return replace(driver, values=values)


# --------------------------------------------------------------------------------------------- windows


def windows_of(time: Instant, spec: TimeGroup) -> Iterator[Window]:
    """All [start, start + size) with start = offset + k * slide that hold a time."""
    start = time - (time - EPOCH - spec.offset) % spec.slide
    while start > time - spec.size:
        yield Window(start, start + spec.size)
        start -= spec.slide


def sessions(times: Sequence[Instant], gap: datetime.timedelta) -> list[Window]:
    """Runs of ascending times at most the gap apart."""
    found: list[Window] = []
    for time in times:
        if found and time <= found[-1].end:
            found[-1] = Window(found[-1].start, time + gap)
        else:
            found.append(Window(time, time + gap))
    return found


def is_closed(window: Window, spec: TimeGroup, watermark: Instant | None) -> bool:
    """A row at the end of a session may still touch it, so a session closes after its end."""
    if watermark is None:
        return False
    return watermark > window.end if spec.is_session else watermark >= window.end
