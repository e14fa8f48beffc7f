"""Finds the constants in a text without parsing it: one regular expression, one pass.

What is left when constants are taken out is the *skeleton*: tokens one space apart, each constant replaced by a tag of its
kind. Texts with the same skeleton are equal but for constants, so a skeleton is parsed and bound once. A registration that
meets a known skeleton costs only this pass.

A constant is a number (with its sign, where a minus is one), a string, a typed literal such as DATE '2024-02-29', a whole
INTERVAL, a named parameter, or an IN list of literals of one kind, which is a single constant however long it is.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eddyline.errors import LimitError, ParseError, Span
from eddyline.nesting import MAX_NESTING

MAX_TEXT_BYTES = 64 * 1024  # not counting long IN lists
MAX_LIST_BYTES = 16 * 1024 * 1024  # counting them
LONG_LIST = 9  # values from which on an IN list does not count towards the length of the text

# Kinds of constants. The kind is all a skeleton says about a constant.
INTEGER, DECIMAL, DOUBLE, FLOAT, LONG, SHORT, BYTE = (
    "int",
    "decimal",
    "double",
    "float",
    "long",
    "short",
    "byte",
)
STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ = "string", "binary", "date", "timestamp", "timestamp_ntz"
INTERVAL = "interval"  # never lifted: stays in the skeleton as written
PARAMETER = "parameter"

_GAP = r"(?:\s++|--[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+"
_QUOTED = r"""(?:'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+")"""
_NUMBER = r"(?:\d++(?:\.\d*+)?|(?<![\w\])`])\.\d++)(?:[eE][+-]?\d++)?(?:[bB][dD]|[lLsSyYfFdD])?(?!\w)"
_UNIT = r"(?i:year|month|week|day|hour|minute|second|millisecond|microsecond|nanosecond)[sS]?(?!\w)"
_AMOUNT = rf"[+-]?{_GAP}(?:\d++(?:\.\d++)?|{_QUOTED}){_GAP}{_UNIT}(?:{_GAP}(?i:to)(?!\w){_GAP}{_UNIT})?"
_INTERVAL = rf"(?i:interval)(?!\w){_GAP}(?:{_AMOUNT}(?:{_GAP}{_AMOUNT})*|[+-]?{_GAP}{_QUOTED})"
_TYPED = rf"(?i:date|timestamp(?:_ntz|_ltz)?){_GAP}{_QUOTED}"
_STRINGS = rf"{_QUOTED}(?:{_GAP}{_QUOTED})*+"
_ELEMENT = rf"(?:-?{_NUMBER}|{_STRINGS}|{_TYPED})"
_LIST = rf"(?i:in)(?!\w){_GAP}\({_GAP}{_ELEMENT}(?:{_GAP},{_GAP}{_ELEMENT})++{_GAP}\)"
_NAME = r"[^\W\d]\w*"
_BACKQUOTED = r"`(?:[^`]|``)++`"
_PATH = (
    rf"(?<=[\w`\])]):(?!:)(?:{_NAME}|{_BACKQUOTED})"
    rf"""(?:\.(?:\w++|{_BACKQUOTED})|\[\s*+(?:\d++|'[^']*+'|"[^"]*+")\s*+\])*+"""
)
_OPERATOR = r"<=>|<=|>=|<>|!=|==|\|\||::|->|=>|<<|>>"

# Group 1: words no constant starts with, which most tokens are; 2: constants, and what can only be an error; 3: the rest.
# What has no end goes on to the end of the text, so that the text is read once however many such openings it has.
_TOKEN = re.compile(
    rf"{_GAP}(?:"
    r"([A-CE-HJ-QSU-WYZa-ce-hj-qsu-wyz_]\w*+)"
    rf"|({_NUMBER}|\d\w*|{_STRINGS}|[rR]'[^']*+'|[rR]\"[^\"]*+\"|[xX]'[^']*+'|{_TYPED}|{_INTERVAL}|{_LIST}"
    rf"|(?<![\w`\])]):{_NAME}|['\"].*+|/\*.*+|`(?!(?:[^`]|``)++`).*+)"
    rf"|({_NAME}|{_BACKQUOTED}|{_PATH}|{_OPERATOR}|\S)"
    rf"|\Z)",
    re.DOTALL,
)
_INTEGER_LIST = re.compile(r"..\s*+\(\s*+-?[0-9]++(?:\s*+,\s*+-?[0-9]++)*+\s*+\)")
_STRING_LIST = re.compile(r"..\s*+\(\s*+'[^'\\]*+'(?:\s*+,\s*+'[^'\\]*+')*+\s*+\)")
_LIST_ELEMENT = re.compile(rf"{_GAP}(?:({_ELEMENT})|\w+|\S)", re.DOTALL)
_STRING = re.compile(_STRINGS, re.DOTALL)
_STRING_PIECE = re.compile(_QUOTED, re.DOTALL)

# Words after which a minus is a sign, not a subtraction.
_BEFORE_OPERAND = frozenset(
    [
        "SELECT",
        "DISTINCT",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "ON",
        "HAVING",
        "QUALIFY",
        "BY",
        "BETWEEN",
        "IN",
        "LIKE",
        "ILIKE",
        "RLIKE",
        "REGEXP",
        "WHEN",
        "THEN",
        "ELSE",
        "CASE",
        "DIV",
        "ESCAPE",
    ]
)


class Constant(NamedTuple):
    """A constant as written (for a parameter: its name). `is_list`: all values of an IN list."""

    kind: str
    raw: str
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class LexedText:
    """The skeleton of a text and its constants, in order."""

    skeleton: str
    constants: list[Constant]
    at: list[int]  # per constant, the number of the raw token it is


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text; `constant` is its number among the constants, or None."""

    text: str
    span: Span
    constant: int | None = None


def lex(text: str) -> LexedText:
    """Skeleton and constants of a text."""
    if len(text) > MAX_LIST_BYTES:
        raise LimitError(f"the text has {len(text):,} characters; at most {MAX_LIST_BYTES:,} bytes are read")
    words: list[str] = []
    constants: list[Constant] = []
    at: list[int] = []
    for n, (word, raw, other) in enumerate(_TOKEN.findall(text)):
        if word or other:
            words.append(word or other)
        elif raw:
            constant = _CLASSIFY.get(raw[0], _number)(raw)
            if constant.kind in _SIGNED and words and words[-1] == "-" and _is_sign(words):
                words.pop()
                constant = Constant(constant.kind, "-" + raw)
            constants.append(constant)
            at.append(n)
            words.append(_tag(constant))
    while words and words[-1] == ";":
        words.pop()
    return LexedText(" ".join(words), constants, at)


def scan(text: str) -> tuple[list[Token], list[Constant]]:
    """All tokens with their places in the text, and the constants among them."""
    try:
        lexed = lex(text)
    except ParseError as error:
        error.span = refused_at(text)
        raise
    numbers = {raw: k for k, raw in enumerate(lexed.at)}
    tokens: list[Token] = []
    for n, match in enumerate(_TOKEN.finditer(text)):
        if match.lastindex is None:
            continue
        start, end = match.span(match.lastindex)
        k = numbers.get(n)
        if k is not None and lexed.constants[k].raw[0] == "-" and lexed.constants[k].kind in _SIGNED:
            start = tokens.pop().span.start
        tokens.append(Token(text[start:end], Span(start, end), k))
    return tokens, lexed.constants


def _tag(constant: Constant) -> str:
    if constant.kind == INTERVAL:
        return constant.raw
    if constant.kind == PARAMETER:
        return f"?:{constant.raw}"
    return f"IN ?{constant.kind}*" if constant.is_list else f"?{constant.kind}"


def _is_sign(words: list[str]) -> bool:
    """Whether the minus at the end of `words` is the sign of the number that follows."""
    if len(words) == 1:
        return True
    before = words[-2]
    first = before[0]
    if first.isalpha() or first == "_":
        return before.upper() in _BEFORE_OPERAND
    return first not in ")]?`" and not (first == ":" and before not in (":", "::"))


# ------------------------------------------------------------------------------------------------ kinds


def _number(raw: str) -> Constant:
    if raw.isdigit() and raw.isascii():
        return Constant(INTEGER, raw)
    last = raw[-1].lower() if raw.isascii() else ""  # digits of another script are none of SQL's
    if last == "d":
        return Constant(DECIMAL if raw[-2] in "bB" else DOUBLE, raw)
    if last == "f":
        return Constant(FLOAT, raw)
    if last and last in "lsy" and raw[:-1].isdigit():
        return Constant({"l": LONG, "s": SHORT, "y": BYTE}[last], raw)
    if last.isdigit() or last == ".":
        if "e" in raw or "E" in raw:
            return Constant(DOUBLE, raw)
        if "." in raw:
            return Constant(DECIMAL, raw)
    raise ParseError(
        f"{raw} is neither a number nor a name",
        hint="A name that starts with a digit needs backquotes, such as `1st`.",
    )


def _string(raw: str) -> Constant:
    is_plain = raw[-1] == raw[0] and raw.count(raw[0]) == 2 and "\\" not in raw
    if not is_plain and _STRING.fullmatch(raw) is None:
        raise ParseError(f"the string that starts here has no closing {raw[0]}")
    return Constant(STRING, raw)


def _letter(raw: str) -> Constant:
    """A typed literal, a raw or binary string, an interval or a list: the word before the quote says which."""
    first = raw[0].lower()
    if raw[1] in "'\"":
        return Constant(BINARY if first == "x" else STRING, raw)
    if first == "d":
        return Constant(DATE, raw)
    if first == "t":
        return Constant(TIMESTAMP_NTZ if raw[9:13].lower() == "_ntz" else TIMESTAMP, raw)
    if raw[2] in "tT":
        return Constant(INTERVAL, raw)
    return _list(raw)


def _list(raw: str) -> Constant:
    if _INTEGER_LIST.fullmatch(raw):
        return Constant(INTEGER, raw, is_list=True)
    if _STRING_LIST.fullmatch(raw):
        return Constant(STRING, raw, is_list=True)
    kinds = set(map(kind_of, list_elements(raw)))
    if kinds <= _SIGNED and len(kinds) > 1:
        kinds = {DOUBLE if kinds & {DOUBLE, FLOAT} else DECIMAL if DECIMAL in kinds else LONG}
    if len(kinds) > 1:
        raise ParseError(
            f"the IN list mixes {' and '.join(sorted(kinds))} literals",
            hint="Write all its values the same way.",
        )
    return Constant(kinds.pop(), raw, is_list=True)


def kind_of(raw: str) -> str:
    """The kind of one literal, which may have a sign."""
    raw = raw.removeprefix("-")
    return _CLASSIFY.get(raw[0], _number)(raw).kind


def list_elements(raw: str) -> list[str]:
    """The elements of an IN list, as written."""
    if _INTEGER_LIST.fullmatch(raw):
        return raw[raw.index("(") + 1 : -1].split(",")
    return [e for e in _LIST_ELEMENT.findall(raw, raw.index("(")) if e]


def string_pieces(raw: str) -> list[str]:
    """The quoted strings in a literal, as written."""
    return _STRING_PIECE.findall(raw)


def _parameter(raw: str) -> Constant:
    return Constant(PARAMETER, raw[1:])


def _unterminated_constant(raw: str) -> Constant:
    what = "comment" if raw[0] == "/" else "name"
    raise ParseError(f"the {what} that starts here has no closing {'*/' if what == 'comment' else '`'}")


_CLASSIFY: dict[str, Callable[[str], Constant]] = {
    **dict.fromkeys("0123456789.", _number),
    **dict.fromkeys("'\"", _string),
    **dict.fromkeys("xXrRdDtTiI", _letter),
    ":": _parameter,
    "/": _unterminated_constant,
    "`": _unterminated_constant,
}
_SIGNED = frozenset((INTEGER, DECIMAL, DOUBLE, FLOAT, LONG, SHORT, BYTE))


_OPENING = re.compile(r"/\*|['\"`]")


def refused_at(text: str) -> Span | None:
    """The position of the token that `lex` refuses: the first that cannot be classified."""
    for match in _TOKEN.finditer(text):
        if match.lastindex == 2:
            try:
                _CLASSIFY.get(match.group(2)[0], _number)(match.group(2))
            except ParseError:
                start, end = match.span(2)
                opening = _OPENING.match(text, start)
                return Span(start, end if opening is None else opening.end())
    return None


# ------------------------------------------------------------------------------------------------ limits


def check_length(text: str, constants: list[Constant]) -> None:
    """Refuse a text that is too long, with and without its long IN lists."""
    if len(text) * 4 <= MAX_TEXT_BYTES:  # a character is at most four bytes
        return
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    for constant in constants:
        if constant.is_list and len(list_elements(constant.raw)) >= LONG_LIST:
            n_bytes -= len(constant.raw.encode("utf-8", "surrogatepass"))
    if n_bytes > MAX_TEXT_BYTES:
        raise LimitError(
            f"the text has {n_bytes:,} bytes; at most {MAX_TEXT_BYTES:,} are read",
            detail=f"IN lists of {LONG_LIST} or more literals are not counted.",
            hint="Many values belong in an IN list; many queries belong in a template with a parameter table.",
        )


_OPENS = frozenset(("(", "[", "CASE"))
_CLOSES = frozenset((")", "]", "END"))
_PREFIXES = frozenset(("NOT", "-", "+", "~", "!"))


def check_nesting(tokens: list[Token]) -> None:
    """Refuse parentheses, brackets, CASEs and prefix operators nested too deep."""
    depth = run = 0
    for token in tokens:
        word = token.text.upper()
        run = run + 1 if word in _PREFIXES else 0
        if word in _OPENS:
            depth += 1
        elif word in _CLOSES:
            depth = max(depth - 1, 0)  # END may be a name
        if depth + run > MAX_NESTING:
            raise LimitError(
                f"the text is nested deeper than {MAX_NESTING} levels",
                span=token.span,
                hint="Chains of AND and OR need no parentheses.",
            )


def tokens_of(span: Span | None, tokens: Sequence[Token]) -> Span | None:
    """A part of the text as a span of token numbers, which is the same in every text of the skeleton."""
    if span is None:
        return None
    first = bisect_left(tokens, span.start, key=lambda token: token.span.start)
    end = bisect_right(tokens, span.end, first, key=lambda token: token.span.end)
    return Span(first, end) if first < end else None


def text_of(tokens_span: Span, text: str, tokens: Sequence[Token]) -> str:
    """What a text says in a span of token numbers, on one line."""
    start, end = tokens[tokens_span.start].span.start, tokens[tokens_span.end - 1].span.end
    return " ".join(text[start:end].split())


def span_texts(text: str, parts: Sequence[Span]) -> dict[Span, str]:
    """What a query's text says in spans of tokens, such as the clauses of its shape have."""
    tokens, _ = scan(text)
    return {part: text_of(part, text, tokens) for part in parts}


def span_places(text: str, parts: Sequence[Span]) -> dict[Span, Span]:
    """Where in a query's text spans of tokens are."""
    tokens, _ = scan(text)
    return {part: tokens[part.start].span.to(tokens[part.end - 1].span) for part in parts}


def parameter_names(text: str) -> list[str]:
    """The named parameters of a text, each once, in the order of their first use."""
    return list(dict.fromkeys(each.raw for each in lex(text).constants if each.kind == PARAMETER))
