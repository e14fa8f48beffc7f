"""The filter stage: rows in, matching (row, query) pairs out.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: one tuple
serves all queries and carries which of them it still concerns; here a batch does.

  1. the predicate index decides all conditions it knows, for all rows and queries at once;
  2. cheap residual conditions are asked about pairs still undecided;
  3. expensive ones are filters: each at most once per row for all queries, in an order that follows the data
     (shared_strategy.py);
  4. projected expressions are computed for the pairs that match; plain columns and constants wait until they are read.

Rows on which a computed attribute is in error walk a second, looser index, to find the pairs no decided condition settles.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.batch import BitmapHits, ListHits, Positions, QueryIds, TupleBatch
from eddyline.events import Event
from eddyline.expressions import Alike, CallResult, Context
from eddyline.filters.batch_evaluation import BatchEvaluation
from eddyline.filters.bitset_blocks import BitsetBlocks
from eddyline.filters.filter_pool import DeclaredCost, FilterPool, SegmentFilters, no_declared_cost
from eddyline.filters.index_part import Hits, IndexPart, structure_facts
from eddyline.filters.matching import FilterOutput, merged_hits
from eddyline.filters.open_pairs import (
    DeadPairBuilder,
    DecidedPairs,
    OpenPairs,
    closed_pairs,
    decide_in_error,
    opened_pairs,
)
from eddyline.filters.predicate_index import PredicateIndex
from eddyline.filters.shared_strategy import DecisionTree, SharedWalk
from eddyline.model import DEFAULT_CHOICES, ExecutionChoices, Round, Shape, StreamPlan, UserCall
from eddyline.routing import (
    ADAPTIVE,
    UNSAMPLED,
    Decision,
    InOrder,
    Router,
    Routing,
    RoutingOptions,
    WalkRecord,
    combined_record,
)
from eddyline.statistics import own_time_s, sampled_mask, uniform_of

ID_BYTES = 4
BITMAP_BYTES = 64 << 20
LEAST_ROWS = 1 << 9  # at once: what a batch costs besides its rows is spread over many
LEAST_WORN = 128  # filters and classes; fewer are not worth looking for those that no query has any more
FULL_VERSIONS = 64  # of the plan, between two looks at a full pool
LEAST_SAMPLED = 32  # rows of a batch that is sampled at all
LEAST_SLICE, MOST_SLICE = 1 << 10, 1 << 16  # rows of a batch after which the policy learns from them
LEARNED_FROM_S = 0.02  # that filters took, for each of them: learning takes less than 1 % of it
LEARNED_FROM_BATCHES = 32  # at most, so that of small batches no more than some hundred rows wait
FEW_PAIRS = 1 << 18  # copied in less time than each further list costs to keep


@dataclass(slots=True)
class StageCounters:
    """Work done, for explain and benchmarks."""

    n_rows: int = 0
    n_candidates: int = 0  # pairs the index named
    n_waiting_pairs: int = 0  # pairs residual conditions and functions were asked about
    n_matches: int = 0
    n_dead: int = 0


class FilterStage:
    """The filters of one stream."""

    def __init__(
        self,
        context: Context,
        *,
        in_background: bool = False,
        options: RoutingOptions = ADAPTIVE,
        declared_cost: DeclaredCost = no_declared_cost,
        clock: Callable[[], float] = own_time_s,
    ) -> None:
        self._context = context
        self._options = options
        self._declared_cost = declared_cost
        self._clock = clock
        self.router = Router(options.policy, profile_rate=options.profile_rate, options=options)
        self.learning_lock = threading.Lock()  # held while the router learns, or another thread looks at it
        self._routing: Routing | None = None  # of another process, which learns instead
        self._pool = FilterPool(context, declared_cost)
        self._worn_at, self._worn_version = LEAST_WORN, 0  # size, version of the plan
        self._tree: tuple[object, DecisionTree] | None = None
        self._walk_records: list[WalkRecord] = []
        self._noted: list[WalkRecord] = []  # of batches that are to be learned from together,
        self._noted_s = 0.0  # and what their filters took
        self._decisions: list[Decision] = []
        self._plan: StreamPlan | None = None
        self._choices = DEFAULT_CHOICES  # of the plan
        self._in_background = in_background
        self.index = PredicateIndex(context, in_background=in_background)
        self._looser: PredicateIndex | None = None  # made when a computed attribute is first in error
        self.counters = StageCounters()
        self.call_results: Mapping[
            UserCall, CallResult
        ] = {}  # what functions gave on the rows of the last batch

    def build(self, plan: StreamPlan, choices: ExecutionChoices = DEFAULT_CHOICES) -> None:
        """Adopt a version of the plan, and what was chosen for it."""
        self._plan, self._choices = plan, choices

    def prepare(
        self,
        plan: StreamPlan,
        sample: TupleBatch,
        round_number: int,
        choices: ExecutionChoices = DEFAULT_CHOICES,
    ) -> tuple[IndexPart, ...]:
        """The parts of the index at the plan's version, built by some rows, for workers that filter elsewhere."""
        self.build(plan, choices)
        self._forget_unused_filters(plan)
        self.index.follow(plan, choices.structures, BatchEvaluation(sample, self._context), round_number)
        return self.index.parts

    def adopt(self, plan: StreamPlan, choices: ExecutionChoices, parts: tuple[IndexPart, ...]) -> None:
        """Take an index that was prepared elsewhere for this plan."""
        self.build(plan, choices)
        self.index.adopt(plan, choices.structures, parts)

    def push(
        self,
        batch: TupleBatch,
        round_: Round,
        known_calls: Mapping[UserCall, CallResult] | None = None,
        alike: Alike | None = None,
    ) -> FilterOutput:
        """The queries that match, by row. `known_calls` are results of calls on these rows elsewhere; `call_results` has all.
        Rows that are `alike` for a call are shown to it once."""
        assert self._plan is not None, f"no plan for stream {batch.stream}"
        self.call_results = {}
        self.counters.n_rows += len(batch)
        if not len(batch):
            return FilterOutput(batch, self._plan)
        self._forget_unused_filters(self._plan)
        context = Context(round_.now_us, self._context.time_zone, self._context.call_function)
        evaluation = BatchEvaluation(batch, context, alike=alike)
        self.call_results = evaluation.call_results
        evaluation.call_results.update(known_calls or {})
        self.index.follow(self._plan, self._choices.structures, evaluation, round_.number)
        hits: list[Hits] = []
        decided = DecidedPairs([], DeadPairBuilder())
        waiting: list[OpenPairs] = []
        n_waiting = 0
        for part in self.index.parts:
            for placed, found in part.probe(part.columns(evaluation), len(batch)):
                self.counters.n_candidates += len(found)
                if placed.is_exact:
                    hits.append(_smaller(found, len(batch)))
                    continue
                for pairs in self._open_pairs(part, found, None):
                    undecided_pairs, settled = opened_pairs(
                        pairs,
                        evaluation,
                        self._pool,
                        serves_planes=placed.serves_planes,
                        is_strict=self._options.is_strict,
                    )
                    decided.extend(settled)
                    if undecided_pairs is not None and len(undecided_pairs):
                        waiting.append(undecided_pairs)
                        n_waiting += len(undecided_pairs)
                    if max(n_waiting, evaluation.recorded_calls.n) > self._choices.pairs_at_once:
                        decided.extend(self._decide(waiting, evaluation, round_))
                        waiting, n_waiting = [], 0
                        evaluation.recorded_calls.forget()
        decided.extend(self._decide(waiting, evaluation, round_))
        rows = evaluation.rows_in_error()
        if len(rows):
            decided.extend(self._in_error(rows, evaluation, round_.number))
        output = FilterOutput(
            batch, self._plan, _as_few(hits, len(batch)), tuple(decided.parts), decided.dead_pairs.pairs()
        )
        self.counters.n_waiting_pairs += decided.n_waiting
        self.counters.n_matches += output.n_matches
        self.counters.n_dead += decided.dead_pairs.n
        return output

    def rows_at_once(self) -> int:
        """How many rows should be pushed at a time where there are more: bitmaps grow with rows times queries."""
        structures = [placed.structure for part in self.index.parts for placed in part.structures]
        widest = max((len(each.ids) for each in structures if isinstance(each, BitsetBlocks)), default=1)
        return min(self._choices.rows_at_once, max(LEAST_ROWS, 8 * BITMAP_BYTES // widest))

    def events(self) -> list[Event]:
        """What happened since this was last asked."""
        events = []
        for index in filter(None, (self.index, self._looser)):
            events += index.events
            index.events = []
        return events

    def snapshot(self) -> dict[str, Any]:
        """Version and counters, and the index: its size, its structures, and whether a new base is being built."""
        parts = self.index.parts
        with self.learning_lock:
            filters = self.router.snapshot()
        return {
            "filters": filters,
            "version": None if self._plan is None else self._plan.version,
            "n_queries": sum(part.n_queries for part in parts),
            "n_parts": len(parts),
            "nbytes": self.index.nbytes,
            "rebuilding": self.index.is_building,
            "structures": self.structures(),
            **{name: getattr(self.counters, name) for name in StageCounters.__slots__},
        }

    def structures(self) -> list[dict[str, Any]]:
        """The facts about each structure of the index, by part."""
        return [
            structure_facts(number, part, placed)
            for number, part in enumerate(self.index.parts)
            for placed in part.structures
        ]

    def structure_of(self, query_id: int) -> dict[str, Any] | None:
        """The structure that serves a query, or None if the index does not hold it: not built yet, or it can never match."""
        found = self.index.find(query_id)
        return None if found is None else structure_facts(*found)

    def check(self) -> None:
        for segment in self._plan.segments if self._plan else ():
            assert (np.diff(segment.ids) > 0).all(), (
                f"ids of a segment of {segment.shape.key!r} are not ascending"
            )
            assert all(len(column) == len(segment) for column in segment.slots), (
                "constants and ids differ in length"
            )
        self.index.check()
        self.router.check()

    def save(self) -> Sequence[bytes]:
        """Filters keep nothing from round to round."""
        return ()

    def load(self, blocks: Sequence[bytes]) -> None:
        assert not blocks, f"{len(blocks)} blocks of state for filters, which have none"

    def close(self) -> None:
        """Wait for what is being built beside the rounds."""
        self.index.wait()
        if self._looser is not None:
            self._looser.wait()

    # ----------------------------------------------------------------------------------------- expensive filters

    def follow_routing(self, routing: Routing, options: RoutingOptions) -> None:
        """Do as another process says, and leave the learning to it."""
        known = self._routing
        if known is None or known.keys != routing.keys or known.classes != routing.classes:
            self._number_as(routing.keys, routing.classes)
        self._routing, self._options = routing, options

    def take_walk_records(self) -> list[WalkRecord]:
        """Records of the walks since the last call, where another process learns; they are removed."""
        records, self._walk_records = self._walk_records, []
        return records

    def learn(self, records: Sequence[WalkRecord], round_number: int) -> None:
        """Take in what workers recorded."""
        with_filters = [each for each in records if each.keys]
        if with_filters:
            with self.learning_lock:
                self._decisions += self.router.learn(combined_record(with_filters), round_number)
            if not self._pool.begins_with(self.router.keys, self.router.classes):
                self._number_as(self.router.keys, self.router.classes)

    def decisions(self) -> list[Decision]:
        """What the router decided since the last call."""
        decisions, self._decisions = self._decisions, []
        return decisions

    def _number_as(self, keys: Sequence[str], classes: Sequence[frozenset[int]]) -> None:
        """Begin a new pool in which filters and classes have the numbers of a routing."""
        pool = FilterPool(self._context, self._declared_cost)
        pool.adopt(keys, classes)
        self._pool, self._tree = pool, None

    def _forget_unused_filters(self, plan: StreamPlan) -> None:
        """Make room where most filters were of dropped queries. A stage that follows a routing leaves that to its router."""
        pool, router = self._pool, self.router
        size = max(len(pool.filters) + len(pool.classes), len(router.keys) + len(router.classes))
        is_due = size >= self._worn_at and plan.version != self._worn_version
        is_due |= pool.is_full and plan.version >= self._worn_version + FULL_VERSIONS
        if self._routing is not None or not is_due:
            return
        self._worn_version = plan.version
        used = FilterPool(self._context, self._declared_cost, name="filters in use")
        for segment in plan.segments:
            if segment.n_live:
                used.of(segment)
        n_used = len(used.filters) + len(used.classes)
        self._worn_at, self._worn_version = max(LEAST_WORN, 2 * n_used), plan.version
        if 2 * n_used <= size or (pool.is_full and n_used < size):
            with self.learning_lock:
                router.keep(used.keys, used.classes)
            self._noted, self._noted_s = [], 0.0  # they are counted, and speak of filters that are gone
            self._number_as(router.keys, router.classes)

    def _decide(
        self, open_pairs: Sequence[OpenPairs], evaluation: BatchEvaluation, round_: Round
    ) -> DecidedPairs:
        """Pairs through the filters of the pool, then to their end."""
        decided = DecidedPairs([], DeadPairBuilder())
        is_strict, pool = self._options.is_strict, self._pool
        mine = [] if is_strict else [pairs for pairs in open_pairs if pool.of(pairs.segment).filters]
        walk = self._walk(mine, evaluation, round_) if mine else None
        for pairs in open_pairs:
            entry = None if is_strict else pool.of(pairs.segment)
            if walk is not None and entry is not None and entry.filters:
                decided.n_waiting += len(pairs)
                pairs = _let_through(pairs, walk, entry)
            if len(pairs):
                decided.extend(closed_pairs(pairs, evaluation, pool, is_strict=is_strict))
        return decided

    def _walk(
        self, open_pairs: Sequence[OpenPairs], evaluation: BatchEvaluation, round_: Round
    ) -> SharedWalk:
        batch, pool = evaluation.batch, self._pool
        walk = SharedWalk(
            pool,
            len(batch),
            [(pairs.rows, pool.of(pairs.segment).classes[pairs.positions]) for pairs in open_pairs],
            lambda k, rows: evaluation.truth_on_rows(pool.filters[k].conditions, rows),
            clock=self._clock,
        )
        first = 0
        while first < len(walk.rows):
            routing = self.router.routing() if self._routing is None else self._routing
            end = min(len(walk.rows), first + self._slice_rows(first, len(walk.rows)))
            if len(walk.rows) - end < end - first:
                end = len(walk.rows)
            walked = walk.run(
                routing,
                self._tree_for(routing),
                coins(batch.arrival, end - first, routing.rate, round_.seed, first=int(walk.rows[first])),
                small_group=self._options.small_group,
                first=first,
                end=end,
            )
            if self._routing is None:
                self._learn(walked, round_.number)
            else:
                self._walk_records.append(walked)
            first = end
        return walk

    def _learn(self, walked: WalkRecord, round_number: int) -> None:
        """Learn from rows, or later if they took so little time that learning would be a large part of it."""
        with self.learning_lock:
            if not self.router.can_wait(walked):
                self._learn_noted(round_number)
                self._decisions += self.router.learn(walked, round_number)
                return
            self.router.note(walked)
            self._noted.append(walked)
            self._noted_s += float(walked.seconds.sum())
            is_long = self._noted_s >= LEARNED_FROM_S * len(walked.keys)
            if is_long or len(self._noted) == LEARNED_FROM_BATCHES:
                self._learn_noted(round_number)

    def _learn_noted(self, round_number: int) -> None:
        noted, self._noted, self._noted_s = self._noted, [], 0.0
        if noted:
            self._decisions += self.router.learn(combined_record(noted), round_number, is_noted=True)

    def _slice_rows(self, n_before: int, n_rows: int) -> int:
        """How many rows to walk before the policy learns from them, where so many of the batch have been walked.

        Few at first and after a change, when there is most to learn; then three times as many as before: a call has a price.
        All where that is too much for what filters take.
        """
        router = self.router
        is_told = self._routing is not None or router.policy_name in UNSAMPLED
        if is_told or not router.is_worth_slicing(n_rows):
            return self._choices.rows_at_once
        return LEAST_SLICE if router.is_learning else min(MOST_SLICE, max(LEAST_SLICE, 3 * n_before))

    def _tree_for(self, routing: Routing) -> DecisionTree | None:
        """The decision tree of a policy that has one, as far as it was walked."""
        if isinstance(routing.policy, InOrder):
            return None
        if self._tree is None or self._tree[0] != (routing.generation, routing.policy.name):
            self._tree = (routing.generation, routing.policy.name), DecisionTree(routing.policy)
        return self._tree[1]

    # ----------------------------------------------------------------------------------------- open pairs

    def _open_pairs(self, part: IndexPart, hits: Hits, row_numbers: Positions | None) -> Iterator[OpenPairs]:
        """Pairs by segment, in pieces of bounded size. Row k of the hits is row `row_numbers[k]` of the batch."""
        assert self._plan is not None
        for first, rows, ids in _pieces(hits, self._choices.pairs_at_once):
            rows = rows + first
            if row_numbers is not None:
                rows = row_numbers[rows]
            numbers = part.shape_numbers(ids)
            order = np.argsort(numbers, kind="stable")
            bounds = np.searchsorted(numbers[order], np.arange(len(part.shapes) + 1))
            for number in np.unique(numbers):
                mine = order[bounds[number] : bounds[number + 1]]
                yield from self._of_shape(part.shapes[number], rows[mine], ids[mine])

    def _of_shape(self, shape: Shape, rows: Positions, ids: QueryIds) -> Iterator[OpenPairs]:
        assert self._plan is not None
        for segment in self._plan.by_shape.get(shape, ()):
            positions = np.searchsorted(segment.ids, ids)
            positions[positions == len(segment)] = 0
            here = (segment.ids[positions] == ids) & segment.is_live[positions]
            if here.all():
                yield OpenPairs.of(segment, rows, positions)
            elif here.any():
                yield OpenPairs.of(segment, rows[here], positions[here])

    def _in_error(self, rows: Positions, evaluation: BatchEvaluation, round_number: int) -> DecidedPairs:
        """The pairs of these rows that are in error and not refuted."""
        assert self._plan is not None
        if self._looser is None:
            self._looser = PredicateIndex(self._context, in_background=self._in_background, columns_only=True)
        self._looser.follow(self._plan, self._choices.structures, evaluation, round_number)
        found = DecidedPairs([], DeadPairBuilder())
        for part in self._looser.parts:
            columns = [
                column.take(rows) if len(column.keys) else column for column in part.columns(evaluation)
            ]
            for _, hits in part.probe(columns, len(rows)):
                for pairs in self._open_pairs(part, hits, rows):
                    found.extend(decide_in_error(pairs, evaluation, is_strict=self._options.is_strict))
        return found


def coins(
    arrival_numbers: npt.NDArray[np.int64], n_rows: int, rate: float, seed: int, *, first: int = 0
) -> npt.NDArray[np.bool_] | None:
    """Which rows of a batch are sampled, where `n_rows` of them, from `first` on, meet filters.

    Rather some of one batch than one of every batch: a call has a price of its own.
    """
    if rate <= 0 or not n_rows:
        return None
    at_once = min(LEAST_SAMPLED, n_rows)
    if rate * n_rows < at_once:
        if uniform_of(seed, int(arrival_numbers[first])) >= rate * n_rows / at_once:
            return None
        rate = at_once / n_rows
    return sampled_mask(arrival_numbers, seed, rate)


def _let_through(pairs: OpenPairs, walk: SharedWalk, entry: SegmentFilters) -> OpenPairs:
    """Pairs that no filter refutes, with the error of the first clause of the text that is in error."""
    pairs = pairs.keep(walk.survive(pairs.rows, entry.classes[pairs.positions]))
    errors = pairs.errors
    for filters in entry.filters:
        wrong = walk.errors(filters[pairs.positions], pairs.rows)
        if wrong is not None:
            errors = np.where(errors != 0, errors, wrong).astype(np.int32)
    return replace(pairs, errors=errors)


def _smaller(hits: Hits, n_rows: int) -> Hits:
    """A bitmap in which less than about 3 % of the bits are set takes less room as a list."""
    if isinstance(hits, BitmapHits) and ID_BYTES * len(hits) < hits.words.nbytes:
        return merged_hits(n_rows, [hits])
    return hits


def _as_few(hits: Sequence[Hits], n_rows: int) -> tuple[Hits, ...]:
    """All lists as one, which readers of the pairs would make of them anyway; bitmaps as they are.

    Long lists stay as they are beside a bitmap: a reader of the pairs copies them into one with what it has.
    """
    lists = [each for each in hits if isinstance(each, ListHits)]
    bitmaps = [each for each in hits if isinstance(each, BitmapHits)]
    if len(lists) < 2 or (bitmaps and sum(map(len, lists)) > FEW_PAIRS):
        return tuple(hits)
    return merged_hits(n_rows, lists), *bitmaps


def _pieces(hits: Hits, at_once: int) -> Iterator[tuple[int, Positions, QueryIds]]:
    """First row, rows counted from there, and ids, of as many rows at a time as bring a bounded number of pairs."""
    counts = hits.counts
    ends = np.cumsum(counts, dtype=np.int64)
    first = 0
    while first < len(counts):
        before = int(ends[first - 1]) if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + at_once, side="right")))
        if isinstance(hits, ListHits):
            ids = hits.ids[before : int(ends[stop - 1])]
        else:
            some = replace(hits, words=hits.words[first:stop], counts=hits.counts[first:stop])
            ids = merged_hits(stop - first, [some]).ids
        if len(ids):
            yield first, np.repeat(np.arange(stop - first), counts[first:stop]), ids
        first = stop
