"""Scalar expressions by themselves, read by the parser under test: over the columns of a schema, without a query around them."""

from __future__ import annotations

import pyarrow as pa

from eddyline.errors import EddylineError
from eddyline.model import Expression
from eddyline.nesting import deep_recursion
from eddyline.sql.bind import Binder, KnownFunctions, LiteralConstants
from eddyline.sql.parse import parse_expression
from eddyline.sql.scope import Scope, ScopeSource


def scalar(
    text: str, schema: pa.Schema, *, functions: KnownFunctions | None = None, time_zone: str = "UTC"
) -> Expression:
    """One scalar expression over the columns of a schema, its constants as literals."""
    try:
        parsed = parse_expression(text)
        constants = LiteralConstants(parsed.constants, time_zone)
        with deep_recursion():
            return Binder(Scope([ScopeSource("", "", schema)]), constants, functions).bind(parsed.root)
    except EddylineError as error:
        raise error.located(text) from None
