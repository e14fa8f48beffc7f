"""Sessions against their definition: all rows kept, cut at gaps anew in every round."""

from __future__ import annotations

import random
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.aggregates import Reader, RoundTime
from eddyline.aggregates.sessions import Sessions
from eddyline.model import Aggregation, SessionWindow
from tests.aggregates.class_rows import COUNT, KEYS, MAX, SUM, Row, class_rows, images, plain_rows, values_of
from tests.aggregates.seeds import seeds

CALLS = (COUNT, SUM, MAX)
Told = dict[tuple[str, int, str], list[tuple[Any, Any]]]  # by aggregation, epoch and reason


def aggregation(gap: int, *, is_final: bool = False) -> Aggregation:
    name = f"gap{gap}{'final' if is_final else ''}"
    return Aggregation(name, "rows", ("#k0",), window=SessionWindow(gap), is_final=is_final)


def reader(gap: int, epochs: tuple[int, ...] = (1,), *, is_final: bool = False) -> Reader:
    return Reader(aggregation(gap, is_final=is_final), CALLS, epochs)


def slow_sessions(rows: list[Row], epoch: int, gap: int) -> dict[tuple[str | None, int], tuple[Any, ...]]:
    """By key and start: key, start, end and values."""
    found = {}
    seen = sorted((r for r in rows if r.epoch >= epoch), key=lambda r: (r.key is not None, r.key or "", r.ts))
    for key, of_key in groupby(seen, key=lambda r: r.key):
        session: list[Row] = []
        for row in [*of_key, None]:
            if session and (row is None or row.ts - session[-1].ts > gap):
                start, end = session[0].ts, session[-1].ts + gap
                found[key, start] = (key, start, end, *values_of(session, CALLS))
                session = []
            session.append(row)
    return found


def by_window(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (row[1], row[2], row[0] is not None, row[0] or "")


def expected(rows: list[Row], new: list[Row], readers: list[Reader], time: RoundTime) -> Told:
    """Differences by identity, then what the watermark closes."""
    told: Told = {}
    for each in readers:
        gap = each.aggregation.window.gap_us
        for epoch in each.epochs:
            before, after = slow_sessions(rows, epoch, gap), slow_sessions(rows + new, epoch, gap)
            pairs = [
                (before.get(k), after.get(k)) for k in {*before, *after} if before.get(k) != after.get(k)
            ]
            closing = [
                row
                for row in after.values()
                if time.after_us is not None
                and row[2] < time.after_us
                and (time.before_us is None or row[2] >= time.before_us)
            ]
            if each.aggregation.is_final:
                found = {"": [(None, row) for row in closing]}
            else:
                found = {"": pairs, "closed": [(row, None) for row in closing]}
            for reason, images_ in found.items():
                if images_:
                    ordered = sorted(images_, key=lambda pair: by_window(pair[1] or pair[0]))
                    told[each.aggregation.name, epoch, reason] = ordered
    return told


def pushed(sessions: Sessions, rows: list[Row], time: RoundTime) -> Told:
    told: Told = {}
    for of, changes in sessions.push(class_rows(rows), time):
        key = (of.name, changes.epoch, changes.reason)
        assert key not in told
        told[key] = images(changes, CALLS)
    return told


class Life:
    """A structure and the rows it has taken, through random rounds."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.version = 1
        self.readers = [reader(5), reader(12), reader(5, is_final=True)]
        self.sessions = Sessions(KEYS)
        self.sessions.build(self.readers)
        self.rows: list[Row] = []
        self.saved: list[pa.RecordBatch] = []
        self.clock, self.n_rows = 1000, 0
        self.watermark: int | None = None

    def change_readers(self) -> None:
        """Some leave; some join, which opens an epoch."""
        rng = self.rng
        kept = [
            Reader(each.aggregation, CALLS, tuple(e for e in each.epochs if rng.random() < 0.7))
            for each in self.readers
        ]
        self.readers = [each for each in kept if each.epochs]
        if rng.random() < 0.7 or not self.readers:
            self.version += 1
            joining = aggregation(rng.choice([2, 5, 12, 30]), is_final=rng.random() < 0.3)
            old = [each for each in self.readers if each.aggregation == joining]
            epochs = (*(old[0].epochs if old else ()), self.version)
            self.readers = [each for each in self.readers if each.aggregation != joining]
            self.readers.append(Reader(joining, CALLS, epochs))
        self.sessions.build(self.readers)
        self.sessions.check()

    def new_rows(self) -> list[Row]:
        rng = self.rng
        newest = max(epoch for each in self.readers for epoch in each.epochs)
        rows = []
        for _ in range(rng.choice([0, 1, 3, 12])):
            self.n_rows += 1
            self.clock += rng.choice([0, 0, 1, 4, 9])
            ts = None if rng.random() < 0.05 else self.clock - rng.choice([0, 0, 1, 5, 14, 40])
            is_late = ts is not None and self.watermark is not None and ts < self.watermark
            key = rng.choice(["a", "b", "c", None])
            rows.append(Row(self.n_rows, key, ts, rng.choice([None, 1, 7, -3]), newest, is_late))
        return rows

    def round(self) -> None:
        new = self.new_rows()
        times = [row.ts for row in new if row.ts is not None]
        after = max(
            [t for t in (self.watermark, max(times, default=None) and max(times) - 15) if t is not None],
            default=None,
        )
        time = RoundTime(self.clock, self.watermark, after)
        counted = [row for row in new if row.ts is not None and not row.is_late]
        told = pushed(self.sessions, new, time)
        assert told == expected(self.rows, counted, self.readers, time)
        self.judge_current(self.rows + counted, time)
        if self.rng.random() < 0.2:
            self.sessions.rollback()
        else:
            saved = self.sessions.save()
            self.saved += [] if saved is None else [saved]
            self.sessions.commit()
            self.rows += counted
            self.watermark = after
        self.sessions.check()

    def judge_current(self, rows: list[Row], time: RoundTime) -> None:
        each = self.rng.choice(self.readers)
        epoch = self.rng.choice(each.epochs)
        found = plain_rows(self.sessions.current(each.aggregation, epoch), CALLS)
        all_rows = slow_sessions(rows, epoch, each.aggregation.window.gap_us).values()
        is_open = [row for row in all_rows if time.before_us is None or row[2] >= time.before_us]
        assert found == sorted(is_open, key=by_window)

    def restart(self) -> None:
        whole = self.sessions.whole()
        if self.rng.random() < 0.5:
            self.saved = [] if whole is None else [whole]
        self.sessions = Sessions(KEYS)
        self.sessions.build(self.readers)
        self.sessions.load(self.saved)
        self.sessions.check()


@pytest.mark.parametrize("seed", seeds(5))
def test_sessions_are_those_of_all_rows_cut_at_gaps(seed):
    life = Life(seed)
    for _ in range(60):
        chance = life.rng.random()
        if chance < 0.12:
            life.change_readers()
        elif chance < 0.2:
            life.restart()
        else:
            life.round()


def rows_at(*times: int, key: str = "a", first: int = 1) -> list[Row]:
    return [Row(first + at, key, ts, 1, 1) for at, ts in enumerate(times)]


def a_round(sessions: Sessions, rows: list[Row], before: int | None, after: int | None) -> Told:
    told = pushed(sessions, rows, RoundTime(0, before, after))
    sessions.commit()
    sessions.check()
    return told


def test_a_row_between_two_sessions_joins_them_and_one_before_moves_the_start():
    sessions = Sessions(KEYS)
    sessions.build([reader(10)])
    told = a_round(sessions, rows_at(100, 120), None, None)
    assert told == {("gap10", 1, ""): [(None, ("a", 100, 110, 1, 1, 1)), (None, ("a", 120, 130, 1, 1, 1))]}
    told = a_round(sessions, rows_at(110), None, None)
    assert told == {
        ("gap10", 1, ""): [
            (("a", 100, 110, 1, 1, 1), ("a", 100, 130, 3, 3, 1)),
            (("a", 120, 130, 1, 1, 1), None),
        ]
    }
    told = a_round(sessions, rows_at(90), None, None)
    assert told == {
        ("gap10", 1, ""): [
            (None, ("a", 90, 130, 4, 4, 1)),
            (("a", 100, 130, 3, 3, 1), None),
        ]
    }


def test_a_session_is_open_while_the_watermark_is_at_its_end():
    sessions = Sessions(KEYS)
    sessions.build([reader(10), reader(10, is_final=True)])
    a_round(sessions, rows_at(100), None, 100)
    assert a_round(sessions, rows_at(200, key="b"), 100, 110) == {
        ("gap10", 1, ""): [(None, ("b", 200, 210, 1, 1, 1))]
    }
    assert sessions.snapshot()["groups"] == 2
    row = ("a", 100, 110, 1, 1, 1)
    assert a_round(sessions, [], 110, 111) == {
        ("gap10", 1, "closed"): [(row, None)],
        ("gap10final", 1, ""): [(None, row)],
    }
    assert sessions.snapshot()["groups"] == 1


def test_rows_and_the_row_that_closes_them_share_a_round():
    sessions = Sessions(KEYS)
    sessions.build([reader(10, is_final=True)])
    told = a_round(sessions, rows_at(100, 105, 300), None, 300)
    assert told == {("gap10final", 1, ""): [(None, ("a", 100, 115, 2, 2, 1))]}


def test_a_young_query_sees_no_start_that_only_older_ones_know():
    sessions = Sessions(KEYS)
    sessions.build([reader(10)])
    a_round(sessions, rows_at(100), None, None)
    sessions.build([reader(10, epochs=(1, 2))])
    told = a_round(sessions, [Row(9, "a", 105, 1, 2)], None, None)
    assert told == {
        ("gap10", 1, ""): [(("a", 100, 110, 1, 1, 1), ("a", 100, 115, 2, 2, 1))],
        ("gap10", 2, ""): [(None, ("a", 105, 115, 1, 1, 1))],
    }


def test_no_readers_leave_no_state():
    sessions = Sessions(KEYS)
    sessions.build([reader(10), reader(3)])
    a_round(sessions, rows_at(1, 5, 9), None, None)
    sessions.build([])
    sessions.check()
    assert sessions.snapshot()["groups"] == sessions.snapshot()["entries"] == 0
    assert sessions.whole() is None


def test_all_gaps_share_one_list_and_merge_no_more_often_than_rows_come():
    minute, n_users = 60, 2_000
    sessions = Sessions(KEYS)
    sessions.build([reader(minute), reader(5 * minute), reader(30 * minute)])
    rng = np.random.default_rng(3)
    n_rows = 0
    for number in range(20):
        times = np.sort(rng.integers(number * 120, number * 120 + 200, 1_000)).tolist()
        users = rng.integers(0, n_users, 1_000).tolist()
        rows = [
            Row(n_rows + at, str(user), ts, 1, 1)
            for at, (user, ts) in enumerate(zip(users, times, strict=True))
        ]
        for _ in sessions.push(class_rows(rows), RoundTime(0, None, None)):
            pass
        sessions.commit()
        n_rows += len(rows)
        assert sessions.n_merges <= n_rows
        assert sessions.snapshot()["entries"] <= n_rows - sessions.n_merges  # pieces, for three gaps
    sessions.check()
