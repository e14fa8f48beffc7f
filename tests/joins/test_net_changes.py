"""What remains of the changes of a round."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given

from eddyline.joins import net_changes


def remaining(changes: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Changes as (sign, key, row); `=` marks both images of an update."""
    keys = np.array([ord(key) for _, key, _ in changes], np.int64)
    sign = np.array([1 if sign == "+" else -1 for sign, _, _ in changes], np.int8)
    rows = pa.record_batch({"row": pa.array([row for _, _, row in changes], pa.string())})
    net = net_changes(keys, sign, rows)
    images = {*net.preimages.tolist(), *(net.preimages + 1).tolist()}
    return [
        (changes[row][0] + "=" * (at in images), *changes[row][1:])
        for at, row in enumerate(net.rows.tolist())
    ]


def test_a_row_that_appears_or_leaves_remains():
    assert remaining([("+", "k", "A"), ("-", "l", "B")]) == [("+", "k", "A"), ("-", "l", "B")]


def test_of_several_changes_the_first_row_and_the_last_remain():
    changes = [("-", "k", "A"), ("+", "k", "B"), ("+", "l", "X"), ("-", "k", "B"), ("+", "k", "C")]
    assert remaining(changes) == [("+", "l", "X"), ("-=", "k", "A"), ("+=", "k", "C")]


def test_a_row_that_appears_and_leaves_again_is_nothing():
    assert remaining([("+", "k", "A"), ("-", "k", "A")]) == []


def test_a_row_that_returns_as_it_was_is_nothing():
    assert remaining([("-", "k", "A"), ("+", "k", "B"), ("-", "k", "B"), ("+", "k", "A")]) == []


@given(st.lists(st.tuples(st.sampled_from("klm"), st.sampled_from(["", "A", "B", "C"])), max_size=12))
def test_it_is_the_difference_of_the_table_before_and_after(writes):
    before = {"k": "A", "l": "B"}
    after, changes = dict(before), []
    for key, row in writes:  # an empty row deletes
        if key in after:
            changes.append(("-", key, after.pop(key)))
        if row:
            changes.append(("+", key, row))
            after[key] = row
    expected = []
    for key in "klm":
        old, new = before.get(key), after.get(key)
        image = "=" if old and new else ""
        if old != new:
            expected += [("-" + image, key, old)] * bool(old) + [("+" + image, key, new)] * bool(new)
    found = remaining(changes)
    assert sorted(found, key=lambda change: change[1]) == expected
