"""Function states against brute force: rows come, entries are merged, copied, cleared, saved and loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from eddyline.aggregates import States
from tests.aggregates.state_cases import CALLS, assert_values, class_rows, rows_of
from tests.oracles.aggregate_functions import Row
from tests.strategies import examples

N_ENTRIES = 4
ENTRY = st.integers(0, N_ENTRIES - 1)
PAIRS = st.lists(st.tuples(ENTRY, ENTRY), max_size=6)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 1), st.lists(ENTRY, min_size=12, max_size=12), rows_of()),
    st.tuples(st.just("merge"), st.integers(0, 1), PAIRS, st.none()),
    st.tuples(st.just("copy"), st.integers(0, 1), PAIRS, st.none()),
    st.tuples(st.just("clear"), st.integers(0, 1), st.lists(ENTRY, max_size=2), st.none()),
    st.tuples(st.just("store"), st.integers(0, 1), st.lists(ENTRY, max_size=4, unique=True), st.none()),
)


class Pair:
    """Two states of the same calls, and the rows that are in each entry."""

    def __init__(self, *, is_signed: bool = False) -> None:
        self.states = [States(CALLS, is_signed=is_signed) for _ in range(2)]
        self.rows: list[list[list[Row]]] = [[[] for _ in range(N_ENTRIES)] for _ in range(2)]
        for states in self.states:
            states.resize(N_ENTRIES)

    def apply(self, kind: str, at: int, given_: Any, rows: list[Row] | None) -> None:
        getattr(self, kind)(
            self.states[at], self.rows[at], self.states[1 - at], self.rows[1 - at], given_, rows
        )

    def add(self, states: States, held: Any, _other: Any, _rows: Any, entries: Any, rows: Any) -> None:
        entries = entries[: len(rows)]
        states.add(np.array(entries, np.int64), class_rows(rows))
        for entry, row in zip(entries, rows, strict=True):
            held[entry].append(row)

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
            assert_values(states, CALLS, rows)


def _sides(pairs: Any, other: States) -> tuple[Any, States, Any]:
    into, which = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return np.array(into, np.int64), other, np.array(which, np.int64)


@settings(examples(0.5), phases=[Phase.generate])
@given(st.lists(STEPS, max_size=6))
def test_every_function_gives_what_the_rows_of_an_entry_say_however_they_came_there(steps: Any) -> None:
    pair = Pair()
    for step in steps:
        pair.apply(*step)
    pair.check()
