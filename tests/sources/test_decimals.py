"""Numbers with exponents far beyond a DECIMAL's scale cost their rows in every reader, and never the process."""

from __future__ import annotations

import json
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

import eddyline
from eddyline.errors import SchemaError
from eddyline.functions.declarations import DECLARED
from eddyline.model import Stream
from eddyline.sources import infer_schema, ingest
from eddyline.sources.avro import AvroMessages, sql_schema, writer_schema
from eddyline.sources.csv_rows import CsvRows
from eddyline.sources.formats import FileFormat
from eddyline.sources.json_lines import JsonLines
from eddyline.types import MAX_PRECISION, array_of, canonical
from tests.sources.test_avro import encoded

FAR = "1e-1000000000"


@pytest.fixture(autouse=True)
def no_functions_are_left_behind():
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


PRICES = Stream("s", infer_schema("n INT, price DECIMAL(10,2)"))


def taken(ddl: str, *rows: dict):
    found = ingest(Stream("s", infer_schema(ddl)), list(rows), "UTC")
    assert found.rows.num_rows + len(found.misfits) == len(rows)
    return found.rows.to_pylist()


@pytest.mark.parametrize(
    "value",
    [
        FAR, Decimal(FAR), Decimal("1e1000000000"), "1e999999999999999999999", "1e-40", Decimal("1e-81"),
        "0." + "0" * 5000 + "1", "9" * 5000, 10**50, 1e-300, float("nan"), float("inf"), "NaN", "-Infinity", Decimal("NaN"),
    ],
)  # fmt: skip
def test_a_value_that_is_no_decimal_costs_its_row_alone_or_inside_others(value):
    assert taken("d DECIMAL(10,2)", {"d": value}, {"d": 1}) == [{"d": Decimal("1.00")}]
    fine = Decimal("2.50")
    assert taken("d ARRAY<DECIMAL(10,2)>", {"d": [value]}, {"d": [fine]}) == [{"d": [fine]}]
    for odd in ({"x": value}, (value,), [("x", value)]):
        assert taken("d STRUCT<x: DECIMAL(10,2)>", {"d": odd}, {"d": {"x": fine}}) == [{"d": {"x": fine}}]
    for odd in ({"k": value}, [("k", value)], [{"key": "k", "value": value}]):
        assert taken("d MAP<STRING, DECIMAL(10,2)>", {"d": odd}, {"d": {"k": fine}}) == [{"d": [("k", fine)]}]
    nested = "d ARRAY<STRUCT<m: MAP<DECIMAL(5,0), INT>>>"
    assert taken(nested, {"d": [{"m": {value: 1}}]}, {"d": []}) == [{"d": []}]


@pytest.mark.parametrize(
    "value", ["0e-1000000000", Decimal("0e99"), Decimal("1." + "0" * 60), "100e-2", Decimal("1E+2")]
)
def test_a_number_that_the_type_has_is_taken_however_it_is_written(value):
    assert taken("d DECIMAL(10,2)", {"d": value}) == [{"d": Decimal(value).quantize(Decimal("0.01"))}]


def test_lines_of_json_are_read_as_columns_with_decimals_arrow_does_not_survive_among_them():
    odd = [
        FAR,
        f'"{FAR}"',
        '"1\\u0065-1000000000"',
        "0." + "0" * 100_000 + "1",
        "1e-99",
        "1e1000000000",
        '"1E-0400"',
    ]
    lines = [f'{{"n": {n}, "price": {n}.25}}'.encode() for n in range(200)]
    for k, token in enumerate(odd):
        lines[k * 20] = f'{{"n": {k * 20}, "price" :  {token}}}'.encode()
    found = JsonLines(PRICES, "UTC").rows(lines, 1, "f")
    assert found.rows["n"].to_pylist() == [n for n in range(200) if n % 20 or n >= 140]
    assert len(found.misfits) == len(odd)
    assert found.misfits[0].message == "column price: 1E-1000000000 is not DECIMAL(10,2) (f, line 1)"


def test_fields_of_csv_are_rounded_as_sql_casts_them():
    lines = [
        b"1," + FAR.encode(),
        b"2,-1e-99999999999999999999",
        b"3,1e1000000000",
        b"4,2.5",
        b"5,0e-1000000000",
    ]
    found = CsvRows(PRICES, "UTC", ["n", "price"]).rows(lines, 1, "f")
    zero = Decimal("0.00")
    assert [(r["n"], r["price"]) for r in found.rows.to_pylist() if r["n"] != 2] == [
        (1, zero), (4, Decimal("2.50")), (5, zero)
    ]  # fmt: skip
    assert found.rows.num_rows + len(found.misfits) == 5


def test_decimals_of_avro_with_a_scale_of_their_own_cost_their_rows():
    schema = {
        "type": "record",
        "name": "T",
        "fields": [
            {"name": "n", "type": "int"},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 2000, "scale": 1000},
            },
        ],
    }
    lines = encoded(schema, {"n": 1, "price": Decimal("0.25")}, {"n": 2, "price": Decimal(1).scaleb(-1000)})
    found = AvroMessages(PRICES, "UTC", FileFormat("avro", avro_schema=json.dumps(schema))).rows(
        lines, 1, "t"
    )
    assert found.rows.to_pylist() == [{"n": 1, "price": Decimal("0.25")}]
    assert len(found.misfits) == 1
    columns, strange = sql_schema(writer_schema(json.dumps(schema)))
    assert (columns.field("price").type, strange) == (pa.string(), {"price": "decimal"})


def test_arrow_columns_with_a_scale_sql_has_not_are_refused_or_brought_to_one():
    def unscaled(scale: int) -> pa.Table:
        one = pa.py_buffer((1).to_bytes(16, "little"))
        return pa.table({"d": pa.Array.from_buffers(pa.decimal128(2, scale), 1, [None, one])})

    stream = Stream("s", infer_schema("d DECIMAL(38,2)"))
    assert ingest(stream, unscaled(-5), "UTC").rows.to_pylist() == [{"d": Decimal("100000.00")}]
    assert len(ingest(stream, unscaled(5), "UTC").misfits) == 1
    for scale in (-1_000_000_000, -37, 39, 1_000_000_000):
        with pytest.raises(SchemaError, match=r"column d of the data is decimal128\(2"):
            ingest(stream, unscaled(scale), "UTC")
        assert canonical(pa.decimal128(2, scale)) is None
    assert canonical(pa.decimal128(2, -36)) == pa.decimal128(MAX_PRECISION, 0)
    assert canonical(pa.decimal128(2, 5)) == pa.decimal128(5, 5)


def test_a_dataframe_with_numbers_that_have_no_common_type_is_refused_as_a_whole():
    with pytest.raises(SchemaError, match="no common type") as error:
        ingest(PRICES, pd.DataFrame({"n": [1], "price": [Decimal(FAR)]}), "UTC")
    assert "column price" in str(error.value)


def test_an_array_of_decimals_is_made_only_of_numbers_near_its_scale():
    t = pa.decimal128(10, 2)
    assert array_of([None, Decimal("1.5"), 3], t).to_pylist() == [None, Decimal("1.50"), Decimal("3.00")]
    for value in (FAR, "0e-41", "1e37"):
        with pytest.raises(ValueError, match=r"is not DECIMAL\(10,2\)"):
            array_of([Decimal(value)], t)


def test_casts_and_parameters_take_such_numbers_as_spark_does():
    with eddyline.open() as engine:
        engine.stream("s", "t STRING, d DECIMAL(10,2)")
        near = engine.query("SELECT CAST(t AS DECIMAL(10,2)) AS d FROM s", name="near")
        with pytest.raises(eddyline.EddylineError, match="parameter far has a value SQL cannot have"):
            engine.query("SELECT t FROM s WHERE d > :far", params={"far": Decimal(FAR)})
        with pytest.raises(eddyline.EddylineError):
            engine.query_many(
                "SELECT t FROM s WHERE d > :far",
                params=[{"far": Decimal(FAR)}, {"far": Decimal(1)}],
                name="q{far}",
            )
        with pytest.raises(eddyline.EddylineError, match="digits"):
            engine.query(f"SELECT t FROM s WHERE d > {FAR}BD")
        engine.push("s", [{"t": FAR}, {"t": "1e1000000000"}])
        assert [r["d"] for r in near.results()] == [Decimal("0.00")]
        assert engine.push("s", [{"t": "a", "d": FAR}]).n_dead == 1


def test_a_function_that_returns_such_a_number_fails_for_its_row():
    @eddyline.udf(returns="decimal(10,2)")
    def plain(x: int) -> Decimal:
        return Decimal(FAR) if x == 1 else Decimal(x)

    @eddyline.udf(returns="decimal(10,2)")
    def arrays(x: pa.Array) -> list:
        return [plain.function(value) for value in x.to_pylist()]

    @eddyline.udf(returns="decimal(10,2)")
    def unscaled(x: pa.Array) -> pa.Array:
        return pa.Array.from_buffers(
            pa.decimal128(2, 10**9), len(x), [None, pa.py_buffer(bytes(16 * len(x)))]
        )

    with eddyline.open() as engine:
        engine.stream("s", "x INT")
        queries = [
            engine.query(f"SELECT x, {name}(x) AS d FROM s", name=name) for name in ("plain", "arrays")
        ]
        engine.query("SELECT x FROM s WHERE unscaled(x) > 1")
        assert engine.push("s", [{"x": 1}, {"x": 2}]).n_dead == 4
        for query in queries:
            assert [r["d"] for r in query.results()] == [Decimal("2.00")]
