"""Keys are equal where Spark says that their values are."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.joins.keys import can_be_hashed, codes_of, same
from eddyline.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
)
from tests.oracles.stem import are_equal

NAN, INF = float("nan"), float("inf")
ANOTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF0000000000001))[0]  # another sign and other bits
MOMENTS = [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime.datetime(1970, 1, 1)]
UTC_MOMENTS = [moment.replace(tzinfo=datetime.UTC) for moment in MOMENTS]
WIDE = Decimal("12345678901234567890.5")
TEXTS = [
    "",
    "a",
    "A",
    "a ",
    "ab",
    "seven77",
    "eight888",
    "nine99999",
    "sixteen: 12345678",
    "\x00",
    "\x00\x00",
    "ä",
    "a\u0308",
]

EDGES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tinyint": (TINYINT, [-128, -1, 0, 127]),
    "smallint": (SMALLINT, [-32_768, 0, 32_767]),
    "int": (INT, [-(2**31), -1, 0, 2**31 - 1]),
    "bigint": (BIGINT, [-(2**63), -1, 0, 1, 2**32, 2**63 - 1]),
    "float": (FLOAT, [-INF, -0.0, 0.0, 1.5, INF, NAN]),
    "double": (DOUBLE, [-INF, -0.0, 0.0, 5e-324, 1.5, INF, NAN, ANOTHER_NAN]),
    "decimal": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("1.50")]),
    "wide_decimal": (pa.decimal128(38, 2), [-WIDE, Decimal(0), Decimal(2**64), Decimal(2**64 + 1), WIDE]),
    "boolean": (BOOLEAN, [False, True]),
    "string": (STRING, TEXTS),
    "binary": (BINARY, [text.encode() for text in TEXTS]),
    "date": (DATE, [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)]),
    "timestamp": (TIMESTAMP, UTC_MOMENTS),
    "timestamp_ntz": (TIMESTAMP_NTZ, MOMENTS),
    "interval": (INTERVAL, [datetime.timedelta(0), datetime.timedelta(microseconds=-1)]),
}


def found_equal(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> list[tuple[int, int]]:
    """Pairs of rows whose keys are equal: their codes are, and what has to be compared besides is."""
    a, b = codes_of(left), codes_of(right)
    i, j = np.nonzero(a.codes[:, None] == b.codes[None, :])
    is_known = np.ones(len(i), dtype=bool)
    for codes, rows in ((a, i), (b, j)):
        if codes.is_null is not None:
            is_known &= ~codes.is_null[rows]
    i, j = i[is_known], j[is_known]
    if not a.is_exact:
        is_same = same(left, i, right, j)
        i, j = i[is_same], j[is_same]
    return list(zip(i.tolist(), j.tolist(), strict=True))


@pytest.mark.parametrize("name", EDGES)
def test_equal_values_have_equal_codes_and_others_are_distinguished(name):
    t, values = EDGES[name]
    array = pa.array([*values, None], t)
    items = array.to_pylist()
    expected = [(i, j) for i, a in enumerate(items) for j, b in enumerate(items) if are_equal(a, b)]
    assert found_equal([array], [array]) == expected
    padded = pa.array([values[-1], None, *values, None, values[0]], t).slice(2, len(array))
    assert found_equal([padded], [array]) == expected, "a slice of a longer array"
    assert all(same([array], np.array([i]), [padded], np.array([j]))[0] for i, j in expected)


@pytest.mark.spark
def test_equality_is_spark_s(spark):
    for name, (t, values) in EDGES.items():
        array = pa.array([*values, None], t)
        rows = spark.createDataFrame(pa.table({"at": range(len(array)), "v": array}))
        rows.createOrReplaceTempView("edges")
        joined = spark.sql("SELECT a.at, b.at FROM edges a JOIN edges b ON a.v = b.v ORDER BY 1, 2").collect()
        assert found_equal([array], [array]) == [tuple(row) for row in joined], name


def test_numbers_dates_and_short_texts_are_their_own_codes():
    for name, (t, values) in EDGES.items():
        is_hashed = name in ("wide_decimal", "string", "binary")
        assert codes_of([pa.array(values, t)]).is_exact is not is_hashed, name
        assert can_be_hashed([t]) is is_hashed, name
    assert codes_of([pa.array(["seven77", "", None])]).is_exact
    assert not codes_of([pa.array([1]), pa.array([2])]).is_exact
    assert can_be_hashed([BIGINT, BIGINT])


def test_a_null_in_any_column_makes_the_key_null():
    codes = codes_of([pa.array([1, None, 3, None]), pa.array(["a", "b", None, None])])
    assert codes.is_null.tolist() == [False, True, True, True]
    assert codes_of([pa.nulls(2, NULL)]).is_null.tolist() == [True, True]
    assert codes_of([pa.array([1, 2])]).is_null is None


def test_no_rows_have_no_codes():
    for t, _ in EDGES.values():
        assert len(codes_of([pa.array([], t)])) == 0
        assert len(codes_of([pa.array([], t), pa.array([], BIGINT)])) == 0
        assert (
            same([pa.array([], t)], np.empty(0, np.int64), [pa.array([], t)], np.empty(0, np.int64)).tolist()
            == []
        )


def test_texts_in_another_layout_have_the_same_codes():
    texts = ["a", None, "a longer text", "", "a"]
    plain = pa.array(texts)
    for layout in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        array = plain.cast(layout) if not pa.types.is_dictionary(layout) else plain.dictionary_encode()
        assert found_equal([array], [plain]) == found_equal([plain], [plain]), layout
    assert codes_of([pa.array([None], pa.string()).dictionary_encode()]).is_null.tolist() == [True]


def test_a_type_that_cannot_be_compared_is_an_error_of_ours():
    with pytest.raises(AssertionError, match="list<item: int64> is no type of a join key"):
        codes_of([pa.array([[1]])])


def test_hashes_that_collide_are_told_apart():
    odd, mask = 0x9E3779B97F4A7C15, 2**64 - 1

    def after(code: int, word: int) -> int:
        code = (code ^ word) * odd & mask
        return code ^ code >> 29

    def text(*words: int) -> bytes:
        return b"".join(word.to_bytes(8, "big") for word in words)

    start = 16 * odd & mask
    second = after(start, 1) ^ after(start, 2) ^ 7
    left, right = pa.array([text(1, 7)]), pa.array([text(2, second)])
    assert codes_of([left]).codes == codes_of([right]).codes, "no longer a collision"
    assert found_equal([left], [right]) == []
    assert found_equal([left], [left]) == [(0, 0)]


@given(st.lists(st.binary(max_size=20)), st.integers(0, 5))
def test_bytes_are_equal_where_their_codes_and_their_bytes_are(values, skipped):
    array = pa.array(values, BINARY).slice(skipped)
    items = array.to_pylist()
    expected = [(i, j) for i, a in enumerate(items) for j, b in enumerate(items) if a == b]
    assert found_equal([array], [array]) == expected


@given(
    st.lists(
        st.tuples(st.integers(-2, 2), st.sampled_from(["", "a", "a long text"]), st.booleans()), max_size=12
    )
)
def test_several_columns_are_equal_where_all_are(rows):
    arrays = [pa.array([row[at] for row in rows], t) for at, t in enumerate((INT, STRING, BOOLEAN))]
    expected = [(i, j) for i, a in enumerate(rows) for j, b in enumerate(rows) if a == b]
    assert found_equal(arrays, arrays) == expected
