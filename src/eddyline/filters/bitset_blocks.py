"""Bitset blocks: queries that overlap most rows, decided 512 at a time by ANDing bitsets.

Queries are *lanes* of blocks. For each attribute a block keeps one bitset of satisfied lanes per interval of keys between its own
constants, and one for NULL; a row finds its bitset on every attribute and ANDs them. No query is looked at by itself, and nothing
is left to check. This is the structure for dense and odd sets: its cost hardly depends on how many queries match.

A query is a conjunction of conditions on single attributes (plane 0) and of clauses, ORs of such conditions (planes 1, 2 …).

    lane       a query's place; bit `lane % 64` of word `lane // 64`
    cut        a key where some bitset of the attribute changes; a key's *rank* is the number of cuts <= it
    term       the bitsets of one block for one attribute in one plane
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from eddyline.batch import BitmapHits
from eddyline.filters.keys import HIGHEST, LOWEST, KeyColumn, Keys
from eddyline.filters.large_arrays import large_array
from eddyline.kernels import (
    ATTRIBUTE,
    BUCKETS,
    CLOSES,
    COLUMN,
    FEW_STEPS,
    IS_DIRECT,
    LANE_BITS,
    LANES,
    LINE_NUMBERS,
    LINE_WORDS,
    N_CUTS,
    N_STEPS,
    SHIFT,
    TABLE,
    TERM_COLUMNS,
    THRESHOLDS,
    Int32s,
    Int64s,
    Words,
    evaluate_blocks,
    fill_terms,
    global_ranks,
    measure_terms,
    put_bits,
)

_NO_NULLS = np.empty(0, np.bool_)
_SCALE_COLUMNS = 8
_MOST_BUCKETS = 4096  # of keys, unless there are more cuts
_KIND_BITS, _NEARNESS_BITS, _CONSTANT_BITS = 38, 24, 12  # of what lanes are sorted by
# Fewer that are alike do not spread over enough words for nearness to leave some of them empty.
_LIKE_LANES = 1024


@dataclass(frozen=True, slots=True)
class Ranges:
    """Inclusive intervals of keys: in plane 0 those a lane forbids, disjoint on an attribute; in others those it allows."""

    lane: Int32s
    plane: npt.NDArray[np.int16]
    attribute: Int32s
    low: Keys
    high: Keys

    def __len__(self) -> int:
        return len(self.lane)


@dataclass(frozen=True, slots=True)
class Nulls:
    """Where NULL counts: in plane 0 the lane forbids it on the attribute, in others it makes the clause true."""

    lane: Int32s
    plane: npt.NDArray[np.int16]
    attribute: Int32s

    def __len__(self) -> int:
        return len(self.lane)


@dataclass(frozen=True, slots=True)
class BitsetBlocks:
    """Queries in blocks of 512 lanes."""

    ids: Int32s  # of each lane, 0 where there is no query
    live: Words  # one bit per lane
    known_ids: Int32s  # ascending, dropped ones too
    known_lanes: Int32s
    block_terms: Int64s  # terms of block b: terms[block_terms[b]:block_terms[b + 1]], clause by clause
    terms: Int64s  # a row per term, as kernels describe it
    bitsets: Words  # the lines of each term, and behind them what it needs to find ranks
    scales: Int64s  # a row per attribute that some query has, for `_Scale`
    cuts: Keys
    buckets: Int32s

    @classmethod
    def build(cls, ids: Int32s, ranges: Ranges, nulls: Nulls, n_attributes: int) -> Self:
        """Blocks where lane k of the input is query `ids[k]`; a query without ranges and nulls matches every row."""
        assert bool(np.all(ranges.low <= ranges.high)), "an interval ends before it begins"
        assert bool(np.all(ids > 0)), "ids begin at 1"
        scales, conditions = _ranked_conditions(ranges, nulls, n_attributes)
        n_cuts = np.array([scale.n_cuts for scale in scales], np.int64)
        order = _lane_order(len(ids), conditions, n_cuts)
        n_blocks = -(-len(ids) // LANES)
        lane_ids = np.zeros(n_blocks * LANES, np.int32)
        lane_ids[: len(ids)] = ids[order]
        by_id = np.argsort(lane_ids[: len(ids)]).astype(np.int32)
        block_terms, terms, bitsets = _tables(conditions.with_order(order), n_blocks, n_cuts)
        cuts_at = np.cumsum([0, *(len(scale.cuts) for scale in scales)]).tolist()
        buckets_at = np.cumsum([0, *(len(scale.buckets) for scale in scales)]).tolist()
        rows = [scale.row(cuts_at[k], buckets_at[k]) for k, scale in enumerate(scales)]
        return cls(
            ids=lane_ids,
            live=np.packbits(lane_ids > 0, bitorder="little").view(np.uint64),
            known_ids=lane_ids[by_id],
            known_lanes=by_id,
            block_terms=block_terms,
            terms=terms,
            bitsets=bitsets,
            scales=np.array(rows, np.int64).reshape(-1, _SCALE_COLUMNS),
            cuts=np.concatenate([np.empty(0, np.int64), *(scale.cuts for scale in scales)]),
            buckets=np.concatenate([np.empty(0, np.int32), *(scale.buckets for scale in scales)]),
        )

    def probe(self, columns: Sequence[KeyColumn], n_rows: int) -> BitmapHits:
        """The queries each row satisfies; `columns` has every attribute under its number."""
        n_blocks, n_scales = len(self.block_terms) - 1, len(self.scales)
        most_terms = int(np.diff(self.block_terms).max(initial=0))
        ranks = np.empty((n_scales + most_terms) * n_rows, np.int32)
        for k, row in enumerate(self.scales.tolist()):
            scale = _Scale.from_row(row, self.cuts, self.buckets)
            scale.put_ranks(columns[scale.attribute], ranks[k * n_rows : (k + 1) * n_rows])
        words, counts = _lines(n_rows * n_blocks), np.zeros(n_rows, np.int32)
        numbers = self.bitsets.view(np.int32)
        evaluate_blocks(
            self.live, self.block_terms, self.terms, self.bitsets, numbers, ranks, n_scales, words, counts
        )
        return BitmapHits(words.reshape(n_rows, n_blocks * LINE_WORDS), self.ids, counts)

    def without(self, ids: Int32s) -> Self:
        """The same without these queries; ids it does not have are ignored."""
        at = np.searchsorted(self.known_ids, ids)
        at, ids = at[at < len(self.known_ids)], ids[at < len(self.known_ids)]
        lanes = self.known_lanes[at[self.known_ids[at] == ids]].astype(np.int64)
        live = self.live.copy()
        put_bits(live, lanes >> LANE_BITS, lanes & (LANES - 1), False)
        return replace(self, live=live)

    @property
    def n_queries(self) -> int:
        """The number of live queries."""
        return int(np.bitwise_count(self.live).sum())

    def live_ids(self) -> Int32s:
        """Ids of the live queries, in no particular order."""
        return self.ids[np.unpackbits(self.live.view(np.uint8), bitorder="little").view(np.bool_)]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All there is to it, for `from_arrays`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """What `arrays` gave; the arrays may be read-only maps of files and are not copied."""
        return cls(**{field.name: _writable_view(arrays[field.name]) for field in fields(cls)})

    def check(self) -> None:
        """Assert what must hold among the arrays."""
        n_blocks = len(self.block_terms) - 1
        assert len(self.ids) == n_blocks * LANES, (len(self.ids), n_blocks)
        assert len(self.live) == n_blocks * LINE_WORDS, (len(self.live), n_blocks)
        assert bool(np.all(self.live_ids() > 0)), "a lane without a query is live"
        assert bool(np.all(np.diff(self.known_ids) > 0)), "an id twice"
        assert np.array_equal(self.ids[self.known_lanes], self.known_ids), "an id is not in its lane"
        assert self.block_terms[[0, -1]].tolist() == [0, len(self.terms)], self.block_terms
        assert bool(np.all(np.diff(self.block_terms) >= 0)), self.block_terms
        assert len(self.bitsets) % LINE_WORDS == 0, len(self.bitsets)
        begins = np.append(self.terms[:, TABLE], len(self.bitsets) // LINE_WORDS)
        for term, (begin, end) in enumerate(zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True)):
            row = self.terms[term].tolist()
            n_lines, n_buckets, n_thresholds = _term_sizes(
                self.terms[term : term + 1], self.scales[row[ATTRIBUTE], 1:2]
            )
            n_numbers = int(n_buckets[0] + n_thresholds[0])
            assert begin + int(n_lines[0]) + -(-n_numbers // LINE_NUMBERS) == end, (term, row, begin, end)
            thresholds = self.bitsets.view(np.int32)[row[THRESHOLDS] :][: row[N_CUTS]]
            assert row[SHIFT] == IS_DIRECT or bool(np.all(np.diff(thresholds) > 0)), row
        last_terms = self.block_terms[1:][np.diff(self.block_terms) > 0] - 1
        assert bool(np.all(self.terms[last_terms, CLOSES])), "a clause goes on in the next block"
        for row in self.scales.tolist():
            scale = _Scale.from_row(row, self.cuts, self.buckets)
            cuts = scale.cuts[: scale.n_cuts]
            assert bool(np.all(cuts[1:] > cuts[:-1])), row
            assert bool(np.all(np.diff(scale.buckets) >= 0)), row


# ----------------------------------------------------------------------------------------------- ranks


@dataclass(frozen=True, slots=True)
class _Scale:
    """All cuts of an attribute, and the buckets of keys that ranks are looked up with, as `global_ranks` takes them."""

    attribute: int
    n_cuts: int
    first: int
    shift: int
    n_steps: int
    cuts: Keys
    buckets: Int32s

    @classmethod
    def of(cls, attribute: int, cuts: Keys) -> _Scale:
        """Of cuts ascending, none of them int64 min."""
        if not len(cuts):
            return cls(attribute, 0, 0, 0, 0, cuts, np.zeros(1, np.int32))
        first = int(cuts[0]) - 1
        span = int(cuts[-1]) - first
        shift = 0
        while span >> shift >= max(min(4 * len(cuts) + 64, _MOST_BUCKETS), len(cuts)):
            shift += 1
        # no bucket begins above the last cut, so these sums are right modulo 2**64
        begins = np.arange((span >> shift) + 1, dtype=np.uint64) << np.uint64(shift)
        begins = (begins + np.uint64(first % 2**64)).view(np.int64)
        behind = np.searchsorted(cuts, begins, side="right")
        upto = np.append(np.searchsorted(cuts, begins[1:], side="left"), len(cuts))
        n_steps = int((upto - behind).max()).bit_length()
        n_steps = max(n_steps, FEW_STEPS) if n_steps else 0
        padding = np.full((1 << n_steps) - 1, HIGHEST)
        buckets = behind.astype(np.int32)
        return cls(attribute, len(cuts), first, shift, n_steps, np.concatenate([cuts, padding]), buckets)

    def row(self, cuts_at: int, buckets_at: int) -> tuple[int, ...]:
        """Everything but the arrays, and where in those of all scales they begin."""
        numbers = (self.attribute, self.n_cuts, self.first, self.shift, self.n_steps)
        return (*numbers, cuts_at, buckets_at, len(self.buckets))

    @classmethod
    def from_row(cls, row: Sequence[int], cuts: Keys, buckets: Int32s) -> _Scale:
        attribute, n_cuts, first, shift, n_steps, cuts_at, buckets_at, n_buckets = row
        my_cuts = cuts[cuts_at : cuts_at + n_cuts + (1 << n_steps) - 1]
        my_buckets = buckets[buckets_at : buckets_at + n_buckets]
        return cls(attribute, n_cuts, first, shift, n_steps, my_cuts, my_buckets)

    def put_ranks(self, column: KeyColumn, ranks: Int32s) -> None:
        """Write the number of cuts <= each key to `ranks`, -1 for NULL."""
        keys = _plain(column.keys, np.int64)
        is_null = _NO_NULLS if column.is_null is None else _plain(column.is_null, np.bool_)
        global_ranks(keys, is_null, self.cuts, self.buckets, self.first, self.shift, self.n_steps, ranks)


@dataclass(frozen=True, slots=True)
class _Conditions:
    """Ranges, then nulls, in one list. A range covers the ranks from `begin` to before `end`, n_cuts + 1 if it is open."""

    lane: Int64s
    plane: Int64s
    scale: Int64s  # the place of its attribute among those that are used
    begin: Int64s
    end: Int64s

    def with_order(self, order: Int64s) -> _Conditions:
        """The same where lane k is the one that was order[k]."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return replace(self, lane=place[self.lane])


def _ranked_conditions(ranges: Ranges, nulls: Nulls, n_attributes: int) -> tuple[list[_Scale], _Conditions]:
    """The scales of the attributes in use, and all conditions on them."""
    attribute = np.concatenate([ranges.attribute, nulls.attribute])
    is_used = np.zeros(n_attributes, np.bool_)
    is_used[attribute] = True
    scale_of = (np.cumsum(is_used) - 1)[attribute]
    numbers = np.flatnonzero(is_used).tolist()
    # few bits are sorted by radix
    by_scale = np.argsort(scale_of[: len(ranges)].astype(np.min_scalar_type(n_attributes)), kind="stable")
    ends = np.cumsum(np.bincount(scale_of[: len(ranges)], minlength=len(numbers))).tolist()
    scales = []
    begin, end = np.empty(len(ranges), np.int64), np.empty(len(ranges), np.int64)
    for k, number in enumerate(numbers):
        mine = by_scale[ends[k - 1] if k else 0 : ends[k]]
        low, high = ranges.low[mine], ranges.high[mine]
        is_open = high == HIGHEST
        after = high + ~is_open
        scale = _Scale.of(number, _distinct(np.concatenate([low[low > LOWEST], after[~is_open]])))
        ranks = np.empty(len(mine), np.int32)
        scale.put_ranks(KeyColumn(low, None), ranks)
        begin[mine] = ranks
        scale.put_ranks(KeyColumn(after, None), ranks)
        end[mine] = np.where(is_open, scale.n_cuts + 1, ranks)
        scales.append(scale)
    lane = np.concatenate([ranges.lane, nulls.lane]).astype(np.int64)
    plane = np.concatenate([ranges.plane, nulls.plane]).astype(np.int64)
    return scales, _Conditions(lane, plane, scale_of, begin, end)


# ----------------------------------------------------------------------------------------------- order


def _lane_order(n_lanes: int, conditions: _Conditions, n_cuts: Int64s) -> Int64s:
    """Lanes with the same kinds of ranges side by side, among them those with near constants; otherwise as they come.

    So a block has few terms, and 64 lanes that share a word tend to fail together: words without a hit cost little to read.
    """
    n_ranges = len(conditions.begin)
    if not n_ranges:
        return np.arange(n_lanes)
    lane, scale = conditions.lane[:n_ranges], conditions.scale[:n_ranges]
    is_open_below, is_open_above = conditions.begin == 0, conditions.end > n_cuts[scale]
    constant = np.where(is_open_below, conditions.end, conditions.begin)
    constant = (constant << _CONSTANT_BITS) // (n_cuts[scale] + 2)
    attribute = conditions.plane[:n_ranges] * len(n_cuts) + scale
    kind = _rarest_first(attribute * 4 + is_open_above * 2 + is_open_below)
    n_kinds = int(kind.max()) + 1
    by_kind = np.argsort(lane * n_kinds + kind)
    lane, kind, constant = lane[by_kind], kind[by_kind], constant[by_kind]
    first = np.flatnonzero(np.append(True, lane[1:] != lane[:-1]))
    n_of_lane = np.diff(np.append(first, n_ranges))
    place = np.arange(n_ranges) - np.repeat(first, n_of_lane)
    # a lane's signature: its kinds, the rarest first, as far as there is room
    bits = n_kinds.bit_length()
    room = _KIND_BITS // bits
    signature = np.zeros(n_lanes, np.int64)
    parts = np.where(place < room, (kind + 1) << bits * np.maximum(room - 1 - place, 0), 0)
    signature[lane[first]] = np.bitwise_or.reduceat(parts, first)
    n_shared = _shared_kinds(signature, bits, room)
    # its nearness: the constants of the kinds that count, their bits taken in turn
    n_turns = np.repeat(np.minimum(n_of_lane, n_shared), n_of_lane)
    nearness = np.zeros(n_ranges, np.int64)
    turns = np.flatnonzero(place < n_turns)
    for bit in range(_CONSTANT_BITS):
        at = _NEARNESS_BITS - 1 - (bit * n_turns[turns] + place[turns])
        turns, at = turns[at >= 0], at[at >= 0]
        nearness[turns] |= ((constant[turns] >> (_CONSTANT_BITS - 1 - bit)) & 1) << at
    key = signature >> bits * (room - n_shared) << _NEARNESS_BITS
    key[lane[first]] |= np.bitwise_or.reduceat(nearness, first)
    return np.argsort(key, kind="stable")


def _rarest_first(values: Int64s) -> Int64s:
    """The values as numbers from 0, small for what is rare."""
    distinct = _distinct(values)
    number = np.searchsorted(distinct, values)
    rank = np.empty(len(distinct), np.int64)
    rank[np.argsort(np.bincount(number), kind="stable")] = np.arange(len(distinct))
    return rank[number]


def _shared_kinds(signature: Int64s, bits: int, room: int) -> int:
    """How many kinds lanes should have in common: as many as leave groups that are large enough."""
    ascending = np.sort(signature)
    for n_shared in range(2, room + 1):
        prefix = ascending >> bits * (room - n_shared)
        if (1 + np.count_nonzero(np.diff(prefix))) * _LIKE_LANES > len(signature):
            return n_shared - 1
    return room


# ----------------------------------------------------------------------------------------------- tables


def _tables(conditions: _Conditions, n_blocks: int, n_cuts: Int64s) -> tuple[Int64s, Int64s, Words]:
    """Which terms each block has, the terms, and their bitsets."""
    n_ranges, lane = len(conditions.begin), conditions.lane & (LANES - 1)
    block_terms, terms, term_of, before = _terms(conditions, n_blocks, n_scales=len(n_cuts))
    n_all = n_cuts[terms[:, ATTRIBUTE]]
    rank_bits = int(n_cuts.max(initial=0) + 1).bit_length()
    assert len(terms).bit_length() + rank_bits + LANE_BITS < 64, (len(terms), rank_bits)
    toggles = _toggles(term_of[:n_ranges], lane[:n_ranges], conditions, n_all, rank_bits)
    measure_terms(toggles, rank_bits, n_cuts, terms)
    n_lines, n_buckets, n_thresholds = _term_sizes(terms, n_all)
    sizes = n_lines + -(-(n_buckets + n_thresholds) // LINE_NUMBERS)
    terms[:, TABLE] = np.cumsum(sizes) - sizes
    terms[:, BUCKETS] = (terms[:, TABLE] + n_lines) * LINE_NUMBERS
    terms[:, THRESHOLDS] = terms[:, BUCKETS] + n_buckets
    is_direct = terms[:, SHIFT] == IS_DIRECT
    own_column = len(n_cuts) + np.arange(len(terms)) - np.repeat(block_terms[:-1], np.diff(block_terms))
    terms[:, COLUMN] = np.where(is_direct, terms[:, ATTRIBUTE], own_column)
    bitsets = _lines(int(sizes.sum()))
    fill_terms(toggles, rank_bits, n_cuts, terms, before, bitsets, bitsets.view(np.int32))
    null_lines, null_lanes = terms[term_of[n_ranges:], TABLE], lane[n_ranges:]
    is_allowed = conditions.plane[n_ranges:] > 0
    for bit in (False, True):
        put_bits(bitsets, null_lines[is_allowed == bit], null_lanes[is_allowed == bit], bit)
    return block_terms, terms, bitsets


def _terms(conditions: _Conditions, n_blocks: int, n_scales: int) -> tuple[Int64s, Int64s, Int64s, Words]:
    """Where the terms of each block begin, the terms, the term of each condition, and the line each term begins with."""
    n_planes, n_scales = int(conditions.plane.max(initial=0)) + 1, max(n_scales, 1)
    clause_of = (conditions.lane >> LANE_BITS) * n_planes + conditions.plane
    key_of = clause_of * n_scales + conditions.scale
    keys = _distinct(key_of)
    term_of = np.searchsorted(keys, key_of)
    clause = keys // n_scales
    is_first = np.append(True, clause[1:] != clause[:-1])[: len(keys)]
    is_first |= clause % n_planes == 0  # in plane 0 each term is a clause of its own
    terms = np.zeros((len(keys), TERM_COLUMNS), np.int64)
    terms[:, ATTRIBUTE] = keys % n_scales
    terms[:, CLOSES] = np.append(is_first, True)[1:]
    # lanes of which the clause says nothing pass by its first term
    before = np.where(is_first, ~np.uint64(0), np.uint64(0)).repeat(LINE_WORDS)
    first_of_clause = np.maximum.accumulate(np.where(is_first, np.arange(len(keys)), 0))
    in_clause = np.flatnonzero(conditions.plane > 0)
    lanes = conditions.lane[in_clause] & (LANES - 1)
    put_bits(before, first_of_clause[term_of[in_clause]], lanes, False)
    return np.searchsorted(clause // n_planes, np.arange(n_blocks + 1)), terms, term_of, before


def _term_sizes(terms: Int64s, n_all: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """How many lines, buckets and thresholds each term has; `n_all` counts all cuts of its attribute."""
    shift, n_cuts = terms[:, SHIFT], terms[:, N_CUTS]
    is_direct = shift == IS_DIRECT
    n_lines = np.where(is_direct, n_all, n_cuts) + 2
    n_buckets = np.where(is_direct, 0, (n_all >> np.maximum(shift, 0)) + 2)
    return n_lines, n_buckets, np.where(is_direct, 0, n_cuts + (1 << terms[:, N_STEPS]))


def _toggles(term: Int64s, lane: Int64s, conditions: _Conditions, n_all: Int64s, rank_bits: int) -> Int64s:
    """Where bits change, ascending, as kernels take it; `n_all` counts all cuts of each term's attribute."""
    begin, end = conditions.begin, conditions.end
    if conditions.plane[: len(begin)].any():
        term, lane, begin, end = _apart(term, lane, begin, end, rank_bits)
    is_closed = end <= n_all[term]
    of_lane = term << (rank_bits + LANE_BITS) | lane
    toggles = np.concatenate([of_lane | begin << LANE_BITS, of_lane[is_closed] | end[is_closed] << LANE_BITS])
    toggles.sort()
    return toggles


def _apart(
    term: Int64s, lane: Int64s, begin: Int64s, end: Int64s, rank_bits: int
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """The same ranges where those of one lane and term that overlap, as ranges of a clause may, are one."""
    of_lane = (term << LANE_BITS | lane) << rank_bits
    by_begin = np.argsort(of_lane | begin)
    first = (of_lane | begin)[by_begin]
    last = np.maximum.accumulate((of_lane | end)[by_begin])
    is_apart = first[1:] > last[:-1]
    first, last = first[np.append(True, is_apart)], last[np.append(is_apart, True)]
    ranks, group = (1 << rank_bits) - 1, first >> rank_bits
    return group >> LANE_BITS, group & (LANES - 1), first & ranks, last & ranks


# ----------------------------------------------------------------------------------------------- arrays


def _distinct(values: Int64s) -> Int64s:
    """Ascending; np.unique takes several times as long for many values."""
    values = np.sort(values)
    return values[np.append(True, values[1:] != values[:-1])[: len(values)]]


def _lines(n: int) -> Words:
    """Room for lines, each in one line of the processor's cache."""
    words = large_array((n + 1) * LINE_WORDS, np.uint64)
    skipped = -words.ctypes.data % 64 // 8
    return words[skipped : skipped + n * LINE_WORDS]


# Kernels are compiled for one kind of array: contiguous and not marked read-only, though most are only read.


def _plain(array: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
    """The array as kernels take it, copied if need be."""
    is_plain = array.flags.carray and array.dtype == dtype
    return array if is_plain else np.require(array, dtype, ["C", "W"])


class _WritableMemory:
    """The memory of an array that is marked read-only, without the mark."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def _writable_view(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array as kernels take it, not copied if it is contiguous; the caller must not write to it."""
    array = np.ascontiguousarray(array)
    return array if array.flags.writeable else np.asarray(_WritableMemory(array))
