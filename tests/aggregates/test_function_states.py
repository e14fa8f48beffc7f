"""What function states promise to the structures that use them, by examples that can be checked by eye."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.aggregates import States
from eddyline.model import NO_TIME, OVERFLOW, AggregateCall
from tests.aggregates.state_cases import CALLS, COLUMNS, DIGITS, call, class_rows
from tests.oracles.aggregate_functions import Row

NULLS = dict.fromkeys(COLUMNS)
ONE = np.zeros(1, np.int64)


def row(g: int = 0, ts: int = NO_TIME, **values: Any) -> Row:
    return Row(NULLS | values, ts, g)


def states_of(*calls: AggregateCall, is_signed: bool = False, n: int = 1) -> States:
    states = States(calls, is_signed=is_signed)
    states.resize(n)
    return states


def push(states: States, rows: Sequence[Row], *, leaves: bool = False, entry: int = 0) -> None:
    signs = [-1 if leaves else 1] * len(rows)
    states.add(np.full(len(rows), entry, np.int64), class_rows(rows, signs))


def value(states: States, of: AggregateCall, entry: int = 0) -> Any:
    return states.values(np.array([entry]))[of.name].to_pylist()[0]


def overflows(states: States, of: AggregateCall) -> bool:
    return bool(states.values(ONE)[of.name + OVERFLOW].to_pylist()[0])


def all_values(states: States, entries: Any) -> Mapping[str, list[Any]]:
    return {name: column.to_pylist() for name, column in states.values(entries).items()}


def stored(states: States) -> Mapping[str, list[Any]]:
    return states.to_batch(np.arange(states.n)).to_pydict()


# ----------------------------------------------------------------------------------------------- sums


def test_a_sum_that_leaves_its_type_returns_when_its_rows_leave() -> None:
    of = call("sum", "long")
    states = states_of(of, is_signed=True)
    push(states, [row(long=2**63 - 1), row(long=1)])
    assert overflows(states, of)
    assert value(states, of) is None
    push(states, [row(long=1)], leaves=True)
    assert not overflows(states, of)
    assert value(states, of) == 2**63 - 1


def test_only_the_exact_sum_is_judged_not_the_way_there() -> None:
    of = call("sum", "long")
    states = states_of(of)
    push(states, [row(long=2**63 - 1), row(long=1), row(long=-5)])
    assert value(states, of) == 2**63 - 5


def test_the_average_of_integers_never_overflows_and_is_rounded_once() -> None:
    of = call("avg", "long")
    states = states_of(of)
    push(states, [row(long=2**63 - 1)] * 3)
    assert value(states, of) == 2.0**63
    push(states, [row(long=-(2**63))] * 3)
    assert value(states, of) == -0.5


def test_decimals_of_38_digits_add_up_exactly_and_overflow_alone() -> None:
    sum_, avg = call("sum", "wide"), call("avg", "wide")
    states = states_of(sum_, avg, is_signed=True)
    push(states, [row(wide=Decimal(DIGITS))] * 1000)
    assert overflows(states, sum_)
    assert overflows(states, avg)
    push(states, [row(wide=Decimal(DIGITS))] * 999, leaves=True)
    assert value(states, sum_) == Decimal(DIGITS)
    assert overflows(states, avg), "34 digits before the point and 8 behind are more than 38"


def test_the_average_of_decimals_is_rounded_half_up() -> None:
    of = call("avg", "decimal")
    states = states_of(of)
    push(states, [row(decimal=Decimal("0.01"))] + [row(decimal=Decimal("0.00"))] * 15)
    assert value(states, of) == Decimal("0.000625")
    push(states, [row(decimal=Decimal("0.00"))] * 48)
    assert value(states, of) == Decimal("0.000156")  # 0.00015625
    push(states, [row(decimal=Decimal("-0.02"))] + [row(decimal=Decimal("0.00"))] * 15)
    assert value(states, of) == Decimal("-0.000125")
    push(states, [row(decimal=Decimal("0.00"))] * 80)
    assert value(states, of) == Decimal("-0.000063"), "-0.0000625"


def test_doubles_that_leave_take_nan_infinities_and_huge_sums_with_them() -> None:
    sum_, avg = call("sum", "double"), call("avg", "double")
    states = states_of(sum_, avg, is_signed=True)
    push(states, [row(double=0.1)])
    for extra, total in (([math.nan], math.nan), ([math.inf], math.inf), ([math.inf, -math.inf], math.nan)):
        rows = [row(double=x) for x in extra]
        push(states, rows)
        assert str(value(states, sum_)) == str(total)
        push(states, rows, leaves=True)
        assert value(states, sum_) == 0.1
    push(states, [row(double=1.7e308), row(double=1.7e308)])
    assert value(states, sum_) == math.inf
    assert value(states, avg) == pytest.approx(1.7e308 / 3 * 2)
    push(states, [row(double=1.7e308), row(double=1.7e308)], leaves=True)
    assert value(states, sum_) == 0.1


def test_small_doubles_survive_large_ones() -> None:
    of = call("sum", "double")
    states = states_of(of)
    push(states, [row(double=1e16), row(double=1.0), row(double=-1e16), row(double=1.0)])
    assert value(states, of) == 2.0


def test_what_was_merged_can_be_subtracted_bit_by_bit() -> None:
    exact = [
        call("count"),
        call("sum", "long"),
        call("avg", "wide"),
        call("count_if", "c"),
        call("bool_or", "c"),
    ]
    states, other = states_of(*exact), states_of(*exact)
    assert states.is_invertible
    push(states, [row(long=-7, wide=Decimal("1.5"), c=True), row(c=False)])
    before = stored(states)
    push(other, [row(long=2**63 - 1, wide=Decimal(DIGITS), c=False)] * 3)
    states.merge(ONE, other, ONE)
    assert stored(states) != before
    states.subtract(ONE, other, ONE)
    assert stored(states) == before
    assert not states_of(call("sum", "double")).is_invertible
    assert not states_of(call("max", "long")).is_invertible


def test_variances_are_right_far_from_zero_and_after_an_outlier_has_left() -> None:
    of, deviation = call("var_samp", "double"), call("stddev_pop", "double")
    states = states_of(of, deviation, is_signed=True)
    push(states, [row(double=1e9 + x) for x in (0.25, 0.5, 0.75)])
    assert value(states, of) == pytest.approx(0.0625, rel=1e-12)
    push(states, [row(double=1e15)])
    push(states, [row(double=1e15)], leaves=True)
    assert value(states, of) == pytest.approx(0.0625, rel=1e-9)
    assert value(states, deviation) == pytest.approx(math.sqrt(0.125 / 3), rel=1e-9)


def test_the_variance_of_one_row_is_zero_or_unknown() -> None:
    pop, samp = call("var_pop", "int"), call("var_samp", "int")
    states = states_of(pop, samp)
    assert value(states, pop) is None
    push(states, [row(int=3)])
    assert value(states, pop) == 0.0
    assert value(states, samp) is None


# ----------------------------------------------------------------------------------------------- chosen rows


@pytest.mark.parametrize("is_signed", [False, True])
def test_of_equal_keys_the_last_row_by_time_and_arrival_is_chosen(is_signed: bool) -> None:
    least, greatest = call("min_by", "text", "int"), call("max_by", "text", "int")
    states = states_of(least, greatest, is_signed=is_signed)
    push(states, [row(5, 10, int=1, text="b"), row(6, 9, int=1, text="c"), row(4, 10, int=1, text="a")])
    assert value(states, least) == value(states, greatest) == "b"
    push(states, [row(7, 11, int=None, text="z"), row(8, 11, int=1, text=None)])
    assert value(states, least) is value(states, greatest) is None, "a NULL value counts, a NULL key does not"


@pytest.mark.parametrize("is_signed", [False, True])
def test_a_row_without_time_is_the_first(is_signed: bool) -> None:
    first, last = call("first", "int"), call("last", "int", ignores_nulls=True)
    states = states_of(first, last, is_signed=is_signed)
    push(states, [row(1, -(10**15), int=1), row(2, NO_TIME, int=2), row(3, 10, int=3), row(4, 10, int=None)])
    assert value(states, first) == 2
    assert value(states, last) == 3


@pytest.mark.parametrize("is_signed", [False, True])
def test_nan_is_above_all_numbers_and_texts_go_by_code_point(is_signed: bool) -> None:
    calls = [call("max", "double"), call("min", "double"), call("max", "text"), call("min", "text")]
    states = states_of(*calls, is_signed=is_signed)
    push(states, [row(double=math.inf, text="\U0001f600"), row(double=math.nan, text="\uffff")])
    assert math.isnan(value(states, calls[0]))
    assert [value(states, of) for of in calls[1:]] == [math.inf, "\U0001f600", "\uffff"]


def test_the_least_row_leaves_and_its_twin_stays() -> None:
    of = call("min", "int")
    states = states_of(of, is_signed=True)
    push(states, [row(1, int=1), row(2, int=1), row(3, int=2)])
    for leaving, least in ((1, 1), (1, 2), (2, None)):
        push(states, [row(int=leaving)], leaves=True)
        assert value(states, of) == least


# ----------------------------------------------------------------------------------------------- entries


def test_rows_may_not_leave_where_no_state_was_kept_for_it() -> None:
    with pytest.raises(AssertionError, match="rows leave"):
        push(states_of(call("count")), [row()], leaves=True)


def test_entries_that_went_come_back_empty() -> None:
    states = states_of(*CALLS, n=3)
    push(states, [row(1, 1, int=1, text="a", list=["x"], c=True)], entry=2)
    full = stored(states)
    states.resize(2)
    states.resize(3)
    states.check()
    empty = states_of(*CALLS, n=3)
    assert full != stored(states)
    assert all_values(states, np.arange(3)) == all_values(empty, np.arange(3))


def test_calls_that_were_not_stored_are_empty_and_others_are_loaded() -> None:
    old, new = states_of(call("count")), states_of(call("count"), call("sum", "int"), call("max", "text"))
    push(old, [row(int=1, text="a")])
    new.load(ONE, old.to_batch(ONE))
    assert new.n_rows(ONE).tolist() == [1]
    assert [value(new, of) for of in (call("count"), call("sum", "int"), call("max", "text"))] == [
        1,
        None,
        None,
    ]


def test_functions_of_one_column_share_their_partial_results() -> None:
    alone = states_of(call("sum", "double"), n=1000).nbytes
    both = states_of(call("sum", "double"), call("avg", "double"), n=1000).nbytes
    assert alone == both


def test_a_copy_of_a_large_set_shares_it_and_what_a_round_did_goes_with_its_copy() -> None:
    of = call("max", "long")
    states = states_of(of, is_signed=True)
    push(states, [row(g, long=g) for g in range(5000)])
    rows = states._accumulators[of.name]._rows  # type: ignore[attr-defined]
    assert rows.n_nodes == 5000
    scratch = states_of(of, is_signed=True)
    scratch.copy(ONE, states, ONE)
    assert rows.n_nodes == 5000
    push(scratch, [row(4999, long=4999)], leaves=True)
    assert 5000 <= rows.n_nodes < 5100, "only the path to the row is copied"
    assert (value(states, of), value(scratch, of)) == (4999, 4998)
    del scratch
    assert rows.n_nodes == 5000, "the round was rolled back"
    states.clear(ONE)
    assert rows.n_nodes == 0


def test_texts_and_values_that_left_take_no_room() -> None:
    calls = [call("max", "text"), call("last", "list"), call("count", "text", is_distinct=True)]
    states = states_of(*calls, is_signed=True)
    sizes = []
    for at in range(60):
        rows = [row(100 * at + k, text=f"text {at} {k}", list=[str(k)]) for k in range(100)]
        push(states, rows)
        push(states, rows, leaves=True)
        sizes.append(states.nbytes)
    assert max(sizes[30:]) <= max(sizes[:30])


def test_stored_entries_are_plain_columns_that_outlive_the_process(tmp_path: Any) -> None:
    states = states_of(*CALLS, is_signed=True, n=2)
    push(states, [row(1, 5, text="a", struct={"a": 1, "b": 0.5})], entry=1)
    batch = states.to_batch(np.arange(2))
    with pa.ipc.new_file(tmp_path / "states.arrow", batch.schema) as file:
        file.write_batch(batch)
    with pa.ipc.open_file(tmp_path / "states.arrow") as file:
        read = file.get_batch(0).slice(1)
    other = states_of(*CALLS, is_signed=True)
    other.load(ONE, read)
    assert all_values(other, ONE) == all_values(states, np.ones(1, np.int64))
