"""What the reference knows of relations after a round, and of windows in time.

append-only   rows come, each in a round: streams, selections over them, OVER, final windows
table         entries by identity: keyed streams, running groups, windows that change, selections over tables
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from tests.aggregates.reference_sql import TimeGroup, Type
from tests.aggregates.reference_values import MISSING, PASSES, Window, outcome

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
    since: int | None = None  # of a join: the first round of a row it is made of

    @property
    def first_number(self) -> int:
        """The round from which on a query must run to see it."""
        return self.number if self.since is None else self.since


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


Combination = dict[str, Row | None]  # rows by alias; None: no partner


def joined(sources: Mapping[str, Output], outer: Mapping[str, exp.Expr]) -> Output:
    """All combinations of rows, under the names that queries give: of streams, of tables, or of one stream with tables.

    A row of the only stream meets the rows that tables have when it arrives; rows of several streams meet whatever came first.
    Late rows meet none. `outer` are the inputs of LEFT JOIN with their ON: where that is true of no row, there is one of NULL.
    """
    columns: dict[str, Type] = {}
    for alias, source in sources.items():
        columns |= source.columns | {f"{alias}.{name}": type_ for name, type_ in source.columns.items()}
    streams = [alias for alias, source in sources.items() if source.entries is None]
    if not streams:
        found = {
            _identity(sources, rows): _together(sources, rows, rows.values())
            for rows in _combinations(
                {alias: source.entries for alias, source in sources.items()}, sources, outer
            )
        }
        return Output(columns, entries=found)
    drivers = {alias: [row for row in sources[alias].rows if not row.is_late] for alias in streams}
    combined: list[Row] = []
    for rows in itertools.product(*drivers.values()):
        together = dict(zip(streams, rows, strict=True))
        sides = {
            alias: {0: together[alias]}
            if alias in together
            else dict(enumerate(_before(source, rows[-1].g[0])))
            for alias, source in sources.items()
        }
        combined += [_together(sources, each, rows) for each in _combinations(sides, sources, outer)]
    if len(streams) > 1:
        return Output(columns, rows=[replace(row, ts=None) for row in combined])
    return replace(sources[streams[0]], columns=columns, rows=combined)


def _combinations(
    sides: Mapping[str, Mapping[Any, Row]], sources: Mapping[str, Output], outer: Mapping[str, exp.Expr]
) -> Iterator[Combination]:
    found: list[Combination] = [{}]
    for alias, side in sides.items():
        pairs = [[{**rows, alias: row} for row in side.values()] for rows in found]
        if alias in outer:
            matches = [[each for each in some if _holds(outer[alias], sources, each)] for some in pairs]
            pairs = [some or [{**rows, alias: None}] for rows, some in zip(found, matches, strict=True)]
        found = [each for some in pairs for each in some]
    yield from found


def _holds(condition: exp.Expr, sources: Mapping[str, Output], rows: Combination) -> bool:
    values = _values(sources, rows)

    def found(tree: exp.Expr) -> Any:
        return values[f"{tree.table}.{tree.name}".lower()] if isinstance(tree, exp.Column) else MISSING

    return outcome(condition, found) == PASSES


def _identity(sources: Mapping[str, Output], rows: Combination) -> tuple[Any, ...]:
    identities = {alias: {id(row): key for key, row in s.entries.items()} for alias, s in sources.items()}
    return tuple(None if row is None else identities[alias][id(row)] for alias, row in rows.items())


def _before(table: Output, arrival: int) -> list[Row]:
    """The rows of a keyed stream before an arrival number."""
    found: dict[Any, Row | None] = {}
    for at, identity, row in table.changes:
        if at < arrival:
            found[identity] = row
    return [row for row in found.values() if row is not None]


def _together(sources: Mapping[str, Output], rows: Combination, made_by: Iterable[Row | None]) -> Row:
    """A row of a join: it comes with the latest of its streams, whose number is the first of its own."""
    drivers = [row for row in made_by if row is not None]
    lineage = tuple(-1 if row is None else row.g[0] for row in rows.values())
    return Row(
        _values(sources, rows),
        (max(row.g[0] for row in drivers), *lineage),
        drivers[0].ts,
        max(row.number for row in drivers),
        since=min(row.number for row in drivers),
    )


def _values(sources: Mapping[str, Output], rows: Combination) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for alias, row in rows.items():
        own = dict.fromkeys(sources[alias].columns) if row is None else row.values
        values |= own | {f"{alias}.{name}": value for name, value in own.items()}
    return values


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
