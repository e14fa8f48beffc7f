"""The bound form is what is stored: it must come back as it was, whatever is in it."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline
from eddyline.catalog import codec
from eddyline.functions.declarations import DECLARED
from eddyline.model import Call, Literal, Properties, Shape, Stream
from eddyline.types import DATE, INTERVAL, MONTHS, TIMESTAMP, TIMESTAMP_NTZ, parse_type, type_name

COLUMNS = (
    "s STRING, t STRING NOT NULL, b BINARY, bo BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, f4 FLOAT, f8 DOUBLE, "
    "d DECIMAL(10,2), day DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, a ARRAY<INT>, st STRUCT<x: INT, y: ARRAY<STRING>>, "
    "m MAP<STRING, DOUBLE>"
)
QUERIES = [
    "SELECT * FROM r",
    "SELECT s AS `odd name`, 'it''s' AS k FROM r WHERE s = 'Ω \\n ''' OR t LIKE 'a%'",
    "SELECT i8 FROM r WHERE i4 IN (1, 2, 3) AND i8 BETWEEN -9223372036854775807 AND 7 AND i1 <> 3",
    "SELECT s FROM r WHERE f8 < 1e300 AND f4 > 0.1 AND NOT (d = 12.34 OR d IS NULL)",
    "SELECT s FROM r WHERE day >= DATE '2024-02-29' AND ts < TIMESTAMP '2024-05-01 12:00:00.000001'",
    "SELECT s FROM r WHERE ntz = TIMESTAMP_NTZ '0001-01-01 00:00:00' AND ts > now() - INTERVAL 10 MINUTES",
    "SELECT day + INTERVAL 3 DAYS AS later FROM r WHERE add_months(day, 2) > DATE '1970-01-01'",
    "SELECT s, CASE WHEN bo THEN i4 ELSE -1 END AS c FROM r WHERE coalesce(f8, 0.0D) * 2 > i4 % 7 AND bo",
    "SELECT upper(s) AS u FROM r WHERE regexp_like(s, '^a+$') AND length(t) > 3 AND CAST(s AS INT) = 5",
    "SELECT s FROM r WHERE 1 = 2 AND i4 > 3 AND i4 < 2",
    "SELECT st.x AS x FROM r WHERE st.y[0] = 'p' AND m['k'] > 1.5",
]


@pytest.fixture(scope="module")
def engine():
    return eddyline.open()


@pytest.fixture(scope="module", autouse=True)
def _stream(engine):
    engine.stream("r", COLUMNS)


def shape_of(engine: eddyline.Engine, text: str, **options) -> Shape:
    return engine.rounds.catalog.record(engine.query(text, **options).id).shape


@pytest.mark.parametrize("text", QUERIES)
def test_a_shape_comes_back_as_it_was(engine, text):
    shape = shape_of(engine, text)
    stored = codec.shape_to(shape)
    again = codec.shape_from(stored)
    assert [getattr(again, name) for name in Shape.__slots__] == [
        getattr(shape, name) for name in Shape.__slots__
    ]
    assert codec.shape_to(again) == stored  # with the places in the text
    assert again.output == shape.output


def test_a_pattern_is_stored_as_homes_always_had_it(engine):
    shape = shape_of(engine, "SELECT s FROM r WHERE s LIKE 'a%' AND startswith(t, 'b') AND s NOT LIKE 'c'")
    kinds = [atoms[0][0] for _, atoms in json.loads(codec.shape_to(shape))["clauses"]]
    assert kinds == ["residual", "residual", "residual"]
    again = codec.shape_from(codec.shape_to(shape)).condition
    assert [clause.atoms[0].kind.value for clause in again.clauses] == ["like", "like", "residual"]


def test_a_shape_with_functions_of_the_user_and_parameters_comes_back(engine):
    before = dict(DECLARED)

    @eddyline.udf(returns="double", deterministic=False)
    def noise(x: pa.Array) -> pa.Array:
        return x

    text = "SELECT s FROM r WHERE noise(f8) > :low AND noise(f8) < 5 AND i4 IN (:some)"
    shape = shape_of(engine, text, params={"low": 1.5, "some": [1, 2]})
    again = codec.shape_from(codec.shape_to(shape))
    assert codec.shape_meaning(again) == codec.shape_meaning(shape)
    assert again.functions == shape.functions
    DECLARED.clear()
    DECLARED.update(before)


def test_shapes_mean_the_same_wherever_their_parts_stood_in_a_text():
    def engine_with(text):
        engine = eddyline.open()
        engine.stream("r", COLUMNS)
        return codec.shape_meaning(shape_of(engine, text))

    short, long = (
        "SELECT s FROM r WHERE f8 < 1.5 AND s = 'a'",
        "SELECT s FROM r WHERE f8 < 1000.25 AND s = 'abcdef'",
    )
    assert engine_with(short) == engine_with(long)
    assert engine_with(short) != engine_with(short.replace("<", ">"))
    assert engine_with(short) != engine_with(short.replace("SELECT s", "SELECT t"))


CONSTANTS = [
    (pa.string(), "it's Ω \n \" \\"),
    (pa.bool_(), False),
    (pa.int8(), -128),
    (pa.int64(), 2**63 - 1),
    (pa.int64(), -(2**63)),
    (pa.float64(), 0.1),
    (pa.float64(), -0.0),
    (pa.float64(), float("inf")),
    (pa.float64(), float("-inf")),
    (pa.float64(), 5e-324),
    (pa.float32(), 0.5),
    (pa.decimal128(38, 18), Decimal("12345678901234567890.123456789012345678")),
    (pa.decimal128(10, 2), Decimal("-0.01")),
    (pa.binary(), b"\x00\xff"),
    (DATE, datetime.date(2024, 2, 29)),
    (DATE, datetime.date(1, 1, 1)),
    (TIMESTAMP, datetime.datetime(2024, 5, 1, 12, 0, 0, 1, tzinfo=datetime.UTC)),
    (TIMESTAMP, datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)),
    (TIMESTAMP_NTZ, datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    (INTERVAL, datetime.timedelta(days=-3, microseconds=1)),
    (MONTHS, pa.MonthDayNano([14, 3, -1000])),
    (pa.list_(pa.string()), ["a", None, "Ω"]),
    (pa.list_(pa.float64()), [1.5, None]),
    (pa.list_(DATE), [datetime.date(2024, 5, 1), None]),
    (pa.list_(pa.int32()), []),
]


@pytest.mark.parametrize(("t", "value"), CONSTANTS, ids=str)
@pytest.mark.parametrize("as_scalar", [False, True])
def test_a_constant_comes_back_exactly(t, value, as_scalar):
    given_value = pa.scalar(value, t) if as_scalar else value
    stored = codec.dump(codec.value_to(given_value, t))
    again = pa.scalar(codec.value_from(codec.json.loads(stored), t), t)
    assert again == pa.scalar(value, t)
    if pa.types.is_floating(t):
        assert math.copysign(1, again.as_py()) == math.copysign(1, value)


@pytest.mark.parametrize("t", sorted({t for t, _ in CONSTANTS}, key=str), ids=str)
def test_null_of_any_type_comes_back(t):
    assert codec.value_to(None, t) is None
    assert codec.value_to(pa.scalar(None, t), t) is None
    assert codec.value_from(None, t) is None


def test_not_a_number_comes_back():
    stored = codec.value_to(float("nan"), pa.float64())
    assert math.isnan(codec.value_from(codec.json.loads(codec.dump(stored)), pa.float64()))


@pytest.mark.parametrize("t", [DATE, TIMESTAMP, TIMESTAMP_NTZ], ids=str)
def test_times_beyond_what_python_can_say_come_back(t):
    far = pa.array([100_000_000 if t == DATE else 2**60], pa.int32() if t == DATE else pa.int64()).view(t)[0]
    assert pa.scalar(codec.value_from(codec.value_to(far, t), t), t) == far


@given(st.lists(st.tuples(st.text(), st.floats(), st.none() | st.integers(-(2**31), 2**31 - 1)), min_size=1))
def test_the_constants_of_a_query_come_back_as_they_were(rows):
    slots = [pa.string(), pa.float64(), pa.int32()]
    shape = _shape_with(slots)
    write, read = codec.constants_writer(shape), codec.constants_reader(shape)
    for row in rows:
        for constants in (row, tuple(pa.scalar(v, t) for v, t in zip(row, slots, strict=True))):
            if "\ud800" <= max(row[0], default="") <= "\udfff":
                continue
            assert str(read(write(constants))) == str(list(row))


def _shape_with(types: list[pa.DataType]) -> Shape:
    from eddyline.model import Condition, Input, SlotInfo

    slots = tuple(SlotInfo(at, t) for at, t in enumerate(types))
    return Shape("k", (Input("r", "r"),), (), Condition(), slots)


def test_constants_that_do_not_fit_the_shape_are_a_bug():
    with pytest.raises(AssertionError, match="1 constants for 2 slots"):
        codec.constants_writer(_shape_with([pa.string(), pa.int32()]))(["a"])


def test_a_literal_keeps_its_sign_and_its_place():
    plus, minus = Literal(pa.float64(), 0.0), Literal(pa.float64(), -0.0)
    call = Call(pa.bool_(), "=", (plus, minus), span=eddyline.errors.Span(3, 9))
    again = codec.expression_from(codec.json.loads(codec.dump(codec.expression_to(call))))
    assert again == call
    assert again.span == call.span


@pytest.mark.parametrize("ddl", [c for c in COLUMNS.split(", ") if "<" not in c and ">" not in c])
def test_a_stream_comes_back_with_every_column_type(ddl):
    name, type_text, *rest = ddl.split()
    schema = pa.schema([pa.field(name, parse_type(type_text), not rest)])
    stream = Stream(
        "r", schema, options=(("subscribe", "x"),), properties=(("format", "json"),), source="kafka"
    )
    assert codec.stream_from(codec.stream_to(stream)) == stream


def test_a_stream_comes_back_with_nested_types_time_lateness_and_key(engine):
    engine.stream("full", COLUMNS, time="ts", lateness="5 seconds")
    (stream,) = [s for s in engine.rounds.catalog.streams() if s.name == "full"]
    again = codec.stream_from(codec.stream_to(stream))
    assert again == stream
    assert [type_name(f.type) for f in again.schema] == [type_name(f.type) for f in stream.schema]


@pytest.mark.parametrize(
    "properties",
    [
        Properties(),
        Properties(owner="ops"),
        Properties(is_enabled=False),
        Properties(per=("sym", "venue"), cooldown_us=300_000_000, deliver=("ops", "mail"), message="Ω {sym}"),
        Properties(
            for_us=0,
            resolve_us=1,
            emit="final",
            within_us=5,
            severity="high",
            since="x",
            memory_bytes=1 << 40,
        ),
    ],
)
def test_properties_come_back_and_plain_ones_take_no_room(properties):
    stored = codec.properties_to(properties)
    assert codec.properties_from(stored) == properties
    assert (stored == "") == (properties == Properties())


def test_columns_of_constants_come_back():
    columns = [
        pa.array(["a", None]),
        pa.array([1.5, float("nan")]),
        pa.array([[1], None], pa.list_(pa.int32())),
    ]
    again = codec.columns_from(codec.columns_to(columns, ["s0", "s1", "s2"]))
    assert str([c.to_pylist() for c in again]) == str([c.to_pylist() for c in columns])
    assert [column.type for column in again] == [column.type for column in columns]
    assert codec.columns_from(codec.columns_to([pa.array([], pa.string())], ["s0"])) == [
        pa.array([], pa.string())
    ]
