"""sqlglot's trees become ours: nothing is lost, nothing means something else than in Spark, and refusals speak our words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.errors import EddylineError, LimitError, ParseError, Span, UnsupportedError
from eddyline.nesting import MAX_NESTING, deep_recursion
from eddyline.sql import lexer
from eddyline.sql.syntax import (
    Between,
    Binary,
    CallNode,
    Case,
    Cast,
    Chain,
    ConstantNode,
    Element,
    Field,
    FrameBound,
    In,
    InputNode,
    Is,
    LambdaNode,
    Like,
    LikeMany,
    Name,
    Node,
    OverNode,
    Path,
    ProjectedNode,
    QueryNode,
    Star,
    Unary,
    Word,
)
from eddyline.sql.tree import expression_tree, query_tree
from tests.strategies import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def query(text: str) -> QueryNode:
    with deep_recursion():
        return query_tree(text, *lexer.scan(text))[0]


def expression(text: str) -> Node:
    with deep_recursion():
        return expression_tree(text, *lexer.scan(text))[0]


def outline(node: Node | None) -> str:
    """Everything a tree says but where it stands. Constants are numbered: #0 is the first of the text."""
    match node:
        case None:
            return "-"
        case ConstantNode(number):
            return f"#{number}"
        case Word(word):
            return word
        case Name(parts):
            return ".".join(f"`{part}`" if " " in part else part for part in parts)
        case Star(input_, hidden):
            return f"{input_ + '.' if input_ else ''}*" + "".join(f" -{outline(name)}" for name in hidden)
        case Unary(operator, operand):
            return f"({operator} {outline(operand)})"
        case Binary(operator, left, right):
            return f"({operator} {outline(left)} {outline(right)})"
        case Chain(operator, operands):
            return f"({operator} {outlines(operands)})"
        case Between(value, low, high):
            return f"(between {outlines((value, low, high))})"
        case In(value, options):
            return f"(in {outline(value)} [{outlines(options)}])"
        case Is(value, word, is_negated):
            return f"(is{' not' if is_negated else ''} {word} {outline(value)})"
        case Like(operator, value, pattern, escape):
            return f"({operator} {outlines((value, pattern, escape))})"
        case LikeMany(operator, value, patterns, chain, is_negated):
            negated = "not " if is_negated else ""
            return f"({negated}{operator} {chain} {outline(value)} [{outlines(patterns)}])"
        case LambdaNode(parameters, body):
            return f"({' '.join(parameters)} -> {outline(body)})"
        case Case(subject, branches, default):
            said = " ".join(f"{outline(when)}:{outline(then)}" for when, then in branches)
            return f"(case {outline(subject)} {said} {outline(default)})"
        case Cast(operand, to, is_try):
            return f"({'try ' if is_try else ''}cast {outline(operand)} {to.text})"
        case Field(operand, name):
            return f"(field {outline(operand)} {name})"
        case Element(operand, index):
            return f"(element {outline(operand)} {outline(index)})"
        case Path(operand, path):
            return f"(path {outline(operand)} {path})"
        case CallNode(name, arguments, is_distinct, condition, nulls):
            where = "" if condition is None else f" where {outline(condition)}"
            behind = where + (f" {nulls.lower()} nulls" if nulls else "")
            return f"{name}({'distinct ' if is_distinct else ''}{outlines(arguments)}){behind}"
        case FrameBound(amount, direction):
            return f"{outline(amount)} {direction}"
        case OverNode(function, partition_by, order_by, unit, frame):
            bounds = "" if frame is None else f" {unit} {outline(frame[0])} .. {outline(frame[1])}"
            return f"(over {outline(function)} [{outlines(partition_by)}] [{outlines(order_by)}]{bounds})"
    raise AssertionError(f"{node!r} has an outline")


def outlines(nodes: tuple[Node | None, ...]) -> str:
    return " ".join(map(outline, nodes))


def projected(node: ProjectedNode) -> str:
    return outline(node.expression) + (f" as {node.alias}" if node.alias else "")


def joined(node: InputNode) -> str:
    recent = f" recent {outline(node.recent)}" if node.recent is not None else ""
    using = f" using {' '.join(name for name, _ in node.using)}" if node.using else ""
    on = f" on {outline(node.on)}" if node.on is not None else ""
    return f"{node.join + ' ' if node.join else ''}{node.stream}{recent} as {node.alias}{on}{using}"


def quoted(text: str, span: Span | None) -> str:
    assert span is not None
    return text[span.start : span.end]


def refused(read: Callable[[str], Node], text: str) -> EddylineError | None:
    try:
        read(text)
    except EddylineError as error:
        return error
    return None


def refusal(text: str) -> EddylineError:
    error = refused(query, text)
    assert error is not None, f"{text} is refused"
    return error


# ------------------------------------------------------------------------------------------------ expressions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "a"),
        ("t.a", "t.a"),
        ("a.b.c.d.e.f", "a.b.c.d.e.f"),
        ("`x y`.`a``b`", "`x y`.a`b"),
        ("größe", "größe"),
        ("t.order.`select`", "t.order.select"),
        ("1", "#0"),
        ("-5", "#0"),
        ("'it''s' 'one'", "#0"),
        ("1L + 2S + 3Y + 1.5D + 1.5BD + 1e3", "(+ (+ (+ (+ (+ #0 #1) #2) #3) #4) #5)"),
        ("DATE '2024-02-29'", "#0"),
        ("ts - INTERVAL 10 MINUTES", "(- ts #0)"),
        ("INTERVAL '1-2' YEAR TO MONTH", "#0"),
        ("X'1F'", "#0"),
        ("r'\\d'", "#0"),
        (":limit", "#0"),
        ("NULL", "NULL"),
        ("true", "TRUE"),
        ("False", "FALSE"),
        ("-a", "(negate a)"),
        ("- -5", "(negate #0)"),
        ("a - 5", "(- a #0)"),
        ("a -5", "(- a #0)"),
        ("a * -5", "(* a #0)"),
        ("~a", "(~ a)"),
        ("+a", "a"),
        ("a = b", "(= a b)"),
        ("a == b", "(= a b)"),
        ("a <> b", "(!= a b)"),
        ("a != b", "(!= a b)"),
        ("a <=> b", "(<=> a b)"),
        ("a DIV b", "(div a b)"),
        ("a || b", "(|| a b)"),
        ("a << 1", "(<< a #0)"),
        ("a >> 1", "(>> a #0)"),
        ("a AND b AND c", "(and a b c)"),
        ("a OR b OR c", "(or a b c)"),
        ("NOT a", "(not a)"),
        ("!a", "(not a)"),
        ("a BETWEEN 1 AND 2", "(between a #0 #1)"),
        ("a NOT BETWEEN 1 AND 2", "(not (between a #0 #1))"),
        ("a IN (b, c + 1)", "(in a [b (+ c #0)])"),
        ("a IN (1, 2, 3)", "(in a [#0])"),
        ("a NOT IN ('x', 'y')", "(not (in a [#0]))"),
        ("a IN (1)", "(in a [#0])"),
        ("a IN :list", "(in a [#0])"),
        ("a IN (:list)", "(in a [#0])"),
        ("a IN (:p, :q)", "(in a [#0 #1])"),
        ("a LIKE 'x%'", "(like a #0 -)"),
        ("a NOT LIKE 'x!%' ESCAPE '!'", "(not (like a #0 #1))"),
        ("a ILIKE b || '%'", "(ilike a (|| b #0) -)"),
        ("a RLIKE 'x'", "(rlike a #0 -)"),
        ("a NOT REGEXP 'x'", "(not (rlike a #0 -))"),
        ("NOT a LIKE b", "(not (like a b -))"),
        ("NOT a NOT LIKE b", "(not (not (like a b -)))"),
        ("a IS NULL", "(is NULL a)"),
        ("a IS NOT NULL", "(is not NULL a)"),
        ("a IS true", "(is TRUE a)"),
        ("a IS NOT FALSE", "(is not FALSE a)"),
        ("a IS DISTINCT FROM b", "(not (<=> a b))"),
        ("a LIKE ANY ('x', b) AND c", "(and (like or a [#0 b]) c)"),
        ("a NOT ILIKE ALL ('x')", "(not ilike and a [#0])"),
        ("f(a, x -> x + 1 > b AND c, d)", "f(a (x -> (and (> (+ x #0) b) c)) d)"),
        ("f(a, (x, end) -> (end))", "f(a (x end -> end))"),
        ("f(x -> g(y -> x))", "f((x -> g((y -> x))))"),
        ("a IS NOT DISTINCT FROM b", "(<=> a b)"),
        ("CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END", "(case - a:#0 b:#1 #2)"),
        ("CASE a WHEN 1 THEN 'x' END", "(case a #0:#1 -)"),
        ("CASE WHEN a OR b THEN c AND d ELSE NOT e END", "(case - (or a b):(and c d) (not e))"),
        ("CAST(a AS int)", "(cast a int)"),
        ("try_cast(a + 1 AS decimal(10, 2))", "(try cast (+ a #0) decimal(10, 2))"),
        (
            "CAST(a AS array<struct<x:int, y: map<string,int>>>)",
            "(cast a array<struct<x:int, y: map<string,int>>>)",
        ),
        ("a::int", "(cast a int)"),
        ("a::decimal(3, 1)::string", "(cast (cast a decimal(3, 1)) string)"),
        ("a::int < 5", "(< (cast a int) #0)"),
        ("a::int[0]", "(element (cast a int) #0)"),
        ("-a::int", "(negate (cast a int))"),
        ("null::int", "(cast NULL int)"),
        ("s.f[0].g", "(field (element s.f #0) g)"),
        ("(s).f", "(field s f)"),
        ("f(x).y", "(field f(x) y)"),
        ("m['k'][i + 1]", "(element (element m #0) (+ i #1))"),
        ("payload:a.b[0].c", "(path payload :a.b[0].c)"),
        ("t.payload:a::int > 3", "(> (cast (path t.payload :a) int) #0)"),
        ("f(x):`odd name`", "(path f(x) :`odd name`)"),
        ("(a || b):x", "(path (|| a b) :x)"),
        ("f()", "f()"),
        ("F(a, b = 1, c AND d)", "F(a (= b #0) (and c d))"),
        ("count(*)", "count(*)"),
        ("count(DISTINCT a, b)", "count(distinct a b)"),
        ("count(*) FILTER (WHERE a > 1)", "count(*) where (> a #0)"),
        ("last(a) FILTER (WHERE b) IGNORE NULLS", "last(a) where b ignore nulls"),
        ("first(a) RESPECT NULLS OVER (ORDER BY t)", "(over first(a) respect nulls [] [t])"),
        (
            "count(*) FILTER (WHERE a IN (1, 2)) OVER (ORDER BY t) > 3",
            "(> (over count(*) where (in a [#0]) [] [t]) #1)",
        ),
        ("f(window(ts, '5 minutes').start)", "f((field window(ts #0) start))"),
        ("a > window.end", "(> a window.end)"),
        ("`my function`(1)", "my function(#0)"),
        ("current_date", "current_date()"),
        ("CURRENT_TIMESTAMP() - x", "(- CURRENT_TIMESTAMP() x)"),
        ("extract(YEAR FROM ts + INTERVAL 1 DAY)", "year((+ ts #0))"),
        ("extract(second FROM ts)", "extract second(ts)"),
        ("trim(both 'x' FROM a)", "trim(#0 a)"),
        ("trim(LEADING FROM a)", "ltrim(a)"),
        ("trim(trailing 'a' || 'b' FROM a)", "rtrim((|| #0 #1) a)"),
        ("trim('x' FROM a)", "trim(#0 a)"),
        ("trim(a, 'x')", "trim(a #0)"),
        ("trim(both)", "trim(both)"),
        ("substring(a FROM 2 FOR 3)", "substring(a #0 #1)"),
        ("substr(a FROM 2)", "substr(a #0)"),
        ("substring(a, 2, 3)", "substring(a #0 #1)"),
        ("substring(CASE WHEN a AND b THEN c END FROM 2)", "substring((case - (and a b):c -) #0)"),
        ("position('x' IN a)", "position(#0 a)"),
        ("position('x', a IN (b, c))", "position(#0 (in a [b c]))"),
        ("sum(x) OVER ()", "(over sum(x) [] [])"),
        ("sum(x) OVER (PARTITION BY a, b.c ORDER BY d ASC, e)", "(over sum(x) [a b.c] [d e])"),
        ("sum(x) OVER (ORDER BY a ROWS 5 PRECEDING)", "(over sum(x) [] [a] ROWS #0 PRECEDING .. - )"),
        (
            "sum(x) OVER (ORDER BY a range BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW)",
            "(over sum(x) [] [a] RANGE #0 PRECEDING .. - )",
        ),
        (
            "sum(x) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
            "(over sum(x) [] [] ROWS - PRECEDING .. - FOLLOWING)",
        ),
        ("sum(x) OVER (PARTITION BY a) > 3", "(> (over sum(x) [a] []) #0)"),
        ("a -- a comment\n + /* another */ b", "(+ a b)"),
    ],
)
def test_an_expression_has_this_tree(text: str, expected: str) -> None:
    assert outline(expression(text)) == expected


@pytest.mark.parametrize(
    "name",
    [
        "left", "right", "range", "rows", "row", "first", "filter", "date", "timestamp", "interval", "map", "array", "if", "any",
        "values", "current", "over", "stream", "asof", "for", "both", "partition", "cast", "trim", "format", "comment", "user",
        "view", "percent", "json", "collate", "xor", "glob", "top", "unnest", "pivot",
    ],
)  # fmt: skip
def test_words_that_are_not_reserved_are_names(name: str) -> None:
    assert outline(expression(f"{name} + t.{name}.{name}")) == f"(+ {name} t.{name}.{name})"
    assert outline(expression(f"f({name}, -{name})")) == f"f({name} (negate {name}))"
    window = f"sum({name}) OVER (PARTITION BY {name} ORDER BY {name} ROWS 1 PRECEDING)"
    assert outline(expression(window)) == f"(over sum({name}) [{name}] [{name}] ROWS #0 PRECEDING .. - )"
    assert projected(query(f"SELECT a AS {name} FROM t").projection[0]) == f"a as {name}"


# What stands left means what stands right.
GROUPINGS = [
    ("a OR b AND c OR d", "a OR (b AND c) OR d"),
    ("NOT a AND b", "(NOT a) AND b"),
    ("NOT a = b", "NOT (a = b)"),
    ("! a = b", "NOT (a = b)"),
    ("NOT a IS NULL", "NOT (a IS NULL)"),
    ("NOT a BETWEEN b AND c AND d", "(NOT (a BETWEEN b AND c)) AND d"),
    ("a = b = c", "(a = b) = c"),
    ("a = b < c", "(a = b) < c"),
    ("a < b = c", "(a < b) = c"),
    ("a = b IS NULL", "(a = b) IS NULL"),
    ("a = b LIKE c", "(a = b) LIKE c"),
    ("a LIKE b = c", "a LIKE (b = c)"),
    ("a < b IN (c, d)", "(a < b) IN (c, d)"),
    ("a <=> b BETWEEN c AND d", "(a <=> b) BETWEEN c AND d"),
    ("a BETWEEN b AND c = d", "a BETWEEN b AND (c = d)"),
    ("a IS DISTINCT FROM b = c", "a IS DISTINCT FROM (b = c)"),
    ("a | b & c", "a | (b & c)"),
    ("a & b | c", "(a & b) | c"),
    ("a | b ^ c", "a | (b ^ c)"),
    ("a ^ b & c", "a ^ (b & c)"),
    ("a & b << c", "a & (b << c)"),
    ("a << b + c", "a << (b + c)"),
    ("a | b = c", "(a | b) = c"),
    ("a || b + c", "(a || b) + c"),
    ("a + b || c", "(a + b) || c"),
    ("a || b * c", "a || (b * c)"),
    ("a - b - c", "(a - b) - c"),
    ("a * b DIV c % d / e", "(((a * b) DIV c) % d) / e"),
    ("a + b * c", "a + (b * c)"),
    ("-a * b", "(-a) * b"),
    ("~a & b", "(~a) & b"),
    ("-a.b", "-(a.b)"),
    ("-a[0]", "-(a[0])"),
    ("-a::int", "-(a::int)"),
    ("a + b::int", "a + (b::int)"),
    ("CASE a WHEN b OR c THEN d END", "CASE a WHEN (b OR c) THEN d END"),
]


@pytest.mark.parametrize(("text", "grouped"), GROUPINGS)
def test_operators_bind_as_if_grouped_like_this(text: str, grouped: str) -> None:
    assert outline(expression(text)) == outline(expression(grouped))


def test_spark_groups_them_the_same(spark: SparkSession) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[attr-defined]
    for text, grouped in GROUPINGS:
        assert parser.parseExpression(text).treeString() == parser.parseExpression(grouped).treeString(), text


@st.composite
def grouped_texts(draw: st.DrawFn) -> tuple[str, str]:
    """An expression with all parentheses, and with those only that precedence does not make needless."""
    levels = [
        ["OR"],
        ["AND"],
        ["=", "<", "<=>"],
        ["|"],
        ["^"],
        ["&"],
        ["<<", ">>"],
        ["+", "-", "||"],
        ["*", "/", "DIV"],
    ]

    def part(depth: int) -> tuple[str, str, int]:
        if depth == 0 or draw(st.booleans()):
            return *(draw(st.sampled_from(["a", "t.b", "1", "f(a, 'x')", "c[0]", "-3"])),) * 2, len(levels)
        level = draw(st.integers(0, len(levels) - 1))
        operator = draw(st.sampled_from(levels[level]))
        (full_l, left, level_l), (full_r, right, level_r) = part(depth - 1), part(depth - 1)
        left = left if level_l >= level else f"({left})"
        right = right if level_r > level or (level_r == level and level < 2) else f"({right})"
        return f"({full_l}) {operator} ({full_r})", f"{left} {operator} {right}", level

    full, short, _ = part(4)
    return full, short


def flat(node: Node) -> Node:
    """Chains inside chains of the same word, flattened: (a AND b) AND c says what a AND b AND c says."""
    changes = {}
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            changes[field.name] = flat(value)
        elif isinstance(value, tuple):
            changes[field.name] = tuple(flat(v) if isinstance(v, Node) else v for v in value)
    node = dataclasses.replace(node, **changes)
    if isinstance(node, Chain):
        operands: list[Node] = []
        for operand in node.operands:
            is_same = isinstance(operand, Chain) and operand.operator == node.operator
            operands += operand.operands if is_same else [operand]
        return dataclasses.replace(node, operands=tuple(operands))
    return node


@given(grouped_texts())
@examples(1.5)
def test_needless_parentheses_change_nothing(texts: tuple[str, str]) -> None:
    full, short = texts
    assert outline(flat(expression(full))) == outline(flat(expression(short)))


# ------------------------------------------------------------------------------------------------ queries


def test_a_query_has_its_clauses() -> None:
    tree = query(
        "SELECT a, b + 1 AS c, t.*, * EXCEPT (d, e.f), g h FROM t "
        "WHERE a = 1 GROUP BY a, b HAVING count(*) > 2 QUALIFY n >= 5"
    )
    assert [*map(projected, tree.projection)] == ["a", "(+ b #0) as c", "t.*", "* -d -e.f", "g as h"]
    assert [*map(joined, tree.inputs)] == ["t as t"]
    assert outline(tree.where) == "(= a #1)"
    assert outlines(tree.group_by) == "a b"
    assert outline(tree.having) == "(> count(*) #2)"
    assert outline(tree.qualify) == "(>= n #3)"


def test_a_query_may_do_without_most_clauses() -> None:
    tree = query("select all x.* from t")
    assert [*map(projected, tree.projection)] == ["x.*"]
    assert (tree.where, tree.group_by, tree.having, tree.qualify) == (None, (), None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trades", ["trades as trades"]),
        ("trades t", ["trades as t"]),
        ("trades AS `t t`", ["trades as t t"]),
        ("`my stream`", ["my stream as my stream"]),
        ("db.trades t", ["db.trades as t"]),
        ("a.b.c.d.e t", ["a.b.c.d.e as t"]),
        ("STREAM trades t", ["trades as t"]),
        ("stream", ["stream as stream"]),
        ("stream AS s", ["stream as s"]),
        ("stream WHERE x", ["stream as stream"]),
        ("recent(news, 100) n", ["news recent #0 as n"]),
        ("recent(db.news, INTERVAL 5 MINUTES)", ["db.news recent #0 as db.news"]),
        ("recent r", ["recent as r"]),
        ("a, b x, c", ["a as a", "cross b as x", "cross c as c"]),
        ("a CROSS JOIN b", ["a as a", "cross b as b"]),
        ("a JOIN b ON a.x = b.x", ["a as a", "inner b as b on (= a.x b.x)"]),
        ("a INNER JOIN b USING (x, `y`)", ["a as a", "inner b as b using x y"]),
        ("a LEFT JOIN b ON x", ["a as a", "left b as b on x"]),
        ("a left outer join b ON x", ["a as a", "left b as b on x"]),
        ("a LEFT ANTI JOIN b ON x", ["a as a", "left anti b as b on x"]),
        ("a ANTI JOIN b ON x", ["a as a", "left anti b as b on x"]),
        ("a ASOF JOIN b ON a.t >= b.t", ["a as a", "asof b as b on (>= a.t b.t)"]),
        ("a JOIN b ON left ANTI JOIN c ON x", ["a as a", "inner b as b on left", "left anti c as c on x"]),
        ("a JOIN recent(b, 3) c USING (x), STREAM d", ["a as a", "inner b recent #0 as c using x", "cross d as d"]),
    ],
)  # fmt: skip
def test_from_has_these_inputs(text: str, expected: list[str]) -> None:
    assert [*map(joined, query(f"SELECT * FROM {text}").inputs)] == expected


def test_an_implicit_alias_is_no_keyword() -> None:
    tree = query("SELECT a filter, b range FROM t date WHERE x")
    assert [p.alias for p in tree.projection] == ["filter", "range"]
    assert tree.inputs[0].alias == "date"


def test_constants_of_a_type_are_told_apart() -> None:
    text = "CAST(a AS DECIMAL(10, 2)) = 3 AND b::varchar(5) = 'x'"
    _, read_as_written = expression_tree(text, *lexer.scan(text))
    assert read_as_written == {0, 1, 3}


# ------------------------------------------------------------------------------------------------ places


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("  a + b ", ["a + b", "a", "b"]),
        ("(a + b) * c", ["(a + b) * c", "a + b", "a", "b", "c"]),
        ("f( a , 1 )", ["f( a , 1 )", "a", "1"]),
        ("a AND (b OR c)", ["a AND (b OR c)", "a", "b OR c", "b", "c"]),
        ("NOT (a)", ["NOT (a)", "a"]),
        ("- (a)", ["- (a)", "a"]),
        ("(a) NOT IN (b, (c))", ["(a) NOT IN (b, (c))", "(a) NOT IN (b, (c))", "a", "b", "c"]),
        ("a IN (1, 2)", ["a IN (1, 2)", "a", "IN (1, 2)"]),
        ("a IS NOT NULL", ["a IS NOT NULL", "a"]),
        ("a LIKE 'x' ESCAPE '!'", ["a LIKE 'x' ESCAPE '!'", "a", "'x'", "'!'"]),
        ("a BETWEEN (b) AND (c)", ["a BETWEEN (b) AND (c)", "a", "b", "c"]),
        ("CASE WHEN a THEN b ELSE c END", ["CASE WHEN a THEN b ELSE c END", "a", "b", "c"]),
        ("CAST(a AS int)", ["CAST(a AS int)", "a", "int"]),
        ("(a)::decimal(3, 1)", ["(a)::decimal(3, 1)", "a", "decimal(3, 1)"]),
        ("a.b[0].c:d", ["a.b[0].c:d", "a.b[0].c", "a.b[0]", "a.b", "0"]),
        ("a[0]:d", ["a[0]:d", "a[0]", "a", "0"]),
        ("trim(both 'x' FROM a)", ["trim(both 'x' FROM a)", "'x'", "a"]),
        ("extract(year FROM (a))", ["extract(year FROM (a))", "a"]),
        (
            "sum(a) OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            [
                "sum(a) OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
                "sum(a)", "a", "b", "1 PRECEDING", "1", "CURRENT ROW",
            ],
        ),
        ("a = -5 AND\n  b = 'x\ny'", ["a = -5 AND\n  b = 'x\ny'", "a = -5", "a", "-5", "b = 'x\ny'", "b", "'x\ny'"]),
    ],
)  # fmt: skip
def test_each_node_knows_where_it_stands(text: str, places: list[str]) -> None:
    def walk(value: object) -> list[str]:
        if isinstance(value, tuple):
            return [place for part in value for place in walk(part)]
        if not isinstance(value, Node):
            return []
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return [quoted(text, value.span), *(place for part in parts for place in walk(part))]

    assert walk(expression(text)) == places


def test_the_parts_of_a_query_know_where_they_stand() -> None:
    text = "SELECT a AS x, (b) FROM STREAM db.t AS u LEFT JOIN recent(v, 3) w USING (k, l) WHERE a"
    tree = query(text)
    assert [quoted(text, p.span) for p in tree.projection] == ["a AS x", "(b)"]
    assert [quoted(text, i.span) for i in tree.inputs] == ["STREAM db.t AS u", "recent(v, 3) w USING (k, l)"]
    assert [quoted(text, i.stream_span) for i in tree.inputs] == ["db.t", "v"]
    assert [(name, quoted(text, span)) for name, span in tree.inputs[1].using] == [("k", "k"), ("l", "l")]
    assert quoted(text, tree.span) == text


# ------------------------------------------------------------------------------------------------ what is not SQL


@pytest.mark.parametrize(
    ("text", "problem", "part"),
    [
        ("SELECT", "expected an expression after SELECT, found the end of the text", ""),
        ("SELECT FROM t", "expected an expression after SELECT, found FROM", "FROM"),
        ("SELECT a, FROM t", "expected an expression after the comma, found FROM", "FROM"),
        ("SELECT a FROM", "expected a stream after FROM, found the end of the text", ""),
        ("SELECT a FROM WHERE x", "expected a stream after FROM, found WHERE", "WHERE"),
        ("SELECT a FROM t, WHERE x", "expected a stream after the comma, found WHERE", "WHERE"),
        ("SELECT a FROM order", "expected a stream after FROM, found order", "order"),
        ("SELECT a FROM 'x'", "expected a stream after FROM, found 'x'", "'x'"),
        ("SELECT limit 5 FROM t", "expected an expression after SELECT, found limit", "limit"),
        ("SELECT a AS FROM t", "expected a name after AS, found FROM", "FROM"),
        ("SELECT a FROM t AS where", "expected a name after AS, found where", "where"),
        ("SELECT a FROM t WHERE", "expected an expression after WHERE, found the end of the text", ""),
        ("SELECT a FROM t WHERE a =", "expected an expression after =, found the end of the text", ""),
        ("SELECT a FROM t WHERE a AND OR b", "expected an expression after AND, found OR", "OR"),
        ("SELECT a FROM t WHERE a = NOT b", "expected an expression after =, found NOT", "NOT"),
        ("SELECT a FROM t WHERE a < < b", "expected an expression after <, found <", "<"),
        ("SELECT a * FROM t", "expected an expression after *, found FROM", "FROM"),
        ("SELECT (a FROM t", "expected ) for the ( at line 1, column 8, found FROM", "FROM"),
        ("SELECT f(a b) FROM t", "expected ) for the ( at line 1, column 9, found b", "b"),
        ("SELECT f(a,) FROM t", "expected an expression after the comma, found )", ")"),
        ("SELECT f(ALL a) FROM t", "expected an expression after (, found ALL", "ALL"),
        ("SELECT f(a AS b) FROM t", "expected ) for the ( at line 1, column 9, found AS", "AS"),
        ("SELECT (a b) FROM t", "expected ) for the ( at line 1, column 8, found b", "b"),
        ("SELECT () FROM t", "expected an expression after (, found )", ")"),
        ("SELECT a[1, 2] FROM t", "expected ] for the [ at line 1, column 9, found ,", ","),
        ("SELECT a[b AND c] FROM t", "expected ] for the [ at line 1, column 9, found AND", "AND"),
        ("SELECT a[] FROM t", "expected an expression after [, found ]", "]"),
        ("SELECT [1, 2] FROM t", "expected an expression after SELECT, found [", "["),
        ("SELECT a..b FROM t", "expected a name after ., found .", "."),
        ("SELECT f(x).* FROM t", "expected a name after ., found *", "*"),
        ("SELECT a.* .b FROM t", ". was not expected here", "."),
        ("SELECT a.f(x) FROM t", "( was not expected here", "("),
        ("SELECT CASE a END FROM t", "expected WHEN, found END", "END"),
        ("SELECT CASE WHEN a b END FROM t", "expected THEN, found b", "b"),
        ("SELECT CASE WHEN a THEN b FROM t", "expected WHEN, ELSE or END, found FROM", "FROM"),
        ("SELECT CASE WHEN a THEN b ELSE END FROM t", "expected an expression after ELSE, found END", "END"),
        ("SELECT CASE WHEN a THEN b ELSE c FROM t", "expected END, found FROM", "FROM"),
        ("SELECT CAST(a int) FROM t", "expected AS, found int", "int"),
        ("SELECT CAST(a AS) FROM t", "expected a type after AS, found )", ")"),
        ("SELECT CAST(a AS int FROM t", "expected ) for the ( at line 1, column 12, found FROM", "FROM"),
        ("SELECT a:: FROM t", "expected a type after ::, found FROM", "FROM"),
        ("SELECT a::'int' FROM t", "expected a type after ::, found 'int'", "'int'"),
        ("SELECT extract(year, ts) FROM t", "expected FROM, found ,", ","),
        ("SELECT extract(FROM ts) FROM t", "expected a field such as YEAR, found FROM", "FROM"),
        ("SELECT trim(both FROM) FROM t", "expected an expression after FROM, found )", ")"),
        ("SELECT position('a' IN) FROM t", "expected an expression after IN, found )", ")"),
        ("SELECT a FROM t WHERE a IS b", "expected NULL, TRUE, FALSE or DISTINCT FROM after IS, found b", "b"),
        ("SELECT a FROM t WHERE a IS NULL = b", "= was not expected here", "="),
        ("SELECT a FROM t WHERE a IS NULL::int", ":: was not expected here", "::"),
        ("SELECT a FROM t WHERE a IN (1) IS NULL", "IS was not expected here", "IS"),
        ("SELECT a FROM t WHERE a LIKE b LIKE c", "LIKE was not expected here", "LIKE"),
        ("SELECT a FROM t WHERE a RLIKE b ESCAPE '!'", "ESCAPE was not expected here", "ESCAPE"),
        ("SELECT a FROM t WHERE a NOT b", "expected BETWEEN, IN or LIKE after NOT, found b", "b"),
        ("SELECT a FROM t WHERE a BETWEEN 1 5", "expected AND, found 5", "5"),
        ("SELECT a FROM t WHERE a BETWEEN AND 5", "expected an expression after BETWEEN, found AND", "AND"),
        ("SELECT a FROM t WHERE (a BETWEEN 1)", "expected AND, found )", ")"),
        ("SELECT a FROM t WHERE a IN b", "expected ( after IN, found b", "b"),
        ("SELECT a FROM t WHERE a IN 5", "expected ( after IN, found 5", "5"),
        ("SELECT a FROM t WHERE a IN ()", "the IN list is empty", "a IN ()"),
        ("SELECT a FROM t WHERE IN (1, 2)", "expected an expression after WHERE, found IN (1, 2)", "IN (1, 2)"),
        ("SELECT a FROM t WHERE a @ b", "@ was not expected here", "@"),
        ("SELECT a FROM t WHERE a : b", ": was not expected here", ":"),
        ("SELECT a FROM t JOIN u", "expected ON or USING, found the end of the text", ""),
        ("SELECT a FROM t JOIN u JOIN v ON x", "expected ON or USING, found JOIN", "JOIN"),
        ("SELECT a FROM t JOIN u NOT a", "expected ON or USING, found NOT", "NOT"),
        ("SELECT a FROM t JOIN u ON", "expected an expression after ON, found the end of the text", ""),
        ("SELECT a FROM t JOIN u USING x", "expected ( after USING, found x", "x"),
        ("SELECT a FROM t JOIN u USING ()", "expected a column, found )", ")"),
        ("SELECT a FROM t JOIN u USING (t.x)", "expected ) for the ( at line 1, column 30, found .", "."),
        ("SELECT a FROM t CROSS JOIN u ON x", "ON was not expected here", "ON"),
        ("SELECT a FROM foo(t, 3)", "foo is not a table function", "foo"),
        ("SELECT a FROM recent(t)", "expected ,, found )", ")"),
        ("SELECT a FROM recent(t, 3, 4)", "expected ) for the ( at line 1, column 21, found ,", ","),
        ("SELECT a FROM recent(1, 2)", "expected a stream after (, found 1", "1"),
        ("SELECT a FROM t[0]", "[ was not expected here", "["),
        ("SELECT a FROM t x (y z)", "expected ) for the ( at line 1, column 19, found z", "z"),
        ("SELECT a FROM t LEFT b", "LEFT was not expected here", "LEFT"),
        ("SELECT a left FROM t", "left was not expected here", "left"),
        ("SELECT a 1 FROM t", "1 was not expected here", "1"),
        ("SELECT a b c FROM t", "c was not expected here", "c"),
        ("SELECT a 'b' FROM t", "'b' was not expected here", "'b'"),
        ("SELECT a) FROM t", ") was not expected here", ")"),
        ("SELECT * AS x FROM t", "* cannot have a name", "* AS x"),
        ("SELECT * EXCEPT () FROM t", "expected a column, found )", ")"),
        ("SELECT * EXCEPT (a + 1) FROM t", "* EXCEPT takes names of columns", "a + 1"),
        ("SELECT a FROM t GROUP a", "expected BY, found a", "a"),
        ("SELECT a FROM t GROUP BY", "expected an expression after BY, found the end of the text", ""),
        ("SELECT a FROM t WHERE x WHERE y", "WHERE comes too late or twice", "WHERE"),
        ("SELECT a FROM t HAVING x WHERE y", "WHERE comes too late or twice", "WHERE"),
        ("SELECT a FROM t SELECT b", "SELECT comes too late or twice", "SELECT"),
        ("SELECT sum(a) OVER (PARTITION b) FROM t", "expected BY, found b", "b"),
        ("SELECT sum(a) OVER (ORDER BY b ROWS 5) FROM t", "expected PRECEDING or FOLLOWING, found )", ")"),
        ("SELECT sum(a) OVER (ORDER BY b ROWS) FROM t", "expected an expression after ROWS, found )", ")"),
        (
            "SELECT sum(a) OVER (ORDER BY b ROWS 5 PRECEDING AND CURRENT ROW) FROM t",
            "expected ) for the ( at line 1, column 20, found AND",
            "AND",
        ),
        ("SELECT cast(a AS int) OVER (ORDER BY b) FROM t", "OVER was not expected here", "OVER"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_the_users_words(text: str, problem: str, part: str) -> None:
    error = refusal(text)
    assert isinstance(error, ParseError)
    assert (error.problem, quoted(text, error.span)) == (problem, part)


@pytest.mark.parametrize(
    ("text", "problem", "part", "hint"),
    [
        ("SELECT a FORM t", "FORM was not expected here", "FORM", "Did you mean FROM instead of FORM?"),
        ("SELECT a FROM t WHER a = 1", "WHER was not expected here", "WHER", "Did you mean WHERE instead of WHER?"),
        ("SELECT a FROM t x WHER a = 1", "WHER was not expected here", "WHER", "Did you mean WHERE instead of WHER?"),
        ("SELEC a FROM t", "expected SELECT, found SELEC", "SELEC", "Did you mean SELECT instead of SELEC?"),
        (
            "UPDATE t SET a = 1",
            "expected SELECT, found UPDATE",
            "UPDATE",
            "Accepted statements are SELECT, CREATE TABLE, CREATE VIEW, ALTER VIEW, DROP VIEW and DROP TABLE.",
        ),
        ("SELECT a FROM t JOIN u WHERE x", "expected ON or USING, found WHERE", "WHERE", "A join needs a condition."),
    ],
)  # fmt: skip
def test_a_misspelt_word_is_recognised(text: str, problem: str, part: str, hint: str) -> None:
    error = refusal(text)
    assert (error.problem, quoted(text, error.span), error.hint) == (problem, part, hint)


@pytest.mark.parametrize(
    ("text", "what", "part"),
    [
        ("WITH RECURSIVE x AS (SELECT 1 FROM t) SELECT a FROM x", "WITH RECURSIVE", "RECURSIVE"),
        ("VALUES (1)", "a query that starts with VALUES", "VALUES"),
        ("FROM t SELECT a", "a query that starts with FROM", "FROM"),
        ("SELECT a", "a query without FROM", "SELECT a"),
        ("SELECT a FROM (t JOIN u ON x)", "a join in parentheses", "("),
        ("SELECT a FROM t, LATERAL (SELECT b FROM c) x", "LATERAL", "LATERAL"),
        ("SELECT a FROM t WHERE a = (SELECT 1)", "a query inside an expression", "SELECT"),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1)", "a query without FROM", "SELECT 1"),
        ("SELECT a FROM t WHERE EXISTS (SELECT b FROM u LIMIT 1)", "LIMIT", "LIMIT"),
        ("SELECT a FROM (SELECT b FROM u ORDER BY b) x", "ORDER BY", "ORDER"),
        ("SELECT a FROM t ORDER BY a", "ORDER BY", "ORDER"),
        ("SELECT a FROM t WHERE x SORT BY a", "SORT BY", "SORT"),
        ("SELECT a FROM t CLUSTER BY a", "CLUSTER BY", "CLUSTER"),
        ("SELECT a FROM t LIMIT 5", "LIMIT", "LIMIT"),
        ("SELECT a FROM t FETCH FIRST 3 ROWS ONLY", "FETCH", "FETCH"),
        ("SELECT a FROM t UNION b", "UNION", "UNION"),
        ("SELECT a FROM (SELECT b FROM u INTERSECT SELECT c FROM v) x", "INTERSECT", "INTERSECT"),
        ("SELECT a FROM t EXCEPT SELECT b FROM u", "EXCEPT", "EXCEPT"),
        ("SELECT a FROM t WINDOW w AS (PARTITION BY a)", "WINDOW", "WINDOW"),
        ("SELECT a FROM t LATERAL VIEW explode(x) y", "LATERAL", "LATERAL"),
        ("SELECT a FROM t TABLESAMPLE (10 PERCENT)", "TABLESAMPLE", "TABLESAMPLE"),
        ("SELECT a FROM t PIVOT (sum(x) FOR y IN (1))", "PIVOT", "PIVOT"),
        ("SELECT a FROM t FULL OUTER JOIN u ON x", "FULL JOIN", "FULL"),
        ("SELECT a FROM t NATURAL JOIN u", "NATURAL JOIN", "NATURAL"),
        ("SELECT a FROM t GROUP BY ROLLUP (a)", "GROUP BY ROLLUP", "ROLLUP"),
        ("SELECT a FROM t GROUP BY GROUPING SETS ((a))", "GROUP BY GROUPING", "GROUPING"),
        ("SELECT * REPLACE (a AS b) FROM t", "* REPLACE", "REPLACE"),
        ("SELECT a FROM t WHERE (a, b) = (1, 2)", "a row of several values", ","),
        ("SELECT f(a => 1) FROM t", "a named argument", "=>"),
        ("SELECT sum(a) OVER w FROM t", "a named window", "w"),
        ("SELECT sum(a) OVER (w) FROM t", "a named window", "w"),
        ("SELECT sum(a) OVER (ORDER BY b DESC) FROM t", "ORDER BY … DESC", "DESC"),
        ("SELECT sum(a) OVER (ORDER BY b NULLS LAST) FROM t", "ORDER BY … NULLS", "NULLS"),
        ("SELECT INTERVAL x DAY FROM t", "this interval", "INTERVAL"),
        ("SELECT f(a HAVING b) FROM t", "a HAVING b", "a HAVING b"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_for_a_standing_query_is_refused_by_name(text: str, what: str, part: str) -> None:
    error = refusal(text)
    assert isinstance(error, UnsupportedError)
    assert (error.problem, quoted(text, error.span)) == (f"{what} is not supported", part)


@pytest.mark.parametrize(
    "text",
    [
        "a COLLATE b", "a AT TIME ZONE 'x'", "a ISNULL", "a NOTNULL", "a OVERLAPS b", "a GLOB b", "a SIMILAR TO b", "a XOR b",
        "a ?? b", "a ** b", "a // b", "a := b", "a @> b", "a ~ b", "a IS UNKNOWN", "a IS JSON", "ANY (a, b)[0] c", "if a then b",
        "DATE a", "INTERVAL a DAY", "f(a ORDER BY b)", "f(a LIMIT 1)", "f(a HAVING MAX b)", "f(a) PER (b)", "{a: 1}", "a[1:2]",
        "$a", "#a", "a BETWEEN SYMMETRIC 1 AND 2", "x'1' y", "PRIOR a", "a.1", "a IN [1, 2]", "a IN UNNEST(b)",
    ],
)  # fmt: skip
def test_what_sqlglot_knows_and_spark_does_not_is_refused(text: str) -> None:
    with pytest.raises((ParseError, UnsupportedError)):
        expression(text)


# ------------------------------------------------------------------------------------------------ any text

WORDS = [
    "a", "b", "f", "1", "'x'", ":p", "`q`", "int", "recent", "(", ")", "[", "]", ",", ".", "=", "<", "+", "-", "*", "~", "!",
    "::", "@", ":", ";", "AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "LIKE", "ESCAPE", "BETWEEN", "DIV", "CASE", "WHEN",
    "THEN", "ELSE", "END", "CAST", "TRIM", "SUBSTRING", "FOR", "EXTRACT", "INTERVAL", "OVER", "PARTITION", "ORDER", "BY", "ASC",
    "ROWS", "CURRENT", "ROW", "PRECEDING", "SELECT", "ALL", "DISTINCT", "EXCEPT", "AS", "FROM", "STREAM", "JOIN", "LEFT", "ON",
    "USING", "WHERE", "GROUP", "HAVING", "LIMIT",
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=14), st.booleans())
@examples(4)
def test_any_words_have_a_tree_or_are_refused_with_a_place(words: list[str], is_query: bool) -> None:
    text = " ".join(["SELECT", *words] if is_query else ["a", *words])
    error = refused(query if is_query else expression, text)
    if error is not None:
        assert error.span is not None
        assert 0 <= error.span.start < error.span.end <= len(text) + 1
        assert not any(foreign in str(error) for foreign in ("sqlglot", "Token", "Expected", "Expecting"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sym , price * 2 AS p FROM trades t WHERE sector = 'TECH' AND ( price < 10 OR NOT a [ 0 ] IS NULL )",
        "SELECT a FROM t JOIN u ON t.x = u.x WHERE f ( a , b ) BETWEEN 1 AND 2 GROUP BY a , b HAVING count ( * ) > 1",
        "SELECT CASE a WHEN 1 THEN b ELSE c END , CAST ( a AS int ) :: string FROM t WHERE a NOT IN ( b , c )",
        "SELECT sum ( x ) OVER ( PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING ) AS n FROM t",
    ],
)
def test_a_text_that_breaks_off_is_told_so_at_its_end(text: str) -> None:
    words = text.split(" ")
    for n in range(1, len(words)):
        part = " ".join(words[:n])
        error = refused(query, part)
        if isinstance(error, UnsupportedError):
            assert error.problem in (
                "a query without FROM is not supported",
                "a named window is not supported",
            )
        elif error is not None:
            assert error.problem.endswith("found the end of the text"), (part, error.problem)


# ------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("f(", ")"),
        ("a[", "]"),
        ("CASE WHEN ", " THEN b END"),
        ("CAST(", " AS int)"),
        ("NOT ", ""),
        ("a AND (b OR ", ")"),
        ("a BETWEEN b AND (", ")"),
        ("a = b | c ^ d & e << f + g * (", ")"),
    ],
)
def test_nesting_up_to_the_limit_has_a_tree(opening: str, closing: str) -> None:
    assert expression(opening * (MAX_NESTING - 1) + "1" + closing * (MAX_NESTING - 1)) is not None


def test_signs_nested_beyond_any_limit_are_refused() -> None:
    text = "".join("- " * n + "(" for n in range(199, 0, -1)) + "a" + ")" * 199
    with pytest.raises(LimitError, match="nested deeper than 200 levels"):
        expression(text)


def test_long_chains_take_no_stack() -> None:
    conditions = " AND ".join(f"a{n} = {n}" for n in range(1000))
    tree = expression(conditions)
    assert isinstance(tree, Chain)
    assert len(tree.operands) == 1000
    sums = expression(" + ".join(["a"] * 5000))
    assert isinstance(sums, Binary)
    names = expression(".".join(["a"] * 5000))
    assert isinstance(names, Name)
    assert len(names.parts) == 5000


def test_many_joins_without_a_condition_are_refused_at_the_first() -> None:
    text = "SELECT a FROM t" + " JOIN u" * 500
    error = refusal(text)
    assert error.span == Span(23, 27)


def test_a_long_list_is_one_constant() -> None:
    text = f"a IN ({', '.join(map(str, range(100_000)))})"
    assert outline(expression(text)) == "(in a [#0])"
