"""Numbers, booleans and bytes to and from text, spelled as Spark and Java spell them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions import decimals
from eddyline.expressions.buffers import arrow, known_and, numbers, valid
from eddyline.expressions.conversions.conversion import (
    INVALID,
    OUT_OF_RANGE,
    Conversion,
    checked_conversion,
    one_by_one,
    patched_values,
)
from eddyline.expressions.frame import as_mask
from eddyline.types import BIGINT, BINARY, BOOLEAN, STRING, is_decimal, is_floating, is_integer

# What Spark trims around integers and booleans: white space and control characters of ASCII.
CONTROL = "".join(map(chr, range(33))) + "\x7f"
_JAVA_BLANK = "".join(map(chr, range(33)))  # what java.lang.String.trim takes away

# ------------------------------------------------------------------------------------- to text


def to_text(array: pa.Array) -> Conversion:
    """The values as text: 1.0E10 for a large DOUBLE, all digits of a DECIMAL, bytes read as UTF-8."""
    if is_floating(array.type):
        return Conversion(floating_text(array))
    if is_decimal(array.type):
        return Conversion(_decimal_text(array))
    if array.type == BINARY:
        return Conversion(_bytes_text(array))
    return Conversion(array.cast(STRING))


def floating_text(array: pa.Array) -> pa.Array:
    """Java's form: plain from 0.001 to below ten million, otherwise d.dddE±n; always a digit after the point."""
    values, known = numbers(array), valid(array)
    size = np.abs(values)
    is_plain = ((size >= 1e-3) & (size < 1e7)) | (size == 0)
    digits = arrow(values, known_and(known, is_plain), array.type).cast(STRING)
    digits = pc.if_else(
        pc.match_substring(digits, "."), digits, pc.binary_join_element_wise(digits, ".0", "")
    )
    others = known_and(known, ~is_plain)
    if not others.any():
        return digits
    read = array.type.to_pandas_dtype()
    spelled, _ = one_by_one(array.cast(STRING), others, lambda text: _java_exponent(str(text), read), STRING)
    return patched_values(digits, others, spelled)


def _java_exponent(shortest: str, read: Callable[[str], object]) -> str:
    """Java's spelling of a number outside 0.001 … 10⁷, from its shortest decimal digits."""
    special = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(shortest)
    if special is not None:
        return special
    value = Decimal(shortest)
    sign, digits, _ = value.as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    if len(text) == 1:  # Java shows two digits, and where the second is free, as in 4.9E-324, the nearest two
        nearest = f"{float(shortest):.1e}" if read is np.float64 else f"{float(np.float32(shortest)):.1e}"
        if read(nearest) == read(shortest):
            value = Decimal(nearest)
            text = "".join(map(str, value.as_tuple().digits)).rstrip("0")
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{value.adjusted()}"


def _decimal_text(array: pa.Array) -> pa.Array:
    text = array.cast(STRING)
    has_exponent = as_mask(pc.match_substring(text, "E"), len(text))
    if not has_exponent.any():
        return text
    plain, _ = one_by_one(array, has_exponent, lambda value: format(value, "f"), STRING)
    return patched_values(text, has_exponent, plain)


def _bytes_text(array: pa.Array) -> pa.Array:
    try:
        return array.cast(STRING)
    except pa.ArrowInvalid:  # some bytes are not UTF-8: mark what cannot be read
        everything = as_mask(array.is_valid(), len(array))
        text, _ = one_by_one(array, everything, lambda v: bytes(v).decode("utf-8", "replace"), STRING)  # type: ignore[call-overload]
        return patched_values(pa.nulls(len(array), STRING), everything, text)


# ------------------------------------------------------------------------------------- from text


def from_text(array: pa.Array, to: pa.DataType) -> Conversion:
    """Text read as a value of type `to`."""
    if to == BINARY:
        return Conversion(array.cast(BINARY))
    if to == BOOLEAN:
        return _to_boolean(array)
    if is_integer(to):
        return _to_integer(array, to)
    if is_decimal(to):
        return _to_decimal(array, to)
    return _to_floating(array, to)


@functools.cache
def _words_of_booleans() -> tuple[pa.Array, pa.Array]:
    """The words for true and for false; made when first needed, because Arrow loads pandas for its first array of objects."""
    return pa.array(["t", "true", "y", "yes", "1"]), pa.array(["f", "false", "n", "no", "0"])


def _to_boolean(array: pa.Array) -> Conversion:
    words = pc.ascii_lower(pc.utf8_trim(array, CONTROL))
    true, false = _words_of_booleans()
    is_true, is_false = pc.is_in(words, true), pc.is_in(words, false)
    bad = pc.and_(pc.is_valid(array), pc.invert(pc.or_(is_true, is_false)))
    return checked_conversion(
        pc.if_else(pc.is_valid(array), is_true, None), as_mask(bad, len(array)), INVALID
    )


_INTEGER = r"^[+-]?[0-9]+$"
_LONG_DIGITS = 19


def _to_integer(array: pa.Array, to: pa.DataType) -> Conversion:
    text = pc.utf8_trim(array, CONTROL)
    is_negative = pc.starts_with(text, "-")
    digits = pc.utf8_ltrim(pc.utf8_ltrim(text, "+-"), "0")
    length = pc.binary_length(digits)
    largest = pc.if_else(is_negative, "9223372036854775808", "9223372036854775807")
    fits = pc.or_(
        pc.less(length, _LONG_DIGITS), pc.and_(pc.equal(length, _LONG_DIGITS), pc.less_equal(digits, largest))
    )
    readable = pc.and_(pc.match_substring_regex(text, _INTEGER), fits)
    signed = pc.binary_join_element_wise(pc.if_else(is_negative, "-", ""), "0", digits, "")
    wide = pc.if_else(readable, signed, pa.scalar(None, STRING)).cast(BIGINT)
    stored = numbers(wide)
    narrow = stored.astype(to.to_pandas_dtype())
    known = as_mask(readable, len(array)) & (narrow == stored)
    bad = as_mask(pc.is_valid(array), len(array)) & ~known
    return checked_conversion(arrow(narrow, known, to), bad, INVALID)


_FLOATING = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
_HEXADECIMAL = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]*)\.?([0-9a-fA-F]*)[pP]([+-]?[0-9]+)[dDfF]?")
_SPELLED = {
    **{sign + "NaN": float("nan") for sign in ("", "+", "-")},
    "Infinity": float("inf"),
    "+Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_SPELLED_ANY_CASE = {
    **{word: float("inf") for word in ("inf", "+inf", "infinity", "+infinity")},
    **{word: float("-inf") for word in ("-inf", "-infinity")},
    "nan": float("nan"),
}


def _to_floating(array: pa.Array, to: pa.DataType) -> Conversion:
    text = pc.utf8_trim(array, _JAVA_BLANK)
    readable = pc.match_substring_regex(text, _FLOATING)
    plain = pc.utf8_rtrim(pc.if_else(readable, text, pa.scalar(None, STRING)), "dDfF")
    values = plain.cast(to)
    others = as_mask(pc.and_(pc.is_valid(array), pc.invert(readable)), len(array))
    if not others.any():
        return Conversion(values)
    spelled, bad = one_by_one(text, others, _special_floating, to)
    return checked_conversion(patched_values(values, others, spelled), bad, INVALID)


def _special_floating(text: object) -> float | None:
    """NaN, infinities and hexadecimal numbers, which are too rare for a path of their own."""
    word = str(text)
    known = _SPELLED.get(word, _SPELLED_ANY_CASE.get(word.lower()))
    if known is not None:
        return known
    hexadecimal = _HEXADECIMAL.fullmatch(word)
    if hexadecimal is None or not hexadecimal[2] + hexadecimal[3]:
        return None
    try:
        return float.fromhex(word.rstrip("dDfF") if word[-1] in "dDfF" else word)
    except OverflowError:
        return float("-inf") if hexadecimal[1] == "-" else float("inf")


_PLAIN_DECIMAL = r"^[+-]?([0-9]{1,18}(\.[0-9]{0,18})?|\.[0-9]{1,18})$"
_DECIMAL = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
)  # digits of any script, as in java.math.BigDecimal


def _to_decimal(array: pa.Array, to: pa.DataType) -> Conversion:
    text = pc.utf8_trim(array, _JAVA_BLANK)
    is_plain = pc.match_substring_regex(text, _PLAIN_DECIMAL)
    digits = pc.if_else(is_plain, text, pa.scalar(None, STRING)).cast(pa.decimal128(36, 18))
    values, bad = decimals.fit(digits, to)
    others = as_mask(pc.and_(pc.is_valid(array), pc.invert(is_plain)), len(array))
    if not others.any():
        return checked_conversion(values, bad, OUT_OF_RANGE)
    # Exponents, and more than 18 digits on one side of the point.
    read, unread = one_by_one(text, others, lambda word: _read_decimal(str(word), to), to)
    is_number = np.zeros(len(array), bool)
    is_number[others] = [
        _DECIMAL.fullmatch(word) is not None for word in text.filter(pa.array(others)).to_pylist()
    ]
    too_large = unread & is_number if bad is None else bad | (unread & is_number)
    fitting = checked_conversion(patched_values(values, others, read), too_large, OUT_OF_RANGE)
    malformed = others & ~is_number
    return Conversion(
        fitting.values, (*fitting.problems, *([(malformed, INVALID)] if malformed.any() else []))
    )


def _read_decimal(word: str, to: pa.DataType) -> Decimal | None:
    if _DECIMAL.fullmatch(word) is None:
        return None
    try:
        return decimals.rounded_decimal(Decimal(word), to)
    except InvalidOperation:
        return None
