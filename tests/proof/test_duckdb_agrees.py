"""Which operators DuckDB may judge: those that give the same values, types and errors there as in Spark, on edge values.

`ALLOWED` in eddyline/proof/plain_expressions.py is what this test finds, and no more.
"""

from __future__ import annotations

import itertools
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from eddyline.proof import Claim
from eddyline.proof.duckdb import DuckDbJudge
from eddyline.proof.plain_expressions import ALLOWED, ARITHMETIC, COMPARISONS, INTEGERS, TYPES
from eddyline.proof.values import comparable, is_same
from eddyline.spark.judge import SparkJudge
from eddyline.types import BOOLEAN, DOUBLE, STRING, type_name
from tests.expressions.edge_values import (
    BIGINTS,
    BOOLEANS,
    DOUBLES_FEW,
    INTS,
    SMALLINTS,
    STRINGS,
    TINYINTS,
    numbered,
)
from tests.expressions.judge import spark_outcomes

pytestmark = pytest.mark.spark

VALUES = dict(zip(TYPES, [BOOLEANS, TINYINTS, SMALLINTS, INTS, BIGINTS, DOUBLES_FEW, STRINGS], strict=True))
NAMES = {t: type_name(t).lower() for t in TYPES}
NUMBERS = (*INTEGERS, DOUBLE)
PAIRS = [*itertools.product(NUMBERS, NUMBERS), (BOOLEAN, BOOLEAN), (STRING, STRING)]
CANDIDATES = [
    *((operator, pair) for operator in COMPARISONS for pair in PAIRS),
    *((operator, pair) for operator in ARITHMETIC for pair in PAIRS if pair[0] in NUMBERS),
]


def crossed() -> pa.Table:
    """Columns a_TYPE and b_TYPE in which every two values, and NULL, meet."""
    n = max(len(values) for values in VALUES.values()) + 1
    padded = {t: [*values, *[None] * (n - len(values))] for t, values in VALUES.items()}
    places = list(itertools.product(range(n), repeat=2))
    columns = {}
    for t, values in padded.items():
        columns[f"a_{NAMES[t]}"] = pa.array([values[i] for i, _ in places], t)
        columns[f"b_{NAMES[t]}"] = pa.array([values[j] for _, j in places], t)
    return pa.table(columns)


def expression(operator: str, pair: tuple[pa.DataType, pa.DataType]) -> str:
    return f"a_{NAMES[pair[0]]} {operator} b_{NAMES[pair[1]]}"


def duckdb_outcome(connection: Any, text: str) -> tuple[str, list[Any], set[int]]:
    """Type, values and rows in error. Where the whole fails, TRY gives NULL for a row in error and a struct for any other."""
    try:
        found = connection.sql(f"SELECT {text} AS c FROM edge ORDER BY row").to_arrow_table()
        return type_name(found.schema.field(0).type), found.column(0).to_pylist(), set()
    except duckdb.Error:
        tried = f"SELECT TRY(struct_pack(v := {text})) AS c FROM edge ORDER BY row"
        found = connection.sql(tried).to_arrow_table()
        rows = found.column(0).to_pylist()
        bad = {row for row, value in enumerate(rows) if value is None}
        kind = type_name(found.schema.field(0).type.field("v").type) if len(bad) < len(rows) else ""
        return kind, [None if value is None else value["v"] for value in rows], bad


def test_the_operators_duckdb_may_judge_are_those_that_agree_with_spark(spark):
    table = crossed()
    texts = [expression(operator, pair) for operator, pair in CANDIDATES]
    judged = spark_outcomes(spark, table, texts, "UTC")
    connection = duckdb.connect(":memory:")
    rows = numbered(table)
    connection.sql("CREATE TABLE edge AS SELECT * FROM rows")
    assert rows.num_rows
    clean: dict[str, set[tuple[pa.DataType, pa.DataType]]] = {}
    for (operator, pair), text, theirs in zip(CANDIDATES, texts, judged, strict=True):
        assert theirs.refusal is None, text
        kind, values, bad = duckdb_outcome(connection, text)
        is_clean = (
            kind.lower() == theirs.type.lower()
            and bad == set(theirs.errors)
            and all(is_same(a, b) for a, b in zip(values, theirs.values, strict=True))
        )
        if is_clean:
            clean.setdefault(operator, set()).add(pair)
    connection.close()
    found = {operator: frozenset(pairs) for operator, pairs in clean.items()}
    lacking = {op: ALLOWED[op] - found.get(op, frozenset()) for op in ALLOWED}
    assert not any(lacking.values()), {op: sorted(map(str, pairs)) for op, pairs in lacking.items() if pairs}
    assert found == dict(ALLOWED)


TEXTS = [
    "SELECT * FROM edge WHERE NOT (a_boolean AND b_boolean) OR a_boolean IS NULL",
    "SELECT a_boolean AND b_boolean AS x, a_boolean OR b_boolean AS y, NOT a_boolean AS z FROM edge",
    "SELECT a_int FROM edge WHERE a_int IN (1, 7, -3) AND NOT b_int IN (0, 2)",
    "SELECT a_double FROM edge WHERE a_double BETWEEN -1.5 AND 1e300 OR b_double < 0.1",
    "SELECT a_double FROM edge WHERE a_double NOT BETWEEN b_double AND 3 AND a_double <> 0.1",
    "SELECT a_string FROM edge WHERE a_string IN ('abc', '', 'Straße') OR a_string > 'b'",
    "SELECT e.a_tinyint + 1 AS n, e.b_smallint * 2 AS m, 3 - e.a_int AS k FROM edge AS e WHERE e.a_int < 100 AND e.a_int > -100",
    "SELECT a_bigint FROM edge WHERE a_bigint >= -9223372036854775807 AND a_bigint = 3037000500",
    "SELECT a_double * b_double + a_double - 1e3 AS d FROM edge WHERE a_double = a_double",
    "SELECT a_int FROM edge WHERE a_int = :n OR a_string IN (:words) OR a_double = :d",
    "SELECT a_int FROM edge WHERE a_string NOT IN (:words)",
    "SELECT a_int FROM edge WHERE NOT a_int = 1 AND NOT (a_int <> 7 OR a_int IS NULL) OR b_boolean",
]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_the_small_language_say_the_same_to_both(text, spark):
    table = crossed()
    numbers = np.arange(len(table)) + 100
    params = {
        "n": (pa.int32(), 7),
        "words": (pa.list_(pa.string()), ["a", None, "日本"]),
        "d": (pa.float64(), float("nan")),
    }
    nothing = np.empty(0, np.int64)
    claim = Claim(text, params, "edge", table, numbers, 0, "UTC", (), nothing, table.slice(0, 0))
    duck = DuckDbJudge()
    ours, theirs = duck.finding(claim), SparkJudge(spark).finding(claim)
    duck.close()
    assert ours.matches.tolist() == theirs.matches.tolist()
    for k in range(theirs.results.num_columns):
        a, b = ours.results.column(k), theirs.results.column(k)
        assert a.type == b.type
        assert all(is_same(x, y) for x, y in zip(comparable(a), comparable(b), strict=True))
