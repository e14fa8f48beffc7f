"""What a literal of the text means: its SQL type and its value, as Spark reads them."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from eddyline import types
from eddyline.errors import ParseError
from eddyline.expressions import cast, common_type, fold
from eddyline.model import Literal
from eddyline.sql import lexer
from eddyline.sql.lexer import Constant

_FIXED = {
    lexer.DOUBLE: types.DOUBLE,
    lexer.FLOAT: types.FLOAT,
    lexer.LONG: types.BIGINT,
    lexer.SHORT: types.SMALLINT,
    lexer.BYTE: types.TINYINT,
    lexer.STRING: types.STRING,
    lexer.BINARY: types.BINARY,
    lexer.DATE: types.DATE,
    lexer.TIMESTAMP: types.TIMESTAMP,
    lexer.TIMESTAMP_NTZ: types.TIMESTAMP_NTZ,
}
_LARGEST = {types.FLOAT: Decimal("3.4028234663852886E+38"), types.DOUBLE: Decimal("1.7976931348623157E+308")}
_AS_DOUBLE = "Write it with an exponent, such as 1e40, to make it a DOUBLE."
_MOST_MONTHS = (1 << 31) - 1
_MOST_US = (1 << 63) - 1
_INTEGER_BITS = {types.TINYINT: 8, types.SMALLINT: 16, types.INT: 32, types.BIGINT: 64}


def literal(constant: Constant, time_zone: str) -> tuple[pa.DataType, Any]:
    """Type and Python value of a constant that is not a parameter. A list gives its element type and a tuple."""
    if constant.is_list:
        return _list(constant, time_zone)
    return _scalar(constant.kind, constant.raw, time_zone)


def _list(constant: Constant, time_zone: str) -> tuple[pa.DataType, tuple[Any, ...]]:
    elements = lexer.list_elements(constant.raw)
    if constant.kind == lexer.STRING:
        return types.STRING, tuple(map(string_value, elements))
    if constant.kind == lexer.INTEGER:
        numbers = tuple(map(_integer, elements))
        low, high = min(numbers), max(numbers)
        return max(_integer_type(low), _integer_type(high), key=_digits), numbers
    scalars = [_scalar(lexer.kind_of(e), e, time_zone) for e in elements]
    common = common_type(t for t, _ in scalars)
    assert common is not None, f"{constant.kind} literals have a common type"
    return common, tuple(converted_value(v, t, common, time_zone) for t, v in scalars)


def _scalar(kind: str, raw: str, time_zone: str) -> tuple[pa.DataType, Any]:
    if kind == lexer.INTEGER:
        number = _integer(raw)
        return _integer_type(number), Decimal(number) if abs(number) >= 2**63 and number != -(
            2**63
        ) else number
    if kind == lexer.STRING:
        return types.STRING, string_value(raw)
    if kind == lexer.DECIMAL:
        try:
            exact = Decimal(raw[:-2] if raw[-1] in "dD" else raw)
        except InvalidOperation:  # its exponent has more than 18 digits
            raise ParseError(f"{raw} is out of the range of DECIMAL", hint=_AS_DOUBLE) from None
        return _decimal_type(exact, raw), exact
    if kind == lexer.INTERVAL:
        return interval(raw)
    t = _FIXED[kind]
    if kind in (lexer.DOUBLE, lexer.FLOAT):
        return t, _float_value(raw, t)
    if kind in (lexer.LONG, lexer.SHORT, lexer.BYTE):
        number = _integer(raw[:-1])
        if not -(1 << _INTEGER_BITS[t] - 1) <= number < 1 << _INTEGER_BITS[t] - 1:
            raise ParseError(f"{raw} does not fit {types.type_name(t)}")
        return t, number
    if kind == lexer.BINARY:
        digits = raw[2:-1]
        if re.fullmatch(r"[0-9a-fA-F]*", digits) is None:
            raise ParseError(f"{raw} is not a binary literal", hint="Write X'1F' with hexadecimal digits.")
        return t, bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
    return t, _moment(raw, t, time_zone)


def _float_value(raw: str, t: pa.DataType) -> float:
    """The nearest value of the type; of a FLOAT, too, in one step from the digits."""
    digits = raw.rstrip("dDfF")
    try:
        value = float(digits)
    except ValueError:
        raise ParseError(f"{raw} is not a number", hint="Write 1.5, 1e10 or 1.5e-3.") from None
    if math.isinf(value) or (value and Decimal(digits).copy_abs() > _LARGEST[t]):
        raise ParseError(f"{raw} does not fit {types.type_name(t)}")
    return value if t == types.DOUBLE else float(pa.scalar(digits).cast(t).as_py())


def _integer(digits: str) -> int:
    """The number that digits stand for. One that no type holds is refused before it is read, which takes long."""
    text = digits.strip()
    significant = text.lstrip("-").lstrip("0")
    if len(significant) > types.MAX_PRECISION:
        raise ParseError(
            f"{text} has {len(significant)} digits; a DECIMAL has at most {types.MAX_PRECISION}",
            hint=_AS_DOUBLE,
        )
    return int(significant or "0") * (-1 if text[0] == "-" else 1)


def _integer_type(number: int) -> pa.DataType:
    if -(2**31) <= number < 2**31:
        return types.INT
    if -(2**63) <= number < 2**63:
        return types.BIGINT
    return _decimal_type(Decimal(number), str(number))


def _decimal_type(number: Decimal, raw: str) -> pa.DataType:
    sign_digits_exponent = number.as_tuple()
    exponent = int(sign_digits_exponent.exponent)
    digits = len(sign_digits_exponent.digits)
    scale = max(0, -exponent)
    precision = max(digits + max(0, exponent), scale)
    if precision > types.MAX_PRECISION:
        raise ParseError(
            f"{raw} has {precision} digits; a DECIMAL has at most {types.MAX_PRECISION}",
            hint=_AS_DOUBLE,
        )
    return pa.decimal128(precision, scale)


def _digits(t: pa.DataType) -> int:
    return int(t.precision) + 100 if types.is_decimal(t) else types.INTEGER_DIGITS[t]


def _moment(raw: str, t: pa.DataType, time_zone: str) -> date | datetime | int:
    text = string_value(lexer.string_pieces(raw)[-1])
    value = fold(cast(Literal(types.STRING, text), t), time_zone=time_zone)
    if not isinstance(value, Literal) or value.value is None:
        name = types.type_name(t)
        raise ParseError(f"'{text}' is not a {name}", hint=f"Write {name} {_example(t)}.")
    return value.value


def _example(t: pa.DataType) -> str:
    return "'2024-02-29'" if t == types.DATE else "'2024-02-29 13:45:00'"


def converted_value(value: Any, source: pa.DataType, target: pa.DataType, time_zone: str) -> Any:
    """The value as one of another type, by SQL's cast. Raises ParseError where there is none."""
    if source == target or value is None:
        return value
    if target == types.DOUBLE and types.is_numeric(source):
        return float(value)
    if types.is_integer(source) and types.is_integer(target):
        return value
    if types.is_integer(source) and types.is_decimal(target):
        return Decimal(value)
    result = fold(cast(Literal(source, value), target), time_zone=time_zone)
    if not isinstance(result, Literal):
        hint = f"Write it as {_example(target)}." if types.is_temporal(target) else None
        raise ParseError(f"{value!r} is not a {types.type_name(target)}", hint=hint)
    return result.value


# ------------------------------------------------------------------------------------------------ strings

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def string_value(raw: str) -> str:
    """The text a string literal stands for; adjacent strings are joined."""
    quote = raw[0]
    inner = raw[2:-1] if quote in "rR" else raw[1:-1]
    if quote not in "rR" and (quote in inner or "\\" in inner):
        inner = "".join(map(_unquoted_text, lexer.string_pieces(raw)))
    return inner if inner.isascii() else _well_formed(inner)


def _well_formed(text: str) -> str:
    """The text with surrogate pairs joined; half of one is no character, and no UTF-8 can hold it."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise ParseError(
            "a string holds half of a surrogate pair", hint=r"Write both halves, or one \U0001f600."
        ) from None


def _unquoted_text(piece: str) -> str:
    quote = piece[0]
    inner = piece[1:-1].replace(quote * 2, quote)
    return _ESCAPE.sub(_unescaped_text, inner) if "\\" in inner else inner


def _unescaped_text(match: re.Match[str]) -> str:
    code_point = match[1] or match[2]
    if code_point:
        try:
            return chr(int(code_point, 16))
        except (ValueError, OverflowError):
            raise ParseError(f"{match[0]} is not a character") from None
    if match[3]:
        return chr(int(match[3], 8))
    return _ESCAPED.get(match[4], match[4])


# ------------------------------------------------------------------------------------------------ intervals

_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_MONTHS = {"month": 1, "year": 12}
_PART = re.compile(
    r"([+-]?)\s*(?:(\d+(?:\.\d+)?)|'([^']*)'|\"([^\"]*)\")\s*([a-z]+)(?:\s+to\s+([a-z]+))?", re.I
)
_WRITTEN_PART = re.compile(r"([+-]?)\s*(\d+(?:\.\d+)?)\s+([a-z]+)\s*", re.I)
_SPANS = {
    ("year", "month"): r"(?P<year>\d+)-(?P<month>\d+)",
    ("day", "hour"): r"(?P<day>\d+) (?P<hour>\d+)",
    ("day", "minute"): r"(?P<day>\d+) (?P<hour>\d+):(?P<minute>\d+)",
    ("day", "second"): r"(?P<day>\d+) (?P<hour>\d+):(?P<minute>\d+):(?P<second>\d+(?:\.\d+)?)",
    ("hour", "minute"): r"(?P<hour>\d+):(?P<minute>\d+)",
    ("hour", "second"): r"(?P<hour>\d+):(?P<minute>\d+):(?P<second>\d+(?:\.\d+)?)",
    ("minute", "second"): r"(?P<minute>\d+):(?P<second>\d+(?:\.\d+)?)",
}


def interval(raw: str) -> tuple[pa.DataType, Any]:
    """Type and value of an INTERVAL literal: a timedelta, or months as Arrow's interval."""
    body = re.sub(r"(?i)^interval\s*", "", re.sub(r"--[^\n]*|/\*.*?\*/", " ", raw, flags=re.DOTALL))
    amounts: list[tuple[str, Decimal]] = []
    if (whole := re.fullmatch(r"\s*([+-]?)\s*(?:'([^']*)'|\"([^\"]*)\")\s*", body)) is not None:
        amounts = _written_amounts(whole[2] or whole[3] or "", raw, sign=-1 if whole[1] == "-" else 1)
    else:
        for sign, number, single, double, unit, to in _PART.findall(body):
            factor = -1 if sign == "-" else 1
            text = number or (single or double).strip()
            if to:
                amounts += _spanned_amounts(text, unit, to, raw, factor)
            else:
                amounts.append((_unit(unit, raw), factor * _amount(text, raw)))
    months = sum((_MONTHS[u] * a for u, a in amounts if u in _MONTHS), Decimal(0))
    us = sum((_US[u] * a for u, a in amounts if u in _US), Decimal(0))
    if any(u in _MONTHS for u, _ in amounts) and any(u in _US for u, _ in amounts):
        raise ParseError(
            "an interval cannot mix months with days or smaller units",
            detail="A month has no fixed number of days.",
            hint="Add two intervals one after the other.",
        )
    if any(u in _MONTHS for u, _ in amounts):
        if months != int(months):
            raise ParseError(f"{raw} is not a whole number of months")
        if abs(months) > _MOST_MONTHS:
            raise ParseError(
                f"{raw} is longer than an interval can be", hint=f"At most {_MOST_MONTHS // 12:,} years."
            )
        return types.MONTHS, pa.MonthDayNano([int(months), 0, 0])
    if abs(us) > _MOST_US:
        days = _MOST_US // _US["day"]
        raise ParseError(f"{raw} is longer than an interval can be", hint=f"At most {days:,} days.")
    return types.INTERVAL, timedelta(microseconds=int(us))


def _written_amounts(text: str, raw: str, *, sign: int) -> list[tuple[str, Decimal]]:
    """Amounts of a string such as '1 day 2 hours'."""
    amounts, at = [], len(text) - len(text.lstrip())
    if text[at : at + 8].lower() == "interval":
        at += 8 + len(text[at + 8 :]) - len(text[at + 8 :].lstrip())
    while at < len(text):
        part = _WRITTEN_PART.match(text, at)
        if part is None:
            break
        amounts.append((_unit(part[3], raw), (-sign if part[1] == "-" else sign) * Decimal(part[2])))
        at = part.end()
    if not amounts or at < len(text):
        raise ParseError(
            f"{raw} is not an interval", hint="Write INTERVAL 10 MINUTES or INTERVAL '1 day 2 hours'."
        )
    return amounts


def _spanned_amounts(text: str, unit: str, to: str, raw: str, factor: int) -> list[tuple[str, Decimal]]:
    """Amounts of a form such as '1-2' YEAR TO MONTH."""
    pattern = _SPANS.get((_unit(unit, raw), _unit(to, raw)))
    if pattern is None:
        raise ParseError(f"an interval cannot go from {unit.upper()} to {to.upper()}")
    if text[:1] in ("-", "+"):
        factor, text = (-factor if text[0] == "-" else factor), text[1:]
    match = re.fullmatch(pattern, text)
    if match is None:
        raise ParseError(f"'{text}' is not an interval {unit.upper()} TO {to.upper()}")
    return [(name, factor * Decimal(value)) for name, value in match.groupdict().items()]


def _unit(word: str, raw: str) -> str:
    unit = word.lower().removesuffix("s")
    if unit not in _US and unit not in _MONTHS:
        raise ParseError(
            f"{word} is not a unit of intervals", hint=f"Units are {', '.join([*_MONTHS, *_US])}."
        )
    return unit


def _amount(text: str, raw: str) -> Decimal:
    if re.fullmatch(r"[+-]?\s*\d+(?:\.\d+)?", text) is None:
        raise ParseError(
            f"'{text}' is not a number", hint="Write INTERVAL 10 MINUTES or INTERVAL '1 day 2 hours'."
        )
    return Decimal(text.replace(" ", ""))
