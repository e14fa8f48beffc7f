"""The SQL of the reference: statements read into sqlglot's tree, and the types of expressions.

It shares no code with the engine's reader. What it does not know it refuses with `NotImplementedError`.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp

Type = tuple[Any, ...]  # ("bigint",), ("decimal", 10, 2), …
INT, BIGINT, DOUBLE, STRING, BOOLEAN = ("int",), ("bigint",), ("double",), ("string",), ("boolean",)
TIMESTAMP, INTERVAL, WINDOW, NOTHING = ("timestamp",), ("interval",), ("window",), ("nothing",)
NAMES = {
    "int": INT, "bigint": BIGINT, "double": DOUBLE, "text": STRING, "varchar": STRING, "boolean": BOOLEAN,
    "timestamp": TIMESTAMP, "timestamptz": TIMESTAMP,
}  # fmt: skip
FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Count: "count", exp.CountIf: "count_if", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max",
    exp.ArgMin: "min_by", exp.ArgMax: "max_by", exp.First: "first", exp.Last: "last", exp.AnyValue: "first",
    exp.FirstValue: "first", exp.LastValue: "last", exp.VariancePop: "var_pop", exp.Variance: "var_samp",
    exp.StddevPop: "stddev_pop", exp.StddevSamp: "stddev_samp", exp.Stddev: "stddev_samp",
    exp.LogicalAnd: "bool_and", exp.LogicalOr: "bool_or", exp.Lag: "lag",
}  # fmt: skip
OTHER_NAMES = {"every": "bool_and", "some": "bool_or", "mean": "avg"}
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True)
class Call:
    """A use of an aggregate function, without its OVER."""

    function: str
    arguments: tuple[exp.Expr, ...]
    condition: exp.Expr | None = None  # of FILTER
    is_distinct: bool = False
    ignores_nulls: bool = False


@dataclass(frozen=True)
class TimeGroup:
    """window() or session_window() of a GROUP BY."""

    column: exp.Expr
    size: datetime.timedelta  # of a session: the gap
    slide: datetime.timedelta
    offset: datetime.timedelta
    is_session: bool


@dataclass(frozen=True)
class StreamText:
    """A stream as its DDL declares it."""

    name: str
    columns: dict[str, Type]
    key: tuple[str, ...]
    properties: dict[str, str]


@functools.lru_cache(64)
def read_stream(text: str) -> StreamText:
    tree = sqlglot.parse_one(text, read="databricks")
    schema, key = tree.this, []
    columns = {}
    for column in schema.expressions:
        columns[column.name.lower()] = _named_type(column.kind)
        if any(isinstance(c.kind, exp.PrimaryKeyColumnConstraint) for c in column.constraints):
            key.append(column.name.lower())
    found = tree.args.get("properties")
    stated = {p.name.lower(): p.args["value"].name for p in found.expressions} if found else {}
    return StreamText(schema.this.name.lower(), columns, tuple(key), stated)


def _named_type(kind: exp.DataType) -> Type:
    name = kind.this.value.lower()
    if name == "decimal":
        return ("decimal", *(int(p.name) for p in kind.expressions))
    return NAMES[name]


class QueryText:
    """The parts of a SELECT, with its properties. Windows of subqueries are final if any are to be."""

    def __init__(self, text: str | exp.Select, properties: Mapping[str, str]) -> None:
        self.tree = text if isinstance(text, exp.Select) else _select(text)
        self.keep = duration(properties["keep"]) if "keep" in properties else None
        joins = self.tree.args.get("joins") or []
        tables = [self.tree.args["from_"].this, *(join.this for join in joins)]
        self.nested = {
            table.alias_or_name.lower(): QueryText(table.this, properties)
            for table in tables
            if isinstance(table, exp.Subquery)
        }
        names = (table for table in tables if not isinstance(table, exp.Subquery))
        self.sources = {table.alias_or_name.lower(): table.name.lower() for table in names}
        # by alias: ON of LEFT JOIN
        self.outer = {
            join.this.alias_or_name.lower(): join.args["on"] for join in joins if join.side == "LEFT"
        }
        group = self.tree.args.get("group")
        keys = list(group.expressions) if group else []
        self.window = next((found for key in keys if (found := time_group(key))), None)
        self.is_final = properties.get("emit") == "final" and self.window is not None
        self.keys = [key for key in keys if time_group(key) is None]
        self.where = exp.and_(*self._conditions(joins)) if self._conditions(joins) else None
        self.having, self.qualify = self._clause("having"), self._clause("qualify")
        self.projection = self.tree.expressions
        self.calls = [c for part in (*self.projection, self.having, self.qualify) for c in calls(part)]
        is_over = any(isinstance(call, exp.Window) for call in self.calls)
        self.is_grouped = bool(group or self.having or (self.calls and not is_over))

    def parts(self) -> Iterator[QueryText]:
        """The query and those in it."""
        yield self
        for each in self.nested.values():
            yield from each.parts()

    def _clause(self, name: str) -> exp.Expr | None:
        found = self.tree.args.get(name)
        return found.this if found else None

    def _conditions(self, joins: Sequence[exp.Join]) -> list[exp.Expr]:
        """ON of inner joins, and WHERE."""
        for join in joins:
            if join.side not in ("", "LEFT") or join.kind not in ("", "INNER") or "on" not in join.args:
                raise NotImplementedError(join.sql())
        found = [*(join.args["on"] for join in joins if not join.side), self._clause("where")]
        return [condition for condition in found if condition is not None]


@functools.lru_cache(1024)
def _select(text: str) -> exp.Select:
    """The tree of a SELECT; sqlglot takes the word window for a clause, so it gets quotes."""
    quoted = re.sub(r"\bwindow\s*\(", "time_window(", text, flags=re.IGNORECASE)
    quoted = re.sub(r"\bwindow\b", "`window`", quoted, flags=re.IGNORECASE)
    tree = sqlglot.parse_one(quoted, read="databricks")
    if not isinstance(tree, exp.Select):
        raise NotImplementedError(text)
    return tree


def duration(text: str) -> datetime.timedelta:
    """'10 minutes', '-3 minutes', '1 hour 30 seconds'."""
    parts = re.findall(r"(-?\d+)\s*([a-z]+)", text.lower())
    return sum((_elapsed(int(n), unit) for n, unit in parts), datetime.timedelta())


def _elapsed(n: int, unit: str) -> datetime.timedelta:
    return datetime.timedelta(**{unit.rstrip("s") + "s": n})


def interval(tree: exp.Interval) -> datetime.timedelta:
    return _elapsed(int(tree.this.name), tree.args["unit"].name.lower())


def time_group(tree: exp.Expr) -> TimeGroup | None:
    """What window(…) or session_window(…) says, of a group expression."""
    name = tree.name.lower() if isinstance(tree, exp.Anonymous) else ""
    if name not in ("time_window", "session_window"):
        return None
    column, size, *rest = tree.expressions
    times = [duration(part.name) for part in (size, *rest)]
    slide = times[1] if len(times) > 1 else times[0]
    offset = times[2] if len(times) > 2 else datetime.timedelta()
    return TimeGroup(column, times[0], slide, offset, name == "session_window")


def call_of(tree: exp.Expr) -> Call | None:
    """The aggregate that a node is, if it is one."""
    if isinstance(tree, exp.Filter):
        found = call_of(tree.this)
        assert found is not None, tree.sql()
        return Call(
            found.function, found.arguments, tree.expression.this, found.is_distinct, found.ignores_nulls
        )
    if isinstance(tree, exp.IgnoreNulls):
        found = call_of(tree.this)
        assert found is not None, tree.sql()
        return Call(found.function, found.arguments, None, found.is_distinct, ignores_nulls=True)
    if isinstance(tree, exp.Anonymous) and tree.name.lower() in OTHER_NAMES:
        return Call(OTHER_NAMES[tree.name.lower()], tuple(tree.expressions))
    function = FUNCTIONS.get(type(tree))
    if function is None:
        return None
    if isinstance(tree.this, exp.Distinct):
        return Call(function, tuple(tree.this.expressions), is_distinct=True)
    if isinstance(tree.this, exp.Star):
        return Call(function, ())
    if function == "lag":
        parts = tree.this, tree.args.get("offset"), tree.args.get("default")
        return Call(function, tuple(part for part in parts if part is not None))
    more = [tree.args["expression"]] if tree.args.get("expression") is not None else tree.expressions
    return Call(function, (tree.this, *more))


def calls(tree: exp.Expr | None) -> Iterator[exp.Expr]:
    """The outermost aggregates below a node, those of OVER with it."""
    if tree is None:
        return
    if isinstance(tree, exp.Window) or call_of(tree) is not None:
        yield tree
        return
    for child in tree.iter_expressions():
        yield from calls(child)


def has_now(tree: exp.Expr | None) -> bool:
    return tree is not None and tree.find(exp.CurrentTimestamp) is not None


def type_of(tree: exp.Expr, column_type: Callable[[exp.Column], Type]) -> Type:
    """The type of an expression, given those of columns."""
    call = call_of(tree.this if isinstance(tree, exp.Window) else tree)
    if call is not None:
        return call_type(call, [type_of(argument, column_type) for argument in call.arguments])
    if isinstance(tree, exp.Column):
        return column_type(tree)
    if isinstance(tree, exp.Literal):
        return _literal_type(tree)
    if isinstance(tree, (exp.Alias, exp.Paren, exp.Neg)):
        return type_of(tree.this, column_type)
    if isinstance(tree, (exp.Add, exp.Sub, exp.Mul, exp.Div)):
        return _sum_type(tree, type_of(tree.left, column_type), type_of(tree.right, column_type))
    if isinstance(tree, exp.Case):
        return type_of(tree.args["ifs"][0].args["true"], column_type)
    if isinstance(tree, exp.Coalesce):
        return type_of(tree.this, column_type)
    if isinstance(tree, (exp.CurrentTimestamp, exp.Cast)):
        return TIMESTAMP
    if isinstance(tree, exp.Interval):
        return INTERVAL
    if isinstance(tree, (*COMPARISONS, exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Boolean)):
        return BOOLEAN
    if isinstance(tree, exp.Null):
        return NOTHING
    raise NotImplementedError(tree.sql())


def _literal_type(tree: exp.Literal) -> Type:
    if tree.is_string:
        return STRING
    if "." in tree.name:
        whole, fraction = tree.name.split(".")
        return ("decimal", len(whole.lstrip("0")) + len(fraction), len(fraction))
    return INT if int(tree.name) < 2**31 else BIGINT


def _sum_type(tree: exp.Expr, left: Type, right: Type) -> Type:
    both = {left, right}
    if isinstance(tree, exp.Div) and both <= {INT, BIGINT, DOUBLE}:
        return DOUBLE
    if INTERVAL in both or TIMESTAMP in both:
        return INTERVAL if left == right else TIMESTAMP
    for wider in (DOUBLE, BIGINT, INT):
        if wider in both and both <= {DOUBLE, BIGINT, INT}:
            return wider
    raise NotImplementedError(tree.sql())


def call_type(call: Call, types: Sequence[Type]) -> Type:
    if call.function in ("count", "count_if"):
        return BIGINT
    if call.function.startswith(("var_", "stddev_")):
        return DOUBLE
    if call.function not in ("sum", "avg"):
        return types[0]
    if types[0][0] == "decimal":
        _, p, s = types[0]
        return (
            ("decimal", min(p + 10, 38), s)
            if call.function == "sum"
            else ("decimal", min(p + 4, 38), min(s + 4, 38))
        )
    return BIGINT if call.function == "sum" and types[0] in (INT, BIGINT) else DOUBLE
