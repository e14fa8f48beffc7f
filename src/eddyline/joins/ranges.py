"""Comparisons between two inputs by <, <=, > or >=: what an ordered index answers where no equality leads from one to the other.

Only comparisons that all queries of a signature have are used, between columns, or numbers that are cast to a wider type: what
cannot be in error. An index gives candidates. What is written decides, on all that is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from eddyline.expressions import FLIPPED
from eddyline.joins.join_tree import JoinTree
from eddyline.model import Call, Clause, Column, Expression, joined_name
from eddyline.types import BIGINT, DATE, DOUBLE, FLOAT, INT, SMALLINT, TIMESTAMP, TINYINT

RANGES = frozenset({"<", "<=", ">", ">="})
_ORDERED = (
    TINYINT,
    SMALLINT,
    INT,
    BIGINT,
    FLOAT,
    DOUBLE,
    DATE,
    TIMESTAMP,
)  # codes are in the order of values
_NUMBERS = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE)  # each can be cast to those behind it


@dataclass(frozen=True, slots=True)
class RangeKey:
    """`left_key <operator> right_key`, each over the own columns of an input."""

    left: int
    left_key: Expression
    operator: str
    right: int
    right_key: Expression


@dataclass(frozen=True, slots=True)
class RangeProbe:
    """How an input is looked up: rows of which `key` is in the range that some expressions over the origin bound."""

    key: Expression
    bounds: tuple[tuple[str, Expression], ...]  # the operator stands between the key and the expression


def range_keys(n_inputs: int, clauses: Iterable[Clause]) -> tuple[RangeKey, ...]:
    """Those of these conditions over joined rows that an ordered index can answer."""
    found = []
    for clause in clauses:
        condition = clause.atoms[0].condition if len(clause.atoms) == 1 else None
        if isinstance(condition, Call) and condition.function in RANGES:
            left, right = (_side(argument, n_inputs) for argument in condition.arguments)
            if left is not None and right is not None and left[0] != right[0]:
                found.append(RangeKey(*left, condition.function, *right))
    return tuple(found)


def range_probe(keys: Sequence[RangeKey], tree: JoinTree, place: int) -> RangeProbe | None:
    """How an input that no equality leads to is looked up from the origin; None: all of its rows are."""
    if tree.parents[place] != tree.origin or tree.child_keys[place]:
        return None
    found: dict[Expression, list[tuple[str, Expression]]] = {}
    for key in keys:
        if (key.left, key.right) == (place, tree.origin):
            found.setdefault(key.left_key, []).append((key.operator, key.right_key))
        elif (key.right, key.left) == (place, tree.origin):
            found.setdefault(key.right_key, []).append((FLIPPED[key.operator], key.left_key))
    if not found:
        return None
    # bounded on both sides rather than on one; of these the first
    chosen = max(found, key=lambda each: len({operator[0] for operator, _ in found[each]}))
    return RangeProbe(chosen, tuple(found[chosen]))


def _side(expression: Expression, n_inputs: int) -> tuple[int, Expression] | None:
    """The input that a column, or a number that was cast to a wider type, is of, and the expression over its own columns."""
    column, cast = expression, None
    if isinstance(expression, Call) and expression.function == "cast" and len(expression.arguments) == 1:
        column, cast = expression.arguments[0], expression
        if not _is_wider(column.type, cast.type):
            return None
    if not isinstance(column, Column) or expression.type not in _ORDERED:
        return None
    for place in range(n_inputs):
        own = joined_name(place, "")
        if column.name.startswith(own) and not column.name.startswith(f"{own}#"):
            column = replace(column, name=column.name.removeprefix(own))
            return place, column if cast is None else replace(cast, arguments=(column,))
    return None


def _is_wider(a: pa.DataType, b: pa.DataType) -> bool:
    return a in _NUMBERS and b in _NUMBERS and _NUMBERS.index(a) <= _NUMBERS.index(b)
