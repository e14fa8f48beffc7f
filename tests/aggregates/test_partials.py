"""Rows that are folded elsewhere, in pieces and in several steps, give the entries that the rows themselves give."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.aggregates import (
    MergingStructure,
    Reader,
    RoundTime,
    RunningGroups,
    Sessions,
    SlicedWindows,
    joined_lines,
    stored_lines,
)
from eddyline.model import Aggregation, SessionWindow, TimeWindow
from tests.aggregates.made_rows import ALL_CALLS, COUNT, SUM, Row, class_rows
from tests.aggregates.state_cases import CALLS, ESTIMATES, assert_values, rows_of
from tests.aggregates.state_cases import class_rows as rows_of_all_types

KEYS = pa.schema([("k", pa.string())])
NO_COLUMNS = pa.schema([])
EPOCH = 3


def readers(kind: str, calls: Sequence[Any] = ALL_CALLS, keys: tuple[str, ...] = ("k",)) -> list[Reader]:
    windows: list[Any] = {
        "running": [None],
        "windows": [TimeWindow(10, 10), TimeWindow(12, 4, 1)],
        "sessions": [SessionWindow(2), SessionWindow(5)],
    }[kind]
    named = enumerate(windows)
    return [
        Reader(Aggregation(f"{kind} {n}", "rows", keys, window=window), tuple(calls), (EPOCH,))
        for n, window in named
    ]


def structure(kind: str, keys: pa.Schema = KEYS, **options: Any) -> Any:
    made = {"running": RunningGroups, "windows": SlicedWindows, "sessions": Sessions}[kind](keys)
    made.build(readers(kind, **options))
    return made


def told(of: Any, rows: Any, after_us: int | None = None) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """By aggregation, and why if it is not rows: what is told, as it was (False) and as it is (True)."""
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for aggregation, changes in of.push(rows, RoundTime(0, None, after_us)):
        lines = (tuple(line.values()) for line in changes.columns.to_pylist())
        pairs = zip(changes.is_after.tolist(), lines, strict=True)
        found.setdefault((aggregation.name, changes.reason), []).extend(pairs)
    of.commit()
    of.check()
    return found


def handed_on(task: MergingStructure, rows: Sequence[Row], n_batches: int) -> pa.RecordBatch:
    """What a task makes of its rows, which it numbers from 0, a batch after the other."""
    size = max(1, -(-len(rows) // n_batches))
    batches = [class_rows(rows[first : first + size]) for first in range(0, len(rows), size)]
    return stored_lines(task.partial(joined_lines([task.partial(batch) for batch in batches])))


def random_rows(rng: random.Random, n: int) -> list[Row]:
    return [
        Row(
            (rng.choice(["a", "b", None]),),
            rng.choice([None, 1, 2, 3]),
            rng.choice([None, 0.5, -0.0, float("nan")]),
            rng.choice([None, *range(0, 40, 3)]),
            EPOCH,
            is_late=rng.random() < 0.2,
        )
        for _ in range(n)
    ]


def numbered(rows: Sequence[Row], first: int) -> list[Row]:
    return [replace(row, arrival=first + n) for n, row in enumerate(rows)]


@pytest.mark.parametrize("kind", ["running", "windows", "sessions"])
@pytest.mark.parametrize("seed", range(5))
def test_parts_of_several_tasks_give_what_their_rows_give(kind: str, seed: int) -> None:
    rng, first = random.Random(f"{kind} {seed}"), 100
    here, merged, worker = (structure(kind) for _ in range(3))
    for _ in range(4):
        tasks = [random_rows(rng, rng.randint(1, 12)) for _ in range(3)]
        rows, parts = [], []
        for of_task in tasks:
            parts.append((handed_on(worker, numbered(of_task, 0), rng.randint(1, 3)), first))
            rows += numbered(of_task, first)
            first += len(of_task)
        expected = told(here, class_rows(rows), after_us=5)
        found = told(merged, merged.merge(parts, EPOCH), after_us=5)
        assert repr(found) == repr(expected)  # NaN equals NaN
        assert merged.snapshot()["groups"] == here.snapshot()["groups"]


@pytest.mark.parametrize("kind", ["running", "windows", "sessions"])
def test_the_first_and_the_last_of_equal_times_are_those_of_all_tasks(kind: str) -> None:
    """Task-local numbers are 0 and 1 in both tasks: without the numbers of their first rows, 1 would be the last."""
    of = structure(kind)
    tasks = [[Row(("a",), 1, time=5), Row(("a",), 2, time=5)], [Row(("a",), 3, time=5)]]
    parts = [(handed_on(of, numbered(rows, 0), 1), first) for rows, first in zip(tasks, (7, 9), strict=True)]
    for changes in told(of, of.merge(parts, EPOCH)).values():
        assert {values[-1] for _, values in changes} == {3}


def test_a_part_is_as_large_as_its_keys_and_slices_are_many_however_many_rows_there_are() -> None:
    few = [Row((key,), 1, time=time) for key in "ab" for time in (1, 11, 21)]
    for kind, n_lines in (("running", 2), ("windows", 6), ("sessions", 6)):
        of = structure(kind)
        once, often = handed_on(of, few, 1), handed_on(of, numbered(few * 50, 0), 7)
        assert (once.num_rows, often.num_rows) == (n_lines, n_lines), kind
        assert once.nbytes == often.nbytes


def test_a_part_says_nothing_of_aggregates_that_came_after_it_and_loses_those_that_left() -> None:
    """A version that comes while tasks work has calls of its own, which see no row of theirs."""
    older, newer = structure("running", calls=(COUNT, SUM)), structure("running", calls=(SUM,))
    newer.build([Reader(readers("running")[0].aggregation, (SUM, *ALL_CALLS[2:]), (EPOCH, EPOCH + 1))])
    part = handed_on(older, [Row(("a",), 4, 0.5, 1, EPOCH)], 1)
    changes = [
        (each.epoch, each.columns.column(SUM.name).to_pylist())
        for _, each in newer.push(newer.merge([(part, 0)], EPOCH), RoundTime(0, None, None))
    ]
    assert changes == [(EPOCH, [4])]


def test_a_session_that_several_tasks_have_rows_of_is_one() -> None:
    of = structure("sessions")
    tasks = [[Row(("a",), time=10), Row(("a",), time=14)], [Row(("a",), time=12), Row(("a",), time=20)]]
    parts = [(handed_on(of, rows, 1), 0) for rows in tasks]
    found = told(of, of.merge(parts, EPOCH))
    windows = {
        name: [tuple(at.microsecond for at in values[1].values()) for _, values in changes]
        for (name, _), changes in found.items()
    }
    assert windows == {"sessions 0": [(10, 16), (20, 22)], "sessions 1": [(10, 19), (20, 25)]}


@given(
    st.lists(st.sampled_from([*CALLS, *ESTIMATES]), min_size=1, max_size=9, unique_by=lambda of: of.name),
    st.data(),
)
def test_every_function_gives_what_the_rows_of_all_tasks_say(calls: Any, data: Any) -> None:
    """Of one group, whose rows are shared by tasks, which fold them in several batches."""
    of = RunningGroups(NO_COLUMNS)
    of.build(readers("running", calls, ()))
    parts, rows, first = [], [], 0
    for _ in range(data.draw(st.integers(1, 3))):
        lines, n = [], 0
        for batch in data.draw(st.lists(rows_of(), min_size=1, max_size=3)):
            local = rows_of_all_types([_moved(row, n) for row in batch])
            lines.append(of.partial(local))
            rows += [_moved(row, first + n) for row in batch]
            n += len(batch)
        parts.append((stored_lines(of.partial(joined_lines(lines))), first))
        first += n
    merged = of.merge(parts, EPOCH)
    states = merged.states.like(1)
    states.merge(np.zeros(len(merged), np.int64), merged.states, merged.places)
    assert_values(states, calls, [rows])


def _moved(row: Any, by: int) -> Any:
    return replace(row, g=row.g + by)
