"""Lays what sqlglot read on the tokens of the text, so that nothing a user wrote is lost on the way.

Each node knows the tokens it covers, between two parts is exactly the word that belongs there, and the whole covers the
whole text. What does not fit is refused, as is every part of a sqlglot node that is set and not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from eddyline.errors import ParseError, Span, UnsupportedError
from eddyline.sql.lexer import Constant, Token
from eddyline.sql.reading import TokenReading
from eddyline.sql.refusals import Refusals, shortened_text
from eddyline.sql.syntax import Node


class PlacedNode(NamedTuple):
    """A node and the tokens it covers, the parentheses around it included."""

    node: Any
    first: int
    last: int


class NodePlaces:
    """The places of one SELECT of a text, or of one expression."""

    def __init__(
        self,
        text: str,
        tokens: Sequence[Token],
        constants: Sequence[Constant],
        nested: Mapping[int, Node] | None = None,
        end_text: str = "the end of the text",
    ) -> None:
        """`nested` are the queries that single tokens stand for, `end_text` is what follows the last token."""
        self._text = text
        self._tokens = tokens
        self._nested = nested or {}
        self._reading = TokenReading(tokens, constants)
        self._words = self._reading.words
        self.refusals = Refusals(text, self._reading, end_text)

    def _span(self, first: int, last: int) -> Span:
        return Span(self._tokens[first].span.start, self._tokens[last].span.end)

    def _complaint(self, at: int) -> ParseError:
        return self.refusals.complaint(at)

    def _expect(self, at: int, *words: str) -> int:
        """Make sure that these words stand here; the place after them."""
        for word in words:
            if self._words[at] != word:
                raise self._complaint(at)
            at += 1
        return at

    def _at(self, placed: PlacedNode, at: int) -> PlacedNode:
        """Make sure that a node starts here."""
        if placed.first != at:
            raise self._complaint(at)
        return placed

    def _end(self, at: int) -> None:
        if at != len(self._tokens):
            raise self._complaint(at)

    def _place(self, e: exp.Expr) -> int:
        """The token that a sqlglot node was made of."""
        at = e.meta.get("start")
        if at is None:
            raise self._unknown_error(e)
        return int(at)

    def _unknown_error(self, e: exp.Expr) -> UnsupportedError:
        """A part that the parser knows and nothing here does."""
        places = [n.meta["start"] for n in e.walk() if "start" in n.meta] or [0, len(self._tokens) - 1]
        span = self._span(min(places), max(places))
        return UnsupportedError(
            f"{shortened_text(self._text[span.start : span.end])} is not supported", span=span
        )

    def _check_read(self, e: exp.Expr, *known: str) -> None:
        """Make sure that a sqlglot node says nothing but what is read here."""
        if any(value and key not in known for key, value in e.args.items()):
            raise self._unknown_error(e)

    def _listed_nodes(
        self, parts: Sequence[exp.Expr], at: int, place: Callable[[exp.Expr], PlacedNode]
    ) -> tuple[tuple[Any, ...], int]:
        """Nodes that stand one after the other from here on with commas between them; the place after the last."""
        nodes = []
        for n, part in enumerate(parts):
            placed = self._at(place(part), self._expect(at, ",") if n else at)
            nodes.append(placed.node)
            at = placed.last + 1
        return tuple(nodes), at

    def _one_or_more(
        self, parts: Sequence[exp.Expr], at: int, place: Callable[[exp.Expr], PlacedNode]
    ) -> tuple[tuple[Any, ...], int]:
        """The same, where there must be one at least."""
        if not parts:
            raise self._complaint(at)
        return self._listed_nodes(parts, at, place)
