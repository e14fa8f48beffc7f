"""Function states against brute force: rows come, entries are merged, copied, cleared, saved and loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.aggregates import States
from eddyline.model import AggregateCall
from tests.aggregates.state_cases import CALLS, ESTIMATES, assert_values, class_rows, rows_of
from tests.oracles.aggregate_functions import Row

N_ENTRIES = 4
ENTRY = st.integers(0, N_ENTRIES - 1)
PAIRS = st.lists(st.tuples(ENTRY, ENTRY), max_size=6)


def few(calls: Sequence[AggregateCall]) -> st.SearchStrategy[list[AggregateCall]]:
    return st.lists(st.sampled_from(calls), min_size=1, max_size=9, unique_by=lambda of: of.name)


AT = st.integers(0, 1)  # which of the two states


def steps(*, is_signed: bool = False) -> st.SearchStrategy[Any]:
    """What is done to one of two states, as arguments of `Pair.apply`."""
    entries, rows = st.lists(ENTRY, min_size=12, max_size=12), rows_of(is_moderate=is_signed)
    kinds = [
        st.tuples(st.just("add"), AT, entries, rows),
        st.tuples(st.just("merge"), AT, PAIRS, st.none()),
        st.tuples(st.just("copy"), AT, PAIRS, st.none()),
        st.tuples(st.just("clear"), AT, st.lists(ENTRY, max_size=2), st.none()),
        st.tuples(st.just("store"), AT, st.lists(ENTRY, max_size=4, unique=True), st.none()),
    ]
    if is_signed:
        places = st.lists(st.tuples(ENTRY, st.integers(0, 30)), max_size=12)
        kinds += [st.tuples(st.just("leave"), AT, places, st.none())] * 2
    return st.lists(st.one_of(kinds), max_size=8 if is_signed else 6)


class Pair:
    """Two states of the same calls, and the rows that are in each entry."""

    def __init__(self, calls: Sequence[AggregateCall], *, is_signed: bool = False) -> None:
        self.calls = calls
        self.states = [States(calls, is_signed=is_signed) for _ in range(2)]
        self.rows: list[list[list[Row]]] = [[[] for _ in range(N_ENTRIES)] for _ in range(2)]
        self.left: list[Row] = []
        self.n_arrived = 0
        for states in self.states:
            states.resize(N_ENTRIES)

    def apply(self, kind: str, at: int, given_: Any, rows: list[Row] | None) -> None:
        getattr(self, kind)(
            self.states[at], self.rows[at], self.states[1 - at], self.rows[1 - at], given_, rows
        )

    def add(self, states: States, held: Any, _other: Any, _rows: Any, entries: Any, rows: Any) -> None:
        entries, rows = entries[: len(rows)], [replace(row, g=row.g + self.n_arrived) for row in rows]
        self.n_arrived += len(rows)
        states.add(np.array(entries, np.int64), class_rows(rows))
        for entry, row in zip(entries, rows, strict=True):
            held[entry].append(row)

    def leave(self, states: States, held: Any, _other: Any, _rows: Any, places: Any, _: Any) -> None:
        """Rows of entries leave, each after another one that comes and goes in the same call."""
        leaving = [(e, held[e].pop(at % len(held[e]))) for e, at in places if held[e]]
        self.left += [row for _, row in leaving]
        entries = [entry for entry, _ in leaving for _ in range(3)]
        rows = [row for _, row in leaving for _ in range(3)]
        states.add(np.array(entries, np.int64), class_rows(rows, [-1, 2, -2] * len(leaving)))

    def merge(self, states: States, held: Any, other: States, rows: Any, pairs: Any, _: Any) -> None:
        states.merge(*_sides(pairs, other))
        for into, which in pairs:
            held[into] += rows[which]

    def copy(self, states: States, held: Any, other: States, rows: Any, pairs: Any, _: Any) -> None:
        pairs = list(dict(pairs).items())
        states.copy(*_sides(pairs, other))
        for into, which in pairs:
            held[into] = list(rows[which])

    def clear(self, states: States, held: Any, _other: Any, _rows: Any, entries: Any, _: Any) -> None:
        states.clear(np.array(entries, np.int64))
        for entry in entries:
            held[entry] = []

    def store(self, states: States, held: Any, other: States, rows: Any, entries: Any, _: Any) -> None:
        numbers = np.array(entries, np.int64)
        other.load(numbers, states.to_batch(numbers))
        for entry in entries:
            rows[entry] = list(held[entry])

    def check(self) -> None:
        for states, rows in zip(self.states, self.rows, strict=True):
            states.check()
            assert_values(states, self.calls, rows, left=self.left)


def _sides(pairs: Any, other: States) -> tuple[Any, States, Any]:
    into, which = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return np.array(into, np.int64), other, np.array(which, np.int64)


@given(few([*CALLS, *ESTIMATES]), steps())
def test_every_function_gives_what_the_rows_of_an_entry_say_however_they_came_there(
    calls: Any, script: Any
) -> None:
    pair = Pair(calls)
    for step in script:
        pair.apply(*step)
    pair.check()


@given(few(CALLS), steps(is_signed=True))
def test_rows_that_leave_leave_no_trace(calls: Any, script: Any) -> None:
    pair = Pair(calls, is_signed=True)
    for step in script:
        pair.apply(*step)
    pair.check()
