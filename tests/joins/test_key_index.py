"""An index by key is what a dictionary of lists would be."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.joins.key_index import KeyIndex, PresentRows
from eddyline.joins.keys import Codes

few_codes = st.lists(st.sampled_from([0, 1, -1, 7, 2**40, -(2**63), 2**63 - 1]), max_size=60)


def codes(values: list[int], is_null: list[bool] | None = None) -> Codes:
    mask = None if is_null is None else np.array(is_null, dtype=bool)
    return Codes(np.array(values, np.int64), mask, is_exact=True)


def found(index: KeyIndex, asked_codes: Codes, present: PresentRows) -> list[tuple[int, int]]:
    """Pairs of a place in the codes asked for and the number of a row."""
    probes, rows = index.find(asked_codes, present)
    assert (np.diff(probes) >= 0).all()
    return sorted(zip(probes.tolist(), (rows + present.first).tolist(), strict=True))


@given(few_codes, few_codes, st.integers(0, 70), st.sampled_from([1, None]), st.booleans())
def test_rows_are_found_by_their_codes_before_and_after_they_are_tidied(
    values, asked_codes, first, bits, is_null_there
):
    is_null = [is_null_there and at % 3 == 0 for at in range(len(values))]
    index = KeyIndex(bucket_bits=bits)
    index.insert(codes(values, is_null if is_null_there else None), 0)
    present = PresentRows(first, np.arange(len(values)) % 5 != 2, 0) if values else PresentRows(first)
    there = [at for at in range(first, len(values)) if at % 5 != 2 and not is_null[at]]
    expected = [(p, at) for p, code in enumerate(asked_codes) for at in there if values[at] == code]
    assert found(index, codes(asked_codes), present) == expected
    index.tidy(present)
    index.check()
    assert found(index, codes(asked_codes), present) == expected


def test_a_key_with_more_rows_than_there_is_room_for_is_found_whole():
    index = KeyIndex()
    index.insert(codes([3] * 20_000 + [4]), 0)
    assert len(found(index, codes([4, 3, 5, 3, 4]), PresentRows(0))) == 40_002


def test_some_rows_of_a_key_are_found_the_newest_first_and_the_others_when_those_are_skipped():
    index = KeyIndex()
    index.insert(codes([3, 4] * 20_000), 0)  # more than a ring holds: a segment
    index.insert(codes([3, 4, 3]), 40_000)
    present = PresentRows(30_000, np.arange(40_003) % 4 != 2, 0)
    there = [row for row in range(30_000, 40_003) if row % 4 != 2]
    expected = [row for row in there if row % 2 == 0][::-1]  # the rows of key 3
    some = [index.find_some(codes([4, 3]), present, n_skipped=n, most=2) for n in (0, 2)]
    for at, (probes, rows) in enumerate(some):
        assert probes.tolist() == [0, 0, 1, 1]
        assert (rows[probes == 1] + present.first).tolist() == expected[2 * at : 2 * at + 2]
    assert [len(each) for each in index.find_some(codes([3, 5]), present, n_skipped=0, most=9_000)] == [
        len(expected)
    ] * 2
