"""Spark's grammar of expressions, by recursive descent.

After the rules booleanExpression, valueExpression and primaryExpression of the grammar Spark publishes, loosest first:

    OR < AND < NOT < [NOT] BETWEEN, IN, LIKE, ILIKE, RLIKE, IS < = == <=> <> != < <= > >= < | < ^ < & < << >> < + - || < * / % DIV
    < signs and ~ < .field [index] :path ::type

Chains of AND, of OR and of binary operators are read in a loop, so only real nesting takes stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eddyline.errors import ParseError
from eddyline.sql.cursor import Cursor
from eddyline.sql.lexer import Token
from eddyline.sql.syntax import (
    Between,
    Binary,
    Bound,
    CallNode,
    Case,
    Cast,
    Chain,
    ConstantNode,
    Element,
    Field,
    In,
    Is,
    Like,
    Name,
    Node,
    OverNode,
    Path,
    Star,
    TypeText,
    Unary,
    Word,
)

_LEVELS: tuple[dict[str, str], ...] = (  # loosest first: the operator as written, and its name
    {"=": "=", "==": "=", "<=>": "<=>", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="},
    {"|": "|"},
    {"^": "^"},
    {"&": "&"},
    {"<<": "<<", ">>": ">>"},
    {"+": "+", "-": "-", "||": "||"},
    {"*": "*", "/": "/", "%": "%", "DIV": "div"},
)
_OPERATORS = {
    written: (level, name) for level, words in enumerate(_LEVELS) for written, name in words.items()
}
_SIGNS = {"-": "negate", "~": "~", "+": ""}
_PATTERNS = {"LIKE": "like", "ILIKE": "ilike", "RLIKE": "rlike", "REGEXP": "rlike"}
_PREDICATES = frozenset((*_PATTERNS, "BETWEEN", "IN"))
_TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}

# Words that cannot be names without backquotes, because they end or start a part of an expression or query.
RESERVED = frozenset(
    [
        "ALL",
        "AND",
        "ANTI",
        "AS",
        "ASC",
        "BETWEEN",
        "BY",
        "CASE",
        "CROSS",
        "DESC",
        "DISTINCT",
        "DIV",
        "ELSE",
        "END",
        "ESCAPE",
        "EXCEPT",
        "FALSE",
        "FROM",
        "FULL",
        "GROUP",
        "HAVING",
        "ILIKE",
        "IN",
        "INNER",
        "INTERSECT",
        "IS",
        "JOIN",
        "LATERAL",
        "LIKE",
        "LIMIT",
        "MINUS",
        "NATURAL",
        "NOT",
        "NULL",
        "OFFSET",
        "ON",
        "OR",
        "ORDER",
        "QUALIFY",
        "REGEXP",
        "RLIKE",
        "SELECT",
        "SEMI",
        "SET",
        "SORT",
        "TABLESAMPLE",
        "THEN",
        "TRUE",
        "UNION",
        "USING",
        "WHEN",
        "WHERE",
        "WINDOW",
        "WITH",
    ]
)
# Functions that SQL lets one call without parentheses.
_BARE_FUNCTIONS = frozenset(("CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_TIMEZONE", "LOCALTIMESTAMP"))


class ExpressionGrammar(Cursor):
    """Reads expressions. A method returns None where its kind of thing does not start."""

    def __init__(self, text: str, tokens: Sequence[Token], at: int = 0, end: int | None = None) -> None:
        super().__init__(text, tokens, at, end)
        self.read_as_written: set[int] = set()  # constants that are part of a type, such as DECIMAL(10, 2)

    # ---------------------------------------------------------------- booleanExpression

    def condition(self) -> Node | None:
        """An expression of any kind, loosest operators included."""
        return self._chain("OR", self._conjunction)

    def _conjunction(self) -> Node | None:
        return self._chain("AND", self._negation)

    def _chain(self, word: str, part: Callable[[], Node | None]) -> Node | None:
        first = self.at
        node = part()
        if node is None or self.word() != word:
            return node
        nodes = [node]
        while self.take(word):
            nodes.append(self.required(part))
        return Chain(word.lower(), tuple(nodes), span=self.since(first))

    def required(self, part: Callable[[], Node | None]) -> Node:
        """What `part` reads, or a complaint that an expression is missing."""
        node = part()
        if node is None:
            before = self.previous.text if self.at else ""
            after = {"": "", ",": " after the comma"}.get(before, f" after {before}")
            raise self.expected(f"an expression{after}")
        return node

    def _negation(self) -> Node | None:
        first = self.at
        if self.take("NOT") or self.take("!"):
            return Unary("not", self.required(self._negation), span=self.since(first))
        return self._predicated()

    def _predicated(self) -> Node | None:
        first = self.at
        left = self.value()
        if left is None:
            return None
        if self.take("IS"):
            return self._is(left, first)
        is_negated = self.word() == "NOT" and (self.word(1) in _PREDICATES or self._is_list(1))
        if is_negated:
            self.at += 1
        node: Node
        if self._is_list():
            node = In(left, (self.required(self._constant),), span=self.since(first))
        elif self.word() not in _PREDICATES:
            return left
        elif self.take("BETWEEN"):
            low = self.required(self.value)
            self.expect("AND")
            node = Between(left, low, self.required(self.value), span=self.since(first))
        elif self.take("IN"):
            node = self._in(left, first)
        else:
            node = self._like(left, first)
        return Unary("not", node, span=node.span) if is_negated else node

    def _is_list(self, ahead: int = 0) -> bool:
        """Whether the token is a whole IN list of literals."""
        token = self.peek(ahead)
        return token.constant is not None and token.text[:2].upper() == "IN" and token.text[-1] == ")"

    def _is(self, left: Node, first: int) -> Node:
        is_negated = self.take("NOT")
        for word in ("NULL", "TRUE", "FALSE"):
            if self.take(word):
                return Is(left, word, is_negated, span=self.since(first))
        if self.take("DISTINCT", "FROM"):
            node = Binary("<=>", left, self.required(self.value), span=self.since(first))
            return node if is_negated else Unary("not", node, span=node.span)
        raise self.expected(f"NULL, TRUE, FALSE or DISTINCT FROM after {self.previous.text.upper()}")

    def _in(self, left: Node, first: int) -> Node:
        if self.peek().constant is not None and self.peek().text[0] == ":":  # IN :list
            return In(left, (self.required(self._constant),), span=self.since(first))
        opening = self.peek()
        if not self.take("("):
            raise self.expected("( after IN")
        if self.word() in ("SELECT", "WITH"):
            raise self.unsupported("IN (SELECT …)", "Write a join.")
        options = self._arguments()
        self.close(opening)
        if not options:
            raise ParseError("the IN list is empty", span=self.since(first), hint="Write at least one value.")
        return In(left, options, span=self.since(first))

    def _like(self, left: Node, first: int) -> Node:
        word = self.word()
        self.at += 1
        if self.word() in ("ANY", "SOME", "ALL") and self.word(1) == "(":
            raise self.unsupported(f"{word} {self.word()}", "Write the patterns out, joined by OR or AND.")
        pattern = self.required(self.value)
        escape = self.required(self.value) if self.take("ESCAPE") else None
        return Like(_PATTERNS[word], left, pattern, escape, span=self.since(first))

    # ---------------------------------------------------------------- valueExpression

    def value(self) -> Node | None:
        """Comparisons and everything tighter."""
        first = self.at
        left = self._signed()
        return None if left is None else self._climb(left, 0, first)

    def _climb(self, left: Node, level: int, first: int) -> Node:
        """Binary operators of this level and tighter after `left`, left to right."""
        while True:
            found, name = _OPERATORS.get(self.word(), (-1, ""))
            if found < level:
                return left
            self.at += 1
            second = self.at
            right = self._climb(self.required(self._signed), found + 1, second)
            left = Binary(name, left, right, span=self.since(first))

    def _signed(self) -> Node | None:
        first = self.at
        sign = _SIGNS.get(self.word())
        if sign is None:
            node = self._primary()
            return None if node is None else self._postfix(node, first)
        self.at += 1
        operand = self.required(self._signed)
        return Unary(sign, operand, span=self.since(first)) if sign else operand

    # ---------------------------------------------------------------- primaryExpression

    def _postfix(self, node: Node, first: int) -> Node:
        while True:
            token = self.peek()
            if (
                token.text[:1] == ":"
                and token.constant is None
                and len(token.text) > 1
                and token.text != "::"
            ):
                self.at += 1
                node = Path(node, token.text, span=self.since(first))
            elif self.take("."):
                name, _ = self.name("a field after .")
                node = Field(node, name, span=self.since(first))
            elif self.take("["):
                index = self.required(self.value)
                self.close(token)
                node = Element(node, index, span=self.since(first))
            elif self.take("::"):
                to = self.type()
                node = Cast(node, to, False, span=self.since(first))
            else:
                return node

    def _primary(self) -> Node | None:
        constant = self._constant()
        if constant is not None:
            return constant
        first, word = self.at, self.word()
        if word == "(":
            return self._parenthesised()
        if word == "CASE":
            return self._case()
        if word in ("NULL", "TRUE", "FALSE"):
            self.at += 1
            return Word(word, span=self.since(first))
        if self.take("*"):
            return self._star(None, first)
        if word == "EXISTS" and self.word(1) == "(":
            raise self.unsupported("EXISTS", "Write a join.")
        if not self.is_name(RESERVED):
            return None
        if self.word(1) == "(":
            return self._call()
        if word in _BARE_FUNCTIONS:
            self.at += 1
            return CallNode(self.previous.text, (), span=self.since(first))
        if word == "INTERVAL" and (self.peek(1).constant is not None or self.is_name(RESERVED, ahead=1)):
            raise self.unsupported(
                "this interval",
                "Write INTERVAL 10 MINUTES: a number and a unit. A column cannot stand there.",
            )
        return self._name()

    def _constant(self) -> Node | None:
        token = self.peek()
        if token.constant is None:
            return None
        self.at += 1
        return ConstantNode(token.constant, span=token.span)

    def _name(self) -> Node:
        first = self.at
        parts = [self.name("a name")[0]]
        while self.take("."):
            if self.take("*"):
                return self._star(".".join(parts), first)
            parts.append(self.name("a name after .")[0])
        return Name(tuple(parts), span=self.since(first))

    def _star(self, input_: str | None, first: int) -> Node:
        hidden: list[Name] = []
        if self.word() in ("REPLACE", "RENAME", "EXCLUDE", "ILIKE"):
            raise self.unsupported(f"* {self.word()}", "List the columns, or write * EXCEPT (a, b).")
        if self.word() == "EXCEPT" and self.word(1) == "(":
            self.at += 1
            opening = self.peek()
            self.at += 1
            for node in self._arguments():
                if not isinstance(node, Name):
                    raise ParseError("* EXCEPT takes names of columns", span=node.span)
                hidden.append(node)
            self.close(opening)
        return Star(input_, tuple(hidden), span=self.since(first))

    def _parenthesised(self) -> Node:
        opening = self.peek()
        self.at += 1
        if self.word() in ("SELECT", "WITH", "VALUES"):
            raise self.unsupported("a query inside an expression", "Write a join.")
        node = self.required(self.condition)
        if self.word() == ",":
            raise self.unsupported("a row of several values", "Compare the columns one by one.")
        self.close(opening)
        return node

    def _case(self) -> Node:
        first = self.at
        self.at += 1
        subject = None if self.word() == "WHEN" else self.required(self.condition)
        branches = []
        while self.take("WHEN"):
            when = self.required(self.condition)
            self.expect("THEN")
            branches.append((when, self.required(self.condition)))
        if not branches:
            raise self.expected("WHEN")
        default = self.required(self.condition) if self.take("ELSE") else None
        if not self.take("END"):
            raise self.expected("END" if default is not None else "WHEN, ELSE or END")
        return Case(subject, tuple(branches), default, span=self.since(first))

    # ---------------------------------------------------------------- calls

    def _call(self) -> Node:
        first = self.at
        name, _ = self.name("a function")
        opening = self.peek()
        self.at += 1
        node = self._special_call(name.upper(), opening, first)
        if node is None:
            is_distinct = self.take("DISTINCT")
            arguments = self._arguments()
            self.close(opening)
            node = CallNode(name, arguments, is_distinct, span=self.since(first))
        if self.word() in ("FILTER", "WITHIN", "IGNORE", "RESPECT") and self.word(1) in (
            "(",
            "GROUP",
            "NULLS",
        ):
            raise self.unsupported(f"{self.word()} after a function")
        if isinstance(node, CallNode) and self.take("OVER"):
            return self._over(node, first)
        return node

    def _arguments(self) -> tuple[Node, ...]:
        """Expressions separated by commas, up to a closing parenthesis; none is fine."""
        if self.word() == ")":
            return ()
        nodes = [self.required(self._argument)]
        while self.take(","):
            nodes.append(self.required(self._argument))
        return tuple(nodes)

    def _argument(self) -> Node | None:
        if self.word() in ("SELECT", "WITH"):
            raise self.unsupported("a query inside an expression", "Write a join.")
        node = self.condition()
        if self.word() == "=>":
            raise self.unsupported("a named argument", "Give the arguments in order.")
        if self.word() == "->":
            raise self.unsupported("a function as an argument")
        return node

    def _special_call(self, name: str, opening: Token, first: int) -> Node | None:
        """Calls with words between their arguments, which leave the cursor behind the closing parenthesis."""
        start = self.at
        function, arguments = name, self._worded_arguments(name)
        if name in ("CAST", "TRY_CAST"):
            operand = self.required(self.condition)
            self.expect("AS")
            to = self.type()
            self.close(opening)
            return Cast(operand, to, name == "TRY_CAST", span=self.since(first))
        if name == "EXTRACT":
            function, _ = self.name("a field such as YEAR")
            if function.lower() in ("second", "seconds", "s", "sec", "secs"):
                function = "extract second"  # with its fraction, which second() does not have
            self.expect("FROM")
            arguments = [self.required(self.value)]
        elif name == "TRIM":
            function, arguments = self._trim()
        if arguments is None:
            self.at = start
            return None
        self.close(opening)
        return CallNode(function.lower(), tuple(arguments), span=self.since(first))

    def _worded_arguments(self, name: str) -> list[Node] | None:
        """SUBSTRING(text FROM start [FOR length]) and POSITION(part IN text)."""
        if name not in ("SUBSTRING", "SUBSTR", "POSITION") or self.word() == ")":
            return None
        operand = self.required(self.value)
        if name == "POSITION":
            return [operand, self.required(self.value)] if self.take("IN") else None
        if not self.take("FROM"):
            return None
        arguments = [operand, self.required(self.value)]
        return [*arguments, self.required(self.value)] if self.take("FOR") else arguments

    def _trim(self) -> tuple[str, list[Node] | None]:
        """TRIM([BOTH | LEADING | TRAILING] [characters] FROM text)."""
        side = self.word()
        if side in _TRIMS and self.word(1) not in (")", ",", "."):
            self.at += 1
        else:
            side = "BOTH"
        characters = None if self.word() in ("FROM", ")") else self.value()
        if not self.take("FROM"):
            return "TRIM", None
        text = self.required(self.value)
        return _TRIMS[side], [text] if characters is None else [characters, text]

    def _over(self, function: CallNode, first: int) -> Node:
        opening = self.peek()
        if not self.take("("):
            raise self.unsupported(
                "a named window", "Write the window out: OVER (PARTITION BY … ORDER BY …)."
            )
        partition_by = self._by("PARTITION")
        order_by = self._by("ORDER", is_ordered=True)
        unit, frame = "", None
        if self.word() in ("ROWS", "RANGE"):
            unit = self.word()
            self.at += 1
            frame = self._frame()
        self.close(opening)
        return OverNode(function, partition_by, order_by, unit, frame, span=self.since(first))

    def _by(self, word: str, *, is_ordered: bool = False) -> tuple[Node, ...]:
        if not self.take(word):
            return ()
        self.expect("BY")
        nodes = []
        while True:
            nodes.append(self.required(self.condition))
            if is_ordered:
                if self.word() == "DESC" or self.word() == "NULLS":
                    raise self.unsupported(
                        f"ORDER BY … {self.word()}", "Windows look back in ascending order."
                    )
                self.take("ASC")
            if not self.take(","):
                return tuple(nodes)

    def _frame(self) -> tuple[Bound, Bound]:
        if self.take("BETWEEN"):
            start = self._bound()
            self.expect("AND")
            return start, self._bound()
        return self._bound(), Bound(None, "", span=self.here)

    def _bound(self) -> Bound:
        first = self.at
        if self.take("CURRENT", "ROW"):
            return Bound(None, "", span=self.since(first))
        amount = None if self.take("UNBOUNDED") else self.required(self.value)
        direction = self.word()
        if direction not in ("PRECEDING", "FOLLOWING"):
            raise self.expected("PRECEDING or FOLLOWING")
        self.at += 1
        return Bound(amount, direction, span=self.since(first))

    # ---------------------------------------------------------------- types

    def type(self) -> TypeText:
        """A type: a name, perhaps with parameters in ( ) or < >."""
        first = self.at
        if not self.is_name():
            raise self.expected(f"a type after {self.previous.text}")
        self.at += 1
        depth = 0
        while not self.is_at_end and (depth or self.word() in ("(", "<")):
            depth += {"(": 1, "<": 1, ")": -1, ">": -1, ">>": -2}.get(self.word(), 0)
            self.at += 1
            if depth <= 0:
                break
        self.read_as_written.update(
            t.constant for t in self.tokens[first : self.at] if t.constant is not None
        )
        span = self.since(first)
        return TypeText(self.text[span.start : span.end], span=span)
