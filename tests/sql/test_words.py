"""Words of the grammar as names of columns: without backquotes wherever Spark takes them so."""

from __future__ import annotations

import pyarrow as pa
import pytest

import eddyline
from eddyline.errors import EddylineError
from eddyline.model import Stream
from eddyline.sql import Shapes

WORDS = [
    *(
        "order",
        "group",
        "end",
        "window",
        "limit",
        "offset",
        "set",
        "sort",
        "union",
        "intersect",
        "minus",
        "except",
    ),
    *("with", "lateral", "natural", "left", "right", "full", "semi", "anti", "cross", "inner", "asc", "desc"),
    *(
        "tablesample",
        "array",
        "date",
        "timestamp",
        "interval",
        "user",
        "type",
        "key",
        "value",
        "start",
        "first",
    ),
    *("last", "row", "rows", "range", "current", "position", "filter", "exists", "values", "table", "view"),
    *("partition", "over", "time", "year", "month", "day"),
]
RARE = [
    *(
        "from",
        "where",
        "when",
        "then",
        "else",
        "on",
        "by",
        "using",
        "and",
        "or",
        "in",
        "is",
        "as",
        "like",
        "case",
    ),
    *("select", "join", "having", "between"),
]
STREAM = Stream("events", pa.schema([(word, pa.int32()) for word in (*WORDS, *RARE)] + [("x", pa.int32())]))
ANYWHERE = [
    "SELECT {word} FROM events",
    "SELECT x, {word} FROM events",
    "SELECT {word}, x FROM events",
    "SELECT {word} AS y FROM events",
    "SELECT x AS {word} FROM events",
    "SELECT events.{word} FROM events",
    "SELECT abs({word}) AS y, coalesce({word}, x) AS z FROM events",
    "SELECT {word} + 1 AS y, 1 - {word} AS z, ({word}) AS u FROM events",
    "SELECT CASE WHEN {word} > 1 THEN {word} ELSE {word} END AS y FROM events",
    "SELECT CASE {word} WHEN {word} THEN 1 END AS y FROM events",
    "SELECT x FROM events WHERE {word} > 1 AND x = {word}",
    "SELECT x FROM events WHERE NOT {word} > 1 OR {word} IS NULL",
    "SELECT x FROM events WHERE {word} IN (1, 2) AND {word} NOT IN (3, x)",
    "SELECT x FROM events WHERE {word} BETWEEN {word} AND {word}",
    "SELECT * EXCEPT ({word}) FROM events",
]
COMPARED = [
    "SELECT x, {word}, x AS y FROM events WHERE {word} = 1 AND x > 2",
    "SELECT events.{word} FROM events WHERE ({word}) > 1 AND (x < {word})",
]


def accepted(text: str) -> bool:
    try:
        Shapes().shape_of(text, {"events": STREAM})
    except EddylineError as error:
        raise AssertionError(f"{text}\n{error}") from None
    return True


@pytest.mark.parametrize("template", ANYWHERE)
def test_words_of_the_grammar_are_names_where_a_value_stands(template: str) -> None:
    assert all(
        accepted(template.format(word=word)) for word in WORDS if word != "interval" or "IN" not in template
    )


@pytest.mark.parametrize("template", COMPARED)
def test_words_that_hold_expressions_together_are_names_where_nothing_else_fits(template: str) -> None:
    assert all(accepted(template.format(word=word)) for word in RARE)


def test_an_end_belongs_to_its_case_unless_there_is_one_more() -> None:
    shape, _ = Shapes().shape_of(
        "SELECT CASE WHEN end > 1 THEN CASE WHEN x = end THEN end END END AS y, end FROM events WHERE end = 1",
        {"events": STREAM},
    )
    assert [p.name for p in shape.projection] == ["y", "end"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT x, FROM events", "expected an expression after the comma, found FROM"),
        ("SELECT x FROM events WHERE x = AND x > 1", "expected an expression after =, found AND"),
        ("SELECT CASE WHEN x > 1 THEN END FROM events", "expected an expression after THEN, found END"),
        ("SELECT x FROM events WHERE x > 1 ORDER BY x", "ORDER BY is not supported"),
        ("SELECT x FROM events LIMIT 5", "LIMIT is not supported"),
    ],
)
def test_where_a_word_cannot_be_a_name_it_is_what_it_says(text: str, problem: str) -> None:
    with pytest.raises(EddylineError) as refused:
        Shapes().shape_of(text, {"events": STREAM})
    assert refused.value.problem == problem


def test_spark_takes_the_same_words(spark):
    columns = ", ".join(f"1 AS `{word}`" for word in (*WORDS, *RARE, "x"))
    spark.sql(f"SELECT {columns}").createOrReplaceTempView("events")
    parser = spark._jsparkSession.sessionState().sqlParser()
    try:
        for templates, words in ((ANYWHERE, WORDS), (COMPARED, RARE)):
            for template in templates:
                for word in words:
                    parser.parsePlan(template.format(word=word))
        shown, compared = ", ".join(WORDS), " AND ".join(f"{word} = 1" for word in (*WORDS, *RARE))
        assert spark.sql(f"SELECT {shown} FROM events WHERE {compared}").count() == 1
    finally:
        spark.catalog.dropTempView("events")


@pytest.mark.parametrize("condition", ["n IS DISTINCT FROM 5", "n IS NOT DISTINCT FROM 5"])
def test_is_distinct_from_stands_in_the_list_of_columns_too(condition):
    engine = eddyline.open()
    engine.stream("s", "n INT")
    query = engine.query(f"SELECT {condition} AS found FROM s")
    engine.push("s", [(5,), (None,)])
    is_not = "NOT" in condition
    assert [result["found"] for result in query.results()] == [is_not, not is_not]
