"""The clauses of a query: SELECT … FROM … [JOIN …] [WHERE …] [GROUP BY …] [HAVING …] [QUALIFY …].

What Spark knows beyond that, and a standing query does not, is refused by name.
"""

from __future__ import annotations

from eddyline.errors import ParseError, Span, UnsupportedError
from eddyline.sql.grammar import RESERVED, ExpressionGrammar
from eddyline.sql.syntax import InputNode, Node, ProjectedNode, QueryNode, Star

_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "JOIN", "AS")
_JOINS = {
    ("JOIN",): "inner",
    ("INNER", "JOIN"): "inner",
    ("CROSS", "JOIN"): "cross",
    ("LEFT", "JOIN"): "left",
    ("LEFT", "OUTER", "JOIN"): "left",
    ("ANTI", "JOIN"): "left anti",
    ("LEFT", "ANTI", "JOIN"): "left anti",
    ("ASOF", "JOIN"): "asof",
}
_OTHER_JOINS = frozenset(("RIGHT", "FULL", "SEMI", "NATURAL"))
_CLAUSE_STARTS = frozenset(("FROM", "WHERE", "AS"))  # after AS any other word may be a name
# These words would be read as the alias of an input otherwise.
_NOT_ALIASES = RESERVED | {"LEFT", "RIGHT", "ASOF", "PIVOT", "UNPIVOT", "CLUSTER", "DISTRIBUTE", "FETCH"}
_NO_ORDER = "A standing query has no end, so its results come in the order they appear."
_REFUSED = {
    "ORDER": ("ORDER BY", _NO_ORDER),
    "SORT": ("SORT BY", _NO_ORDER),
    "CLUSTER": ("CLUSTER BY", _NO_ORDER),
    "DISTRIBUTE": ("DISTRIBUTE BY", _NO_ORDER),
    "LIMIT": ("LIMIT", "A standing query has no end. Read the newest results with latest(n)."),
    "FETCH": ("FETCH", "A standing query has no end. Read the newest results with latest(n)."),
    "OFFSET": ("OFFSET", "A standing query has no end. Read the newest results with latest(n)."),
    "UNION": ("UNION", "Register one query for each part."),
    "INTERSECT": ("INTERSECT", "Join the conditions with AND."),
    "EXCEPT": ("EXCEPT", "Write the condition with AND NOT."),
    "MINUS": ("MINUS", "Write the condition with AND NOT."),
    "WINDOW": ("WINDOW", "Write the window out after OVER."),
    "LATERAL": ("LATERAL", None),
    "TABLESAMPLE": ("TABLESAMPLE", None),
    "PIVOT": ("PIVOT", None),
    "UNPIVOT": ("UNPIVOT", None),
}
STATEMENTS = "SELECT, CREATE TABLE, CREATE VIEW, ALTER VIEW, DROP VIEW and DROP TABLE"


class QueryGrammar(ExpressionGrammar):
    """Reads one query."""

    def query(self) -> QueryNode:
        """The whole text as a query."""
        first = self.at
        self._start()
        projection = self._projection()
        inputs = self._inputs()
        where = self.required(self.condition) if self.take("WHERE") else None
        group_by: tuple[Node, ...] = ()
        if self.take("GROUP"):
            self.expect("BY")
            group_by = self._grouping()
        having = self.required(self.condition) if self.take("HAVING") else None
        qualify = self.required(self.condition) if self.take("QUALIFY") else None
        if not self.is_at_end:
            raise self._refusal()
        return QueryNode(projection, inputs, where, group_by, having, qualify, span=self.since(first))

    def _start(self) -> None:
        if self.take("SELECT"):
            if self.word() == "DISTINCT":
                raise self.unsupported(
                    "SELECT DISTINCT",
                    "Every matching row is a result. Group by the columns to see each once.",
                )
            self.take("ALL")
            return
        word = self.word()
        if word == "WITH":
            raise self.unsupported("WITH", "Write the conditions in one query.")
        if word in ("VALUES", "TABLE", "FROM"):
            raise self.unsupported(f"a query that starts with {word}", "Start with SELECT.")
        raise ParseError(
            f"expected SELECT, found {self.found()}",
            span=self.here,
            hint=f"Did you mean SELECT instead of {self.peek().text}?"
            if word[:3] in ("SEL", "SLE") or word.endswith("ECT")
            else f"Accepted statements are {STATEMENTS}.",
        )

    def _refusal(self) -> ParseError | UnsupportedError:
        known = _REFUSED.get(self.word())
        if known is not None:
            return self.unsupported(*known)
        if self.word() in ("WHERE", "GROUP", "HAVING", "QUALIFY", "FROM", "JOIN", "SELECT"):
            return ParseError(
                f"{self.word()} comes too late or twice",
                span=self.here,
                hint="The order is SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING, QUALIFY.",
            )
        return self.unexpected(_CLAUSES)

    # ---------------------------------------------------------------- SELECT

    def _projection(self) -> tuple[ProjectedNode, ...]:
        nodes = []
        while True:
            first = self.at
            expression = self.required(self.condition)
            alias = None
            if self.take("AS"):
                alias, _ = self.name("a name after AS", _CLAUSE_STARTS)
            elif self.is_name(_NOT_ALIASES):
                alias, _ = self.name("a name")
            if alias is not None and isinstance(expression, Star):
                raise ParseError("* cannot have a name", span=self.since(first))
            nodes.append(ProjectedNode(expression, alias, span=self.since(first)))
            if not self.take(","):
                return tuple(nodes)

    # ---------------------------------------------------------------- FROM

    def _inputs(self) -> tuple[InputNode, ...]:
        if not self.take("FROM"):
            if self.is_at_end:
                raise UnsupportedError(
                    "a query without FROM is not supported",
                    span=self.since(0),
                    hint="Say which stream it reads: SELECT … FROM stream.",
                )
            raise self._refusal()
        nodes = [self._input("")]
        while True:
            if self.take(","):
                nodes.append(self._input("cross"))
                continue
            join = self._join()
            if join is None:
                return tuple(nodes)
            nodes.append(self._input(join))

    def _join(self) -> str | None:
        for words, join in _JOINS.items():
            if self.take(*words):
                return join
        word = self.word()
        if word in _OTHER_JOINS or (word == "LEFT" and self.word(1) == "SEMI"):
            word = f"{word} SEMI" if word == "LEFT" else word
            raise self.unsupported(f"{word} JOIN", "Write JOIN, LEFT JOIN, LEFT ANTI JOIN or ASOF JOIN.")
        return None

    def _input(self, join: str) -> InputNode:
        first = self.at
        if self.word() == "STREAM" and self.is_name(_NOT_ALIASES, ahead=1) and self.word(1) != "AS":
            self.at += 1
        if self.word() == "(":
            raise self.unsupported("a query in FROM", "Name a stream; write the conditions in one query.")
        if self.word() in ("LATERAL", "VALUES") and self.word(1):
            raise self.unsupported(self.word(), "Name a stream.")
        recent: Node | None = None
        if self.word() == "RECENT" and self.word(1) == "(":
            self.at += 1
            opening = self.peek()
            self.at += 1
            stream, stream_span = self._stream()
            self.expect(",")
            recent = self.required(self.value)
            self.close(opening)
        else:
            stream, stream_span = self._stream()
            if self.word() == "(":
                raise ParseError(
                    f"{stream} is not a table function",
                    span=stream_span,
                    hint="The only one is recent(stream, 100).",
                )
        alias = stream
        if self.take("AS"):
            alias, _ = self.name("a name after AS", _NOT_ALIASES)
        elif self.is_name(_NOT_ALIASES) and not self._is_misspelt_clause():
            alias, _ = self.name("a name")
        on, using = self._join_condition(join)
        return InputNode(stream, stream_span, alias, recent, join, on, using, span=self.since(first))

    def _stream(self) -> tuple[str, Span]:
        stream, span = self.name(f"a stream after {self.previous.text}", _NOT_ALIASES)
        while self.take("."):
            part, end = self.name("a name after .")
            stream, span = f"{stream}.{part}", span.to(end)
        return stream, span

    def _is_misspelt_clause(self) -> bool:
        """Whether what looks like an alias is followed by something no alias is followed by."""
        after = self.peek(1)
        return bool(after.text) and (
            after.constant is not None
            or (self.is_name(_NOT_ALIASES, ahead=1) and self.word(1) not in ("ASOF", "LEFT"))
        )

    def _join_condition(self, join: str) -> tuple[Node | None, tuple[tuple[str, Span], ...]]:
        if join in ("", "cross"):
            return None, ()
        if self.take("ON"):
            return self.required(self.condition), ()
        opening = self.peek(1)
        if self.take("USING", "("):
            names = [self.name("a column")]
            while self.take(","):
                names.append(self.name("a column"))
            self.close(opening)
            return None, tuple(names)
        raise self.expected("ON or USING", hint="A join needs a condition.")

    def _grouping(self) -> tuple[Node, ...]:
        if self.word() in ("ALL", "ROLLUP", "CUBE", "GROUPING"):
            raise self.unsupported(f"GROUP BY {self.word()}", "List the columns.")
        nodes = [self.required(self.condition)]
        while self.take(","):
            nodes.append(self.required(self.condition))
        return tuple(nodes)
