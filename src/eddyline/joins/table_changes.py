"""What comes to a table, what that changes, and when two rows are the same row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expressions import mask_of
from eddyline.joins.keys import Codes, same
from eddyline.joins.probe_matches import Ints, Mask
from eddyline.kernels import NOTHING, meet_changes
from eddyline.model import NO_TIME
from eddyline.types import is_floating


def _no_rows() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class TableChanges:
    """What a round brings to a table, in order of arrival: rows, and deletes, of which only the key counts."""

    rows: pa.RecordBatch
    arrival: Ints
    time_us: Ints  # event time; model.NO_TIME where there is none
    is_delete: Mask
    round_version: Ints | None = None  # of the catalog in the round it came in; None: not known

    def __post_init__(self) -> None:
        n = self.rows.num_rows
        assert n == len(self.arrival) == len(self.time_us) == len(self.is_delete), (
            f"{n} rows, {len(self.arrival)} arrivals, {len(self.time_us)} times, {len(self.is_delete)} deletes"
        )
        assert self.round_version is None or len(self.round_version) == n, self.round_version

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def take(self, places: Ints) -> TableChanges:
        rows = self.rows.take(pa.array(places))
        version = None if self.round_version is None else self.round_version[places]
        return TableChanges(rows, self.arrival[places], self.time_us[places], self.is_delete[places], version)


@dataclass(frozen=True, slots=True)
class Deltas:
    """What that changed, as rows with signs: an update is the old row, -1, then the new one, +1, both at the change's number."""

    rows: pa.RecordBatch
    arrival: Ints  # of the change
    sign: npt.NDArray[np.int8]
    time_us: Ints  # each row's own
    row_arrival: Ints  # the arrival number each row itself came with, which identifies a row that leaves
    misfits: Ints = field(
        default_factory=_no_rows
    )  # places of changes with a NULL in their key, which change nothing

    def __len__(self) -> int:
        return int(self.rows.num_rows)


def groups(codes: Codes, columns: Sequence[pa.Array]) -> tuple[Ints, Ints]:
    """For each row the number of its key, and for each key the first row that has it. No key is NULL."""
    _, first, group = np.unique(codes.codes, return_index=True, return_inverse=True)
    first, group = first.astype(np.int64), group.astype(np.int64)
    rest = np.arange(0 if codes.is_exact else len(group))
    while (
        True
    ):  # keys that differ may have one code: those that are not what the first one is are grouped again
        rest = rest[~same(columns, rest, columns, first[group[rest]])]
        if not len(rest):
            return group, first
        _, at, inverse = np.unique(codes.codes[rest], return_index=True, return_inverse=True)
        group[rest] = len(first) + inverse
        first = np.concatenate((first, rest[at]))


class ComparedChanges:
    """Changes laid beside what they meet, one after the other, each with all before it done.

    `is_latest`: a change is not older than what its key had until then. `is_change`: besides, something is different afterwards.
    """

    def __init__(
        self, changes: TableChanges, group: Ints, heads: Ints, versions: TableChanges, first: int
    ) -> None:
        """`heads`: the latest version of each group, or -1; `versions`: those versions. Changes are versions from `first` on."""
        n, n_held = len(changes), len(versions)
        there = heads >= 0
        latest_us = np.full(len(heads), NO_TIME, np.int64)
        latest_us[there] = versions.time_us
        place_of = np.full(len(heads), NOTHING, np.int64)
        place_of[there] = np.arange(n_held)
        self.time_us = changes.time_us.copy()
        self.is_latest = np.empty(n, dtype=bool)
        before = np.empty(n, np.int64)
        is_delete = np.require(
            changes.is_delete, bool, ["C", "W"]
        )  # kernels are compiled for arrays like this
        meet_changes(
            group, self.time_us, is_delete, heads.copy(), latest_us, NO_TIME, first, before, self.is_latest
        )
        # all rows that are looked at: those held, then the changes
        self._rows = pa.concat_batches(
            [versions.rows, pa.RecordBatch.from_arrays(changes.rows.columns, schema=versions.rows.schema)]
        )
        self._times = np.concatenate((versions.time_us, self.time_us))
        self._is_delete = np.concatenate((versions.is_delete, changes.is_delete))
        self._arrival = np.concatenate((versions.arrival, changes.arrival))
        self._own = n_held + np.arange(n)
        self._before = np.where(before < first, place_of[group], before - first + n_held)
        self.is_change = self._is_change()

    def _is_change(self) -> Mask:
        has_before = self._before >= 0
        beside = np.where(has_before, self._before, self._own)
        is_delete = self._is_delete[self._own]
        # a delete of what was never there means something only to older rows still to come
        is_change = self.is_latest & (has_before | ~is_delete | (self.time_us != NO_TIME))
        is_again = has_before & (self._is_delete[beside] == is_delete) & (self._times[beside] == self.time_us)
        is_change &= ~(is_again & is_delete)
        repeats = np.flatnonzero(is_change & is_again)
        if len(repeats):
            rows_before = self._rows.take(pa.array(beside[repeats]))
            own_rows = self._rows.take(pa.array(self._own[repeats]))
            is_change[repeats] = ~is_identical(rows_before, own_rows)
        return is_change

    def deltas(self, misfits: Ints) -> Deltas:
        """The rows that left and those that appeared."""
        changed = np.flatnonzero(self.is_change)
        before, own = self._before[changed], self._own[changed]
        removed_places = np.flatnonzero((before >= 0) & ~self._is_delete[before])
        added_places = np.flatnonzero(~self._is_delete[own])
        counts = [len(removed_places), len(added_places)]
        sign: npt.NDArray[np.int8] = np.repeat(np.array([-1, 1], np.int8), counts)
        places = np.concatenate((removed_places, added_places))
        order = np.lexsort((sign, places))
        rows = np.concatenate((before[removed_places], own[added_places]))[order]
        arrival = self._arrival[self._own[changed[places[order]]]]
        row_arrival = self._arrival[self._representatives()[rows]]
        taken_rows = self._rows.take(pa.array(rows))
        return Deltas(taken_rows, arrival, sign[order], self._times[rows], row_arrival, misfits)

    def _representatives(self) -> Ints:
        """Of all rows looked at: the row that is the version. A change that changes nothing leaves the version before it."""
        found = np.arange(len(self._arrival))
        is_nothing = self.is_latest & ~self.is_change & (self._before >= 0)
        found[self._own[is_nothing]] = self._before[is_nothing]
        while (found != found[found]).any():
            found = found[found]
        return found


def is_identical(left: pa.RecordBatch, right: pa.RecordBatch) -> Mask:
    """Whether each row is the one beside it, value by value: NULL is NULL and NaN is NaN, but 0.0 is not -0.0."""
    found = np.ones(left.num_rows, dtype=bool)
    for a, b in zip(left.columns, right.columns, strict=True):
        found &= _is_identical(a, b)
    return found


def _is_identical(left: pa.Array, right: pa.Array) -> Mask:
    t = left.type
    is_null = mask_of(left.is_null())
    alike = is_null == mask_of(right.is_null())
    if pa.types.is_null(t):
        return alike
    if pa.types.is_map(t) or pa.types.is_list(t):
        same = _same_lists(left, right)
    elif pa.types.is_struct(t):
        same = np.ones(len(left), dtype=bool)
        for place in range(t.num_fields):
            same &= _is_identical(pc.struct_field(left, place), pc.struct_field(right, place))
    else:
        if is_floating(t):
            left, right = _bits(left), _bits(right)
        same = mask_of(pc.fill_null(pc.equal(left, right), False))
    return alike & (same | is_null)


def _same_lists(left: pa.Array, right: pa.Array) -> Mask:
    """Whether each list has the items of the one beside it; anything where one is NULL."""
    lengths = [np.diff(each.offsets.to_numpy()) for each in (left, right)]
    same = lengths[0] == lengths[1]
    rows = np.flatnonzero(same)
    counts = lengths[0][rows]
    items = []
    for each in (left, right):
        values = (
            pa.StructArray.from_arrays([each.keys, each.items], ["key", "value"])
            if _is_map(each)
            else each.values
        )
        first = each.offsets.to_numpy()[:-1][rows]
        begins = np.cumsum(counts) - counts
        places = np.arange(counts.sum()) - np.repeat(begins, counts) + np.repeat(first, counts)
        items.append(values.take(pa.array(places)))
    of = np.repeat(rows, counts)
    same[of[~_is_identical(items[0], items[1])]] = False
    return same


def _is_map(array: pa.Array) -> bool:
    return bool(pa.types.is_map(array.type))


def _bits(array: pa.Array) -> pa.Array:
    """Floating numbers as integers that are equal where they are the same number; any NaN is the same."""
    whole = pa.int64() if array.type.bit_width == 64 else pa.int32()
    nan = pa.scalar(float("nan"), array.type)
    return pc.if_else(pc.fill_null(pc.is_nan(array), False), nan, array).view(whole)
