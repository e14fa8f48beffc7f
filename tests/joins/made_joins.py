"""Makes join queries, and lives of the streams they read, from a source of random numbers.

Values come from small pools, so that keys meet, and include NULL, NaN, zeros of both signs and duplicates. Every query made needs
bounded memory. Half of the queries are others over again with different constants and windows: they share a join.
"""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.oracles.joins import (
    EPOCH,
    SECOND,
    Apply,
    Bound,
    Declared,
    JoinQuery,
    Literal,
    Node,
    Of,
    Source,
    places_of,
)

COLUMNS = {"k": "BIGINT", "m": "INT", "t": "STRING", "x": "DOUBLE"}
POOLS: dict[str, list[Any]] = {
    "k": [0, 1, 2, 1, None],
    "m": [1, 0, 2, None],
    "t": ["a", "b", "", "é", None],
    "x": [0.0, -0.0, 1.0, 1.5, math.nan, None],
    "gone": [False, False, None, True],
}
NAMES = ("auctions", "bids", "cars", "dogs")
ALIASES = ("p", "q", "r", "s")
KEYS = [("k", "k"), ("k", "k"), ("t", "t"), ("x", "x"), ("k", "m"), ("m", "m"), ("k", "x")]
COMPARISONS = ("<", "<=", ">", ">=", "!=", "=")
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEVER_LATE_US = 10_000 * SECOND

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """Something that happens: a query is added, replaced, dropped, paused or resumed, or a round; one without rows is a tick."""

    kind: str
    name: str = ""
    query: JoinQuery | None = None
    rows: tuple[tuple[str, int, Row], ...] = ()  # stream, arrival number, values, in order of arrival
    now_us: int = 0


@dataclass(frozen=True)
class Case:
    """Streams, and what happens to them."""

    streams: tuple[Declared, ...]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        """To be read when it fails."""
        lines = [declared.text() for declared in self.streams]
        for step in self.steps:
            if step.kind == "round":
                lines.append(f"round at {step.now_us // SECOND} s")
                lines += [f"    {stream} @{arrival} {dict(row)}" for stream, arrival, row in step.rows]
            else:
                lines.append(f"{step.kind} {step.name}" + (f": {step.query.text()}" if step.query else ""))
        return "\n".join(lines)

    def unnumbered(self) -> Case:
        """The same, as it is if rows are numbered as they are pushed: a stream after the other."""
        steps, arrival = [], 0
        for step in self.steps:
            order = list(dict.fromkeys(stream for stream, _, _ in step.rows))
            rows = sorted(step.rows, key=lambda each: order.index(each[0]))
            numbered = tuple((s, n, row) for n, (s, _, row) in enumerate(rows, arrival + 1))
            arrival += len(rows)
            steps.append(replace(step, rows=numbered))
        return replace(self, steps=tuple(steps))

    def with_tables_apart(self) -> Case:
        """The same, with the changes of tables in rounds of their own, before the other rows."""
        keyed = {declared.name for declared in self.streams if declared.key}
        steps: list[Step] = []
        for step in self.steps:
            parts = [
                tuple(each for each in step.rows if (each[0] in keyed) is is_keyed)
                for is_keyed in (True, False)
            ]
            some = [replace(step, rows=rows) for rows in parts if rows]
            steps += some or [step]
        return replace(self, steps=tuple(steps))

    def cut(self, sizes: Sequence[int]) -> Case:
        """The same rows in rounds of these sizes, again and again, wherever nothing else happens between them."""
        steps: list[Step] = []
        rows: list[tuple[str, int, Row]] = []
        at = 0

        def flush() -> None:
            nonlocal at
            while rows:
                size = sizes[at % len(sizes)]
                at += 1
                steps.append(Step("round", rows=tuple(rows[:size])))
                del rows[:size]

        for step in self.steps:
            if step.kind == "round":
                rows += step.rows
            else:
                flush()
                steps.append(step)
        flush()
        return replace(self, steps=tuple(steps))


class Maker:
    """Draws everything from one source of random numbers."""

    def __init__(
        self,
        rng: random.Random,
        *,
        is_late_possible: bool = True,
        has_tables: bool = True,
        has_age: bool = True,
    ) -> None:
        self._rng = rng
        self._is_late_possible = is_late_possible
        self._has_tables = has_tables
        self._has_age = has_age
        self._now_s = 1_000
        self._time_s = 100
        self._arrival = 0
        self._n_orderly = (
            0 if self.one_in(2) else rng.randint(1, 30)
        )  # rows that come in order of time, before any do not

    def one_in(self, n: int) -> bool:
        """True once in n; rather not, when an example is made smaller."""
        return self._rng.randint(1, n) == n

    # ----------------------------------------------------------------------------------------- streams

    def streams(self, n: int) -> tuple[Declared, ...]:
        """Streams of which at least one has no key."""
        streams = [self._stream(name, may_have_key=at > 0) for at, name in enumerate(NAMES[:n])]
        return tuple(streams)

    def _stream(self, name: str, *, may_have_key: bool) -> Declared:
        has_time = not self.one_in(4)
        types = COLUMNS | ({"ts": "TIMESTAMP"} if has_time else {})
        lateness_s = self._rng.choice([0, 3, 6]) if self._is_late_possible else NEVER_LATE_US // SECOND
        stream = Declared(name, types, "ts" if has_time else None, lateness_s * SECOND)
        if self._has_tables and may_have_key and self.one_in(3):
            key = self._rng.choice([("k",), ("k", "t")])
            if self.one_in(3):  # what is gone is remembered until rows of its time would be late
                types = types | {"gone": "BOOLEAN"}
                return replace(stream, key=key, delete="gone", types=types, lateness_us=NEVER_LATE_US)
            return replace(stream, key=key)
        if self.one_in(5):
            kind = "rows" if self.one_in(2) else "older" if has_time else self._kind()
            return replace(stream, window=self._bound(kind))
        return stream

    def _kind(self) -> str:
        return "age" if self._has_age and self.one_in(3) else "rows"

    def _bound(self, kind: str) -> Bound:
        return Bound(kind, self._rng.randint(1, 6) * (1 if kind == "rows" else SECOND))

    # ----------------------------------------------------------------------------------------- queries

    def query(self, streams: Sequence[Declared], others: Sequence[JoinQuery] = ()) -> JoinQuery:
        """Another query; half of the time one of the others with different constants, windows and outputs."""
        if others and self.one_in(2):
            return self._varied(self._rng.choice(others), streams)
        unkeyed = [stream for stream in streams if not stream.key]
        if self.one_in(5):
            return self._outer(streams)
        if len(unkeyed) < len(streams) and self.one_in(6):
            return self._of_tables([stream for stream in streams if stream.key])
        n = self._rng.choice([2, 2, 2, 2, 3, 3, 4, 1])
        chosen = [self._rng.choice(unkeyed), *(self._rng.choice(streams) for _ in range(n - 1))]
        if n == 2 and chosen[0].time and chosen[1].key and chosen[1].time and self.one_in(2):
            return self._as_of(chosen[0], chosen[1])
        self._rng.shuffle(chosen)
        where: list[Node] = []
        sources = self._bounded(chosen, where)
        may_be_loose = all(source.bound is not None and source.is_written for source in sources)
        for place in range(1, n):
            if not may_be_loose or not self.one_in(8):
                where.append(self._equality(place, self._rng.randint(0, place - 1)))
        if n > 1 and self.one_in(3):
            where.append(self._equality(*self._rng.sample(range(n), 2)))
        for _ in range(self._rng.choice([0, 0, 1, 1, 2])):
            where.append(self._condition(n))
        outputs = tuple(self._output(chosen) for _ in range(self._rng.randint(1, 3)))
        return JoinQuery(tuple(sources), tuple(where), outputs, has_commas=self.one_in(3))

    def _as_of(self, left: Declared, right: Declared) -> JoinQuery:
        where: list[Node] = [Apply("=", (Of(0, name), Of(1, name))) for name in right.key]
        if self.one_in(2):
            where.append(Apply(">=", (Of(0, "ts"), Of(1, "ts"))))
        if self.one_in(2):
            where.append(self._condition(2))
        sources = (self._alone(0, left), Source(ALIASES[1], right.name, is_as_of=True))
        return JoinQuery(sources, tuple(where), tuple(self._output([left, right]) for _ in range(2)))

    def _outer(self, streams: Sequence[Declared]) -> JoinQuery:
        """A query whose non-matches can be decided: by a table, by what came before, or by the watermark."""
        chosen = [
            self._rng.choice([stream for stream in streams if not stream.key]),
            self._rng.choice(streams),
        ]
        on: list[Node] = [self._equality(1, 0)]
        if chosen[1].key:
            sources = [self._alone(0, chosen[0]), Source(ALIASES[1], chosen[1].name)]
        elif chosen[0].time and chosen[1].time and (chosen[0].window or not self.one_in(3)):
            sources = [Source(ALIASES[at], stream.name) for at, stream in enumerate(chosen)]
            self._related([0, 1], on)
        elif chosen[0].window is None:
            bound = self._bound(self._kind())
            sources = [
                Source(ALIASES[0], chosen[0].name, only_drives=True),
                Source(ALIASES[1], chosen[1].name, bound),
            ]
        else:
            return self._of_one(chosen[0])
        return self._of_two(chosen, sources, on)

    def _of_two(self, chosen: Sequence[Declared], sources: Sequence[Source], on: list[Node]) -> JoinQuery:
        """The rest of an outer join."""
        outer = self._rng.choice(["left", "left anti"])
        if self.one_in(3):
            on.append(self._condition(2))
        n_told = 1 if outer == "left anti" else 2
        where = tuple(self._condition(n_told) for _ in range(self._rng.choice([0, 0, 1])))
        outputs = tuple(self._output(chosen[:n_told]) for _ in range(2))
        return JoinQuery(tuple(sources), where, outputs, outer=outer, on=tuple(on))

    def _of_one(self, stream: Declared) -> JoinQuery:
        return JoinQuery((Source(ALIASES[0], stream.name),), (self._condition(1),), (self._output([stream]),))

    def _of_tables(self, tables: Sequence[Declared]) -> JoinQuery:
        """A query over keyed streams alone."""
        n = self._rng.choice([2, 1, 2, 3])
        chosen = [self._rng.choice(tables) for _ in range(n)]
        sources = tuple(Source(ALIASES[at], stream.name) for at, stream in enumerate(chosen))
        where = [self._equality(place, self._rng.randint(0, place - 1)) for place in range(1, n)]
        where += [self._condition(n) for _ in range(self._rng.randint(0, 1))]
        outputs = tuple(self._output(chosen) for _ in range(self._rng.randint(1, 2)))
        return JoinQuery(sources, tuple(where), outputs, has_commas=n > 1 and self.one_in(3))

    def _alone(self, place: int, stream: Declared) -> Source:
        """The only input without a key."""
        if stream.window is not None:
            return Source(ALIASES[place], stream.name, stream.window, is_written=False)
        return Source(ALIASES[place], stream.name, only_drives=True)

    def _bounded(self, chosen: Sequence[Declared], where: list[Node]) -> list[Source]:
        """Inputs, and conditions between their times, so that all of them are bounded."""
        unkeyed = [place for place, stream in enumerate(chosen) if not stream.key]
        sources = [Source(ALIASES[place], stream.name) for place, stream in enumerate(chosen)]
        if len(chosen) == 1:
            return sources
        if len(unkeyed) == 1:
            (place,) = unkeyed
            sources[place] = self._alone(place, chosen[place])
            if self.one_in(3):
                sources[place] = replace(
                    sources[place], bound=self._bound("rows"), is_written=True, only_drives=False
                )
            return sources
        if all(chosen[place].time for place in unkeyed) and not self.one_in(2):
            self._related(unkeyed, where)
            for place in unkeyed:
                if self.one_in(6):
                    sources[place] = replace(sources[place], bound=self._bound("rows"))
            return sources
        driving = self._rng.choice([*unkeyed, None, None])
        has_default = False
        for place in unkeyed:
            default = self._default(chosen, place)
            if default is not None and not self.one_in(3):
                is_met = default.kind == "rows" or (
                    self._has_age if default.kind == "age" else driving is None
                )
                has_default |= is_met
                bound = default if is_met else self._bound("rows")
                sources[place] = replace(sources[place], bound=bound, is_written=not is_met)
            elif place == driving and default is None:
                sources[place] = replace(sources[place], only_drives=True)
            else:
                sources[place] = replace(sources[place], bound=self._bound(self._kind()))
        timed = [place for place in unkeyed if chosen[place].time]
        if not has_default and not any(s.only_drives for s in sources) and len(timed) > 1 and self.one_in(3):
            where.append(self._times(*self._rng.sample(timed, 2), self._rng.choice(["<", "<=", ">", ">="])))
        return sources

    @staticmethod
    def _default(chosen: Sequence[Declared], place: int) -> Bound | None:
        """The window of an input's stream; beside a stream that has no time, one in time is of arrival."""
        default = chosen[place].window
        if default is None or default.kind == "rows" or all(s.time or s.key for s in chosen):
            return default
        return replace(default, kind="age")

    def _related(self, places: Sequence[int], where: list[Node]) -> None:
        """Conditions by which the times of all of these inputs are near each other."""
        if self.one_in(3):  # each within a window of its own behind every other
            for i in places:
                size_s = self._rng.randint(1, 6)
                for j in places:
                    if i != j:
                        where.append(self._times(j, i, "<", size_s))
            return
        for at, place in enumerate(places[1:], 1):
            other = places[self._rng.randint(0, at - 1)]
            low = self._rng.randint(-4, 2)
            high = low + self._rng.randint(0, 6)
            is_strict = low < high and self.one_in(2)
            where.append(self._times(place, other, ">" if is_strict else ">=", low))
            where.append(self._times(place, other, "<" if is_strict and self.one_in(2) else "<=", high))

    def _times(self, i: int, j: int, operator: str, size_s: int | None = None) -> Node:
        """ts(i) - ts(j) compared with so many seconds, in one of the ways to write it."""
        size = datetime.timedelta(seconds=self._rng.randint(-3, 4) if size_s is None else size_s)
        form = self._rng.randint(0, 2)
        if form == 0:
            return Apply(operator, (Apply("-", (Of(i, "ts"), Of(j, "ts"))), Literal(size)))
        sum_ = Apply("+", (Of(j, "ts"), Literal(size)))
        if form == 1:
            return Apply(operator, (Of(i, "ts"), sum_))
        return Apply(FLIPPED[operator], (sum_, Of(i, "ts")))

    def _equality(self, i: int, j: int) -> Node:
        left, right = self._rng.choice(KEYS)
        side: Node = Of(i, left)
        if left in ("k", "m") and right in ("k", "m") and self.one_in(5):
            side = Apply("+", (side, Literal(1)))
        return Apply("=", (side, Of(j, right)))

    def _condition(self, n: int) -> Node:
        """One input and a constant, or two inputs; also negated, and one or the other."""
        condition = self._comparison(n)
        if self.one_in(4):
            condition = Apply("or", (condition, self._comparison(n)))
        if self.one_in(6):
            condition = Apply("not", (condition,))
        return condition

    def _comparison(self, n: int) -> Node:
        place, column = self._rng.randint(0, n - 1), self._rng.choice(list(COLUMNS))
        if self.one_in(8):
            return Apply("is null", (Of(place, column),))
        operator = self._rng.choice(COMPARISONS)
        if self.one_in(2):
            return Apply(operator, (Of(place, column), Of(self._rng.randint(0, n - 1), column)))
        return Apply(operator, (Of(place, column), Literal(self._constant(column))))

    def _constant(self, column: str) -> Any:
        return self._rng.choice([value for value in POOLS[column] if value is not None])

    def _output(self, chosen: Sequence[Declared]) -> Node:
        place = self._rng.randint(0, len(chosen) - 1)
        if self.one_in(5):
            return Apply("+", (Of(place, "k"), Of(self._rng.randint(0, len(chosen) - 1), "m")))
        return Of(place, self._rng.choice(list(chosen[place].types)))

    def _varied(self, query: JoinQuery, streams: Sequence[Declared]) -> JoinQuery:
        """The same inputs and equalities, other constants and windows."""

        def varied(node: Node) -> Node:
            if not isinstance(node, Apply) or len(places_of(node)) > 1:
                return node
            left, *right = node.arguments
            if node.operator in COMPARISONS and isinstance(left, Of) and isinstance(right[0], Literal):
                return Apply(node.operator, (left, Literal(self._constant(left.column))))
            return node

        declared = {stream.name: stream for stream in streams}
        sources = tuple(
            replace(source, bound=self._bound(source.bound.kind))
            if source.bound is not None and source.is_written
            else source
            for source in query.sources
        )
        output_sources = sources[:1] if query.outer == "left anti" else sources
        outputs = tuple(self._output([declared[s.stream] for s in output_sources]) for _ in range(2))
        where, on = tuple(map(varied, query.where)), tuple(map(varied, query.on))
        return replace(query, sources=sources, where=where, on=on, outputs=outputs)

    # ----------------------------------------------------------------------------------------- rounds

    def round(self, streams: Sequence[Declared], most_rows: int) -> Step:
        """Rows of some streams; numbers have gaps."""
        self._now_s += self._rng.choice([1, 0, 2, 5, -1])
        rows = []
        for _ in range(self._rng.randint(0, most_rows)):
            self._arrival += self._rng.choice([1, 1, 1, 7])
            stream = self._rng.choice(streams)
            rows.append((stream.name, self._arrival, self._row(stream)))
        return Step("round", rows=tuple(rows), now_us=self._now_s * SECOND)

    def _row(self, stream: Declared) -> Row:
        row = {}
        for column in stream.types:
            if column == "ts":
                self._time_s += self._rng.choice([1, 0, 0, 2])
                row[column] = self._time(stream)
            else:
                pool = POOLS[column]
                row[column] = self._rng.choice([v for v in pool if v is not None or column not in stream.key])
        return row

    def _time(self, stream: Declared) -> datetime.datetime | None:
        if not stream.key and self.one_in(20):
            return None
        self._n_orderly -= 1
        behind_s = 0 if self._n_orderly >= 0 else self._rng.choice([0, 0, 1, 2, 4, 9])
        return EPOCH + datetime.timedelta(seconds=self._time_s - behind_s)

    def case(self, *, n_steps: int, most_rows: int, has_churn: bool = True) -> Case:
        """A life of some streams and queries."""
        streams = self.streams(self._rng.randint(2, 4))
        active_queries: dict[str, JoinQuery] = {}
        paused: set[str] = set()
        steps: list[Step] = []
        n_named = 0

        def add() -> None:
            nonlocal n_named
            n_named += 1
            name = f"q{n_named}"
            active_queries[name] = self.query(streams, list(active_queries.values()))
            steps.append(Step("add", name, active_queries[name]))

        for _ in range(self._rng.randint(1, 4)):
            add()
        for _ in range(n_steps):
            if has_churn and active_queries and self.one_in(3):
                name = self._rng.choice(sorted(active_queries))
                kind = self._rng.choice(["add", "drop", "pause", "replace", "resume"])
                if kind == "add":
                    add()
                elif kind == "drop":
                    del active_queries[name]
                    paused.discard(name)
                    steps.append(Step("drop", name))
                elif kind == "pause" and name not in paused:
                    paused.add(name)
                    steps.append(Step("pause", name))
                elif kind == "resume" and name in paused:
                    paused.remove(name)
                    steps.append(Step("resume", name))
                elif kind == "replace" and name not in paused:
                    active_queries[name] = self.query(streams)
                    steps.append(Step("replace", name, active_queries[name]))
            elif self.one_in(8):
                self._now_s += self._rng.randint(0, 3)
                steps.append(Step("round", now_us=self._now_s * SECOND))
            else:
                steps.append(self.round(streams, most_rows))
        return Case(streams, tuple(steps))


class RangeMaker(Maker):
    """Inputs are compared by <, <=, > and >= where others have an equality."""

    def _equality(self, i: int, j: int) -> Node:
        left, right = self._rng.choice(
            [("k", "k"), ("k", "m"), ("m", "k"), ("x", "x"), ("x", "k"), ("k", "x")]
        )
        return Apply(self._rng.choice(["<", "<=", ">", ">="]), (Of(i, left), Of(j, right)))
