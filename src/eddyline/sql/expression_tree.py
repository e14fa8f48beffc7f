"""Expressions: what sqlglot read becomes nodes of `syntax`, laid on the tokens they cover (`placing`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from eddyline.errors import ParseError
from eddyline.sql.lexer import PARAMETER, Constant, Token
from eddyline.sql.placing import NodePlaces, PlacedNode
from eddyline.sql.reading import CASTS, OPERATORS, QUANTIFIERS, SIGNS
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
    InQuery,
    Is,
    LambdaNode,
    Like,
    LikeMany,
    Name,
    Node,
    OverNode,
    Path,
    QueryNode,
    Star,
    TypeText,
    Unary,
    UnionNode,
    Word,
)

_PATTERNS = {"LIKE": "like", "ILIKE": "ilike", "RLIKE": "rlike", "REGEXP": "rlike"}
_SECONDS = frozenset(
    ("second", "seconds", "s", "sec", "secs")
)  # with their fraction, which second() does not have
_TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
# Functions that SQL lets one call without parentheses.
_BARE_FUNCTIONS = frozenset(("CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_TIMEZONE", "LOCALTIMESTAMP"))


class ExpressionTree(NodePlaces):
    """Builds the trees of the expressions of one text."""

    def __init__(
        self,
        text: str,
        tokens: Sequence[Token],
        constants: Sequence[Constant],
        nested: Mapping[int, Node] | None = None,
        end_text: str = "the end of the text",
    ) -> None:
        super().__init__(text, tokens, constants, nested, end_text)
        self.read_as_written: set[int] = set()  # constants that are part of a type, such as DECIMAL(10, 2)

    def _expression(self, e: exp.Expr) -> PlacedNode:
        """The node of an expression. What is at its left is read in a loop, so only real nesting takes stack."""
        outer: list[exp.Expr] = []
        while type(e) in _AFTER_LEFT:
            outer.append(e)
            e = e.this
        if isinstance(e, exp.Column):
            placed = self._name(e, outer)
        elif type(e) in _WHOLE:
            placed = _WHOLE[type(e)](self, e)
        else:
            raise self._unknown_error(e)
        while outer:
            e = outer.pop()
            placed = _AFTER_LEFT[type(e)](self, e, placed)
        return placed

    def _paren(self, e: exp.Expr) -> PlacedNode:
        self._check_read(e, "this")
        inner = self._expression(e.this)
        self._expect(inner.first - 1, "(")
        self._expect(inner.last + 1, ")")
        return PlacedNode(inner.node, inner.first - 1, inner.last + 1)

    def _tuple(self, e: exp.Expr) -> PlacedNode:
        if not e.expressions:
            raise self._complaint(len(self._tokens))
        at = self._expression(e.expressions[0]).last + 1
        raise self.refusals.unsupported_error(
            at, "a row of several values", "Compare the columns one by one."
        )

    def _named(self, e: exp.Expr) -> PlacedNode:
        """The error for a name behind something that cannot have one."""
        raise self._complaint(self._expression(e.this).last + 1)

    def _constant(self, e: exp.Expr) -> PlacedNode:
        at = self._place(e)
        number = self._tokens[at].constant
        if number is None:
            raise self._complaint(at)
        return PlacedNode(ConstantNode(number, span=self._tokens[at].span), at, at)

    def _word(self, e: exp.Expr) -> PlacedNode:
        at = self._place(e)
        return PlacedNode(Word(self._words[at], span=self._tokens[at].span), at, at)

    def _name(self, e: exp.Column, outer: list[exp.Expr]) -> PlacedNode:
        """Names joined by dots, as many as there are; more than four are fields of fields for sqlglot."""
        self._check_read(e, "this", "table", "db", "catalog")
        parts = [e.args[key] for key in ("catalog", "db", "table", "this") if e.args.get(key)]
        while outer and isinstance(outer[-1], exp.Dot):
            parts.append(outer.pop().expression)
        first = self._place(parts[0])
        if first in self._nested:
            if len(parts) > 1:
                raise self._complaint(first + 1)
            return PlacedNode(self._nested[first], first, first)
        names: list[str] = []
        for n, part in enumerate(parts):
            at = first + 2 * n
            if n:
                self._expect(at - 1, ".")
            if n and isinstance(part, exp.Star):
                if n < len(parts) - 1:
                    raise self._complaint(at + 1)
                return self._star(part, ".".join(names), first)
            names.append(self._identifier(part, at))
        last = first + 2 * len(parts) - 2
        if self._words[first] in _BARE_FUNCTIONS:
            return self._bare_call(names, first)
        return PlacedNode(Name(tuple(names), span=self._span(first, last)), first, last)

    def _bare_call(self, names: Sequence[str], first: int) -> PlacedNode:
        """A call without parentheses, and fields of its result."""
        node: Node = CallNode(names[0], (), span=self._tokens[first].span)
        last = first
        for name in names[1:]:
            last += 2
            node = Field(node, name, span=self._span(first, last))
        return PlacedNode(node, first, last)

    def _identifier(self, e: exp.Expr, at: int) -> str:
        """The name at this place."""
        if not isinstance(e, exp.Identifier) or self._place(e) != at or not self._reading.is_name(at):
            raise self._complaint(at)
        return self._unquoted(at)

    def _unquoted(self, at: int) -> str:
        text = self._tokens[at].text
        return text[1:-1].replace("``", "`") if text[0] == "`" else text

    def _all_columns(self, e: exp.Expr) -> PlacedNode:
        return self._star(e, None, self._place(e))

    def _star(self, e: exp.Expr, input_: str | None, first: int) -> PlacedNode:
        self._check_read(e, "except_")
        last = self._place(e)
        hidden: tuple[Name, ...] = ()
        if self._words[last + 1] == "EXCEPT":
            at = self._expect(last + 2, "(")
            hidden, last = self._one_or_more(e.args.get("except_") or (), at, self._expression)
            for node in hidden:
                if not isinstance(node, Name):
                    raise ParseError("* EXCEPT takes names of columns", span=node.span)
            self._expect(last, ")")
        return PlacedNode(Star(input_, hidden, span=self._span(first, last)), first, last)

    # ---------------------------------------------------------------- operators

    def _chain(self, e: exp.Expr) -> PlacedNode:
        """Conditions joined by AND, or by OR, in a loop: there may be thousands."""
        kind, parts = type(e), []
        while type(e) is kind:
            self._check_read(e, "this", "expression")
            parts.append(e.expression)
            e = e.this
        parts.append(e)
        word = "AND" if kind is exp.And else "OR"
        placed = self._expression(parts.pop())
        first, nodes = placed.first, [placed.node]
        while parts:
            placed = self._at(self._expression(parts.pop()), self._expect(placed.last + 1, word))
            nodes.append(placed.node)
        last = placed.last
        return PlacedNode(Chain(word.lower(), tuple(nodes), span=self._span(first, last)), first, last)

    def _not(self, e: exp.Expr) -> PlacedNode:
        self._check_read(e, "this")
        operand = self._expression(e.this)
        first = operand.first - 1
        if self._words[first] not in ("NOT", "!"):
            raise self._complaint(first)
        return PlacedNode(
            Unary("not", operand.node, span=self._span(first, operand.last)), first, operand.last
        )

    def _signed(self, e: exp.Expr) -> PlacedNode:
        self._check_read(e, "this")
        operand = self._expression(e.this)
        first = operand.first - 1
        sign = SIGNS.get(self._words[first])
        if sign is None:
            raise self._complaint(first)
        span = self._span(first, operand.last)
        return PlacedNode(Unary(sign, operand.node, span=span) if sign else operand.node, first, operand.last)

    def _binary(self, e: exp.Expr, left: PlacedNode) -> PlacedNode:
        self._check_read(e, "this", "operator", "expression")
        operator = OPERATORS.get(self._words[left.last + 1])
        if operator is None:
            raise self._complaint(left.last + 1)
        right = self._at(self._expression(e.expression), left.last + 2)
        node = Binary(operator, left.node, right.node, span=self._span(left.first, right.last))
        return PlacedNode(node, left.first, right.last)

    # ---------------------------------------------------------------- predicates

    def _predicate(self, left: PlacedNode, node: Node, last: int) -> PlacedNode:
        """A predicate, or its negation if NOT follows `left`."""
        is_negated = self._words[left.last + 1] == "NOT"
        return PlacedNode(Unary("not", node, span=node.span) if is_negated else node, left.first, last)

    def _predicate_word(self, left: PlacedNode) -> int:
        """The place of the word of the predicate behind `left`."""
        return left.last + 1 + (self._words[left.last + 1] == "NOT")

    def _between(self, e: exp.Expr, left: PlacedNode) -> PlacedNode:
        self._check_read(e, "this", "low", "high")
        at = self._predicate_word(left)
        low = self._at(self._expression(e.args["low"]), self._expect(at, "BETWEEN"))
        high = self._at(self._expression(e.args["high"]), self._expect(low.last + 1, "AND"))
        node = Between(left.node, low.node, high.node, span=self._span(left.first, high.last))
        return self._predicate(left, node, high.last)

    def _in(self, e: exp.Expr, left: PlacedNode) -> PlacedNode:
        self._check_read(e, "this", "expressions", "field")
        at = self._predicate_word(left)
        options: tuple[Node, ...]
        if self._reading.is_list(at):
            options, last = (self._at(self._expression(e.expressions[0]), at).node,), at
        elif e.args.get("field"):
            listed = self._at(self._expression(e.args["field"]), self._expect(at, "IN"))
            constant = self._reading.constant(at + 1)
            if constant is None or constant.kind != PARAMETER or listed.last != at + 1:
                raise self._complaint(listed.first)
            options, last = (listed.node,), listed.last
        else:
            options, last = self._listed_nodes(e.expressions, self._expect(at, "IN", "("), self._expression)
            self._expect(last, ")")
        span = self._span(left.first, last)
        if not options:
            raise ParseError("the IN list is empty", span=span, hint="Write at least one value.")
        node: Node = In(left.node, options, span=span)
        if isinstance(options[0], (QueryNode, UnionNode)):
            node = InQuery(left.node, options[0], span=span)
        return self._predicate(left, node, last)

    def _like(self, e: exp.Expr, left: PlacedNode, escape: exp.Expr | None = None) -> PlacedNode:
        self._check_read(e, "this", "expression")
        at = self._predicate_word(left)
        if self._words[at] not in _PATTERNS:
            raise self._complaint(at)
        if self._reading.is_quantifier(at + 1):
            if escape is not None:
                raise self.refusals.unsupported_error(
                    at,
                    f"ESCAPE after {self._words[at]} {self._words[at + 1]}",
                    "Escape with a backslash: '50\\\\%'.",
                )
            return self._like_many(e.expression, left, at)
        pattern = self._at(self._expression(e.expression), at + 1)
        last, escaped = pattern.last, None
        if escape is not None:
            if _PATTERNS[self._words[at]] == "rlike":
                raise self._complaint(last + 1)
            escaping = self._at(self._expression(escape), self._expect(last + 1, "ESCAPE"))
            last, escaped = escaping.last, escaping.node
        node = Like(
            _PATTERNS[self._words[at]], left.node, pattern.node, escaped, span=self._span(left.first, last)
        )
        return self._predicate(left, node, last)

    def _like_many(self, e: exp.Expr, left: PlacedNode, at: int) -> PlacedNode:
        self._check_read(e, "this", "expressions")
        patterns, last = self._one_or_more(e.expressions, self._expect(at + 2, "("), self._expression)
        self._expect(last, ")")
        node = LikeMany(
            _PATTERNS[self._words[at]],
            left.node,
            patterns,
            QUANTIFIERS[self._words[at + 1]],
            at > left.last + 1,
            span=self._span(left.first, last),
        )
        return PlacedNode(node, left.first, last)

    def _escaped(self, e: exp.Expr) -> PlacedNode:
        self._check_read(e, "this", "expression")
        return self._like(e.this, self._expression(e.this.this), e.expression)

    def _is(self, e: exp.Expr, left: PlacedNode) -> PlacedNode:
        self._check_read(e, "this", "expression")
        at = self._expect(left.last + 1, "IS")
        is_negated = self._words[at] == "NOT"
        last = at + is_negated
        if self._place(e.expression) != last:
            raise self._complaint(last)
        node = Is(left.node, self._words[last], is_negated, span=self._span(left.first, last))
        return PlacedNode(node, left.first, last)

    def _is_distinct(self, e: exp.Expr, left: PlacedNode) -> PlacedNode:
        self._check_read(e, "this", "expression")
        at = self._expect(left.last + 1, "IS")
        is_negated = self._words[at] == "NOT"
        right = self._at(self._expression(e.expression), self._expect(at + is_negated, "DISTINCT", "FROM"))
        span = self._span(left.first, right.last)
        node: Node = Binary("<=>", left.node, right.node, span=span)
        return PlacedNode(node if is_negated else Unary("not", node, span=span), left.first, right.last)

    # ---------------------------------------------------------------- what follows a value

    def _cast(self, e: exp.Expr, operand: PlacedNode) -> PlacedNode:
        self._check_read(e, "this", "to", "safe")
        first = self._place(e.args["to"])
        type_last = self._reading.type_last[first]
        self._at(PlacedNode(None, first, type_last), operand.last + 2)
        span = self._span(first, type_last)
        to = TypeText(self._text[span.start : span.end], span=span)
        self.read_as_written.update(
            token.constant for token in self._tokens[first : type_last + 1] if token.constant is not None
        )
        if self._words[first - 1] == "::":
            node = Cast(operand.node, to, False, span=self._span(operand.first, type_last))
            return PlacedNode(node, operand.first, type_last)
        self._expect(first - 1, "AS")
        opening = operand.first - 1
        self._expect(opening, "(")
        self._expect(type_last + 1, ")")
        word = self._words[opening - 1]
        if word not in CASTS:
            raise self._complaint(opening)
        node = Cast(operand.node, to, word == "TRY_CAST", span=self._span(opening - 1, type_last + 1))
        return PlacedNode(node, opening - 1, type_last + 1)

    def _field(self, e: exp.Expr, operand: PlacedNode) -> PlacedNode:
        self._check_read(e, "this", "expression")
        at = self._expect(operand.last + 1, ".")
        name = self._identifier(e.expression, at)
        return PlacedNode(Field(operand.node, name, span=self._span(operand.first, at)), operand.first, at)

    def _element(self, e: exp.Expr, operand: PlacedNode) -> PlacedNode:
        self._check_read(e, "this", "expressions")
        at = self._expect(operand.last + 1, "[")
        index, last = self._one_or_more(e.expressions[:1], at, self._expression)
        self._expect(last, "]")
        node = Element(operand.node, index[0], span=self._span(operand.first, last))
        return PlacedNode(node, operand.first, last)

    def _path(self, e: exp.Expr, operand: PlacedNode) -> PlacedNode:
        self._check_read(e, "this", "expression")
        at = self._place(e.expression)
        self._at(PlacedNode(None, at, at), operand.last + 1)
        node = Path(operand.node, self._tokens[at].text, span=self._span(operand.first, at))
        return PlacedNode(node, operand.first, at)

    # ---------------------------------------------------------------- CASE and calls

    def _case(self, e: exp.Expr) -> PlacedNode:
        self._check_read(e, "this", "ifs", "default")
        subject = self._expression(e.this) if e.this else None
        branches: list[tuple[Node, Node]] = []
        at = first = -1
        if subject is not None:
            first, at = subject.first - 1, subject.last + 1
        for branch in e.args["ifs"]:
            self._check_read(branch, "this", "true")
            when = self._expression(branch.this)
            if at < 0:
                first, at = when.first - 2, when.first - 1
            self._at(when, self._expect(at, "WHEN"))
            then = self._at(self._expression(branch.args["true"]), self._expect(when.last + 1, "THEN"))
            branches.append((when.node, then.node))
            at = then.last + 1
        self._expect(first, "CASE")
        default = None
        if e.args.get("default"):
            default = self._at(self._expression(e.args["default"]), self._expect(at, "ELSE"))
            at = default.last + 1
        self._expect(at, "END")
        node = Case(
            None if subject is None else subject.node,
            tuple(branches),
            None if default is None else default.node,
            span=self._span(first, at),
        )
        return PlacedNode(node, first, at)

    def _call(self, e: exp.Expr) -> PlacedNode:
        self._check_read(e, "this", "expressions")
        first = self._place(e)
        name, at = self._identifier(e.this, first), self._expect(first + 1, "(")
        arguments: Sequence[exp.Expr] = e.expressions
        is_distinct = self._words[at] == "DISTINCT"
        if is_distinct:
            at += 1
            self._check_read(arguments[0], "expressions")
            arguments = [*arguments[0].expressions, *arguments[1:]]
        nodes, last = self._listed_nodes(arguments, at, self._expression)
        self._expect(last, ")")
        node = CallNode(name, nodes, is_distinct, span=self._span(first, last))
        return PlacedNode(node, first, last)

    def _lambda(self, e: exp.Expr) -> PlacedNode:
        self._check_read(e, "this", "expressions")
        body = self._expression(e.this)
        self._expect(body.first - 1, "->")
        first = last = body.first - 2
        if self._words[last] == ")":
            first = self._place(e.expressions[0]) - 1
            names, end = self._one_or_more(e.expressions, self._expect(first, "("), self._parameter)
            self._at(PlacedNode(None, end, end), last)
        else:
            names = (self._at(self._parameter(e.expressions[0]), first).node,)
        return PlacedNode(LambdaNode(names, body.node, span=self._span(first, body.last)), first, body.last)

    def _parameter(self, e: exp.Expr) -> PlacedNode:
        at = self._place(e)
        return PlacedNode(self._identifier(e, at), at, at)

    def _worded_call(self, name: str, arguments: Sequence[PlacedNode], opening: int) -> PlacedNode:
        """A call with words between its arguments, of which the last one ends it."""
        last = self._expect(max(argument.last for argument in arguments) + 1, ")") - 1
        first = opening - 1
        nodes = tuple(argument.node for argument in arguments)
        return PlacedNode(CallNode(name, nodes, span=self._span(first, last)), first, last)

    def _extract(self, e: exp.Expr) -> PlacedNode:
        self._check_read(e, "this", "expression")
        operand = self._expression(e.expression)
        opening = self._expect(operand.first - 4, "EXTRACT")
        self._expect(opening, "(")
        if not self._reading.is_name(opening + 1):
            raise self.refusals.expected_error(opening + 1, "a field such as YEAR")
        self._expect(opening + 2, "FROM")
        field = self._unquoted(opening + 1).lower()
        return self._worded_call("extract second" if field in _SECONDS else field, [operand], opening)

    def _trim(self, e: exp.Expr) -> PlacedNode:
        self._check_read(e, "this", "expression", "position")
        text = self._expression(e.this)
        at = text.first - 1
        arguments = [text]
        if e.args.get("expression"):
            characters = self._expression(e.expression)
            self._expect(characters.last + 1, "FROM")
            self._at(text, characters.last + 2)
            at = characters.first
            arguments.insert(0, characters)
        else:
            self._expect(at, "FROM")
        side = self._words[at - 1] if e.args.get("position") else "BOTH"
        opening = at - 1 - bool(e.args.get("position"))
        self._expect(opening, "(")
        self._expect(opening - 1, "TRIM")
        return self._worded_call(_TRIMS[side], arguments, opening)

    def _substring(self, e: exp.Expr) -> PlacedNode:
        self._check_read(e, "this", "start", "length")
        arguments = [self._expression(e.this)]
        for key, word in (("start", "FROM"), ("length", "FOR")):
            if e.args.get(key):
                after = self._expect(arguments[-1].last + 1, word)
                arguments.append(self._at(self._expression(e.args[key]), after))
        opening = arguments[0].first - 1
        self._expect(opening, "(")
        return self._worded_call(self._words[opening - 1].lower(), arguments, opening)

    def _position(self, e: exp.Expr) -> PlacedNode:
        self._check_read(e, "this", "substr")
        part = self._expression(e.args["substr"])
        whole = self._at(self._expression(e.this), self._expect(part.last + 1, "IN"))
        opening = part.first - 1
        self._expect(opening, "(")
        return self._worded_call(self._words[opening - 1].lower(), [part, whole], opening)

    def _filtered(self, e: exp.Expr, function: PlacedNode) -> PlacedNode:
        self._check_read(e, "this", "expression")
        self._check_read(e.expression, "this")
        opening = self._expect(self._after_call(function), "FILTER")
        condition = self._at(self._expression(e.expression.this), self._expect(opening, "(", "WHERE"))
        last = self._expect(condition.last + 1, ")") - 1
        node = replace(function.node, filter=condition.node, span=self._span(function.first, last))
        return PlacedNode(node, function.first, last)

    def _with_nulls(self, e: exp.Expr, function: PlacedNode) -> PlacedNode:
        self._check_read(e, "this")
        at = self._after_call(function)
        last = self._expect(at + 1, "NULLS") - 1
        node = replace(function.node, nulls=self._words[at], span=self._span(function.first, last))
        return PlacedNode(node, function.first, last)

    def _after_call(self, function: PlacedNode) -> int:
        """The place behind a call that nothing stands behind yet but what belongs to aggregates."""
        if not isinstance(function.node, CallNode) or function.node.nulls:
            raise self._complaint(function.last + 1)
        return function.last + 1

    # ---------------------------------------------------------------- windows

    def _over(self, e: exp.Expr) -> PlacedNode:
        function = self._expression(e.this)
        if not isinstance(function.node, CallNode):
            raise self._complaint(function.last + 1)
        at = self._expect(function.last + 1, "OVER", "(")
        if e.args.get("alias"):
            raise self.refusals.named_window(at)
        self._check_read(e, "this", "partition_by", "order", "spec", "over")
        partition_by: tuple[Node, ...] = ()
        order_by: tuple[Node, ...] = ()
        if e.args.get("partition_by"):
            partition_by, at = self._one_or_more(
                e.args["partition_by"], self._expect(at, "PARTITION", "BY"), self._expression
            )
        order = e.args.get("order")
        if order is not None:
            self._check_read(order, "expressions")
            order_by, at = self._one_or_more(
                order.expressions, self._expect(at, "ORDER", "BY"), self._ordered
            )
        unit, frame, spec = "", None, e.args.get("spec")
        if spec is not None:
            self._check_read(spec, "kind", "start", "start_side", "end", "end_side")
            unit = self._words[at]
            frame, at = self._frame(spec, at + 1)
        self._expect(at, ")")
        node = OverNode(
            function.node, partition_by, order_by, unit, frame, span=self._span(function.first, at)
        )
        return PlacedNode(node, function.first, at)

    def _ordered(self, e: exp.Expr) -> PlacedNode:
        self._check_read(e, "this", "nulls_first")
        node, first, last = self._expression(e.this)
        return PlacedNode(node, first, last + (self._words[last + 1] == "ASC"))

    def _frame(self, spec: exp.Expr, at: int) -> tuple[tuple[FrameBound, FrameBound], int]:
        if self._words[at] != "BETWEEN":
            start, at = self._bound(spec, "start", at)
            return (start, FrameBound(None, "", span=self.refusals.span(at))), at
        start, at = self._bound(spec, "start", at + 1)
        end, at = self._bound(spec, "end", self._expect(at, "AND"))
        return (start, end), at

    def _bound(self, spec: exp.Expr, key: str, at: int) -> tuple[FrameBound, int]:
        """One end of a frame, and the place after it."""
        value, first, amount = spec.args.get(key), at, None
        if value == "CURRENT ROW":
            at = self._expect(at, "CURRENT", "ROW")
            return FrameBound(None, "", span=self._span(first, at - 1)), at
        if value == "UNBOUNDED":
            at = self._expect(at, "UNBOUNDED")
        elif value is None:
            raise self._complaint(at)
        else:
            amount = self._at(self._expression(value), at)
            at = amount.last + 1
        direction = self._words[at]
        if direction not in ("PRECEDING", "FOLLOWING"):
            raise self.refusals.expected_error(at, "PRECEDING or FOLLOWING")
        node = FrameBound(None if amount is None else amount.node, direction, span=self._span(first, at))
        return node, at + 1


# What is at the left of a node is read first; these know what follows it.
_AFTER_LEFT: dict[type[exp.Expr], Callable[[ExpressionTree, Any, PlacedNode], PlacedNode]] = {
    exp.Operator: ExpressionTree._binary,
    exp.Between: ExpressionTree._between,
    exp.In: ExpressionTree._in,
    exp.Like: ExpressionTree._like,
    exp.ILike: ExpressionTree._like,
    exp.RegexpLike: ExpressionTree._like,
    exp.Is: ExpressionTree._is,
    exp.NullSafeNEQ: ExpressionTree._is_distinct,
    exp.Cast: ExpressionTree._cast,
    exp.TryCast: ExpressionTree._cast,
    exp.Dot: ExpressionTree._field,
    exp.Bracket: ExpressionTree._element,
    exp.JSONExtract: ExpressionTree._path,
    exp.Filter: ExpressionTree._filtered,
    exp.IgnoreNulls: ExpressionTree._with_nulls,
    exp.RespectNulls: ExpressionTree._with_nulls,
}
_WHOLE: dict[type[exp.Expr], Callable[[ExpressionTree, Any], PlacedNode]] = {
    exp.Paren: ExpressionTree._paren,
    exp.Tuple: ExpressionTree._tuple,
    exp.Literal: ExpressionTree._constant,
    exp.Null: ExpressionTree._word,
    exp.Boolean: ExpressionTree._word,
    exp.Alias: ExpressionTree._named,
    exp.Aliases: ExpressionTree._named,
    exp.Star: ExpressionTree._all_columns,
    exp.And: ExpressionTree._chain,
    exp.Or: ExpressionTree._chain,
    exp.Not: ExpressionTree._not,
    exp.Neg: ExpressionTree._signed,
    exp.Escape: ExpressionTree._escaped,
    exp.Case: ExpressionTree._case,
    exp.Anonymous: ExpressionTree._call,
    exp.Lambda: ExpressionTree._lambda,
    exp.Extract: ExpressionTree._extract,
    exp.Trim: ExpressionTree._trim,
    exp.Substring: ExpressionTree._substring,
    exp.StrPosition: ExpressionTree._position,
    exp.Window: ExpressionTree._over,
}
