"""Text to Query.

Enters: the text a user wrote, the schemas of the streams it names, the functions that are registered. Leaves: statements,
or the bound and normalised `Shape` of a query with the values of its slots; never a syntax tree. Every refusal is an
`EddylineError` that points into the user's text.

A text passes `lexer` (constants out, skeleton left), and only if its skeleton is new also `reading`, sqlglot under our
`dialect` and `tree` (syntax), `scope`, `bind` and `select` (names and types), `normalise` (clauses of atoms) and, with several
inputs, `joins` (keys and windows). `templates` remembers.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eddyline.durations import duration_us
from eddyline.errors import EddylineError, Span
from eddyline.model import Expression
from eddyline.nesting import deep_recursion
from eddyline.sql.bind import Binder, Functions, LiteralConstants
from eddyline.sql.lexer import scan, text_of
from eddyline.sql.normalise import normalise
from eddyline.sql.parse import parse_expression
from eddyline.sql.properties import properties, size_bytes
from eddyline.sql.render import render
from eddyline.sql.scope import Scope, Source
from eddyline.sql.statements import (
    AlterView,
    AnyStatement,
    CreateStream,
    CreateView,
    Drop,
    Select,
    parse_statements,
)
from eddyline.sql.templates import Shapes
from eddyline.sql.unbuilt import refuse_unbuilt

__all__ = [
    "AlterView",
    "AnyStatement",
    "CreateStream",
    "CreateView",
    "Drop",
    "Select",
    "Shapes",
    "duration_us",
    "normalise",
    "parse_statements",
    "properties",
    "refuse_unbuilt",
    "render",
    "scalar",
    "size_bytes",
    "words",
]


def scalar(
    text: str, schema: pa.Schema, *, functions: Functions | None = None, time_zone: str = "UTC"
) -> Expression:
    """One scalar expression over the columns of a schema, its constants as literals."""
    try:
        parsed = parse_expression(text)
        constants = LiteralConstants(parsed.constants, time_zone)
        with deep_recursion():
            return Binder(Scope([Source("", "", schema)]), constants, functions).bind(parsed.root)
    except EddylineError as error:
        raise error.located(text) from None


def words(text: str, parts: Sequence[Span]) -> dict[Span, str]:
    """What a query's text says in spans of tokens, such as the clauses of its shape have."""
    tokens, _ = scan(text)
    return {part: text_of(part, text, tokens) for part in parts}
