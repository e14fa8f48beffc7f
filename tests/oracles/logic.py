"""Conditions by brute force: what a row does to a condition, from the truth of its leaves.

A leaf is true, false, NULL or in error. Read with its sign (a NOT above it turns true and false around), it is one of
PASSES, ERRS, FAILS, and AND is the least of its parts, OR the greatest; under a NOT the two change places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FAILS, ERRS, PASSES = 0, 1, 2
ERROR = "error"  # the value of a leaf that has none


@dataclass(frozen=True)
class Leaf:
    """A condition that is not taken apart: its SQL, and a function from a row to True, False, None or ERROR."""

    sql: str
    truth: Any


@dataclass(frozen=True)
class Not:
    part: Any


@dataclass(frozen=True)
class And:
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Any, ...]


def outcome(tree: Any, row: dict[str, Any], *, is_negated: bool = False) -> int:
    """What the row does to the condition."""
    if isinstance(tree, Not):
        return outcome(tree.part, row, is_negated=not is_negated)
    if isinstance(tree, Leaf):
        truth = tree.truth(row)
        if truth == ERROR:
            return ERRS
        return PASSES if truth is (not is_negated) else FAILS
    outcomes = [outcome(part, row, is_negated=is_negated) for part in tree.parts]
    takes_least = isinstance(tree, And) is not is_negated
    return min(outcomes) if takes_least else max(outcomes)


def sql_of(tree: Any) -> str:
    """The condition as SQL, every part in parentheses."""
    if isinstance(tree, Leaf):
        return tree.sql
    if isinstance(tree, Not):
        return f"NOT ({sql_of(tree.part)})"
    word = " AND " if isinstance(tree, And) else " OR "
    return word.join(f"({sql_of(part)})" for part in tree.parts)
