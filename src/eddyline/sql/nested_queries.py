"""Queries inside queries: a text divided into its SELECTs, each of which is parsed alone.

    query   [WITH name [(columns)] [AS] (query), …] part {UNION [ALL | DISTINCT] part}
    part    SELECT …  |  (query)

Where a query stands inside a SELECT, the parser sees one token that is a name: FROM (query), EXISTS (query), IN (query).
Positions are those of the whole text. A query in any other place is left as it is, for `refusals` to refuse by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from eddyline.errors import ParseError, Span
from eddyline.sql.cursor import Cursor
from eddyline.sql.lexer import Token
from eddyline.sql.reading import AFTER_RARE_NAMES, RESERVED, words_of
from eddyline.sql.syntax import AnyQuery, CteNode, Exists, Node, QueryNode, UnionNode

_PLACEHOLDER = "`(SELECT …)`"
_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "QUALIFY")
_SET_OPERATORS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_NO_RECURSION = (
    "A standing query looks at each row once. Write the steps as queries of WITH, one after the other."
)

SelectReader = Callable[[Sequence[Token], Mapping[int, Node], str], QueryNode]


@dataclass(frozen=True, slots=True)
class _Part:
    """From where to where a part of a union reaches, and whether the UNION behind it is one without ALL."""

    first: int
    end: int
    is_distinct: bool = False


class NestedQueries:
    """The queries of one text. `read` makes the tree of a SELECT: of its tokens, the queries that some of them stand for, and
    what follows them in the text."""

    def __init__(self, text: str, tokens: Sequence[Token], read: SelectReader) -> None:
        self._text = text
        self._tokens = tokens
        self._read = read
        self._words = [*words_of(tokens), "", "", ""]
        self._closing: dict[int, int] = {}  # by opening parenthesis
        opened: list[int] = []
        for at, word in enumerate(self._words):
            if word == "(":
                opened.append(at)
            elif word == ")" and opened:
                self._closing[opened.pop()] = at

    def whole(self) -> AnyQuery:
        """The tree of the whole text."""
        return self._query(0, len(self._tokens))

    def _query(self, first: int, end: int) -> AnyQuery:
        """The query that the tokens from `first` to before `end` are."""
        ctes, at = self._ctes(first, end) if self._words[first] == "WITH" else ((), first)
        parts = list(self._parts(at, end))
        found = self._part(parts[0].first, parts[0].end)
        is_grown = False  # whether it is a union of parts of this query, which takes more of them
        for before, part in pairwise(parts):
            query = self._part(part.first, part.end)
            if is_grown and isinstance(found, UnionNode) and (before.is_distinct or not found.is_distinct):
                found = replace(
                    found,
                    branches=(*found.branches, query),
                    is_distinct=before.is_distinct or found.is_distinct,
                )
            else:
                words = self._span(before.end, part.first - 1)
                found = UnionNode((found, query), is_distinct=before.is_distinct, span=words)
            is_grown = True
        return replace(found, ctes=(*ctes, *found.ctes)) if ctes else found

    def _ctes(self, first: int, end: int) -> tuple[tuple[CteNode, ...], int]:
        """The queries of WITH, and the place after them."""
        cursor = Cursor(self._text, self._tokens, first, end)
        cursor.expect("WITH")
        if cursor.word() == "RECURSIVE" and cursor.word(1) not in ("AS", "("):
            raise cursor.unsupported_error("WITH RECURSIVE", _NO_RECURSION)
        ctes: list[CteNode] = []
        while not ctes or cursor.take(","):
            name, span = cursor.name("a name after WITH" if not ctes else "a name after the comma", RESERVED)
            columns: list[str] = []
            if cursor.word() == "(" and not self._is_query(cursor.at):
                opening = cursor.peek()
                while cursor.take("(" if not columns else ","):
                    columns.append(cursor.name("a column")[0])
                cursor.close(opening)
            cursor.take("AS")
            opening_at = cursor.at
            if cursor.word() != "(" or self._closing.get(opening_at, end) >= end:
                raise cursor.expected_error(f"( and the query that {name} is")
            query = self._query(opening_at + 1, self._closing[opening_at])
            ctes.append(CteNode(name, tuple(columns), query, span=span))
            cursor.at = self._closing[opening_at] + 1
        return tuple(ctes), cursor.at

    def _parts(self, first: int, end: int) -> Iterator[_Part]:
        """The parts that UNION joins."""
        at = first
        while at < end:
            n_words = 1 + (self._words[at + 1] in ("ALL", "DISTINCT"))
            if self._words[at] == "UNION" and self._starts_query(at + n_words):
                yield _Part(first, at, is_distinct=self._words[at + 1] != "ALL")
                first = at = at + n_words
            at = self._closing.get(at, at) + 1
        yield _Part(first, end)

    def _part(self, first: int, end: int) -> AnyQuery:
        if self._closing.get(first) == end - 1 and self._is_query(first):
            return self._query(first + 1, end - 1)
        if first >= end:
            raise self._expected_select(end)
        return self._select(first, end)

    def _expected_select(self, at: int) -> ParseError:
        return Cursor(self._text, self._tokens, at).expected_error("SELECT")

    def _select(self, first: int, end: int) -> QueryNode:
        """The tree of a SELECT. What is nested in it is read first."""
        own: list[Token] = []
        nested: dict[int, Node] = {}
        clause, closings = "", list[int]()
        at = first
        while at < end:
            word, before = self._words[at], self._words[at - 1] if at > first else ""
            while closings and at > closings[-1]:
                closings.pop()
            if not closings and word in _CLAUSES and before != "DISTINCT":
                clause = word
            if word == "(" and at not in self._closing and self._starts_query(at + 1):
                Cursor(self._text, self._tokens, end, end).close(self._tokens[at])
            if word != "(" or not self._is_query(at):
                own.append(self._tokens[at])
                if at in self._closing:
                    closings.append(self._closing[at])
                at += 1
                continue
            closing = self._closing[at]
            is_input = before in ("FROM", "JOIN") or (before == "," and clause == "FROM")
            if before == "EXISTS":
                span = own.pop().span.to(self._tokens[closing].span)
                nested[len(own)] = Exists(self._query(at + 1, closing), span=span)
                own.append(Token(_PLACEHOLDER, span))
            elif before == "IN" or (is_input and not closings):
                nested[len(own) + (before == "IN")] = self._query(at + 1, closing)
                span = self._span(at, closing)
                placeholder = Token(_PLACEHOLDER, span)
                is_in = before == "IN"
                own += [self._tokens[at], placeholder, self._tokens[closing]] if is_in else [placeholder]
            else:
                own += self._tokens[at : closing + 1]
            at = closing + 1
        end_text = self._tokens[end].text if end < len(self._tokens) else "the end of the text"
        return self._read(own, nested, end_text)

    def _span(self, first: int, last: int) -> Span:
        return self._tokens[first].span.to(self._tokens[last].span)

    # ---------------------------------------------------------------- what is a query

    def _is_query(self, opening: int) -> bool:
        """Whether there is a query, and nothing else, in these parentheses."""
        while self._words[opening + 1] == "(" and opening + 1 in self._closing and opening in self._closing:
            after = self._words[self._closing[opening + 1] + 1]
            if after != ")" and after not in _SET_OPERATORS:
                return False
            opening += 1
        return opening in self._closing and self._starts_query(opening + 1)

    def _starts_query(self, at: int) -> bool:
        """Whether a query begins here, and not a value: SELECT and WITH can be names of columns."""
        word, after = self._words[at], self._words[at + 1]
        if word == "SELECT":
            return after not in AFTER_RARE_NAMES
        if word == "WITH":
            return self._words[at + 2] in ("AS", "(") or after == "RECURSIVE"
        return word == "(" and self._is_query(at)
