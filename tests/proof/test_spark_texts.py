"""What Spark is asked: the user's text, but for what only the round can say, replaced where it stands and nowhere else."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from eddyline.errors import ProofError
from eddyline.proof import Claim
from eddyline.proof.spark_texts import spark_text
from eddyline.proof.words import from_at, words_of

NOW_US = 1_718_000_000_123_456  # 2024-06-10 06:13:20.123456 UTC


def claim(text: str, params=None, *, time_zone: str = "UTC", schema: pa.Schema | None = None) -> Claim:
    schema = schema or pa.schema([("a", pa.int64()), ("p", pa.string())])
    nothing = np.empty(0, np.int64)
    rows = schema.empty_table()
    return Claim(text, params or {}, "s", rows, nothing, NOW_US, time_zone, (), nothing, rows)


def run(text: str, params=None, **options) -> str:
    return spark_text(claim(text, params, **options)).text


def test_words_know_strings_comments_names_paths_and_parameters():
    text = "SELECT a.`b``c` /* now() */, r'\\' -- now()\n, 'it''s', p:x.y[0], q::int, :z, .5e3 FROM s"
    kinds = [(word.kind, word.text) for word in words_of(text)]
    assert kinds == [
        ("word", "SELECT"), ("word", "a"), ("symbol", "."), ("name", "`b``c`"), ("symbol", ","), ("string", "r'\\'"),
        ("symbol", ","), ("string", "'it''s'"), ("symbol", ","), ("word", "p"), ("path", ":x.y[0]"), ("symbol", ","),
        ("word", "q"), ("symbol", "::"), ("word", "int"), ("symbol", ","), ("parameter", ":z"), ("symbol", ","),
        ("number", ".5e3"), ("word", "FROM"), ("word", "s"),
    ]  # fmt: skip


def test_a_text_without_anything_special_is_run_as_it_was_written():
    text = "SELECT a, upper(p) -- loud\nFROM s WHERE a IS DISTINCT FROM 3 AND p LIKE 'now()%'"
    assert run(text) == text
    assert run(text + " ; ").rstrip() == text


def test_the_round_says_what_time_it_is_but_not_in_strings_comments_or_names():
    text = "SELECT now() AS now, 'now()', t.current_date, current_date FROM s t WHERE a < unix_timestamp() /* now() */"
    schema = pa.schema([("a", pa.int64()), ("day", pa.date32())])
    assert run(text, schema=schema) == (
        "SELECT TIMESTAMP '2024-06-10 06:13:20.123456Z' AS now, 'now()', t.current_date, DATE '2024-06-10' FROM s t "
        "WHERE a < 1718000000L /* now() */"
    )
    tokyo = run("SELECT Current_Date(), localtimestamp FROM s", time_zone="Pacific/Auckland")
    assert tokyo == "SELECT DATE '2024-06-10', TIMESTAMP_NTZ '2024-06-10 18:13:20.123456' FROM s"
    assert run("SELECT unix_timestamp(p) FROM s") == "SELECT unix_timestamp(p) FROM s"


def test_a_column_called_like_the_time_is_a_column():
    schema = pa.schema([("current_date", pa.date32())])
    assert run("SELECT current_date FROM s", schema=schema, time_zone="UTC") == "SELECT current_date FROM s"
    assert "DATE '2024-06-10'" in run("SELECT current_date() FROM s", schema=schema)


def test_rows_that_match_are_asked_for_with_the_same_condition():
    asked = spark_text(claim("SELECT a IS DISTINCT FROM 1 AS d, extract(DAY FROM now()) FROM s WHERE a > 1"))
    assert asked.matching == "SELECT `__eddyline_arrival` FROM s WHERE a > 1"
    assert from_at(words_of("SELECT 1")) is None
    with pytest.raises(ProofError, match="has no FROM"):
        spark_text(claim("SELECT 1"))


@pytest.mark.parametrize(
    ("t", "value", "text", "argument"),
    [
        (pa.string(), "it's", ":x", "it's"),
        (pa.bool_(), True, ":x", True),
        (pa.int32(), 7, ":x", 7),
        (pa.int64(), 7, "CAST(:x AS BIGINT)", 7),
        (pa.int64(), 1 << 40, ":x", 1 << 40),
        (pa.int8(), -7, "CAST(:x AS TINYINT)", -7),
        (pa.float64(), 1.5, ":x", 1.5),
        (pa.float64(), float("nan"), "CAST(:x AS DOUBLE)", "NaN"),
        (pa.float32(), 0.5, "CAST(:x AS FLOAT)", "0.5"),
        (pa.decimal128(5, 2), Decimal("1.50"), "CAST(:x AS DECIMAL(5,2))", "1.50"),
        (pa.binary(), b"\x00\xff", "unhex(:x)", "00ff"),
        (pa.date32(), datetime.date(2024, 2, 29), "CAST(:x AS DATE)", "2024-02-29"),
        (pa.timestamp("us", "UTC"), datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC), "timestamp_micros(:x)", 86_400_000_000),
        (pa.timestamp("us"), datetime.datetime(2024, 2, 29, 1), "CAST(:x AS TIMESTAMP_NTZ)", "2024-02-29 01:00:00"),
        (pa.float64(), None, "CAST(:x AS DOUBLE)", None),
    ],
)  # fmt: skip
def test_a_parameter_is_given_to_spark_in_its_own_type(t, value, text, argument):
    asked = spark_text(claim("SELECT a FROM s WHERE a = :x", {"x": (t, value)}))
    assert asked.text == f"SELECT a FROM s WHERE a = {text}"
    assert asked.args == {"x": argument}


def test_a_list_stands_for_its_values():
    numbers = {"x": (pa.list_(pa.int64()), [1, None])}
    assert run("SELECT a FROM s WHERE a IN (:x)", numbers).endswith(
        "a IN (CAST('1' AS BIGINT), CAST(NULL AS BIGINT))"
    )
    words = {"x": (pa.list_(pa.string()), ["it's", "a\\b"])}
    assert run("SELECT a FROM s WHERE p NOT IN ( :x )", words).endswith("p NOT IN ( 'it\\'s', 'a\\\\b' )")
    nothing = {"x": (pa.list_(pa.string()), [])}
    assert run("SELECT a FROM s WHERE p IN (:x)", nothing).endswith(
        "p IN (SELECT CAST(NULL AS STRING) WHERE false)"
    )
    assert run("SELECT array_contains(:x, p) FROM s", words) == (
        "SELECT array_contains(CAST(array('it\\'s', 'a\\\\b') AS ARRAY<STRING>), p) FROM s"
    )


def test_paths_and_the_word_stream_are_written_as_spark_has_them():
    assert run("SELECT t.p:a.`b c`[0]::int AS x FROM STREAM s t WHERE `p`:k = 'v'") == (
        "SELECT get_json_object(t.p, '$.a[\\'b c\\'][0]')::int AS x FROM s t WHERE get_json_object(`p`, '$.k') = 'v'"
    )
    with pytest.raises(ProofError, match="follows something other than a column"):
        run("SELECT lower(p):a FROM s")
