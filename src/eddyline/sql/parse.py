"""Text to syntax tree: limits first, then the grammar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from eddyline.errors import ParseError, Span
from eddyline.nesting import deep_recursion
from eddyline.sql import lexer, syntax
from eddyline.sql.lexer import Constant, Token
from eddyline.sql.tree import query_tree

_Root = TypeVar("_Root", bound=syntax.Node)


@dataclass(frozen=True, slots=True)
class ParsedText(Generic[_Root]):
    """A syntax tree and the constants its numbers refer to."""

    text: str
    root: _Root
    constants: Sequence[Constant]
    spans: Sequence[Span]  # of each constant
    tokens: Sequence[Token]
    read_as_written: frozenset[int]  # constants that are part of a type


def parse_query(text: str) -> ParsedText[syntax.AnyQuery]:
    """The tree of a query. Raises ParseError, LimitError, UnsupportedError."""
    return parsed_text(text, query_tree)


def parsed_text(
    text: str, build: Callable[[str, Sequence[Token], Sequence[Constant]], tuple[_Root, frozenset[int]]]
) -> ParsedText[_Root]:
    """The tree that `build` makes of a text."""
    tokens, constants = _tokens(text)
    with deep_recursion():
        root, read_as_written = build(text, tokens, constants)
    spans = [token.span for token in tokens if token.constant is not None]
    return ParsedText(text, root, constants, spans, tokens, read_as_written)


def _tokens(text: str) -> tuple[list[Token], list[Constant]]:
    tokens, constants = lexer.scan(text)
    lexer.check_length(text, constants)
    lexer.check_nesting(tokens)
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    if not tokens:
        raise ParseError(
            "the text is empty", span=Span(0, 1), hint="Write a query such as SELECT * FROM stream."
        )
    for token in tokens:
        if token.text == ";":
            raise ParseError("expected one statement, found another after ;", span=token.span)
    return tokens, constants
