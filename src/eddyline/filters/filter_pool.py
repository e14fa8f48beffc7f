"""Which conditions are filters: clauses worth sharing and ordering, because they are dear and depend on the row alone.

Paper: "Optimization of Continuous Queries with Shared Expensive Filters", PODS 2007: queries are conjunctions over a common pool
of expensive filters.

    paper    here      meaning
    F_j      filter    a clause that calls a function or a regular expression, with its constants written into it
    Q_i      class     a distinct set of filters; all queries with that set are one

A clause whose constants differ from query to query is a filter for each of few combinations of them; with many it is not, and is
decided pair by pair, where calls are still made once a row. Nor is one that calls a function that is not deterministic.

Filters and classes get numbers when a segment is first met, and keep them. `key` says the same of a filter in every process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eddyline.catalog import codec
from eddyline.expressions import Context
from eddyline.filters.batch_evaluation import combinations, with_constants
from eddyline.filters.grouped_filters import grouped_filter
from eddyline.model import Call, Clause, Expression, Segment, Slot, UserCall
from eddyline.nesting import deep

MOST_VARIANTS = 128  # of a clause in one segment, by its constants
MOST_FILTERS = 512
MOST_CLASSES = 4_096
DEAR = frozenset(
    {"rlike", "regexp_like", "regexp", "regexp_extract", "regexp_replace", "regexp_count", "get_json_object"}
)
REGEX_S = 3e-7  # seconds on a row, a first guess
OTHER_S = 1e-6

Ids = npt.NDArray[np.int64]
DeclaredCost = Callable[[UserCall], float | None]


def no_declared_cost(call: UserCall) -> float | None:
    return None


@dataclass(frozen=True, slots=True)
class Filter:
    """A clause without constants of a query: passes where one of the conditions is true."""

    key: str
    conditions: tuple[Expression, ...]
    core: str  # the call all of it rests on, if there is one such call; else itself
    declared_s: float


@dataclass(frozen=True, slots=True)
class SegmentFilters:
    """How the queries of a segment use the pool."""

    filters: tuple[Ids, ...]  # for each clause that is a filter, the filter of each query
    classes: Ids  # of each query
    alone: tuple[Clause, ...]  # waiting clauses that are not filters, to be decided before: cheap ones
    last: tuple[Clause, ...]  # and after: dear ones


@dataclass(slots=True)
class FilterPool:
    """All filters of a stream."""

    context: Context
    declared_cost: DeclaredCost = no_declared_cost
    name: str = "filters"  # under which segments remember what they have in it
    filters: list[Filter] = field(default_factory=list)
    classes: list[frozenset[int]] = field(default_factory=list)
    _by_key: dict[str, int] = field(default_factory=dict)
    _by_set: dict[frozenset[int], int] = field(default_factory=dict)
    _cores: dict[str, int] = field(default_factory=dict)
    _members: npt.NDArray[np.uint64] | None = None
    is_full: bool = False  # a clause is no filter because there are too many

    def of(self, segment: Segment) -> SegmentFilters:
        """What the segment's queries have in the pool; remembered with the segment."""
        known = segment.cache.get(self.name)
        if known is None or known[0] is not self:
            known = segment.cache[self.name] = self, self._enter(segment)
        found = known[1]
        assert isinstance(found, SegmentFilters)
        return found

    def adopt(self, keys: Sequence[str], classes: Sequence[frozenset[int]]) -> None:
        """Number filters and classes as another process does, before any segment is met."""
        assert not self.filters, "the pool is in use"
        for key in keys:
            self._filter(conditions_from(key))
        for filters in classes:
            self.add_class(filters)

    def add(self, filter_: Filter) -> int:
        """The number of a filter that was not there."""
        assert filter_.key not in self._by_key, filter_.key
        number = len(self.filters)
        self._members = None
        self._cores.setdefault(filter_.core, len(self._cores))
        self.filters.append(filter_)
        self._by_key[filter_.key] = number
        return number

    def add_class(self, filters: frozenset[int]) -> int:
        """The number of a class, which may be there."""
        number = self._by_set.get(filters)
        if number is None:
            number = len(self.classes)
            self._members = None
            self.classes.append(filters)
            self._by_set[filters] = number
        return number

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(each.key for each in self.filters)

    def cores(self) -> tuple[int, ...]:
        """Filters of one number share their dear part."""
        return tuple(self._cores[each.core] for each in self.filters)

    def members(self) -> npt.NDArray[np.uint64]:
        """For each filter the set of classes that have it, as words."""
        if self._members is None:
            n_words = max(1, -(-len(self.classes) // 64))
            self._members = np.zeros((len(self.filters), n_words), np.uint64)
            for number, filters in enumerate(self.classes):
                self._members[list(filters), number >> 6] |= np.uint64(1 << (number & 63))
        return self._members

    def begins_with(self, keys: Sequence[str], classes: Sequence[frozenset[int]]) -> bool:
        """Whether its first filters and classes are these."""
        return self.keys[: len(keys)] == tuple(keys) and self.classes[: len(classes)] == list(classes)

    # ----------------------------------------------------------------------------------------- inside

    def _enter(self, segment: Segment) -> SegmentFilters:
        waiting = grouped_filter(segment, self.context).residual_clauses
        columns: list[Ids] = []
        alone, last = [], []
        for clause in waiting:
            if not is_dear(clause):
                alone.append(clause)
                continue
            column = self._variants(clause, segment)
            if column is None:
                last.append(clause)
            else:
                columns.append(column)
        classes = self._classes(columns, len(segment))
        if classes is None:  # too many sets of filters
            columns, classes, last = (
                [],
                np.full(len(segment), -1),
                [each for each in waiting if is_dear(each)],
            )
        return SegmentFilters(tuple(columns), classes, tuple(alone), tuple(last))

    def _variants(self, clause: Clause, segment: Segment) -> Ids | None:
        """The filter that the clause is for each query; None if it is none, or too many."""
        nodes = [node for atom in clause.atoms for node in atom.condition.walk()]
        if not all(node.is_deterministic for node in nodes if isinstance(node, UserCall)):
            return None
        slots = sorted({node.index for node in nodes if isinstance(node, Slot)})
        codes = combinations(segment, slots)
        first = np.unique(codes, return_index=True)[1]
        if len(first) > MOST_VARIANTS:
            return None
        written = [
            tuple(with_constants(atom.condition, segment, position) for atom in clause.atoms)
            for position in first.tolist()
        ]
        n_new = len({filter_key(conditions) for conditions in written} - self._by_key.keys())
        if len(self.filters) + n_new > MOST_FILTERS:
            self.is_full = True
            return None
        numbers = np.array([self._filter(conditions) for conditions in written], np.int64)
        return numbers[codes]

    def _classes(self, columns: Sequence[Ids], n_queries: int) -> Ids | None:
        if not columns:
            return np.full(n_queries, -1)
        sets, of_query = np.unique(np.stack(columns), axis=1, return_inverse=True)
        found = [frozenset(column.tolist()) for column in sets.T]
        if len(self.classes) + len(set(found) - self._by_set.keys()) > MOST_CLASSES:
            self.is_full = True
            return None
        numbers = np.array([self.add_class(filters) for filters in found], np.int64)
        return numbers[of_query.reshape(-1)]

    def _filter(self, conditions: tuple[Expression, ...]) -> int:
        key = filter_key(conditions)
        number = self._by_key.get(key)
        if number is None:
            calls = _outermost_calls(conditions)
            core = codec.dump(codec.expression_to(calls[0], spans=False)) if len(calls) == 1 else key
            # cheap conditions first: they may make the others needless, and an OR says the same in any order
            ordered = tuple(sorted(conditions, key=_is_dear))
            number = self.add(Filter(key, ordered, core, self._declared_s(conditions)))
        return number

    def _declared_s(self, conditions: Sequence[Expression]) -> float:
        calls = [node for each in conditions for node in each.walk() if isinstance(node, UserCall)]
        declared = [self.declared_cost(call) for call in calls]
        return sum(OTHER_S if cost is None else cost for cost in declared) if calls else REGEX_S


def filter_key(conditions: Sequence[Expression]) -> str:
    """What names a filter of these conditions, in every process."""
    return codec.dump([codec.expression_to(each, spans=False) for each in conditions])


@deep
def conditions_from(key: str) -> tuple[Expression, ...]:
    """The conditions a filter of this key has."""
    return tuple(codec.expression_from(stored) for stored in json.loads(key))


def is_dear(clause: Clause) -> bool:
    """Whether a clause calls a function of the user, or is slow by itself."""
    return any(_is_dear(atom.condition) for atom in clause.atoms)


def is_dear_by_calls(clause: Clause) -> bool:
    """Whether functions of the user are all that is expensive in a clause."""
    return all(_is_dear_by_calls(atom.condition) for atom in clause.atoms)


def _is_dear_by_calls(node: Expression) -> bool:
    if isinstance(node, UserCall):
        return True  # with all that it is given
    is_slow = isinstance(node, Call) and node.function in DEAR
    return not is_slow and all(map(_is_dear_by_calls, node.children))


def _is_dear(condition: Expression) -> bool:
    return any(
        isinstance(node, UserCall) or (isinstance(node, Call) and node.function in DEAR)
        for node in condition.walk()
    )


def _outermost_calls(conditions: Sequence[Expression]) -> list[UserCall]:
    """Distinct calls of users' functions that are not arguments of others."""
    found: dict[UserCall, None] = {}
    waiting = list(conditions)
    while waiting:
        node = waiting.pop()
        if isinstance(node, UserCall):
            found[node] = None
        else:
            waiting += node.children
    return list(found)
