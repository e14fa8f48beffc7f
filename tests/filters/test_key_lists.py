"""Key lists against one query at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.filters import key_lists
from eddyline.filters.key_lists import KeyLists
from eddyline.filters.keys import KeyColumn
from eddyline.kernels import LONG_LIST
from tests.conftest import SEED
from tests.filters.rows_and_hits import columns_of, per_row
from tests.oracles.sparse_structures import PlainQuery, Row, matches
from tests.strategies import examples

LOWEST, HIGHEST = -(2**63), 2**63 - 1
SYMBOL, PRICE = 0, 1


def built(queries: Sequence[PlainQuery], key_attribute: int, attributes: tuple[int, ...]) -> KeyLists:
    entries = [(query, key) for query in queries for key in query.keys]
    bounds = np.array([[query.intervals[k] for query, _ in entries] for k in attributes], np.int64)
    bounds = bounds.reshape(len(attributes), len(entries), 2)
    lists = KeyLists.build(
        np.array([query.id for query, _ in entries], np.int32),
        key_attribute,
        np.array([key for _, key in entries], np.int64),
        attributes,
        bounds[:, :, 0],
        bounds[:, :, 1],
    )
    lists.check()
    return lists


def wants(id: int, *symbols: int, price: tuple[int, int] = (LOWEST, HIGHEST)) -> PlainQuery:
    return PlainQuery(id, {PRICE: price}, SYMBOL, symbols)


QUERIES = [wants(1, 7, price=(0, 10)), wants(2, 7, 8), wants(3, 8, price=(5, HIGHEST))]


def test_a_row_matches_the_queries_of_its_key_whose_intervals_hold_it() -> None:
    lists = built(QUERIES, SYMBOL, (PRICE,))
    rows = [(7, 10), (7, 11), (8, 4), (8, 5), (9, 5), (6, 5), (LOWEST, 5), (HIGHEST, 5)]
    hits = lists.probe(columns_of(rows, 2), len(rows))
    assert per_row(hits) == [[1, 2], [2], [2], [2, 3], [], [], [], []]


def test_a_query_with_several_keys_counts_once_and_is_dropped_as_one() -> None:
    lists = built(QUERIES, SYMBOL, (PRICE,))
    assert lists.n_queries == 3
    left = lists.without(np.array([2, 44], np.int32))
    left.check()
    assert left.n_queries == 2
    assert left.live_ids().tolist() == [1, 3]
    rows = [(7, 5), (8, 5)]
    assert per_row(left.probe(columns_of(rows, 2), 2)) == [[1], [3]]
    assert per_row(lists.probe(columns_of(rows, 2), 2)) == [[1, 2], [2, 3]]
    assert left.without(np.array([2, 3], np.int32)).n_queries == 1


def test_without_other_attributes_the_key_decides() -> None:
    lists = built([PlainQuery(1, {}, 1, (5,)), PlainQuery(2, {}, 1, (5, 6))], 1, ())
    rows: list[Row] = [(0, 5), (0, 6), (None, 6), (0, 7), (0, None)]
    assert per_row(lists.probe(columns_of(rows, 2), 5)) == [[1, 2], [2], [2], [], []]


def test_a_row_with_null_in_the_key_or_an_attribute_matches_nothing() -> None:
    lists = built([wants(1, 0)], SYMBOL, (PRICE,))
    rows: list[Row] = [(0, 0, 0), (None, 0, 0), (0, None, 0), (0, 0, None)]
    assert per_row(lists.probe(columns_of(rows, 3), 4)) == [[1], [], [], [1]]


def test_no_rows_and_no_queries_give_no_hits() -> None:
    nobody = built([], SYMBOL, (PRICE,))
    assert nobody.n_queries == 0
    assert per_row(nobody.probe(columns_of([(0, 0), (1, 1)], 2), 2)) == [[], []]
    assert nobody.probe(columns_of([], 2), 0).offsets.tolist() == [0]
    assert built(QUERIES, SYMBOL, (PRICE,)).probe(columns_of([], 2), 0).offsets.tolist() == [0]


def test_keys_close_together_get_a_table_by_key_and_others_a_hash_table() -> None:
    dense = built([wants(id, 2 * id + 1) for id in range(1, 50)], SYMBOL, (PRICE,))
    assert len(dense.list_starts)
    assert not len(dense.table)
    sparse = built([wants(id, 1000 * id) for id in range(1, 50)], SYMBOL, (PRICE,))
    assert not len(sparse.list_starts)
    assert len(sparse.table) == 2 * 128
    rows = [(key, 0) for key in (0, 3, 4, 5, 97, 99, 100, 101, 1000, 1001, 49_000, 50_000)]
    assert per_row(dense.probe(columns_of(rows, 2), 12)) == [[], [1], [], [2], [48], [49], *[[]] * 6]
    assert per_row(sparse.probe(columns_of(rows, 2), 12)) == [*[[]] * 8, [1], [], [49], []]


def test_the_ends_of_the_keys_are_keys_like_others() -> None:
    lists = built(
        [wants(1, LOWEST), wants(2, HIGHEST), wants(3, 0, price=(HIGHEST, HIGHEST))], SYMBOL, (PRICE,)
    )
    rows = [(LOWEST, 0), (HIGHEST, LOWEST), (0, HIGHEST), (0, HIGHEST - 1), (-1, 0)]
    assert per_row(lists.probe(columns_of(rows, 2), 5)) == [[1], [2], [3], [], []]


def test_the_most_selective_attribute_comes_first() -> None:
    queries = [PlainQuery(id, {1: (0, 1000), 2: (id, id + 1)}, 0, (5,)) for id in range(1, 100)]
    lists = built(queries, 0, (1, 2))
    assert lists.attributes == (2, 1)
    assert per_row(lists.probe(columns_of([(5, 500, 50)], 3), 1)) == [[49, 50]]


@pytest.mark.parametrize("n_entries", [LONG_LIST, LONG_LIST + 1, 1000])
def test_a_long_list_is_cut_to_what_may_match(n_entries: int) -> None:
    everything = wants(5000, 3, price=(LOWEST, HIGHEST))
    queries = [wants(id, 3, price=(10 * id, 10 * id + 25)) for id in range(1, n_entries)]
    last = 10 * (n_entries - 1)
    rows = [
        (3, price) for price in (LOWEST, 9, 10, 35, 36, 1000, last - 1, last, last + 25, last + 26, HIGHEST)
    ]
    with_everything = [*queries, everything]
    for chosen in (queries, with_everything):
        lists = built(chosen, SYMBOL, (PRICE,))
        assert bool(len(lists.spans)) == (len(chosen) > LONG_LIST)
        assert per_row(lists.probe(columns_of(rows, 2), len(rows))) == matches(chosen, rows)


def test_arrays_bring_back_the_structure_also_from_files(tmp_path: Path) -> None:
    for keys in ((7, 8), (7, 80_000)):
        queries = [wants(1, keys[0], price=(0, 10)), wants(2, *keys), wants(3, keys[1])]
        lists = built(queries, SYMBOL, (PRICE,)).without(np.array([3], np.int32))
        for name, array in lists.arrays().items():
            np.save(tmp_path / f"{name}.npy", array)
        mapped = {
            path.stem: np.load(path, mmap_mode="r") for path in tmp_path.iterdir() if path.stat().st_size
        }
        for arrays in (lists.arrays(), mapped):
            restored = KeyLists.from_arrays(arrays)
            restored.check()
            rows = [(keys[0], 5), (keys[1], 5)]
            assert per_row(restored.probe(columns_of(rows, 2), 2)) == [[1, 2], [2]]
            assert restored.n_queries == 2
            assert restored.nbytes == lists.nbytes


def test_space_for_ids_grows_when_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lists, "FIRST_IDS", 0)
    lists = built([wants(id, 1) for id in range(1, 31)], SYMBOL, (PRICE,))
    rows = [(1, 0), (2, 0), (1, 1)] * 10
    everybody = list(range(1, 31))
    assert per_row(lists.probe(columns_of(rows, 2), 30)) == [everybody, [], everybody] * 10


def test_rows_of_a_key_taken_together_come_back_in_their_own_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lists, "GROUP_ROWS", 0)
    monkeypatch.setattr(key_lists, "GROUP_BYTES", 0)
    monkeypatch.setattr(key_lists, "CACHED_BYTES", 0)
    monkeypatch.setattr(key_lists, "FIRST_IDS", 0)
    lists = built(QUERIES, SYMBOL, (PRICE,))
    rows: list[Row] = [(8, 5), (7, 11), (9, 0), (8, 4), (7, 10), (None, 1), (7, 0)]
    assert per_row(lists.probe(columns_of(rows, 2), 7)) == [[2, 3], [2], [], [2], [1, 2], [], [1, 2]]


# ----------------------------------------------------------------------------------------------- anything

POOLS = st.lists(
    st.one_of(st.integers(-4, 4), st.sampled_from([LOWEST, LOWEST + 1, HIGHEST - 1, HIGHEST])),
    min_size=1,
    max_size=8,
)


@examples(0.5)
@given(
    pool=POOLS,
    n_attributes=st.integers(0, 9),
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

    key_attribute, *attributes = rng.permutation(n_attributes + 2)[: n_attributes + 1].tolist()
    ids = rng.permutation(1000)[:n_queries] + 1
    queries = [
        PlainQuery(
            int(id),
            {k: interval() for k in attributes},
            key_attribute,
            tuple({drawn() for _ in range(rng.integers(1, 4))}),
        )
        for id in ids
    ]
    rows = [
        tuple(drawn() if rng.random() > 0.05 else None for _ in range(n_attributes + 2))
        for _ in range(n_rows)
    ]
    lists = built(queries, key_attribute, tuple(attributes))
    assert lists.n_queries == n_queries
    columns = columns_of(rows, n_attributes + 2)
    assert per_row(lists.probe(columns, n_rows)) == matches(queries, rows)
    dropped = rng.permutation(1001)[: rng.integers(300)].astype(np.int32)
    left = KeyLists.from_arrays(lists.without(dropped).arrays())
    left.check()
    alive = [query for query in queries if query.id not in dropped]
    assert per_row(left.probe(columns, n_rows)) == matches(alive, rows)
    assert left.live_ids().tolist() == sorted(query.id for query in alive)


@examples(0.1)
@given(st.sampled_from([1, 2, 50, 4000]), st.sampled_from([1, 10**15]), st.booleans(), st.integers(0, 2**32))
def test_many_entries_give_the_hits_of_all(n_keys: int, spread: int, is_narrow: bool, seed: int) -> None:
    rng = np.random.default_rng([SEED, seed])
    n_entries, n_rows = 3000, 90
    keys = rng.integers(0, n_keys, n_entries) * spread
    lows = rng.integers(0, 10_000, (2, n_entries))
    highs = lows + rng.integers(0, 100 if is_narrow else 10_000, (2, n_entries))
    row_keys = rng.integers(-1, n_keys + 1, n_rows) * spread
    values = rng.integers(0, 12_000, (2, n_rows))
    lists = KeyLists.build(np.arange(1, n_entries + 1, dtype=np.int32), 0, keys, (1, 2), lows, highs)
    lists.check()
    hits = lists.probe([KeyColumn(row, None) for row in (row_keys, *values)], n_rows)
    wanted = (lows[:, None] <= values[:, :, None]) & (values[:, :, None] <= highs[:, None])
    is_hit = wanted.all(axis=0) & (keys == row_keys[:, None])
    assert per_row(hits) == [(np.flatnonzero(row) + 1).tolist() for row in is_hit]
