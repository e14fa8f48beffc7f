"""Values of receipts survive JSON, exactly; and two engines mean the same value only if it is the same to the last bit."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.proof.values import (
    is_same,
    rows_from_json,
    rows_to_json,
    same_type,
    schema_from_text,
    schema_to_text,
)
from eddyline.types import TIMESTAMP, type_name
from tests.expressions import edge_values

TABLES = [
    edge_values.INTEGERS,
    edge_values.FLOATING,
    edge_values.DECIMAL,
    edge_values.TEXT,
    edge_values.TEXT_PAIRS,
    edge_values.LOGIC_PAIRS,
    edge_values.TIMES,
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.column_names[0])
def test_edge_values_of_every_type_come_back_as_they_were(table):
    schema = schema_from_text(json.loads(json.dumps(schema_to_text(table.schema))))
    assert schema == table.schema
    stored = json.loads(json.dumps(rows_to_json(table), allow_nan=False))
    again = rows_from_json(stored, schema)
    for name in table.column_names:
        pairs = zip(table[name].to_pylist(), again[name].to_pylist(), strict=True)
        assert all(is_same(a, b) for a, b in pairs), name


def test_nested_values_intervals_and_years_beyond_python_come_back_too():
    beyond = pa.array([400_000_000_000_000_000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = pa.table(
        {
            "far": beyond,
            "many": pa.array([[1, None]]),
            "one": pa.array([{"x": 1.5, "y": [b"\xff"]}], pa.struct([("x", pa.float64()), ("y", pa.list_(pa.binary()))])),
            "map": pa.array([[("k", 1), ("l", None)]], pa.map_(pa.string(), pa.int32())),
            "span": pa.array([5_400_000_000], pa.duration("us")),
            "months": pa.array([pa.MonthDayNano([14, 0, 0])]),
        }
    )  # fmt: skip
    (stored,) = rows_to_json(rows)
    assert (stored["far"], stored["span"], stored["months"]) == (400_000_000_000_000_000, 5_400_000_000, 14)
    assert stored["map"] == [["k", 1], ["l", None]]
    assert rows_from_json([stored], schema_from_text(schema_to_text(rows.schema))).equals(rows)


@given(st.floats())
def test_a_number_is_the_same_as_itself_and_as_what_json_makes_of_it(value):
    table = pa.table({"x": pa.array([value], pa.float64())})
    stored = json.loads(json.dumps(rows_to_json(table), allow_nan=False))
    (again,) = rows_from_json(stored, table.schema)["x"].to_pylist()
    assert is_same(value, again)


def test_what_differs_in_the_last_bit_or_in_the_sign_of_zero_is_not_the_same():
    assert is_same(math.nan, math.nan)
    assert not is_same(0.0, -0.0)
    assert not is_same(1.0, math.nextafter(1.0, 2.0))
    assert is_same(1.0, math.nextafter(1.0, 2.0), ulps=1)
    assert not is_same(1, 1.0)
    assert not is_same(True, 1)
    assert is_same([{"a": [math.nan]}], [{"a": [math.nan]}])
    assert not is_same([1, None], [1])


def test_types_are_those_of_sql_however_arrow_holds_them():
    assert same_type(pa.large_string(), pa.string())
    assert same_type(pa.timestamp("us", "America/New_York"), TIMESTAMP)
    assert not same_type(pa.timestamp("us"), TIMESTAMP)
    assert not same_type(pa.decimal128(10, 2), pa.decimal128(11, 2))
    assert type_name(TIMESTAMP) == "TIMESTAMP"
