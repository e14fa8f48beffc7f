"""Which queries see what of the rows that joins, tables and views make.

The filters of a signature's stream decide what its queries ask of a row. Four things they do not know, and what they gave is
narrowed by them here: from which version on a query sees rows, whether the row is meant for all of them, of semi joins, whether
another row is the same result, and, of outer joins, whether something matches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from eddyline.batch import ListHits, PartMatches, QueryIds
from eddyline.catalog import Catalog
from eddyline.expressions import Failure
from eddyline.filters import DeadPairs, FilterOutput, merged_hits
from eddyline.model import FIRST_BODY, FIRST_BRANCH, StreamPlan
from eddyline.operators import Repeated

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FirstVersions:
    """From which version on each query of a plan sees rows."""

    ids: QueryIds  # ascending
    versions: Numbers
    newest: int

    def __getitem__(self, ids: QueryIds) -> Numbers:
        found: Numbers = self.versions[np.searchsorted(self.ids, ids)]
        return found


def first_versions(plan: StreamPlan, catalog: Catalog) -> FirstVersions:
    """The versions of all queries and bodies that stand on a plan."""
    live = [segment for segment in plan.with_bodies.segments if segment.n_live]
    ids = np.concatenate([np.empty(0, np.int32), *(each.ids[each.is_live] for each in live)])
    versions = [catalog.queries.first_versions(each)[each.is_live] for each in live]
    order = np.argsort(ids)
    found = np.concatenate([np.empty(0, np.int64), *versions])[order]
    return FirstVersions(ids[order], found, int(found.max(initial=0)))


@dataclass(frozen=True, eq=False)
class Partners:
    """Of rows of an outer join: for which queries each has a partner, and for which that is in error and so unknown.

    Row and query are one number (`pair_numbers`). `is_unknown` has none that `is_matched` has.
    """

    is_matched: Numbers  # ascending, some more than once
    is_unknown: Numbers  # ascending
    failures: Sequence[Failure]  # of each of these


def narrowed(output: FilterOutput, keeps: Callable[[Numbers, QueryIds], Mask]) -> FilterOutput:
    """The matches of which a function of rows and query ids says so."""
    hits = merged_hits(len(output.batch), output.hits)
    pairs = np.flatnonzero(keeps(hits.rows, hits.ids))
    kept: list[PartMatches] = []
    for part in output.parts:
        mine = np.flatnonzero(keeps(part.rows, part.query_ids))
        if len(mine):
            kept.append(part.take(mine))
    dead = output.dead_pairs
    alive = np.flatnonzero(keeps(dead.rows, dead.query_ids))
    return FilterOutput(
        output.batch,
        output.plan,
        (ListHits(np.searchsorted(pairs, hits.offsets), hits.ids[pairs]),) if len(pairs) else (),
        tuple(kept),
        DeadPairs(dead.rows[alive], dead.query_ids[alive], tuple(dead.failures[k] for k in alive.tolist())),
    )


def visible(output: FilterOutput, versions: Numbers, first: FirstVersions) -> FilterOutput:
    """The matches of rows whose version is not below the one from which on the query sees rows."""
    if not len(versions) or versions.min() >= first.newest:
        return output
    return narrowed(output, lambda rows, ids: versions[rows] >= first[ids])


def only(output: FilterOutput, ids: QueryIds) -> FilterOutput:
    """The matches of some queries, given by their ids in any order."""
    return narrowed(output, lambda _, found: np.isin(found, ids))


def once(output: FilterOutput, repeated: Repeated) -> FilterOutput:
    """One match of each query for the rows of a group; an error only where it has none."""
    offsets, ids = output.pairs()
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    dead = output.dead_pairs
    is_dead = np.repeat((False, True), (len(rows), len(dead.rows)))
    rows, ids = np.concatenate((rows, dead.rows)), np.concatenate((ids, dead.query_ids))
    groups = pair_numbers(repeated.group[rows], ids)
    order = np.lexsort((repeated.rank[rows], is_dead, groups))
    _, first = np.unique(groups[order], return_index=True)
    pairs = order[first]
    kept = pair_numbers(rows[pairs], ids[pairs])
    return narrowed(output, lambda rows, ids: np.isin(pair_numbers(rows, ids), kept))


def is_body(ids: QueryIds) -> Mask:
    """Which ids are those of bodies of views."""
    found: Mask = (ids >= FIRST_BODY) & (ids < FIRST_BRANCH)
    return found


def queries_of(ids: QueryIds) -> QueryIds:
    """Those of these ids that are no bodies of views."""
    return ids[~is_body(ids)]


def queries_and_bodies(output: FilterOutput, plan: StreamPlan) -> tuple[FilterOutput, FilterOutput | None]:
    """What queries match, in all their branches, and what bodies of views do; None if there are no such bodies."""
    if not plan.bodies:
        return (replace(output, plan=plan.with_branches) if plan.branches else output), None
    queries = narrowed(output, lambda _, ids: ~is_body(ids))
    return replace(queries, plan=plan.with_branches), narrowed(output, lambda _, ids: is_body(ids))


def without(output: FilterOutput, ids: QueryIds) -> FilterOutput:
    """The matches of all queries but these."""
    return narrowed(output, lambda _, found: ~np.isin(found, ids))


def partners(found: Iterable[tuple[FilterOutput, Numbers]]) -> Partners:
    """What makes a match, as filters decided it of combinations; beside each the rows they are about."""
    matched, unknown, failures = [np.empty(0, np.int64)], [np.empty(0, np.int64)], list[Failure]()
    for output, about in found:
        offsets, ids = output.pairs()
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        matched.append(pair_numbers(about[rows], ids))
        unknown.append(pair_numbers(about[output.dead_pairs.rows], output.dead_pairs.query_ids))
        failures += output.dead_pairs.failures
    is_matched = np.sort(np.concatenate(matched))
    is_unknown, first = np.unique(np.concatenate(unknown), return_index=True)
    is_left = ~is_in(is_unknown, is_matched)
    return Partners(is_matched, is_unknown[is_left], [failures[at] for at in first[is_left].tolist()])


def decided(output: FilterOutput, found: Partners, is_alone: Mask | None = None) -> FilterOutput:
    """The matches of rows that nothing matches; of rows that are not `is_alone`, those that are matches themselves.

    Where it is unknown what matches, the pair is in error.
    """

    def is_unknown(rows: Numbers, ids: QueryIds) -> Mask:
        return is_in(pair_numbers(rows, ids), found.is_unknown)

    def is_result(rows: Numbers, ids: QueryIds) -> Mask:
        is_matched = is_in(pair_numbers(rows, ids), found.is_matched)
        is_single: Mask = ~is_matched & ~is_unknown(rows, ids)
        return is_single if is_alone is None else np.where(is_alone[rows], is_single, is_matched)

    results = narrowed(output, is_result)
    if not len(found.is_unknown):
        return results
    stuck = narrowed(output, is_unknown)
    offsets, ids = stuck.pairs()
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    why = np.searchsorted(found.is_unknown, pair_numbers(rows, ids)).tolist()
    unknown = DeadPairs(rows, ids, tuple(found.failures[at] for at in why))
    parts = (results.dead_pairs, stuck.dead_pairs, unknown)
    dead = DeadPairs(
        np.concatenate([each.rows for each in parts]),
        np.concatenate([each.query_ids for each in parts]),
        tuple(failure for each in parts for failure in each.failures),
    )
    return replace(results, dead_pairs=dead)


def without_unchanged(output: FilterOutput, unchanged: Numbers) -> FilterOutput:
    """The matches without those of rows that leave, each before itself as one that appears, where a query has both.

    The same of errors.
    """
    place_of = np.full(len(output.batch), -1, np.int64)
    place_of[unchanged] = place_of[unchanged + 1] = unchanged
    offsets, ids = output.pairs()
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    dead = output.dead_pairs
    twice = np.sort(
        np.concatenate([_twice(place_of[rows], ids), _twice(place_of[dead.rows], dead.query_ids)])
    )
    if not len(twice):
        return output
    return narrowed(output, lambda rows, ids: ~is_in(pair_numbers(place_of[rows], ids), twice))


def _twice(places: Numbers, ids: QueryIds) -> Numbers:
    """The pairs of place and query that are there twice; none of those without a place."""
    mask = places >= 0
    numbers = np.sort(pair_numbers(places[mask], ids[mask]))
    found: Numbers = numbers[1:][np.diff(numbers) == 0]
    return found


def is_in(numbers: Numbers, ascending: Numbers) -> Mask:
    """Which of these numbers are among others. Pairs have so many zeros that the hashes `np.isin` makes of them collide."""
    if not len(ascending):
        return np.zeros(len(numbers), dtype=bool)
    places = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    found: Mask = ascending[places] == numbers
    return found


def pair_numbers(rows: Numbers, ids: QueryIds) -> Numbers:
    """Row and query in one number."""
    return (rows.astype(np.int64) << 32) | ids.astype(np.int64)


def with_reach(plan: StreamPlan, reach_us: int | None) -> QueryIds | None:
    """The queries of an outer join that decide at this reach; None: all of them."""
    if reach_us is None:
        return None
    found = [
        segment.ids
        for segment in plan.with_bodies.segments
        if segment.shape.join is not None and segment.shape.join.reach_us[0][1] == reach_us
    ]
    return np.concatenate([np.empty(0, np.int32), *found])
