"""Conditions in conjunctive form: clauses that must all hold, each of atoms of which one must."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from eddyline.errors import Span
from eddyline.model.expressions import Call, Expression


class AtomKind(enum.Enum):
    """How an atom can be decided."""

    COMPARE = "compare"  # attribute operator constant: indexable
    IN = "in"  # attribute IN (constants): indexable
    NULL_TEST = "null test"  # attribute IS [NOT] NULL: indexable
    LIKE = "like"  # attribute LIKE pattern: some patterns are a range of texts, which depends on the query
    CONSTANT = "constant"  # no column in it: decided once per query
    FUNCTION = "function"  # calls a function of the user
    RESIDUAL = "residual"  # anything else


@dataclass(frozen=True, slots=True)
class Atom:
    """A condition that is not taken apart further. It passes where `condition` is true.

    For indexable kinds and LIKE, `attribute` holds columns only and `constant` slots and literals only, both of one type (the
    items of IN too). The constant of LIKE is a pattern that escapes with a backslash, that of startswith a text as it is.
    """

    kind: AtomKind
    condition: Expression
    attribute: Expression | None = None
    operator: str = ""  # one of = != < <= > >= in, is null, is not null, like, startswith
    constant: Expression | None = None


def pattern_atom(condition: Expression) -> Atom | None:
    """The atom of kind LIKE that a condition is, or None. It says no more than the condition, so only that is ever stored."""
    if not isinstance(condition, Call) or condition.function not in ("like", "startswith"):
        return None
    attribute, pattern, *escape = condition.arguments
    above, below = attribute.facts, pattern.facts
    if (
        escape
        or condition.facts.has_user_calls
        or not above.has_columns
        or above.has_slots
        or below.has_columns
    ):
        return None
    return Atom(AtomKind.LIKE, condition, attribute, condition.function, pattern)


@dataclass(frozen=True, slots=True)
class Clause:
    """True where one of its atoms is.

    `tokens` says which tokens of the text it came from. Texts of one shape have the same tokens, at different places.
    """

    atoms: tuple[Atom, ...]
    tokens: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Condition:
    """True where all of its clauses are; no clauses: always true."""

    clauses: tuple[Clause, ...] = ()
    never: tuple[Expression, ...] = ()  # over slots: a query for which one of these is true can never match
