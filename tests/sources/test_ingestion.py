"""Data as users have it into the schema of a stream."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from eddyline.errors import SchemaError
from eddyline.model import Stream
from eddyline.sources import infer_schema, ingest

UTC = datetime.UTC


def stream(ddl: str) -> Stream:
    return Stream("trades", infer_schema(ddl))


def taken(ddl: str, data, time_zone: str = "UTC"):
    return ingest(stream(ddl), data, time_zone)


def refused(ddl: str, data) -> str:
    with pytest.raises(SchemaError) as error:
        taken(ddl, data)
    return str(error.value)


ROWS = [{"sym": "A", "price": 1.5}, {"sym": "B", "price": None}]
TABLE = pa.Table.from_pylist(ROWS)


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        tuple(ROWS),
        (row for row in ROWS),
        [("A", 1.5), ["B", None]],
        {"sym": ["A", "B"], "price": [1.5, None]},
        {"price": pa.array([1.5, None]), "sym": np.array(["A", "B"])},
        [{"PRICE": 1.5, "Sym": "A"}, {"sym": "B"}],
        TABLE,
        TABLE.to_batches()[0],
        pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches()),
        pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
        TABLE.select(["price", "sym"]),
        pl.DataFrame(ROWS),
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS, index=[7, 9]),
    ],
    ids=lambda data: type(data).__name__,
)  # fmt: skip
def test_the_same_rows_come_out_of_every_kind_of_data(data):
    result = taken("sym STRING, price DOUBLE", data)
    assert result.rows.to_pylist() == ROWS
    assert result.rows.schema == pa.schema([("sym", pa.string()), ("price", pa.float64())])
    assert result.arrival is None
    assert result.misfits == []


def test_one_row_may_come_as_a_dict():
    assert taken("sym STRING, price DOUBLE", {"sym": "A", "price": 2}).rows.to_pylist() == [
        {"sym": "A", "price": 2.0}
    ]


def test_no_rows_are_no_rows():
    assert taken("sym STRING", []).rows.num_rows == 0
    assert taken("sym STRING", pa.table({"sym": pa.array([], pa.string())})).rows.num_rows == 0


def test_a_dict_of_lists_is_one_row_where_all_columns_are_arrays():
    result = taken("tags ARRAY<STRING>", {"tags": ["x", "y"]})
    assert result.rows.to_pylist() == [{"tags": ["x", "y"]}]


@pytest.mark.parametrize(
    ("ddl", "value", "expected"),
    [
        ("c INT", 3.0, 3),
        ("c INT", np.int64(7), 7),
        ("c DOUBLE", 3, 3.0),
        ("c DECIMAL(5,2)", 1.25, decimal.Decimal("1.25")),
        ("c DECIMAL(5,2)", "1.5", decimal.Decimal("1.50")),
        ("c DATE", "2024-02-29", datetime.date(2024, 2, 29)),
        ("c TIMESTAMP", "2026-01-01 12:00:00", datetime.datetime(2026, 1, 1, 11, tzinfo=UTC)),
        ("c TIMESTAMP", "2026-01-01T12:00:00Z", datetime.datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("c TIMESTAMP", datetime.date(2026, 1, 1), datetime.datetime(2025, 12, 31, 23, tzinfo=UTC)),
        ("c TIMESTAMP_NTZ", "2026-01-01 12:00:00", datetime.datetime(2026, 1, 1, 12)),
        ("c TIMESTAMP_NTZ", "2026-01-01T12:00:00Z", datetime.datetime(2026, 1, 1, 13)),
        ("c BOOLEAN", np.True_, True),
        ("c BINARY", b"\x00\xff", b"\x00\xff"),
        ("c STRUCT<a: INT, b: STRING>", {"a": 1}, {"a": 1, "b": None}),
        ("c MAP<STRING, INT>", {"k": 1}, [("k", 1)]),
        ("c ARRAY<INT>", [1, None], [1, None]),
    ],
)
def test_values_in_rows_are_taken_as_the_column_means_them(ddl, value, expected):
    result = taken(ddl, [{"c": value}], "Europe/Berlin")
    assert result.misfits == []
    assert result.rows.to_pylist() == [{"c": expected}]


@pytest.mark.parametrize(
    ("ddl", "value", "message"),
    [
        ("c INT", "3", "column c: '3' is not INT"),
        ("c INT", 3.5, "column c: 3.5 is not INT"),
        ("c INT", 2**31, "column c: 2147483648 is not INT"),
        ("c INT", True, "column c: True is not INT"),
        ("c TINYINT", 128, "column c: 128 is not TINYINT"),
        ("c DOUBLE", "1.5", "column c: '1.5' is not DOUBLE"),
        ("c DOUBLE", False, "column c: False is not DOUBLE"),
        ("c STRING", 5, "column c: 5 is not STRING"),
        ("c BOOLEAN", 1, "column c: 1 is not BOOLEAN"),
        ("c DATE", "2024-02-30", "column c: '2024-02-30' is not DATE"),
        ("c DATE", 5, "column c: 5 is not DATE"),
        ("c TIMESTAMP", "noon", "column c: 'noon' is not TIMESTAMP"),
        ("c TIMESTAMP", 5, "column c: 5 is not TIMESTAMP"),
        ("c DECIMAL(4,1)", 12345, "column c: 12345 is not DECIMAL(4,1)"),
        ("c DECIMAL(4,1)", "x", "column c: 'x' is not DECIMAL(4,1)"),
        ("c ARRAY<INT>", ["x"], "column c: ['x'] is not ARRAY<INT>"),
        ("c ARRAY<STRING>", "xy", "column c: 'xy' is not ARRAY<STRING>"),
        ("c STRUCT<a: INT>", 5, "column c: 5 is not STRUCT<a: INT>"),
        ("c INT NOT NULL", None, "column c is NULL, which the stream does not allow"),
    ],
)
def test_a_row_with_a_value_that_does_not_fit_is_set_apart(ddl, value, message):
    good = {"c": None} if "NOT NULL" not in ddl else {"c": 1}
    result = taken(ddl, [good, {"c": value}, good])
    assert [misfit.message for misfit in result.misfits] == [message]
    assert result.misfits[0].row == {"c": value}
    assert result.rows.to_pylist() == [good, good]


def test_a_column_missing_from_a_row_is_null_and_refused_where_null_is():
    result = taken("sym STRING NOT NULL, price DOUBLE", [{"price": 1.0}])
    assert [m.message for m in result.misfits] == ["column sym is NULL, which the stream does not allow"]


# --------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    ("ddl", "column", "expected"),
    [
        ("c INT", pa.array([1, 2], pa.int64()), [1, 2]),
        ("c BIGINT", pa.array([1], pa.uint8()), [1]),
        ("c DOUBLE", pa.array([1], pa.int32()), [1.0]),
        ("c DOUBLE", pa.array([1.5], pa.float32()), [1.5]),
        ("c DECIMAL(6,2)", pa.array([3], pa.int32()), [decimal.Decimal("3.00")]),
        ("c STRING", pa.array(["a"], pa.large_string()), ["a"]),
        ("c STRING", pa.array(["a", "a"]).dictionary_encode(), ["a", "a"]),
        ("c STRING", pa.nulls(2), [None, None]),
        ("c TIMESTAMP_NTZ", pa.array([1_500], pa.timestamp("ns")), [datetime.datetime(1970, 1, 1, 0, 0, 0, 1)]),
        ("c TIMESTAMP", pa.array([0], pa.timestamp("s", tz="Asia/Tokyo")), [datetime.datetime(1970, 1, 1, tzinfo=UTC)]),
        ("c TIMESTAMP", pa.array([0], pa.timestamp("us")), [datetime.datetime(1969, 12, 31, 23, tzinfo=UTC)]),
        ("c TIMESTAMP_NTZ", pa.array([0, None], pa.timestamp("us", tz="UTC")), [datetime.datetime(1970, 1, 1, 1), None]),
        ("c ARRAY<BIGINT>", pa.array([[1]], pa.list_(pa.int8())), [[1]]),
    ],
)  # fmt: skip
def test_columns_of_other_types_become_the_streams_where_nothing_changes_its_meaning(ddl, column, expected):
    result = taken(ddl, pa.table({"c": column}), "Europe/Berlin")
    assert result.rows.column("c").to_pylist() == expected
    assert result.misfits == []


def test_values_of_a_column_that_do_not_fit_cost_their_rows():
    data = pa.table({"c": pa.array([1, 2**40, 3, -(2**40)], pa.int64()), "d": ["a", "b", "c", "d"]})
    result = taken("c INT, d STRING", data)
    assert result.rows.to_pylist() == [{"c": 1, "d": "a"}, {"c": 3, "d": "c"}]
    assert [(m.row, m.message) for m in result.misfits] == [
        ({"c": 2**40, "d": "b"}, "column c: 1099511627776 does not fit INT"),
        ({"c": -(2**40), "d": "d"}, "column c: -1099511627776 does not fit INT"),
    ]


def test_whole_numbers_that_do_not_fit_a_decimal_cost_their_rows():
    result = taken("c DECIMAL(4,1)", pa.table({"c": pa.array([999, 1000, None], pa.int64())}))
    assert result.rows.column("c").to_pylist() == [decimal.Decimal("999.0"), None]
    assert [m.message for m in result.misfits] == ["column c: 1000 does not fit DECIMAL(4,1)"]


def test_nulls_of_a_column_that_refuses_them_cost_their_rows():
    result = taken("c STRING NOT NULL", pa.table({"c": ["a", None]}))
    assert result.rows.to_pylist() == [{"c": "a"}]
    assert [m.message for m in result.misfits] == ["column c is NULL, which the stream does not allow"]


def test_a_column_of_nothing_but_nulls_that_refuses_them_costs_all_rows():
    result = taken("c TIMESTAMP NOT NULL", pa.table({"c": pa.nulls(2, pa.timestamp("us", tz="UTC"))}))
    assert result.rows.num_rows == 0
    assert len(result.misfits) == 2


@pytest.mark.parametrize(
    ("ddl", "column", "message"),
    [
        ("c INT", pa.array(["1"]), "column c of the data is string, stream trades has INT"),
        ("c INT", pa.array([1.0]), "column c of the data is double, stream trades has INT"),
        ("c STRING", pa.array([1]), "column c of the data is int64, stream trades has STRING"),
        ("c FLOAT", pa.array([1.0]), "column c of the data is double, stream trades has FLOAT"),
        ("c INT", pa.array([5], pa.time32("s")), "column c of the data is time32[s], stream trades has INT"),
        ("c ARRAY<INT>", pa.array([["a"]]), "stream trades has ARRAY<INT>"),
    ],
)
def test_a_column_that_can_never_fit_is_refused_with_the_push(ddl, column, message):
    said = refused(ddl, pa.table({"c": column}))
    assert message in said
    assert "hint: Cast the column before pushing, or declare the stream with its type." in said


FORMS = {
    "dicts": lambda columns: [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ],
    "arrow": pa.table,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_column_that_is_missing_is_null_in_every_form(form):
    result = taken("sym STRING, price DOUBLE", form({"sym": ["A"]}))
    assert (result.rows.to_pylist(), result.misfits) == ([{"sym": "A", "price": None}], [])
    result = taken("sym STRING, price DOUBLE NOT NULL", form({"sym": ["A"]}))
    assert [m.message for m in result.misfits] == ["column price is NULL, which the stream does not allow"]
    assert [m.row for m in result.misfits] == [{"sym": "A"}]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_column_the_stream_does_not_have_is_refused_in_every_form(form):
    assert refused("sym STRING, price DOUBLE", form({"sym": ["A"], "prise": [1.0]})) == (
        "stream trades has no column prise\n"
        "hint: Did you mean price? Or leave it out of the data, or declare stream trades again with it, nullable."
    )
    assert refused("sym STRING", form({"sym": ["A"], "u": [1], "v": [2]})) == (
        "stream trades has no column u\ndetail: Nor has it v.\n"
        "hint: Known: sym. Or leave it out of the data, or declare stream trades again with it, nullable."
    )


def test_what_is_not_rows_is_refused():
    hint = "hint: Push an Arrow table, a pandas or Polars DataFrame, or a list of dicts."
    assert refused("c INT", "text") == f"str cannot be pushed to trades\n{hint}"
    assert refused("c INT", 5) == f"int cannot be pushed to trades\n{hint}"
    assert refused("c INT", None) == f"NoneType cannot be pushed to trades\n{hint}"
    assert refused("c INT", pl.Series([1])) == f"row 0 pushed to trades is int, not a dict\n{hint}"
    assert refused("c INT", pa.chunked_array([[1]])).startswith("row 0 pushed to trades is Int64Scalar")
    assert refused("c INT", [{"c": 1}, 5]) == f"row 1 pushed to trades is int, not a dict\n{hint}"
    assert refused("c INT, d INT", [(1,)]) == (
        "row 0 pushed to trades has 1 values, the stream 2 columns\nhint: Columns are c, d."
    )
    assert refused("c INT, d INT", {"c": [1, 2], "d": [1]}) == (
        "the columns pushed to trades have different lengths\ndetail: c: 2, d: 1"
    )
    assert refused("c INT", pa.table([[1], [2]], names=["c", "C"])) == (
        "the data for trades has a column twice\nhint: Names are not case-sensitive."
    )


# --------------------------------------------------------------------------------------------- arrival numbers


@pytest.mark.parametrize("data", [pa.table({"_arrival": [9, 3, 5], "c": [1, 2, 3]}),
                                  [{"_arrival": 9, "c": 1}, {"_arrival": 3, "c": 2}, {"_arrival": 5, "c": 3}]],
                         ids=["table", "rows"])  # fmt: skip
def test_arrival_numbers_give_the_order(data):
    result = taken("c INT", data)
    assert result.arrival.tolist() == [3, 5, 9]
    assert result.rows.column("c").to_pylist() == [2, 3, 1]


def test_rows_set_apart_take_their_arrival_numbers_with_them():
    result = taken("c INT", pa.table({"_arrival": [4, 5], "c": pa.array([2**40, 7], pa.int64())}))
    assert result.arrival.tolist() == [5]
    result = taken("c INT", [{"_arrival": 4, "c": "x"}, {"_arrival": 5, "c": 7}])
    assert result.arrival.tolist() == [5]


def test_arrival_numbers_must_be_whole_and_single():
    whole = "_arrival of the data for trades must be whole numbers without NULL"
    assert whole in refused("c INT", pa.table({"_arrival": [1.5], "c": [1]}))
    assert whole in refused("c INT", pa.table({"_arrival": pa.array([1, None]), "c": [1, 2]}))
    assert whole in refused("c INT", [{"_arrival": 1, "c": 1}, {"c": 2}])
    assert whole in refused("c INT", [{"_arrival": "1", "c": 1}])
    assert refused("c INT", pa.table({"_arrival": [4, 4], "c": [1, 2]})) == (
        "_arrival 4 is there twice in the data for trades\nhint: Every row needs its own."
    )


# --------------------------------------------------------------------------------------------- schemas


@pytest.mark.parametrize(
    "given",
    [
        "sym STRING, price DOUBLE",
        {"sym": "string", "price": pa.float64()},
        pa.schema([("sym", pa.large_string()), ("price", pa.float64())]),
        [{"sym": "A", "price": 1.5}],
        {"sym": "A", "price": 1.5},
        pl.DataFrame({"sym": ["A"], "price": [1.5]}),
        pd.DataFrame({"sym": ["A"], "price": [1.5]}),
        pa.table({"sym": ["A"], "price": [1.5], "_arrival": [1]}),
    ],
    ids=["ddl", "dict of types", "schema", "rows", "row", "polars", "pandas", "with arrival"],
)
def test_a_schema_is_read_from_whatever_says_it(given):
    assert infer_schema(given) == pa.schema([("sym", pa.string()), ("price", pa.float64())])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "sym",
            "the schema cannot be read\ndetail: column 'sym' has no type\n"
            'hint: Write "sym STRING, price DOUBLE, ts TIMESTAMP".',
        ),
        ("sym text2", "the schema cannot be read\ndetail: 'text2' is not a type of Spark SQL"),
        ("", "a stream needs at least one column"),
        ([], "a schema cannot be read from list"),
        (5, "a schema cannot be read from int"),
        ([1, 2], "example rows must be dicts"),
        ([{"a": 1}, {"a": "x"}], "the example rows do not agree on a type"),
        (
            [{"a": None, "b": 1}],
            "the example rows say nothing about the type of a\nhint: Give a row where it is not NULL, or a schema.",
        ),
        (pa.schema([("a", pa.time32("s"))]), "column a has type time32[s], which SQL does not have"),
        ("a INT, A INT", "column A is there twice\nhint: Names are not case-sensitive."),
        ({"a": "nope"}, "the schema cannot be read\ndetail: 'nope' is not a type of Spark SQL"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_read_is_refused(given, message):
    with pytest.raises(SchemaError) as error:
        infer_schema(given)
    assert str(error.value).startswith(message)
