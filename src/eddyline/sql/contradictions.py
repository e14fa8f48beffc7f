"""Conditions that can never be true, and clauses that always are.

Only clauses of one atom are compared, two by two, and only on attributes that cannot be in error: where the attribute has
no value the row belongs to the dead letters, also for a query that could not match it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from eddyline.expressions import call, cast
from eddyline.model import Atom, AtomKind, Call, Clause, Column, Expression, Literal, Slot
from eddyline.types import BIGINT, BOOLEAN, is_floating, is_integer

MAX_PAIRS = 2_000  # comparisons of two atoms; a condition with more is not searched further

_TRUE = Literal(BOOLEAN, True)
_NOT = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_LOWER, _UPPER = frozenset((">", ">=")), frozenset(("<", "<="))


def contradictions(clauses: Sequence[Clause], nullable_slots: frozenset[int]) -> Iterator[Expression]:
    """Expressions over slots and literals; a query for which one is true can never match."""
    by_attribute: dict[Expression, list[Atom]] = {}
    for clause in clauses:
        if all(atom.kind is AtomKind.CONSTANT for atom in clause.atoms):
            conditions = [atom.condition for atom in clause.atoms]
            whole = conditions[0] if len(conditions) == 1 else call("or", conditions)
            yield call("not", [call("<=>", [whole, _TRUE])])
        if len(clause.atoms) == 1:
            atom = clause.atoms[0]
            # A pattern is not compared: whether it is one is decided where it meets a text.
            if atom.kind is not AtomKind.LIKE and atom.attribute is not None and cannot_err(atom.attribute):
                by_attribute.setdefault(atom.attribute, []).append(atom)
    n_pairs = 0
    for atoms in by_attribute.values():
        for atom in atoms:
            if _may_be_null(atom.constant, nullable_slots):
                assert atom.constant is not None
                yield call("is null", [atom.constant])
        for first, second in combinations(atoms, 2):
            n_pairs += 1
            if n_pairs > MAX_PAIRS:
                return
            refuted = _never_both(first, second)
            if refuted is not None:
                yield refuted


def _never_both(a: Atom, b: Atom) -> Expression | None:
    """When no value of the attribute passes both, over constants; None: some value always may."""
    if a.operator == "is null" or b.operator == "is null":
        return _TRUE if a.operator != b.operator else None
    if "is not null" in (a.operator, b.operator):
        return None
    if b.operator == "=":
        a, b = b, a
    left, right = a.constant, b.constant
    assert left is not None
    assert right is not None
    if a.operator == "=" and b.operator == "in":
        return call("not", [call("in", [left, right])])
    if a.operator == "=":
        return call(_NOT[b.operator], [left, right])
    if a.operator in _UPPER and b.operator in _LOWER:
        a, b = b, a
    if a.operator in _LOWER and b.operator in _UPPER:
        return _empty_range(a, b)
    return None


def _empty_range(lower: Atom, upper: Atom) -> Expression:
    low, high = lower.constant, upper.constant
    assert low is not None
    assert high is not None
    if lower.operator == ">=" and upper.operator == "<=":
        return call(">", [low, high])
    if lower.operator == ">" and upper.operator == "<" and is_integer(low.type):
        next_low = call("+", [cast(low, BIGINT), Literal(BIGINT, 1)])
        return call("or", [call(">=", [low, high]), call(">=", [next_low, cast(high, BIGINT)])])
    return call(">=", [low, high])


def is_tautology(atoms: Sequence[Atom], nullable_slots: frozenset[int]) -> bool:
    """Whether every row passes one of the atoms: `x IS NULL OR x IS NOT NULL`, `x < 5 OR x >= 5 OR x IS NULL`."""
    known = {
        (a.attribute, a.operator, a.constant)
        for a in atoms
        if a.attribute is not None and cannot_err(a.attribute)
    }
    for attribute, operator, constant in known:
        if operator == "is null" and (attribute, "is not null", None) in known:
            return True
        if operator in _NOT and (attribute, _NOT[operator], constant) in known:
            is_known = not _may_be_null(constant, nullable_slots)
            if is_known and (attribute, "is null", None) in known:
                return True
    return False


def _may_be_null(constant: Expression | None, nullable_slots: frozenset[int]) -> bool:
    if constant is None:
        return False
    if isinstance(constant, Slot):
        return constant.index in nullable_slots
    return not isinstance(constant, Literal) or constant.value is None


def cannot_err(attribute: Expression) -> bool:
    """Whether the attribute has a value or NULL on every row: a column, a field of one, or such a number made wider."""
    node = attribute
    while isinstance(node, Call):
        if node.function == "cast":
            inner = node.arguments[0].type
            if not (is_integer(inner) or is_floating(inner)) or not (
                is_integer(node.type) or is_floating(node.type)
            ):
                return False
            if is_integer(inner) and is_integer(node.type) and inner.bit_width > node.type.bit_width:
                return False
            if is_floating(inner) and not is_floating(node.type):
                return False
        elif node.function != "field":
            return False
        node = node.arguments[0]
    return isinstance(node, Column)
