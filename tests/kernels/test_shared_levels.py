"""The kernels of shared filters do what plain loops over sets do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.kernels.shared_levels import (
    are_open,
    close_where_dropped,
    count_open,
    mark_rows,
    needing_among,
    note,
    open_pairs,
    rows_needing,
)
from tests.strategies import examples


@st.composite
def open_classes(draw):
    """On each row the classes that are open, and a filter's classes; up to five words of them."""
    n = draw(st.sampled_from([1, 63, 64, 65, 130, 260]))
    some = st.frozensets(st.integers(0, n - 1), max_size=6)
    return n, draw(st.lists(some, max_size=12)), draw(some)


def words_of(n, sets):
    words = np.zeros((-(-n // 64), len(sets)), np.uint64)
    for row, members in enumerate(sets):
        for member in members:
            words[member // 64, row] |= np.uint64(1 << member % 64)
    return words


@given(open_classes())
@examples(1)
def test_pairs_become_bits(case):
    n, rows, _ = case
    pairs = [
        (2 * row, member) for row, members in enumerate(rows) for member in sorted(members)
    ]  # every other row
    words, n_pairs = np.zeros((-(-n // 64), len(rows)), np.uint64), np.zeros(n, np.int64)
    given_rows, classes = (np.array([pair[at] for pair in pairs], np.int64) for at in (0, 1))
    open_pairs(given_rows, classes, np.arange(2 * len(rows)) // 2, words, n_pairs)
    assert (words == words_of(n, rows)).all()
    assert n_pairs.tolist() == [sum(member in members for members in rows) for member in range(n)]
    is_here = np.zeros(2 * len(rows), bool)
    mark_rows(given_rows, is_here)
    assert set(np.flatnonzero(is_here)) == {row for row, _ in pairs}


@given(open_classes(), st.randoms(use_true_random=False))
@examples(1)
def test_a_filter_is_needed_where_a_class_that_has_it_is_open(case, rng):
    n, rows, members = case
    words, of_filter = words_of(n, rows), words_of(n, [members])[:, 0].copy()
    expected = [row for row, here in enumerate(rows) if here & members]
    needing = np.empty(len(rows) + 1, np.int64)
    assert needing[: rows_needing(words, of_filter, needing)].tolist() == expected
    among = sorted(rng.sample(range(len(rows)), rng.randint(0, len(rows))))
    found = needing[: needing_among(words, of_filter, np.array(among, np.int64), needing)].tolist()
    assert found == [row for row in expected if row in among]


@given(open_classes(), st.randoms(use_true_random=False))
@examples(1)
def test_a_drop_closes_the_classes_that_have_the_filter(case, rng):
    n, rows, members = case
    words, of_filter = words_of(n, rows), words_of(n, [members])[:, 0].copy()
    asked = sorted(rng.sample(range(len(rows)), rng.randint(0, len(rows))))
    passes = [rng.random() < 0.5 for _ in asked]
    verdicts = np.zeros(len(rows), np.int8)
    given_rows, given_passes = np.array(asked, np.int64), np.array(passes, bool)
    assert close_where_dropped(words, given_rows, given_passes, of_filter) == sum(passes)
    note(verdicts, given_rows, given_passes)
    said = dict(zip(asked, passes, strict=True))
    assert verdicts.tolist() == [0 if row not in said else 1 + said[row] for row in range(len(rows))]
    dropped = {row for row, passed in zip(asked, passes, strict=True) if not passed}
    expected = [here - members if row in dropped else here for row, here in enumerate(rows)]
    assert (words == words_of(n, expected)).all()


@given(open_classes())
@examples(1)
def test_open_classes_are_found_and_counted(case):
    n, rows, _ = case
    words = words_of(n, rows)
    pairs = [(row, member) for row in range(len(rows)) for member in range(n)]
    found = np.empty(len(pairs), bool)
    given_rows, classes = (np.array([pair[at] for pair in pairs], np.int64) for at in (0, 1))
    are_open(words, given_rows, classes, found)
    assert found.tolist() == [member in rows[row] for row, member in pairs]
    counts = np.zeros(64 * len(words), np.int64)
    count_open(words, counts)
    assert counts[:n].tolist() == [sum(member in here for here in rows) for member in range(n)]
