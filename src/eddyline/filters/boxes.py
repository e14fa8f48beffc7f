"""What each query asks of each attribute, as intervals of keys.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: conditions in
conjunctive normal form, one bit per clause of two literals and more.

A query is a *box*, one inclusive interval of keys for each attribute it compares, and some *planes*: clauses that are not one
interval, because they are an OR, an IN list, `!=` or IS NULL. Comparisons of one query with one attribute are intersected, so a
query that asks for `a > 7 AND a < 3` is known never to match before any row comes. If it asks that of a computed attribute it is
*void* and stays in the index: where the attribute is in error, so is the query.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eddyline.batch import Positions
from eddyline.filters.grouped_filters import GroupedAtom, GroupedClause, GroupedFilter, list_lengths
from eddyline.filters.keys import HIGHEST, LOWEST, Domain, KeyColumn, Keys, Mask, is_direct
from eddyline.filters.patterns import prefix_bounds
from eddyline.model import AtomKind, Column, Expression, Segment


class Attributes:
    """The attributes of some queries, numbered, and all constants each is compared with."""

    def __init__(self) -> None:
        self.expressions: list[Expression] = []
        self.domains: list[Domain | None] = []
        self._numbers: dict[Expression, int] = {}
        self._sampled_values: list[list[pa.Array]] = []

    def number(self, attribute: Expression) -> int:
        found = self._numbers.get(attribute)
        if found is None:
            found = self._numbers[attribute] = len(self.expressions)
            self.expressions.append(attribute)
            self._sampled_values.append([])
        return found

    def meet(self, clauses: Iterable[GroupedClause]) -> None:
        """Take note of the constants of these clauses; first for all segments, then the domains are settled."""
        for clause in clauses:
            for atom in clause.atoms:
                assert atom.atom.attribute is not None
                met = self._sampled_values[self.number(atom.atom.attribute)]
                if atom.constants is None or (met and is_direct(met[0].type)):
                    continue
                if atom.atom.kind is AtomKind.LIKE:
                    met += prefix_bounds(atom.constants, atom.atom.operator).constants
                else:
                    met.append(atom.constants.flatten() if atom.atom.kind is AtomKind.IN else atom.constants)

    def settle(self) -> None:
        self.domains = [Domain.over(met) if met else None for met in self._sampled_values]
        self._sampled_values = []


@dataclass(slots=True)
class Plane:
    """A clause that is not one interval: true where one of its ranges, or its NULLs, holds. Flat, by lane."""

    attributes: list[int] = field(default_factory=list)  # of each piece
    lanes: list[Positions] = field(default_factory=list)
    lows: list[Keys] = field(default_factory=list)
    highs: list[Keys] = field(default_factory=list)
    null_attributes: list[int] = field(default_factory=list)
    null_lanes: list[Positions] = field(default_factory=list)

    def allow(self, attribute: int, lanes: Positions, lows: Keys, highs: Keys) -> None:
        self.attributes.append(attribute)
        self.lanes.append(lanes)
        self.lows.append(lows)
        self.highs.append(highs)

    def allow_null(self, attribute: int, lanes: Positions) -> None:
        self.null_attributes.append(attribute)
        self.null_lanes.append(lanes)

    def lanes_with_any(self, n_lanes: int) -> Mask:
        has = np.zeros(n_lanes, dtype=bool)
        for lanes in (*self.lanes, *self.null_lanes):
            has[lanes] = True
        return has


@dataclass(slots=True)
class KeyOption:
    """A clause that names its rows by key: `=`, or an IN list, which is also plane number `plane`."""

    attribute: int
    lanes: Positions
    keys: Keys
    plane: int | None = None


@dataclass(slots=True)
class QueryBoxes:
    """What some queries of a segment ask: lane k is the query at `positions[k]`."""

    segment: Segment
    positions: Positions
    boxes: dict[int, tuple[Keys, Keys]] = field(default_factory=dict)  # attribute -> low, high
    planes: list[Plane] = field(default_factory=list)
    options: list[KeyOption] = field(default_factory=list)
    can_match: Mask = field(default_factory=lambda: np.empty(0, dtype=bool))
    is_void: Mask = field(
        default_factory=lambda: np.empty(0, dtype=bool)
    )  # satisfied by no row, but may be in error
    is_inexact: Mask | None = None  # patterns that are more than a prefix

    def __len__(self) -> int:
        return len(self.positions)

    def require(self, is_so: Mask, *, is_computed: bool) -> None:
        """No row satisfies queries for which this is not so."""
        if is_computed:
            self.is_void |= ~is_so
        else:
            self.can_match &= is_so

    def attributes(self) -> set[int]:
        """All that its boxes and planes look at."""
        in_planes = (
            number for plane in self.planes for number in (*plane.attributes, *plane.null_attributes)
        )
        return {*self.boxes, *in_planes}


def query_boxes(
    segment: Segment,
    positions: Positions,
    grouped: GroupedFilter,
    attributes: Attributes,
    *,
    columns_only: bool = False,
) -> QueryBoxes:
    """The boxes and planes of these queries. With `columns_only`, clauses that look at a computed attribute are left out."""
    found = QueryBoxes(
        segment,
        positions,
        can_match=grouped.is_open[positions],
        is_void=np.zeros(len(positions), dtype=bool),
    )
    for clause in grouped.grouped_clauses:
        if columns_only and any(is_computed(atom) for atom in clause.atoms):
            continue
        single = clause.single
        if single is not None and _is_interval(single):
            _add_interval(found, single, attributes)
        else:
            _add_plane(found, clause, attributes)
    for clause in grouped.bounded_clauses:
        (atom,) = clause.atoms
        if not (columns_only and is_computed(atom)):
            _add_pattern(found, atom, attributes)
    for number, (low, high) in found.boxes.items():
        is_plain = isinstance(attributes.expressions[number], Column)
        found.require(low <= high, is_computed=not is_plain)
    return found


def is_computed(atom: GroupedAtom) -> bool:
    """Whether its attribute is an expression, which may be in error on some rows."""
    return not isinstance(atom.atom.attribute, Column)


def _is_interval(atom: GroupedAtom) -> bool:
    kind, operator = atom.atom.kind, atom.atom.operator
    return (kind is AtomKind.COMPARE and operator != "!=") or operator == "is not null"


def _keys(atom: GroupedAtom, positions: Positions, attributes: Attributes) -> tuple[int, KeyColumn]:
    """Attribute number and keys of the constants of these queries."""
    assert atom.atom.attribute is not None
    assert atom.constants is not None
    number = attributes.number(atom.atom.attribute)
    domain = attributes.domains[number]
    assert domain is not None
    constants = atom.constants
    if len(positions) < len(constants):
        constants = constants.take(pa.array(positions))
    return number, domain.keys(constants)


def _bounds(operator: str, keys: Keys) -> list[tuple[Keys, Keys, Mask | None]]:
    """The intervals a comparison allows, and where they are not empty (None: everywhere)."""
    lowest, highest = np.full(len(keys), LOWEST), np.full(len(keys), HIGHEST)
    if operator == "=":
        return [(keys, keys, None)]
    if operator == "<=":
        return [(lowest, keys, None)]
    if operator == ">=":
        return [(keys, highest, None)]
    below = (lowest, np.where(keys == LOWEST, LOWEST, keys - 1), keys != LOWEST)
    above = (np.where(keys == HIGHEST, HIGHEST, keys + 1), highest, keys != HIGHEST)
    return {"<": [below], ">": [above], "!=": [below, above]}[operator]


def _add_interval(boxes: QueryBoxes, atom: GroupedAtom, attributes: Attributes) -> None:
    n = len(boxes)
    if atom.constants is None:  # IS NOT NULL
        assert atom.atom.attribute is not None
        number = attributes.number(atom.atom.attribute)
        low, high = np.full(n, LOWEST), np.full(n, HIGHEST)
    else:
        number, keys = _keys(atom, boxes.positions, attributes)
        ((low, high, is_some),) = _bounds(atom.atom.operator, keys.keys)
        if is_some is not None:
            boxes.require(is_some, is_computed=is_computed(atom))
        if keys.is_null is not None:
            boxes.require(~keys.is_null, is_computed=is_computed(atom))
        if atom.atom.operator == "=":
            boxes.options.append(KeyOption(number, np.arange(n), keys.keys))
    _intersect(boxes, number, low, high)


def _intersect(boxes: QueryBoxes, attribute: int, low: Keys, high: Keys) -> None:
    known = boxes.boxes.get(attribute)
    if known is not None:
        low, high = np.maximum(known[0], low), np.minimum(known[1], high)
    boxes.boxes[attribute] = low, high


def _add_plane(boxes: QueryBoxes, clause: GroupedClause, attributes: Attributes) -> None:
    plane = Plane()
    everyone = np.arange(len(boxes))
    for atom in clause.atoms:
        assert atom.atom.attribute is not None
        number = attributes.number(atom.atom.attribute)
        if atom.atom.kind is AtomKind.IN:
            lanes, keys = _list_entries(atom, boxes.positions, attributes)
            plane.allow(number, lanes, keys, keys)
        elif atom.constants is not None:
            number, column = _keys(atom, boxes.positions, attributes)
            for low, high, is_some in _bounds(atom.atom.operator, column.keys):
                lanes = everyone
                if column.is_null is not None:
                    is_some = ~column.is_null if is_some is None else is_some & ~column.is_null
                if is_some is not None:
                    lanes, low, high = lanes[is_some], low[is_some], high[is_some]
                plane.allow(number, lanes, low, high)
        elif atom.atom.operator == "is null":
            plane.allow_null(number, everyone)
        else:
            plane.allow(number, everyone, np.full(len(boxes), LOWEST), np.full(len(boxes), HIGHEST))
    may_err = any(is_computed(atom) for atom in clause.atoms)
    boxes.require(plane.lanes_with_any(len(boxes)), is_computed=may_err)
    single = clause.single
    if single is not None and single.atom.kind is AtomKind.IN:
        boxes.options.append(KeyOption(plane.attributes[0], plane.lanes[0], plane.lows[0], len(boxes.planes)))
    boxes.planes.append(plane)


def _list_entries(atom: GroupedAtom, positions: Positions, attributes: Attributes) -> tuple[Positions, Keys]:
    """The lists of these queries as (lane, key), each pair once, NULLs left out."""
    assert atom.atom.attribute is not None
    assert atom.constants is not None
    lists = atom.constants
    if len(positions) < len(lists):
        lists = lists.take(pa.array(positions))
    domain = attributes.domains[attributes.number(atom.atom.attribute)]
    assert domain is not None
    keys = domain.keys(lists.flatten())
    lanes = np.repeat(np.arange(len(lists)), list_lengths(lists))
    values = keys.keys
    if keys.is_null is not None:
        lanes, values = lanes[~keys.is_null], values[~keys.is_null]
    order = np.lexsort((values, lanes))
    lanes, values = lanes[order], values[order]
    is_first = np.ones(len(lanes), dtype=bool)
    is_first[1:] = (np.diff(lanes) != 0) | (np.diff(values) != 0)
    return lanes[is_first], values[is_first]


def _add_pattern(boxes: QueryBoxes, atom: GroupedAtom, attributes: Attributes) -> None:
    """A pattern asks for its prefix; whether it asks for more differs from query to query."""
    assert atom.atom.attribute is not None
    assert atom.constants is not None
    patterns = atom.constants.take(pa.array(boxes.positions))
    number = attributes.number(atom.atom.attribute)
    domain = attributes.domains[number]
    assert domain is not None
    bounds = prefix_bounds(patterns, atom.atom.operator)
    _intersect(boxes, number, *bounds.intervals(domain))
    if not bounds.is_exact.all():
        inexact = ~bounds.is_exact
        boxes.is_inexact = inexact if boxes.is_inexact is None else boxes.is_inexact | inexact
