from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

import eddyline
from eddyline import types
from eddyline.model import Call, Column, Expression, Input, Literal, OverFrame, Stream, UserCall, Window
from eddyline.sql import Shapes, StreamTable, render
from eddyline.sql.bound_query import BoundQuery
from eddyline.sql.parse import parse_query
from eddyline.sql.select import bind_query
from tests.scalars import LiteralConstants, scalar

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("m", pa.decimal128(10, 2)),
        ("t", pa.string()),
        ("Name", pa.string()),
        ("flag", pa.bool_()),
        ("d", pa.date32()),
        ("ts", types.TIMESTAMP),
        ("s", pa.struct([("a", pa.int32()), ("B", pa.struct([("c", pa.string())]))])),
        ("items", pa.list_(pa.int32())),
        ("tags", pa.map_(pa.string(), pa.int32())),
    ]
)
TRADES = Stream(
    "trades",
    pa.schema([("sym", pa.string()), ("price", pa.float64()), ("ts", types.TIMESTAMP)]),
    time="ts",
)
NEWS = Stream("news", pa.schema([("sym", pa.string()), ("head", pa.string()), ("ts", types.TIMESTAMP)]))


def bound(text: str) -> Expression:
    return scalar(text, SCHEMA)


def shown(text: str) -> str:
    return render(bound(text))


def shape(text: str):
    return Shapes().shape_of(text, {"trades": TRADES, "news": NEWS})[0]


# ------------------------------------------------------------------------------------------------ precedence


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("i + n * 2", "i + (n * 2)"),
        ("i - n - 2", "(i - n) - 2"),
        ("i | n & 3", "i | (n & 3)"),
        ("i ^ n | 3", "(i ^ n) | 3"),
        ("t || t = t", "(t || t) = t"),
        ("i = n IS NULL", "(i = n) IS NULL"),
        ("NOT i = 1 AND flag", "(NOT (i = 1)) AND flag"),
        ("flag OR flag AND flag", "flag OR (flag AND flag)"),
        ("NOT flag = flag", "NOT (flag = flag)"),
        ("i BETWEEN 1 AND 2 AND flag", "(i BETWEEN 1 AND 2) AND flag"),
        ("-i + n", "(-i) + n"),
        ("~i & 1", "(~i) & 1"),
        ("! flag OR flag", "(NOT flag) OR flag"),
        ("i % 2 = 0", "(i % 2) = 0"),
        ("i DIV 2 * 3", "(i DIV 2) * 3"),
        ("i < n = flag", "(i < n) = flag"),
    ],
)
def test_operators_bind_as_in_spark(text: str, meant: str) -> None:
    assert bound(text) == bound(meant)


@pytest.mark.spark
@pytest.mark.parametrize(
    "text",
    [
        "1 | 2 & 4",
        "6 ^ 3 | 8",
        "1 + 2 * 3 - 4",
        "7 DIV 2 * 3",
        "1 = 2 IS NULL",
        "NOT 1 = 2 AND true",
        "2 - -3",
        "'a' || 'b' = 'ab'",
        "true OR true AND false",
        "1 < 2 = true",
        "5 BETWEEN 1 AND 2 + 3",
        "-2 + 3",
        "~1 & 3",
        "1 << 2 + 1",
        "12 % 5 * 2",
    ],
)
def test_spark_computes_the_same_from_the_same_text(spark, text: str) -> None:
    from eddyline.expressions import Frame, evaluate

    frame = Frame(1, {})
    assert (
        frame.array(evaluate(scalar(text, pa.schema([])), frame))[0].as_py()
        == spark.sql(f"SELECT {text}").first()[0]
    )


# ------------------------------------------------------------------------------------------------ names


def test_names_are_found_whatever_their_case() -> None:
    found = bound("NAME")
    assert isinstance(found, Column)
    assert found.name == "Name"


def test_struct_fields_arrays_maps_and_json_paths_are_reached() -> None:
    assert shown("s.b.C") == "s.B.c"
    assert shown("items[0]") == "items[0]"
    assert shown("tags['k']") == shown("tags.k") == "tags['k']"
    assert shown("t:a.b[0]") == "t:a.b[0]"


def test_a_json_path_keeps_keys_that_are_no_words() -> None:
    found = bound("t:a.`b c`['d']")
    assert isinstance(found, Call)
    path = found.arguments[1]
    assert isinstance(path, Literal)
    assert path.value == "$.a['b c']['d']"


def test_an_alias_wins_over_a_struct_of_the_same_name() -> None:
    stream = Stream(
        "t", pa.schema([("u", pa.struct([("a", pa.int32()), ("z", pa.int32())])), ("a", pa.string())])
    )
    found, _ = Shapes().shape_of("SELECT u.a AS first, u.z AS second FROM t u", {"t": stream})
    assert [render(p.expression) for p in found.projection] == ["a", "u.z"]


# ------------------------------------------------------------------------------------------------ types


def test_a_constant_takes_the_type_it_is_compared_in() -> None:
    assert shown("x < 10") == "x < 10.0"
    assert shown("m > 3") == "m > 3"
    assert bound("m > 3").children[1].type == pa.decimal128(10, 2)
    assert shown("n IN (1, 2)") == "n IN (1, 2)"
    assert bound("n IN (1, 2)").children[1].type == pa.list_(pa.int64())
    assert shown("i IN (1, 3000000000)") == "CAST(i AS BIGINT) IN (1, 3000000000)"


def test_text_compared_with_a_moment_is_read_as_one() -> None:
    assert shown("d >= '2024-02-29'") == "d >= DATE '2024-02-29'"
    assert shown("d IN ('2024-02-29', '2024-03-01')") == "d IN (DATE '2024-02-29', DATE '2024-03-01')"
    assert shown("ts BETWEEN '2024-01-01' AND '2024-01-02 03:00:00'").startswith(
        "ts >= TIMESTAMP '2024-01-01 00:00:00Z'"
    )


def test_between_is_two_comparisons() -> None:
    assert shown("i BETWEEN 1 AND 2") == "i >= 1 AND i <= 2"
    assert shown("i NOT BETWEEN 1 AND 2") == "NOT (i >= 1 AND i <= 2)"


def test_case_with_a_subject_compares_it() -> None:
    assert shown("CASE i WHEN 1 THEN 'a' ELSE 'b' END") == "CASE WHEN i = 1 THEN 'a' ELSE 'b' END"
    assert shown("CASE WHEN flag THEN 1 END") == "CASE WHEN flag THEN 1 END"


def test_is_tests_are_never_null() -> None:
    assert shown("flag IS TRUE") == "flag <=> TRUE"
    assert shown("flag IS NOT FALSE") == "flag IS DISTINCT FROM FALSE"
    assert shown("i IS DISTINCT FROM 3") == "i IS DISTINCT FROM 3"
    assert shown("i IS NOT DISTINCT FROM 3") == "i <=> 3"
    assert shown("i IS NOT NULL") == "i IS NOT NULL"


def test_casts_have_three_spellings() -> None:
    assert shown("CAST(i AS STRING)") == shown("i::string") == "CAST(i AS STRING)"
    assert shown("TRY_CAST(t AS DECIMAL(10, 2))") == "TRY_CAST(t AS DECIMAL(10,2))"
    assert bound("CAST(items AS array<bigint>)").type == pa.list_(pa.int64())


def test_functions_with_words_inside_are_plain_calls() -> None:
    assert shown("TRIM(LEADING 'x' FROM t)") == "ltrim('x', t)"
    assert shown("TRIM(BOTH FROM t)") == shown("TRIM(t)") == "trim(t)"
    assert shown("SUBSTRING(t FROM 2 FOR 3)") == shown("substring(t, 2, 3)")


# ------------------------------------------------------------------------------------------------ users' functions


@dataclass
class Declared:
    name: str
    returns: pa.DataType
    version: str = "v1"
    is_deterministic: bool = True
    takes: tuple[pa.DataType, ...] | None = None


class Registry:
    def __init__(self, *functions: Declared) -> None:
        self._functions = {f.name: f for f in functions}

    def get(self, name: str) -> Declared | None:
        return self._functions.get(name.lower())

    def names(self) -> list[str]:
        return list(self._functions)


def test_a_registered_function_is_called_with_its_argument_types() -> None:
    functions = Registry(Declared("score", types.DOUBLE, takes=(types.STRING, types.DOUBLE)))
    found = scalar("SCORE(t, i)", SCHEMA, functions=functions)
    assert isinstance(found, UserCall)
    assert (found.function, found.version, found.type) == ("score", "v1", types.DOUBLE)
    assert [a.type for a in found.arguments] == [types.STRING, types.DOUBLE]


def test_each_occurrence_of_a_function_that_varies_is_its_own() -> None:
    functions = Registry(Declared("dice", types.INT, is_deterministic=False))
    found = scalar("dice() = dice()", SCHEMA, functions=functions)
    assert isinstance(found, Call)
    assert found.arguments[0] != found.arguments[1]


def test_a_shape_lists_the_functions_it_uses() -> None:
    functions = Registry(Declared("score", types.DOUBLE))
    found, _ = Shapes().shape_of(
        "SELECT sym FROM trades WHERE score(sym) > 0.5", {"trades": TRADES}, functions=functions
    )
    assert found.functions == (("score", "v1"),)
    atom = found.condition.clauses[0].atoms[0]
    assert (atom.kind.name, atom.operator) == ("FUNCTION", ">")


# ------------------------------------------------------------------------------------------------ projection


def test_star_keeps_the_schemas_names_and_can_leave_columns_out() -> None:
    assert shape("SELECT * FROM trades").output.names == ["sym", "price", "ts"]
    assert shape("SELECT * EXCEPT (price, TS) FROM trades").output.names == ["sym"]
    assert shape("SELECT t.*, 1 AS one FROM trades t").output.names == ["sym", "price", "ts", "one"]


def test_a_column_is_named_as_written() -> None:
    found = shape("SELECT Sym, trades.PRICE, price * 2, upper( sym ) FROM trades")
    assert found.output.names == ["Sym", "PRICE", "price * 2", "upper(sym)"]


def test_needed_columns_are_known() -> None:
    assert shape("SELECT sym FROM trades WHERE price > 3").columns == {"sym", "price"}


# ------------------------------------------------------------------------------------------------ what later rooms need


def bound_query(text: str) -> BoundQuery:
    parsed = parse_query(text)
    constants = LiteralConstants(parsed.constants, "UTC")
    streams = StreamTable({"trades": TRADES, "news": NEWS})
    (bound,), read = bind_query(
        parsed, streams, constants, None, lambda branches: pytest.fail("no query is inside")
    )
    assert set(read) == set(bound.streams)
    return bound


def test_a_join_binds_its_inputs_and_condition() -> None:
    found = bound_query(
        "SELECT t.sym, head FROM trades t LEFT JOIN news n ON t.sym = n.sym AND t.ts > n.ts - INTERVAL 10 MINUTES"
    )
    first, second = found.inputs
    assert (first.alias, first.stream, first.join) == ("t", "trades", "")
    assert (second.alias, second.stream, second.join) == ("n", "news", "left")
    assert second.on is not None
    assert render(second.on).startswith("t.sym = n.sym AND t.ts > n.ts - INTERVAL")
    assert [render(p.expression) for p in found.projection] == ["t.sym", "n.head"]


@pytest.mark.parametrize(
    ("words", "join"),
    [
        ("JOIN news n ON t.sym = n.sym", "inner"),
        ("INNER JOIN news n USING (sym)", "inner"),
        ("LEFT ANTI JOIN news n ON t.sym = n.sym", "left anti"),
        ("ASOF JOIN news n ON t.sym = n.sym", "asof"),
        ("CROSS JOIN news n", "cross"),
        (", news n", "cross"),
    ],
)
def test_joins_are_known_by_name(words: str, join: str) -> None:
    assert bound_query(f"SELECT t.sym FROM trades t {words}").inputs[1].join == join


def test_recent_is_a_window_of_rows_or_of_time() -> None:
    rows = bound_query("SELECT t.sym FROM trades t JOIN recent(news, 100) n ON t.sym = n.sym").inputs[1]
    span = bound_query("SELECT sym FROM recent(news, INTERVAL 5 MINUTES)").inputs[0]
    assert isinstance(rows, Input)
    assert (rows.window, span.window) == (Window(n_rows=100), Window(duration_us=300_000_000))


def test_groups_and_conditions_on_them_bind() -> None:
    found = shape(
        "SELECT sym, max(price) AS high FROM trades GROUP BY sym HAVING high > 10 AND count(*) >= 3"
    )
    assert found.aggregating is not None
    assert [each.name for each in found.aggregating.calls] == ["#count()", "#max(price)"]
    conditions = [render(clause.atoms[0].condition, [10.0, 3]) for clause in found.condition.clauses]
    assert conditions == ["`#max(price)` > 10.0", "`#count()` >= 3"]


def test_aggregates_have_sparks_types() -> None:
    found = shape("SELECT count(*) AS n, sum(price) AS s, avg(price) AS a, min(ts) AS first FROM trades")
    assert found.output.types == [types.BIGINT, types.DOUBLE, types.DOUBLE, types.TIMESTAMP]


def test_windows_bind_with_their_frame_in_microseconds() -> None:
    found = shape(
        "SELECT sym, count(*) OVER (PARTITION BY sym ORDER BY ts RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW)"
        " AS n FROM trades QUALIFY n >= 5"
    )
    assert found.aggregating is not None
    assert found.aggregating.calls[0].frame == OverFrame("range", 600_000_000)
    assert len(found.condition.clauses) == 1


def test_from_stream_is_the_stream() -> None:
    assert shape("SELECT sym FROM STREAM trades AS t WHERE t.price > 1").stream == "trades"


def test_any_word_may_name_a_column_after_as() -> None:
    engine = eddyline.open()
    engine.stream("t", "a INT")
    assert engine.query("SELECT a AS limit, a AS order, a AS left FROM t").schema.names == [
        "limit",
        "order",
        "left",
    ]
