"""Typing rules of functions: what each parameter takes. Text is never read as a number or a time without a CAST."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from eddyline.errors import TypeMismatchError
from eddyline.expressions.coercion import cast, coerce
from eddyline.expressions.function import Typing
from eddyline.model import Expression, Literal
from eddyline.types import (
    BIGINT,
    BINARY,
    DATE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    is_integer,
    is_nested,
    is_temporal,
    type_name,
)

Parameter = Callable[[Expression], Expression]


def takes(*parameters: Parameter, result: pa.DataType | None = None, rest: Parameter | None = None) -> Typing:
    """A rule of one parameter each; `rest` is for all arguments after them. No `result`: the type of the first argument."""

    def typing(arguments: Sequence[Expression]) -> tuple[Sequence[Expression], pa.DataType]:
        rules = (
            list(parameters) if rest is None else [*parameters, *[rest] * (len(arguments) - len(parameters))]
        )
        typed_arguments = [rule(e) for rule, e in zip(rules, arguments, strict=False)]
        return typed_arguments, typed_arguments[0].type if result is None else result

    return typing


def argument_error(what: str, e: Expression, hint: str | None = None) -> TypeMismatchError:
    """The refusal of an argument that is not `what`."""
    return TypeMismatchError(f"expected {what}, found {type_name(e.type)}", span=e.span, hint=hint)


def text(e: Expression) -> Expression:
    """STRING; anything else needs a CAST."""
    if e.type not in (STRING, NULL):
        hint = "Convert it first: CAST(… AS STRING)." if not is_nested(e.type) else None
        raise argument_error("STRING", e, hint)
    return coerce(e, STRING)


def text_or_bytes(e: Expression) -> Expression:
    """STRING or BINARY."""
    return e if e.type == BINARY else text(e)


def octets(e: Expression) -> Expression:
    """BINARY; the UTF-8 bytes of a STRING."""
    return cast(e, BINARY, span=e.span) if e.type == STRING else coerce(e, BINARY)


def as_text(e: Expression) -> Expression:
    """STRING; the usual text of any other scalar."""
    return cast(e, STRING, span=e.span) if e.type != NULL else coerce(e, STRING)


def integer(e: Expression) -> Expression:
    """INT; a BIGINT must be in its range when it comes."""
    if e.type != NULL and not is_integer(e.type):
        raise argument_error("a whole number", e)
    return cast(e, INT, span=e.span)


def whole_number(e: Expression) -> Expression:
    """The argument as BIGINT; refused if it is no integer."""
    if e.type != NULL and not is_integer(e.type):
        raise argument_error("a whole number", e)
    return coerce(e, BIGINT)


def exactly(to: pa.DataType) -> Parameter:
    """The type, or one that widens to it."""

    def rule(e: Expression) -> Expression:
        if e.type == STRING and to != STRING:
            raise argument_error(type_name(to), e, _cast_hint(e, to))
        return coerce(e, to)

    return rule


def day(e: Expression) -> Expression:
    """DATE; of a timestamp, its day in the session's time zone."""
    if e.type not in (NULL, DATE) and not is_temporal(e.type):
        raise argument_error("DATE", e, _cast_hint(e, DATE))
    return cast(e, DATE, span=e.span)


def instant(e: Expression) -> Expression:
    """TIMESTAMP; a date or a time without a zone is taken in the session's time zone."""
    if e.type != NULL and not is_temporal(e.type):
        raise argument_error("TIMESTAMP", e, _cast_hint(e, TIMESTAMP))
    return cast(e, TIMESTAMP, span=e.span)


def _cast_hint(e: Expression, to: pa.DataType) -> str | None:
    if e.type != STRING:
        return None
    if isinstance(e, Literal) and is_temporal(to):
        return f"Write {type_name(to)} '{e.value}'."
    return f"Convert the text first: CAST(… AS {type_name(to)})."
