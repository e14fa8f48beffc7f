"""The join stage: rows of all streams of a round in, rows of all signatures out.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002: one SteM for each
stream, shared by all queries.

  1. wanted rows of all streams are built into their SteMs, before any probe;
  2. from every input that has new rows, its signature is probed (probing.py): each combination once, by its latest row;
  3. combinations become rows of the signature's own stream, which the filters of that stream decide for all queries at once;
  4. rows no query can want any more leave.

What a round builds is undone by `rollback`, and stays with `commit`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.batch import TupleBatch
from eddyline.expressions import Context, Frame, evaluate
from eddyline.joins.join_tree import can_drive, join_tree
from eddyline.joins.plan import Arrived, JoinPlan, Mask, Numbers, SignaturePlan, Standing
from eddyline.joins.probe_order import ProbeOrder
from eddyline.joins.probing import Combinations, Drivers, Origin, Partner
from eddyline.joins.retention import RowMarks, covered
from eddyline.joins.stem import Stem, StoredRows
from eddyline.joins.windows import WindowPartner
from eddyline.model import (
    AGE,
    BEHIND,
    FIRST_JOINED,
    NO_TIME,
    OLDER,
    Column,
    Expression,
    Round,
    joined_name,
)

SMALL_STEM = 4_096  # rows, up to which a SteM is looked through after every round
GROWN_BY = 0.125  # of its rows, after which a larger one is

Wanted = Mapping[
    tuple[str, int], Mask
]  # by signature and place: which of its stream's new rows some query wants


@dataclass(frozen=True, slots=True)
class Joined:
    """Rows that a signature made. Queries that first see a later version than `version` do not see the row."""

    signature: str
    batch: TupleBatch
    version: Numbers


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
        self._bits: dict[str, dict[tuple[str, int], int]] = {}  # by stream: which bit of `wants` is whose
        self._origins: dict[tuple[str, int], Origin] = {}
        self._n_joined = 0  # of this round
        self._built_since: dict[str, int] = {}  # rows, since a SteM was last looked through
        self._is_new_plan = False
        self.built: dict[str, StoredRows] = {}  # by stream, in the round that is running

    # ----------------------------------------------------------------------------------------- plans

    def build(self, plan: JoinPlan) -> None:
        """Adopt a plan version; between rounds only."""
        self.plan, self._is_new_plan = plan, True
        standing = {each.name for each in plan.signatures}
        self._origins = {key: origin for key, origin in self._origins.items() if key[0] in standing}
        kept: dict[str, list[tuple[SignaturePlan, int]]] = {}
        for each in plan.signatures:
            for stream in each.signature.streams:
                if stream.lower() not in kept and plan.kept(stream):
                    kept[stream.lower()] = plan.kept(stream)
        for gone in [stream for stream in self.stems if stream not in kept]:
            del self.stems[gone], self._bits[gone]
            self._built_since.pop(gone, None)
        for stream, inputs in kept.items():
            self._fit(stream, inputs)

    def _fit(self, stream: str, inputs: list[tuple[SignaturePlan, int]]) -> None:
        """Let a SteM hold what these inputs need, under the keys by which they are probed."""
        declared = self.plan.schemas[stream]
        names = frozenset().union(*(plan.kept_columns(place) for plan, place in inputs))
        schema = pa.schema([entry for entry in declared if entry.name in names])
        stem = self.stems.get(stream)
        if stem is None:
            stem = self.stems[stream] = Stem(schema, self._evaluate)
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
        wanted = [(plan.name, place) for plan, place in inputs]
        for gone in [who for who in bits if who not in set(wanted)]:
            del bits[gone]
        free = (bit for bit in range(len(wanted) + len(bits)) if bit not in set(bits.values()))
        for who in wanted:
            if who not in bits:
                bits[who] = next(free)

    def _origin(self, plan: SignaturePlan, place: int) -> Origin:
        origin = self._origins.get((plan.name, place))
        if origin is None:
            tree = join_tree(plan.signature, place)
            order = ProbeOrder(tree, self._policy, self._seed)
            origin = Origin(tree, order, self._evaluate, self._clock)
            self._origins[plan.name, place] = origin
        return origin

    def _evaluate(self, expression: Expression, rows: pa.RecordBatch) -> pa.Array:
        """The value of a key on rows of its stream; NULL where it is in error, so that it matches nothing."""
        if isinstance(expression, Column):
            return rows.column(expression.name)
        columns = {("", name): column for name, column in zip(rows.schema.names, rows.columns, strict=True)}
        frame = Frame(rows.num_rows, columns, [], self._context, [], {}, {})
        return frame.array(evaluate(expression, frame))

    # ----------------------------------------------------------------------------------------- a round

    def push(
        self, arrived: Mapping[str, Arrived], wanted: Wanted, standing: Standing, round_: Round
    ) -> Iterator[Joined]:
        """Build what came, then join it. All that it yields must be taken before `purge`."""
        self._n_joined = 0
        self.built = {}
        for stream, rows in arrived.items():
            if stream in self.stems:
                self._store(stream, rows, wanted, round_)
        for plan in self.plan.signatures:
            for place, entry in enumerate(plan.signature.inputs):
                rows_of = arrived.get(entry.stream.lower())
                if rows_of is not None and can_drive(plan.signature, place):
                    mask = wanted[plan.name, place] & ~rows_of.batch.is_late
                    if mask.any():
                        yield from self._drive(
                            plan, place, rows_of, np.flatnonzero(mask), arrived, standing, round_
                        )

    def _store(self, stream: str, rows: Arrived, wanted: Wanted, round_: Round) -> None:
        bits = self._bits[stream]
        batch, n = rows.batch, len(rows.batch)
        wants = np.zeros((n, max(bits.values()) // 64 + 1), np.uint64)
        for who, bit in bits.items():
            wants[:, bit // 64] |= wanted[who].astype(np.uint64) << np.uint64(bit % 64)
        kept = np.flatnonzero(wants.any(axis=1) & ~batch.is_late)
        if not len(kept):
            return
        stem = self.stems[stream]
        self.built[stream] = built = StoredRows(
            batch.rows.select(stem.schema.names).take(pa.array(kept)),
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
        rows: Arrived,
        driving: Numbers,
        arrived: Mapping[str, Arrived],
        standing: Standing,
        round_: Round,
    ) -> Iterator[Joined]:
        batch = rows.batch
        drivers = Drivers(batch.rows.take(pa.array(driving)), batch.arrival[driving], rows.time_us[driving])
        partners: dict[int, Partner] = {}
        counted: dict[int, Callable[[Numbers], Numbers]] = {}
        for place, entry in enumerate(plan.signature.inputs):
            counted[place] = _counter(entry.stream.lower(), arrived, standing)
            if place != origin:
                partners[place] = self._partner(plan, place, origin, counted[place], round_)
        for found in self._origin(plan, origin).join(drivers, partners):
            yield self._joined(plan, origin, drivers, rows.position[driving], found, counted, round_)

    def _partner(
        self,
        plan: SignaturePlan,
        place: int,
        origin: int,
        counted: Callable[[Numbers], Numbers],
        round_: Round,
    ) -> Partner:
        stream = plan.signature.inputs[place].stream.lower()
        return WindowPartner(
            self.stems[stream],
            self._evaluate,
            place,
            origin,
            place < origin or plan.signature.inputs[origin].role is Role.CURRENT,  # what only drives comes last
            self._bits[stream][plan.name, place],
            plan.first_version,
            plan.needs[place],
            round_.now_us,
            counted,
        )

    def _joined(
        self,
        plan: SignaturePlan,
        origin: int,
        drivers: Drivers,
        positions: Numbers,
        found: Combinations,
        counted: Mapping[int, Callable[[Numbers], Numbers]],
        round_: Round,
    ) -> Joined:
        """Combinations as rows of the signature's stream."""
        n, signature = len(found), plan.signature
        driver = found.rows[origin]
        arrival = np.empty((n, len(signature)), np.int64)
        times = np.full((n, len(signature)), NO_TIME, np.int64)
        version = np.full(n, round_.version, np.int64)
        names: list[str] = []
        columns: list[pa.Array] = []
        marks: dict[int, tuple[Numbers, Numbers]] = {}  # how far behind, and how old in rounds' time
        for place, entry in enumerate(signature.inputs):
            wanted, rows = sorted(plan.columns[place]), found.rows[place]
            if place == origin:
                taken = drivers.rows.select(wanted).take(pa.array(rows)).columns
                arrival[:, place], times[:, place] = drivers.arrival[rows], drivers.time_us[rows]
                position, age = positions[rows], np.zeros(n, np.int64)
            else:
                stem = self.stems[entry.stream.lower()]
                taken = stem.take(rows, wanted)
                arrival[:, place], times[:, place] = stem.arrival[rows], stem.time_us[rows]
                version = np.minimum(version, stem.version[rows])
                position, age = stem.position[rows], round_.now_us - stem.now_us[rows]
            marks[place] = position, age
            names += [joined_name(place, name) for name in wanted]
            columns += taken
        latest = times.max(axis=1)
        for place, asked in enumerate(plan.marks):
            for mark in sorted(asked):
                if mark == BEHIND:
                    values = pa.array(counted[place](drivers.arrival[driver]) - marks[place][0])
                elif mark == AGE:
                    values = pa.array(marks[place][1])
                else:
                    assert mark == OLDER, mark
                    values = pa.array(latest - times[:, place], mask=times[:, place] == NO_TIME)
                names.append(joined_name(place, mark))
                columns.append(values)
        if not columns:  # an Arrow batch needs a column to have a length
            names, columns = ["_"], [pa.nulls(n)]
        first = FIRST_JOINED + self._n_joined
        self._n_joined += n
        batch = TupleBatch(
            plan.name,
            pa.RecordBatch.from_arrays(columns, names=names),
            np.arange(first, first + n, dtype=np.int64),
            np.ones(n, np.int8),
            np.zeros(n, dtype=bool),
            arrival,
        )
        return Joined(plan.name, batch, version)

    def commit(self, standing: Standing, round_: Round) -> int:
        """Keep what the round built, let go of what nobody can want any more; gives how many rows left.

        `standing` is where the streams stand after the round.
        """
        n_left = 0
        self.built = {}
        for stream, stem in self.stems.items():
            stem.commit()
            grown = self._built_since.get(stream, 0)
            if self._is_new_plan or stem.n_rows <= SMALL_STEM or grown > GROWN_BY * stem.n_rows:
                n_left += self._purge(stream, stem, standing, round_)
                self._built_since[stream] = 0
        self._is_new_plan = False
        return n_left

    def _purge(self, stream: str, stem: Stem, standing: Standing, round_: Round) -> int:
        marks = RowMarks(stem.position, stem.time_us, stem.version, stem.now_us)
        is_kept = np.zeros(len(marks), dtype=bool)
        n_counted = standing.n_before.get(stream, 0)
        for plan, place in self.plan.kept(stream):
            bit = self._bits[stream][plan.name, place]
            is_wanted = (stem.wants[:, bit // 64] >> np.uint64(bit % 64) & np.uint64(1)) != 0
            if is_wanted.any():
                is_kept |= is_wanted & covered(plan, place, standing, round_.now_us, marks, n_counted)
        return 0 if is_kept.all() else stem.purge(is_kept)

    def rollback(self) -> None:
        """As if the round had not been."""
        self.built = {}
        for stem in self.stems.values():
            stem.rollback()

    def bits(self, stream: str) -> tuple[tuple[str, int] | None, ...]:
        """Which signature and input each bit of `wants` stands for in a stream's SteM."""
        by_bit = {bit: who for who, bit in self._bits[stream].items()}
        return tuple(by_bit.get(bit) for bit in range(max(by_bit, default=-1) + 1))

    def stored(self, stream: str, since: int) -> StoredRows:
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
        """Take back rows of an earlier life, given which bit is whose now; those nobody wants any more are left out."""
        stem = self.stems.get(stream)
        if stem is None:
            return
        stored = rows_of(self._bits[stream])
        wanted = np.flatnonzero(stored.wants.any(axis=1))
        if len(wanted):
            stem.build(_fitted(stored, stem.schema, wanted))
            stem.commit()

    # ----------------------------------------------------------------------------------------- looking at it

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


_COUNTED = ("n_drivers", "n_probes", "n_matches", "n_combinations")


def _fitted(stored: StoredRows, schema: pa.Schema, rows: Numbers) -> StoredRows:
    """Some of the rows, with these columns: what was not kept then is NULL."""
    columns = []
    for entry in schema:
        at = stored.rows.schema.get_field_index(entry.name)
        if at >= 0 and stored.rows.schema.field(at).type == entry.type:
            columns.append(stored.rows.column(at).take(pa.array(rows)))
        else:
            columns.append(pa.nulls(len(rows), entry.type))
    return StoredRows(
        _batch(columns, schema, len(rows)),
        stored.arrival[rows],
        stored.position[rows],
        stored.time_us[rows],
        stored.version[rows],
        stored.now_us[rows],
        stored.wants[rows],
    )


def _batch(columns: list[pa.Array], schema: pa.Schema, n_rows: int) -> pa.RecordBatch:
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * n_rows, pa.struct([])))  # rows without columns


def _counter(
    stream: str, arrived: Mapping[str, Arrived], standing: Standing
) -> Callable[[Numbers], npt.NDArray[np.int64]]:
    """How many rows of a stream have counted up to an arrival number of this round."""
    before, rows = standing.n_before.get(stream, 0), arrived.get(stream)
    if rows is None:
        return lambda arrival: np.full(len(arrival), before, np.int64)
    counted = rows.batch.arrival[~rows.batch.is_late]
    return lambda arrival: before + np.searchsorted(counted, arrival, side="right")
