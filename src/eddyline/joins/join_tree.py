"""How the inputs of a join hang together, seen from the input whose new row looks for partners.

Paper: Babu, Motwani, Munagala, Nishizawa, Widom, "Adaptive Ordering of Pipelined Stream Filters", SIGMOD 2004: multiway stream
joins. Star joins are its pipelined filters; any other acyclic join is a tree of paths, and one with cycles is cut down to a tree.

    paper               here           meaning
    S_0                 origin         the input the new row came to
    path to S_i         path(i)        the inputs probed on the way from the origin to i, i included
    residual predicate  residual       an equality that no probe checks

Equalities are taken together with what follows from them: where a.x = b.x and b.x = c.x, a row of a finds those of c by a.x as
well, so a join of all inputs on one attribute is a star from everywhere. Several equalities with one parent are one probe by
several values. An input that no equality reaches hangs off the origin and has no key: all of its rows are partners.

Invariant: the equalities of the tree and the residual ones together imply exactly what those of the signature imply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property

from eddyline.model import Expression, JoinKey, Role, Signature

NO_PARENT = -1

Side = tuple[int, Expression]  # an input, and what it brings to an equality


@dataclass(frozen=True)
class JoinTree:
    """What an origin probes, and by which values. Tuples by input; the origin's own entries mean nothing."""

    origin: int
    parents: tuple[int, ...]  # whose rows an input is probed with; NO_PARENT: it is the origin
    parent_keys: tuple[
        tuple[Expression, ...], ...
    ]  # over the parent's columns; (): no key, all rows are partners
    child_keys: tuple[tuple[Expression, ...], ...]  # over the input's own columns, no two alike
    residual: tuple[JoinKey, ...] = ()  # to be checked as soon as both inputs are bound

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def others(self) -> tuple[int, ...]:
        """The inputs to probe, in the order of the signature."""
        return tuple(place for place in range(len(self)) if place != self.origin)

    @property
    def is_star(self) -> bool:
        """Whether every input is probed with the origin's row alone."""
        return all(self.parents[place] == self.origin for place in self.others)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The inputs probed with the rows of each."""
        return tuple(
            tuple(child for child, parent in enumerate(self.parents) if parent == place)
            for place in range(len(self))
        )

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """For each input those to probe on the way to it, itself last; of the origin none."""
        return tuple(self._path(place) for place in range(len(self)))

    @cached_property
    def first_order(self) -> tuple[int, ...]:
        """The other inputs in the order of the signature, as far as parents come before children."""
        order: list[int] = []
        for place in self.others:
            order += [step for step in self.paths[place] if step not in order]
        return tuple(order)

    def is_order(self, order: Iterable[int]) -> bool:
        """Whether all other inputs are in it once, each behind its parent."""
        placed = [self.origin]
        for place in order:
            if place in placed or self.parents[place] not in placed:
                return False
            placed.append(place)
        return len(placed) == len(self)

    def check(self) -> None:
        assert self.parents[self.origin] == NO_PARENT, (self.origin, self.parents)
        assert self.is_order(self.first_order), (self.first_order, self.parents)
        for place in self.others:
            theirs, own = self.parent_keys[place], self.child_keys[place]
            assert len(theirs) == len(own) == len(set(own)), f"input {place}: {theirs} = {own}"
            assert own or self.parents[place] == self.origin, f"input {place} has a parent and no key"

    def _path(self, place: int) -> tuple[int, ...]:
        steps: list[int] = []
        while place != self.origin:
            steps.append(place)
            place = self.parents[place]
        return tuple(reversed(steps))


def can_drive(signature: Signature, place: int) -> bool:
    """Whether new rows of an input look for partners.

    Where an input keeps none of its rows, only its own can. Rows of tables wait to be found, unless there are only tables.
    """
    roles = [entry.role for entry in signature.inputs]
    if any(role is Role.CURRENT for at, role in enumerate(roles) if at != place):
        return False
    if roles[place] in (Role.TABLE, Role.VIEW):
        return all(role.is_table for role in roles)
    return roles[place] is not Role.AS_OF


def join_tree(signature: Signature, origin: int) -> JoinTree:
    """The tree by which rows of the origin find their partners, each input as near to the origin as can be."""
    equal = _Equal()
    for key in signature.keys:
        equal.join((key.left, key.left_key), (key.right, key.right_key))
    sides = _sides(signature)
    shared = {
        (parent, child): _probe_keys(equal, sides[parent], sides[child])
        for parent in range(len(signature))
        for child in range(len(signature))
        if parent != child
    }
    parents = _parents(signature, origin, shared)
    no_keys: list[tuple[Expression, Expression]] = []
    probed = [
        no_keys if place == origin else shared[parents[place], place] for place in range(len(signature))
    ]
    return JoinTree(
        origin,
        tuple(parents),
        tuple(tuple(theirs for theirs, _ in pairs) for pairs in probed),
        tuple(tuple(own for _, own in pairs) for pairs in probed),
        _residual(signature, parents, probed),
    )


# --------------------------------------------------------------------------------------------- inside


class _Equal:
    """Which sides are equal by the equalities added so far."""

    def __init__(self) -> None:
        self._before: dict[Side, Side] = {}

    def first(self, side: Side) -> Side:
        """The representative of a side: the same for all sides that are equal."""
        while side in self._before:
            side = self._before[side]
        return side

    def join(self, one: Side, other: Side) -> bool:
        """Add that two sides are equal; returns whether that was not implied before."""
        one, other = self.first(one), self.first(other)
        if one == other:
            return False
        self._before[other] = one
        return True


def _sides(signature: Signature) -> list[list[Side]]:
    """By input, what it brings to equalities: each once, in an order that does not depend on how they were written."""
    sides: list[set[Side]] = [set() for _ in signature.inputs]
    for key in signature.keys:
        assert key.left != key.right, f"an equality within input {key.left}"
        sides[key.left].add((key.left, key.left_key))
        sides[key.right].add((key.right, key.right_key))
    return [sorted(found, key=lambda side: _text(side[1])) for found in sides]


def _text(expression: Expression) -> str:
    """The expression without its position in the query text."""
    own = [
        str(getattr(expression, field.name))
        for field in fields(expression)
        if field.name not in ("span", "arguments") and not field.name.startswith("_")
    ]
    below = ", ".join(_text(child) for child in expression.children)
    return f"{type(expression).__name__}({'; '.join(own)})[{below}]"


def _probe_keys(equal: _Equal, parent: list[Side], child: list[Side]) -> list[tuple[Expression, Expression]]:
    """Each expression of the child that equals one of the parent, behind that one."""
    of_parent: dict[Side, Expression] = {}
    for side in parent:
        of_parent.setdefault(equal.first(side), side[1])
    return [(of_parent[first], side[1]) for side in child if (first := equal.first(side)) in of_parent]


def _parents(
    signature: Signature, origin: int, shared: dict[tuple[int, int], list[tuple[Expression, Expression]]]
) -> list[int]:
    parents = [NO_PARENT] * len(signature)
    waiting = [place for place in range(len(signature)) if place != origin]
    level = [origin]
    while waiting:
        reached = [place for place in waiting if any(shared[above, place] for above in level)]
        for place in reached:
            parents[place] = max(level, key=lambda above: len(shared[above, place]))  # the first of the best
        if not reached and level == [origin]:
            # no equality leads on: go on from the input that most of the others have equalities with
            reached = [
                max(
                    waiting,
                    key=lambda place: sum(bool(shared[place, other]) for other in waiting if other != place),
                )
            ]
            parents[reached[0]] = origin
        waiting = [place for place in waiting if place not in reached]
        level = reached or [origin]
    return parents


def _residual(
    signature: Signature, parents: list[int], probed: list[list[tuple[Expression, Expression]]]
) -> tuple[JoinKey, ...]:
    """The equalities that do not follow from those of the probes, nor from each other."""
    implied_equalities = _Equal()
    for place, pairs in enumerate(probed):
        for theirs, own in pairs:
            implied_equalities.join((parents[place], theirs), (place, own))
    return tuple(
        key
        for key in signature.keys
        if implied_equalities.join((key.left, key.left_key), (key.right, key.right_key))
    )
