"""What joins of streams give, by trying the combinations of all rows that ever arrived. Slow, obvious, and on its own.

Rules it follows to the letter:

- A combination has a row for each input. The row that arrived last drives it: the result belongs to its round. One row may stand
  in several inputs, also in all of them, and such a combination counts once.
- All rows of streams without a key came in rounds the query saw. None of them was late against its own stream's watermark, the
  newest time of earlier rounds less the lateness.
- `recent(s, n)`: among the last n rows of s when the driver came, late ones not counted, those no query wanted counted.
  `recent(s, interval)`: its round is younger than that when the driver's round begins. A stream's own window in time: it is
  less than that behind the newest row of the combination; rows of keyed streams apart, all of them have a time. Only where rows
  of several inputs without a key meet: with tables alone the row that drives is by itself, and in no window but its own.
  Conditions between times are conditions like any other.
- A query over one stream is told of late rows too.
- An input without any bound only drives.
- Of a keyed stream a driver sees the row of each key that was the latest when it came: the largest (time, arrival) where there is
  a time, else the last to arrive; as of its own time with ASOF JOIN. Whether the query stood by then does not matter,
  but for ASOF: a query begins with the latest row of each key, and knows nothing of times before that row's.
- LEFT and LEFT ANTI JOIN: a row of the left without a match is told with NULLs, in the round in which that is decided: when it
  comes, if only what came before could match it; else at the end of the round after which the right's watermark, the newest time
  less the lateness, is above all times that could match.
- Over keyed streams alone a query is told how its answer changes: what came, and what went. It begins with all of it, in the
  first round it sees.
- Nothing is true of NULL; NaN equals itself and is above all numbers.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SECOND = 1_000_000
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

# --------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True)
class Of:
    """A column of the input at a place."""

    place: int
    column: str


@dataclass(frozen=True)
class Literal:
    value: Any


@dataclass(frozen=True)
class Apply:
    """An operator: and, or, not, is null, a comparison, + - abs."""

    operator: str
    arguments: tuple[Node, ...]


Node = Of | Literal | Apply
Values = Mapping[str, Any]


def places_of(node: Node) -> frozenset[int]:
    """The inputs an expression speaks of."""
    if isinstance(node, Of):
        return frozenset([node.place])
    return frozenset().union(*map(places_of, node.arguments)) if isinstance(node, Apply) else frozenset()


def value_of(node: Node, rows: Mapping[int, Values | None]) -> Any:
    """The value on the rows at each place; a place whose row is None has only NULLs."""
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Of):
        row = rows[node.place]
        return None if row is None else row[node.column]
    values = [value_of(argument, rows) for argument in node.arguments]
    if node.operator in ("and", "or"):
        decides = node.operator == "or"
        return decides if decides in values else None if None in values else not decides
    if node.operator == "is null":
        return values[0] is None
    if None in values:
        return None
    if node.operator in _COMPARED:
        return _COMPARED[node.operator](_rank(values[0]), _rank(values[1]))
    return _COMPUTED[node.operator](*values)


def _rank(value: Any) -> tuple[bool, Any]:
    """Compares as Spark does: NaN with itself, above everything."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0 if is_nan else value


_COMPARED = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_COMPUTED = {
    "not": lambda a: not a,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "abs": abs,
}


def written(node: Node, aliases: Sequence[str]) -> str:
    """As Spark SQL."""
    if isinstance(node, Of):
        return f"{aliases[node.place]}.{node.column}"
    if isinstance(node, Literal):
        return _literal(node.value)
    sides = [written(argument, aliases) for argument in node.arguments]
    if node.operator == "not":
        return f"(NOT {sides[0]})"
    if node.operator == "is null":
        return f"({sides[0]} IS NULL)"
    if node.operator == "abs":
        return f"abs({sides[0]})"
    return "(" + f" {node.operator.upper()} ".join(sides) + ")"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, datetime.timedelta):
        return f"INTERVAL '{value // datetime.timedelta(seconds=1)}' SECONDS"
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"CAST('{value!r}' AS DOUBLE)"
    return str(value)


# --------------------------------------------------------------------------------------------- streams and queries


@dataclass(frozen=True)
class Declared:
    """A stream. `types` are Spark's names; `time` names a column of type TIMESTAMP."""

    name: str
    types: Mapping[str, str]
    time: str | None = None
    lateness_us: int = 0
    key: tuple[str, ...] = ()
    delete: str | None = None  # of a keyed stream: the column that says that a row goes
    window: Bound | None = None  # of inputs that have no other

    def text(self) -> str:
        """As a statement that declares it."""
        columns = [f"{name} {kind}" for name, kind in self.types.items()]
        columns += [f"PRIMARY KEY ({', '.join(self.key)})"] if self.key else []
        properties = {}
        if self.time is not None:
            properties = {"time": self.time, "lateness": f"{self.lateness_us // SECOND} seconds"}
        if self.delete is not None:
            properties["delete"] = self.delete
        if self.window is not None:
            is_rows = self.window.kind == "rows"
            size = f"{self.window.size} rows" if is_rows else f"{self.window.size // SECOND} seconds"
            properties["window"] = size
        told = ", ".join(f"{word} = '{value}'" for word, value in properties.items())
        return f"CREATE TABLE {self.name} ({', '.join(columns)})" + (
            f" TBLPROPERTIES ({told})" if told else ""
        )


@dataclass(frozen=True)
class Bound:
    """What bounds an input: its last rows, an arrival time, or an event time."""

    kind: str  # rows, age, older
    size: int  # rows, or microseconds


@dataclass(frozen=True)
class Source:
    """An input of a query. What bounds it is written as recent(…) unless it is the stream's own window."""

    alias: str
    stream: str
    bound: Bound | None = None
    is_written: bool = True
    only_drives: bool = False
    is_as_of: bool = False

    def text(self) -> str:
        if self.bound is None or not self.is_written:
            return f"{self.stream} {self.alias}"
        size = self.bound.size
        window = str(size) if self.bound.kind == "rows" else f"INTERVAL '{size // SECOND}' SECONDS"
        return f"recent({self.stream}, {window}) {self.alias}"


@dataclass(frozen=True)
class JoinQuery:
    """Outputs of the combinations on which all of `where` is true; of outer joins, `on` says what makes a match."""

    sources: tuple[Source, ...]
    where: tuple[Node, ...]
    outputs: tuple[Node, ...]
    has_commas: bool = False  # FROM a, b WHERE …; otherwise JOIN … ON
    outer: str = ""  # left, left anti: of two sources
    on: tuple[Node, ...] = ()

    def text(self) -> str:
        aliases = [source.alias for source in self.sources]
        outputs = ", ".join(f"{written(node, aliases)} AS c{at}" for at, node in enumerate(self.outputs))
        left = list(self.where)
        if self.outer:
            on = " AND ".join(written(node, aliases) for node in self.on)
            origin = (
                f" {self.outer.upper()} JOIN ".join(source.text() for source in self.sources) + f" ON {on}"
            )
        elif self.has_commas:
            origin = ", ".join(source.text() for source in self.sources)
        else:
            origin = self.sources[0].text()
            for place in range(1, len(self.sources)):
                told = [node for node in left if places_of(node) and max(places_of(node)) == place]
                left = [node for node in left if node not in told]
                on = " AND ".join(written(node, aliases) for node in told) or "TRUE"
                word = "ASOF JOIN" if self.sources[place].is_as_of else "JOIN"
                origin += f" {word} {self.sources[place].text()} ON {on}"
        where = " AND ".join(written(node, aliases) for node in left)
        return f"SELECT {outputs} FROM {origin}" + (f" WHERE {where}" if where else "")


# --------------------------------------------------------------------------------------------- what arrived


@dataclass(frozen=True, eq=False)
class Arrived:
    """A row and how it came."""

    values: Values
    arrival: int
    round: int
    now_us: int
    position: int | None  # among the rows of its stream that were not late; None: it was
    time: datetime.datetime | None


@dataclass(frozen=True, eq=False)
class Version:
    """What a key of a keyed stream was said to be; None: it went."""

    values: Values | None
    came: int  # the arrival number of the row that said so
    round: int  # that it came in
    time: datetime.datetime | None


@dataclass
class StreamPast:
    """All that came on a stream."""

    declared: Declared
    rows: list[Arrived] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)  # arrival numbers of rows that were not late
    versions: dict[tuple[Any, ...], list[Version]] = field(default_factory=dict)
    newest: datetime.datetime | None = None  # of rounds that are done
    n_late: int = 0

    def watermark(self) -> datetime.datetime | None:
        """Below it, rows are late."""
        lateness = datetime.timedelta(microseconds=self.declared.lateness_us)
        return None if self.newest is None else self.newest - lateness

    def is_late(self, time: datetime.datetime | None) -> bool:
        watermark = self.watermark()
        return time is not None and watermark is not None and time < watermark

    def take(self, rows: Sequence[tuple[int, Values]], round_number: int, now_us: int) -> None:
        """Rows of one round, in order of arrival."""
        times = []
        for arrival, values in rows:
            time = None if self.declared.time is None else values[self.declared.time]
            if self.declared.key:
                key = tuple(values[name] for name in self.declared.key)
                is_gone = self.declared.delete is not None and values[self.declared.delete] is True
                version = Version(None if is_gone else values, arrival, round_number, time)
                self.versions.setdefault(key, []).append(version)
            is_late = self.is_late(time)
            self.n_late += is_late
            if not is_late:
                self.positions.append(arrival)
            position = None if is_late else len(self.positions)
            self.rows.append(Arrived(values, arrival, round_number, now_us, position, time))
            times += [time] if time is not None else []
        if times:
            self.newest = max([*times, *([self.newest] if self.newest else [])])

    def n_counted(self, arrival: int) -> int:
        """How many rows had come with this arrival number, those that were late apart."""
        return sum(1 for each in self.positions if each <= arrival)

    def current(self, arrival: int) -> Iterator[Version]:
        """The version of each key that a row with this arrival number meets."""
        for versions in self.versions.values():
            known = [v for v in versions if v.came < arrival]
            if known and (last := _latest(known)).values is not None:
                yield last

    def current_at(self, arrival: int, time: datetime.datetime, sees_from: int) -> Iterator[Version]:
        """The version of each key that was the latest at a time, as far as a query knows that sees rounds from one on."""
        for versions in self.versions.values():
            first = [v for v in versions if v.round < sees_from]
            known = [v for v in versions if v.came < arrival and v.time is not None and v.time <= time]
            is_known = not first or (_latest(first).time or EPOCH) <= time
            if known and is_known and (last := _latest(known)).values is not None:
                yield last


def _latest(versions: Sequence[Version]) -> Version:
    return max(versions, key=lambda v: (v.time or EPOCH, v.came))


# --------------------------------------------------------------------------------------------- the judge

# arrival numbers in the order of FROM, 0 for rows of keyed streams, and values
Found = Counter[tuple[tuple[int, ...], tuple[Any, ...]]]


@dataclass
class _Standing:
    query: JoinQuery
    sees_from: int  # the first round
    is_paused: bool = False
    told: Counter[Any] = field(default_factory=Counter)  # over keyed streams alone: the answer so far
    decided: set[int] = field(default_factory=set)  # of outer joins: arrival numbers of the left


class Twin:
    """Streams and queries, round by round."""

    def __init__(self, streams: Iterable[Declared]) -> None:
        self.past = {declared.name: StreamPast(declared) for declared in streams}
        self.round = 0
        self._now_us = 0
        self._standing: dict[str, _Standing] = {}

    def add(self, name: str, query: JoinQuery) -> None:
        """Register a query, or replace the one of this name."""
        is_paused = name in self._standing and self._standing[name].is_paused
        self._standing[name] = _Standing(query, self.round + 1, is_paused)

    def drop(self, name: str) -> None:
        del self._standing[name]

    def pause(self, name: str) -> None:
        self._standing[name].is_paused = True

    def resume(self, name: str) -> None:
        self._standing[name] = _Standing(self._standing[name].query, self.round + 1)

    def push(self, rows: Mapping[str, Sequence[tuple[int, Values]]], now_us: int) -> dict[str, Found]:
        """One round; none at all is a tick. What each query is told of it."""
        self.round += 1
        self._now_us = max(self._now_us, now_us)
        for stream, given in rows.items():
            self.past[stream].take(given, self.round, self._now_us)
        return {
            name: self._results(standing)
            for name, standing in self._standing.items()
            if not standing.is_paused
        }

    def _results(self, standing: _Standing) -> Found:
        query = standing.query
        if all(self.past[source.stream].declared.key for source in query.sources):
            return self._changes(standing)
        found: Found = Counter()
        if query.outer != "left anti":
            for place, row in self._new_rows(query):
                for chosen in self._combinations(standing, query.on + query.where, {place: row}, place):
                    found[self._told(query, chosen)] += 1
        if query.outer:
            for row in self._undecided(standing):
                if self._is_decided(query, row):
                    standing.decided.add(row.arrival)
                    rows = {0: row.values, 1: None}
                    is_wanted = all(value_of(node, rows) is True for node in query.where)
                    if is_wanted and not self._has_match(standing, row):
                        found[self._told(query, {0: row, 1: None})] += 1
        return found

    def _new_rows(self, query: JoinQuery) -> Iterator[tuple[int, Arrived]]:
        """Rows of this round that may drive, and where they stand. A change of a table drives nothing."""
        only = [place for place, source in enumerate(query.sources) if source.only_drives]
        for place, source in enumerate(query.sources):
            past = self.past[source.stream]
            if not past.declared.key and place in (only or [place]):
                for row in past.rows:
                    is_late = row.position is None and len(query.sources) > 1
                    if row.round == self.round and not is_late:
                        yield place, row

    @staticmethod
    def _told(query: JoinQuery, chosen: Mapping[int, Any]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        """A result: arrival numbers, and values."""
        rows = {place: None if row is None else row.values for place, row in chosen.items()}
        outputs = comparable(tuple(value_of(node, rows) for node in query.outputs))
        return tuple(getattr(chosen[at], "arrival", 0) for at in range(len(query.sources))), outputs

    def _combinations(
        self, standing: _Standing, conditions: Sequence[Node], chosen: dict[int, Any], driven_by: int
    ) -> Iterator[dict[int, Any]]:
        """Every way to complete a combination, driven by the row at a place."""
        if not _is_possible(conditions, chosen):
            return
        n = len(standing.query.sources)
        missing = [place for place in range(n) if place not in chosen]
        if not missing:
            if self._is_bounded(standing.query, chosen, chosen[driven_by]):
                yield chosen
            return
        for row in self._candidates(standing, missing[0], chosen[driven_by], driven_by):
            yield from self._combinations(standing, conditions, {**chosen, missing[0]: row}, driven_by)

    def _candidates(
        self, standing: _Standing, place: int, driver: Arrived, driven_by: int
    ) -> Iterator[Arrived | Version]:
        source = standing.query.sources[place]
        past = self.past[source.stream]
        if past.declared.key:
            if not source.is_as_of:
                yield from past.current(driver.arrival)
            elif driver.time is not None:
                yield from past.current_at(driver.arrival, driver.time, standing.sees_from)
            return
        for row in past.rows:
            is_seen = row.position is not None and row.round >= standing.sees_from
            is_own = row is driver and (place < driven_by or standing.query.sources[driven_by].only_drives)
            if is_seen and (row.arrival < driver.arrival or is_own):
                yield row

    def _is_bounded(self, query: JoinQuery, chosen: Mapping[int, Any], driver: Arrived) -> bool:
        """Whether every row lies within what bounds its input."""
        times = [row.time for row in chosen.values() if isinstance(row, Arrived)]
        for place, source in enumerate(query.sources):
            row, bound = chosen[place], source.bound
            if bound is None:
                continue
            if bound.kind == "rows":
                past = self.past[source.stream]
                if past.n_counted(driver.arrival) - row.position >= bound.size:
                    return False
            elif bound.kind == "age":
                if driver.now_us - row.now_us >= bound.size:
                    return False
            elif len(times) > 1 and (
                None in times or max(times) - row.time >= datetime.timedelta(microseconds=bound.size)
            ):
                return False
        return True

    # ------------------------------------------------------------------------------------- outer joins

    def _undecided(self, standing: _Standing) -> list[Arrived]:
        return [
            row
            for row in self.past[standing.query.sources[0].stream].rows
            if row.position is not None
            and row.round >= standing.sees_from
            and row.arrival not in standing.decided
        ]

    def _is_decided(self, query: JoinQuery, row: Arrived) -> bool:
        """Whether no match can come any more."""
        right = self.past[query.sources[1].stream]
        if right.declared.key or query.sources[0].only_drives or row.time is None:
            return True
        watermark = right.watermark()
        reach = datetime.timedelta(microseconds=_reach_us(query, 0)[1])
        return watermark is not None and watermark > row.time + reach

    def _has_match(self, standing: _Standing, row: Arrived) -> bool:
        query = standing.query
        if any(self._combinations(standing, query.on, {0: row}, 0)):
            return True
        if self.past[query.sources[1].stream].declared.key or query.sources[0].only_drives:
            return False
        return any(  # what came after it
            later.position is not None
            and later.arrival >= row.arrival
            and _is_possible(query.on, {0: row, 1: later})
            and self._is_bounded(query, {0: row, 1: later}, later)
            for later in self.past[query.sources[1].stream].rows
        )

    # ------------------------------------------------------------------------------------- keyed streams alone

    def _changes(self, standing: _Standing) -> Found:
        """How the answer differs from what was told: counts below zero are rows that went."""
        now = self._answer(standing.query)
        changes: Found = Counter(
            {row: n for row in now | standing.told if (n := now[row] - standing.told[row])}
        )
        standing.told = now
        return changes

    def _answer(self, query: JoinQuery) -> Found:
        found: Found = Counter()
        everything = [list(self.past[source.stream].current(1 << 60)) for source in query.sources]
        conditions = query.on + query.where

        def complete(chosen: dict[int, Any]) -> Iterator[dict[int, Any]]:
            if not _is_possible(query.on if query.outer else conditions, chosen):
                return
            if len(chosen) == len(query.sources):
                yield chosen
                return
            for version in everything[len(chosen)]:
                yield from complete({**chosen, len(chosen): version})

        for first in everything[0]:
            combinations = list(complete({0: first}))
            if query.outer == "left anti":
                combinations = [] if combinations else [{0: first, 1: None}]
            elif query.outer:
                combinations = combinations or [{0: first, 1: None}]
            for chosen in combinations:
                if _is_possible(query.where, chosen):
                    found[self._told(query, chosen)] += 1
        return found

    # ------------------------------------------------------------------------------------- what must be held

    def n_covered(self, stream: str) -> int:
        """How many rows of a stream without a key a row to come could still meet, if it fulfils all conditions."""
        past = self.past[stream]
        return sum(
            1
            for row in past.rows
            if row.position is not None
            and any(
                self._covers(standing, place, row)
                for standing in self._standing.values()
                for place, source in enumerate(standing.query.sources)
                if source.stream == stream and len(standing.query.sources) > 1
            )
        )

    def _covers(self, standing: _Standing, place: int, row: Arrived) -> bool:
        query, source = standing.query, standing.query.sources[place]
        if standing.is_paused or row.round < standing.sees_from or source.only_drives:
            return False
        if source.bound is not None and source.bound.kind == "rows":
            past = self.past[source.stream]
            return len(past.positions) - (row.position or 0) < source.bound.size
        if source.bound is not None and source.bound.kind == "age":
            return self._now_us - row.now_us < source.bound.size
        if row.time is None:
            return False
        reach = _reach_us(query, place)
        if query.outer and place == 1:  # a row of the left that it matches may still have to be decided
            own = self.past[source.stream].watermark()
            until_us = reach[0] + _reach_us(query, 0)[1]
            if own is None or own <= row.time + datetime.timedelta(microseconds=until_us):
                return True
        for other, partner in enumerate(query.sources):
            past = self.past[partner.stream]
            if other == place or past.declared.key:
                continue
            watermark = past.watermark()
            if watermark is None or other not in reach:
                return True
            if watermark <= row.time + datetime.timedelta(microseconds=reach[other]):
                return True
        return False


def _is_possible(conditions: Sequence[Node], chosen: Mapping[int, Any]) -> bool:
    """Whether no condition about the rows chosen so far fails."""
    rows = {place: None if row is None else row.values for place, row in chosen.items()}
    return all(value_of(node, rows) is True for node in conditions if places_of(node) <= rows.keys())


# --------------------------------------------------------------------------------------------- event time


def _reach_us(query: JoinQuery, place: int) -> dict[int, int]:
    """By how much the time of each other input may at most exceed that of the input at a place, by steps."""
    steps: list[tuple[int, int, int]] = []  # ts(j) - ts(i) is at most so much
    for at, source in enumerate(query.sources):
        if source.bound is not None and source.bound.kind == "older":
            others = [other for other in range(len(query.sources)) if other != at]
            steps += [(at, other, source.bound.size - 1) for other in others]
    for node in query.on + query.where:
        steps += _steps(node)
    reach = {place: 0}
    for _ in query.sources:
        for i, j, size in steps:
            if i in reach:
                reach[j] = min(reach.get(j, 1 << 60), reach[i] + size)
    return reach


def _steps(node: Node) -> list[tuple[int, int, int]]:
    """What a comparison of two times says: (i, j, s) where ts(j) - ts(i) is at most s."""
    if not isinstance(node, Apply) or node.operator not in _COMPARED or node.operator == "!=":
        return []
    first, second = node.arguments
    if isinstance(first, Apply) and first.operator == "-" and isinstance(second, Literal):
        node = Apply(node.operator, (first.arguments[0], Apply("+", (first.arguments[1], second))))
    left, right = (_as_time(side) for side in node.arguments)
    if left is None or right is None or left[0] == right[0]:
        return []
    less = 1 if node.operator in ("<", ">") else 0  # strictly
    found = []
    if node.operator in ("<", "<=", "="):
        found.append((right[0], left[0], right[1] - left[1] - less))
    if node.operator in (">", ">=", "="):
        found.append((left[0], right[0], left[1] - right[1] - less))
    return found


def _as_time(node: Node) -> tuple[int, int] | None:
    """A place and microseconds: of `p.ts`, or of `p.ts + interval`."""
    if isinstance(node, Of) and node.column == "ts":
        return node.place, 0
    if isinstance(node, Apply) and node.operator == "+" and isinstance(node.arguments[0], Of):
        place, size = node.arguments
        if place.column == "ts" and isinstance(size, Literal):
            return place.place, size.value // datetime.timedelta(microseconds=1)
    return None


def comparable(values: Sequence[Any]) -> tuple[Any, ...]:
    """Values that compare as results do: NaN is NaN, TRUE is not 1."""
    return tuple(repr(v) if isinstance(v, (float, bool)) else v for v in values)
