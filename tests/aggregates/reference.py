"""Standing queries with aggregates by brute force: all rows are kept, every answer is computed anew in every round.

A case of `vectors/aggregates.json` is run as it stands: DDL, SQL, steps. Relations are of two kinds. Of an append-only one rows
only come, each in its round; a table has entries by identity. What a query tells in a round is the difference of
two answers, or the rows that came. The deadline is found by asking at every instant at which something could change whether a
tick would tell something then.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from tests.aggregates.reference_queries import Query, State
from tests.aggregates.reference_relations import Output, Round, Row, Told
from tests.aggregates.reference_sql import (
    MICROSECOND,
    QueryText,
    StreamText,
    duration,
    has_now,
    interval,
    read_stream,
)
from tests.aggregates.written_values import python_row, written_instant, written_row

Step = Mapping[str, Any]


@dataclass
class Stream:
    """All rows that a stream ever had; of one with a key also what it holds."""

    text: StreamText
    rows: list[Row] = field(default_factory=list)
    changes: list[tuple[int, Any, Row | None]] = field(default_factory=list)  # of a key; None: it is deleted
    watermark: datetime.datetime | None = None
    n_late: int = 0

    def push(self, rows: Iterable[list[Any]], number: int) -> None:
        time = self.text.properties.get("time")
        for arrival, *values in rows:
            row = dict(zip(self.text.columns, python_row(values, self.text.columns), strict=True))
            ts = row[time] if time else None
            if self.text.key:
                is_deleted = row.get(self.text.properties.get("delete", "")) is True
                entry = None if is_deleted else Row(row, (arrival,), ts, number)
                self.changes.append((arrival, tuple(row[column] for column in self.text.key), entry))
                continue
            is_late = ts is not None and self.watermark is not None and ts < self.watermark
            self.n_late += is_late
            self.rows.append(Row(row, (arrival,), ts, number, is_late))

    def entries(self) -> dict[Any, Row]:
        """What a table holds: the last change of each key."""
        last = {identity: row for _, identity, row in self.changes}
        return {identity: row for identity, row in last.items() if row is not None}

    def watermark_after(self) -> datetime.datetime | None:
        """As it will stand after the round."""
        lateness = duration(self.text.properties.get("lateness", "0 seconds"))
        times = [row.ts - lateness for row in self.rows if row.ts is not None]
        return max(times, default=None)

    def output(self) -> Output:
        return Output(
            self.text.columns,
            self.text.properties.get("time"),
            self.watermark,
            self.watermark_after(),
            list(self.rows),
            self.entries() if self.text.key else None,
            changes=list(self.changes),
        )


class Reference:
    """An engine that remembers everything."""

    def __init__(self, streams: Iterable[str], queries: Iterable[Mapping[str, Any]] = ()) -> None:
        texts = [read_stream(text) for text in streams]
        self.streams = {text.name: Stream(text) for text in texts}
        self.queries: dict[str, Query] = {}
        self.rounds: list[datetime.datetime] = []  # now() of each
        for query in queries:
            self.add(query)

    def add(self, query: Mapping[str, Any]) -> None:
        text = QueryText(query["sql"], query.get("properties") or {})
        self.queries[query["name"]] = Query(query["name"], text)

    def drop(self, name: str) -> None:
        del self.queries[name]

    def step(self, step: Step) -> Told:
        """What one step of a case tells."""
        if "add" in step:
            self.add(step["add"])
        elif "drop" in step:
            self.drop(step["drop"])
        elif "tick" in step:
            return self.tick(datetime.datetime.fromisoformat(step["tick"]))
        else:
            return self.round(step["push"], datetime.datetime.fromisoformat(step["now"]))
        return Told()

    def tick(self, now: datetime.datetime) -> Told:
        return self.round({}, now, is_tick=True)

    def round(self, pushed: Mapping[str, Any], now: datetime.datetime, *, is_tick: bool = False) -> Told:
        self.rounds.append(now)
        number = len(self.rounds) - 1
        for name, rows in pushed.items():
            self.streams[name].push(rows, number)
        concerned = set(self.streams) if is_tick else self._group(pushed)
        told, states = self._evaluated(now, concerned)
        for name, state in states.items():
            self.queries[name].state = state
        for stream in self.streams.values():
            stream.watermark = stream.watermark_after()
        return told

    def _evaluated(self, now: datetime.datetime, concerned: set[str]) -> tuple[Told, dict[str, State]]:
        """What a round with this time tells, and how it leaves the queries; nothing is changed."""
        round_ = Round(len(self.rounds) - 1, now, tuple(self.rounds))
        outputs: dict[str, Output] = {name: stream.output() for name, stream in self.streams.items()}
        told, states = Told(), {}
        for name, query in self.queries.items():
            if self._base(name) & concerned:
                states[name] = query.evaluated(outputs, round_, told)
                outputs[name] = states[name].output
        return told, states

    def _base(self, name: str) -> set[str]:
        """The streams that a relation is made of."""
        if name in self.streams:
            return {name}
        parts = self.queries[name].text.parts()
        return set().union(*(self._base(source) for part in parts for source in part.sources.values()))

    def _group(self, names: Iterable[str]) -> set[str]:
        """These streams, and all that queries read together with them."""
        found = set(names)
        bases = [self._base(name) for name in self.queries]
        while more := [base for base in bases if base & found and base - found]:
            found = found.union(*more)
        return found

    def n_late(self) -> dict[str, int]:
        return {name: stream.n_late for name, stream in self.streams.items() if stream.n_late}

    # ----------------------------------------------------------------------------------------- deadlines

    def has_deadlines(self) -> bool:
        return any(has_now(query.text.tree) or query.text.keep is not None for query in self.queries.values())

    def deadline(self) -> datetime.datetime | None:
        """The first instant after the last round at which a tick would tell something."""
        now = self.rounds[-1]
        for instant in sorted({instant for instant in self._instants() if instant > now}):
            self.rounds.append(instant)
            told, _ = self._evaluated(instant, set(self.streams))
            self.rounds.pop()
            if told.changes:
                return instant
        return None

    def _instants(self) -> Iterator[datetime.datetime]:
        """All at which a comparison with now() could turn, or a group be forgotten."""
        times = {value for stream in self.streams.values() for value in _times(stream)}
        for query in self.queries.values():
            if query.text.keep is not None:
                yield from (now + query.text.keep for now in self.rounds)
            for distance in _distances(query.text.tree):
                yield from (
                    time + distance + extra for time in times for extra in (0 * MICROSECOND, MICROSECOND)
                )


def _times(stream: Stream) -> Iterator[datetime.datetime]:
    for row in (*stream.rows, *stream.entries().values()):
        yield from (value for value in row.values.values() if isinstance(value, datetime.datetime))


def _distances(tree: exp.Expr) -> set[datetime.timedelta]:
    """All sums of the intervals of a comparison with now(), with any signs."""
    found = set()
    for now in tree.find_all(exp.CurrentTimestamp):
        comparison = now.find_ancestor(exp.Predicate)
        intervals = [interval(i) for i in comparison.find_all(exp.Interval)] if comparison else []
        for signs in itertools.product((-1, 0, 1), repeat=len(intervals)):
            found.add(sum((s * i for s, i in zip(signs, intervals, strict=True)), datetime.timedelta()))
    return found


# --------------------------------------------------------------------------------------------- cases


def run_case(case: Mapping[str, Any], *, has_deadlines: bool = True) -> dict[str, Any]:
    """A case's `expected`, `dead`, `late` and, which takes longest, `deadlines`, as the vectors write them."""
    engine = Reference(case["streams"], case["queries"])
    expected, dead, deadlines = [], [], []
    for step in case["steps"]:
        told = engine.step(step)
        is_round = "push" in step or "tick" in step
        expected.append(
            {
                name: [[change, written_row(row)] for change, row in changes]
                for name, changes in told.changes.items()
            }
        )
        dead.append(
            {name: [_written_letter(letter) for letter in letters] for name, letters in told.dead.items()}
        )
        deadlines.append(engine.deadline() if has_deadlines and is_round and engine.has_deadlines() else None)
    found: dict[str, Any] = {"expected": expected, "late": engine.n_late()}
    if any(dead):
        found["dead"] = dead
    if any(deadlines):
        found["deadlines"] = [None if at is None else written_instant(at) for at in deadlines]
    return found


def _written_letter(letter: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if name == "arrival" else written_row(value) for name, value in letter.items()}
