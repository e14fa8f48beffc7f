"""How often each result of a query occurs, where results are a set: SELECT DISTINCT, and semi joins of tables.

A result appears with its first occurrence and leaves with its last one; what happens between is no result. Of SELECT DISTINCT the
rows with the same values are occurrences of one result; of a semi join the matches of one row. A result has the row of
one of its occurrences.

A value may leave one part of a union and appear in another in the same round. So the walk counts what a query matches once all
relations that it reads are complete (`CountedRelations` has the order), and all branches of a set under one id.

before    changes of a round    after    results
0         +A                    1        +A
1         +A +A                 3        none
3         -A -A                 1        none
1         -A                    0        -A
2         -A +A                 2        none; of a semi join, if the row itself is another one now: -A +A, an update

Counts are not stored. Before the first round that knows a query, which has had its first answer in an earlier life, they are made
of the tables as they are then; those of a new query are made of its first answer. What a round counts is kept apart until it
commits.

Invariant: after a round, a count is the number of current rows, or combinations of rows, in which the result occurs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.batch import PartMatches, QueryIds
from eddyline.filters import DeadPairs, FilterOutput
from eddyline.operators import Derived, Mask, Numbers
from eddyline.types import MONTHS, is_floating, is_nested, python_values

PAIR_BYTES = 200  # about what a count takes, with the values it is of

_NAN = "NaN"  # equals itself, unlike the number

_Place = tuple[int, int]  # a part, and a pair in it
_Result = tuple[int, bool, Hashable]  # a set, whether it is a first answer, and what tells its results apart


@dataclass(frozen=True, slots=True)
class CountedMatches:
    """What counted queries and bodies of views match in rows of one relation; `distinct_ids` are counted by values."""

    output: FilterOutput
    derived: Derived
    distinct_ids: QueryIds

    def parts(self) -> list[PartMatches]:
        return sorted(self.output.all_parts(), key=lambda part: part.segment.shape.branch)


@dataclass(slots=True)
class _Occurrences:
    """The changes of a round in which a result occurs."""

    n: int = 0  # that appear, less those that leave
    first_to_leave: _Place | None = None
    first_to_appear: _Place | None = None
    is_replaced: bool = False  # the row that the result shows is another one now

    def results(self, before: int, after: int) -> list[_Place]:
        """The pairs that are results, given how often the result occurred and does now."""
        leaves = before and (self.is_replaced or not after)
        appears = after and (self.is_replaced or not before)
        found = [self.first_to_leave if leaves else None, self.first_to_appear if appears else None]
        return [place for place in found if place is not None]


@dataclass(slots=True)
class _Counts:
    """Counts of one query that are not committed; `before` are those it goes on from."""

    before: Mapping[Hashable, int]
    changed: dict[Hashable, int] = field(default_factory=dict)

    def get(self, identity: Hashable) -> int:
        count = self.changed.get(identity)
        return self.before.get(identity, 0) if count is None else count


class Multiplicities:
    """The counts of all queries and bodies of views of one place, by the id of their set (`Segment.set_ids`)."""

    def __init__(self) -> None:
        self._counts: dict[int, dict[Hashable, int]] = {}
        self._changes: dict[int, _Counts] = {}  # of the running round
        self._answers: dict[int, _Counts] = {}  # first answers of the running round, counted from nothing

    def __contains__(self, query_id: object) -> bool:
        return query_id in self._counts

    def n_results(self, query_id: int) -> int:
        """How many results a query has now."""
        return len(self._counts.get(query_id, ()))

    @property
    def n_counts(self) -> int:
        return sum(map(len, self._counts.values()))

    @property
    def nbytes(self) -> int:
        return PAIR_BYTES * self.n_counts

    # ----------------------------------------------------------------------------------------- rounds

    def keep(self, query_ids: AbstractSet[int]) -> None:
        """Forget all queries but these."""
        self._counts = {each: counts for each, counts in self._counts.items() if each in query_ids}

    def begin(self, uncounted: Iterable[int], answered: Iterable[int]) -> None:
        """A round begins: it first counts what is `uncounted`, and gives first answers to those that are `answered`."""
        self._changes = {each: _Counts({}) for each in uncounted}
        self._answers = {each: _Counts({}) for each in answered}

    def commit(self) -> None:
        for query_id, counts in self._changes.items():
            if counts.before is not self._counts.get(query_id):
                self._counts[query_id] = {}
            known = self._counts[query_id]
            for identity, n in counts.changed.items():
                if n:
                    known[identity] = n
                else:
                    known.pop(identity, None)
        for query_id, counts in self._answers.items():
            self._counts[query_id] = counts.changed
        self._changes, self._answers = {}, {}

    def rollback(self) -> None:
        self._changes, self._answers = {}, {}

    # ----------------------------------------------------------------------------------------- results

    def results(self, matches: Sequence[CountedMatches]) -> list[FilterOutput]:
        """Of what queries match in a round, in all relations they read: where a result appears or leaves; and errors."""
        parts_of = [each.parts() for each in matches]
        parts = [(each.derived, part) for each, mine in zip(matches, parts_of, strict=True) for part in mine]
        chosen: list[list[int]] = [[] for _ in parts]
        for (set_id, is_answer, identity), occurrences in _occurrences(parts).items():
            counts = self._counts_of(set_id, is_answer=is_answer)
            before = counts.get(identity)
            # what was in error when it appeared is not counted, and may match when it leaves
            after = counts.changed[identity] = max(0, before + occurrences.n)
            for part, pair in occurrences.results(before, after):
                chosen[part].append(pair)
        chosen_parts = (
            part.take(np.array(sorted(pairs), np.int64))
            for (_, part), pairs in zip(parts, chosen, strict=True)
        )
        found = []
        for each, mine in zip(matches, parts_of, strict=True):
            kept = tuple(part for part in islice(chosen_parts, len(mine)) if len(part))
            found.append(replace(each.output, hits=(), parts=kept, dead_pairs=self._dead_pairs(each)))
        return found

    def _counts_of(self, set_id: int, *, is_answer: bool) -> _Counts:
        if is_answer:
            return self._answers.setdefault(set_id, _Counts({}))
        counts = self._changes.get(set_id)
        if counts is None:
            counts = self._changes[set_id] = _Counts(self._counts[set_id])
        return counts

    def _dead_pairs(self, matches: CountedMatches) -> DeadPairs:
        """The errors; of a semi join one for a row, if it has no match."""
        dead, derived = matches.output.dead_pairs, matches.derived
        if derived.shown is None or not len(dead.rows):
            return dead
        distinct_ids = set(matches.distinct_ids.tolist())
        identities = identities_of(derived.shown.keys)
        first: dict[tuple[int, Hashable], int] = {}
        for pair, (row, query_id) in enumerate(zip(dead.rows.tolist(), dead.query_ids.tolist(), strict=True)):
            is_matched = query_id not in distinct_ids and self._counts_of(
                query_id, is_answer=derived.is_answer
            ).get(identities[row])
            if not is_matched:
                first.setdefault((query_id, identities[row]), pair)
        pairs = np.array(list(first.values()), np.int64)
        return DeadPairs(dead.rows[pairs], dead.query_ids[pairs], tuple(dead.failures[k] for k in pairs))

    def snapshot(self) -> dict[str, Any]:
        return {"queries": len(self._counts), "counts": self.n_counts, "nbytes": self.nbytes}

    def check(self) -> None:
        """Assert that only what occurs has a count. Between rounds."""
        for query_id, counts in self._counts.items():
            assert all(n > 0 for n in counts.values()), f"query {query_id}: {counts}"


def _occurrences(parts: Sequence[tuple[Derived, PartMatches]]) -> dict[_Result, _Occurrences]:
    """What occurs in the matches, by result, in the order of the matches."""
    found: dict[_Result, _Occurrences] = {}
    for number, (derived, part) in enumerate(parts):
        groups = _groups(part, derived)
        signs = np.sign(part.signs).astype(np.int64)
        n = np.bincount(groups.of, weights=signs).astype(np.int64).tolist()
        leaving, appearing = (_first_pairs(groups.of, signs == sign) for sign in (-1, 1))
        set_ids = part.segment.set_ids[part.positions[groups.first]].tolist()
        for group in np.argsort(groups.first).tolist():
            result = set_ids[group], derived.is_answer, groups.identities[group]
            known = found.setdefault(result, _Occurrences())
            known.n += n[group]
            known.is_replaced |= bool(groups.is_new[group])
            if group in leaving:
                known.first_to_leave = known.first_to_leave or (number, leaving[group])
            if group in appearing:
                known.first_to_appear = known.first_to_appear or (number, appearing[group])
    return found


@dataclass(frozen=True, slots=True)
class _Groups:
    """The pairs of a part that are of one query and have the same identity; one identity may have several groups."""

    of: Numbers  # by pair
    first: Numbers  # by group: its first pair
    identities: list[Hashable]  # by group
    is_new: Mask  # by group: whether something that appears in it came in this round


def _groups(part: PartMatches, derived: Derived) -> _Groups:
    pairs, shown = np.arange(len(part)), derived.shown
    is_new = np.zeros(len(part), dtype=bool)
    if part.segment.shape.is_distinct:
        codes = [_codes(column) for column in part.project(pairs).columns]
    else:
        assert shown is not None, f"{part.segment.shape.key!r} has no key to be counted by"
        codes = [shown.group[part.rows]]
        is_new = shown.is_new[part.rows] & (part.signs > 0)
    of = part.positions
    for each in codes or [np.zeros(len(part), np.int64)]:
        _, first, of = np.unique(
            of * (each.max(initial=0) + 2) + each, return_index=True, return_inverse=True
        )
    if part.segment.shape.is_distinct:
        identities = identities_of(part.project(first))
    else:
        assert shown is not None
        identities = identities_of(shown.keys.take(pa.array(part.rows[first])))
    return _Groups(of, first, identities, np.bincount(of, weights=is_new) > 0)


def _codes(column: pa.Array) -> Numbers:
    """A number from -1 on for each value, by which equal values may differ, but different ones do not agree."""
    if is_nested(column.type) or column.type == MONTHS:
        numbers: dict[Hashable, int] = {}
        return np.array(
            [numbers.setdefault(each, len(numbers)) for each in _hashable_values(column)], np.int64
        )
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes: Numbers = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return codes


def _first_pairs(of: Numbers, mask: Mask) -> dict[int, int]:
    """The first pair in the mask of each group that has one."""
    pairs = np.flatnonzero(mask)
    groups, first = np.unique(of[pairs], return_index=True)
    return dict(zip(groups.tolist(), pairs[first].tolist(), strict=True))


# ------------------------------------------------------------------------------------------------ values


def identities_of(rows: pa.RecordBatch) -> list[Hashable]:
    """The values of each row, equal where SQL groups them together: NULL with NULL, NaN with NaN, -0.0 with 0.0."""
    return list(zip(*(_hashable_values(column) for column in rows.columns), strict=True))


def _hashable_values(column: pa.Array) -> list[Hashable]:
    t = column.type
    if pa.types.is_timestamp(t) or pa.types.is_duration(t):  # Python has no years before 1 or after 9999
        return list(column.view(pa.int64()).to_pylist())
    if pa.types.is_date32(t):
        return list(column.view(pa.int32()).to_pylist())
    values = python_values(column)
    return [_hashable(value) for value in values] if is_floating(t) or is_nested(t) else values


def _hashable(value: Any) -> Hashable:
    if isinstance(value, float):
        return _NAN if value != value else value
    if isinstance(value, dict):
        return tuple(_hashable(each) for each in value.values())
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    known: Hashable = value
    return known
