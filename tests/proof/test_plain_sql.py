"""The small language DuckDB judges: what a text says, with Spark's precedence written out, and what is not in it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline.errors import ProofError
from eddyline.proof import Claim, JudgeStopped, claim_difference
from eddyline.proof.duckdb import DuckDbJudge
from eddyline.proof.plain_sql import plain, plain_join

SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("b", pa.int64()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("ok", pa.bool_()),
        ("ts", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
    ]
)


def condition(text: str, params=None) -> str:
    return plain(f"SELECT a FROM t WHERE {text}", "t", SCHEMA, params or {}).condition


def refused(text: str, params=None) -> str:
    with pytest.raises(ProofError) as error:
        plain(text, "t", SCHEMA, params or {})
    return error.value.problem.removeprefix("DuckDB does not judge ")


def test_precedence_is_written_out():
    assert condition("a = 1 OR NOT ok AND b < a + 2 * a") == (
        """(("a" = CAST('1' AS INTEGER)) OR ((NOT "ok") AND ("b" < ("a" + (CAST('2' AS INTEGER) * "a")))))"""
    )
    assert condition("NOT a BETWEEN 1 AND 2 AND s IS NOT NULL") == (
        """((NOT (("a" >= CAST('1' AS INTEGER)) AND ("a" <= CAST('2' AS INTEGER)))) AND ("s" IS NOT NULL))"""
    )


def test_lists_parameters_and_literals_have_their_types():
    params = {"low": (pa.float64(), 1.5), "names": (pa.list_(pa.string()), ["it's", None])}
    assert condition("d > :low AND s NOT IN (:names)", params) == (
        """(("d" > CAST('1.5' AS DOUBLE)) AND (NOT (("s" = CAST('it''s' AS VARCHAR)) OR ("s" = CAST(NULL AS VARCHAR)))))"""
    )
    assert condition("d < 10.5 AND b = -3000000000 AND d <> 1e3") == (
        """((("d" < CAST('10.5' AS DOUBLE)) AND ("b" = CAST('-3000000000' AS BIGINT))) AND ("d" != CAST('1000.0' AS DOUBLE)))"""
    )


def test_results_and_the_columns_they_need():
    found = plain("SELECT x.a + 1 AS n, `s`, x.ok FROM STREAM t AS x WHERE ok ;", "t", SCHEMA, {})
    assert found.items == ("""("a" + CAST('1' AS INTEGER))""", '"s"', '"ok"')
    assert found.columns == {"a", "s", "ok"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT upper(s) FROM t", "upper("),
        ("SELECT a FROM t WHERE s LIKE 'a%'", "LIKE"),
        ("SELECT a FROM t WHERE a / 2 = 1", "/"),
        ("SELECT a FROM t WHERE a < 1.5", "a number with a decimal point but beside a DOUBLE"),
        ("SELECT a * 1.5 FROM t", "a number with a decimal point but beside a DOUBLE"),
        ("SELECT a FROM t WHERE s = 1", "= of STRING and INT"),
        ("SELECT a FROM t WHERE a = b = ok", "a comparison of a comparison"),
        ("SELECT a FROM t WHERE a IN (1, 3000000000)", "an IN list of several types"),
        ("SELECT a FROM t WHERE a", "INT as a condition"),
        ("SELECT * FROM t", "column day, which is DATE"),
        ("SELECT a FROM t WHERE ts > now()", "now("),
        ("SELECT a FROM t WHERE ts > a", "> of TIMESTAMP and INT"),
        ("SELECT ts - ts FROM t", "- of TIMESTAMP and TIMESTAMP"),
        ("SELECT a FROM t WHERE ts < ts + INTERVAL 1 DAY", "INTERVAL 1 DAY"),
        ("SELECT a FROM t WHERE ts < ts + INTERVAL 24 HOURS", "INTERVAL 24 HOURS"),
        ("SELECT INTERVAL 1 HOUR AS h FROM t", "an interval as a column"),
        ("SELECT a FROM t WHERE s = 'it''s'", "the string 'it''s'"),
        ("SELECT a FROM t WHERE s = 'a' 'b'", "the string 'a'"),
        ("SELECT a FROM t WHERE s:x = 'b'", "s:x"),
        ("SELECT a FROM t WHERE a = NULL + 1", "+ of INT"),
        ("SELECT NULL AS n FROM t", "NULL as a column"),
        ("SELECT a FROM u", "FROM u"),
        ("SELECT c FROM t", "c"),
        ("SELECT u.a FROM t", "u.a"),
        ("SELECT a FROM t LIMIT 1", "1"),
        ("SELECT a FROM t WHERE b = 9223372036854775808", "9223372036854775808"),
        ("SELECT a FROM t WHERE d = 1.5D", "1.5D"),
        ("SELECT a FROM t WHERE a <=> 1", "<=>"),
        ("SELECT a FROM t WHERE a = :x", "parameter :x"),
        ("SELECT a FROM", "a text that ends here"),
    ],
)  # fmt: skip
def test_what_is_not_in_the_language_is_refused_by_name(text, what):
    assert refused(text) == what


def test_queries_in_from_become_part_of_the_query_around_them():
    text = "SELECT x.n, s FROM (SELECT a + 1 AS n, v.s FROM (SELECT * FROM t WHERE ok) AS v WHERE b > 2) AS `x` WHERE n < a2"
    found = plain(text.replace("a2", "9"), "t", SCHEMA.remove(6), {})
    assert found.items == ("""("a" + CAST('1' AS INTEGER))""", '"s"')
    assert found.condition == (
        """"ok" AND ("b" > CAST('2' AS INTEGER)) AND (("a" + CAST('1' AS INTEGER)) < CAST('9' AS INTEGER))"""
    )
    inputs = [("t", SCHEMA), ("u", SCHEMA)]
    text = "SELECT p, y.* FROM recent(t, 5) x JOIN (SELECT a, b + a FROM u) AS y(p, q) ON x.a = y.p, (SELECT s FROM t) z"
    found = plain_join(text, [*inputs, ("t", SCHEMA)], {})
    assert found.items == ('"t2"."a"', '"t2"."a"', '("t2"."b" + "t2"."a")')
    assert found.condition == '("t1"."a" = "t2"."a")'
    assert found.inputs == ({"a"}, {"a", "b"}, {"s"})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT n FROM (SELECT a + 1 FROM t) x", "a query in FROM whose columns have no names of their own"),
        (
            "SELECT n FROM (SELECT a AS n, b AS n FROM t) x",
            "a query in FROM whose columns have no names of their own",
        ),
        (
            "SELECT n FROM (SELECT a FROM t) x(n, m)",
            "a query in FROM whose columns have no names of their own",
        ),
        (
            "SELECT n FROM (SELECT 1.5 AS n FROM t) x",
            "a number with a decimal point as a column of a query in FROM",
        ),
        ("SELECT a FROM (SELECT a FROM t) x WHERE b > 1", "b"),
        ("SELECT a FROM (SELECT a FROM t LIMIT 5) x", "5"),
        ("SELECT a FROM (SELECT a FROM t", "a text that ends here"),
        ("SELECT x.a FROM (SELECT a FROM t) x JOIN (SELECT a FROM t) y ON x.a = y.a", "JOIN"),
    ],
)
def test_what_a_query_in_from_cannot_be_is_refused_by_name(text, what):
    assert refused(text) == what


def test_a_join_over_other_streams_than_the_rows_are_of_is_refused():
    with pytest.raises(ProofError, match="a text that reads fewer streams"):
        plain_join("SELECT a FROM (SELECT a FROM t) x", [("t", SCHEMA), ("u", SCHEMA)], {})


def test_duckdb_finds_rows_and_values_and_stops_where_spark_would():
    rows = pa.table({"a": pa.array([1, 2, None, 2**31 - 1], pa.int32()), "d": [0.5, float("nan"), 1.0, -0.0]})
    numbers = np.array([10, 11, 12, 13])
    judge = DuckDbJudge()

    def claimed(text: str, matches: list[int], results: pa.Table) -> Claim:
        return Claim(text, {}, "t", rows, numbers, 0, "UTC", (), np.array(matches, np.int64), results)

    text = "SELECT a, d * 2 AS twice FROM t WHERE d > 0.1 AND a IS NOT NULL"
    right = pa.table({"a": pa.array([1, 2], pa.int32()), "twice": [1.0, float("nan")]})
    outcome = claim_difference(claimed(text, [10, 11], right), judge.finding(claimed(text, [10, 11], right)))
    assert (outcome.n_pairs, outcome.n_differences) == (4, 0)
    wrong = pa.table({"a": pa.array([1, 2], pa.int32()), "twice": [1.0, -0.0]})
    outcome = claim_difference(claimed(text, [10, 13], wrong), judge.finding(claimed(text, [10, 13], wrong)))
    assert (outcome.missing, outcome.unexpected, outcome.different) == ((11,), (13,), ())
    outcome = claim_difference(claimed(text, [10, 11], wrong), judge.finding(claimed(text, [10, 11], wrong)))
    assert outcome.different == (11,)
    assert outcome.examples == ("Row 11: twice is nan, in the result -0.0.",)
    as_long = pa.table({"a": pa.array([1, 2], pa.int64()), "twice": [1.0, float("nan")]})
    outcome = claim_difference(
        claimed(text, [10, 11], as_long), judge.finding(claimed(text, [10, 11], as_long))
    )
    assert outcome.different == (10, 11)
    assert outcome.examples == ("Column a is INT, in the result BIGINT.",)
    twice = pa.table({"a": pa.array([1, 2, 2], pa.int32()), "twice": [1.0, float("nan"), float("nan")]})
    outcome = claim_difference(
        claimed(text, [10, 11, 11], twice), judge.finding(claimed(text, [10, 11, 11], twice))
    )
    assert (outcome.unexpected, outcome.n_differences) == ((11,), 1)
    with pytest.raises(JudgeStopped):
        judge.finding(claimed("SELECT a + 1 AS n FROM t", [], rows.slice(0, 0)))
    judge.close()


def judged(judge: DuckDbJudge, text: str, **columns: list[int]) -> list[int]:
    """The rows of t that the text gives, by number."""
    rows = pa.table({name: pa.array(values, pa.int32()) for name, values in columns.items()})
    none = np.empty(0, np.int64)
    claim = Claim(text, {}, "t", rows, np.arange(rows.num_rows), 0, "UTC", (), none, rows.slice(0, 0))
    return judge.finding(claim).matches.tolist()


def test_a_judge_has_the_empty_database_of_one_that_was_closed():
    first = DuckDbJudge()
    assert judged(first, "SELECT a FROM t WHERE a > 1", a=[1, 2, 3]) == [1, 2]
    first.close()
    second = DuckDbJudge()
    assert second._connection is first._connection
    assert second._connection.sql("SHOW ALL TABLES").fetchall() == []
    other = DuckDbJudge()
    assert other._connection is not second._connection
    assert judged(second, "SELECT b FROM t WHERE b < 2", b=[1, 2, 3]) == [0]
    assert judged(other, "SELECT a FROM t WHERE a = 5", a=[5]) == [0]
    second.close()
    other.close()


def test_a_database_in_which_something_failed_is_not_used_again():
    judge = DuckDbJudge()
    with pytest.raises(JudgeStopped):
        judged(judge, "SELECT a + 1 AS b FROM t", a=[2**31 - 1])
    judge.close()
    another = DuckDbJudge()
    assert another._connection is not judge._connection
    another.close()
