"""LIKE and ILIKE: % stands for any text, _ for any one character, the escape character takes that meaning away."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import lru_cache, partial

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import TypeMismatchError, UnsupportedError
from eddyline.expressions.frame import Evaluation, Frame, RowError
from eddyline.expressions.function import function
from eddyline.expressions.limits import LONGEST_PATTERN, TOO_LONG
from eddyline.expressions.lowerings.parameters import takes, text
from eddyline.expressions.lowerings.patterns import pattern_test
from eddyline.expressions.lowerings.strings import lower
from eddyline.model import Call, Expression, Literal
from eddyline.types import BOOLEAN

_ANY, _ONE = object(), object()


@lru_cache(maxsize=4096)
def like_parts(pattern: str, escape: str) -> tuple[object, ...]:
    """The pattern as texts, `_ANY` and `_ONE`. Raises RowError where the escape character escapes nothing."""
    if len(pattern) > LONGEST_PATTERN:
        message = f"the pattern of LIKE has {len(pattern):,} characters; at most {LONGEST_PATTERN:,} are read"
        raise RowError(TOO_LONG, message)
    parts: list[object] = []
    characters = iter(pattern)
    for c in characters:
        if c == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise RowError(
                    "INVALID_FORMAT.ESC_AT_THE_END", f"the pattern {pattern!r} ends in its escape character"
                )
            if escaped not in ("_", "%", escape):
                raise RowError(
                    "INVALID_FORMAT.ESC_IN_THE_MIDDLE",
                    f"the escape character in {pattern!r} may stand before _, % and itself, not before {escaped!r}",
                )
            parts.append(escaped)
        elif c == "%":
            if not parts or parts[-1] is not _ANY:
                parts.append(_ANY)
        else:
            parts.append(_ONE if c == "_" else c)
    joined: list[object] = []
    for is_text, run in itertools.groupby(parts, lambda part: isinstance(part, str)):
        together = list(run)
        joined += ["".join(map(str, together))] if is_text else together
    return tuple(joined)


def like(values: pa.Array, pattern: str, escape: str = "\\") -> pa.Array:
    """Whether each text as a whole is like the pattern."""
    parts = like_parts(pattern, escape)
    is_text = [isinstance(part, str) for part in parts]
    if _ONE not in parts and sum(is_text) <= 1:
        word = next((part for part in parts if isinstance(part, str)), "")
        if parts == (_ANY,):
            return pc.if_else(values.is_valid(), True, pa.scalar(None, BOOLEAN))
        if parts in ((), (word,)):
            return pc.equal(values, pa.scalar(word))
        if parts == (word, _ANY):
            return pc.starts_with(values, word)
        if parts == (_ANY, word):
            return pc.ends_with(values, word)
        return pc.match_substring(values, word)
    body = "".join(re2_literal(p) if isinstance(p, str) else ".*" if p is _ANY else "." for p in parts)
    try:
        return pc.match_substring_regex(values, rf"(?s)\A{body}\z")
    except pa.ArrowInvalid as error:  # RE2 makes no program so large
        reason = str(error).rpartition(": ")[2]
        raise RowError(TOO_LONG, f"the pattern of LIKE has too many parts to be matched: {reason}") from None


def re2_literal(word: str) -> str:
    """A regular expression of RE2 that matches just this text."""
    return re.sub(r"[^\w\s]|[\n\x00]", lambda c: f"\\x{{{ord(c.group()):x}}}", word, flags=re.ASCII)


def _typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    typed_arguments, result = takes(text, text, text, result=BOOLEAN)(arguments)
    escape = "\\"
    if len(typed_arguments) == 3:
        value = typed_arguments[2].value if isinstance(typed_arguments[2], Literal) else None
        if value is None or len(value) != 1:
            raise TypeMismatchError("the escape of LIKE is one character", span=arguments[2].span)
        escape = value
    pattern = typed_arguments[1]
    if isinstance(pattern, Literal) and pattern.value is not None:
        try:
            like_parts(pattern.value, escape)
        except RowError as problem:
            raise UnsupportedError(problem.message, span=arguments[1].span) from None
    return typed_arguments, result


def _escape(expression: Call) -> str:
    if len(expression.arguments) < 3:
        return "\\"
    literal = expression.arguments[2]
    assert isinstance(literal, Literal)
    return str(literal.value)


@function(
    "like",
    typing=_typing,
    arguments=(2, 3),
    constants=(2,),
    signature="text LIKE pattern [ESCAPE character]",
    summary="Whether the whole text is like the pattern: % stands for any text, _ for one character.",
    is_operator=True,
)
def _like(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return pattern_test(arguments[0], arguments[1], frame, partial(like, escape=_escape(expression)))


@function(
    "ilike",
    typing=_typing,
    arguments=(2, 3),
    constants=(2,),
    signature="text ILIKE pattern [ESCAPE character]",
    summary="LIKE with both sides in lower case.",
    is_operator=True,
)
def _ilike(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    value, pattern = lower(arguments[0], frame), lower(arguments[1], frame)
    return pattern_test(value, pattern, frame, partial(like, escape=_escape(expression)))
