"""Syntax trees: what the text says, before names and types. Each node knows its position in the text."""

from __future__ import annotations

from dataclasses import dataclass, field

from eddyline.errors import Span


@dataclass(frozen=True, slots=True)
class Node:
    span: Span = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class ConstantNode(Node):
    """Constant `number` of the text."""

    number: int


@dataclass(frozen=True, slots=True)
class Word(Node):
    """NULL, TRUE or FALSE."""

    word: str


@dataclass(frozen=True, slots=True)
class Name(Node):
    """Names joined by dots; which of them is input, column and field is for the binder to say."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Star(Node):
    """All columns, or those of one input, but for some."""

    input: str | None
    hidden: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    operator: str  # not, negate, ~
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Chain(Node):
    """Conditions joined by AND, or by OR, however many."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Between(Node):
    value: Node
    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class In(Node):
    value: Node
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Exists(Node):
    """EXISTS (query)."""

    query: AnyQuery


@dataclass(frozen=True, slots=True)
class InQuery(Node):
    """value IN (query)."""

    value: Node
    query: AnyQuery


@dataclass(frozen=True, slots=True)
class Is(Node):
    """IS [NOT] NULL, TRUE, FALSE."""

    value: Node
    word: str
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Like(Node):
    operator: str  # like, ilike, rlike
    value: Node
    pattern: Node
    escape: Node | None


@dataclass(frozen=True, slots=True)
class LikeMany(Node):
    """[NOT] LIKE ANY or ALL of several patterns."""

    operator: str  # like, ilike
    value: Node
    patterns: tuple[Node, ...]
    chain: str  # or, and
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Case(Node):
    subject: Node | None
    branches: tuple[tuple[Node, Node], ...]
    default: Node | None


@dataclass(frozen=True, slots=True)
class TypeText(Node):
    """A type, as written."""

    text: str


@dataclass(frozen=True, slots=True)
class Cast(Node):
    operand: Node
    to: TypeText
    is_try: bool


@dataclass(frozen=True, slots=True)
class Field(Node):
    operand: Node
    name: str


@dataclass(frozen=True, slots=True)
class Element(Node):
    operand: Node
    index: Node


@dataclass(frozen=True, slots=True)
class Path(Node):
    """operand:path, a field inside a JSON text."""

    operand: Node
    path: str


@dataclass(frozen=True, slots=True)
class CallNode(Node):
    name: str
    arguments: tuple[Node, ...]
    is_distinct: bool = False
    filter: Node | None = None  # FILTER (WHERE …)
    nulls: str = ""  # IGNORE or RESPECT, if NULLS follows


@dataclass(frozen=True, slots=True)
class LambdaNode(Node):
    """A function as an argument: (x, i) -> body."""

    parameters: tuple[str, ...]
    body: Node


@dataclass(frozen=True, slots=True)
class FrameBound(Node):
    """One end of a window's frame. No amount: UNBOUNDED, or CURRENT ROW if there is no direction either."""

    amount: Node | None
    direction: str


@dataclass(frozen=True, slots=True)
class OverNode(Node):
    function: CallNode
    partition_by: tuple[Node, ...]
    order_by: tuple[Node, ...]
    unit: str  # ROWS, RANGE or nothing
    frame: tuple[FrameBound, FrameBound] | None


# ------------------------------------------------------------------------------------------------ queries


@dataclass(frozen=True, slots=True)
class ProjectedNode(Node):
    expression: Node
    alias: str | None


@dataclass(frozen=True, slots=True)
class InputNode(Node):
    """An entry of FROM: a stream, perhaps its recent rows only, or a query, and how it is joined to those before it."""

    stream: str
    stream_span: Span
    alias: str
    recent: Node | None
    join: str
    on: Node | None
    using: tuple[tuple[str, Span], ...]
    query: AnyQuery | None = None  # in place of a stream, which has no name then
    columns: tuple[str, ...] = ()  # the names its columns are given


@dataclass(frozen=True, slots=True)
class CteNode(Node):
    """A query of WITH. The span is that of its name."""

    name: str
    columns: tuple[str, ...]
    query: AnyQuery


@dataclass(frozen=True, slots=True)
class QueryNode(Node):
    projection: tuple[ProjectedNode, ...]
    inputs: tuple[InputNode, ...]
    where: Node | None
    group_by: tuple[Node, ...]
    having: Node | None
    qualify: Node | None
    is_distinct: bool = False
    ctes: tuple[CteNode, ...] = ()


@dataclass(frozen=True, slots=True)
class UnionNode(Node):
    """Queries joined by UNION ALL, or by UNION, which is distinct. The span is that of the first of these words."""

    branches: tuple[AnyQuery, ...]
    is_distinct: bool = False
    ctes: tuple[CteNode, ...] = ()


AnyQuery = QueryNode | UnionNode
