"""Keys: integers that compare the way SQL values do."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from eddyline.filters.keys import Domain, compare, float_keys

OPERATORS = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@pytest.mark.parametrize(
    ("t", "values"),
    [
        (pa.int8(), [-128, -1, 0, 127]),
        (pa.int64(), [-(2**63), -1, 0, 2**53 + 1, 2**53, 2**63 - 1]),
        (pa.bool_(), [False, True]),
        (pa.float64(), [-math.inf, -1e308, -1.5, -5e-324, 0.0, 5e-324, 1.0, 1e308, math.inf]),
        (pa.float32(), [-1.5, 0.0, 0.25]),
        (pa.string(), ["", "A", "Z", "a", "aa", "ab", "é", "日", "\U0001f600"]),
        (pa.binary(), [b"", b"\x00", b"a", b"\xff"]),
        (pa.date32(), [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]),
        (pa.timestamp("us"), [datetime.datetime(1, 1, 1), datetime.datetime(2024, 2, 29, 12, 0, 0, 1)]),
        (pa.timestamp("us", tz="UTC"), [datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)]),
        (
            pa.duration("us"),
            [datetime.timedelta(-1), datetime.timedelta(0), datetime.timedelta(microseconds=1)],
        ),
        (pa.decimal128(10, 2), [decimal.Decimal("-1.50"), decimal.Decimal("0.00"), decimal.Decimal("1.25")]),
        (pa.decimal128(38, 0), [decimal.Decimal(10) ** 37, -(decimal.Decimal(10) ** 37)]),
    ],
    ids=str,
)
def test_keys_compare_as_values_do(t, values):
    constants = pa.array(values[::2], t)  # the rest falls in gaps between constants, before and after them
    domain = Domain(constants)
    rows, there = domain.keys(pa.array(values, t)), domain.keys(constants)
    for (i, value), (j, constant) in itertools.product(enumerate(values), enumerate(values[::2])):
        for operator, expected in OPERATORS.items():
            hit = compare(rows.keys[i : i + 1], operator, there.keys[j : j + 1])[0]
            assert hit == expected(value, constant), (value, operator, constant)


def test_nan_is_equal_to_itself_and_above_all_numbers():
    nan = np.array([math.nan, -math.nan, np.uint64(0x7FF0000000000001).view(np.float64)])
    keys = float_keys(np.concatenate([nan, [math.inf, 1e308]]))
    assert keys[0] == keys[1] == keys[2]
    assert keys[0] > keys[3] > keys[4]


def test_negative_zero_is_zero():
    keys = float_keys(np.array([0.0, -0.0, 5e-324, -5e-324]))
    assert keys[0] == keys[1]
    assert keys[3] < keys[0] < keys[2]


def test_random_floats_keep_their_order(rng):
    numbers = np.sort(rng.integers(-(2**63), 2**63 - 1, 5000).view(np.float64))
    numbers = numbers[np.isfinite(numbers)]
    keys = float_keys(numbers)
    assert ((np.diff(numbers) > 0) == (np.diff(keys) > 0)).all()


def test_nulls_are_marked():
    for t, values in [(pa.int32(), [1, None]), (pa.string(), ["a", None]), (pa.bool_(), [True, None])]:
        keys = Domain(pa.array(values, t)).keys(pa.array([None, values[0]], t))
        assert keys.is_null.tolist() == [True, False]
    assert Domain(pa.array([1])).keys(pa.array([1])).is_null is None


def test_a_domain_without_constants_places_every_value_alike():
    domain = Domain(pa.array([], pa.string()))
    assert len(set(domain.keys(pa.array(["a", "b"])).keys.tolist())) == 1
    assert domain.keys(pa.array([], pa.string())).keys.tolist() == []
    assert domain.keys(pa.array([None], pa.string())).is_null.tolist() == [True]
