"""Every refusal: what it says, which part of the text it points at, and what it suggests."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline import types
from eddyline.errors import (
    AmbiguousNameError,
    EddylineError,
    ParseError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from eddyline.model import Stream
from eddyline.sql import Shapes
from tests.scalars import scalar

SCHEMA = pa.schema(
    [
        ("sym", pa.string()),
        ("price", pa.float64()),
        ("volume", pa.int32()),
        ("ts", types.TIMESTAMP),
        ("day", pa.date32()),
        ("s", pa.struct([("inner", pa.int32())])),
        ("items", pa.list_(pa.int32())),
    ]
)
STREAMS = {
    "trades": Stream("trades", SCHEMA),
    "news": Stream("news", pa.schema([("sym", pa.string()), ("head", pa.string())])),
}


AGGREGATE_IN_SPARK = 'Aggregate in Spark, and bring the rows with running.feed (docs/spark.md, "Aggregates").'
NO_VALUE = "Join the query in FROM and name its column, or write WHERE EXISTS (…) (docs/sql.md, Subqueries)."
EXPLODE = (
    "To ask about elements write exists(tags, t -> t = 'a'). To have a row for each, explode in Spark and bring the rows "
    "with running.feed (docs/spark.md)."
)


def refusal(text: str) -> EddylineError:
    with pytest.raises(EddylineError) as refused:
        Shapes().shape_of(text, STREAMS)
    return refused.value


def pointed(error: EddylineError) -> str:
    """The part of the text an error points at; past its end there is nothing."""
    assert error.span is not None
    assert error.text is not None
    return error.text[error.span.start : error.span.end]


NO_END = "the end of the text"


@pytest.mark.parametrize(
    ("text", "problem", "part", "hint"),
    [
        ("", "the text is empty", "", "Write a query such as SELECT * FROM stream."),
        (
            "SELEC sym FROM trades",
            "expected SELECT, found SELEC",
            "SELEC",
            "Did you mean SELECT instead of SELEC?",
        ),
        (
            "INSERT INTO trades VALUES (1)",
            "expected SELECT, found INSERT",
            "INSERT",
            "Accepted statements are SELECT, CREATE TABLE, CREATE VIEW, ALTER VIEW, DROP VIEW and DROP TABLE.",
        ),
        (
            "SELECT sym FORM trades",
            "FORM was not expected here",
            "FORM",
            "Did you mean FROM instead of FORM?",
        ),
        (
            "SELECT sym FROM trades WERE price > 1",
            "WERE was not expected here",
            "WERE",
            "Did you mean WHERE instead of WERE?",
        ),
        ("SELECT sym FROM trades WHERE", f"expected an expression after WHERE, found {NO_END}", "", None),
        ("SELECT sym, FROM trades", "expected an expression after the comma, found FROM", "FROM", None),
        ("SELECT FROM trades", "expected an expression after SELECT, found FROM", "FROM", None),
        ("SELECT sym FROM", f"expected a stream after FROM, found {NO_END}", "", None),
        ("SELECT sym FROM 5", "expected a stream after FROM, found 5", "5", None),
        ("SELECT sym FROM trades WHERE price >", f"expected an expression after >, found {NO_END}", "", None),
        ("SELECT sym FROM trades WHERE price > = 1", "expected an expression after >, found =", "=", None),
        (
            "SELECT sym FROM trades WHERE price > 1 AND",
            f"expected an expression after AND, found {NO_END}",
            "",
            None,
        ),
        ("SELECT sym FROM trades WHERE price = 1 price", "price was not expected here", "price", None),
        (
            "SELECT sym FROM trades WHERE (price > 1",
            f"expected ) for the ( at line 1, column 30, found {NO_END}",
            "",
            None,
        ),
        ("SELECT sym FROM trades WHERE price > 1)", ") was not expected here", ")", None),
        ("SELECT f(sym FROM trades", "expected ) for the ( at line 1, column 9, found FROM", "FROM", None),
        ("SELECT sym AS 'x' FROM trades", "expected a name after AS, found 'x'", "'x'", None),
        ("SELECT sym AS FROM trades", "expected a name after AS, found FROM", "FROM", None),
        ("SELECT s.+1 FROM trades", "expected a name after ., found +", "+", None),
        ("SELECT * x FROM trades", "* cannot have a name", "* x", None),
        ("SELECT * EXCEPT (1) FROM trades", "* EXCEPT takes names of columns", "1", None),
        (
            "SELECT * + 1 AS x FROM trades",
            "* stands for all columns and cannot be used in an expression",
            "*",
            None,
        ),
        ("SELECT sym FROM trades WHERE price BETWEEN 1 2", "expected AND, found 2", "2", None),
        (
            "SELECT sym FROM trades WHERE price IS 5",
            "expected NULL, TRUE, FALSE or DISTINCT FROM after IS, found 5",
            "5",
            None,
        ),
        ("SELECT sym FROM trades WHERE price IN 5", "expected ( after IN, found 5", "5", None),
        ("SELECT sym FROM trades WHERE price IN", f"expected ( after IN, found {NO_END}", "", None),
        (
            "SELECT sym FROM trades WHERE price IN ()",
            "the IN list is empty",
            "price IN ()",
            "Write at least one value.",
        ),
        (
            "SELECT sym FROM trades WHERE sym IN ('a', 1)",
            "the IN list mixes int and string literals",
            "IN ('a', 1)",
            "Write all its values the same way.",
        ),
        ("SELECT CASE WHEN price > 1 2 END AS x FROM trades", "expected THEN, found 2", "2", None),
        ("SELECT CASE price END AS x FROM trades", "expected WHEN, found END", "END", None),
        ("SELECT CASE WHEN true THEN 1 AS x FROM trades", "expected WHEN, ELSE or END, found AS", "AS", None),
        ("SELECT CASE WHEN true THEN 1 ELSE 2 AS x FROM trades", "expected END, found AS", "AS", None),
        ("SELECT CAST(price INT) AS x FROM trades", "expected AS, found INT", "INT", None),
        ("SELECT CAST(price AS 5) AS x FROM trades", "expected a type after AS, found 5", "5", None),
        (
            "SELECT CAST(price AS itn) AS x FROM trades",
            "'itn' is not a type of Spark SQL",
            "itn",
            "Did you mean INT?",
        ),
        ("SELECT EXTRACT(5 FROM ts) AS x FROM trades", "expected a field such as YEAR, found 5", "5", None),
        ("SELECT items[0 FROM trades", "expected ] for the [ at line 1, column 13, found FROM", "FROM", None),
        ("SELECT sym FROM trades GROUP sym", "expected BY, found sym", "sym", None),
        (
            "SELECT sym FROM trades WHERE price > 1 WHERE price < 2",
            "WHERE comes too late or twice",
            "WHERE",
            "The order is SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING, QUALIFY.",
        ),
        (
            "SELECT sym FROM trades JOIN news",
            f"expected ON or USING, found {NO_END}",
            "",
            "A join needs a condition.",
        ),
        (
            "SELECT sym FROM trades JOIN news USING sym",
            "expected ( after USING, found sym",
            "sym",
            None,
        ),
        (
            "SELECT sym FROM latest(trades)",
            "latest is not a table function",
            "latest",
            "The only one is recent(stream, 100).",
        ),
        ("SELECT sym FROM recent(trades)", "expected ,, found )", ")", None),
        (
            "SELECT sym FROM trades; SELECT sym FROM news",
            "expected one statement, found another after ;",
            ";",
            None,
        ),
        ("SELECT sym FROM trades WHERE sym = 'x", "the string that starts here has no closing '", "'", None),
        ('SELECT sym FROM trades WHERE sym = "x', 'the string that starts here has no closing "', '"', None),
        ("SELECT `sym FROM trades", "the name that starts here has no closing `", "`", None),
        ("SELECT sym /* all FROM trades", "the comment that starts here has no closing */", "/*", None),
        (
            "SELECT 1st FROM trades",
            "1st is neither a number nor a name",
            "1st",
            "A name that starts with a digit needs backquotes, such as `1st`.",
        ),
        ("SELECT sym FROM trades WHERE price = @x", "expected an expression after =, found @", "@", None),
        (
            "SELECT count(price) OVER (ROWS 5) AS x FROM trades",
            "expected PRECEDING or FOLLOWING, found )",
            ")",
            None,
        ),
        (
            "SELECT * EXCEPT (sym, price, volume, ts, day, s, items) FROM trades",
            "* EXCEPT leaves no column",
            None,
            None,
        ),
        (
            "SELECT sym FROM trades WHERE f(*) = 1",
            "* stands for all columns and cannot be used in an expression",
            "*",
            None,
        ),
    ],
)
def test_what_is_not_sql_is_refused(text: str, problem: str, part: str | None, hint: str | None) -> None:
    error = refusal(text)
    assert isinstance(error, ParseError)
    assert (error.problem, error.hint) == (problem, hint)
    if part is not None:
        assert pointed(error) == part


@pytest.mark.parametrize(
    ("text", "problem", "part", "hint"),
    [
        ("SELECT sym FROM trade", "there is no stream trade", "trade", "Did you mean trades?"),
        ("SELECT pricee FROM trades", "there is no column pricee in trades", "pricee", "Did you mean price?"),
        (
            "SELECT t.pricee FROM trades t",
            "there is no column pricee in trades",
            "t.pricee",
            "Did you mean price?",
        ),
        ("SELECT zz.price FROM trades t", "there is no input zz", "zz.price", "Known: t."),
        ("SELECT zz.* FROM trades t", "there is no input zz", "zz.*", "Known: t."),
        (
            "SELECT lenght(sym) AS x FROM trades",
            "there is no function lenght",
            "lenght(sym)",
            "Did you mean length?",
        ),
        ("SELECT s.iner FROM trades", "there is no field iner", "s.iner", "Did you mean inner?"),
        (
            "SELECT sym FROM trades WHERE sym = :who",
            "parameter who has no value",
            ":who",
            "Give it one: params={'who': …}.",
        ),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(text: str, problem: str, part: str, hint: str) -> None:
    error = refusal(text)
    assert isinstance(error, UnknownNameError)
    assert (error.problem, pointed(error), error.hint) == (problem, part, hint)


@pytest.mark.parametrize(
    ("text", "problem", "part", "hint"),
    [
        (
            "SELECT sym FROM trades t JOIN news n ON t.sym = n.sym",
            "sym could be a column of t and n",
            "sym",
            "Write t.sym.",
        ),
        (
            "SELECT head FROM trades JOIN trades ON true",
            "two inputs are called trades",
            "trades ON true",
            "Give one another name: trades AS other.",
        ),
        (
            "SELECT sym, price AS SYM FROM trades",
            "two columns of the result are called SYM",
            "price AS SYM",
            "Name one of them with AS, or leave it out with * EXCEPT (…).",
        ),
    ],
)
def test_an_ambiguous_name_is_refused(text: str, problem: str, part: str, hint: str) -> None:
    error = refusal(text)
    assert isinstance(error, AmbiguousNameError)
    assert (error.problem, pointed(error), error.hint) == (problem, part, hint)


@pytest.mark.parametrize(
    ("text", "problem", "part", "hint"),
    [
        (
            "SELECT sym FROM trades WHERE price = 'x'",
            "= cannot take DOUBLE and STRING",
            "'x'",
            "Convert the text first, such as CAST(… AS DOUBLE).",
        ),
        (
            "SELECT sym FROM trades WHERE price",
            "WHERE needs a condition, found DOUBLE",
            "price",
            "Compare it with something, such as x > 0.",
        ),
        (
            "SELECT sym FROM trades WHERE day > 'soon'",
            "'soon' is not a DATE",
            "'soon'",
            "Write it as '2024-02-29'.",
        ),
        (
            "SELECT NULL AS x FROM trades",
            "column x has no type",
            "NULL AS x",
            "Write CAST(NULL AS STRING) or another type.",
        ),
        (
            "SELECT price.x FROM trades",
            "DOUBLE has no field x",
            "price.x",
            "Only a STRUCT has fields; a field of a JSON text is written payload:field.",
        ),
        (
            "SELECT price[0] AS x FROM trades",
            "DOUBLE has no elements",
            "price[0]",
            "Only an ARRAY or a MAP takes [ ].",
        ),
        ("SELECT sum(sym) AS x FROM trades", "sum needs a number, found STRING", "sym", None),
        ("SELECT max(sym, price) AS x FROM trades", "max does not take 2 arguments", "max(sym, price)", None),
        (
            "SELECT sym FROM recent(trades, 0)",
            "recent takes a positive number of rows or an interval",
            "0",
            "Write recent(stream, 100) for rows, or recent(stream, INTERVAL 10 MINUTES).",
        ),
    ],
)
def test_types_that_do_not_fit_are_refused(text: str, problem: str, part: str, hint: str | None) -> None:
    error = refusal(text)
    assert isinstance(error, TypeMismatchError)
    assert (error.problem, pointed(error), error.hint) == (problem, part, hint)


_NO_ORDER = "A standing query has no end, so its results come in the order they appear."
_LATEST = "A standing query has no end. Read the newest results with latest(n)."


@pytest.mark.parametrize(
    ("text", "problem", "part", "hint"),
    [
        ("SELECT sym FROM trades ORDER BY sym", "ORDER BY is not supported", "ORDER", _NO_ORDER),
        ("SELECT sym FROM trades LIMIT 5", "LIMIT is not supported", "LIMIT", _LATEST),
        (
            "SELECT sym FROM trades UNION SELECT sym FROM news",
            "UNION is not supported over trades, which has no key",
            "UNION",
            "Write UNION ALL: every row of each part is a result. Or declare a key for trades.",
        ),
        (
            "SELECT sym FROM trades EXCEPT SELECT sym FROM news",
            "EXCEPT is not supported",
            "EXCEPT",
            "Of one stream, write the condition with AND NOT; of two, a LEFT ANTI JOIN (docs/joins.md).",
        ),
        (
            "SELECT sym FROM trades LATERAL VIEW explode(items)",
            "LATERAL is not supported",
            "LATERAL",
            EXPLODE,
        ),
        (
            "SELECT sym FROM trades TABLESAMPLE (10 PERCENT)",
            "TABLESAMPLE is not supported",
            "TABLESAMPLE",
            "Take rows by a column: WHERE crc32(CAST(id AS STRING)) % 100 < 10.",
        ),
        ("SELECT sym FROM trades PIVOT (x)", "PIVOT is not supported", "PIVOT", AGGREGATE_IN_SPARK),
        (
            "WITH RECURSIVE x AS (SELECT sym FROM trades) SELECT * FROM x",
            "WITH RECURSIVE is not supported",
            "RECURSIVE",
            "A standing query looks at each row once. Write the steps as queries of WITH, one after the other.",
        ),
        (
            "FROM trades SELECT sym",
            "a query that starts with FROM is not supported",
            "FROM",
            "Start with SELECT.",
        ),
        (
            "SELECT 1 AS x",
            "a query without FROM is not supported",
            "SELECT 1 AS x",
            "Say which stream it reads: SELECT … FROM stream.",
        ),
        (
            "SELECT sym FROM (trades JOIN news USING (sym))",
            "a join in parentheses is not supported",
            "(",
            "Write the joins one after the other: a JOIN b ON … JOIN c ON ….",
        ),
        ("SELECT sym FROM VALUES (1)", "VALUES is not supported", "VALUES", "Name a stream."),
        (
            "SELECT (SELECT 1) AS x FROM trades",
            "a query inside an expression is not supported",
            "SELECT",
            NO_VALUE,
        ),
        (
            "SELECT f(SELECT 1) AS x FROM trades",
            "a query inside an expression is not supported",
            "SELECT",
            NO_VALUE,
        ),
        (
            "SELECT sym FROM trades WHERE (sym, price) = (1, 2)",
            "a row of several values is not supported",
            ",",
            "Compare the columns one by one.",
        ),
        (
            "SELECT * REPLACE (1 AS sym) FROM trades",
            "* REPLACE is not supported",
            "REPLACE",
            "List the columns, or write * EXCEPT (a, b).",
        ),
        (
            "SELECT f(x => 1) AS y FROM trades",
            "a named argument is not supported",
            "=>",
            "Give the arguments in order.",
        ),
        (
            "SELECT f(x -> 1) AS y FROM trades",
            "f of a function is not supported",
            "f(x -> 1)",
            "What takes one is exists, filter, forall, transform. Anything else a function of your own can do, "
            "which takes the whole array (docs/functions.md).",
        ),
        (
            "SELECT upper(sym) FILTER (WHERE true) AS x FROM trades",
            "upper does not take FILTER",
            "upper(sym) FILTER (WHERE true)",
            None,
        ),
        (
            "SELECT sym FROM trades WHERE ts > ts - INTERVAL volume DAYS",
            "this interval is not supported",
            "INTERVAL",
            "Write INTERVAL 10 MINUTES: a number and a unit. A column cannot stand there.",
        ),
        (
            "SELECT count(*) OVER w AS n FROM trades",
            "a named window is not supported",
            "w",
            "Write it behind OVER itself, in parentheses.",
        ),
        (
            "SELECT count(*) OVER (ORDER BY ts DESC) AS n FROM trades",
            "ORDER BY … DESC is not supported",
            "DESC",
            "Frames hold rows that have come: write ORDER BY the time of the stream, ascending.",
        ),
        (
            "SELECT sym FROM trades FULL JOIN news ON true",
            "FULL JOIN is not supported",
            "FULL",
            "Register two queries: FROM a LEFT JOIN b …, and FROM b LEFT ANTI JOIN a … for what is left over of b.",
        ),
        (
            "SELECT sym FROM trades NATURAL JOIN news",
            "NATURAL JOIN is not supported",
            "NATURAL",
            "Name the columns both sides have: a JOIN b USING (id).",
        ),
        (
            "SELECT sym, count(*) AS n FROM trades GROUP BY ALL",
            "GROUP BY ALL is not supported",
            "ALL",
            "Name the columns. Of several sets of columns, register one query for each.",
        ),
        (
            "SELECT sym FROM trades GROUP BY 1",
            "GROUP BY takes columns, not their numbers",
            "1",
            "Write the expression, or the name that AS gives it. For one group of all rows leave GROUP BY out.",
        ),
        (
            "SELECT sym, price FROM trades GROUP BY sym",
            "price is neither grouped by nor aggregated",
            "price",
            "Add it to GROUP BY, or write an aggregate such as max(price) or any_value(price).",
        ),
        (
            "SELECT sym FROM trades WHERE count(*) > 3",
            "count is an aggregate and cannot stand in WHERE",
            "count(*)",
            "Conditions on groups belong in HAVING.",
        ),
        (
            "SELECT max(sum(price)) AS x FROM trades",
            "sum is an aggregate and cannot stand in the aggregate max",
            "sum(price)",
            "Make the inner one a view, and read FROM it.",
        ),
        (
            "SELECT sym FROM trades WHERE count(*) OVER () > 3",
            "OVER cannot stand in WHERE",
            "count(*) OVER ()",
            "Write it in SELECT or QUALIFY, or make it a view and read FROM that.",
        ),
        ("SELECT upper(sym) OVER () AS x FROM trades", "upper cannot stand before OVER", "upper(sym)", None),
        (
            "SELECT upper(DISTINCT sym) AS x FROM trades",
            "upper does not take DISTINCT",
            "upper(DISTINCT sym)",
            None,
        ),
        (
            "SELECT sum(price) OVER (ORDER BY ts ROWS volume PRECEDING) AS x FROM trades",
            "ROWS takes a number of rows",
            "volume PRECEDING",
            "Write ROWS BETWEEN 10 PRECEDING AND CURRENT ROW.",
        ),
        (
            "SELECT t.sym FROM trades t JOIN recent(news, t.volume) n ON true",
            "recent takes a constant",
            "t.volume",
            "Write recent(stream, 100) for rows, or recent(stream, INTERVAL 10 MINUTES).",
        ),
    ],
)
def test_sql_without_meaning_for_a_standing_query_is_refused_by_name(
    text: str, problem: str, part: str, hint: str | None
) -> None:
    error = refusal(text)
    assert isinstance(error, UnsupportedError)
    assert (error.problem, pointed(error), error.hint) == (problem, part, hint)


def test_the_message_shows_the_line_and_points_at_the_part() -> None:
    error = refusal("SELECT sym\nFROM trades\nWHERE pricee > 10")
    assert str(error) == (
        "there is no column pricee in trades\n"
        "  line 3:\n"
        "  WHERE pricee > 10\n"
        "        ^^^^^^\n"
        "hint: Did you mean price?"
    )  # fmt: skip
    assert error.position == (3, 7)


def test_the_place_is_right_after_a_long_list() -> None:
    text = f"SELECT sym FROM trades WHERE volume IN ({', '.join(map(str, range(500)))}) AND pricee > 1"
    assert pointed(refusal(text)) == "pricee"


def test_a_wrong_constant_is_found_in_a_known_shape_too() -> None:
    shapes = Shapes()
    shapes.shape_of("SELECT sym FROM trades WHERE volume > 1 AND day > '2024-01-01'", STREAMS)
    with pytest.raises(TypeMismatchError) as refused:
        shapes.shape_of("SELECT sym FROM trades WHERE volume > 1 AND day > 'never'", STREAMS)
    assert (refused.value.problem, pointed(refused.value)) == ("'never' is not a DATE", "'never'")


def test_a_scalar_expression_is_refused_alike() -> None:
    with pytest.raises(UnsupportedError) as aggregate:
        scalar("count(price)", SCHEMA)
    assert aggregate.value.problem == "count is an aggregate and cannot stand in a scalar expression"
    with pytest.raises(UnknownNameError) as parameter:
        scalar("price > :p", SCHEMA)
    assert (parameter.value.problem, pointed(parameter.value)) == ("there is no parameter p", ":p")
    with pytest.raises(ParseError) as rest:
        scalar("price price", SCHEMA)
    assert rest.value.problem == "price was not expected here"
