"""Random schemas, queries, rows, cuts and churn, as Hypothesis strategies over the trees of `oracles/tree.py`."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from tests.oracles.tree import Column, Constant, Node, Operation, Selection

ARROW_TYPES = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(6,2)": pa.decimal128(6, 2),
}
# Small pools, so that values and constants meet; sums and products of three of them stay in range.
VALUES: dict[str, list[Any]] = {
    "bigint": [0, 1, 2, 3, -1, -7, 1000, 999_983],
    "int": [0, 1, 2, 5, -3, 100],
    "double": [0.0, -0.0, 1.0, 1.5, -2.25, 1e-300, 1e300, math.nan, math.inf, -math.inf],
    "string": ["", "a", "A", "b", "ab", "aB", "ba", "a b", "%", "é", "日本", "\U0001f600"],
    "boolean": [True, False],
    "date": [datetime.date(2024, 2, 29), datetime.date(2024, 3, 1), datetime.date(1969, 12, 31)],
    "timestamp_ntz": [
        datetime.datetime(2024, 2, 29, 12),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    ],
    "decimal(6,2)": [decimal.Decimal("0.00"), decimal.Decimal("1.50"), decimal.Decimal("-9999.99")],
}
PATTERNS = ["%", "", "a", "a%", "%b", "_", "a_", "%a%", "_%_", "a%b"]
COMPARISONS = ["=", "!=", "<", "<=", ">", ">="]


def examples(share: float) -> settings:
    """Settings with that share of the profile's number of examples, for properties that take long each."""
    return settings(max_examples=max(1, int(settings().max_examples * share)))


# --------------------------------------------------------------------------------------------- schemas and rows


@st.composite
def schemas(draw: st.DrawFn, types: Sequence[str] = tuple(ARROW_TYPES), max_columns: int = 5) -> list[Column]:
    kinds = draw(st.lists(st.sampled_from(list(types)), min_size=1, max_size=max_columns))
    return [Column(f"x{at}", kind) for at, kind in enumerate(kinds)]


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(c.name, ARROW_TYPES[c.type]) for c in columns])


@st.composite
def tables(
    draw: st.DrawFn, columns: Sequence[Column], max_rows: int = 30, values: dict[str, list[Any]] = VALUES
) -> pa.Table:
    n = draw(st.integers(0, max_rows))
    data = [draw(st.lists(st.sampled_from([*values[c.type], None]), min_size=n, max_size=n)) for c in columns]
    return pa.table(
        [pa.array(column, ARROW_TYPES[c.type]) for c, column in zip(columns, data, strict=True)],
        schema=arrow_schema(columns),
    )


@st.composite
def cuts(draw: st.DrawFn, n_rows: int, max_cuts: int = 4) -> list[tuple[int, int]]:
    """Ranges that cover the rows in order; some may be empty."""
    points = sorted(draw(st.lists(st.integers(0, n_rows), max_size=max_cuts)))
    return list(zip([0, *points], [*points, n_rows], strict=True))


# --------------------------------------------------------------------------------------------- conditions


@dataclass
class _Parameters:
    """Hands out parameter names to some constants of a query."""

    draw: st.DrawFn
    is_used: bool
    n: int = 0

    def constant(self, value: Any, kind: str) -> Constant:
        if not self.is_used or value is None or not self.draw(st.booleans()):
            return Constant(value, kind)
        self.n += 1
        return Constant(value, kind, f"p{self.n}")


class _Expressions:
    """Draws expressions both SQLs agree on."""

    def __init__(self, draw: st.DrawFn, columns: Sequence[Column], parameters: _Parameters) -> None:
        self.draw = draw
        self.columns = columns
        self.parameters = parameters

    def constant(self, kind: str, *, may_be_null: bool = True) -> Constant:
        pool = VALUES[kind]
        if kind == "double":
            pool = [v for v in pool if not math.isnan(v) or may_be_null]
        value = self.draw(st.sampled_from([*pool, *([None] if may_be_null else [])]))
        return self.parameters.constant(value, kind)

    def columns_of(self, kind: str) -> list[Column]:
        return [c for c in self.columns if c.type == kind]

    def of(self, kind: str, depth: int) -> Node:
        """An expression of a type."""
        known = self.columns_of(kind)
        if depth <= 0 or self.draw(st.integers(0, 2)) == 0:
            return self.draw(st.sampled_from(known)) if known else self.constant(kind, may_be_null=False)
        return self.draw(st.sampled_from(_MAKERS[kind]))(self, kind, depth - 1)

    def attribute(self, depth: int) -> Node:
        """What a condition asks about: mostly a column."""
        column = self.draw(st.sampled_from(list(self.columns)))
        return column if self.draw(st.integers(0, 2)) else self.of(column.type, depth)

    def condition(self, depth: int) -> Node:
        choice = self.draw(st.integers(0, 5)) if depth > 0 else 0
        if choice >= 3:
            operator = "and" if choice < 5 else "or"
            return Operation(operator, (self.condition(depth - 1), self.condition(depth - 1)), "boolean")
        if choice == 2:
            return Operation("not", (self.condition(depth - 1),), "boolean")
        return self.atom(depth)

    def atom(self, depth: int) -> Node:
        x = self.attribute(depth)
        choices = ["compare", "compare", "compare", "between", "in", "null", "same"]
        if x.type == "string":
            choices.append("like")
        if x.type == "boolean":
            choices += ["itself", "compare columns"]
        choice = self.draw(st.sampled_from(choices))
        if choice == "itself":
            return x
        if choice == "null":
            return Operation(self.draw(st.sampled_from(["is null", "is not null"])), (x,), "boolean")
        if choice == "between":
            operator = self.draw(st.sampled_from(["between", "not between"]))
            return Operation(operator, (x, self.constant(x.type), self.constant(x.type)), "boolean")
        if choice == "in":
            operator = self.draw(st.sampled_from(["in", "not in"]))
            items = [self.constant(x.type) for _ in range(self.draw(st.integers(1, 4)))]
            return Operation(operator, (x, *items), "boolean")
        if choice == "like":
            operator = self.draw(st.sampled_from(["like", "not like"]))
            pattern = Constant(self.draw(st.sampled_from(PATTERNS)), "string")
            return Operation(operator, (x, pattern), "boolean")
        if choice == "same":
            return Operation("<=>", (x, self.constant(x.type)), "boolean")
        other: Node = self.constant(x.type) if self.draw(st.integers(0, 3)) else self.of(x.type, depth - 1)
        sides = (x, other) if self.draw(st.integers(0, 3)) else (other, x)
        return Operation(self.draw(st.sampled_from(COMPARISONS)), sides, "boolean")


def _binary(*operators: str) -> Callable[[_Expressions, str, int], Node]:
    def make(e: _Expressions, kind: str, depth: int) -> Node:
        operator = e.draw(st.sampled_from(operators))
        return Operation(operator, (e.of(kind, depth), e.of(kind, depth)), kind)

    return make


def _unary(operator: str, of: str | None = None) -> Callable[[_Expressions, str, int], Node]:
    return lambda e, kind, depth: Operation(operator, (e.of(of or kind, depth),), kind)


def _conditional(e: _Expressions, kind: str, depth: int) -> Node:
    operator = e.draw(st.sampled_from(["case", "if"]))
    return Operation(operator, (e.condition(min(depth, 1)), e.of(kind, depth), e.of(kind, depth)), kind)


_ANY = [_binary("coalesce"), _binary("nullif"), _conditional]
_MAKERS: dict[str, list[Callable[[_Expressions, str, int], Node]]] = {
    "bigint": [*_ANY, _binary("+", "-"), _binary("greatest", "least"), _unary("abs"), _unary("negate")],
    "int": [*_ANY, _binary("+", "-"), _unary("abs"), _unary("length", "string"), _unary("year", "date")],
    "double": [*_ANY, _unary("abs"), _unary("negate")],
    "string": [*_ANY, _unary("upper"), _unary("lower"), _binary("||")],
    "boolean": [*_ANY, lambda e, kind, depth: e.condition(min(depth, 1))],
    "date": _ANY,
    "timestamp_ntz": _ANY,
    "decimal(6,2)": _ANY,
}


@st.composite
def selections(draw: st.DrawFn, columns: Sequence[Column], depth: int = 3) -> Selection:
    """A query over the columns, sometimes with parameters, without any operator that can fail."""
    expressions = _Expressions(draw, columns, _Parameters(draw, draw(st.booleans())))
    condition = expressions.condition(depth) if draw(st.integers(0, 9)) else None
    kinds = draw(st.lists(st.sampled_from([c.type for c in columns]), max_size=2))
    return Selection(condition, tuple(expressions.of(kind, 2) for kind in kinds))


# --------------------------------------------------------------------------------------------- errors

FALLIBLE_VALUES: dict[str, list[Any]] = {
    "bigint": [0, 1, 2, -1, 7, 2**62, -(2**63), 2**63 - 1],
    "string": ["1", "-7", "x", "", " 4 ", "3.5", "99999999999"],
}


class _Fallible(_Expressions):
    """Draws expressions that divide, overflow and cast."""

    def constant(self, kind: str, *, may_be_null: bool = True) -> Constant:
        pool = FALLIBLE_VALUES[kind] if kind == "string" else [0, 1, 2, -1, 7, 100]
        return self.parameters.constant(
            self.draw(st.sampled_from([*pool, *([None] if may_be_null else [])])), kind
        )

    def number(self, depth: int) -> Node:
        column: Node = self.draw(st.sampled_from(self.columns_of("bigint")))
        if depth <= 0 or self.draw(st.booleans()):
            return column
        choice = self.draw(
            st.sampled_from(["+", "-", "*", "div", "%", "to int", "try to int", "coalesce", "case"])
        )
        if choice in ("to int", "try to int"):
            text = self.draw(st.sampled_from(self.columns_of("string")))
            return Operation(choice, (text,), "int")
        left, right = self.number(depth - 1), self.number(depth - 1)
        if choice == "case":
            test = Operation("is null", (column,), "boolean")
            return Operation("case", (test, left, right), "bigint")
        if left.type == right.type == "int":  # keep to BIGINT, where the pool overflows
            left = column
        return Operation(choice, (left, right), "bigint")

    def atom(self, depth: int) -> Node:
        x = self.number(2)
        constant = self.constant("bigint")
        choice = self.draw(st.sampled_from(["compare", "compare", "ratio", "in", "between", "null", "text"]))
        if choice == "null":
            return Operation(self.draw(st.sampled_from(["is null", "is not null"])), (x,), "boolean")
        if choice == "in":
            return Operation(
                self.draw(st.sampled_from(["in", "not in"])),
                (x, constant, self.constant("bigint")),
                "boolean",
            )
        if choice == "between":
            operator = self.draw(st.sampled_from(["between", "not between"]))
            return Operation(operator, (x, constant, self.constant("bigint")), "boolean")
        if choice == "text":
            text = self.draw(st.sampled_from(self.columns_of("string")))
            return Operation(
                self.draw(st.sampled_from(["=", "!="])), (text, self.constant("string")), "boolean"
            )
        if choice == "ratio":
            ratio = Operation("/", (self.number(0), self.number(0)), "double")
            return Operation(self.draw(st.sampled_from(COMPARISONS)), (ratio, Constant(1, "int")), "boolean")
        other: Node = constant if self.draw(st.integers(0, 3)) else self.number(1)
        return Operation(self.draw(st.sampled_from(COMPARISONS)), (x, other), "boolean")


FALLIBLE_COLUMNS = [Column("a", "bigint"), Column("b", "bigint"), Column("s", "string")]


@st.composite
def fallible_selections(draw: st.DrawFn, depth: int = 3) -> Selection:
    """A query over FALLIBLE_COLUMNS whose conditions and outputs may err on some rows."""
    expressions = _Fallible(draw, FALLIBLE_COLUMNS, _Parameters(draw, draw(st.booleans())))
    condition = expressions.condition(depth) if draw(st.integers(0, 9)) else None
    outputs = [expressions.number(2) for _ in range(draw(st.integers(0, 2)))]
    return Selection(condition, tuple(outputs))


# --------------------------------------------------------------------------------------------- churn


@dataclass(frozen=True)
class Change:
    """Something that happens to a query between two rounds."""

    action: str  # add, drop, pause, resume, replace
    name: str
    selection: Selection | None = None


@dataclass(frozen=True)
class Life:
    """Rows of one stream cut into rounds, and what happens to queries before each of them."""

    columns: list[Column]
    rows: pa.Table
    rounds: list[tuple[list[Change], tuple[int, int]]]
    visible: dict[str, list[tuple[Selection, int, int]]] = field(
        default_factory=dict
    )  # half-open ranges of rows


@st.composite
def lives(draw: st.DrawFn, max_queries: int = 4) -> Life:
    columns = draw(schemas())
    rows = draw(tables(columns))
    state: dict[str, tuple[str, Selection]] = {}
    rounds, visible = [], {}
    for start, stop in draw(cuts(rows.num_rows)):
        changes = []
        for _ in range(draw(st.integers(0, 3))):
            change = draw(_changes(columns, state, max_queries))
            if change is not None:
                changes.append(change)
                _apply(change, state)
        rounds.append((changes, (start, stop)))
        for name, (status, selection) in state.items():
            if status == "running":
                visible.setdefault(name, []).append((selection, start, stop))
    return Life(columns, rows, rounds, visible)


@st.composite
def _changes(
    draw: st.DrawFn, columns: Sequence[Column], state: dict[str, tuple[str, Selection]], max_queries: int
) -> Change | None:
    action = draw(st.sampled_from(["add", "add", "drop", "pause", "resume", "replace"]))
    names = {
        "add": [f"query{n}" for n in range(max_queries) if f"query{n}" not in state],
        "drop": list(state),
        "pause": [n for n, (status, _) in state.items() if status == "running"],
        "resume": [n for n, (status, _) in state.items() if status == "paused"],
        "replace": [n for n, (status, _) in state.items() if status == "running"],
    }[action]
    if not names:
        return None
    selection = draw(selections(columns, depth=2)) if action in ("add", "replace") else None
    return Change(action, draw(st.sampled_from(names)), selection)


def _apply(change: Change, state: dict[str, tuple[str, Selection]]) -> None:
    if change.action == "drop":
        del state[change.name]
    elif change.action in ("add", "replace"):
        assert change.selection is not None
        state[change.name] = "running", change.selection
    else:
        status = "paused" if change.action == "pause" else "running"
        state[change.name] = status, state[change.name][1]
