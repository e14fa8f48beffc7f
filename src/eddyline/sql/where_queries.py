"""Queries in WHERE: EXISTS, NOT EXISTS and IN, which are semi and anti joins."""

from __future__ import annotations

from eddyline.errors import TypeMismatchError, UnsupportedError
from eddyline.model import Expression
from eddyline.sql import syntax
from eddyline.sql.bind import Binder
from eddyline.sql.bound_query import BoundQuery
from eddyline.sql.subqueries import conjuncts


def match_test(node: syntax.Node) -> tuple[syntax.Exists | syntax.InQuery, str, str]:
    """What a condition that is a query tests, how its input is joined, and how it was written."""
    is_negated = isinstance(node, syntax.Unary)
    test = node.operand if isinstance(node, syntax.Unary) else node
    assert isinstance(test, (syntax.Exists, syntax.InQuery)), test
    if is_negated and isinstance(test, syntax.InQuery):
        raise UnsupportedError(
            "NOT IN (SELECT …) is not supported",
            span=node.span,
            detail="One NULL in the column of the query, and NOT IN is never true.",
            hint="Write NOT EXISTS (SELECT 1 FROM b WHERE b.y = a.x).",
        )
    if isinstance(test, syntax.InQuery):
        return test, "left semi", "IN (SELECT …)"
    return (test, "left anti", "NOT EXISTS") if is_negated else (test, "left semi", "EXISTS")


def membership(node: syntax.InQuery, bound: BoundQuery, binder: Binder) -> Expression:
    """value = column, for IN (query)."""
    if len(bound.projection) > 1:
        raise TypeMismatchError(
            f"IN takes a query with one column, this one has {len(bound.projection)}",
            span=node.query.span,
            hint="Select the column that the value is compared with.",
        )
    binder.clause = "WHERE"
    return binder.equality(binder.bind(node.value), bound.projection[0].expression, node.span)


def split_where(where: syntax.Node | None) -> tuple[syntax.Node | None, list[syntax.Node]]:
    """The conditions of WHERE without queries, and those that are queries."""
    parts = conjuncts(where)
    nested = [part for part in parts if _is_nested(part)]
    if where is None or not nested:
        return where, []
    plain = tuple(part for part in parts if not _is_nested(part))
    if len(plain) <= 1:
        return (plain[0] if plain else None), nested
    return syntax.Chain("and", plain, span=where.span), nested


def _is_nested(node: syntax.Node) -> bool:
    is_negation = isinstance(node, syntax.Unary) and node.operator == "not"
    tested = node.operand if is_negation and isinstance(node, syntax.Unary) else node
    return isinstance(tested, (syntax.Exists, syntax.InQuery))
