"""The rows of all streams that joins may still need: a SteM for each stream, shared by the inputs of all signatures.

Every input that stores rows of a stream has a bit in their `wants`. A row is stored if some input wants it, and purged when no
query of any input that wants it can need it any more (retention.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

import numpy as np
import pyarrow as pa

from eddyline.joins.plan import Drivers, JoinPlan, SignaturePlan, has_bit
from eddyline.joins.probe_matches import Evaluate, Key
from eddyline.joins.retention import RowMarks, covered_mask
from eddyline.joins.stem import Stem
from eddyline.joins.stem_rows import StoredRows
from eddyline.model import Expression, Round
from eddyline.operators import ArrivedRows, Mask, Numbers, OperatorInput, RoundProgress, WantedMasks

SMALL_STEM = 4_096  # rows, up to which a SteM is looked through after every round
GROWN_BY = 0.125  # of its rows came since then, or can leave: a larger one is looked through
SAMPLED = 64  # rows by which that is judged


class StoredWindows:
    """The SteMs of all streams, by name in lower case, and the bit of `wants` that each input has.

    Invariant: within a stream no two inputs share a bit, and an input keeps its bit as long as it is in the plan.
    """

    def __init__(self, evaluate: Evaluate) -> None:
        self.stems: dict[str, Stem] = {}
        self.built_rows: dict[str, StoredRows] = {}  # by stream, in the round that is running
        self._evaluate = evaluate
        self._bits: dict[str, dict[OperatorInput, int]] = {}  # by stream
        self._n_built: dict[str, int] = {}  # rows, since a SteM was last looked through
        self._is_new_plan = False

    # ----------------------------------------------------------------------------------------- plans

    def adopt(
        self, plan: JoinPlan, keys: Mapping[str, Set[Key]], orders: Mapping[str, Set[Expression]]
    ) -> None:
        """Hold what a plan needs and nothing else, found by these keys and in these orders of each stream. Between rounds."""
        self._is_new_plan = True
        self.forget([stream for stream in self.stems if stream not in plan.stored_inputs])
        for stream, inputs in plan.stored_inputs.items():
            self._fit(stream, plan.schemas[stream], inputs, keys[stream])
            self.stems[stream].set_orders(orders[stream])

    def _fit(
        self, stream: str, declared: pa.Schema, inputs: list[tuple[SignaturePlan, int]], keys: Set[Key]
    ) -> None:
        """Let a SteM hold what these inputs need, under the keys by which they are probed."""
        names = frozenset().union(*(plan.stored_columns(place) for plan, place in inputs))
        schema = pa.schema([entry for entry in declared if entry.name in names])
        stem = self.stems.get(stream)
        if stem is None:
            stem = self.stems[stream] = Stem(schema, self._evaluate)
        stem.reshape(schema)
        stem.set_keys(keys)
        bits = self._bits.setdefault(stream, {})
        current = {(plan.name, place): None for plan, place in inputs}
        for removed in [each for each in bits if each not in current]:
            del bits[removed]
        used = set(bits.values())
        free = (bit for bit in range(len(current) + len(used)) if bit not in used)
        for each in current:
            if each not in bits:
                bits[each] = next(free)

    def forget(self, streams: Iterable[str]) -> None:
        """Remove all rows of these streams; between rounds only."""
        for stream in streams:
            self.stems.pop(stream, None)
            self._bits.pop(stream, None)
            self._n_built.pop(stream, None)

    def bit(self, stream: str, signature: str, place: int) -> int:
        """The bit of `wants` that an input has."""
        return self._bits[stream][signature, place]

    def bits(self, stream: str) -> tuple[OperatorInput | None, ...]:
        """Which signature and input each bit of `wants` belongs to in a stream's SteM."""
        by_bit = {bit: each for each, bit in self._bits[stream].items()}
        return tuple(by_bit.get(bit) for bit in range(max(by_bit, default=-1) + 1))

    # ----------------------------------------------------------------------------------------- a round

    def begin(self) -> None:
        self.built_rows = {}

    def build(self, stream: str, rows: ArrivedRows, wanted_masks: WantedMasks, round_: Round) -> None:
        """Store those of a stream's new rows that some input wants."""
        bits = self._bits[stream]
        batch, n = rows.batch, len(rows.batch)
        wants = np.zeros((n, max(bits.values()) // 64 + 1), np.uint64)
        for each, bit in bits.items():
            if each in wanted_masks:  # a round that was planned before an input came does not know it
                wants[:, bit // 64] |= wanted_masks[each].astype(np.uint64) << np.uint64(bit % 64)
        stored = np.flatnonzero(wants.any(axis=1) & ~batch.is_late)
        if not len(stored):
            return
        stem = self.stems[stream]
        self.built_rows[stream] = built = StoredRows(
            _columns(batch.rows, stem.schema, stored),
            batch.arrival[stored],
            rows.position[stored],
            rows.time_us[stored],
            np.full(len(stored), round_.version, np.int64),
            np.full(len(stored), round_.now_us, np.int64),
            wants[stored],
        )
        stem.build(built)
        self._n_built[stream] = self._n_built.get(stream, 0) + len(stored)

    def commit(
        self, plan: JoinPlan, progress: RoundProgress, round_: Round, busy: Set[str] = frozenset()
    ) -> int:
        """Keep what the round built, purge what no query can need any more; returns the number of purged rows.

        Rows of `busy` streams stay: a round with an earlier now() may still join them.
        """
        n_purged = 0
        self.built_rows = {}
        for stream, stem in self.stems.items():
            stem.commit()
            inputs = plan.stored_inputs[stream]
            if stream not in busy and self._is_purged_now(stream, inputs, progress, round_):
                is_kept = self._needed_mask(stream, inputs, slice(None), progress, round_)
                n_purged += 0 if is_kept.all() else stem.purge(is_kept)
                self._n_built[stream] = 0
        self._is_new_plan = False
        return n_purged

    def _is_purged_now(
        self, stream: str, inputs: list[tuple[SignaturePlan, int]], progress: RoundProgress, round_: Round
    ) -> bool:
        """Whether to look through all rows of a stream: not after every round if there are many, and few of them can leave."""
        stem, n_built = self.stems[stream], self._n_built.get(stream, 0)
        if self._is_new_plan or stem.n_rows <= SMALL_STEM or n_built > GROWN_BY * stem.n_rows:
            return True
        n = len(stem.numbers)
        some = np.arange(0, n, n // SAMPLED)  # as large a share of these is absent as of all
        n_needed = np.count_nonzero(self._needed_mask(stream, inputs, some, progress, round_))
        return bool(n_needed / len(some) < stem.n_rows / n - GROWN_BY)

    def _needed_mask(
        self,
        stream: str,
        inputs: list[tuple[SignaturePlan, int]],
        rows: Numbers | slice,
        progress: RoundProgress,
        round_: Round,
    ) -> Mask:
        """Which of these rows some query may still need."""
        stored = self.stems[stream].rows
        marks = RowMarks(
            stored.position[rows], stored.time_us[rows], stored.version[rows], stored.now_us[rows]
        )
        is_needed = np.zeros(len(marks), dtype=bool)
        n_counted = progress.n_before.get(stream, 0)
        for plan, place in inputs:
            is_wanted = has_bit(stored.wants, self._bits[stream][plan.name, place], rows)
            if is_wanted.any():
                is_needed |= is_wanted & covered_mask(plan, place, progress, round_.now_us, marks, n_counted)
        return is_needed

    def rollback(self) -> None:
        """As if the round had not been."""
        self.built_rows = {}
        for stem in self.stems.values():
            stem.rollback()

    # ----------------------------------------------------------------------------------------- rows that are stored

    def first_arrivals(self) -> dict[str, int]:
        """By stream, the arrival number of the first row that is stored; nothing where there is none."""
        return {
            stream: int(stem.rows.arrival[stem.numbers.every_row()[0]])
            for stream, stem in self.stems.items()
            if stem.n_rows
        }

    def drivers(self, stream: str, rows: Numbers) -> Drivers:
        """Some stored rows, to look for partners once more."""
        stem = self.stems[stream]
        return Drivers(
            _batch(stem.rows.take(rows, stem.schema.names), stem.schema, len(rows)),
            stem.rows.arrival[rows],
            stem.rows.time_us[rows],
            stem.rows.position[rows],
            np.ones(len(rows), np.int8),
        )

    def stored_rows(self, stream: str, since: int) -> StoredRows:
        """What is stored of a stream's rows from this arrival number on."""
        stem = self.stems[stream]
        stored, rows = stem.rows, stem.numbers.every_row()
        rows = rows[stored.arrival[rows] >= since]
        return StoredRows(
            _batch(stored.take(rows, stem.schema.names), stem.schema, len(rows)),
            stored.arrival[rows],
            stored.position[rows],
            stored.time_us[rows],
            stored.version[rows],
            stored.now_us[rows],
            stored.wants[rows],
        )

    def restore(self, stream: str, rows_of: Callable[[Mapping[OperatorInput, int]], StoredRows]) -> None:
        """Take back rows stored before a restart, given which bit belongs to which input now, without those no query needs."""
        stem = self.stems.get(stream)
        if stem is None:
            return
        stored = rows_of(self._bits[stream])
        rows = np.flatnonzero(stored.wants.any(axis=1))
        if len(rows):
            stem.build(_fitted_rows(stored, stem.schema, rows))
            stem.commit()

    def check(self) -> None:
        for stream, stem in self.stems.items():
            stem.check()
            bits = list(self._bits[stream].values())
            assert len(set(bits)) == len(bits), f"{stream}: one bit for two inputs, {self._bits[stream]}"


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
