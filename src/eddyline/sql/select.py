"""A query bound to its streams: inputs, projected columns and conditions, typed and named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from eddyline import types
from eddyline.errors import (
    AmbiguousNameError,
    ParseError,
    Span,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
    did_you_mean,
)
from eddyline.expressions import call
from eddyline.model import (
    Aggregate,
    Call,
    Column,
    Expression,
    Input,
    Over,
    ProjectedColumn,
    Slot,
    Stream,
    UserCall,
    Window,
)
from eddyline.sql import syntax
from eddyline.sql.aggregates import WAY_OUT
from eddyline.sql.bind import Binder, Constants, KnownFunctions
from eddyline.sql.lexer import PARAMETER, Token, tokens_of
from eddyline.sql.parse import ParsedText
from eddyline.sql.reading import RESERVED
from eddyline.sql.scope import Scope, ScopeSource


class Streams(Protocol):
    """Where declared streams are found."""

    def find_stream(self, name: str, /) -> Stream | None: ...
    def streams(self) -> Sequence[Stream]: ...


class StreamTable:
    """Streams given as a plain mapping."""

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams = {name.lower(): stream for name, stream in streams.items()}

    def find_stream(self, name: str, /) -> Stream | None:
        return self._streams.get(name.lower())

    def streams(self) -> Sequence[Stream]:
        return list(self._streams.values())


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query with names and types resolved, before normalising."""

    inputs: tuple[Input, ...]
    streams: tuple[Stream, ...]
    projection: tuple[ProjectedColumn, ...]
    where: Expression | None
    group_by: tuple[Expression, ...]
    having: Expression | None
    qualify: Expression | None
    functions: tuple[tuple[str, str], ...]


def bind_query(
    parsed: ParsedText[syntax.QueryNode],
    streams: Streams,
    constants: Constants,
    functions: KnownFunctions | None,
) -> BoundQuery:
    """Names and types of a whole query. Raises what the binder raises."""
    query = parsed.root
    found = [_stream(node, streams) for node in query.inputs]
    sources = [ScopeSource(n.alias, s.name, s.schema) for n, s in zip(query.inputs, found, strict=True)]
    _check_aliases(query.inputs)
    binder = Binder(Scope(sources, is_joined=len(sources) > 1), constants, functions)
    inputs = _inputs(query.inputs, sources, binder, constants)
    where = None if query.where is None else binder.condition(query.where, "WHERE")
    projection = _projection(parsed, binder, constants)
    group_by = _group_by(query, binder, projection)
    having, qualify = _conditions_on_results(query, binder, projection)
    if group_by or having is not None or any(_has_aggregate(p.expression) for p in projection):
        _check_grouped(projection, group_by)
    return BoundQuery(
        inputs,
        tuple(found),
        projection,
        where,
        group_by,
        having,
        qualify,
        tuple(sorted(binder.used_functions.items())),
    )


# ------------------------------------------------------------------------------------------------ inputs


def _stream(node: syntax.InputNode, streams: Streams) -> Stream:
    stream = streams.find_stream(node.stream)
    if stream is None:
        raise UnknownNameError(
            f"there is no stream {node.stream}",
            span=node.stream_span,
            hint=did_you_mean(node.stream, [s.name for s in streams.streams()], noun="stream"),
        )
    return stream


def _check_aliases(nodes: Sequence[syntax.InputNode]) -> None:
    aliases: set[str] = set()
    for node in nodes:
        if node.alias.lower() in aliases:
            raise AmbiguousNameError(
                f"two inputs are called {node.alias}",
                span=node.span,
                hint=f"Give one another name: {node.stream} AS other.",
            )
        aliases.add(node.alias.lower())


def _inputs(
    nodes: Sequence[syntax.InputNode], sources: Sequence[ScopeSource], binder: Binder, constants: Constants
) -> tuple[Input, ...]:
    """The entries of FROM. The binder is left with what SELECT and WHERE see.

    ON sees the inputs up to its own, but none that is only asked for a match. What USING equates has one name.
    """
    inputs: list[Input] = []
    scope = Scope((), is_joined=True)
    for node, source in zip(nodes, sources, strict=True):
        left, binder.scope = scope, replace(scope, sources=(*scope.sources, source))
        on = None if node.on is None else binder.condition(node.on, "ON")
        if node.using:
            on, pairs = _using_condition(node, left, Scope((source,), is_joined=True))
            binder.scope = _merged_scope(binder.scope, pairs)
        if node.join in ("left anti", "left semi"):
            absent = {**scope.absent, source.alias.lower(): node.join}
            binder.scope = replace(binder.scope, sources=scope.sources, absent=absent)
        scope = binder.scope
        window = None if node.recent is None else _window(node.recent, constants)
        inputs.append(Input(node.alias, source.stream, window, node.join, on, span=node.span))
    binder.scope = replace(scope, is_joined=len(sources) > 1)
    return tuple(inputs)


def _using_condition(
    node: syntax.InputNode, left: Scope, right: Scope
) -> tuple[Expression, list[tuple[Expression, Expression]]]:
    """The condition that USING is; for each of its columns the one that its name stands for, and the one that it hides."""
    tests, pairs = [], []
    for name, span in node.using:
        sides = left.column([name], span), right.column([name], span)
        tests.append(call("=", sides, span=span))
        pairs.append(sides[::-1] if node.join == "right" else sides)  # the other one may be NULL
    return tests[0] if len(tests) == 1 else call("and", tests, span=node.span), pairs


def _merged_scope(scope: Scope, pairs: Sequence[tuple[Expression, Expression]]) -> Scope:
    merged, leading = set(scope.merged_columns), []
    for shown, hidden in pairs:
        assert isinstance(shown, Column), pairs
        assert isinstance(hidden, Column), pairs
        merged.add((hidden.input.lower(), hidden.name.lower()))
        leading.append(shown)
    others = (column for column in scope.leading if column not in leading)
    return replace(scope, merged_columns=frozenset(merged), leading=(*leading, *others))


def _window(node: syntax.Node, constants: Constants) -> Window:
    hint = "Write recent(stream, 100) for rows, or recent(stream, INTERVAL 10 MINUTES)."
    if not isinstance(node, syntax.ConstantNode):
        raise UnsupportedError("recent takes a constant", span=node.span, hint=hint)
    amount = constants.literal_value(node.number)
    if isinstance(amount, timedelta) and amount > timedelta(0):
        return Window(duration_us=amount // timedelta(microseconds=1))
    if isinstance(amount, int) and amount > 0:
        return Window(n_rows=amount)
    raise TypeMismatchError(
        "recent takes a positive number of rows or an interval", span=node.span, hint=hint
    )


# ------------------------------------------------------------------------------------------------ projection


def _projection(
    parsed: ParsedText[syntax.QueryNode], binder: Binder, constants: Constants
) -> tuple[ProjectedColumn, ...]:
    binder.clause, binder.allows_aggregates, binder.allows_windows = "SELECT", True, True
    projected: list[ProjectedColumn] = []
    names: dict[str, str] = {}
    for node in parsed.root.projection:
        if isinstance(node.expression, syntax.Star):
            new = _named_columns(_star_columns(node.expression, binder.scope), parsed.root, names)
        else:
            name = (
                node.alias
                or _column_name(node.expression)
                or _text_name(parsed, node.expression.span, constants)
            )
            new = [ProjectedColumn(name, binder.bind(node.expression))]
        for column in new:
            if column.name.lower() in names:
                raise AmbiguousNameError(
                    f"two columns of the result are called {column.name}",
                    span=node.span,
                    hint="Name one of them with AS, or leave it out with * EXCEPT (…).",
                )
            if column.expression.type == types.NULL:
                raise TypeMismatchError(
                    f"column {column.name} has no type",
                    span=node.span,
                    hint="Write CAST(NULL AS STRING) or another type.",
                )
            names[column.name.lower()] = column.name
        projected += new
    return tuple(projected)


def _named_columns(
    columns: Sequence[Column], query: syntax.QueryNode, used_names: Mapping[str, str]
) -> list[ProjectedColumn]:
    """The columns * stands for. Where inputs of a join have the same name for one, the later ones are called `alias_name`; what
    the inputs are joined by with USING is there once."""
    merged = {name.lower() for node in query.inputs for name, _ in node.using}
    first = query.inputs[0].alias
    names: set[str] = set(used_names)
    found: list[ProjectedColumn] = []
    for column in columns:
        name = column.name
        if name.lower() in names and column.input:
            if name.lower() in merged and column.input != first:
                continue
            name = f"{column.input}_{name}"
        names.add(name.lower())
        found.append(ProjectedColumn(name, column))
    return found


def _star_columns(star: syntax.Star, scope: Scope) -> list[Column]:
    columns = scope.star(star.input, star.span)
    hidden: set[Expression] = set()
    for name in star.hidden:
        parts = name.parts if star.input is None or len(name.parts) > 1 else (star.input, *name.parts)
        hidden.add(scope.column(parts, name.span))
    shown_columns = [column for column in columns if column not in hidden]
    if not shown_columns:
        raise ParseError("* EXCEPT leaves no column", span=star.span)
    return shown_columns


def _column_name(node: syntax.Node) -> str | None:
    """The name a column or field brings along, as the user spelt it."""
    if isinstance(node, syntax.Name):
        return node.parts[-1]
    return node.name if isinstance(node, syntax.Field) else None


def _text_name(parsed: ParsedText[syntax.QueryNode], span: Span, constants: Constants) -> str:
    """The text of an expression, evenly spaced. Its constants are part of the name, so they stay as written."""
    tokens_span = tokens_of(span, parsed.tokens)
    assert tokens_span is not None, f"no token is in {span}"
    pieces: list[str] = []
    before: Token | None = None
    for token in parsed.tokens[tokens_span.start : tokens_span.end]:
        if token.constant is not None and parsed.constants[token.constant].kind != PARAMETER:
            constants.literal_value(token.constant)
        pieces += (" ", token.text) if before is not None and _is_spaced(before, token) else (token.text,)
        before = token
    return "".join(pieces)


def _is_spaced(before: Token, token: Token) -> bool:
    if before.text in ("(", "[", ".", "::", "~") or token.text in (")", "]", ".", ",", "[", "::"):
        return False
    if token.text == "(":
        is_name = before.text[0].isalpha() or before.text[0] in "_`"
        return not is_name or before.text.upper() in RESERVED
    return not (token.text[0] == ":" and token.constant is None)


# ------------------------------------------------------------------------------------------------ groups


def _group_by(
    query: syntax.QueryNode, binder: Binder, projection: Sequence[ProjectedColumn]
) -> tuple[Expression, ...]:
    binder.clause, binder.allows_aggregates, binder.allows_windows = "GROUP BY", False, False
    binder.aliases = {p.name.lower(): p.expression for p in projection if not _has_aggregate(p.expression)}
    groups = []
    for node in query.group_by:
        group = binder.bind(node)
        if not any(isinstance(n, Column) for n in group.walk()):
            raise UnsupportedError("GROUP BY takes columns", span=node.span, hint=WAY_OUT)
        groups.append(group)
    return tuple(groups)


def _conditions_on_results(
    query: syntax.QueryNode, binder: Binder, projection: Sequence[ProjectedColumn]
) -> tuple[Expression | None, Expression | None]:
    binder.aliases = {p.name.lower(): p.expression for p in projection}
    binder.allows_aggregates = True
    having = None if query.having is None else binder.condition(query.having, "HAVING")
    binder.allows_windows = True
    qualify = None if query.qualify is None else binder.condition(query.qualify, "QUALIFY")
    return having, qualify


def _has_aggregate(expression: Expression) -> bool:
    """Whether it is computed over a group. OVER is not."""
    stack = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, Aggregate):
            return True
        if not isinstance(node, Over):
            stack.extend(node.children)
    return False


def _check_grouped(projection: Sequence[ProjectedColumn], group_by: Sequence[Expression]) -> None:
    groups = set(group_by)
    for column in projection:
        stack = [column.expression]
        while stack:
            node = stack.pop()
            if node in groups or isinstance(node, Aggregate):
                continue
            if isinstance(node, Column):
                raise UnsupportedError(
                    f"{node.name} is neither grouped by nor aggregated",
                    span=node.span,
                    hint=WAY_OUT,
                )
            stack.extend(node.children)


# ------------------------------------------------------------------------------------------------ slots


def slots_in(bound: BoundQuery) -> set[int]:
    """The slots a bound query uses."""
    return {node.index for e in _expressions(bound) for node in e.walk() if isinstance(node, Slot)}


def _expressions(bound: BoundQuery) -> Iterator[Expression]:
    for e in (bound.where, bound.having, bound.qualify, *(i.on for i in bound.inputs)):
        if e is not None:
            yield e
    yield from bound.group_by
    yield from (p.expression for p in bound.projection)


def with_slots(bound: BoundQuery, renumbered: Mapping[int, int]) -> BoundQuery:
    """The same query with its slots renumbered."""
    if all(old == new for old, new in renumbered.items()):
        return bound

    def new(e: Expression) -> Expression:
        if isinstance(e, Slot):
            return replace(e, index=renumbered[e.index])
        if isinstance(e, (Call, UserCall, Aggregate)):
            return replace(e, arguments=tuple(map(new, e.arguments)))
        if isinstance(e, Over):
            partition_by, order_by = tuple(map(new, e.partition_by)), tuple(map(new, e.order_by))
            return replace(e, aggregate=new(e.aggregate), partition_by=partition_by, order_by=order_by)
        return e

    def optional(e: Expression | None) -> Expression | None:
        return None if e is None else new(e)

    return replace(
        bound,
        inputs=tuple(replace(i, on=optional(i.on)) for i in bound.inputs),
        projection=tuple(replace(p, expression=new(p.expression)) for p in bound.projection),
        where=optional(bound.where),
        group_by=tuple(map(new, bound.group_by)),
        having=optional(bound.having),
        qualify=optional(bound.qualify),
    )
