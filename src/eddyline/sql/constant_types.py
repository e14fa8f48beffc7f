"""Constants of a text: how they enter its expressions, and the types in which they meet what they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from eddyline import types
from eddyline.errors import ParseError, Span, TypeMismatchError
from eddyline.expressions import common_type, literal_as_decimal
from eddyline.model import Expression
from eddyline.sql.lexer import Constant
from eddyline.sql.literals import converted_value, literal


class Constants(Protocol):
    """How the constants of the text enter the expression: as literals, or as slots of a shape."""

    def expression(self, number: int, span: Span) -> Expression:
        """The expression in place of a constant: a literal or a slot."""

    def meeting_type(self, constant: Expression, other: pa.DataType) -> pa.DataType | None:
        """The type in which a constant from here and a value of type `other` are compared, or None."""

    def retyped_constant(self, constant: Expression, other: pa.DataType, to: pa.DataType) -> Expression:
        """The constant as a value of type `to`, because it is compared with a value of type `other`."""

    def literal_value(self, number: int) -> Any:
        """The value of a constant whose value decides what the text means."""

    def as_literal(self, constant: Expression) -> Expression:
        """The same constant for good, because it will meet several types."""

    def pin(self, slots: Sequence[int]) -> None:
        """Give literals for these slots from now on, because the bound form depends on their values."""


def typed_constant(constant: Constant, time_zone: str, span: Span | None) -> tuple[pa.DataType, Any]:
    """Type and value of a literal of the text; a list has a list type."""
    try:
        t, value = literal(constant, time_zone)
    except ParseError as error:
        error.span = error.span or span
        raise
    return (pa.list_(t) if constant.is_list else t), value


def convert(value: Any, source: pa.DataType, to: pa.DataType, time_zone: str, span: Span | None) -> Any:
    """A constant's value as one of another type; each element of a list."""
    try:
        if pa.types.is_list(source):
            return (
                None
                if value is None
                else tuple(converted_value(v, source.value_type, to, time_zone) for v in value)
            )
        return converted_value(value, source, to, time_zone)
    except ParseError as error:
        raise TypeMismatchError(error.problem, span=span, hint=error.hint) from None


def list_like(source: pa.DataType, to: pa.DataType) -> pa.DataType:
    return pa.list_(to) if pa.types.is_list(source) else to


def meeting_type(source: pa.DataType, value: Any, other: pa.DataType) -> pa.DataType | None:
    """Where a literal meets a value of another type: text meets moments as one of them, integers decimals by their digits."""
    if pa.types.is_list(source):
        source, value = (
            source.value_type,
            max(value, key=abs) if types.is_integer(source.value_type) else None,
        )
    if source == types.STRING and types.is_temporal(other):
        return other
    if types.is_integer(source) and types.is_decimal(other) and value is not None:
        source = literal_as_decimal(source, value)
    return common_type([other, source])
