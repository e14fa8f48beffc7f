"""Text to syntax tree: sqlglot reads, this turns what it read into the nodes of `syntax`.

`dialect` makes sqlglot read as Spark does; `expression_tree` builds expressions, this the clauses around them; `refusals`
says what is wrong with a text that is no query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from sqlglot import exp

from eddyline.errors import LimitError, ParseError, Span, UnsupportedError
from eddyline.nesting import MAX_NESTING
from eddyline.sql.dialect import parse
from eddyline.sql.expression_tree import ExpressionTree
from eddyline.sql.lexer import Constant, Token
from eddyline.sql.nested_queries import NestedQueries
from eddyline.sql.placing import PlacedNode
from eddyline.sql.reading import JOINS, NOT_ALIASES
from eddyline.sql.syntax import AnyQuery, InputNode, Node, ProjectedNode, QueryNode, Star, UnionNode

_Root = TypeVar("_Root", bound=Node)


def query_tree(
    text: str, tokens: Sequence[Token], constants: Sequence[Constant]
) -> tuple[AnyQuery, frozenset[int]]:
    """The tree of a query, and the constants that are part of a type. Raises ParseError, UnsupportedError, LimitError."""
    read_as_written: set[int] = set()

    def select(tokens: Sequence[Token], nested: Mapping[int, Node], end_text: str) -> QueryNode:
        builder = _QueryTree(text, tokens, constants, nested, end_text)
        builder.refusals.refuse_query()
        query = builder.tree(exp.Select, builder.query)
        read_as_written.update(builder.read_as_written)
        return query

    return NestedQueries(text, tokens, select).whole(), frozenset(read_as_written)


def expression_tree(
    text: str, tokens: Sequence[Token], constants: Sequence[Constant]
) -> tuple[Node, frozenset[int]]:
    """The tree of one expression, and the constants that are part of a type."""
    builder = _QueryTree(text, tokens, constants)
    builder.refusals.refuse_expression()
    return builder.tree(exp.Condition, builder.expression), frozenset(builder.read_as_written)


class _QueryTree(ExpressionTree):
    """Builds the tree of one text."""

    def tree(self, kind: type[exp.Expr], build: Callable[[exp.Expr], _Root]) -> _Root:
        """What `build` makes of the text, read as a `kind` of sqlglot expression."""
        try:
            read, stopped_at = parse(self._reading, kind)
            if read is None:
                raise self._complaint(stopped_at)
            return build(read)
        except RecursionError:
            raise LimitError(
                f"the text is nested deeper than {MAX_NESTING} levels",
                span=self._span(0, len(self._tokens) - 1),
            ) from None

    def expression(self, e: exp.Expr) -> Node:
        """The tree of a text that is one expression."""
        node: Node
        node, _, last = self._at(self._expression(e), 0)
        self._end(last + 1)
        return node

    # ---------------------------------------------------------------- clauses

    def query(self, e: exp.Expr) -> QueryNode:
        """The tree of a SELECT, clause by clause in the order of the text."""
        self._check_read(
            e, "distinct", "expressions", "from_", "joins", "where", "group", "having", "qualify"
        )
        at = self._expect(0, "SELECT")
        is_distinct = self._words[at] == "DISTINCT"
        at += is_distinct or self._words[at] == "ALL"
        projection, at = self._one_or_more(e.expressions, at, self._projected)
        inputs, at = self._inputs(e, at)
        where, at = self._clause(e, "where", "WHERE", at)
        group_by: tuple[Node, ...] = ()
        group = e.args.get("group")
        if group is not None and self._words[at] == "GROUP":
            self._check_read(group, "expressions")
            start = self._expect(at, "GROUP", "BY")
            group_by, at = self._one_or_more(group.expressions, start, self._expression)
        having, at = self._clause(e, "having", "HAVING", at)
        qualify, at = self._clause(e, "qualify", "QUALIFY", at)
        self._end(at)
        span = self._span(0, at - 1)
        return QueryNode(projection, inputs, where, group_by, having, qualify, is_distinct, span=span)

    def _clause(self, e: exp.Expr, key: str, word: str, at: int) -> tuple[Node | None, int]:
        """The condition of a clause if it is here, and the place after it."""
        clause = e.args.get(key)
        if self._words[at] != word or clause is None:
            return None, at
        self._check_read(clause, "this")
        condition = self._at(self._expression(clause.this), at + 1)
        return condition.node, condition.last + 1

    def _projected(self, e: exp.Expr) -> PlacedNode:
        if not isinstance(e, exp.Alias):
            node, first, last = self._expression(e)
            return PlacedNode(ProjectedNode(node, None, span=self._span(first, last)), first, last)
        self._check_read(e, "this", "alias")
        expression = self._expression(e.this)
        last, alias = self._alias(e.args["alias"], expression.last + 1)
        span = self._span(expression.first, last)
        if isinstance(expression.node, Star):
            raise ParseError("* cannot have a name", span=span)
        return PlacedNode(ProjectedNode(expression.node, alias, span=span), expression.first, last)

    def _alias(self, e: exp.Expr, at: int) -> tuple[int, str]:
        """The name given to what ends before `at`, and its position."""
        at += self._words[at] == "AS"
        return at, self._identifier(e, at)

    # ---------------------------------------------------------------- FROM

    def _inputs(self, e: exp.Expr, at: int) -> tuple[tuple[InputNode, ...], int]:
        source = e.args.get("from_")
        if source is None:
            if at == len(self._tokens):
                raise UnsupportedError(
                    "a query without FROM is not supported",
                    span=self._span(0, at - 1),
                    hint="Say which stream it reads: SELECT … FROM stream.",
                )
            raise self._complaint(at)
        self._check_read(source, "this")
        node, at = self._input(source.this, self._expect(at, "FROM"))
        nodes = [node]
        for joined in e.args.get("joins") or ():
            node, at = self._joined(joined, at)
            nodes.append(node)
        return tuple(nodes), at

    def _joined(self, e: exp.Expr, at: int) -> tuple[InputNode, int]:
        self._check_read(e, "this", "method", "side", "kind", "on", "using")
        if self._words[at] == ",":
            return self._input(e.this, at + 1, "cross")
        length = self._reading.join_length(at)
        if not length:
            raise self._complaint(at)
        join = JOINS[tuple(self._words[at : at + length])]
        return self._input(e.this, at + length, join, e)

    def _input(
        self, e: exp.Expr, at: int, join: str = "", joined: exp.Expr | None = None
    ) -> tuple[InputNode, int]:
        """An entry of FROM at this place, and the place after it."""
        first = at
        if isinstance(e, exp.Stream):
            self._check_read(e, "this")
            e, at = e.this, self._expect(at, "STREAM")
        if not isinstance(e, exp.Table):
            raise self._complaint(at + 1)
        self._check_read(e, "this", "db", "catalog", "alias")
        recent: Node | None = None
        query = self._nested.get(at)
        if query is not None:
            assert isinstance(query, (QueryNode, UnionNode)), query
            stream, stream_span, at = "", query.span, at + len(e.parts)
        elif isinstance(e.this, exp.Anonymous):
            stream, stream_span, recent, at = self._recent(e.this, at)
        else:
            stream, stream_span, at = self._stream(e.parts, at)
        alias, columns, named = stream, (), e.args.get("alias")
        if named:
            if self._words[at] == "AS" and self._words[at + 1] in NOT_ALIASES:
                raise self.refusals.expected_error(at + 1, "a name after AS")
            at, alias = self._alias(named.this, at)
            at += 1
            if named.args.get("columns"):
                opening = self._expect(at, "(")
                columns, at = self._one_or_more(named.args["columns"], opening, self._parameter)
                at = self._expect(at, ")")
        on: Node | None = None
        using: tuple[tuple[str, Span], ...] = ()
        if joined is not None and join != "cross":
            on, using, at = self._join_condition(joined, at)
        span = self._span(first, at - 1)
        return InputNode(stream, stream_span, alias, recent, join, on, using, query, columns, span=span), at

    def _stream(self, parts: Sequence[exp.Expr], first: int) -> tuple[str, Span, int]:
        """The name of a stream, its position, and the place after it."""
        if self._words[first] in NOT_ALIASES:
            raise self._complaint(first)
        names = [self._identifier(part, first + 2 * n) for n, part in enumerate(parts)]
        last = first + 2 * len(names) - 2
        if self._words[last + 1] == "(":
            raise self._not_a_table_function(".".join(names), self._span(first, last))
        return ".".join(names), self._span(first, last), last + 1

    def _recent(self, e: exp.Expr, at: int) -> tuple[str, Span, Node, int]:
        """recent(stream, rows): the stream, where it is named, the rows, and the place after it."""
        self._check_read(e, "this", "expressions")
        if self._words[at] != "RECENT":
            raise self._not_a_table_function(self._identifier(e.this, at), self._tokens[at].span)
        opening = at + 1
        at = self._expect(opening, "(")
        if not e.expressions or not isinstance(e.expressions[0], exp.Column):
            raise self.refusals.expected_error(at, "a stream after (")
        stream, span, at = self._stream(e.expressions[0].parts, at)
        if self._words[at] != ",":
            raise self.refusals.expected_error(at, ",")
        rows, at = self._one_or_more(e.expressions[1:2], at + 1, self._expression)
        self._expect(at, ")")
        return stream, span, rows[0], at + 1

    def _not_a_table_function(self, name: str, span: Span) -> ParseError:
        return ParseError(
            f"{name} is not a table function", span=span, hint="The only one is recent(stream, 100)."
        )

    def _join_condition(self, e: exp.Expr, at: int) -> tuple[Node | None, tuple[tuple[str, Span], ...], int]:
        """ON, or the columns of USING, and the place after them."""
        if e.args.get("on"):
            condition = self._at(self._expression(e.args["on"]), self._expect(at, "ON"))
            return condition.node, (), condition.last + 1
        names, at = self._one_or_more(
            e.args.get("using") or (), self._expect(at, "USING", "("), self._column_used
        )
        return None, names, self._expect(at, ")")

    def _column_used(self, e: exp.Expr) -> PlacedNode:
        at = self._place(e)
        if self._words[at - 1] == ".":
            raise self._complaint(at - 1)
        return PlacedNode((self._identifier(e, at), self._tokens[at].span), at, at)
