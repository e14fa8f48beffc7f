"""Temporal filters and comparisons with now() in HAVING, against all rows kept and asked again in every round."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.aggregates import Reader, RoundTime, Structure
from eddyline.aggregates.temporal import TemporalGroups
from eddyline.aggregates.timed_groups import TimedGroups
from eddyline.model import Aggregation, TemporalBound
from tests.aggregates.class_rows import (
    COUNT,
    KEYS,
    LAST_TIME,
    MAX,
    MIN,
    SUM,
    Row,
    class_rows,
    images,
    plain_rows,
    values_of,
)
from tests.aggregates.seeds import seeds

CALLS = (COUNT, SUM, MIN, MAX, LAST_TIME)
# a comparison of a time with now(), and the bound that it is
HOLDS: dict[str, Callable[[int, int, int], bool]] = {
    ">": lambda e, now, d: e > now - d,
    ">=": lambda e, now, d: e >= now - d,
    "<=": lambda e, now, d: e <= now - d,
    "<": lambda e, now, d: e < now - d,
}
Comparison = tuple[str, str, int]  # column, operator, d: column operator now() - d
Answer = dict[Any, tuple[Any, ...]]  # by key


def bound(comparison: Comparison) -> TemporalBound:
    column, operator, d = comparison
    if operator in (">", ">="):
        return TemporalBound(column, leave_us=d + (operator == ">="))
    return TemporalBound(column, enter_us=d + (operator == "<"))


class Query:
    """A filter, a HAVING and the epochs that read them."""

    def __init__(self, where: list[Comparison], having: list[Comparison], epochs: tuple[int, ...]) -> None:
        self.where, self.having, self.epochs = where, having, epochs
        self.bounds = tuple(bound(each) for each in where)

    def reader(self, keys: tuple[str, ...], *, reads_table: bool) -> Reader:
        name = f"{self.where}"
        aggregation = Aggregation(name, "rows", keys, bounds=self.bounds, reads_table=reads_table)
        deadlines = tuple(bound((LAST_TIME.name, *each[1:])) for each in self.having)
        return Reader(aggregation, CALLS, self.epochs, deadlines)

    def passes(self, row: Row, now: int) -> bool:
        times = {"ts": row.ts, "until": row.until}
        return all(times[c] is not None and HOLDS[op](times[c], now, d) for c, op, d in self.where)

    def holds(self, values: tuple[Any, ...] | None, now: int) -> bool:
        """HAVING: any of its comparisons of max(ts), the last value."""
        if values is None:
            return False
        return not self.having or (
            values[-1] is not None and any(HOLDS[op](values[-1], now, d) for _, op, d in self.having)
        )

    def answer(self, rows: list[Row], epoch: int | None, now: int, *, is_global: bool) -> Answer:
        groups: dict[Any, list[Row]] = {None: []} if is_global else {}
        for row in rows:
            if (epoch is None or row.epoch >= epoch) and self.passes(row, now):
                groups.setdefault(None if is_global else ("key", row.key), []).append(row)
        start = () if is_global else None
        return {
            key: ((key[1],) if start is None else start) + values_of(mine, CALLS)
            for key, mine in groups.items()
        }


def told(before: Answer, after: Answer, query: Query, then: int, now: int) -> list[tuple[Any, Any]]:
    """Net changes of what HAVING lets through."""
    was = {key: row for key, row in before.items() if query.holds(row, then)}
    is_now = {key: row for key, row in after.items() if query.holds(row, now)}
    pairs = [(was.get(key), is_now.get(key)) for key in {*was, *is_now}]
    return sorted([pair for pair in pairs if pair[0] != pair[1]], key=repr)


class Life:
    """A structure beside the rows it has been given."""

    def __init__(
        self, seed: int, *, reads_table: bool = False, is_global: bool = False, filters: bool = True
    ) -> None:
        self.rng = random.Random(seed)
        self.reads_table, self.is_global, self.filters = reads_table, is_global, filters
        self.schema = pa.schema([]) if is_global else KEYS
        self.version, self.now, self.n_rows = 1, 100, 0
        self.rows: list[Row] = []
        self.saved: list[pa.RecordBatch] = []
        self.begun: set[tuple[str, int]] = set()
        self.has_round = False
        self.is_new = True  # no round since it was made
        self.queries = (
            [self.a_query((1,)) for _ in range(2)] if filters else [Query([], [("", "<", 5)], (1,))]
        )
        self.structure = self.build()

    def a_query(self, epochs: tuple[int, ...]) -> Query:
        rng = self.rng
        if not self.filters:
            having = [
                ("", rng.choice(list(HOLDS)), rng.choice([3, 8, -2])) for _ in range(rng.randrange(1, 3))
            ]
            return Query([], having, epochs)
        where = [("ts", rng.choice([">", ">="]), rng.choice([5, 9, 20]))]
        if rng.random() < 0.4:
            where.append((rng.choice(["ts", "until"]), rng.choice(["<", "<="]), rng.choice([0, -4])))
        if rng.random() < 0.2:
            where.append(("until", ">", rng.choice([0, 3])))
        if rng.random() < 0.15:
            where = [("ts", "<=", 0)]
        having = [("", rng.choice(list(HOLDS)), rng.choice([2, 6]))] if rng.random() < 0.4 else []
        return Query(where, having, epochs)

    def build(self) -> Structure:
        new = TemporalGroups if self.filters else TimedGroups
        structure = new(self.schema, reads_table=self.reads_table)
        structure.build(self.readers())
        return structure

    def readers(self) -> list[Reader]:
        keys = tuple(self.schema.names)
        readers: dict[str, Reader] = {}
        for query in self.queries:
            reader = query.reader(keys, reads_table=self.reads_table)
            name = reader.aggregation.name
            if name not in readers:
                readers[name] = reader
        return list(readers.values())

    def change_queries(self) -> None:
        if self.reads_table:
            return
        rng, kept = self.rng, []
        for query in self.queries:
            query.epochs = tuple(epoch for epoch in query.epochs if rng.random() < 0.7)
            kept += [query] if query.epochs else []
        if rng.random() < 0.8 or not kept:
            self.version += 1
            if kept and rng.random() < 0.5:
                kept[0].epochs = (*kept[0].epochs, self.version)
            else:
                new = self.a_query((self.version,))
                kept += [new] if all(each.where != new.where for each in kept) else []
        if not kept:
            kept = [self.a_query((self.version,))]
        self.queries = kept
        self.structure.build(self.readers())
        self.structure.check()

    def new_rows(self) -> list[Row]:
        rng, rows = self.rng, []
        newest = max(epoch for query in self.queries for epoch in query.epochs)
        for _ in range(rng.choice([0, 0, 1, 2, 8])):
            self.n_rows += 1
            ts = None if rng.random() < 0.1 else self.now - rng.choice([-4, 0, 1, 3, 8, 25])
            until = None if rng.random() < 0.1 else self.now + rng.choice([-5, 0, 3, 6])
            key, is_late = rng.choice(["a", "b", "c", None]), rng.random() < 0.2
            rows.append(Row(self.n_rows, key, ts, rng.choice([None, 1, 7, -3]), newest, is_late, 1, until))
        if self.reads_table:
            there = self.rows + rows
            leaving = rng.sample(there, min(len(there), rng.choice([0, 0, 1, 3])))
            rows += [replace(row, sign=-1) for row in leaving]
        return rows

    def rows_with(self, new: list[Row]) -> list[Row]:
        left = {row.number for row in new if row.sign < 0}
        return [row for row in [*self.rows, *new] if row.sign > 0 and row.number not in left]

    def images(self, new: list[Row], time: RoundTime) -> dict[tuple[str, int], list[tuple[Any, Any]]]:
        found: dict[tuple[str, int], list[tuple[Any, Any]]] = {}
        for aggregation, changes in self.structure.push(class_rows(new), time):
            mine = found.setdefault((aggregation.name, changes.epoch), [])
            mine += images(changes, CALLS)
        for mine in found.values():
            keys = [(pair[1] or pair[0])[: 0 if self.is_global else 1] for pair in mine]
            assert len(keys) == len(set(keys)), "an entry twice"
        return found

    def views(self) -> Iterator[tuple[Query, int, str]]:
        for query in self.queries:
            for epoch in query.epochs:
                yield query, epoch, query.reader((), reads_table=False).aggregation.name

    def expected(self, rows: list[Row], now: int) -> dict[tuple[str, int], list[tuple[Any, Any]]]:
        found = {}
        for query, epoch, name in self.views():
            seen = None if self.reads_table else epoch
            before = query.answer(self.rows, seen, self.now, is_global=self.is_global)
            if self.is_global and (name, epoch) not in self.begun:
                before = {}
            after = query.answer(rows, seen, now, is_global=self.is_global)
            if changes := told(before, after, query, self.now, now):
                found[name, epoch] = changes
        return found

    def heard(self, new: list[Row], time: RoundTime) -> dict[tuple[str, int], list[tuple[Any, Any]]]:
        """What HAVING makes of the entries that are given."""
        pushed, found = self.images(new, time), {}
        for query, epoch, name in self.views():
            mine = pushed.get((name, epoch), [])
            if not query.having:
                assert all(before != after for before, after in mine), "an entry that did not change"
            keyed = dict(enumerate(mine))
            before = {key: pair[0] for key, pair in keyed.items()}
            after = {key: pair[1] for key, pair in keyed.items()}
            if changes := told(before, after, query, self.now, time.now_us):
                found[name, epoch] = changes
        return found

    def round(self) -> None:
        now = self.now + self.rng.choice([0, 0, 1, 2, 6, 30])
        new = self.new_rows()
        rows = self.rows_with(new)
        time = RoundTime(now, None, None, self.now if self.has_round else None)
        assert self.heard(new, time) == self.expected(rows, now)
        self.is_new = False
        query, epoch, name = self.rng.choice(list(self.views()))
        aggregation = next(r.aggregation for r in self.readers() if r.aggregation.name == name)
        seen = None if self.reads_table else epoch
        answer = query.answer(rows, seen, now, is_global=self.is_global)
        current = plain_rows(self.structure.current(aggregation, epoch), CALLS)
        assert sorted(current, key=repr) == sorted(answer.values(), key=repr)
        if self.rng.random() < 0.2:
            self.structure.rollback()
        else:
            saved = self.structure.save()
            self.saved += [] if saved is None else [saved]
            self.structure.commit()
            self.rows, self.now, self.has_round = rows, now, True
            self.begun |= {(name, epoch) for _, epoch, name in self.views()}
        self.structure.check()

    def judge_deadline(self) -> None:
        if not self.has_round or any(view[1:][::-1] not in self.begun for view in self.views()):
            return
        true = next((t for t in range(self.now + 1, self.now + 45) if self.expected(self.rows, t)), None)
        deadline = self.structure.next_deadline()
        if true is not None:
            assert deadline is not None
            assert deadline <= true
            assert self.now < deadline or self.is_new
        if deadline is not None and deadline > self.now:
            n_visited = self.structure.n_visited
            assert self.images([], RoundTime(deadline - 1, None, None, self.now)) == {}
            assert self.structure.n_visited == n_visited
            self.structure.rollback()

    def restart(self) -> None:
        if self.rng.random() < 0.5:
            whole = self.structure.whole()
            self.saved = [] if whole is None else [whole]
        self.structure = self.build()
        self.structure.load(self.saved)
        self.structure.check()
        self.is_new = True
        self.judge_deadline()

    def run(self, n: int) -> None:
        for _ in range(n):
            chance = self.rng.random()
            if chance < 0.12:
                self.change_queries()
            elif chance < 0.2:
                self.restart()
            else:
                self.round()
                self.judge_deadline()


@pytest.mark.parametrize("seed", seeds(4))
def test_groups_hold_the_rows_that_pass_now(seed):
    Life(seed).run(40)


@pytest.mark.parametrize("seed", seeds(3))
def test_rows_of_a_table_leave_groups_by_time_or_by_change(seed):
    Life(seed, reads_table=True).run(40)


@pytest.mark.parametrize("seed", seeds(2))
def test_the_global_row_stands_whatever_passes(seed):
    Life(seed, is_global=True).run(40)


@pytest.mark.parametrize("seed", seeds(3))
def test_running_groups_fall_silent_and_speak_again(seed):
    Life(seed, filters=False).run(40)


def last(d: int) -> Query:
    return Query([("ts", ">", d)], [], (1,))


def passing(*queries: Query, reads_table: bool = False) -> TemporalGroups:
    groups = TemporalGroups(KEYS, reads_table=reads_table)
    groups.build([query.reader(("#k0",), reads_table=reads_table) for query in queries])
    return groups


def a_round(groups: TemporalGroups, rows: list[Row], now: int) -> list[tuple[int, list[tuple[Any, Any]]]]:
    found = []
    for aggregation, changes in groups.push(class_rows(rows), RoundTime(now, None, None)):
        found.append((aggregation.bounds[0].leave_us, images(changes, (COUNT,))))
    groups.commit()
    groups.check()
    return found


def test_a_row_leaves_when_now_reaches_its_time_and_the_interval():
    groups = passing(last(10), last(20))
    assert a_round(groups, [Row(1, "a", 100, 1, 1)], 100) == [
        (10, [(None, ("a", 1))]),
        (20, [(None, ("a", 1))]),
    ]
    assert groups.next_deadline() == 110
    assert a_round(groups, [], 109) == []
    assert a_round(groups, [], 110) == [(10, [(("a", 1), None)])]
    assert groups.next_deadline() == 120
    assert a_round(groups, [], 500) == [(20, [(("a", 1), None)])]
    assert groups.next_deadline() is None
    assert groups.snapshot()["entries"] == groups.snapshot()["groups"] == 0


def test_a_row_that_is_too_old_when_it_comes_is_not_kept():
    groups = passing(last(10))
    assert a_round(groups, [Row(1, "a", 90, 1, 1), Row(2, "a", None, 1, 1)], 100) == []
    assert groups.snapshot()["entries"] == 0


def test_a_row_of_a_table_that_leaves_before_it_has_entered_never_enters():
    query = Query([("ts", "<=", 0), ("ts", ">", 50)], [], (1,))
    groups = passing(query, reads_table=True)
    row = Row(1, "a", 120, 1, 1)
    assert a_round(groups, [row], 100) == []
    assert groups.snapshot()["entries"] == 1
    assert a_round(groups, [replace(row, sign=-1)], 110) == []
    assert groups.snapshot()["entries"] == 0
    assert a_round(groups, [], 130) == []


def test_of_rows_that_came_with_one_number_the_one_that_is_named_leaves():
    groups = passing(last(10), reads_table=True)
    one, other = Row(1, "a", 100, 1, 1), Row(1, "a", 105, 7, 1)
    a_round(groups, [one, other], 105)
    assert a_round(groups, [replace(one, sign=-1)], 106) == [(10, [(("a", 2), ("a", 1))])]
    assert a_round(groups, [], 110) == []
    assert a_round(groups, [], 115) == [(10, [(("a", 1), None)])]
    assert groups.snapshot()["entries"] == 0


def test_a_tick_visits_the_rows_that_leave_and_no_others():
    rng, n = np.random.default_rng(2), 20_000
    groups = passing(last(1_000))
    times = rng.integers(0, 500, n)
    rows = [Row(at, f"k{at % 50}", int(ts), 1, 1) for at, ts in enumerate(times.tolist())]
    a_round(groups, rows, 500)
    n_left = 0
    for now in range(1_000, 1_521, 40):
        a_round(groups, [], now)
        n_left = int((times + 1_000 <= now).sum())
        assert groups.n_visited == n_left
        assert groups.snapshot()["entries"] == n - n_left
        a_round(groups, [], now)  # nothing is due
        assert groups.n_visited == n_left
    assert n_left == n
