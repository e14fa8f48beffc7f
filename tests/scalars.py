"""Scalar expressions by themselves, read by the parser under test: over the columns of a schema, without a query around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from eddyline.errors import EddylineError, Span, UnknownNameError
from eddyline.model import Expression, Literal
from eddyline.nesting import deep_recursion
from eddyline.sql.bind import Binder, KnownFunctions
from eddyline.sql.constant_types import convert, list_like, meeting_type, typed_constant
from eddyline.sql.lexer import PARAMETER, Constant
from eddyline.sql.parse import parsed_text
from eddyline.sql.scope import Scope, ScopeSource
from eddyline.sql.tree import expression_tree


class LiteralConstants:
    """Every constant stays a literal."""

    def __init__(self, constants: Sequence[Constant], time_zone: str) -> None:
        self._constants = constants
        self._time_zone = time_zone

    def expression(self, number: int, span: Span) -> Expression:
        constant = self._constants[number]
        if constant.kind == PARAMETER:
            raise UnknownNameError(f"there is no parameter {constant.raw}", span=span)
        t, value = typed_constant(constant, self._time_zone, span)
        return Literal(t, value, span=span)

    def meeting_type(self, constant: Expression, other: pa.DataType) -> pa.DataType | None:
        assert isinstance(constant, Literal)
        return meeting_type(constant.type, constant.value, other)

    def retyped_constant(self, constant: Expression, other: pa.DataType, to: pa.DataType) -> Expression:
        assert isinstance(constant, Literal)
        return Literal(
            list_like(constant.type, to),
            convert(constant.value, constant.type, to, self._time_zone, constant.span),
            span=constant.span,
        )

    def literal_value(self, number: int) -> Any:
        return typed_constant(self._constants[number], self._time_zone, None)[1]

    def as_literal(self, constant: Expression) -> Expression:
        return constant

    def pin(self, slots: Sequence[int]) -> None:
        raise AssertionError(f"{slots} are literals")


def scalar(
    text: str, schema: pa.Schema, *, functions: KnownFunctions | None = None, time_zone: str = "UTC"
) -> Expression:
    """One scalar expression over the columns of a schema, its constants as literals."""
    try:
        parsed = parsed_text(text, expression_tree)
        constants = LiteralConstants(parsed.constants, time_zone)
        with deep_recursion():
            return Binder(Scope([ScopeSource("", "", schema)]), constants, functions).bind(parsed.root)
    except EddylineError as error:
        raise error.located(text) from None
