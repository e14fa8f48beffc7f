"""Conditions in conjunctive normal form, taken apart into atoms an index can group.

A condition passes a row where it is true. What else it is matters only in one way: *not true* (false or NULL) or *error*.
Once NOT is pushed down to the atoms, a condition is built of AND and OR alone, and over the chain

    not true  <  error  <  true

AND is the minimum and OR the maximum: false beats error, in an OR true beats error. Minimum and maximum distribute over
each other, so the conjunctive normal form has the same value as the condition for every row, errors included. NOT itself
is never applied to *not true*: a comparison is negated by its operator, and other atoms keep their NOT inside.

Distribution can grow a condition exponentially. An OR that would give more than MAX_CLAUSES clauses, or more than MAX_LEAVES
leaves in them, stays whole, as one residual atom. So does an IN whose options are no constants: no index takes it apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import pyarrow as pa

from eddyline.errors import Span
from eddyline.expressions import FLIPPED, call, fold, is_volatile
from eddyline.model import (
    Atom,
    AtomKind,
    Call,
    Clause,
    Column,
    Condition,
    Expression,
    Literal,
    Slot,
    pattern_atom,
)
from eddyline.nesting import MAX_NODES
from eddyline.sql.contradictions import contradictions, is_tautology
from eddyline.sql.lexer import Token, tokens_of
from eddyline.types import BOOLEAN

MAX_CLAUSES = 256
MAX_LEAVES = 4_096  # of all clauses that distribution makes of a condition

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_NULL_TESTS = {"is null": "is not null", "is not null": "is null"}


def normalise(
    condition: Expression | None,
    *,
    nullable_slots: frozenset[int] = frozenset(),
    time_zone: str | None = None,
    tokens: Sequence[Token] = (),
) -> Condition:
    """The clauses of a condition, and for which constants it can never be true.

    `nullable_slots` are those whose value may be NULL: named parameters. `tokens` are those of the text, for the clauses to say
    which of them they came from.
    """
    if condition is None:
        return Condition()
    tree = _negation_free(fold(condition, time_zone=time_zone), is_negated=False, span=condition.span)
    clauses: dict[tuple[Atom, ...], Clause] = {}
    n_left = MAX_LEAVES
    for conjunct in _conjuncts(tree):
        distributed = _distributed_clauses(conjunct, n_left)
        n_left -= sum(map(len, distributed)) if len(distributed) > 1 else 0
        for leaves in distributed:
            atoms = _atoms(leaves, nullable_slots)
            if atoms is None or is_tautology(atoms, nullable_slots):
                continue
            clauses.setdefault(atoms, Clause(atoms, tokens_of(conjunct.span, tokens)))
    found = tuple(clauses.values())
    never = contradictions(found, nullable_slots)
    return Condition(found, tuple(dict.fromkeys(_decided_conditions(never, time_zone))))


def _decided_conditions(never: Iterable[Expression], time_zone: str | None) -> Iterable[Expression]:
    for expression in never:
        folded = fold(expression, time_zone=time_zone)
        if is_volatile(folded):  # what the time decides is not decided once and for all
            continue
        if not isinstance(folded, Literal) or folded.value is True:
            yield folded


# ------------------------------------------------------------------------------------------------ pushing NOT down


@dataclass(frozen=True, slots=True)
class _Tree:
    """Leaves joined by AND or OR."""

    operator: str
    parts: tuple[_Tree | Expression, ...]
    span: Span | None


def _negation_free(e: Expression, *, is_negated: bool, span: Span | None) -> _Tree | Expression:
    """The same condition without NOT above AND and OR. `span` is the text that says all of it, NOT included, if any does."""
    if not isinstance(e, Call):
        return call("not", [e], span=span) if is_negated else e
    name, arguments = e.function, e.arguments
    if name == "not":
        return _negation_free(arguments[0], is_negated=not is_negated, span=span)
    if name in ("and", "or"):
        operator = name if not is_negated else "or" if name == "and" else "and"
        parts = [
            _negation_free(a, is_negated=is_negated, span=None if is_negated else a.span) for a in arguments
        ]
        return _joined_tree(operator, parts, span)
    if name == "in" and _is_split(e):  # one comparison for each option
        operator, test = ("and", "!=") if is_negated else ("or", "=")
        tests = [call(test, [arguments[0], option], span=span) for option in arguments[1:]]
        return _joined_tree(operator, tests, span)
    if not is_negated:
        return e if e.span == span else replace(e, span=span)
    if name in _OPPOSITE:
        return call(_OPPOSITE[name], arguments, span=span)
    if name in _NULL_TESTS:
        return call(_NULL_TESTS[name], arguments, span=span)
    if name == "in" and not pa.types.is_list(arguments[1].type):
        return call("not in", arguments, span=span)
    return call("not", [e], span=span)


def _is_split(e: Call) -> bool:
    """Whether an IN is decided option by option: by an index, or because a function may not be shown more rows than it must."""
    value, *options = e.arguments
    if pa.types.is_list(options[0].type) or len(options) * value.facts.n_nodes > MAX_NODES:
        return False
    is_indexable = _is_attribute(value) and all(map(_is_constant, options))
    return len(options) == 1 or is_indexable or any(option.facts.has_user_calls for option in options)


def _joined_tree(operator: str, parts: Sequence[_Tree | Expression], span: Span | None) -> _Tree | Expression:
    """Parts under one operator, chains of the same one flattened."""
    flat: list[_Tree | Expression] = []
    for part in parts:
        flat += part.parts if isinstance(part, _Tree) and part.operator == operator else (part,)
    return flat[0] if len(flat) == 1 else _Tree(operator, tuple(flat), span)


# ------------------------------------------------------------------------------------------------ distributing


def _conjuncts(tree: _Tree | Expression) -> Sequence[_Tree | Expression]:
    return tree.parts if isinstance(tree, _Tree) and tree.operator == "and" else (tree,)


def _distributed_clauses(tree: _Tree | Expression, max_leaves: int) -> list[tuple[Expression, ...]]:
    """Clauses of leaves, or one clause that holds the whole tree where there would be too many."""
    clauses = _clauses(tree, max_leaves)
    return [(_expression(tree),)] if clauses is None else clauses


def _clauses(tree: _Tree | Expression, max_leaves: int) -> list[tuple[Expression, ...]] | None:
    if not isinstance(tree, _Tree):
        return [(tree,)]
    parts = [_clauses(part, max_leaves) for part in tree.parts]
    if tree.operator == "and":
        found = [
            clause
            for part, p in zip(parts, tree.parts, strict=True)
            for clause in part or [(_expression(p),)]
        ]
        return found if len(found) <= MAX_CLAUSES else None
    n, width = 1, 0
    for part in parts:
        n *= len(part or ())
        width += max(map(len, part or ((),)))
        if part is None or n > MAX_CLAUSES or (n > 1 and n * width > max_leaves):
            return None
    return [
        tuple(dict.fromkeys(leaf for clause in chosen for leaf in clause))
        for chosen in product(*(p or () for p in parts))
    ]


def _expression(tree: _Tree | Expression) -> Expression:
    if not isinstance(tree, _Tree):
        return tree
    return call(tree.operator, [_expression(part) for part in tree.parts], span=tree.span)


# ------------------------------------------------------------------------------------------------ atoms


def _atoms(leaves: Sequence[Expression], nullable_slots: frozenset[int]) -> tuple[Atom, ...] | None:
    """The atoms of a clause, or None if it is true for every row. What is never true is left out."""
    atoms: list[Atom] = []
    for leaf in leaves:
        if isinstance(leaf, Literal):
            if leaf.value is True:
                return None
            continue
        atoms.append(atom(leaf, nullable_slots))
    if not atoms:
        atoms = [Atom(AtomKind.CONSTANT, Literal(BOOLEAN, False))]
    return tuple(dict.fromkeys(atoms))


def atom(condition: Expression, nullable_slots: frozenset[int] = frozenset()) -> Atom:
    """The atom that a condition is once AND, OR and NOT are gone.

    A comparison of a user's function with a constant is of kind FUNCTION and still says attribute, operator and constant.
    """
    facts = condition.facts
    if facts.is_constant:
        return Atom(AtomKind.CONSTANT, condition)
    found = _indexable(condition, nullable_slots) or pattern_atom(condition)
    if facts.has_user_calls:
        return (
            replace(found, kind=AtomKind.FUNCTION)
            if found is not None
            else Atom(AtomKind.FUNCTION, condition)
        )
    return found or Atom(AtomKind.RESIDUAL, condition)


def _indexable(condition: Expression, nullable_slots: frozenset[int]) -> Atom | None:
    """attribute operator constant, with the attribute on the left, or None."""
    if isinstance(condition, Column):  # WHERE flag
        return _truth(condition, True)
    if not isinstance(condition, Call):
        return None
    name, arguments = condition.function, condition.arguments
    if name == "not" and isinstance(arguments[0], Column):  # WHERE NOT flag
        return _truth(arguments[0], False)
    if name in _NULL_TESTS and _is_attribute(arguments[0]):
        return Atom(AtomKind.NULL_TEST, condition, arguments[0], name)
    is_list = name == "in" and pa.types.is_list(arguments[1].type)
    if is_list and _is_attribute(arguments[0]) and _is_constant(arguments[1]):
        return Atom(AtomKind.IN, condition, arguments[0], "in", arguments[1])
    if name == "<=>":  # true where `=` is, unless both are NULL
        constant = next((a for a in arguments if _is_constant(a)), None)
        if constant is not None and _is_never_null(constant, nullable_slots):
            name, condition = "=", call("=", arguments, span=condition.span)
    if name in FLIPPED:
        left, right = arguments
        if _is_constant(left):
            left, right, name = right, left, FLIPPED[name]
            condition = call(name, [left, right], span=condition.span)
        if _is_attribute(left) and _is_constant(right):
            return Atom(AtomKind.COMPARE, condition, left, name, right)
    return None


def _truth(column: Expression, value: bool) -> Atom:
    constant = Literal(BOOLEAN, value)
    return Atom(AtomKind.COMPARE, call("=", [column, constant], span=column.span), column, "=", constant)


def _is_attribute(e: Expression) -> bool:
    return (e.facts.has_columns or e.facts.has_user_calls) and not e.facts.has_slots


def _is_constant(e: Expression) -> bool:
    return e.facts.is_constant


def _is_never_null(constant: Expression, nullable_slots: frozenset[int]) -> bool:
    if isinstance(constant, Slot):
        return constant.index not in nullable_slots
    return isinstance(constant, Literal) and constant.value is not None
