"""Rows at fault stand alone, however they were batched, and a batch of poison ends."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.functions.counters import FunctionCounters
from eddyline.functions.halving import ANY_NUMBER, CallFailed, CallLost, HalvingCall, SetupFailed


class Process:
    """A function x -> 10 x with rows it cannot take. Its process can bear `room` rows in all, then it is lost."""

    def __init__(
        self, poison=(), slow=(), raising=(), *, room=ANY_NUMBER, is_by_row=False, most_setups=ANY_NUMBER
    ):
        self.most_rows = ANY_NUMBER
        self.poison, self.slow, self.raising = set(poison), set(slow), set(raising)
        self.room, self.is_by_row = room, is_by_row
        self.n_setups_left = most_setups
        self.served: int | None = None  # rows, by the process that is there
        self.is_first = True
        self.sizes: list[int] = []

    def prepare(self):
        if self.served is None:
            if not self.n_setups_left:
                raise SetupFailed("no model")
            self.n_setups_left -= 1
            self.served, self.is_first = 0, True

    def call(self, columns, n_rows):
        rows = columns[0].to_pylist()
        assert len(rows) == n_rows
        self.sizes.append(n_rows)
        assert self.served is not None
        is_first, self.is_first = self.is_first, False
        for at, row in enumerate(rows):
            self.served += 1
            if row in self.poison or row in self.slow or self.served > self.room:
                self.served = None
                raise CallLost(
                    "slow" if row in self.slow else "died",
                    row=at if self.is_by_row else None,
                    is_slow=row in self.slow,
                    is_first=is_first,
                )
        if self.is_by_row:
            wrong = {at: "raised" for at, row in enumerate(rows) if row in self.raising}
            return pa.array(
                [None if at in wrong else row * 10 for at, row in enumerate(rows)], pa.int64()
            ), wrong
        if self.raising & set(rows):
            raise CallFailed("raised")
        return pa.array([row * 10 for row in rows], pa.int64()), {}


def ask(process: Process, rows, batch=None):
    counters = FunctionCounters()
    column = pa.array(rows, pa.int64())
    halving = HalvingCall(
        process, [column], len(column), pa.int64(), counters, lambda: 0.0, is_by_row=process.is_by_row
    )
    values, failed = halving.answer(batch)
    return values.to_pylist(), dict(failed), counters, halving.streaks


def test_a_row_that_is_lost_is_found_by_halving_in_fresh_processes():
    process = Process(poison=[2])
    values, failed, counters, streaks = ask(process, [0, 1, 2, 3])
    assert values == [0, 10, None, 30]
    assert failed == {2: "died"}
    #                        lost  good   lost, again, alone  the rest
    assert process.sizes == [4,    2,     2, 2,        1,     1]  # fmt: skip
    assert (counters.n_lost, counters.n_failed) == (4, 1)
    assert (streaks.n_lost, streaks.opening_reason) == (0, "")


def test_where_the_row_is_known_it_is_judged_by_itself():
    process = Process(poison=[2], is_by_row=True)
    assert ask(process, [0, 1, 2, 3])[:2] == ([0, 10, None, 30], {2: "died"})
    assert process.sizes == [4, 1, 2, 1]


def test_a_row_whose_time_ran_out_needs_no_second_look():
    process = Process(slow=[2], is_by_row=True)
    assert ask(process, [0, 1, 2, 3])[:2] == ([0, 10, None, 30], {2: "slow"})
    assert process.sizes == [4, 2, 1]


@pytest.mark.parametrize("is_by_row", [False, True])
def test_a_process_that_leaks_is_replaced_and_no_row_is_blamed(is_by_row):
    process = Process(room=10, is_by_row=is_by_row)
    values, failed, counters, streaks = ask(process, range(200))
    assert values == [10 * n for n in range(200)]
    assert failed == {}
    assert counters.n_lost >= 19
    assert streaks.opening_reason == ""
    assert process.most_rows <= 10  # what a fresh process cannot bear is not tried again


def test_a_leak_over_many_batches_costs_one_process_each_time_it_is_full():
    process = Process(room=100)
    for _ in range(30):
        assert ask(process, range(10))[1] == {}
    assert process.sizes.count(10) == 32
    assert process.most_rows == ANY_NUMBER


def test_a_batch_of_poison_ends_and_says_why():
    process = Process(slow=range(100_000))
    values, failed, counters, streaks = ask(process, range(100_000))
    assert set(values) == {None}
    assert set(failed.values()) == {"slow"}
    assert len(failed) == 100_000
    assert counters.n_lost <= 2 * 17 + 8
    assert streaks.opening_reason.startswith("3 calls in a row were lost")


def test_a_function_that_dies_on_every_other_call_ends_too():
    process = Process(room=1)
    _, failed, counters, _ = ask(process, range(1_000), batch=1)
    assert counters.n_lost == 100
    assert list(failed) == list(range(100, 1_000))


def test_a_setup_that_fails_fails_what_is_left():
    process = Process(poison=[0], most_setups=1)
    values, failed, _, streaks = ask(process, [0, 1, 2, 3])
    assert values == [None] * 4
    assert failed == dict.fromkeys(range(4), "no model")
    assert streaks.n_setups == 1


def test_no_call_has_more_rows_than_asked_for():
    process = Process(raising=[5], poison=[3])
    assert ask(process, range(11), batch=4)[1] == {3: "died", 5: "raised"}
    assert max(process.sizes) == 4


SOME_ROWS = st.sets(st.integers(0, 39), max_size=3)


@given(SOME_ROWS, SOME_ROWS, SOME_ROWS, st.booleans(), st.integers(1, 40) | st.none(), st.integers(4, 60))
def test_the_same_rows_fail_however_they_are_batched(poison, slow, raising, is_by_row, batch, room):
    """A few bad rows of each kind, in a process that also leaks."""
    process = Process(poison, slow - poison, raising - poison - slow, room=room, is_by_row=is_by_row)
    values, failed, counters, _ = ask(process, range(40), batch)
    expected = dict.fromkeys(poison, "died") | dict.fromkeys(slow - poison, "slow")
    expected |= dict.fromkeys(raising - poison - slow, "raised")
    if counters.n_lost < 2 * 6 + 8:  # otherwise what was undecided may have been given up
        assert failed == expected
    assert {n for n, value in enumerate(values) if value is None} == set(failed)
    assert all(value in (None, 10 * n) for n, value in enumerate(values))
    assert set(expected) <= set(failed)
