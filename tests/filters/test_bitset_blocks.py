"""Bitset blocks against one query at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.batch import BitmapHits
from eddyline.filters.bitset_blocks import BitsetBlocks, Nulls, Ranges
from eddyline.filters.keys import KeyColumn
from eddyline.kernels import bitsets as kernels
from tests.conftest import SEED
from tests.oracles.bitsets import NULL, PlainQuery, Row, matches
from tests.strategies import examples

LOWEST, HIGHEST = -(2**63), 2**63 - 1


# ----------------------------------------------------------------------------------------------- between plain and arrays


def built(queries: Sequence[PlainQuery], n_attributes: int) -> BitsetBlocks:
    ranges: list[tuple[int, ...]] = []
    nulls: list[tuple[int, ...]] = []
    for lane, query in enumerate(queries):
        for plane, conditions in enumerate([query.forbidden, *query.clauses]):
            for attribute, *interval in conditions:
                if interval == [NULL]:
                    nulls.append((lane, plane, attribute))
                else:
                    ranges.append((lane, plane, attribute, *interval))
    blocks = BitsetBlocks.build(
        np.array([query.id for query in queries], np.int32),
        Ranges(*columns_of(ranges, [np.int32, np.int16, np.int32, np.int64, np.int64])),
        Nulls(*columns_of(nulls, [np.int32, np.int16, np.int32])),
        n_attributes,
    )
    blocks.check()
    return blocks


def columns_of(tuples: Sequence[tuple[int, ...]], dtypes: Sequence[Any]) -> list[npt.NDArray[Any]]:
    return [np.array([t[k] for t in tuples], dtype) for k, dtype in enumerate(dtypes)]


def key_columns(rows: Sequence[Row], n_attributes: int) -> list[KeyColumn]:
    columns = []
    for attribute in range(n_attributes):
        values = [row[attribute] for row in rows]
        is_null = np.array([value is NULL for value in values], np.bool_)
        keys = np.array([7 if value is NULL else value for value in values], np.int64)
        columns.append(KeyColumn(keys, is_null if is_null.any() else None))
    return columns


def hit_sets(hits: BitmapHits) -> list[set[int]]:
    """The ids of each row; asserts that what the hits say of themselves is true."""
    assert hits.words.shape == (len(hits.counts), len(hits.ids) // 64)
    out = np.zeros(len(hits), np.int32)
    assert kernels.decode_rows(hits.words, hits.ids, out) == len(out)
    lists = np.split(out, np.cumsum(hits.counts)[:-1]) if len(hits.counts) else []
    for ids in lists:
        assert len(set(ids.tolist())) == len(ids)
        assert 0 not in ids
    return [set(ids.tolist()) for ids in lists]


def probed(blocks: BitsetBlocks, rows: Sequence[Row], n_attributes: int) -> list[set[int]]:
    return hit_sets(blocks.probe(key_columns(rows, n_attributes), len(rows)))


# ----------------------------------------------------------------------------------------------- by eye


def test_a_row_matches_queries_that_forbid_none_of_its_values() -> None:
    queries = [
        PlainQuery(1, [(0, 10, HIGHEST)]),  # x < 10
        PlainQuery(2, [(0, LOWEST, 4), (1, LOWEST, 99)]),  # x > 4 and y > 99
        PlainQuery(3, [(0, LOWEST, 6), (0, 8, HIGHEST)]),  # x = 7
        PlainQuery(4),
    ]
    assert probed(built(queries, 2), [(7, 100), (7, 5), (12, 100), (0, 0)], 2) == [
        {1, 2, 3, 4},
        {1, 3, 4},
        {2, 4},
        {1, 4},
    ]


def test_null_is_refused_only_where_a_query_says_so() -> None:
    queries = [
        PlainQuery(1, [(0, 10, HIGHEST), (0, NULL)]),  # x < 10
        PlainQuery(2, [(0, LOWEST, HIGHEST)]),  # x is null
        PlainQuery(3, [(0, NULL)]),  # x is not null
        PlainQuery(4, [(1, NULL)]),
    ]
    assert probed(built(queries, 2), [(NULL, 1), (7, 1), (7, NULL), (NULL, NULL)], 2) == [
        {2, 4},
        {1, 3, 4},
        {1, 3},
        {2},
    ]


def test_every_clause_needs_one_of_its_conditions() -> None:
    queries = [
        PlainQuery(1, clauses=[[(0, 1, 3), (1, 5, 5)]]),  # x between 1 and 3 or y = 5
        PlainQuery(2, clauses=[[(0, 1, 3), (0, 2, 9)], [(1, LOWEST, 0), (1, NULL)]]),  # ranges overlap
        PlainQuery(3, [(1, 5, 5)], [[(0, 9, 9), (0, 1, 1)]]),
        PlainQuery(4),
    ]
    rows = [(1, 5), (1, -4), (9, NULL), (8, 0), (3, 7), (4, 7)]
    assert probed(built(queries, 2), rows, 2) == [{1, 4}, {1, 2, 3, 4}, {2, 3, 4}, {2, 4}, {1, 4}, {4}]


def test_clauses_may_be_about_null_alone() -> None:
    queries = [PlainQuery(1, clauses=[[(0, NULL), (1, NULL)]]), PlainQuery(2)]
    rows = [(NULL, 1), (1, NULL), (1, 1), (NULL, NULL)]
    assert probed(built(queries, 2), rows, 2) == [{1, 2}, {1, 2}, {2}, {1, 2}]


def test_the_ends_of_the_key_space_are_keys_like_others() -> None:
    queries = [
        PlainQuery(1, [(0, HIGHEST, HIGHEST)]),
        PlainQuery(2, [(0, LOWEST, LOWEST)]),
        PlainQuery(3, [(0, LOWEST, HIGHEST - 1)]),
        PlainQuery(4, [(0, LOWEST + 1, HIGHEST)]),
        PlainQuery(5, [(0, LOWEST, HIGHEST)]),
        PlainQuery(6, clauses=[[(0, HIGHEST, HIGHEST), (0, LOWEST, LOWEST)]]),
    ]
    assert probed(built(queries, 1), [(LOWEST,), (HIGHEST,), (0,)], 1) == [{1, 4, 6}, {2, 3, 6}, {1, 2}]


def test_no_rows_and_no_queries_give_no_hits() -> None:
    query = PlainQuery(1, [(0, 1, 2)])
    assert probed(built([query], 1), [], 1) == []
    assert probed(built([], 1), [(1,), (2,)], 1) == [set(), set()]
    assert probed(built([], 0), [], 0) == []
    assert built([], 1).n_queries == 0


def test_queries_without_conditions_match_every_row() -> None:
    blocks = built([PlainQuery(k) for k in range(1, 514)], 1)
    assert probed(blocks, [(1,), (NULL,)], 1) == [set(range(1, 514))] * 2


def test_a_513th_query_opens_a_second_block() -> None:
    queries = [PlainQuery(k, [(0, k, HIGHEST)]) for k in range(1, 514)]  # x < k
    blocks = built(queries, 1)
    assert len(blocks.ids) == 1024
    assert probed(blocks, [(0,), (1,), (500,), (512,), (513,)], 1) == [
        set(range(1, 514)),
        set(range(2, 514)),
        set(range(501, 514)),
        {513},
        set(),
    ]


def test_more_rows_than_a_chunk_are_all_answered() -> None:
    queries = [PlainQuery(k, [(0, k, HIGHEST)], [[(1, 0, k)]]) for k in range(1, 40)]
    rows = [(k % 50, k % 7) for k in range(2500)]
    assert probed(built(queries, 2), rows, 2) == matches(queries, rows)


# ----------------------------------------------------------------------------------------------- by chance

KEYS = st.one_of(
    st.integers(-3, 12),
    st.integers(LOWEST, HIGHEST),
    st.sampled_from([LOWEST, LOWEST + 1, HIGHEST - 1, HIGHEST, 1 << 62, -(1 << 62)]),
)


@st.composite
def apart(draw: st.DrawFn, attribute: int) -> list[tuple[int, ...]]:
    """Up to three intervals that share no key, and sometimes an end of the key space."""
    ends = sorted(draw(st.lists(KEYS, min_size=2, max_size=6, unique=True)))
    if draw(st.booleans()):
        ends = [LOWEST, *(end for end in ends if end != LOWEST)]
    if draw(st.booleans()):
        ends = [*(end for end in ends if end != HIGHEST), HIGHEST]
    return [(attribute, low, high) for low, high in zip(ends[::2], ends[1::2], strict=False)]


@st.composite
def queries_of(draw: st.DrawFn, query_id: int, n_attributes: int) -> PlainQuery:
    attributes = st.integers(0, n_attributes - 1)
    forbidden: list[tuple[Any, ...]] = []
    for attribute in draw(st.sets(attributes, max_size=3)):
        if draw(st.integers(0, 5)):
            forbidden += draw(apart(attribute))
        if draw(st.booleans()):
            forbidden.append((attribute, NULL))
    interval = st.tuples(attributes, KEYS, KEYS).map(lambda t: (t[0], min(t[1:]), max(t[1:])))
    is_null = attributes.map(lambda attribute: (attribute, NULL))
    clause = st.lists(st.one_of(interval, interval, is_null), min_size=1, max_size=4)
    return PlainQuery(query_id, forbidden, draw(st.lists(clause, max_size=2)) if draw(st.booleans()) else [])


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, list[PlainQuery], list[Row]]:
    n_attributes = draw(st.integers(1, 4))
    ids = draw(st.lists(st.integers(1, 2**31 - 1), max_size=12, unique=True))
    queries = [draw(queries_of(query_id, n_attributes)) for query_id in ids]
    near = [
        k + d
        for q in queries
        for c in [q.forbidden, *q.clauses]
        for _, *i in c
        if i != [NULL]
        for k in i
        for d in (-1, 0, 1)
    ]
    known = st.sampled_from([k for k in near if LOWEST <= k <= HIGHEST]) if near else st.nothing()
    value = st.one_of(KEYS, known, st.none())
    return n_attributes, queries, draw(st.lists(st.tuples(*[value] * n_attributes), max_size=12))


@given(cases())
def test_hits_are_those_of_one_query_at_a_time(case: tuple[int, list[PlainQuery], list[Row]]) -> None:
    n_attributes, queries, rows = case
    assert probed(built(queries, n_attributes), rows, n_attributes) == matches(queries, rows)


# so many cuts that no term has most of them
OTHERS = [
    PlainQuery(
        10**6 + k, [(a, LOWEST, k * 7 - 4000) for a in range(4)], [[(k % 4, k * 10**15 - 10**17, HIGHEST)]]
    )
    for k in range(1100)
]


@examples(0.3)
@given(cases())
def test_hits_are_the_same_among_many_other_queries(case: tuple[int, list[PlainQuery], list[Row]]) -> None:
    _, queries, rows = case
    rows = [(*row, *[0] * (4 - len(row))) for row in rows]
    own = {query.id for query in queries}
    blocks = built([*queries, *(other for other in OTHERS if other.id not in own)], 4)
    assert [hits & own for hits in probed(blocks, rows, 4)] == matches(queries, rows)


def test_constants_that_crowd_together_are_told_apart() -> None:
    n = 60_000
    constants = np.append(np.arange(n - 1), 2**62)  # one far away leaves the others a single bucket of keys
    ids = np.arange(1, n + 1, dtype=np.int32)
    lane, zeros = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    ranges = Ranges(lane, zeros.astype(np.int16), zeros, constants, np.full(n, HIGHEST))  # x < constant
    blocks = BitsetBlocks.build(ids, ranges, Nulls(zeros[:0], zeros[:0].astype(np.int16), zeros[:0]), 1)
    blocks.check()
    assert blocks.terms[:, kernels.N_STEPS].max() > kernels.FEW_STEPS, "this is to be a long search"
    values = np.array([-1, 0, 1, 511, 512, 30_000, n - 3, n - 2, n, 2**62 - 1, 2**62, LOWEST, HIGHEST])
    expected = [set(ids[constants > value].tolist()) for value in values]
    assert hit_sets(blocks.probe([KeyColumn(values, None)], len(values))) == expected


@examples(0.5)
@given(cases(), st.data())
def test_dropped_queries_are_gone_and_the_others_stay(
    case: tuple[int, list[PlainQuery], list[Row]], data: st.DataObject
) -> None:
    n_attributes, queries, rows = case
    blocks = built(queries, n_attributes)
    known = [query.id for query in queries]
    dropped = data.draw(
        st.lists(st.one_of(st.sampled_from(known), st.integers(1, 9)) if known else st.integers(1, 9))
    )
    smaller = blocks.without(np.array(dropped, np.int32))
    smaller.check()
    left = [query for query in queries if query.id not in dropped]
    assert probed(smaller, rows, n_attributes) == matches(left, rows)
    assert sorted(smaller.live_ids().tolist()) == sorted(query.id for query in left)
    assert smaller.n_queries == len(left)
    assert blocks.n_queries == len(queries), "dropping must leave the original alone"


@pytest.mark.parametrize("n_values", [20, 700, 10**15])
@pytest.mark.parametrize("n_lanes", [64, 513, 3000])
def test_large_random_sets_agree_with_a_loop_over_queries(n_lanes: int, n_values: int) -> None:
    rng = np.random.default_rng(SEED)
    n_rows, n_attributes = 300, 5
    shape = (n_lanes, n_attributes)
    has, is_upper = rng.random(shape) < 0.5, rng.random(shape) < 0.5
    constant = rng.integers(0, n_values, shape)
    constant[:, 4] //= 7  # few cuts in one attribute, many in others
    lane, attribute = (part.astype(np.int32) for part in np.nonzero(has))
    low = np.where(is_upper, constant, LOWEST)[has]  # x < constant, or x > constant
    high = np.where(is_upper, HIGHEST, constant)[has]
    plane = np.zeros(len(lane), np.int16)
    ids = rng.permutation(n_lanes * 2)[:n_lanes].astype(np.int32) + 1
    blocks = BitsetBlocks.build(
        ids, Ranges(lane, plane, attribute, low, high), Nulls(lane, plane, attribute), n_attributes
    )
    blocks.check()
    values = rng.integers(-1, n_values + 1, (n_attributes, n_rows))
    is_null = rng.random((n_attributes, n_rows)) < 0.05
    hits = blocks.probe([KeyColumn(v, m) for v, m in zip(values, is_null, strict=True)], n_rows)
    expected = np.ones((n_rows, 2 * n_lanes + 1), np.bool_)
    expected[:, np.setdiff1d(np.arange(2 * n_lanes + 1), ids)] = False
    for k in range(n_lanes):
        for a in np.flatnonzero(has[k]):
            passes = values[a] < constant[k, a] if is_upper[k, a] else values[a] > constant[k, a]
            expected[:, ids[k]] &= passes & ~is_null[a]
    found = np.zeros_like(expected)
    out = np.empty(len(hits), np.int32)
    kernels.decode_rows(hits.words, hits.ids, out)
    found[np.repeat(np.arange(n_rows), hits.counts), out] = True
    assert np.array_equal(found, expected)


@examples(0.3)
@given(cases())
def test_arrays_are_all_there_is_to_it(case: tuple[int, list[PlainQuery], list[Row]]) -> None:
    n_attributes, queries, rows = case
    blocks = built(queries, n_attributes)
    arrays = {name: array.copy() for name, array in blocks.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    again = BitsetBlocks.from_arrays(arrays)
    again.check()
    assert again.nbytes == blocks.nbytes
    assert probed(again, rows, n_attributes) == matches(queries, rows)
    assert probed(again.without(np.array([q.id for q in queries], np.int32)), rows, n_attributes) == [
        set()
    ] * len(rows)


def test_read_only_maps_of_files_are_probed_in_place(tmp_path: Any) -> None:
    blocks = built([PlainQuery(5, [(0, 10, HIGHEST)]), PlainQuery(6, [(0, LOWEST, 9)])], 1)
    for name, array in blocks.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    maps = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in blocks.arrays()}
    again = BitsetBlocks.from_arrays(maps)
    assert again.bitsets.ctypes.data == maps["bitsets"].ctypes.data
    assert probed(again, [(9,), (10,)], 1) == [{5}, {6}]


def test_one_compilation_serves_all_arrays() -> None:
    kernels.warm_up()
    used = [
        kernels.global_ranks,
        kernels.measure_terms,
        kernels.fill_terms,
        kernels.put_bits,
        kernels.evaluate_blocks,
    ]
    columns = key_columns([(3, NULL), (30, 5)], 2)
    for column in columns:
        column.keys.flags.writeable = False
    blocks = built([PlainQuery(1, [(0, 10, HIGHEST)], [[(1, 2, 3), (0, NULL)]])], 2)
    blocks = BitsetBlocks.from_arrays(blocks.arrays()).without(np.array([1], np.int32))
    assert len(blocks.probe(columns, 2)) == 0
    assert [len(kernel.signatures) for kernel in used] == [1] * len(used)  # type: ignore[attr-defined]
