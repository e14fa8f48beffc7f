"""Which types meet where: Spark's ANSI least common type, implicit widening, and explicit casts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from eddyline.errors import Span, TypeMismatchError
from eddyline.expressions.folding import fold
from eddyline.model import Call, Expression, Literal
from eddyline.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER_DIGITS,
    INTEGER_RANK,
    INTERVAL,
    MAX_PRECISION,
    MONTHS,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    is_decimal,
    is_floating,
    is_integer,
    is_numeric,
    is_temporal,
    type_name,
)


def common_type(types: Iterable[pa.DataType]) -> pa.DataType | None:
    """The least type that holds values of all these types, or None if there is none."""
    common = NULL
    for t in types:
        wider = _wider(common, t)
        if wider is None:
            return None
        common = wider
    return common


def _wider(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    if is_numeric(a) and is_numeric(b):
        return _wider_number(a, b)
    if is_temporal(a) and is_temporal(b):
        return TIMESTAMP if TIMESTAMP in (a, b) else TIMESTAMP_NTZ
    if pa.types.is_list(a) and pa.types.is_list(b):
        item = _wider(a.value_type, b.value_type)
        return None if item is None else pa.list_(item)
    return None


def _wider_number(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if is_floating(a) or is_floating(b):  # a FLOAT cannot hold every INT, so even those two meet in DOUBLE
        return DOUBLE
    if is_integer(a) and is_integer(b):
        return max(a, b, key=INTEGER_RANK.__getitem__)
    a, b = as_decimal(a), as_decimal(b)
    integral = max(a.precision - a.scale, b.precision - b.scale)
    scale = min(max(a.scale, b.scale), MAX_PRECISION - integral)  # digits before the point come first
    return pa.decimal128(integral + scale, scale)


def as_decimal(t: pa.DataType) -> pa.DataType:
    """The DECIMAL that holds every value of an integer or decimal type."""
    return t if is_decimal(t) else pa.decimal128(INTEGER_DIGITS[t], 0)


def literal_as_decimal(t: pa.DataType, value: int) -> pa.DataType:
    """The DECIMAL of an integer literal beside a decimal: as many digits as it shows, but all of its type for a TINYINT."""
    return as_decimal(t) if t == TINYINT else pa.decimal128(len(str(abs(value))), 0)


def coerce(expression: Expression, to: pa.DataType) -> Expression:
    """The expression as a value of a wider type. Refuses what Spark would not widen by itself."""
    if expression.type == to:
        return expression
    if not _widens(expression.type, to):
        raise TypeMismatchError(
            f"expected {type_name(to)}, found {type_name(expression.type)}", span=expression.span
        )
    return cast(expression, to, span=expression.span)


def as_integer(expression: Expression, to: pa.DataType) -> Expression:
    """A number where a function takes an INT or BIGINT: Spark cuts off the fraction, and errs on rows out of range."""
    if expression.type != NULL and not is_numeric(expression.type):
        raise TypeMismatchError(
            f"expected {type_name(to)}, found {type_name(expression.type)}", span=expression.span
        )
    return cast(expression, to, span=expression.span)


def _widens(a: pa.DataType, b: pa.DataType) -> bool:
    if a == NULL:
        return True
    if is_integer(a):
        return (is_integer(b) and INTEGER_RANK[a] <= INTEGER_RANK[b]) or is_decimal(b) or is_floating(b)
    if is_decimal(a):
        return is_decimal(b) or is_floating(b)
    if is_floating(a):
        return b == DOUBLE
    if pa.types.is_list(a) and pa.types.is_list(b):
        return a.value_type == b.value_type or _widens(a.value_type, b.value_type)
    return (a == DATE and b in (TIMESTAMP, TIMESTAMP_NTZ)) or (a == TIMESTAMP_NTZ and b == TIMESTAMP)


def coerce_all(expressions: Sequence[Expression], what: str) -> tuple[list[Expression], pa.DataType]:
    """All expressions in their common type; `what` names the operation if there is none."""
    common = common_type(e.type for e in expressions)
    if common is None:
        raise incompatible(expressions, what)
    return [coerce(e, common) for e in expressions], common


def incompatible(expressions: Sequence[Expression], what: str) -> TypeMismatchError:
    """The refusal of types that have nothing in common."""
    types = list(dict.fromkeys(type_name(e.type) for e in expressions))
    last = expressions[-1]
    hint = "Both must be of one type: convert one of them with CAST."
    if "STRING" in types and len(types) > 1:
        other = next(e.type for e in expressions if e.type != STRING)
        hint = f"Convert the text first, such as CAST(… AS {type_name(other)})."
        text = next(e for e in expressions if e.type == STRING)
        if isinstance(text, Literal) and is_temporal(other):
            hint = f"Write {type_name(other)} '{text.value}'."
        last = text
    return TypeMismatchError(f"{what} cannot take {' and '.join(types)}", span=last.span, hint=hint)


def cast(
    expression: Expression, to: pa.DataType, *, is_try: bool = False, span: Span | None = None
) -> Expression:
    """The expression converted to a type: CAST, or TRY_CAST, which gives NULL instead of an error."""
    if expression.type == to:
        return expression
    if isinstance(expression, Literal) and expression.value is None:
        return Literal(to, None, span=expression.span)
    if not can_cast(expression.type, to):
        raise TypeMismatchError(
            f"cannot cast {type_name(expression.type)} to {type_name(to)}", span=span or expression.span
        )
    converted = Call(to, "try_cast" if is_try else "cast", (expression,), span=span or expression.span)
    return fold(converted) if isinstance(expression, Literal) else converted


def can_cast(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether SQL has an explicit cast from `a` to `b`."""
    if a in (NULL, b):
        return True
    if pa.types.is_list(a) and pa.types.is_list(b):
        return can_cast(a.value_type, b.value_type)
    if not _is_scalar(a) or not _is_scalar(b):
        return False
    if b == STRING:
        return a not in (INTERVAL, MONTHS)
    if a == STRING:
        return b not in (INTERVAL, MONTHS)
    if is_numeric(a):
        return is_numeric(b) or b in (BOOLEAN, TIMESTAMP)
    if a == BOOLEAN:
        return is_numeric(b)
    if a == TIMESTAMP:
        return is_temporal(b) or is_numeric(b)
    return is_temporal(a) and is_temporal(b)


def _is_scalar(t: pa.DataType) -> bool:
    return is_numeric(t) or is_temporal(t) or t in (BOOLEAN, STRING, BINARY, INTERVAL, MONTHS)
