"""Text as a whole: lengths, case, trimming, cutting, padding and joining. Positions count characters (code points)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions.coercion import cast, coerce, common_type
from eddyline.expressions.frame import Evaluation, Frame
from eddyline.expressions.function import function
from eddyline.expressions.limits import (
    LONGEST_REPEATED,
    check_elements,
    check_length,
    check_lengths,
    joined_lengths,
    n_bytes,
    value_bytes,
    where_fine,
)
from eddyline.expressions.lowerings.nested import Lists
from eddyline.expressions.lowerings.parameters import (
    argument_error,
    as_text,
    integer,
    takes,
    text,
    text_or_bytes,
)
from eddyline.expressions.lowerings.rowwise import is_ascii, rowwise
from eddyline.model import Call, Expression
from eddyline.types import BINARY, INT, STRING, is_nested

_MAX_INT = 2**31 - 1

# ------------------------------------------------------------------------------------------ lengths


def _register_length(
    *names: str, of_text: Callable[[Any], Any], of_bytes: Callable[[Any], Any], summary: str
) -> None:
    @function(
        *names,
        typing=takes(text_or_bytes, result=INT),
        arguments=1,
        signature=f"{names[0]}(text)",
        summary=summary,
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        values = arguments[0].values
        return Evaluation(of_bytes(values) if values.type == BINARY else of_text(values))


_register_length(
    "length",
    "char_length",
    "character_length",
    "len",
    of_text=pc.utf8_length,
    of_bytes=pc.binary_length,
    summary="Number of characters; of BINARY, of bytes.",
)
_register_length(
    "octet_length",
    of_text=pc.binary_length,
    of_bytes=pc.binary_length,
    summary="Number of bytes; text counts in UTF-8.",
)
_register_length(
    "bit_length",
    of_text=lambda values: pc.multiply(pc.binary_length(values), pa.scalar(8, INT)),
    of_bytes=lambda values: pc.multiply(pc.binary_length(values), pa.scalar(8, INT)),
    summary="Number of bits; text counts in UTF-8.",
)


# ------------------------------------------------------------------------------------------ case


def upper(value: Evaluation, frame: Frame) -> Evaluation:
    """In upper case by Unicode's full mapping: ß becomes SS."""
    # Arrow maps one character to one, and knows no SS; Python maps as Java does.
    return _cased_text(value, frame, pc.ascii_upper, str.upper)


def lower(value: Evaluation, frame: Frame) -> Evaluation:
    """In lower case by Unicode's full mapping: a Greek word's last Σ becomes ς."""
    return _cased_text(value, frame, pc.ascii_lower, str.lower)


def _cased_text(
    value: Evaluation, frame: Frame, of_ascii: Callable[[Any], Any], of_any: Callable[[str], str]
) -> Evaluation:
    if isinstance(value.values, pa.Array) and is_ascii(value.values):
        return Evaluation(of_ascii(value.values))
    return rowwise(of_any, [value], frame, STRING)


@function(
    "upper",
    "ucase",
    typing=takes(text, result=STRING),
    arguments=1,
    signature="upper(text)",
    summary="In upper case.",
)
def _upper(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return upper(arguments[0], frame)


@function(
    "lower",
    "lcase",
    typing=takes(text, result=STRING),
    arguments=1,
    signature="lower(text)",
    summary="In lower case.",
)
def _lower(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return lower(arguments[0], frame)


@function(
    "initcap",
    typing=takes(text, result=STRING),
    arguments=1,
    signature="initcap(text)",
    summary="The first letter after each space in title case, the others in lower case.",
)
def _initcap(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return rowwise(_capitalised_text, arguments, frame, STRING)


def _capitalised_text(value: str) -> str:
    words = value.split(" ")
    return " ".join(word[:1].title() + word.lower()[len(word[:1].lower()) :] for word in words)


# ------------------------------------------------------------------------------------------ trimming


@function(
    "btrim",
    typing=takes(text, text, result=STRING),
    arguments=(1, 2),
    signature="btrim(text [, characters])",
    summary="Without spaces (or any of these characters) at both ends.",
)
def _btrim(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return _trimmed_text(arguments, frame, pc.utf8_trim, str.strip)


def _register_trim(
    name: str, kernel: Callable[..., Any], method: Callable[[str, str], str], side: str
) -> None:
    @function(
        name,
        typing=takes(text, text, result=STRING),
        arguments=(1, 2),
        signature=f"{name}([characters,] text)",
        summary=f"Without spaces (or any of these characters) at {side}.",
        asked_first=(1,),
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        return _trimmed_text(arguments[::-1], frame, kernel, method)


_register_trim("trim", pc.utf8_trim, str.strip, "both ends")
_register_trim("ltrim", pc.utf8_ltrim, str.lstrip, "the start")
_register_trim("rtrim", pc.utf8_rtrim, str.rstrip, "the end")


def _trimmed_text(
    arguments: Sequence[Evaluation],
    frame: Frame,
    kernel: Callable[..., Any],
    method: Callable[[str, str], str],
) -> Evaluation:
    """Text first, then the characters to cut off, by default only the space."""
    values = arguments[0].values
    characters = arguments[1].values if len(arguments) == 2 else pa.scalar(" ")
    if not isinstance(characters, pa.Scalar) or not isinstance(values, pa.Array):
        return rowwise(method, [arguments[0], Evaluation(characters)], frame, STRING)
    if not characters.is_valid:
        return Evaluation(pa.scalar(None, STRING))
    return Evaluation(kernel(values, characters=characters.as_py()))


# ------------------------------------------------------------------------------------------ cutting


def text_slice(value: str | bytes, position: int, length: int) -> str | bytes:
    """The characters from `position`, which counts from 1, or back from the end; 0 is as good as 1."""
    start = position - 1 if position > 0 else len(value) + position if position < 0 else 0
    return value[max(start, 0) : max(start + length, 0)]


@function(
    "substring",
    "substr",
    typing=takes(text_or_bytes, rest=integer),
    arguments=(2, 3),
    signature="substring(text, start [, length])",
    summary="The part from `start` (the first character is 1, the last -1), of at most `length` characters.",
)
def _substring(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    whole = arguments[0].values
    position = arguments[1].values
    length = arguments[2].values if len(arguments) == 3 else pa.scalar(_MAX_INT, INT)
    is_constant = isinstance(position, pa.Scalar) and isinstance(length, pa.Scalar)
    if not is_constant or isinstance(whole, pa.Scalar):
        return rowwise(text_slice, [arguments[0], arguments[1], Evaluation(length)], frame, whole.type)
    if not position.is_valid or not length.is_valid:
        return Evaluation(pa.scalar(None, whole.type))
    return Evaluation(_constant_cut(whole, position.as_py(), length.as_py()))


def _constant_cut(whole: pa.Array, position: int, length: int) -> pa.Array:
    slices = pc.binary_slice if whole.type == BINARY else pc.utf8_slice_codeunits
    if length <= 0:
        return slices(whole, start=0, stop=0)
    if position < 0:
        stop = position + length
        return slices(whole, start=position, stop=stop if stop < 0 else None)
    start = max(position - 1, 0)
    return slices(whole, start=start, stop=start + length)


@function(
    "left",
    typing=takes(text_or_bytes, integer),
    arguments=2,
    signature="left(text, n)",
    summary="The first n characters.",
)
def _left(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return _substring([arguments[0], Evaluation(pa.scalar(1, INT)), arguments[1]], expression, frame)


@function(
    "right",
    typing=takes(text, integer, result=STRING),
    arguments=2,
    signature="right(text, n)",
    summary="The last n characters.",
)
def _right(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    n = arguments[1].values
    if isinstance(n, pa.Scalar) and n.is_valid and n.as_py() > 0:
        return _substring([arguments[0], Evaluation(pa.scalar(-n.as_py(), INT))], expression, frame)
    return rowwise(lambda whole, n: whole[-n:] if n > 0 else "", arguments, frame, STRING)


def _text_or_array(e: Expression) -> Expression:
    return e if pa.types.is_list(e.type) else text(e)


@function(
    "reverse",
    typing=takes(_text_or_array),
    arguments=1,
    signature="reverse(text or array)",
    summary="The characters, or the elements of an array, from last to first.",
)
def _reverse(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    values = arguments[0].values
    if values.type == STRING:
        return Evaluation(pc.utf8_reverse(values))
    lists = Lists.of(frame.array(values))
    from_the_end = np.repeat(lists.starts + lists.sizes, lists.sizes) - 1 - lists.places
    return Evaluation(lists.rebuilt(frame.array(values).values.take(pa.array(from_the_end))))


# ------------------------------------------------------------------------------------------ padding and repeating


def _register_pad(name: str, side: str, pad: Callable[[Any, Any], Any]) -> None:
    def padded(value: str | bytes, length: int, filler: str | bytes) -> str | bytes:
        missing = length - len(value)
        if missing <= 0 or not filler:
            return value[: max(length, 0)]
        if missing > LONGEST_REPEATED:
            check_length(name, length, LONGEST_REPEATED, "characters")
        fill: Any = filler * (missing // len(filler) + 1)
        return pad(value, fill[:missing])

    @function(
        name,
        typing=_padded_type,
        arguments=(2, 3),
        signature=f"{name}(text, length [, filler])",
        summary=f"The text cut, or filled at {side}, to this many characters.",
    )
    def lowering(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
        if len(arguments) == 2:
            filler = pa.scalar(b"\x00") if expression.type == BINARY else pa.scalar(" ")
            arguments = [*arguments, Evaluation(filler)]
        return rowwise(padded, arguments, frame, expression.type)


def _padded_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    whole = text_or_bytes(arguments[0])
    filler = [text(e) if whole.type == STRING else coerce(e, BINARY) for e in arguments[2:]]
    return [whole, integer(arguments[1]), *filler], whole.type


_register_pad("lpad", "the start", lambda value, fill: fill + value)
_register_pad("rpad", "the end", lambda value, fill: value + fill)


@function(
    "repeat",
    typing=takes(text, integer, result=STRING),
    arguments=2,
    signature="repeat(text, n)",
    summary="The text n times.",
)
def _repeat(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return rowwise(lambda value, n: _repeated_text("repeat", value, n), arguments, frame, STRING)


@function(
    "space",
    typing=takes(integer, result=STRING),
    arguments=1,
    signature="space(n)",
    summary="n spaces.",
)
def _space(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    return rowwise(lambda n: _repeated_text("space", " ", n), arguments, frame, STRING)


def _repeated_text(function: str, value: str, n: int) -> str:
    """The text n times; none at all below one."""
    check_length(function, n * len(value), LONGEST_REPEATED, "characters")
    return value * max(n, 0)


# ------------------------------------------------------------------------------------------ joining


def _joined_type(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
    types = {e.type for e in arguments}
    if types == {BINARY}:
        return arguments, BINARY
    if any(pa.types.is_list(t) for t in types):
        common = common_type(types)
        other = next((e for e in arguments if not pa.types.is_list(e.type)), arguments[-1])
        if common is None or not pa.types.is_list(other.type):
            raise argument_error("arrays of one kind", other)
        return [coerce(e, common) for e in arguments], common
    nested = next((e for e in arguments if is_nested(e.type)), None)
    if nested is not None:
        raise argument_error("a value that has a text", nested)
    return [as_text(e) for e in arguments], STRING


@function(
    "concat",
    "||",
    typing=_joined_type,
    arguments=(0, None),
    signature="concat(a, b, …) or a || b",
    summary="Texts, BINARY values or arrays one after the other; other values as their text.",
)
def _concat(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    if not arguments:
        return Evaluation(pa.scalar("", STRING))
    if pa.types.is_list(expression.type):
        return rowwise(_joined_lists, arguments, frame, expression.type)  # Arrow joins no lists
    parts = [a.values for a in arguments]
    if len(parts) == 1:
        return Evaluation(parts[0])
    errors = check_lengths("concat", joined_lengths(parts, frame.n_rows), frame)
    parts[0] = where_fine(parts[0], errors, frame)
    separator = pa.scalar(b"" if expression.type == BINARY else "", expression.type)
    return Evaluation(pc.binary_join_element_wise(*parts, separator, null_handling="emit_null"), errors)


def _joined_lists(*lists: list[Any]) -> list[Any]:
    check_elements("concat", sum(map(len, lists)))
    check_length("concat", sum(map(value_bytes, lists)))
    return [item for one in lists for item in one]


def _text_or_texts(e: Expression) -> Expression:
    if pa.types.is_list(e.type):
        if is_nested(e.type.value_type):
            raise argument_error("an array of texts", e)
        return cast(e, pa.list_(STRING), span=e.span)
    return as_text(e)


@function(
    "concat_ws",
    typing=takes(as_text, result=STRING, rest=_text_or_texts),
    arguments=(1, None),
    signature="concat_ws(separator, text or array, …)",
    summary="The texts and the elements of the arrays with the separator between them; NULLs are left out.",
    null_propagates=False,
)
def _concat_ws(arguments: Sequence[Evaluation], expression: Call, frame: Frame) -> Evaluation:
    separator, *parts = arguments
    columns = [frame.array(p) for p in parts]
    is_plain = isinstance(separator.values, pa.Scalar) and all(c.type == STRING for c in columns)
    if not columns or not is_plain:
        return rowwise(_joined_text, arguments, frame, STRING, takes_null=True)
    if not separator.values.is_valid:
        return Evaluation(pa.scalar(None, STRING))
    # Each part brings its separator, and the first one is cut off. (Arrow's own join loses rows of NULLs only.)
    empty = pa.scalar("", STRING)
    separators = [separator.values] * len(columns)
    errors = check_lengths("concat_ws", joined_lengths([*columns, *separators], frame.n_rows), frame)
    columns = [where_fine(column, errors, frame) for column in columns]
    led = [pc.binary_join_element_wise(separator.values, pc.fill_null(c, empty), empty) for c in columns]
    led = [pc.if_else(c.is_valid(), text, empty) for c, text in zip(columns, led, strict=True)]
    joined = pc.binary_join_element_wise(*led, empty) if len(led) > 1 else led[0]
    return Evaluation(pc.utf8_slice_codeunits(joined, start=len(separator.values.as_py())), errors)


def _joined_text(separator: str | None, *parts: str | list[str | None] | None) -> str | None:
    if separator is None:
        return None
    words: list[str] = []
    for part in parts:
        words += [w for w in ([part] if isinstance(part, str) else part or []) if w is not None]
    check_length("concat_ws", sum(map(n_bytes, words)) + n_bytes(separator) * len(words))
    return separator.join(words)
