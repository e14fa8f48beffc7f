"""Leaf blocks against one query at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.filters import leaf_blocks
from eddyline.filters.keys import KeyColumn
from eddyline.filters.leaf_blocks import LeafBlocks, passing_shares
from tests.conftest import SEED
from tests.filters.rows_and_hits import columns_of, per_row
from tests.oracles.sparse_structures import PlainQuery, Row, matches
from tests.strategies import examples

LOWEST, HIGHEST = -(2**63), 2**63 - 1
PRICE, VOLUME = 0, 1


def built(queries: Sequence[PlainQuery], attributes: tuple[int, ...]) -> LeafBlocks:
    """Blocks of queries that all have intervals on these attributes."""
    bounds = np.array([[query.intervals[k] for query in queries] for k in attributes], np.int64)
    bounds = bounds.reshape(len(attributes), len(queries), 2)
    ids = np.array([query.id for query in queries], np.int32)
    blocks = LeafBlocks.build(ids, attributes, bounds[:, :, 0], bounds[:, :, 1])
    blocks.check()
    return blocks


CHEAP_AND_BIG = PlainQuery(1, {PRICE: (1, 10), VOLUME: (1000, HIGHEST)})
CHEAP = PlainQuery(2, {PRICE: (LOWEST, 10), VOLUME: (LOWEST, HIGHEST)})
EXACT = PlainQuery(3, {PRICE: (10, 10), VOLUME: (1000, 1000)})


def test_both_ends_of_an_interval_belong_to_it() -> None:
    blocks = built([CHEAP_AND_BIG, CHEAP, EXACT], (PRICE, VOLUME))
    rows = [(10, 1000), (10, 999), (11, 1000), (1, 1001), (0, 5000), (LOWEST, LOWEST), (10, HIGHEST)]
    hits = blocks.probe(columns_of(rows, 2), len(rows))
    assert per_row(hits) == [[1, 2, 3], [2], [], [1, 2], [2], [2], [1, 2]]


def test_a_row_with_null_in_one_of_the_attributes_matches_nothing() -> None:
    blocks = built([CHEAP], (PRICE, VOLUME))
    rows: list[Row] = [(5, 5), (None, 5), (5, None), (None, None)]
    assert per_row(blocks.probe(columns_of(rows, 2), 4)) == [[2], [], [], []]


def test_null_in_another_column_does_not_matter() -> None:
    blocks = built([PlainQuery(4, {1: (0, 9)})], (1,))
    rows: list[Row] = [(None, 5, None), (1, 5, 1)]
    assert per_row(blocks.probe(columns_of(rows, 3), 2)) == [[4], [4]]


def test_no_rows_and_no_queries_give_no_hits() -> None:
    nobody = built([], (PRICE, VOLUME))
    assert nobody.n_queries == 0
    assert per_row(nobody.probe(columns_of([(1, 1)] * 3, 2), 3)) == [[], [], []]
    assert nobody.probe(columns_of([], 2), 0).offsets.tolist() == [0]
    assert built([CHEAP], (PRICE, VOLUME)).probe(columns_of([], 2), 0).offsets.tolist() == [0]


@pytest.mark.parametrize("n_queries", [1, 63, 64, 65, 128, 1023, 1024, 1025, 3000])
def test_every_number_of_queries_fills_its_leaves(n_queries: int) -> None:
    queries = [PlainQuery(id, {0: (10 * id, 10 * id + 5)}) for id in range(1, n_queries + 1)]
    blocks = built(queries, (0,))
    last = 10 * n_queries
    rows = [(5,), (10,), (15,), (16,), (last - 1,), (last,), (last + 5,), (last + 6,)]
    assert per_row(blocks.probe(columns_of(rows, 1), len(rows))) == [
        [],
        [1],
        [1],
        [],
        [],
        [n_queries],
        [n_queries],
        [],
    ]


def test_queries_all_alike_are_all_found() -> None:
    blocks = built([PlainQuery(id, {0: (3, 4), 1: (5, HIGHEST)}) for id in range(1, 2501)], (0, 1))
    rows = [(3, 5), (4, HIGHEST), (5, 5), (3, 4)]
    everybody = list(range(1, 2501))
    assert per_row(blocks.probe(columns_of(rows, 2), 4)) == [everybody, everybody, [], []]


def test_an_interval_that_ends_before_it_begins_holds_nothing() -> None:
    queries = [PlainQuery(1, {0: (5, 4)}), PlainQuery(2, {0: (HIGHEST, LOWEST)}), PlainQuery(3, {0: (4, 5)})]
    rows = [(3,), (4,), (5,), (6,), (LOWEST,), (HIGHEST,)]
    assert per_row(built(queries, (0,)).probe(columns_of(rows, 1), 6)) == [[], [3], [3], [], [], []]


def test_queries_close_to_each_other_share_a_leaf(rng: np.random.Generator) -> None:
    places = rng.permutation(64 * 40)
    ids = (places + 1).astype(np.int32)
    lows = places[np.newaxis] * 10
    blocks = LeafBlocks.build(ids, (0,), lows, lows + 5)
    by_leaf = np.sort(blocks.ids.reshape(-1, 64), axis=1)
    assert np.array_equal(by_leaf, np.arange(1, 64 * 40 + 1).reshape(-1, 64))


def test_the_attribute_with_narrow_intervals_is_cut_more_often(rng: np.random.Generator) -> None:
    n = 1024
    lows = np.stack([rng.integers(0, 10_000, n), rng.integers(0, 10_000, n)])
    widths = np.array([[8000], [10]])
    shares = passing_shares(lows, lows + widths)
    assert shares[0] > 0.4
    assert shares[1] < 0.01
    blocks = LeafBlocks.build(np.arange(1, n + 1, dtype=np.int32), (0, 1), lows, lows + widths)
    low_rank, high_rank = blocks.leaf_ranks[0, 1].astype(int)
    assert (high_rank - low_rank).max() < 2 * n / 10


def test_dropped_queries_no_longer_match_and_the_rest_still_do() -> None:
    blocks = built([CHEAP_AND_BIG, CHEAP, EXACT], (PRICE, VOLUME))
    columns = columns_of([(10, 1000)], 2)
    left = blocks.without(np.array([2, 99], np.int32))
    left.check()
    assert per_row(left.probe(columns, 1)) == [[1, 3]]
    assert left.n_queries == 2
    assert left.live_ids().tolist() == [1, 3]
    assert per_row(blocks.probe(columns, 1)) == [[1, 2, 3]]
    again = left.without(np.array([2, 1, 1], np.int32))
    assert again.n_queries == 1
    assert again.live_ids().tolist() == [3]
    assert again.without(np.array([], np.int32)).n_queries == 1


def test_arrays_bring_back_the_structure_also_from_files(tmp_path: Path) -> None:
    blocks = built([CHEAP_AND_BIG, CHEAP, EXACT], (VOLUME, PRICE)).without(np.array([2], np.int32))
    for name, array in blocks.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    mapped = {path.stem: np.load(path, mmap_mode="r") for path in tmp_path.iterdir()}
    for arrays in (blocks.arrays(), mapped):
        restored = LeafBlocks.from_arrays(arrays)
        restored.check()
        assert per_row(restored.probe(columns_of([(10, 1000)], 2), 1)) == [[1, 3]]
        assert restored.n_queries == 2
        assert restored.nbytes == blocks.nbytes
        assert restored.without(np.array([3], np.int32)).live_ids().tolist() == [1]


def test_space_for_records_grows_when_it_must(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(leaf_blocks, "RECORDS_PER_ROW", 0)
    queries = [PlainQuery(id, {0: (low, low + 500)}) for id, low in enumerate(range(2000), start=1)]
    rows = [(int(value),) for value in rng.integers(0, 2500, 200)]
    assert per_row(built(queries, (0,)).probe(columns_of(rows, 1), 200)) == matches(queries, rows)


def test_rows_pass_tile_by_tile(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    monkeypatch.setattr(leaf_blocks, "TILE_WORDS", 2)
    queries = [PlainQuery(id, {0: (low, low + 5)}) for id, low in enumerate(range(100), start=1)]
    rows: list[Row] = [(None if value == 50 else int(value),) for value in rng.integers(0, 110, 333)]
    assert per_row(built(queries, (0,)).probe(columns_of(rows, 1), 333)) == matches(queries, rows)


# ----------------------------------------------------------------------------------------------- anything

POOLS = st.lists(
    st.one_of(st.integers(-4, 4), st.sampled_from([LOWEST, LOWEST + 1, HIGHEST - 1, HIGHEST])),
    min_size=1,
    max_size=8,
)


@examples(0.5)
@given(
    pool=POOLS,
    n_attributes=st.integers(1, 8),
    n_queries=st.integers(0, 150),
    n_rows=st.integers(0, 70),
    seed=st.integers(0, 2**32),
)
def test_hits_are_those_of_one_query_at_a_time(
    pool: list[int], n_attributes: int, n_queries: int, n_rows: int, seed: int
) -> None:
    rng = np.random.default_rng([SEED, seed])

    def drawn() -> int:
        return pool[rng.integers(len(pool))]

    def interval() -> tuple[int, int]:
        low, high = sorted((drawn(), drawn()))
        return [(low, high), (LOWEST, high), (low, HIGHEST), (low, low)][rng.integers(4)]

    attributes = tuple(
        rng.permutation(n_attributes + 1)[:n_attributes].tolist()
    )  # one column is not asked for
    ids = rng.permutation(1000)[:n_queries] + 1
    queries = [PlainQuery(int(id), {k: interval() for k in attributes}) for id in ids]
    rows = [
        tuple(drawn() if rng.random() > 0.05 else None for _ in range(n_attributes + 1))
        for _ in range(n_rows)
    ]
    blocks = built(queries, attributes)
    dropped = rng.permutation(1001)[: rng.integers(300)].astype(np.int32)
    columns = columns_of(rows, n_attributes + 1)
    assert per_row(blocks.probe(columns, n_rows)) == matches(queries, rows)
    left = LeafBlocks.from_arrays(blocks.without(dropped).arrays())
    left.check()
    alive = [query for query in queries if query.id not in dropped]
    assert per_row(left.probe(columns, n_rows)) == matches(alive, rows)
    assert left.live_ids().tolist() == sorted(query.id for query in alive)


@examples(0.1)
@given(st.integers(2, 3), st.integers(1, 5000), st.integers(0, 2**32))
def test_many_packed_queries_give_the_hits_of_all(n_attributes: int, n_queries: int, seed: int) -> None:
    rng = np.random.default_rng([SEED, seed])
    lows = rng.integers(0, 1000, (n_attributes, n_queries))
    highs = lows + rng.integers(0, 200, (n_attributes, n_queries))
    values = rng.integers(0, 1200, (n_attributes, 90))
    blocks = LeafBlocks.build(
        np.arange(1, n_queries + 1, dtype=np.int32), tuple(range(n_attributes)), lows, highs
    )
    blocks.check()
    hits = blocks.probe([KeyColumn(keys, None) for keys in values], 90)
    wanted = (lows[:, None] <= values[:, :, None]) & (values[:, :, None] <= highs[:, None])
    assert per_row(hits) == [(np.flatnonzero(row) + 1).tolist() for row in wanted.all(axis=0)]
