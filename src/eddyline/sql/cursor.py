"""A place in a list of tokens: what a hand-written grammar needs to move along and to complain well."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.errors import ParseError, Span, UnsupportedError, nearest
from eddyline.sql.lexer import Token

_END = Token("", Span(0, 0))


class Cursor:
    """Walks tokens. Words are compared in capitals; a backquoted name or a constant is never a word."""

    def __init__(self, text: str, tokens: Sequence[Token], at: int = 0, end: int | None = None) -> None:
        self.text = text
        self.tokens = tokens
        self.at = at
        self.end = len(tokens) if end is None else end

    # ---------------------------------------------------------------- looking

    def peek(self, ahead: int = 0) -> Token:
        """The token `ahead` of the current one; past the end, an empty one."""
        place = self.at + ahead
        return self.tokens[place] if place < self.end else _END

    def word(self, ahead: int = 0) -> str:
        """The token in capitals, or nothing if it is a backquoted name, a constant or the end."""
        token = self.peek(ahead)
        return "" if token.constant is not None or token.text[:1] == "`" else token.text.upper()

    def is_name(self, reserved: frozenset[str] = frozenset(), ahead: int = 0) -> bool:
        """Whether the token can be a name."""
        token = self.peek(ahead)
        if token.text[:1] == "`":
            return True
        word = self.word(ahead)
        return bool(word) and (word[0].isalpha() or word[0] == "_") and word not in reserved

    @property
    def is_at_end(self) -> bool:
        return self.at >= self.end

    @property
    def previous(self) -> Token:
        return self.tokens[self.at - 1]

    @property
    def here(self) -> Span:
        """The current token; at the end, the place just after the last one."""
        if not self.is_at_end:
            return self.peek().span
        end = self.tokens[self.end - 1].span.end if self.end else 0
        return Span(end, end + 1)

    def since(self, first: int) -> Span:
        """From token number `first` up to here."""
        return Span(self.tokens[first].span.start, self.previous.span.end)

    # ---------------------------------------------------------------- moving

    def take(self, *words: str) -> bool:
        """Move past these words if they come next."""
        if all(self.word(n) == word for n, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        """Move past these words, which must come next."""
        for word in words:
            if not self.take(word):
                raise self.expected_error(word)

    def name(self, what: str, reserved: frozenset[str] = frozenset()) -> tuple[str, Span]:
        """A name and its position."""
        if not self.is_name(reserved):
            raise self.expected_error(what)
        token = self.peek()
        self.at += 1
        text = token.text
        return (text[1:-1].replace("``", "`") if text[0] == "`" else text), token.span

    def close(self, opening: Token) -> None:
        """Move past the parenthesis or bracket that closes `opening`."""
        closing = "]" if opening.text == "[" else ")"
        if not self.take(closing):
            start = opening.span.start
            line = self.text.count("\n", 0, start) + 1
            column = start - (self.text.rfind("\n", 0, start) + 1) + 1
            raise self.expected_error(f"{closing} for the {opening.text} at line {line}, column {column}")

    # ---------------------------------------------------------------- complaining

    def token_text(self) -> str:
        """The current token as a message names it."""
        if self.is_at_end:
            return "the end of the text"
        token = self.peek()
        return token.text if len(token.text) <= 40 else f"{token.text[:37]}…"

    def expected_error(self, what: str, *, hint: str | None = None) -> ParseError:
        return ParseError(f"expected {what}, found {self.token_text()}", span=self.here, hint=hint)

    def unexpected_error(self, keywords: Sequence[str]) -> ParseError:
        """The current token has no business here; perhaps it, or the one before, is a misspelt keyword."""
        for back in (0, 1):
            token = self.peek(-back) if self.at - back >= 0 else _END
            near = (
                nearest(token.text, keywords) if token.text[:1].isalpha() and token.constant is None else None
            )
            if near is not None and near != token.text.upper():
                return ParseError(
                    f"{self.token_text()} was not expected here",
                    span=token.span,
                    hint=f"Did you mean {near} instead of {token.text}?",
                )
        return ParseError(f"{self.token_text()} was not expected here", span=self.here)

    def unsupported_error(self, what: str, hint: str | None = None) -> UnsupportedError:
        return UnsupportedError(f"{what} is not supported", span=self.here, hint=hint)
