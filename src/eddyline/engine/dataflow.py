"""The walk of a round: rows of relations through their filters to the operators above, and what these derive the same way.

This is the only place that walks. The driver calls it with all rows of a round; a task with some rows of one stream, where an
operator hands on what it wants (join_tasks.py); a worker with rows that were handed on, and its share of the work
(join_replica.py). Which place it is decides nothing but speed.

  1. where results are counted that were not counted yet, or views are kept that were not, the tables as they are pass by
     (multiplicities.py, view_tables.py);
  2. the rows of each base relation meet the filters of its queries;
  3. each operator, in order, gets the rows its inputs want; what it derives meets the filters of that relation and is there for
     the operators after it; then it gives the first answers of queries that are new to its tables, and learns how far time has
     come. Then results are counted of queries for which all rows of the round are there.

At the end, derived rows get their numbers (derived_order.py), and only then results over them leave the walk.

Wherever rows meet filters, those that match the body of a view are rows of that view, and go on in the same way (view_rows.py);
those that match a branch of a union are results of its query (branches.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from eddyline.batch import QueryIds, TupleBatch
from eddyline.engine.branches import under_queries, without_branches
from eddyline.engine.counted_relations import Rank
from eddyline.engine.derived_order import OF_ARRIVALS, DerivedOrder, batches_of, group_of, is_provisional
from eddyline.engine.filter_events import filter_events
from eddyline.engine.join_calls import JoinCalls
from eddyline.engine.join_visibility import (
    FirstVersions,
    decided,
    once,
    only,
    partners,
    queries_and_bodies,
    queries_of,
    visible,
    with_reach,
    without,
    without_unchanged,
)
from eddyline.engine.letters import pair_letter
from eddyline.engine.multiplicities import CountedMatches, Multiplicities
from eddyline.engine.net_answers import net_of
from eddyline.engine.round_output import RoundOutput
from eddyline.engine.update_images import grouped_images_in, images_in, with_images, with_images_in
from eddyline.engine.view_rows import ViewRows, together
from eddyline.filters import FilterOutput, FilterStage, StageCounters
from eddyline.model import Round, Signature, StreamPlan
from eddyline.operators import (
    WHOLE,
    ArrivedRows,
    Derived,
    DerivedNumbers,
    Mask,
    Numbers,
    Operator,
    OperatorInput,
    Part,
    RoundProgress,
    Share,
    Unmatched,
    WantedMasks,
)
from eddyline.statistics import StageRecord


@dataclass(frozen=True, eq=False)
class Relation:
    """A relation in one place: the plan of its queries, and the filters that have it."""

    plan: StreamPlan
    filters: FilterStage
    first_versions: FirstVersions | None = None  # of a derived relation: from which on each query sees rows
    signature: Signature | None = None  # of a join
    generations_of: Callable[[QueryIds], QueryIds] | None = None  # of queries, where results are written
    is_for_workers: bool = False  # a join that workers may take on
    counts: Multiplicities | None = None  # of a table with queries whose results are counted
    counted_ids: Sequence[tuple[Rank, QueryIds]] = ()  # these queries, by when they are counted


class FlowPlace(Protocol):
    """Where a round is walked: the driver, a task, or a worker that holds state."""

    calls: JoinCalls
    holds_state: bool  # otherwise operators only take what the place that does needs of rows

    @property
    def operators(self) -> Sequence[Operator]:
        """Inputs before what is derived from them."""

    def relation(self, name: str) -> Relation:
        """A relation that queries are registered on."""

    def input_filters(self, operator_input: OperatorInput) -> Relation | None:
        """What is asked of rows of an input alone; None: all of them are wanted."""

    def view_rows(self, name: str, bodies: FilterOutput, below: Derived | None) -> Iterator[ViewRows]:
        """The rows of views that bodies have found on a relation; `below` are its rows, if they did not arrive."""

    def letter_queries(self, body_id: int, *, is_answer: bool) -> Sequence[int]:
        """The queries that get the dead letters of a body of a view; none if the view gets them with its own results.

        Of rows that are there for first answers, queries that get one; else, of a view without a name, the others.
        """

    def unanswered(self, relation: str) -> QueryIds:
        """The queries of a table, and bodies of views over it, that have to see its current rows."""

    def uncounted(self, relation: str) -> QueryIds:
        """The queries of a table, and bodies of views over it, that have to see the rows it had before the round."""


@dataclass(slots=True)
class Arrivals:
    """Rows with which a walk begins."""

    batches: dict[str, TupleBatch] = field(default_factory=dict)  # for the filters of their relation
    rows: dict[str, ArrivedRows] = field(default_factory=dict)  # for operators
    views: list[ViewRows] = field(default_factory=list)  # that tasks found
    parts: Sequence[Part] = ()  # that tasks made of rows, for operators
    wanted: WantedMasks = field(default_factory=dict)  # as far as it is known; the rest is found out here


@dataclass(frozen=True, slots=True)
class _CountedRows:
    """What counted queries match in rows of a relation."""

    name: str
    relation: Relation
    output: FilterOutput
    derived: Derived

    @property
    def matches(self) -> CountedMatches:
        return CountedMatches(self.output, self.derived, self.relation.plan.distinct_ids)


class Walk:
    """One round, or a part of it, in one place."""

    def __init__(
        self,
        place: FlowPlace,
        round_: Round,
        output: RoundOutput,
        keep: Callable[[str, Relation, FilterOutput], None],
    ) -> None:
        """`keep` takes what queries match, by relation."""
        self._place = place
        self._round = round_
        self._output = output
        self._keep = keep

    def run(
        self,
        arrivals: Arrivals,
        numbers: DerivedNumbers,
        before: RoundProgress,
        after: RoundProgress | None,
        share: Share = WHOLE,
    ) -> None:
        """Walk; `before` and `after` are the progress of streams before and after the round, None where time decides nothing."""
        place, round_ = self._place, self._round
        self._numbers = numbers
        self._arrived = {name: [rows] for name, rows in arrivals.rows.items()}
        self._recounted: dict[str, list[ArrivedRows]] = {}
        self._order = DerivedOrder()
        self._unnumbered: list[tuple[str, Relation, FilterOutput]] = []
        self._counted: dict[Rank, list[_CountedRows]] = {}  # what waits to be counted
        wanted = dict(arrivals.wanted)
        for operator in place.operators:
            current = {name: together(pieces) for name, pieces in self._recounted.items()}
            for derived in operator.recounted(current, before, round_):
                self._take(derived)
            self._count(operator.level)
        for name, batch in arrivals.batches.items():
            self._filter(name, place.relation(name), batch)
        for found in arrivals.views:
            self._take_view(found, found.feed.source, None, None)
        for operator in place.operators:
            rows = {name: together(pieces) for name, pieces in self._arrived.items()}
            self._find_wanted(operator, rows, wanted)
            if not place.holds_state:
                operator.partial(rows, wanted)
                continue
            operator.merge(arrivals.parts)
            derived_rows: dict[str, ArrivedRows] = {}
            for derived in operator.push(rows, wanted, before, round_, share):
                if not derived.is_filtered:
                    self._take(derived)
                if derived.arrived is not None:
                    derived_rows[derived.relation] = derived.arrived
            self._arrived |= {name: [rows] for name, rows in derived_rows.items()}
            for derived in operator.current(before, round_):
                self._take(derived)
            if after is not None:
                for derived in operator.advance(after, round_):
                    self._take(derived)
            self._count(operator.level)
            self._output.add_letters(operator.take_letters())
            self._output.events += operator.events()
        self._number(numbers)

    def _number(self, numbers: DerivedNumbers) -> None:
        """Give derived rows their numbers, and let go of what queries made of them."""
        derived_rows = self._order.numbered(numbers.first)
        for name, relation, output in self._unnumbered:
            derived_rows.renumber(batches_of(output))
            self._keep(name, relation, output)
        if len(derived_rows):
            derived_rows.renumber_letters(self._output)
        self._output.n_derived += len(derived_rows)

    def _take(self, derived: Derived) -> None:
        """What the queries of a derived relation make of its rows."""
        self._filter(derived.relation, self._place.relation(derived.relation), derived.batch, derived)

    def _filter(
        self, name: str, relation: Relation, batch: TupleBatch, derived: Derived | None = None
    ) -> None:
        """What queries match, and what bodies of views do; `derived` says what the rows are, if they did not arrive."""
        filters, calls = relation.filters, self._place.calls
        before, cpu = replace(filters.counters), time.thread_time()
        if relation.signature is None:
            output = filters.push(batch, self._round)
        else:
            known = calls.known(relation.signature, batch)
            output = filters.push(batch, self._round, known, calls.alike(relation.signature, batch))
            asked = calls.keep(relation.signature, batch, filters.call_results)
            self._output.asked.update({(relation.signature.name, place): n for place, n in asked.items()})
        if derived is not None:
            output = self._seen(relation, derived, output)
            for rank, ids in () if derived.is_closed else relation.counted_ids:
                self._counted.setdefault(rank, []).append(
                    _CountedRows(name, relation, only(output, ids), derived)
                )
                output = without(output, ids)
        record = _record(batch, before, filters.counters, time.thread_time() - cpu)
        self._output.events += filters.events()
        self._output.events += filter_events(batch.stream, filters.decisions(), filters.router.keys)
        self._tell(name, relation, output, derived, record)

    def _tell(
        self,
        name: str,
        relation: Relation,
        output: FilterOutput,
        derived: Derived | None,
        record: StageRecord,
    ) -> None:
        """Let queries have their results, and views their rows."""
        if derived is not None:
            self._order_rows(relation, derived, output)
        output, bodies = queries_and_bodies(output, relation.plan)
        if derived is None or derived.gives_results:
            if derived is not None and derived.preimages is not None:
                output = with_images(output, derived.preimages)
            elif derived is not None and derived.shown is not None:
                output = with_images_in(output, derived.shown.group)
            record = replace(record, n_matches=output.n_matches)
            self._output.add_output(name, output, record, self._round.number)
            self._hand_out(name, relation, output, derived)
        elif derived.is_closed:
            output, _ = under_queries(output, relation.plan, self._numbers)
            self._keep(name, relation, output)
        if bodies is not None:
            self._feed_views(name, bodies, derived)

    def _count(self, level: int) -> None:
        """Count what queries match that read nothing above this level of joins; what appears and leaves is a result."""
        while self._counted and min(self._counted)[0] <= level:
            rank = min(self._counted)
            waiting = sorted(self._counted.pop(rank), key=lambda each: each.derived.origin)
            counts = waiting[0].relation.counts
            assert counts is not None, waiting[0].name
            outputs = counts.results([each.matches for each in waiting])
            for each, output in zip(waiting, outputs, strict=True):
                self._tell(each.name, each.relation, output, each.derived, _no_work(output.batch))
            assert not self._counted or min(self._counted) > rank, f"rows came after {rank} was counted"

    def _hand_out(self, name: str, relation: Relation, output: FilterOutput, derived: Derived | None) -> None:
        """Let results go, those over derived rows and of further branches of unions once these have numbers."""
        is_unnumbered = is_provisional(output.batch)
        output, branches = under_queries(output, relation.plan, self._numbers)
        for made in branches:
            group, origin = OF_ARRIVALS, name
            if derived is not None:
                group = group_of(derived.phase, is_for_workers=relation.is_for_workers)
                origin = derived.origin
            self._order.add_branch(group, origin, made)
        if not is_unnumbered and not branches:
            self._keep(name, relation, output)
        elif output.n_matches:
            self._unnumbered.append((name, relation, output))

    def _feed_views(self, name: str, bodies: FilterOutput, below: Derived | None) -> None:
        """What bodies found are rows of their views: they meet filters there, and are there for operators above."""
        if below is None or below.gives_results:
            self._add_body_letters(bodies, is_answer=below is not None and below.is_answer)
        origin = name if below is None else below.origin
        for found in self._place.view_rows(name, bodies, below):
            self._take_view(found, origin, bodies.batch, below)

    def _take_view(
        self, found: ViewRows, origin: str, source: TupleBatch | None, below: Derived | None
    ) -> None:
        """Rows of a view, made of those of `source`, which come from this origin."""
        derived = self._view_derived(found, source, below)
        if found.has_own_numbers:
            numbers = self._numbers.take(len(found.batch))
            derived = replace(derived, batch=replace(found.batch, arrival=numbers), is_numbered=False)
        path = f"{found.view.name} {found.feed.shape.branch:02} of {origin}"
        self._take(replace(derived, phase=0 if below is None else below.phase, path=path))
        if found.arrived is not None:
            is_recount = below is not None and below.is_recount
            pieces = self._recounted if is_recount else self._arrived
            pieces.setdefault(found.view.name, []).append(found.arrived)

    def _add_body_letters(self, bodies: FilterOutput, *, is_answer: bool) -> None:
        ids = bodies.dead_pairs.query_ids.tolist()
        queries_of = {each: self._place.letter_queries(each, is_answer=is_answer) for each in set(ids)}
        for at, body_id in enumerate(ids):
            for query_id in queries_of[body_id]:
                letter = pair_letter(bodies, at, self._round.number)
                self._output.add_letters([replace(letter, query_id=query_id)])

    def _view_derived(self, found: ViewRows, source: TupleBatch | None, below: Derived | None) -> Derived:
        """The rows of a view, for those of its readers that are meant."""
        place, name = self._place, found.view.name
        is_net = below is not None and below.is_net
        derived = Derived(
            name,
            found.batch,
            is_numbered=True,
            at_end=found.at_end,
            identity=found.identity,
            is_net=is_net,
            versions=found.versions,
        )
        if below is not None and below.is_recount:
            return replace(derived, only=place.uncounted(name), is_recount=True)
        ids = place.unanswered(name) if found.view.is_table else None
        if ids is None or (below is not None and below.is_answer):
            return replace(derived, only=ids)
        if derived.is_closed:  # first answers have what closes
            return derived
        if below is not None and below.is_unchanged:
            return replace(derived, without=queries_of(ids), is_unchanged=True)
        images = None
        if source is not None and not found.feed.shape.is_distinct:  # else a row is nothing but its values
            images = _images(found.batch, source, below)
        return replace(derived, without=queries_of(ids), preimages=images)

    def _order_rows(self, relation: Relation, derived: Derived, output: FilterOutput) -> None:
        """Take note of the rows that get numbers: those of views have them from the rows they were made of, as a rule."""
        if is_provisional(derived.batch) and not derived.is_numbered and derived.gives_results:
            taken = without_branches(output, relation.plan)
            self._order.add(derived.origin, derived.phase, taken, is_for_workers=relation.is_for_workers)

    def _seen(self, relation: Relation, derived: Derived, output: FilterOutput) -> FilterOutput:
        """What of it the queries see."""
        if derived.without is not None and len(derived.without):
            output = without(output, derived.without)
        if derived.among is not None:
            output = only(output, derived.among)
        if derived.only is not None:
            output = only(output, derived.only)
        elif derived.versions is not None:
            first = relation.first_versions
            assert first is not None, f"{derived.relation} has rows of several versions"
            output = visible(output, derived.versions, first)
        if derived.is_net:
            output = net_of(output, derived.preimages)
        if derived.unmatched is not None:
            return self._decided(relation, derived.unmatched, output)
        return output if derived.repeated is None else once(output, derived.repeated)

    def _decided(self, relation: Relation, unmatched: Unmatched, output: FilterOutput) -> FilterOutput:
        """What of it is known to have no partner, or to be one."""
        first = relation.first_versions
        assert first is not None, f"{unmatched.relation} is of no join"
        asked = with_reach(relation.plan, unmatched.reach_us)
        if asked is not None:
            output = only(output, asked)
        if not output.n_matches and not len(output.dead_pairs.rows):
            return output
        output = decided(output, partners(self._matches(unmatched, first)), unmatched.is_alone)
        return output if unmatched.unchanged is None else without_unchanged(output, unmatched.unchanged)

    def _matches(self, unmatched: Unmatched, first: FirstVersions) -> Iterator[tuple[FilterOutput, Numbers]]:
        matching = self._place.relation(unmatched.relation)
        for each in unmatched.partners:
            yield visible(matching.filters.push(each.batch, self._round), each.versions, first), each.about

    def _find_wanted(
        self, operator: Operator, rows: Mapping[str, ArrivedRows], wanted: dict[OperatorInput, Mask]
    ) -> None:
        """Find out which rows each input of an operator wants, where that is not known."""
        for name, arrived in rows.items():
            for operator_input in operator.inputs(name):
                if operator_input not in wanted:
                    began = time.thread_time()
                    wanted[operator_input] = wanted_mask(
                        self._place, operator_input, arrived.batch, self._round
                    )
                    self._output.asking_s[operator_input] += time.thread_time() - began


def _images(batch: TupleBatch, source: TupleBatch, below: Derived | None) -> Numbers | None:
    """Which rows of a view are preimages; `source` and `below` are what it is made of."""
    if below is None or below.shown is None:
        preimages = None if below is None else below.preimages
        return None if preimages is None else images_in(batch, source, preimages)
    return grouped_images_in(batch, source, below.shown.group)


def wanted_mask(place: FlowPlace, operator_input: OperatorInput, batch: TupleBatch, round_: Round) -> Mask:
    """The rows that some query needs, by what it says of them alone."""
    relation = place.input_filters(operator_input)
    if relation is None:
        return np.ones(len(batch), dtype=bool)
    stream, filters = batch.stream.lower(), relation.filters
    output = filters.push(batch, round_, place.calls.of_rows(stream, batch))
    place.calls.keep_of_rows(stream, batch, filters.call_results)
    mask = np.diff(output.offsets) > 0
    mask[output.dead_pairs.rows] = (
        True  # not refuted: the filters of the derived relation find the error again
    )
    return mask


def _record(batch: TupleBatch, before: StageCounters, after: StageCounters, cpu_s: float) -> StageRecord:
    """What filters did; how many matches come of it is not known yet."""
    return StageRecord(
        stage="filters",
        stream=batch.stream,
        n_rows=len(batch),
        n_candidates=after.n_candidates - before.n_candidates,
        n_looked_at=after.n_waiting_pairs - before.n_waiting_pairs,
        n_matches=0,
        nbytes=batch.nbytes,
        cpu_s=cpu_s,
    )


def _no_work(batch: TupleBatch) -> StageRecord:
    """Of results that were counted after the filters were asked."""
    return StageRecord("filters", batch.stream, 0, 0, 0, 0, 0, 0.0)
