"""Bitset kernels against their plain twins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.kernels import bitsets as kernels
from eddyline.kernels.lanes import PLACES_OF_ONES, compiles_for_avx2
from eddyline.kernels.layouts import LINE_WORDS
from tests.conftest import SEED
from tests.oracles import bitsets as plain
from tests.strategies import examples

LOWEST, HIGHEST = -(2**63), 2**63 - 1
UNTOUCHED = -7


# ----------------------------------------------------------------------------------------------- ranks

KEYS = st.one_of(
    st.integers(-20, 20), st.integers(LOWEST, HIGHEST), st.sampled_from([LOWEST, HIGHEST, HIGHEST - 1])
)


def ranked(keys: Sequence[int | None], cuts: Sequence[int], shift: int) -> list[int]:
    """What the kernel gives with buckets of 2**shift keys."""
    first = cuts[0] - 1 if cuts else 0
    begins = range(first, cuts[-1] + 1, 1 << shift) if cuts else [0]
    buckets = [sum(cut <= begin for cut in cuts) for begin in begins]
    within = [
        sum(begin < cut < begin + (1 << shift) or cut > begin == begins[-1] for cut in cuts)
        for begin in begins
    ]
    n_steps = max(within).bit_length()
    n_steps = max(n_steps, kernels.FEW_STEPS) if n_steps else 0
    out = np.full(len(keys), UNTOUCHED, np.int32)
    is_null = np.array([key is None for key in keys], np.bool_)
    kernels.global_ranks(
        np.array([5 if key is None else key for key in keys], np.int64),
        is_null if is_null.any() else np.empty(0, np.bool_),
        np.array([*cuts, *[HIGHEST] * (2**n_steps - 1)], np.int64),
        np.array(buckets, np.int32),
        first,
        shift,
        n_steps,
        out,
    )
    return [int(rank) for rank in out]


def test_a_rank_counts_the_cuts_up_to_and_with_a_key() -> None:
    assert ranked([9, 10, 11, 20, 99, None], cuts=[10, 20], shift=0) == [0, 1, 1, 2, 2, -1]
    assert ranked([LOWEST, HIGHEST, None], cuts=[], shift=0) == [0, 0, -1]


@given(
    st.lists(st.one_of(KEYS, st.none())), st.lists(KEYS.filter(lambda k: k > LOWEST), unique=True), st.data()
)
def test_ranks_are_the_same_with_any_buckets(
    keys: list[int | None], cuts: list[int], data: st.DataObject
) -> None:
    cuts = sorted(cuts)
    span = cuts[-1] - cuts[0] + 1 if cuts else 0
    shift = data.draw(st.integers(max(0, span.bit_length() - 6), 63)) if cuts else 0
    near = [cut + step for cut in cuts for step in (-1, 0, 1) if cut + step <= HIGHEST]
    assert ranked([*keys, *near], cuts, shift) == plain.ranks([*keys, *near], cuts)


# ----------------------------------------------------------------------------------------------- tables


def number_of(line: npt.NDArray[np.uint64]) -> int:
    return sum(int(word) << 64 * w for w, word in enumerate(line))


@examples(0.5)
@given(st.data())
def test_tables_turn_a_bit_around_at_each_of_its_toggles(data: st.DataObject) -> None:
    n_all = data.draw(st.sampled_from([0, 1, 7, 40, 300, 1500]))
    n_terms = data.draw(st.integers(1, 3))
    toggle = st.tuples(st.integers(0, n_terms - 1), st.integers(0, n_all), st.integers(0, 511))
    toggles = sorted(data.draw(st.sets(toggle, max_size=60)))
    before = data.draw(st.lists(st.integers(0, 2**512 - 1), min_size=n_terms, max_size=n_terms))
    rank_bits = (n_all + 1).bit_length()
    codes = np.array([(t << rank_bits | rank) << 9 | lane for t, rank, lane in toggles], np.int64)
    terms = np.zeros((n_terms, kernels.TERM_COLUMNS), np.int64)
    n_cuts_of = np.array([n_all], np.int64)
    kernels.measure_terms(codes, rank_bits, n_cuts_of, terms)
    room = n_all + 1000  # lines, for each term
    terms[:, kernels.TABLE] = np.arange(n_terms) * room
    terms[:, kernels.BUCKETS] = terms[:, kernels.TABLE] * 16 + 16 * (n_all + 3)
    terms[:, kernels.THRESHOLDS] = terms[:, kernels.BUCKETS] + n_all + 10
    bitsets = np.zeros(n_terms * room * LINE_WORDS, np.uint64)
    numbers = bitsets.view(np.int32)
    now = np.array([line >> 64 * w & 2**64 - 1 for line in before for w in range(8)], np.uint64)
    kernels.fill_terms(codes, rank_bits, n_cuts_of, terms, now, bitsets, numbers)
    lines = bitsets.reshape(-1, LINE_WORDS)
    expected = plain.tables(toggles, [n_all] * n_terms, before)
    for term, row in enumerate(terms.tolist()):
        assert number_of(lines[row[kernels.TABLE]]) == before[term], "the line for NULL"
        table = lines[row[kernels.TABLE] + 1 :]
        cuts = sorted({rank for of, rank, _ in toggles if of == term and rank})
        assert row[kernels.N_CUTS] == len(cuts)
        if row[kernels.SHIFT] == kernels.IS_DIRECT:
            assert [number_of(line) for line in table[: n_all + 1]] == expected[term]
            continue
        padding = [int(kernels.NEVER)] * 2 ** row[kernels.N_STEPS]
        thresholds = numbers[row[kernels.THRESHOLDS] :][: len(cuts) + len(padding)].tolist()
        assert thresholds == [*cuts, *padding]
        assert numbers[row[kernels.BUCKETS]] == -1
        for rank in range(n_all + 1):
            local = sum(cut <= rank for cut in cuts)
            assert number_of(table[local]) == expected[term][rank]
            behind = numbers[row[kernels.BUCKETS] + 1 + (rank >> row[kernels.SHIFT])]
            assert behind <= local < behind + 2 ** row[kernels.N_STEPS]


def test_bits_are_put_where_they_belong() -> None:
    words = np.zeros(16, np.uint64)
    kernels.put_bits(words, np.array([0, 1, 1]), np.array([0, 64, 511]), True)
    assert {k: int(word) for k, word in enumerate(words) if word} == {0: 1, 9: 1, 15: 1 << 63}
    kernels.put_bits(words, np.array([1, 1]), np.array([511, 511]), False)
    assert words[15] == 0


# ----------------------------------------------------------------------------------------------- hits

WORD = st.one_of(st.just(0), st.integers(0, 2**64 - 1), st.sampled_from([1, 1 << 63, 2**64 - 1]))


@st.composite
def bitmaps(draw: st.DrawFn) -> npt.NDArray[np.uint64]:
    n_words = draw(st.sampled_from([8, 16]))
    rows = draw(st.lists(st.lists(WORD, min_size=n_words, max_size=n_words), max_size=10))
    return np.array(rows, np.uint64).reshape(-1, n_words)


def ids_of(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    return np.arange(1, 64 * words.shape[1] + 1, dtype=np.int32) * 3


PUTS: list[Any] = [kernels.put_by_bits]
if compiles_for_avx2():
    PUTS.append(kernels.put_by_bytes)


@pytest.mark.parametrize("put", PUTS)
@examples(0.4)
@given(words=bitmaps())
def test_rows_are_decoded_behind_each_other(put: Callable[..., int], words: npt.NDArray[np.uint64]) -> None:
    ids = ids_of(words)
    expected = [k for row in plain.decoded(words.tolist(), ids.tolist()) for k in row]
    out = np.full(len(expected) + 20, UNTOUCHED, np.int32)
    at = 0
    for row in range(len(words)):
        at = put(words, row, ids, out, at, len(expected))
    assert out.tolist() == expected + [UNTOUCHED] * 20


@examples(0.5)
@given(bitmaps())
def test_decoding_fills_an_array_of_just_the_right_length(words: npt.NDArray[np.uint64]) -> None:
    ids = ids_of(words)
    expected = [k for row in plain.decoded(words.tolist(), ids.tolist()) for k in row]
    out = np.full(len(expected) + 20, UNTOUCHED, np.int32)
    assert kernels.decode_rows(words, ids, out[: len(expected)]) == len(expected)
    assert out.tolist() == expected + [UNTOUCHED] * 20


@examples(0.5)
@given(bitmaps(), st.randoms(use_true_random=False))
def test_rows_of_several_hits_are_put_side_by_side(words: npt.NDArray[np.uint64], random: Any) -> None:
    ids = ids_of(words)
    bits = plain.decoded(words.tolist(), ids.tolist())
    lists = [[-random.randint(1, 99) for _ in range(random.choice([0, 1, 3, 30]))] for _ in bits]
    order = random.sample(range(len(bits)), len(bits))  # rows may stand in any order in the result
    starts = np.zeros(len(bits), np.int64)
    expected: list[int] = []
    for row in order:
        starts[row] = len(expected)
        expected += [*bits[row], *lists[row], UNTOUCHED]
    out = np.full(len(expected), UNTOUCHED, np.int32)
    counts = np.array([len(row) for row in bits], np.int32)
    offsets = np.array([0, *np.cumsum([len(row) for row in lists])], np.int64)
    behind = starts + counts
    kernels.copy_rows_at(offsets, np.array([k for row in lists for k in row], np.int32), behind, out)
    assert behind.tolist() == (starts + counts + np.diff(offsets)).tolist()
    kernels.decode_rows_at(words, counts, ids, starts, out)
    assert out.tolist() == expected


@examples(0.5)
@given(bitmaps())
def test_lanes_are_counted_over_rows(words: npt.NDArray[np.uint64]) -> None:
    n_lanes = 64 * words.shape[1]
    counts = np.ones(n_lanes, np.int64)  # it adds
    kernels.count_lanes(words, counts)
    assert (counts - 1).tolist() == plain.lane_counts(words.tolist(), n_lanes)


@pytest.mark.parametrize("n_rows", [0, 7, 8, 9, 15, 16, 17, 63, 64, 65, 1000, 4096, 5001])
@pytest.mark.parametrize("density", [0.02, 0.5, 1.0])
def test_lanes_are_counted_over_many_rows(n_rows: int, density: float) -> None:
    bits = np.random.default_rng(SEED).random((n_rows, 1024)) < density
    words = np.packbits(bits, axis=1, bitorder="little").view(np.uint64).reshape(n_rows, 16)
    counts = np.zeros(1024, np.int64)
    kernels.count_lanes(words, counts)
    assert np.array_equal(counts, bits.sum(axis=0))


def test_bitmaps_without_queries_are_empty() -> None:
    words = np.empty((3, 0), np.uint64)
    no_ids = np.empty(0, np.int32)
    kernels.count_lanes(words, np.empty(0, np.int64))
    assert kernels.decode_rows(words, no_ids, no_ids) == 0


def test_places_of_ones_are_in_front() -> None:
    table = PLACES_OF_ONES.reshape(256, 8)
    assert table[0b00000001].tolist() == [0, 0, 0, 0, 0, 0, 0, 0]
    assert table[0b10100010].tolist() == [1, 5, 7, 0, 0, 0, 0, 0]
    assert table[0b11111111].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
