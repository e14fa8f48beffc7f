"""Types: what SQL calls them, which Arrow types they stand for, and the DDL that names them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline import types as t


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("boolean", pa.bool_()),
        ("TINYINT", pa.int8()),
        ("byte", pa.int8()),
        ("smallint", pa.int16()),
        ("Int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ("varchar(20)", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("decimal", pa.decimal128(10, 0)),
        ("decimal(12, 2)", pa.decimal128(12, 2)),
        ("dec(5)", pa.decimal128(5, 0)),
        ("array<int>", pa.list_(pa.int32())),
        ("map<string, array<double>>", pa.map_(pa.string(), pa.list_(pa.float64()))),
        ("struct<a: int, `b c`: string>", pa.struct([("a", pa.int32()), ("b c", pa.string())])),
        ("struct<a int, b struct<c: date>>", pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.date32())]))])),
    ],
)  # fmt: skip
def test_a_ddl_string_names_a_type(name, expected):
    assert t.parse_type(name) == expected


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "'' is not a type"),
        ("number", "'number' is not a type of Spark SQL"),
        ("int int", "'int int' is not a type: 'int' was not expected"),
        ("array<int", "'array<int' is not a type: expected '>'"),
        ("map<string>", "'map<string>' is not a type: expected ','"),
        ("decimal(40, 2)", "DECIMAL(40,2) is out of range: at most 38 digits"),
        ("decimal(5, 9)", "DECIMAL(5,9) is out of range: at most 38 digits"),
        ("decimal()", "'decimal()' is not a type: DECIMAL takes a precision and a scale"),
        ("int;", "'int;' is not a type: ';' was not expected"),
    ],
)
def test_what_is_not_a_type_is_refused_in_words(name, problem):
    with pytest.raises(ValueError) as error:
        t.parse_type(name)
    assert str(error.value) == problem


def test_columns_of_a_ddl_string_have_names_types_and_may_refuse_null():
    assert t.parse_fields("sym STRING NOT NULL, `a b` decimal(4,1), n: int") == [
        ("sym", pa.string(), False),
        ("a b", pa.decimal128(4, 1), True),
        ("n", pa.int32(), True),
    ]


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("a", "column 'a' has no type"),
        ("a int b int", "'b' was not expected after column 'a'"),
        ("a int not", "'not' was not expected after column 'a'"),
    ],
)
def test_columns_that_cannot_be_read_are_refused_in_words(ddl, problem):
    with pytest.raises(ValueError) as error:
        t.parse_fields(ddl)
    assert str(error.value) == problem


@pytest.mark.parametrize(
    ("arrow", "sql"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary(4), pa.binary()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.uint8(), pa.int16()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("s", tz="Asia/Tokyo"), pa.timestamp("us", tz="UTC")),
        (pa.duration("ns"), pa.duration("us")),
        (pa.decimal256(30, 2), pa.decimal128(30, 2)),
        (pa.large_list(pa.uint8()), pa.list_(pa.int16())),
        (pa.list_(pa.float16(), 3), pa.list_(pa.float32())),
        (pa.map_(pa.large_string(), pa.uint8()), pa.map_(pa.string(), pa.int16())),
        (pa.struct([("a", pa.uint8())]), pa.struct([("a", pa.int16())])),
        (pa.time64("us"), None),
        (pa.decimal256(60, 2), None),
        (pa.list_(pa.time32("s")), None),
        (pa.struct([("a", pa.time32("s"))]), None),
        (pa.map_(pa.string(), pa.time32("s")), None),
    ],
)
def test_every_arrow_type_has_the_sql_type_that_holds_its_values_or_none(arrow, sql):
    assert t.canonical(arrow) == sql


@pytest.mark.parametrize(
    ("arrow", "name"),
    [
        (pa.int64(), "BIGINT"),
        (pa.decimal128(12, 2), "DECIMAL(12,2)"),
        (pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]), "STRUCT<a: INT, b: ARRAY<STRING>>"),
        (pa.map_(pa.string(), pa.float64()), "MAP<STRING, DOUBLE>"),
        (pa.timestamp("us", tz="UTC"), "TIMESTAMP"),
        (pa.timestamp("us"), "TIMESTAMP_NTZ"),
        (pa.duration("us"), "INTERVAL DAY TO SECOND"),
        (pa.null(), "VOID"),
    ],
)
def test_types_are_called_what_spark_calls_them(arrow, name):
    assert t.type_name(arrow) == name


@pytest.mark.parametrize(
    ("precision", "scale", "expected"),
    [
        (38, 10, (38, 10)),
        (39, 10, (38, 9)),  # one digit too many: the scale gives
        (60, 30, (38, 8)),
        (70, 20, (38, 6)),  # integral digits first, but at least six of the scale
        (50, 3, (38, 3)),
    ],
)
def test_a_decimal_of_too_many_digits_is_cut_as_spark_does(precision, scale, expected):
    assert t.decimal(precision, scale) == pa.decimal128(*expected)


def test_kinds_of_types():
    assert t.is_integer(pa.int8())
    assert not t.is_integer(pa.uint8())
    assert t.is_numeric(pa.decimal128(3, 1))
    assert not t.is_numeric(pa.string())
    assert t.is_temporal(pa.date32())
    assert not t.is_temporal(pa.duration("us"))
    assert t.is_nested(pa.list_(pa.int32()))
    assert not t.is_nested(pa.string())
