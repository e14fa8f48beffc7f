"""Queries inside queries: the same as one SELECT written by hand, and every mistake told with its place."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline import types
from eddyline.errors import EddylineError
from eddyline.model import Shape, Stream
from eddyline.sql import Shapes, render
from eddyline.sql.parse import parse_query
from eddyline.sql.syntax import QueryNode, UnionNode

SCHEMA = pa.schema(
    [("sym", pa.string()), ("price", pa.float64()), ("qty", pa.int32()), ("tags", pa.list_(pa.int32())), ("ts", types.TIMESTAMP)]
)  # fmt: skip
STREAMS = {
    "trades": Stream("trades", SCHEMA, time="ts"),
    "news": Stream("news", pa.schema([("sym", pa.string()), ("head", pa.string()), ("ts", types.TIMESTAMP)]), time="ts"),
    "quotes": Stream("quotes", pa.schema([("id", pa.int32()), ("sym", pa.string()), ("bid", pa.float64())]), key=("id",)),
    "marks": Stream("marks", pa.schema([("sym", pa.string()), ("mark", pa.int32())]), key=("sym",)),
}  # fmt: skip


def shape_of(text: str) -> Shape:
    return Shapes().shape_of(text, STREAMS)[0]


def bound(text: str) -> tuple[object, ...]:
    """What a query asks, apart from the names of its inputs and the places in its text."""
    shape, values = Shapes().shape_of(text, STREAMS)
    clauses = (
        " OR ".join(render(atom.condition, values=values) for atom in c.atoms)
        for c in shape.condition.clauses
    )
    return (
        [(each.stream, each.join, each.window) for each in shape.inputs],
        [(column.name, render(column.expression, values=values)) for column in shape.projection],
        sorted(clauses),
        None if shape.join is None else shape.join.signature.name,
        None if shape.join is None else [len(each.clauses) for each in (shape.join.on, *shape.join.local)],
    )


def refusal(text: str) -> tuple[str, str]:
    """What is wrong, and the part of the text that is."""
    with pytest.raises(EddylineError) as refused:
        shape_of(text)
    span = refused.value.span
    assert span is not None
    return refused.value.problem, text[span.start : span.end]


@pytest.mark.parametrize(
    ("nested", "flat"),
    [
        ("SELECT s FROM (SELECT sym AS s, price FROM trades WHERE qty > 1) WHERE price < 2",
         "SELECT sym AS s FROM trades WHERE qty > 1 AND price < 2"),
        ("SELECT x.* FROM ((SELECT sym, qty FROM trades)) AS x", "SELECT sym, qty FROM trades"),
        ("SELECT a, b FROM (SELECT sym, price * 2 FROM trades) x(a, b) WHERE b > 9",
         "SELECT sym AS a, price * 2 AS b FROM trades WHERE price * 2 > 9"),
        ("SELECT a FROM trades t(a, b, c, d, e) WHERE c > 9", "SELECT sym AS a FROM trades WHERE qty > 9"),
        ("SELECT * EXCEPT (y) FROM (SELECT qty AS x, qty AS y FROM trades)", "SELECT qty AS x FROM trades"),
        ("WITH a AS (SELECT * FROM trades WHERE qty > 1), b(s, p) AS (SELECT sym, price FROM a) SELECT s FROM b WHERE p < 5",
         "SELECT sym AS s FROM trades WHERE qty > 1 AND price < 5"),
        ("WITH trades AS (SELECT sym FROM trades WHERE qty > 1) SELECT * FROM trades", "SELECT sym FROM trades WHERE qty > 1"),
        ("SELECT * FROM (WITH a AS (SELECT sym FROM trades) SELECT sym FROM a) x", "SELECT sym FROM trades"),
        ("SELECT x.sym, m.mark FROM (SELECT sym, qty FROM trades WHERE qty > 1) x JOIN marks m ON x.sym = m.sym",
         "SELECT t.sym, m.mark FROM trades t JOIN marks m ON t.sym = m.sym WHERE t.qty > 1"),
        ("WITH a AS (SELECT sym, ts FROM news) SELECT x.sym FROM a x JOIN a y "
         "ON x.sym = y.sym AND y.ts BETWEEN x.ts AND x.ts + INTERVAL 1 MINUTE",
         "SELECT x.sym FROM news x JOIN news y ON x.sym = y.sym AND y.ts BETWEEN x.ts AND x.ts + INTERVAL 1 MINUTE"),
        ("SELECT j.sym FROM (SELECT t.sym, mark FROM trades t JOIN marks m ON t.sym = m.sym) j JOIN quotes q ON q.id = j.mark",
         "SELECT t.sym FROM trades t JOIN marks m ON t.sym = m.sym JOIN quotes q ON q.id = m.mark"),
        ("SELECT t.sym, x.mark FROM trades t LEFT JOIN (SELECT sym, mark FROM marks WHERE mark > 5) x ON t.sym = x.sym",
         "SELECT t.sym, m.mark FROM trades t LEFT JOIN marks m ON t.sym = m.sym AND m.mark > 5"),
        ("SELECT t.sym, x.mark FROM (SELECT sym, mark FROM marks WHERE mark > 5) x RIGHT JOIN trades t ON t.sym = x.sym",
         "SELECT t.sym, m.mark FROM marks m RIGHT JOIN trades t ON t.sym = m.sym AND m.mark > 5"),
        ("SELECT t.sym, m.mark FROM marks m RIGHT JOIN (SELECT sym FROM trades WHERE qty > 1) t ON t.sym = m.sym",
         "SELECT t.sym, m.mark FROM marks m RIGHT JOIN trades t ON t.sym = m.sym WHERE t.qty > 1"),
        ("SELECT t.sym FROM (SELECT sym FROM trades WHERE qty > 1) t "
         "LEFT ANTI JOIN (SELECT sym FROM marks WHERE mark > 5) x USING (sym)",
         "SELECT t.sym FROM trades t LEFT ANTI JOIN marks m ON t.sym = m.sym AND m.mark > 5 WHERE t.qty > 1"),
        ("SELECT sym FROM trades t WHERE qty > 1 AND EXISTS (SELECT 1 FROM quotes q WHERE q.sym = t.sym AND bid > price)",
         "SELECT sym FROM trades t LEFT SEMI JOIN quotes q ON q.sym = t.sym AND bid > price WHERE qty > 1"),
        ("SELECT sym FROM trades WHERE sym IN (SELECT sym FROM quotes WHERE bid > 1) AND price > 2",
         "SELECT t.sym FROM trades t LEFT SEMI JOIN quotes q ON t.sym = q.sym AND bid > 1 WHERE price > 2"),
        ("SELECT sym FROM trades t WHERE NOT EXISTS (SELECT * FROM marks m WHERE m.sym = t.sym) AND (qty > 1)",
         "SELECT t.sym FROM trades t LEFT ANTI JOIN marks m ON m.sym = t.sym WHERE qty > 1"),
    ],
)  # fmt: skip
def test_a_query_inside_a_query_is_what_one_select_would_be(nested: str, flat: str) -> None:
    assert bound(nested) == bound(flat)


def test_inputs_are_called_as_in_the_text_where_that_is_unique() -> None:
    text = (
        "SELECT x.sym FROM (SELECT sym FROM trades) x JOIN "
        "(SELECT m.sym FROM marks m JOIN quotes x ON m.mark = x.id) y ON x.sym = y.sym"
    )
    assert {each.alias: each.stream for each in shape_of(text).inputs} == {
        "x": "trades",
        "m": "marks",
        "y_x": "quotes",
    }
    assert shape_of("SELECT sym FROM (SELECT sym FROM trades) x").inputs[0].alias == "x"


def test_texts_that_differ_in_constants_of_subqueries_share_one_shape() -> None:
    shapes = Shapes()
    text = (
        "WITH a AS (SELECT sym, {} AS c FROM trades WHERE qty > {}) "
        "SELECT sym, c FROM a WHERE sym IN (SELECT sym FROM quotes WHERE bid > {})"
    )
    first, values = shapes.shape_of(text.format(1, 2, 3.5), STREAMS)
    second, others = shapes.shape_of(text.format(4, 5, 6.5), STREAMS)
    assert first is second
    assert (values, others) == ([1, 2, 3.5], [4, 5, 6.5])


def test_a_constant_of_a_subquery_has_its_type_there_whatever_it_is_compared_with() -> None:
    shape = shape_of("SELECT c FROM (SELECT 1 AS c, price, qty FROM trades) WHERE c < price AND c < qty")
    assert [slot.type for slot in shape.slots] == [pa.int32()]


def test_variables_of_functions_in_a_subquery_stay_apart_from_those_around() -> None:
    nested = "SELECT sym FROM (SELECT sym, tags, exists(tags, a -> a > 1) AS e FROM trades) WHERE exists(tags, b -> e AND b > 2)"
    flat = "SELECT sym FROM trades WHERE exists(tags, b -> exists(tags, a -> a > 1) AND b > 2)"
    assert bound(nested) == bound(flat)


def test_a_column_that_is_never_null_is_null_where_an_outer_join_finds_no_match() -> None:
    shape = shape_of("SELECT x.c FROM trades t LEFT JOIN (SELECT sym, 1 AS c FROM marks) x ON t.sym = x.sym")
    assert "CASE WHEN" in render(shape.projection[0].expression)


@pytest.mark.parametrize(
    ("text", "problem", "part"),
    [
        ("SELECT z FROM (SELECT sym FROM trades) x", "there is no column z in x", "z"),
        ("SELECT sym FROM (SELECT zz FROM trades) x", "there is no column zz in trades", "zz"),
        ("SELECT z FROM (SELECT sym FROM trades)", "there is no column z in the subquery", "z"),
        ("SELECT sym FROM (SELECT sym FROM trades), marks m",
         "sym could be a column of the subquery and m", "sym"),
        ("SELECT price FROM (SELECT price, qty AS price FROM trades)",
         "two columns of the result are called price", "qty AS price"),
        ("SELECT 1 AS x FROM (SELECT sym FROM trades) a JOIN marks a ON TRUE", "two inputs are called a", "marks a ON TRUE"),
        ("SELECT a FROM (SELECT sym FROM trades) x(a, b)", "x has 1 columns, and 2 names are given",
         "(SELECT sym FROM trades) x(a, b)"),
        ("SELECT n FROM (SELECT max(count(*)) AS n FROM trades)",
         "count is an aggregate and cannot stand in the aggregate max", "count(*)"),
        ("SELECT sym FROM (SELECT sym, qty FROM trades GROUP BY sym)", "qty is neither grouped by nor aggregated", "qty"),
        ("SELECT sym FROM (SELECT sym FROM trades ORDER BY sym)", "ORDER BY is not supported", "ORDER"),
        ("SELECT sym FROM (SELECT sym FROM trades LIMIT 3)", "LIMIT is not supported", "LIMIT"),
        ("WITH a AS (SELECT zz FROM trades) SELECT sym FROM trades", "there is no column zz in trades", "zz"),
        ("WITH a(x, y) AS (SELECT sym FROM trades) SELECT sym FROM trades", "a has 1 columns, and 2 names are given", "a"),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT sym FROM trades) SELECT * FROM a", "there is no stream b", "b"),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", "there is no stream a", "a"),
        ("WITH a AS (SELECT sym FROM trades), A AS (SELECT sym FROM news) SELECT * FROM a",
         "two queries of WITH are called A", "A"),
        ("WITH a AS (SELECT sym FROM trades) SELECT * FROM recent(a, 5)",
         "recent takes a stream; a is a query of WITH", "recent(a, 5)"),
        ("WITH RECURSIVE a AS (SELECT sym FROM trades) SELECT * FROM a", "WITH RECURSIVE is not supported", "RECURSIVE"),
        ("WITH a AS SELECT sym FROM trades", "expected ( and the query that a is, found SELECT", "SELECT"),
        ("SELECT * FROM trades t JOIN (SELECT sym FROM marks m WHERE m.sym = t.sym) y ON t.sym = y.sym",
         "a query in FROM does not see t, which stands beside it", "t.sym"),
        ("SELECT sym FROM trades WHERE sym NOT IN (SELECT sym FROM news)",
         "NOT IN (SELECT …) takes a query over a table; news has no key", "news"),
        ("SELECT sym FROM trades WHERE sym IN (SELECT sym, mark FROM marks)",
         "IN takes a query with one column, this one has 2", "SELECT sym, mark FROM marks"),
        ("SELECT sym FROM trades WHERE qty = 1 OR sym IN (SELECT sym FROM marks)",
         "IN (SELECT …) can only be a condition of WHERE by itself, beside AND", "sym IN (SELECT sym FROM marks)"),
        ("SELECT EXISTS (SELECT 1 FROM marks) AS e FROM trades",
         "EXISTS can only be a condition of WHERE by itself, beside AND", "EXISTS (SELECT 1 FROM marks)"),
        ("SELECT sym FROM trades WHERE price > (SELECT mark FROM marks)",
         "a query inside an expression is not supported", "SELECT"),
        ("SELECT sym FROM trades t WHERE EXISTS (SELECT 1 FROM marks m JOIN quotes q ON q.id = m.mark WHERE m.sym = t.sym)",
         "EXISTS takes a subquery over one stream, this one has 2",
         "EXISTS (SELECT 1 FROM marks m JOIN quotes q ON q.id = m.mark WHERE m.sym = t.sym)"),
        ("SELECT t.sym FROM trades t LEFT JOIN (SELECT m.sym FROM marks m JOIN quotes q ON q.id = m.mark) x ON t.sym = x.sym",
         "LEFT JOIN takes a subquery over one stream, this one has 2",
         "(SELECT m.sym FROM marks m JOIN quotes q ON q.id = m.mark) x ON t.sym = x.sym"),
        ("SELECT t.sym FROM trades t LEFT JOIN (SELECT sym, 1 AS c FROM marks) x ON x.c = 1 AND upper(t.sym) <=> x.sym",
         "column c of x would not be NULL where nothing matches",
         "(SELECT sym, 1 AS c FROM marks) x ON x.c = 1 AND upper(t.sym) <=> x.sym"),
        ("SELECT sym FROM trades t WHERE EXISTS (SELECT 1 FROM news n WHERE n.sym = t.sym)",
         "EXISTS looks up a table; news has no key", "news n"),
        ("SELECT sym FROM quotes t WHERE NOT EXISTS (SELECT 1 FROM marks m WHERE m.sym = t.sym) AND now() IS NULL",
         "now() and the like cannot stand in NOT EXISTS of tables", "now() IS NULL"),
        ("SELECT sym FROM (SELECT DISTINCT sym FROM trades) x",
         "SELECT DISTINCT is not supported over trades, which has no key", "SELECT DISTINCT sym"),
        ("SELECT t.sym FROM trades t ASOF JOIN (SELECT DISTINCT sym FROM quotes) q ON t.sym = q.sym",
         "ASOF JOIN does not take the subquery at line 1, a view over tables",
         "SELECT DISTINCT sym FROM quotes"),
        ("SELECT q.sym FROM (SELECT DISTINCT sym FROM quotes) q LEFT JOIN news n ON n.sym = q.sym",
         "LEFT JOIN of the subquery at line 1, a view over tables, takes a right side that is a table too",
         "news n ON n.sym = q.sym"),
        ("SELECT nothing FROM (SELECT DISTINCT sym FROM quotes) x", "there is no column nothing in x", "nothing"),
        ("SELECT sym FROM (SELECT DISTINCT sym, nothing FROM quotes) x", "there is no column nothing in quotes", "nothing"),
        ("SELECT sym FROM (SELECT sym FROM trades", "expected ) for the ( at line 1, column 17, found the end of the text", ""),
    ],
)  # fmt: skip
def test_a_mistake_in_a_subquery_is_told_with_its_place_in_the_whole_text(
    text: str, problem: str, part: str
) -> None:
    assert refusal(text) == (problem, part)


def test_more_inputs_than_a_join_may_have_are_refused_however_they_are_nested() -> None:
    texts = [
        "WITH a AS (SELECT x.sym FROM marks x JOIN marks y USING (sym))",
        *(f", {b} AS (SELECT x.sym FROM {a} x JOIN {a} y USING (sym))" for a, b in ("ab", "bc", "cd")),
        " SELECT sym FROM d",
    ]
    assert refusal("".join(texts))[0] == "a query joins at most 8 inputs, this one 16"


def test_union_all_and_distinct_are_read_with_their_places() -> None:
    text = "WITH a AS (SELECT DISTINCT sym FROM trades) SELECT sym FROM a UNION ALL (SELECT sym FROM news)"
    root = parse_query(text).root
    assert isinstance(root, UnionNode)
    assert text[root.span.start : root.span.end] == "UNION ALL"
    assert [text[b.span.start : b.span.end] for b in root.branches] == [
        "SELECT sym FROM a",
        "SELECT sym FROM news",
    ]
    (cte,) = root.ctes
    assert isinstance(cte.query, QueryNode)
    assert cte.query.is_distinct


def test_distinct_is_refused_over_a_stream_and_taken_over_a_table() -> None:
    problem = "SELECT DISTINCT is not supported over trades, which has no key"
    assert refusal("SELECT DISTINCT sym FROM trades") == (problem, "SELECT DISTINCT sym")
    shape = shape_of("SELECT DISTINCT sym FROM quotes")
    assert shape.is_distinct
    assert not shape_of("SELECT sym FROM quotes").is_distinct
