"""Leaf blocks: queries with narrow intervals on the same attributes, those close to each other packed together.

Packed sort-tile-recursively, as R-trees are: sorted along the first attribute and cut into slabs, each slab sorted along the next
attribute and cut, and so on; a tile at the end is a super-block, and tiles within it are leaves.

    leaf           64 queries, the lanes of a machine word
    super-block    up to 16 leaves whose constants stay in the cache while a batch passes
    rank           how many of a super-block's constants on an attribute are <= a value; 16 bits, exact
    share          of rows that an interval lets through, judged by where the other constants are

Differs from R-trees: rows do not walk down a tree, but all pass by one super-block after the other. An attribute whose intervals
are narrow is cut into more slabs than others; slab counts are powers of two but for the first attribute's.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from eddyline.batch import ListHits, QueryIds
from eddyline.filters.keys import HIGHEST, LOWEST, KeyColumn, Keys, Mask
from eddyline.filters.large_arrays import large_array
from eddyline.filters.live_lanes import LiveLanes, Words
from eddyline.kernels import (
    BLOCK_LEAVES,
    LEAF_LANES,
    MAX_ATTRIBUTES,
    WORD_RECORDS,
    find_records,
    put_ids,
    read_only,
)

Ranks = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float64]
Order = npt.NDArray[np.int64]

TILE_WORDS = 128  # of 64 rows that pass all super-blocks before the next rows do
RECORDS_PER_ROW = 4  # that space is made for at first
SAMPLE = 4096  # queries whose intervals are measured

_NEVER_LOW, _NEVER_HIGH = np.iinfo(np.int16).max, -1  # an interval of ranks that holds none
_ALWAYS_HIGH = np.iinfo(np.int16).max
_ALL_ROWS = ~np.uint64(0)


@dataclass(frozen=True, slots=True)
class LeafBlocks:
    """Queries that all have one interval on each of `attributes`; immutable."""

    attributes: tuple[int, ...]
    ids: QueryIds  # of lanes; whole leaves, 0 behind the last query
    live: LiveLanes
    boxes: Keys  # [block, attribute, low or high]
    points: Keys  # [block, attribute, _]: the constants as cuts, ascending: lows, and what follows highs
    leaf_ranks: Ranks  # [block, attribute, low or high, leaf]
    lane_ranks: Ranks  # [leaf, attribute, low or high, lane]

    @classmethod
    def build(cls, ids: QueryIds, attributes: tuple[int, ...], lows: Keys, highs: Keys) -> Self:
        """Pack queries: query ids[q] wants lows[k, q] <= value <= highs[k, q] on every attribute attributes[k].

        Attributes are positions among the columns given to `probe`.
        """
        n = len(ids)
        assert 1 <= len(attributes) <= MAX_ATTRIBUTES, attributes
        assert lows.shape == highs.shape == (len(attributes), n), (lows.shape, highs.shape, attributes, n)
        order = _packed_order(lows, highs)
        n_leaves = -(-n // LEAF_LANES)
        n_blocks = -(-n_leaves // BLOCK_LEAVES)
        block_lanes = _block_lanes(n)
        boxes = np.empty((n_blocks, len(attributes), 2), np.int64)
        points = np.empty((n_blocks, len(attributes), 2 * block_lanes), np.int64)
        leaf_ranks = np.empty((n_blocks, len(attributes), 2, BLOCK_LEAVES), np.int16)
        leaf_ranks[:, :, 0], leaf_ranks[:, :, 1] = _NEVER_LOW, _NEVER_HIGH
        lane_ranks = np.empty((n_leaves, len(attributes), 2, LEAF_LANES), np.int16)
        for k in range(len(attributes)):
            low = _in_blocks(lows[k, order], n_blocks, block_lanes, filler=HIGHEST)
            high = _in_blocks(highs[k, order], n_blocks, block_lanes, filler=LOWEST)
            boxes[:, k, 0] = low.min(axis=1)
            boxes[:, k, 1] = high.max(axis=1)
            points[:, k], low_ranks, high_ranks = _ranked_cuts(low, high)
            low_ranks.reshape(-1)[n:], high_ranks.reshape(-1)[n:] = _NEVER_LOW, _NEVER_HIGH
            for side, ranks, widest in ((0, low_ranks, np.minimum), (1, high_ranks, np.maximum)):
                by_leaf = ranks.reshape(n_blocks, block_lanes // LEAF_LANES, LEAF_LANES)
                leaf_ranks[:, k, side, : by_leaf.shape[1]] = widest.reduce(by_leaf, axis=2)
                lane_ranks[:, k, side] = by_leaf.reshape(-1, LEAF_LANES)[:n_leaves]
        lane_ids = np.zeros(n_leaves * LEAF_LANES, np.int32)
        lane_ids[:n] = ids[order]
        return cls(
            attributes,
            read_only(lane_ids),
            LiveLanes.build(lane_ids[:n]),
            read_only(boxes),
            read_only(points),
            read_only(leaf_ranks),
            read_only(lane_ranks),
        )

    def probe(self, columns: Sequence[KeyColumn], n_rows: int) -> ListHits:
        """The queries each row satisfies; a row with NULL in one of the attributes satisfies none."""
        offsets = np.zeros(n_rows + 1, np.int64)
        n_blocks, n_words = len(self.boxes), -(-n_rows // 64)
        if not n_blocks or not n_rows:
            return ListHits(offsets, np.empty(0, np.int32))
        used = [columns[attribute] for attribute in self.attributes]
        values = np.zeros((len(used), n_words * 64), np.int64)
        for k, column in enumerate(used):
            values[k, :n_rows] = column.keys
        candidates = _candidate_words(null_rows(used), n_rows)
        n, places, masks = 0, *_record_space(WORD_RECORDS + RECORDS_PER_ROW * n_rows)
        for first_word in range(0, n_words, TILE_WORDS):
            end_word = min(first_word + TILE_WORDS, n_words)
            block, word = 0, first_word
            while block < n_blocks:
                block, word, n = find_records(
                    values,
                    candidates,
                    first_word,
                    end_word,
                    self.boxes,
                    self.points,
                    self.leaf_ranks,
                    self.lane_ranks,
                    self.live.words,
                    block,
                    word,
                    n,
                    places,
                    masks,
                    offsets,
                )
                if block < n_blocks:
                    more_places, more_masks = _record_space(2 * len(places))
                    more_places[:n], more_masks[:n] = places[:n], masks[:n]
                    places, masks = more_places, more_masks
        offsets.cumsum(out=offsets)
        ids = large_array(int(offsets[-1]), np.int32)
        put_ids(places, masks, n, self.ids, offsets.copy(), ids)
        return ListHits(offsets, ids)

    def without(self, ids: QueryIds) -> Self:
        """The same queries but these; ids that are not here are ignored."""
        return replace(self, live=self.live.without(ids))

    @property
    def n_queries(self) -> int:
        """The number of live queries."""
        return self.live.n_queries

    def live_ids(self) -> QueryIds:
        return self.live.live_ids()

    @property
    def nbytes(self) -> int:
        own = (self.ids, self.boxes, self.points, self.leaf_ranks, self.lane_ranks)
        return self.live.nbytes + sum(array.nbytes for array in own)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All that `from_arrays` needs."""
        return {
            "attributes": np.array(self.attributes, np.int64),
            "ids": self.ids,
            "boxes": self.boxes,
            "points": self.points,
            "leaf_ranks": self.leaf_ranks,
            "lane_ranks": self.lane_ranks,
            **self.live.arrays(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The structure that gave these arrays, looking into them."""
        ids, *others = (
            read_only(np.asarray(arrays[name]))
            for name in ("ids", "boxes", "points", "leaf_ranks", "lane_ranks")
        )
        return cls(tuple(arrays["attributes"].tolist()), ids, LiveLanes.from_arrays(arrays), *others)

    def check(self) -> None:
        """Assert that boxes hold their leaves, leaves their lanes, and that every query has its lane."""
        n = len(self.live.lanes)
        self.live.check(self.ids[:n])
        assert not np.any(self.ids[n:]), "an id behind the last query"
        assert len(self.live.live_ids()) == int(np.bitwise_count(self.live.words).sum()), (
            "a query in two lanes"
        )
        assert bool(np.all(self.points[:, :, 1:] >= self.points[:, :, :-1])), "cuts out of order"
        lows, highs = (self.lane_ranks[:, :, side] for side in (0, 1))
        assert bool(np.all(lows.transpose(0, 2, 1).reshape(-1, len(self.attributes))[n:] == _NEVER_LOW)), (
            "a lane without a query may match"
        )
        boxes = self.leaf_ranks.transpose(0, 3, 1, 2).reshape(-1, len(self.attributes), 2)
        here, beyond = boxes[: len(lows)], boxes[len(lows) :]
        assert np.array_equal(here[:, :, 0], lows.min(axis=2)), "a leaf's box is not that of its lanes"
        assert np.array_equal(here[:, :, 1], highs.max(axis=2)), "a leaf's box is not that of its lanes"
        assert bool(np.all(beyond[:, :, 1] == _NEVER_HIGH)), "a leaf that is not there may match"


# ----------------------------------------------------------------------------------------------- ranks


def _block_lanes(n_queries: int) -> int:
    """Lanes of a super-block: a power of two, and no more than the queries need."""
    n_leaves = -(-n_queries // LEAF_LANES)
    return LEAF_LANES << min(BLOCK_LEAVES.bit_length() - 1, max(n_leaves - 1, 0).bit_length())


def _in_blocks(bounds: Keys, n_blocks: int, block_lanes: int, filler: int) -> Keys:
    blocks = np.full(n_blocks * block_lanes, filler, np.int64)
    blocks[: len(bounds)] = bounds
    return blocks.reshape(n_blocks, block_lanes)


def _ranked_cuts(low: Keys, high: Keys) -> tuple[Keys, Ranks, Ranks]:
    """The cuts of each block, and the ranks of values from where on and up to where a lane holds them.

    A lane begins to hold values at the cut `low` and ceases at the cut `high` + 1. With r cuts <= a value, and the lane's own
    cuts at places b and e in order, it has begun if b < r and not ceased if r <= e; equal cuts may stand in any order.
    """
    n_lanes = low.shape[1]
    is_open = high == HIGHEST  # never ceases
    cuts = np.concatenate([low, high + ~is_open], axis=1)
    order = np.argsort(cuts, axis=1)
    places = np.empty(cuts.shape, np.int16)
    np.put_along_axis(places, order, np.arange(cuts.shape[1], dtype=np.int16)[np.newaxis], axis=1)
    high_ranks = np.where(is_open, np.int16(_ALWAYS_HIGH), places[:, n_lanes:])
    return np.take_along_axis(cuts, order, axis=1), places[:, :n_lanes] + np.int16(1), high_ranks


# ----------------------------------------------------------------------------------------------- packing


def passing_shares(lows: Keys, highs: Keys) -> Floats:
    """Per attribute, the mean share of a sample's constants that an interval holds."""
    sample = slice(None, None, max(1, lows.shape[1] // SAMPLE))
    shares = np.ones(len(lows))
    for k, (low, high) in enumerate(zip(lows[:, sample], highs[:, sample], strict=True)):
        constants = np.sort(np.concatenate([low, high]))
        if len(constants):
            held = np.searchsorted(constants, high, "right") - np.searchsorted(constants, low, "left")
            shares[k] = held.mean() / len(constants)
    return shares


def _packed_order(lows: Keys, highs: Keys) -> Order:
    """The queries in an order where every super-block, and every leaf in it, is a tile in the space of attributes."""
    n_attributes, n = lows.shape
    block_lanes = _block_lanes(n)
    n_blocks = -(-n // block_lanes)
    shares = np.maximum(passing_shares(lows, highs), 1 / SAMPLE)
    no_slabs = np.ones(n_attributes, np.int64)
    slabs = _slabs(no_slabs, shares, n_blocks)
    leaf_slabs = _slabs(slabs, shares, block_lanes // LEAF_LANES)
    middles = [_middles(low, high) for low, high in zip(lows, highs, strict=True)]
    order = np.argsort(middles[0])
    tile = block_lanes * int(slabs[1:].prod())
    order = np.concatenate([order, np.full(-n % tile, n)])  # whole tiles, filled up with no query
    for k in range(1, n_attributes):
        order = _sorted_tiles(order, middles[k], tile)
        tile //= int(slabs[k])
    order = order[: n_blocks * block_lanes]
    for k in range(n_attributes):
        if leaf_slabs[k] > 1:
            order = _sorted_tiles(order, middles[k], tile)
            tile //= int(leaf_slabs[k])
    return order[:n]


def _slabs(already: npt.NDArray[np.int64], shares: Floats, n_tiles: int) -> npt.NDArray[np.int64]:
    """Into how many slabs to cut each attribute to get so many tiles out of each tile there is.

    A tile of s_k slabs is visited by a share of prod(share_k + 1 / s_k) rows: least where all s_k * share_k are equal.
    """
    slabs = np.ones(len(shares), np.int64)
    while slabs.prod() < n_tiles:
        slabs[np.argmin(already * slabs * shares)] *= 2
    return slabs


def _middles(low: Keys, high: Keys) -> Keys:
    """The middle of each interval; an open end counts as the farthest constant there is, so that the other end decides."""
    low = np.maximum(low, low[low > LOWEST].min(initial=HIGHEST))
    high = np.minimum(high, high[high < HIGHEST].max(initial=LOWEST))
    middle: Keys = (low & high) + ((low ^ high) >> 1)  # (low + high) // 2 without overflow
    return middle


def _sorted_tiles(order: Order, middles: Keys, tile: int) -> Order:
    """Each tile's queries by their middles; no query (a number behind the last one) comes last."""
    keys = np.append(np.minimum(middles, HIGHEST - 1), HIGHEST)[order].reshape(-1, tile)
    return np.take_along_axis(order.reshape(-1, tile), np.argsort(keys, axis=1), axis=1).reshape(-1)


# ----------------------------------------------------------------------------------------------- rows


def null_rows(columns: Sequence[KeyColumn]) -> Mask | None:
    """Rows with NULL in at least one of the columns; None where no column has any."""
    masks = [column.is_null for column in columns if column.is_null is not None]
    return functools.reduce(np.logical_or, masks) if masks else None


def _candidate_words(is_null: Mask | None, n_rows: int) -> Words:
    """A bit per row, set where it may match; none behind the last row."""
    words = np.empty(-(-n_rows // 64), np.uint64)
    if is_null is None:
        words.fill(_ALL_ROWS)
        if n_rows % 64:
            words[-1] = (1 << n_rows % 64) - 1
    else:
        bits = np.packbits(~is_null, bitorder="little")
        octets = words.view(np.uint8)
        octets[: len(bits)], octets[len(bits) :] = bits, 0
    return words


def _record_space(n_records: int) -> tuple[npt.NDArray[np.int64], Words]:
    return np.empty(n_records, np.int64), np.empty(n_records, np.uint64)
