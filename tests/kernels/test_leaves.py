"""Kernels of leaf blocks against their plain twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from eddyline.filters.keys import KeyColumn
from eddyline.filters.leaf_blocks import LeafBlocks
from eddyline.kernels import leaves as kernels
from eddyline.kernels.layouts import read_only
from tests.conftest import SEED
from tests.oracles import sparse_structures as plain

LOWEST, HIGHEST = -(2**63), 2**63 - 1
KEYS = st.one_of(st.integers(-3, 3), st.sampled_from([LOWEST, LOWEST + 1, HIGHEST - 1, HIGHEST]))


@given(st.lists(KEYS, min_size=8, max_size=8), KEYS)
def test_a_rank_counts_points_up_to_and_with_a_value(points: list[int], value: int) -> None:
    among_others = read_only(np.array([99, *sorted(points), 99], np.int64))
    assert kernels.rank_of(among_others, np.uint64(1), np.uint64(8), value) == plain.rank(points, value)


def test_reading_through_sees_every_step() -> None:
    assert kernels.read_through(read_only(np.array([1, 10, 100, 1000, 10_000])), 1, 5, 2) == 1010


RECORDS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(1, 2**64 - 1)))


@given(RECORDS)
def test_ids_of_records_go_to_their_rows(records: list[tuple[int, int, int]]) -> None:
    ids = read_only(np.arange(1, 3 * 64 + 1, dtype=np.int32))
    expected = plain.ids_of_records(records, ids.tolist(), n_rows=5)
    offsets = np.cumsum([0, *map(len, expected)])
    out = np.zeros(offsets[-1], np.int32)
    kernels.put_ids(
        np.array([row << 32 | leaf for row, leaf, _ in records], np.int64),
        np.array([mask for *_, mask in records], np.uint64),
        len(records),
        ids,
        cursors := offsets.copy(),
        out,
    )
    assert out.tolist() == [id for row in expected for id in row]
    assert cursors[:-1].tolist() == offsets[1:].tolist()


def _one_leaf() -> dict[str, npt.NDArray[Any]]:
    """A leaf with lane 0 for 10..19, lane 1 for 15..29, lane 2 for 15..29 but dead, and no other lanes."""
    points = np.full((1, 1, 128), HIGHEST)
    points[0, 0, :4] = [10, 15, 20, 30]
    lane_ranks = np.empty((1, 1, 2, 64), np.int16)
    lane_ranks[0, 0, 0], lane_ranks[0, 0, 1] = 32767, -1
    lane_ranks[0, 0, :, :3] = [[1, 2, 2], [2, 3, 3]]
    leaf_ranks = np.empty((1, 1, 2, 16), np.int16)
    leaf_ranks[0, 0, 0], leaf_ranks[0, 0, 1] = 32767, -1
    leaf_ranks[0, 0, :, 0] = [1, 3]
    arrays = {
        "boxes": np.array([[[10, 29]]]),
        "points": points,
        "leaf_ranks": leaf_ranks,
        "lane_ranks": lane_ranks,
        "live": np.array([0b011], np.uint64),
    }
    return {name: read_only(array) for name, array in arrays.items()}


def test_a_record_has_the_live_lanes_that_hold_the_row() -> None:
    values = np.zeros((1, 64), np.int64)
    values[0, :6] = [9, 10, 15, 29, 30, 15]
    candidates = np.array([0b011111], np.uint64)  # the last 15 has a NULL elsewhere
    places, masks = np.empty(1024, np.int64), np.empty(1024, np.uint64)
    counts = np.zeros(65, np.int64)
    done = kernels.find_records(
        values,
        candidates,
        0,
        1,
        **_one_leaf(),
        block=0,
        word=0,
        n=0,
        places=places,
        masks=masks,
        counts=counts,
    )
    assert done == (1, 0, 3)
    assert (places[:3] >> 32).tolist() == [1, 2, 3]
    assert masks[:3].tolist() == [0b01, 0b11, 0b10]
    assert counts[:7].tolist() == [0, 0, 1, 2, 1, 0, 0]


def test_without_room_for_the_records_of_a_word_work_stops_and_goes_on_there() -> None:
    values = np.full((1, 3 * 64), 12)
    candidates = np.array([0b1, 0b11, 0b1], np.uint64)
    places, masks = np.empty(1025, np.int64), np.empty(1025, np.uint64)
    counts = np.zeros(193, np.int64)
    leaf = _one_leaf()
    stopped = kernels.find_records(
        values, candidates, 0, 3, **leaf, block=0, word=0, n=0, places=places, masks=masks, counts=counts
    )
    assert stopped == (0, 2, 3)
    more_places, more_masks = np.empty(2000, np.int64), np.empty(2000, np.uint64)
    more_places[:3], more_masks[:3] = places[:3], masks[:3]
    block, word, n = stopped
    done = kernels.find_records(
        values,
        candidates,
        0,
        3,
        **leaf,
        block=block,
        word=word,
        n=n,
        places=more_places,
        masks=more_masks,
        counts=counts,
    )
    assert done == (1, 0, 4)
    assert (more_places[:4] >> 32).tolist() == [0, 64, 65, 128]
    assert np.flatnonzero(counts).tolist() == [1, 65, 66, 129]


def test_structures_need_nothing_that_warming_up_did_not_compile() -> None:
    kernels.warm_up()
    compiled: list[Any] = [kernels.find_records, kernels.put_ids]
    known = [len(kernel.signatures) for kernel in compiled]
    rng = np.random.default_rng(SEED)
    lows = rng.integers(0, 50, (2, 70))
    blocks = LeafBlocks.build(np.arange(1, 71, dtype=np.int32), (0, 1), lows, lows + 20)
    keys = rng.integers(0, 70, 100)
    for column in (KeyColumn(keys, None), KeyColumn(read_only(keys), read_only(keys == 5))):
        assert len(blocks.probe([column, column], 100))
        assert len(LeafBlocks.from_arrays(blocks.arrays()).probe([column, column], 100))
    assert [len(kernel.signatures) for kernel in compiled] == known
