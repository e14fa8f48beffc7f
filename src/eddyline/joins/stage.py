"""The join stage: rows of all streams of a round in, rows of all signatures out.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: one SteM for each
stream, shared by all queries.

  1. wanted rows of all streams are built into their SteMs, before any probe;
  2. from every input that has new rows, its signature is probed (probing.py): each combination once, by its latest row;
  3. combinations become rows of the signature's own stream, which the filters of that stream decide for all queries at once;
  4. outer joins: rows of input 0 are decided once no partner can come any more (outer.py);
  5. rows no query can need any more are purged.

What a round builds is undone by `rollback`, and stays with `commit`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.expressions import Context, Failure, Frame, evaluate
from eddyline.joins.join_tree import can_drive, join_tree
from eddyline.joins.joined_rows import Counter, JoinedRows, joined_rows, unmatched_rows
from eddyline.joins.outer import UndecidedRows, is_decided_at_once
from eddyline.joins.partners import TablePartner, WindowPartner
from eddyline.joins.plan import (
    WHOLE,
    ArrivedRows,
    Drivers,
    JoinPlan,
    Mask,
    Numbers,
    RoundProgress,
    Share,
    SignaturePlan,
    has_bit,
)
from eddyline.joins.probe_order import ProbeOrder
from eddyline.joins.probing import Partner, ProbeOrigin
from eddyline.joins.retention import RowMarks, covered_mask, decided_until, reaches
from eddyline.joins.stem import Key, Stem, StoredRows
from eddyline.joins.table import ALWAYS, KeyedTable
from eddyline.model import (
    NO_TIME,
    Column,
    Expression,
    Role,
    Round,
)

SMALL_STEM = 4_096  # rows, up to which a SteM is looked through after every round
GROWN_BY = 0.125  # of its rows came since then, or can leave: a larger one is looked through
SAMPLED = 64  # rows by which that is judged
DECIDED_AT_ONCE = 1 << 16  # rows of an outer join

WantedMasks = Mapping[
    tuple[str, int], Mask
]  # by signature and place: which of its stream's new rows some query wants


LookUp = Callable[[str, int, int, TablePartner], Partner | None]


class JoinStage:
    """The SteMs of all streams, and the joins over them."""

    def __init__(
        self,
        context: Context,
        *,
        policy: str = "auto",
        seed: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._context = context
        self._policy = policy
        self._seed = seed
        self._clock = clock
        self.plan = JoinPlan(-1)
        self.stems: dict[str, Stem] = {}  # by stream, in lower case
        self.tables: dict[str, KeyedTable] = {}  # the same; set by the caller that feeds them
        self.look_up: LookUp = _probe_it  # another way to look up a table, by signature, place and origin
        self._bits: dict[str, dict[tuple[str, int], int]] = {}  # by stream: which bit of `wants` is whose
        self._origins: dict[tuple[str, int], ProbeOrigin] = {}
        self.n_derived = 0  # rows this round derived
        self._first_derived = 0
        # outer joins, by signature and reach: up to which event time
        self._decided_until: dict[tuple[str, int], int] = {}
        self._built_since: dict[str, int] = {}  # rows, since a SteM was last looked through
        self._is_new_plan = False
        self.built_rows: dict[str, StoredRows] = {}  # by stream, in the round that is running

    # ----------------------------------------------------------------------------------------- plans

    def build(self, plan: JoinPlan) -> None:
        """Adopt a plan version; between rounds only. If it fails, the next round builds anew."""
        self.plan, self._is_new_plan = plan, True
        try:
            self._adopt(plan)
        except BaseException:
            self.plan = JoinPlan(-1)
            raise

    def _adopt(self, plan: JoinPlan) -> None:
        standing = {each.name for each in plan.signatures}
        self._origins = {key: origin for key, origin in self._origins.items() if key[0] in standing}
        self._decided_until = {key: until for key, until in self._decided_until.items() if key[0] in standing}
        self.forget([stream for stream in self.stems if stream not in plan.stored_inputs])
        for stream, inputs in plan.stored_inputs.items():
            self._fit(stream, inputs)
        for stream, table in self.tables.items():
            table.set_keys(self._table_keys(stream))
            table.keep_history(0 if self._is_probed_as_of(stream) else None)

    def forget(self, streams: Iterable[str]) -> None:
        """Let go of all rows of these streams; between rounds only."""
        for stream in streams:
            self.stems.pop(stream, None)
            self._bits.pop(stream, None)
            self._built_since.pop(stream, None)

    def _is_probed_as_of(self, stream: str) -> bool:
        """Whether a table is looked up at event times, so that its earlier rows are needed."""
        inputs = self.plan.inputs.get(stream, ())
        return any(plan.signature.inputs[place].role is Role.AS_OF for plan, place in inputs)

    def _table_keys(self, stream: str) -> set[Key]:
        """The keys by which a table is looked up."""
        return {
            self._origin(plan, origin).tree.child_keys[place]
            for plan, place in self.plan.inputs.get(stream, ())
            for origin in range(len(plan.signature))
            if origin != place and can_drive(plan.signature, origin)
        } - {()}

    def _fit(self, stream: str, inputs: list[tuple[SignaturePlan, int]]) -> None:
        """Let a SteM hold what these inputs need, under the keys by which they are probed."""
        declared = self.plan.schemas[stream]
        names = frozenset().union(*(plan.stored_columns(place) for plan, place in inputs))
        schema = pa.schema([entry for entry in declared if entry.name in names])
        stem = self.stems.get(stream)
        if stem is None:
            stem = self.stems[stream] = Stem(schema, self.evaluate)
        stem.reshape(schema)
        stem.set_keys(
            {
                self._origin(plan, origin).tree.child_keys[place]
                for plan, place in inputs
                for origin in range(len(plan.signature))
                if origin != place and can_drive(plan.signature, origin)
            }
            - {()}
        )
        bits = self._bits.setdefault(stream, {})
        wanted = {(plan.name, place): None for plan, place in inputs}
        for gone in [who for who in bits if who not in wanted]:
            del bits[gone]
        used = set(bits.values())
        free = (bit for bit in range(len(wanted) + len(used)) if bit not in used)
        for who in wanted:
            if who not in bits:
                bits[who] = next(free)

    def _origin(self, plan: SignaturePlan, place: int) -> ProbeOrigin:
        origin = self._origins.get((plan.name, place))
        if origin is None:
            tree = join_tree(plan.signature, place)
            order = ProbeOrder(tree, self._policy, self._seed)
            origin = ProbeOrigin(tree, order, self.evaluate, self._clock)
            self._origins[plan.name, place] = origin
        return origin

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

    def begin(self, first: int) -> None:
        """A round begins; rows it makes are numbered from here."""
        self._first_derived, self.n_derived, self.built_rows = first, 0, {}

    def push(
        self,
        arrivals: Mapping[str, ArrivedRows],
        wanted: WantedMasks,
        progress: RoundProgress,
        round_: Round,
        share: Share = WHOLE,
    ) -> Iterator[JoinedRows | UndecidedRows]:
        """Build what came, then join it, or a share of it. All that it yields must be taken before `commit`."""
        for stream, rows in arrivals.items():
            if stream in self.stems:
                self._store(stream, rows, wanted, round_)
        for plan in self.plan.signatures:
            for place, entry in enumerate(plan.signature.inputs):
                rows_of = arrivals.get(entry.stream.lower())
                if rows_of is not None and share.has(plan.name) and can_drive(plan.signature, place):
                    mask = share.of(wanted[plan.name, place] & ~rows_of.batch.is_late)
                    if mask.any():
                        drivers = rows_of.drivers(np.flatnonzero(mask))
                        made = self._drive(plan, place, drivers, arrivals, progress, round_)
                        if is_decided_at_once(plan.signature):
                            yield from self._decide_at_once(plan, drivers, made, round_)
                        else:
                            yield from made

    def _store(self, stream: str, rows: ArrivedRows, wanted: WantedMasks, round_: Round) -> None:
        bits = self._bits[stream]
        batch, n = rows.batch, len(rows.batch)
        wants = np.zeros((n, max(bits.values()) // 64 + 1), np.uint64)
        for who, bit in bits.items():
            if who in wanted:  # a round that was planned before an input came does not know it
                wants[:, bit // 64] |= wanted[who].astype(np.uint64) << np.uint64(bit % 64)
        kept = np.flatnonzero(wants.any(axis=1) & ~batch.is_late)
        if not len(kept):
            return
        stem = self.stems[stream]
        self.built_rows[stream] = built = StoredRows(
            _columns(batch.rows, stem.schema, kept),
            batch.arrival[kept],
            rows.position[kept],
            rows.time_us[kept],
            np.full(len(kept), round_.version, np.int64),
            np.full(len(kept), round_.now_us, np.int64),
            wants[kept],
        )
        stem.build(built)
        self._built_since[stream] = self._built_since.get(stream, 0) + len(kept)

    def _drive(
        self,
        plan: SignaturePlan,
        origin: int,
        drivers: Drivers,
        arrivals: Mapping[str, ArrivedRows],
        progress: RoundProgress,
        round_: Round,
    ) -> Iterator[JoinedRows]:
        partners: dict[int, Partner] = {}
        counted: dict[int, Counter] = {}
        for place, entry in enumerate(plan.signature.inputs):
            counted[place] = _counter(entry.stream.lower(), arrivals, progress)
            if place != origin:
                partners[place] = self._partner(plan, place, origin, counted[place], round_)
        for found in self._origin(plan, origin).join(drivers, partners):
            first = self.numbers(len(found))
            yield joined_rows(plan, origin, drivers, partners, found, counted, round_, first)

    def numbers(self, n: int) -> int:
        """The first of so many numbers for rows derived in this round."""
        first = self._first_derived + self.n_derived
        self.n_derived += n
        return first

    def answer(
        self, plan: SignaturePlan, rows: ArrivedRows, progress: RoundProgress, round_: Round
    ) -> Iterator[JoinedRows]:
        """What a signature of tables makes of the rows they have, given those of the first input."""
        everything = rows.drivers(np.arange(len(rows.batch)))
        now = replace(everything, arrival=np.full(len(everything), ALWAYS, np.int64))
        for joined in self._drive(plan, 0, now, {}, progress, round_):
            components = joined.batch.components
            assert components is not None, plan.name
            components[:, 0] = everything.arrival[joined.driver]
            yield joined

    # ----------------------------------------------------------------------------------------- outer joins

    def _decide_at_once(
        self, plan: SignaturePlan, drivers: Drivers, joined_batches: Iterator[JoinedRows], round_: Round
    ) -> Iterator[JoinedRows | UndecidedRows]:
        """Rows of input 0 that meet all they ever will when they come."""
        matched = []
        for joined in joined_batches:
            matched.append(joined)
            yield joined
        alone = self._unmatched_rows(plan, drivers)
        yield UndecidedRows(plan.name, None, alone, np.full(len(drivers), round_.version, np.int64), matched)

    def decide(self, progress: RoundProgress, round_: Round) -> Iterator[UndecidedRows]:
        """Rows of input 0 of outer joins for which no partner can come any more; `progress` is that after the round."""
        for plan in self.plan.signatures:
            if plan.signature.outer and not is_decided_at_once(plan.signature):
                for reach in sorted(reaches(plan)):
                    yield from self._decide(plan, reach, progress, round_)

    def _decide(
        self, plan: SignaturePlan, reach: int, progress: RoundProgress, round_: Round
    ) -> Iterator[UndecidedRows]:
        until = decided_until(plan, reach, progress)
        stream = plan.signature.inputs[0].stream.lower()
        if until is None:
            until = NO_TIME  # rows without a time are decided when they come: nothing can match them
        stem, bit = self.stems[stream], self._bits[stream][plan.name, 0]
        decided = self._decided_until.get((plan.name, reach), NO_TIME)
        first_new = int(np.searchsorted(stem.arrival, round_.first_arrival))
        rows = stem.every_row() if until > decided else np.arange(first_new, len(stem.arrival))
        time_us = stem.time_us[rows]
        is_open = (time_us > decided) & (time_us != NO_TIME) | (rows >= first_new)
        is_open &= has_bit(stem.wants, bit, rows)
        rows = rows[is_open & (time_us <= until)]
        for first in range(0, len(rows), DECIDED_AT_ONCE):
            mine = rows[first : first + DECIDED_AT_ONCE]
            drivers = Drivers(
                _batch(stem.take(mine, stem.schema.names), stem.schema, len(mine)),
                stem.arrival[mine],
                stem.time_us[mine],
                stem.position[mine],
                np.ones(len(mine), np.int8),
            )
            meets_all = replace(drivers, arrival=np.full(len(mine), ALWAYS, np.int64))
            matched = list(self._drive(plan, 0, meets_all, {}, progress, round_))
            yield UndecidedRows(
                plan.name, reach, self._unmatched_rows(plan, drivers), stem.version[mine], matched
            )

    def _unmatched_rows(self, plan: SignaturePlan, drivers: Drivers) -> TupleBatch:
        schema = self.plan.schemas[plan.signature.inputs[1].stream.lower()]
        return unmatched_rows(plan, drivers, schema, self.numbers(len(drivers)))

    def _partner(
        self, plan: SignaturePlan, place: int, origin: int, counter: Counter, round_: Round
    ) -> Partner:
        entry, driving = plan.signature.inputs[place], plan.signature.inputs[origin]
        stream = entry.stream.lower()
        meets_own = place < origin or driving.role is Role.CURRENT  # what only drives comes last
        if entry.role.is_table:
            table = TablePartner(self.tables[stream], self.evaluate, entry.role is Role.AS_OF, meets_own)
            return self.look_up(plan.name, place, origin, table) or table
        return WindowPartner(
            self.stems[stream],
            self.evaluate,
            origin,
            meets_own,
            self._bits[stream][plan.name, place],
            plan.first_version,
            plan.grouped_needs[place],
            round_.now_us,
            counter,
        )

    def commit(self, progress: RoundProgress, round_: Round) -> int:
        """Keep what the round built, purge what no query can need any more; returns the number of purged rows.

        `progress` is that of the streams after the round.
        """
        n_left = 0
        self.built_rows = {}
        for plan in self.plan.signatures:
            for reach in reaches(plan) if plan.signature.outer else ():
                until = decided_until(plan, reach, progress)
                if until is not None:
                    self._decided_until[plan.name, reach] = until
        for stream, stem in self.stems.items():
            stem.commit()
            if self._is_purged_now(stream, stem, progress, round_):
                is_kept = self._is_needed(stream, stem, slice(None), progress, round_)
                n_left += 0 if is_kept.all() else stem.purge(is_kept)
                self._built_since[stream] = 0
        self._is_new_plan = False
        return n_left

    def _is_purged_now(self, stream: str, stem: Stem, progress: RoundProgress, round_: Round) -> bool:
        """Whether to look through all rows of a stream: not after every round if there are many, and few of them can leave."""
        grown = self._built_since.get(stream, 0)
        if self._is_new_plan or stem.n_rows <= SMALL_STEM or grown > GROWN_BY * stem.n_rows:
            return True
        n = len(stem.arrival)
        some = np.arange(0, n, n // SAMPLED)  # some of these are gone already, as many as of all
        share_kept = np.count_nonzero(self._is_needed(stream, stem, some, progress, round_)) / len(some)
        return bool(share_kept < stem.n_rows / n - GROWN_BY)

    def _is_needed(
        self, stream: str, stem: Stem, rows: Numbers | slice, progress: RoundProgress, round_: Round
    ) -> Mask:
        """Which of these rows some query may still need."""
        marks = RowMarks(stem.position[rows], stem.time_us[rows], stem.version[rows], stem.now_us[rows])
        is_kept = np.zeros(len(marks), dtype=bool)
        n_counted = progress.n_before.get(stream, 0)
        for plan, place in self.plan.stored_inputs[stream]:
            bit = self._bits[stream][plan.name, place]
            is_wanted = has_bit(stem.wants, bit, rows)
            if is_wanted.any():
                is_kept |= is_wanted & covered_mask(plan, place, progress, round_.now_us, marks, n_counted)
        return is_kept

    def rollback(self) -> None:
        """As if the round had not been."""
        self.built_rows = {}
        for stem in self.stems.values():
            stem.rollback()

    def first_arrivals(self) -> dict[str, int]:
        """By stream, the arrival number of the first row that is kept; nothing where there is none."""
        return {
            stream: int(stem.arrival[stem.every_row()[0]])
            for stream, stem in self.stems.items()
            if stem.n_rows
        }

    def match_counts(self, signature: str, place: int) -> tuple[int, int]:
        """How many rows of an input have looked for partners, and how many of them found some everywhere."""
        origin = self._origins.get((signature, place))
        return (0, 0) if origin is None else (origin.counters.n_drivers, origin.counters.n_matched_drivers)

    def bits(self, stream: str) -> tuple[tuple[str, int] | None, ...]:
        """Which signature and input each bit of `wants` stands for in a stream's SteM."""
        by_bit = {bit: who for who, bit in self._bits[stream].items()}
        return tuple(by_bit.get(bit) for bit in range(max(by_bit, default=-1) + 1))

    def stored_rows(self, stream: str, since: int) -> StoredRows:
        """What is kept of a stream's rows from this arrival number on."""
        stem = self.stems[stream]
        rows = stem.every_row()
        rows = rows[stem.arrival[rows] >= since]
        return StoredRows(
            _batch(stem.take(rows, stem.schema.names), stem.schema, len(rows)),
            stem.arrival[rows],
            stem.position[rows],
            stem.time_us[rows],
            stem.version[rows],
            stem.now_us[rows],
            stem.wants[rows],
        )

    def restore(self, stream: str, rows_of: Callable[[Mapping[tuple[str, int], int]], StoredRows]) -> None:
        """Take back rows stored before a restart, given which bit belongs to which input now, without those no query needs."""
        stem = self.stems.get(stream)
        if stem is None:
            return
        stored = rows_of(self._bits[stream])
        wanted = np.flatnonzero(stored.wants.any(axis=1))
        if len(wanted):
            stem.build(_fitted_rows(stored, stem.schema, wanted))
            stem.commit()

    # ----------------------------------------------------------------------------------------- looking at it

    @property
    def origins(self) -> Mapping[tuple[str, int], ProbeOrigin]:
        """By signature and input, the probes from there; those no round has needed yet are missing."""
        return self._origins

    def snapshot(self) -> dict[str, Any]:
        """SteMs by stream, and origins by signature and input."""
        return {
            "version": self.plan.version,
            "stems": {stream: stem.snapshot() for stream, stem in self.stems.items()},
            "origins": {
                key: {**origin.order.snapshot(), **{n: getattr(origin.counters, n) for n in _COUNTED}}
                for key, origin in self._origins.items()
            },
        }

    def check(self) -> None:
        for stream, stem in self.stems.items():
            stem.check()
            bits = list(self._bits[stream].values())
            assert len(set(bits)) == len(bits), f"{stream}: one bit for two inputs, {self._bits[stream]}"


def _probe_it(signature: str, place: int, origin: int, table: TablePartner) -> Partner | None:
    """Tables are probed by their keys."""
    return None


_COUNTED = ("n_drivers", "n_probes", "n_matches", "n_combinations")


def _fitted_rows(stored: StoredRows, schema: pa.Schema, rows: Numbers) -> StoredRows:
    """Some of the rows, with these columns."""
    return StoredRows(
        _columns(stored.rows, schema, rows),
        stored.arrival[rows],
        stored.position[rows],
        stored.time_us[rows],
        stored.version[rows],
        stored.now_us[rows],
        stored.wants[rows],
    )


def _columns(batch: pa.RecordBatch, schema: pa.Schema, rows: Numbers) -> pa.RecordBatch:
    """Some rows of a batch, with these columns: what it does not have is NULL."""
    columns = []
    for entry in schema:
        at = batch.schema.get_field_index(entry.name)
        if at >= 0 and batch.schema.field(at).type == entry.type:
            columns.append(batch.column(at).take(pa.array(rows)))
        else:
            columns.append(pa.nulls(len(rows), entry.type))
    return _batch(columns, schema, len(rows))


def _batch(columns: list[pa.Array], schema: pa.Schema, n_rows: int) -> pa.RecordBatch:
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * n_rows, pa.struct([])))  # rows without columns


def _counter(
    stream: str, arrivals: Mapping[str, ArrivedRows], progress: RoundProgress
) -> Callable[[Numbers], npt.NDArray[np.int64]]:
    """How many rows of a stream have counted up to an arrival number of this round."""
    before, rows = progress.n_before.get(stream, 0), arrivals.get(stream)
    if rows is None:
        return lambda arrival: np.full(len(arrival), before, np.int64)
    return lambda arrival: rows.n_counted(arrival, before)
