"""The join stage: rows of all streams of a round in, rows of all signatures out.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: one SteM for each
stream, shared by all queries.

  1. wanted rows of all streams are built into their SteMs, before any probe;
  2. from every input that has new rows, its signature is probed (probing.py): each combination once, by its latest row;
  3. combinations become rows of the signature's own stream, which the filters of that stream decide for all queries at once;
  4. outer joins: rows of input 0 are decided once no partner can come any more (outer.py); of tables, in every round in which
     they or their partners change (outer_tables.py);
  5. rows no query can need any more are purged.

What a round builds is undone by `rollback`, and stays with `commit`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.expressions import Context, Failure, Frame, evaluate
from eddyline.joins.join_tree import can_drive
from eddyline.joins.joined_rows import Counter, JoinedRows, in_order, joined_rows, unmatched_rows
from eddyline.joins.outer import (
    DECIDED_AT_ONCE,
    OuterDecisions,
    UndecidedRows,
    is_decided_at_once,
    is_decided_by_time,
)
from eddyline.joins.outer_tables import RowsAlone, RowStates, drivers_in, partners_in
from eddyline.joins.partners import TablePartner, ViewPartner, WindowPartner
from eddyline.joins.plan import Drivers, JoinPlan, SignaturePlan, drivers_of
from eddyline.joins.probe_origins import ProbeOrigins
from eddyline.joins.probing import Partner, ProbeCounters, ProbeOrigin
from eddyline.joins.ranges import range_probe
from eddyline.joins.retention import reaches
from eddyline.joins.row_order import lineage_order
from eddyline.joins.shared_probes import Hop, RememberedHop, SharedProbes, first_hop, meets_own, shared_hops
from eddyline.joins.stem import Stem
from eddyline.joins.table import KeyedTable
from eddyline.joins.version_chains import ALWAYS
from eddyline.joins.view_table import ViewTable
from eddyline.joins.windows import StoredWindows
from eddyline.model import DEFAULT_CHOICES, Column, ExecutionChoices, Expression, Role, Round
from eddyline.operators import (
    WHOLE,
    ArrivedRows,
    DerivedNumbers,
    Numbers,
    OperatorInput,
    RoundProgress,
    Share,
    WantedMasks,
)
from eddyline.routing import ADAPTIVE, RoutingOptions

LookUp = Callable[[str, int, int, TablePartner], Partner | None]


class JoinStage:
    """The joins of all signatures, over the windows of streams and the tables.

    Invariant: between rounds, windows, origins and decisions are those that the signatures of `plan` need.
    """

    def __init__(
        self,
        context: Context,
        *,
        routing: RoutingOptions = ADAPTIVE,
        seed: int = 0,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """`clock` measures probes, which wait for nothing."""
        self._context = context
        self.plan = JoinPlan(-1)
        self.windows = StoredWindows(self.evaluate)
        self.tables: Mapping[str, KeyedTable] = {}  # by name in lower case; set by the caller that feeds them
        self.look_up: LookUp = _probe_it  # another way to look up a table, by signature, place and origin
        self._origins = ProbeOrigins(self.evaluate, routing, seed, clock)
        self._decisions = OuterDecisions()
        self._shared_hops: frozenset[Hop] = frozenset()  # that several signatures begin with
        self._numbers = DerivedNumbers(0)  # of the rows that the running round derives
        self._choices = DEFAULT_CHOICES  # of the running round
        self._built: set[str] = set()  # streams whose rows the running round has built
        self._is_planned = False  # the running round has the queries of `plan` and no others

    @property
    def stems(self) -> Mapping[str, Stem]:
        """By stream, in lower case."""
        return self.windows.stems

    @property
    def origins(self) -> Mapping[tuple[str, int], ProbeOrigin]:
        """By signature and input, the probes from there; those no round has needed yet are missing."""
        return self._origins.by_input

    # ----------------------------------------------------------------------------------------- plans

    def build(self, plan: JoinPlan) -> None:
        """Adopt a plan version; between rounds only. If it fails, the next round builds anew."""
        self.plan = plan
        try:
            self._adopt(plan)
        except BaseException:
            self.plan = JoinPlan(-1)
            raise

    def _adopt(self, plan: JoinPlan) -> None:
        signatures = plan.by_name.keys()
        self._origins.keep(signatures)
        self._decisions.keep(signatures)
        keys = {stream: self._origins.keys(inputs) for stream, inputs in plan.stored_inputs.items()}
        orders = {stream: self._origins.orders(inputs) for stream, inputs in plan.stored_inputs.items()}
        self.windows.adopt(plan, keys, orders)
        self._shared_hops = shared_hops(
            plan.signatures, lambda each, place: self._origins.origin(each, place).tree
        )
        for stream, table in self.tables.items():
            table.set_keys(self._origins.keys(plan.inputs.get(stream, ())))
            table.keep_history(0 if plan.is_probed_as_of(stream) else None)

    def forget(self, streams: Iterable[str]) -> None:
        """Remove all rows of these streams; between rounds only."""
        self.windows.forget(streams)

    def evaluate(self, expression: Expression, rows: pa.RecordBatch) -> pa.Array:
        """The value of a key on rows of its stream; NULL where it is in error, so that it matches nothing."""
        if isinstance(expression, Column):
            return rows.column(expression.name)
        frame = self._frame(rows)
        return frame.array(evaluate(expression, frame))

    def failures(self, expression: Expression, rows: pa.RecordBatch) -> dict[int, Failure]:
        """On which rows a key is in error, and why."""
        if isinstance(expression, Column):
            return {}
        frame = self._frame(rows)
        errors = evaluate(expression, frame).errors
        if errors is None:
            return {}
        codes = np.broadcast_to(errors, rows.num_rows)  # what is the same on all rows has one
        return {row: frame.failure(int(codes[row])) for row in np.flatnonzero(codes).tolist()}

    def _frame(self, rows: pa.RecordBatch) -> Frame:
        columns = {("", name): column for name, column in zip(rows.schema.names, rows.columns, strict=True)}
        return Frame(rows.num_rows, columns, [], self._context, [], {}, {})

    # ----------------------------------------------------------------------------------------- a round

    def begin(
        self,
        numbers: DerivedNumbers,
        choices: ExecutionChoices = DEFAULT_CHOICES,
        *,
        is_planned: bool = False,
    ) -> None:
        """A round begins, in which derived rows get these numbers; whether it was planned with the plan adopted last."""
        self._numbers, self._choices = numbers, choices
        self._built = set()
        self._is_planned = is_planned
        self.windows.begin()

    def push(
        self,
        arrivals: Mapping[str, ArrivedRows],
        wanted_masks: WantedMasks,
        progress: RoundProgress,
        round_: Round,
        share: Share = WHOLE,
    ) -> Iterator[JoinedRows | UndecidedRows]:
        """Build what came, then join it, or a share of it. All that it yields must be taken before `commit`.

        Called again in a round, with more streams and other signatures, it builds what has come since.
        """
        for stream, rows in arrivals.items():
            if stream in self.windows.stems and stream not in self._built:
                self.windows.build(stream, rows, wanted_masks, round_)
            self._built.add(stream)
        shared = SharedProbes(self._shared_hops, arrivals, self._choices.remembered_pairs)
        for plan in self.plan.signatures:
            at_once = is_decided_at_once(plan.signature)
            # the rows that a match refutes are known when time decides
            is_counted_only = plan.signature.outer == "left anti" and is_decided_by_time(plan.signature)
            origins: list[Iterator[JoinedRows]] = []
            for place, drivers in _drivers(plan, arrivals, wanted_masks, share):
                joined = self._drive(
                    plan,
                    place,
                    drivers,
                    arrivals,
                    progress,
                    round_,
                    shared,
                    is_counted_only=is_counted_only,
                    needs_one=is_counted_only or (at_once and self._needs_one(plan)),
                )
                if at_once:
                    yield from self._decide_at_once(plan, drivers, joined, round_)
                else:
                    origins.append(joined)
            for found in in_order(origins):
                yield self._numbered(found)

    def _drive(
        self,
        plan: SignaturePlan,
        origin: int,
        drivers: Drivers,
        arrivals: Mapping[str, ArrivedRows],
        progress: RoundProgress,
        round_: Round,
        shared: SharedProbes | None = None,
        *,
        is_counted_only: bool = False,
        needs_one: bool = False,
    ) -> Iterator[JoinedRows]:
        probes = self._origins.origin(plan, origin)
        partners: dict[int, Partner] = {}
        counted: dict[int, Counter] = {}
        for place, entry in enumerate(plan.signature.inputs):
            counted[place] = _counter(entry.stream.lower(), arrivals, progress)
            if place != origin:
                hop = (
                    shared.hop(first_hop(plan.signature, probes.tree, place)) if shared is not None else None
                )
                partners[place] = self._partner(plan, place, origin, counted[place], round_, hop)
        joined = (
            joined_rows(plan, origin, drivers, partners, found, counted, round_)
            for found in probes.join(
                drivers, partners, self._choices.combinations_at_once, needs_one=needs_one
            )
            if not is_counted_only
        )
        yield from probes.timed(joined)

    def _needs_one(self, plan: SignaturePlan) -> bool:
        """Whether one partner of a row of input 0 is enough for all queries of the running round."""
        return plan.needs_one and self._is_planned

    def _numbered(self, joined: JoinedRows) -> JoinedRows:
        return joined.numbered(self._numbers.take(len(joined)))

    def answer(
        self, plan: SignaturePlan, rows: ArrivedRows, progress: RoundProgress, round_: Round
    ) -> Iterator[JoinedRows]:
        """What a signature of tables makes of the rows they have, given those of the first input."""
        everything = drivers_of(rows, np.arange(len(rows.batch)))
        now = replace(everything, arrival=np.full(len(everything), ALWAYS, np.int64))
        for joined in self._drive(plan, 0, now, {}, progress, round_):
            assert joined.table_numbers is not None, plan.name
            if plan.signature.inputs[0].role is not Role.VIEW:
                numbers = everything.arrival[joined.driver]
                joined.components[:, 0] = joined.table_numbers[:, 0] = numbers
            order = lineage_order(joined.driver, joined.components)
            yield self._numbered(joined if order is None else joined.take(order))

    # ----------------------------------------------------------------------------------------- outer joins

    def _decide_at_once(
        self, plan: SignaturePlan, drivers: Drivers, joined_batches: Iterator[JoinedRows], round_: Round
    ) -> Iterator[JoinedRows | UndecidedRows]:
        """Rows of input 0 that meet all they ever will when they come."""
        matched = []
        for joined in joined_batches:
            matched.append(self._numbered(joined))
            yield matched[-1]
        alone = self._unmatched_rows(plan, drivers)
        version = np.full(len(drivers), round_.version, np.int64)
        yield UndecidedRows(plan.name, None, alone, version, matched, drivers.at_end())

    def decide(self, progress: RoundProgress, round_: Round, share: Share = WHOLE) -> Iterator[UndecidedRows]:
        """Rows of input 0 of outer joins for which no partner can come any more; `progress` is that after the round."""
        for plan in self.plan.signatures:
            if share.has(plan.name) and is_decided_by_time(plan.signature):
                for reach in sorted(reaches(plan)):
                    yield from self._decide(plan, reach, progress, round_)

    def _decide(
        self, plan: SignaturePlan, reach: int, progress: RoundProgress, round_: Round
    ) -> Iterator[UndecidedRows]:
        stream = plan.signature.inputs[0].stream.lower()
        stem, bit = self.windows.stems[stream], self.windows.bit(stream, plan.name, 0)
        rows = self._decisions.due_rows(plan, reach, stem, bit, progress, round_)
        for first in range(0, len(rows), DECIDED_AT_ONCE):
            some = rows[first : first + DECIDED_AT_ONCE]
            drivers = self.windows.drivers(stream, some)
            meets_all = replace(drivers, arrival=np.full(len(some), ALWAYS, np.int64))
            matched = list(self._drive(plan, 0, meets_all, {}, progress, round_))
            unmatched = self._unmatched_rows(plan, drivers)
            at_end = np.ones(len(some), dtype=bool)
            yield UndecidedRows(plan.name, reach, unmatched, stem.rows.version[some], matched, at_end)

    def rows_alone(
        self,
        plan: SignaturePlan,
        states: RowStates,
        progress: RoundProgress,
        round_: Round,
        joined: Sequence[JoinedRows] | None = None,
    ) -> RowsAlone:
        """Rows of input 0 of an outer join of tables, with what may match them; `joined` is that, if it is known."""
        table, other = (self.tables[entry.stream.lower()] for entry in plan.signature.inputs)
        drivers = drivers_in(plan, table, states)
        found: Iterable[JoinedRows] | None = joined
        if found is None:
            found = partners_in(
                plan,
                drivers,
                states,
                other,
                lambda some: self._drive(
                    plan, 0, some, {}, progress, round_, needs_one=self._needs_one(plan)
                ),
                self._choices.pairs_at_once,
            )
        if self._needs_one(plan):
            matched = [np.empty(0, np.int64), *(each.driver for each in found)]
            states, found = states.alone(np.concatenate(matched)), None
            drivers = drivers_in(plan, table, states)
        batch = unmatched_rows(plan, drivers, other.schema, self._numbers.take(len(drivers)))
        return RowsAlone(batch, states.rows, states.preimages, states.unchanged, found)

    def _unmatched_rows(self, plan: SignaturePlan, drivers: Drivers) -> TupleBatch:
        schema = self.plan.schemas[plan.signature.inputs[1].stream.lower()]
        return unmatched_rows(plan, drivers, schema, self._numbers.take(len(drivers)))

    def _partner(
        self,
        plan: SignaturePlan,
        place: int,
        origin: int,
        counter: Counter,
        round_: Round,
        hop: RememberedHop | None,
    ) -> Partner:
        entry = plan.signature.inputs[place]
        stream, own = entry.stream.lower(), meets_own(plan.signature, origin, place)
        if entry.role is Role.VIEW:
            view = self.tables[stream]
            assert isinstance(view, ViewTable), stream
            # where a stream drives, what its end decides comes after the changes of tables
            return ViewPartner(view, self.evaluate, False, own or not plan.signature.is_of_tables, hop)
        if entry.role.is_table:
            table = TablePartner(self.tables[stream], self.evaluate, entry.role is Role.AS_OF, own, hop)
            return self.look_up(plan.name, place, origin, table) or table
        return WindowPartner(
            self.windows.stems[stream],
            self.evaluate,
            origin,
            own,
            self.windows.bit(stream, plan.name, place),
            plan.first_version,
            plan.grouped_needs[place],
            round_.now_us,
            counter,
            self._choices.pairs_at_once,
            hop,
            range_probe(plan.ranges, self._origins.origin(plan, origin).tree, place)
            if self._is_planned
            else None,
        )

    def commit(self, progress: RoundProgress, round_: Round, busy: AbstractSet[str] = frozenset()) -> int:
        """Keep what the round built, purge what no query can need any more; returns the number of purged rows.

        `progress` is that of the streams after the round. Rows of `busy` streams stay.
        """
        self._decisions.commit(self.plan.signatures, progress)
        return self.windows.commit(self.plan, progress, round_, busy)

    def rollback(self) -> None:
        """As if the round had not been."""
        self.windows.rollback()

    # ----------------------------------------------------------------------------------------- to look at

    def expected_work(self) -> dict[OperatorInput, float]:
        """What a row that looks for partners costs, by its input: in rows that it probed with, or found."""
        counts = {who: origin.counters for who, origin in self.origins.items() if origin.counters.n_drivers}
        return {
            who: 1 + (each.n_probes + each.n_matches + each.n_combinations) / each.n_drivers
            for who, each in counts.items()
        }

    def take_probe_counts(self) -> dict[OperatorInput, ProbeCounters]:
        """The work of all origins since this was last asked, for the place that sums it up."""
        counts = {who: origin.counters for who, origin in self.origins.items() if origin.counters.n_drivers}
        for who in counts:
            self.origins[who].counters = ProbeCounters()
        return counts

    def add_probe_counts(self, counts: Mapping[OperatorInput, ProbeCounters]) -> None:
        """Count work that was done in other places."""
        for (name, place), counters in counts.items():
            if name in self.plan.by_name:
                self._origins.origin(self.plan.by_name[name], place).counters.add(counters)

    def snapshot(self) -> dict[str, Any]:
        """SteMs by stream, and origins by signature and input."""
        return {
            "version": self.plan.version,
            "stems": {stream: stem.snapshot() for stream, stem in self.stems.items()},
            "origins": self._origins.snapshot(),
        }

    def check(self) -> None:
        self.windows.check()


def _drivers(
    plan: SignaturePlan, arrivals: Mapping[str, ArrivedRows], wanted_masks: WantedMasks, share: Share
) -> Iterator[tuple[int, Drivers]]:
    """The rows of a share that look for partners in a signature, by the input they came for."""
    if not share.has(plan.name):
        return
    for place, entry in enumerate(plan.signature.inputs):
        rows = arrivals.get(entry.stream.lower())
        if rows is not None and can_drive(plan.signature, place):
            batch = rows.batch
            mask = share.of(wanted_masks[plan.name, place] & ~batch.is_late, batch.arrival)
            if mask.any():
                yield place, drivers_of(rows, np.flatnonzero(mask))


def _probe_it(signature: str, place: int, origin: int, table: TablePartner) -> Partner | None:
    """Tables are probed by their keys."""
    return None


def _counter(
    stream: str, arrivals: Mapping[str, ArrivedRows], progress: RoundProgress
) -> Callable[[Numbers], npt.NDArray[np.int64]]:
    """How many rows of a stream have counted up to an arrival number of this round."""
    before, rows = progress.n_before.get(stream, 0), arrivals.get(stream)
    if rows is None:
        return lambda arrival: np.full(len(arrival), before, np.int64)
    return lambda arrival: rows.n_counted(arrival, before)
