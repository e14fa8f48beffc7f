"""Keys of groups have dense numbers, equal where SQL says that keys are."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.aggregates import Keys
from eddyline.aggregates.key_table import KeyTable, fixed_words

NAN, OTHER_NAN = math.nan, float(np.array([0xFFF8000000000007], np.uint64).view(np.float64)[0])


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def numbers_of(array: pa.Array) -> list[int]:
    rows = batch(k=array)
    keys = Keys(rows.schema)
    numbers = keys.number(rows)
    keys.check()
    assert keys.columns(numbers).num_rows == len(array)
    return numbers.tolist()


@pytest.mark.parametrize("t", [pa.float64(), pa.float32()])
def test_null_nan_and_zero_are_one_key_each(t):
    assert numbers_of(pa.array([None, NAN, 0.0, -0.0, OTHER_NAN, None, 1.0], t)) == [0, 1, 2, 2, 1, 0, 3]


def test_a_negative_zero_is_shown_as_zero():
    rows = batch(k=pa.array([-0.0]))
    keys = Keys(rows.schema)
    assert math.copysign(1.0, keys.columns(keys.number(rows)).column(0)[0].as_py()) == 1.0


VALUES = [
    pa.array([True, False, None]),
    pa.array([-(2**63), 2**63 - 1, None, 0]),
    pa.array([1, -128, 127, None], pa.int8()),
    pa.array([0, -1, None, 2**31 - 1], pa.date32()),
    pa.array([0, -1, None], pa.timestamp("us", tz="UTC")),
    pa.array([0, -1, None], pa.timestamp("us")),
    pa.array([0, -1, None], pa.duration("us")),
    pa.array(["", None, "a", "a\0", "ä" * 9, "x" * 8, "x" * 7, "x" * 9]),
    pa.array([b"", None, b"\0", b"\0\0"]),
    pa.array([Decimal("-1.5"), None, Decimal("99999999999999999999999999999999.5"), Decimal("0.0")], pa.decimal128(38, 1)),
    pa.array([None, None], pa.null()),
    pa.array([None, [], [None], [1, 2], [1], [12]], pa.list_(pa.int64())),
    pa.array([None, {"a": None, "b": "x"}, {"a": 1.0, "b": "x"}], pa.struct([("a", pa.float64()), ("b", pa.string())])),
]  # fmt: skip


@pytest.mark.parametrize("values", VALUES, ids=[str(values.type) for values in VALUES])
def test_keys_of_every_type_are_found_again_and_given_back(values):
    rows = batch(k=pa.concat_arrays([values, values]))
    keys = Keys(rows.schema)
    numbers = keys.number(rows)
    n = len(values) if not pa.types.is_null(values.type) else 1
    assert len(keys) == len(set(numbers.tolist())) == n
    assert numbers[: len(values)].tolist() == numbers[len(values) :].tolist()
    assert keys.columns(numbers) == rows
    keys.check()


def test_a_nested_key_has_one_zero_and_one_nan():
    assert numbers_of(pa.array([[0.0], [-0.0], [NAN], [OTHER_NAN]])) == [0, 0, 1, 1]


def test_a_null_in_one_column_is_not_a_null_in_the_next():
    rows = batch(a=pa.array([None, "", None, ""]), b=pa.array(["", None, None, ""]))
    assert Keys(rows.schema).number(rows).tolist() == [0, 1, 2, 3]


def test_bytes_do_not_move_from_one_column_to_the_next():
    rows = batch(a=pa.array(["ab", "a", "ab"]), b=pa.array(["c", "bc", "c"]))
    assert Keys(rows.schema).number(rows).tolist() == [0, 1, 0]


def test_without_columns_there_is_one_key():
    rows = batch(x=pa.array([1, 2, 3]))
    keys = Keys(pa.schema([]))
    assert keys.number(rows).tolist() == [0, 0, 0]
    assert keys.columns(np.array([0, 0])).num_rows == 2
    assert len(keys) == 1


def test_more_columns_than_a_word_has_bits_are_told_apart():
    names = [f"c{place}" for place in range(130)]
    only = [pa.array([None if place == row else 0 for row in range(130)], pa.int64()) for place in range(130)]
    rows = pa.RecordBatch.from_arrays(only, names=names)
    keys = Keys(rows.schema)
    assert keys.number(rows).tolist() == list(range(130))
    assert keys.columns(np.arange(130)) == rows


def test_dictionary_columns_are_numbered_by_their_values():
    plain = batch(k=pa.array(["a", "b"]))
    keys = Keys(plain.schema)
    keys.number(plain)
    assert keys.number(batch(k=pa.array(["b", "a", "b"]).dictionary_encode())).tolist() == [1, 0, 1]


def test_numbers_of_keys_that_left_are_given_to_others():
    keys = Keys(pa.schema([("k", pa.string())]))
    keys.number(batch(k=pa.array(["a", "b", "c"])))
    keys.remove(np.array([1]))
    assert keys.find(batch(k=pa.array(["b", "c"]))).tolist() == [-1, 2]
    assert keys.number(batch(k=pa.array(["d", "e"]))).tolist() == [1, 3]
    keys.check()


def test_a_rollback_takes_out_what_came_since_the_last_commit():
    keys = Keys(pa.schema([("k", pa.int64())]))
    keys.number(batch(k=pa.array([7, 8])))
    keys.commit()
    keys.number(batch(k=pa.array([8, 9])))
    keys.number(batch(k=pa.array([10])))
    keys.rollback()
    assert keys.find(batch(k=pa.array([7, 8, 9, 10]))).tolist() == [0, 1, -1, -1]
    keys.check()


def test_canonical_order_has_null_first_and_nan_last():
    rows = batch(k=pa.array([NAN, 1.0, None, -math.inf, math.inf, -0.0]))
    keys = Keys(rows.schema)
    numbers = keys.number(rows)
    order = keys.order(numbers)
    assert [str(v) for v in keys.columns(numbers[order]).column(0).to_pylist()] == [
        "None", "-inf", "0.0", "1.0", "inf", "nan",
    ]  # fmt: skip


def test_canonical_order_is_by_what_comes_before_and_then_by_code_points():
    rows = batch(k=pa.array(["b", "a", "\U0001f600", "\uffff"]))
    keys = Keys(rows.schema)
    numbers = keys.number(rows)
    assert keys.order(numbers, np.array([2, 2, 1, 1])).tolist() == [3, 2, 1, 0]


VALUE = st.one_of(st.none(), st.text(max_size=20), st.sampled_from(["", "a", "b", "\0"]))


@given(st.data())
def test_a_table_that_grows_and_shrinks_keeps_its_numbers(data):
    keys, expected = Keys(pa.schema([("a", pa.string()), ("b", pa.int64())])), {}
    for _ in range(data.draw(st.integers(1, 8))):
        rows = data.draw(st.lists(st.tuples(VALUE, st.sampled_from([None, 0, 1])), max_size=30))
        columns = batch(
            a=pa.array([a for a, _ in rows], pa.string()), b=pa.array([b for _, b in rows], pa.int64())
        )
        numbers = keys.number(columns).tolist()
        is_kept = data.draw(st.booleans())
        if not is_kept:
            keys.rollback()
        else:
            keys.commit()
            for row, number in zip(rows, numbers, strict=True):
                assert expected.setdefault(row, number) == number
        assert len(set(expected.values())) == len(expected) == len(keys)
        gone = [row for row in expected if data.draw(st.booleans())]
        keys.remove(np.array([expected.pop(row) for row in gone], np.int64))
        keys.check()


def test_words_of_keys_that_left_do_not_pile_up():
    table = KeyTable()
    for begin in range(0, 100_000, 1_000):
        values = np.arange(begin, begin + 1_000)
        table.remove(table.number(fixed_words(values, values)))
    table.check()
    assert (len(table), table.n_numbers) == (0, 1_000)
    assert table.nbytes < 1_000 * 200
