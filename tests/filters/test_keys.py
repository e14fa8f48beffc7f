"""Keys: integers that compare the way SQL values do."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.filters.keys import Domain, compare, float_keys
from tests.oracles.places import place

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
        (pa.decimal128(18, 18), [decimal.Decimal(k).scaleb(-18) for k in (1 - 10**18, -1, 0, 1, 10**18 - 1)]),
        (
            pa.decimal128(19, 0),
            [decimal.Decimal(k) for k in (1 - 10**19, -(2**63) - 1, -1, 0, 2**63, 10**19 - 1)],
        ),
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


# ------------------------------------------------------------------------------------------------ any values of any type

TEXTS = st.one_of(
    st.text(max_size=12),
    st.builds(
        lambda start, end: start + end,
        st.sampled_from(["", "customer", "customer-0000", "日本語"]),
        st.text("ab\0é", max_size=3),
    ),
)
BYTES = st.one_of(st.binary(max_size=12), TEXTS.map(str.encode))


@st.composite
def decimals(draw):
    """A type of any precision and scale, and values of it, some near each other and some at its limits."""
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    limit = 10**precision - 1
    unscaled = st.one_of(st.integers(-limit, limit), st.integers(-2, 2), st.sampled_from([-limit, limit]))
    with decimal.localcontext(prec=38):
        values = [decimal.Decimal(k).scaleb(-scale) for k in draw(st.lists(unscaled, max_size=20))]
    return pa.decimal128(precision, scale), values


VALUES = st.one_of(
    st.lists(TEXTS, max_size=20).map(lambda values: (pa.string(), values)),
    st.lists(BYTES, max_size=20).map(lambda values: (pa.binary(), values)),
    decimals(),
    st.lists(st.integers(-128, 127), max_size=20).map(lambda values: (pa.int8(), values)),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20).map(lambda values: (pa.int64(), values)),
    st.lists(st.booleans(), max_size=20).map(lambda values: (pa.bool_(), values)),
    st.lists(st.floats(width=32, allow_nan=False), max_size=20).map(lambda values: (pa.float32(), values)),
    st.lists(st.dates(), max_size=20).map(lambda values: (pa.date32(), values)),
)


@given(VALUES, st.integers(0, 9), st.integers(0, 20), st.sets(st.integers(0, 19)))
def test_any_slice_of_any_values_compares_with_constants_as_values_do(case, start, n_constants, nulls):
    t, values = case
    constants = pa.array([*values[:n_constants], None], t)
    domain = Domain(constants)
    rows = pa.array([None if k in nulls else value for k, value in enumerate(values)], t).slice(start)
    found, there = domain.keys(rows), domain.keys(constants[:-1])
    assert found.keys.flags.writeable
    assert found.keys.flags.c_contiguous
    is_null = found.is_null.tolist() if found.is_null is not None else [False] * len(rows)
    assert is_null == [value is None for value in rows.to_pylist()]
    for i, j in itertools.product(range(len(rows)), range(len(there.keys))):
        if not is_null[i]:
            value, constant = values[start + i], values[j]
            key, other = found.keys[i], there.keys[j]
            assert (key < other, key == other) == (value < constant, value == constant), (value, constant)


@given(st.lists(TEXTS, max_size=20), st.lists(TEXTS, max_size=20))
def test_a_text_lies_at_its_place_among_the_distinct_constants(constants, values):
    expected = [place(v.encode(), sorted({c.encode() for c in constants})) for v in values]
    domain = Domain(pa.array(constants, pa.string()))
    assert domain.keys(pa.array(values, pa.string())).keys.tolist() == expected


def test_many_texts_with_the_same_beginning_are_sorted_behind_it(rng):
    texts = [
        f"{'ab'[k]} has a long beginning/{n}"
        for k, n in zip(rng.integers(0, 2, 3 * 5000), rng.integers(0, 9 * 5000, 3 * 5000), strict=True)
    ]
    texts += ["b"] * 5000 + ["\0" * (k % 20) for k in range(2 * 5000)]
    found = Domain(pa.array(texts)).keys(pa.array(sorted(set(texts)))).keys
    assert found.tolist() == list(range(1, 2 * len(set(texts)), 2))


@pytest.mark.parametrize(
    "t",
    [
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_texts_laid_out_in_another_way_have_the_same_keys(t):
    domain = Domain(pa.array(["b", "d"]))
    values = pa.array(["a", "b", None, "e"], pa.string() if pa.types.is_dictionary(t) else t).cast(t)
    found = domain.keys(values.slice(1))
    assert found.keys[[0, 2]].tolist() == [1, 4]
    assert found.is_null.tolist() == [False, True, False]


def test_a_dictionary_of_any_type_is_read_through():
    values = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 2]), pa.array([10, 20, None]))
    found = Domain(pa.array([10])).keys(values)
    assert found.keys[:2].tolist() == [20, 10]
    assert found.is_null.tolist() == [False, False, True, True]
    nothing = pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.array([], pa.int64()))
    assert Domain(pa.array([10])).keys(nothing).is_null.tolist() == [True]


def test_texts_and_bytes_have_one_domain():
    domain = Domain.over([pa.array(["b"]), pa.array([b"b", b"\xff"], pa.binary())])
    assert domain.keys(pa.array(["a", "b", "c"])).keys.tolist() == [0, 1, 2]
    assert domain.keys(pa.array([b"\xff"], pa.binary())).keys.tolist() == [3]
    with pytest.raises(AssertionError, match="for one attribute"):
        Domain.over([pa.array(["b"]), pa.array([1])])


def test_a_column_of_another_type_is_a_fault():
    with pytest.raises(AssertionError, match="int32 keys asked of a int64 domain"):
        Domain(pa.array([1])).keys(pa.array([1], pa.int32()))
    with pytest.raises(AssertionError, match="has no order"):
        Domain(pa.array([[1]]))


def test_a_column_that_is_all_null_has_no_keys():
    for t in (pa.null(), pa.int64(), pa.string(), pa.decimal128(30, 2), pa.bool_()):
        assert Domain(pa.nulls(1, t)).keys(pa.nulls(2, t)).is_null.tolist() == [True, True]


@given(VALUES)
def test_a_domain_that_was_saved_gives_the_same_keys(case):
    t, values = case
    domain = Domain(pa.array(values[::2], t))
    saved = {name: array.copy() for name, array in domain.arrays().items()}
    again = Domain.from_arrays(t, saved)
    assert (again.type, again.is_direct, again.nbytes) == (t, domain.is_direct, domain.nbytes)
    rows = pa.array(values, t)
    assert again.keys(rows).keys.tolist() == domain.keys(rows).keys.tolist()


def test_direct_types_need_no_constants():
    assert Domain(pa.array([1])).arrays() == {}
    assert Domain(pa.array([1])).is_direct
    assert Domain(pa.array([], pa.decimal128(18, 2))).is_direct
    assert not Domain(pa.array([], pa.decimal128(19, 2))).is_direct
    assert not Domain(pa.array(["a"])).is_direct
