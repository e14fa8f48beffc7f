"""Families: all live queries of one shape as columns of constants, in few segments."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.catalog.families import QueryFamily
from eddyline.model import Column, Condition, Input, ProjectedColumn, Shape, SlotInfo

SHAPE = Shape(
    "SELECT n FROM s WHERE n > ?",
    (Input("s", "s"),),
    (ProjectedColumn("n", Column(pa.int64(), "n")),),
    Condition(),
    (SlotInfo(0, pa.int64()),),
)


def constants(family: QueryFamily) -> dict[int, int]:
    """Id and constant of each live query."""
    found = {}
    for segment in family.segments():
        assert (np.diff(segment.ids) > 0).all()
        assert len(segment.slots[0]) == len(segment.ids) == len(segment.is_live)
        for at in np.flatnonzero(segment.is_live):
            assert int(segment.ids[at]) not in found
            found[int(segment.ids[at])] = segment.slots[0][at].as_py()
    assert len(found) == len(family)
    return found


def test_queries_added_one_by_one_stand_with_their_constants():
    family = QueryFamily(SHAPE)
    family.add(3, [30])
    family.add(1, [10])
    assert len(family) == 2
    assert constants(family) == {1: 10, 3: 30}
    assert [c.as_py() for c in family.constants(3)] == [30]


def test_many_stand_at_once():
    family = QueryFamily(SHAPE)
    family.add_many(np.arange(5, 8, dtype=np.int32), [pa.array([50, 60, 70])])
    family.add(9, [90])
    assert constants(family) == {5: 50, 6: 60, 7: 70, 9: 90}


def test_one_added_to_many_touches_few_rows():
    family = QueryFamily(SHAPE)
    family.add_many(np.arange(1000, dtype=np.int32), [pa.array(range(1000))])
    (base,) = family.segments()
    family.add(1000, [1])
    assert family.segments()[0] is base
    assert [len(segment) for segment in family.segments()] == [1000, 1]


def test_taking_one_out_clears_a_bit_and_leaves_what_was_read_before_as_it_was():
    family = QueryFamily(SHAPE)
    family.add_many(np.arange(10, dtype=np.int32), [pa.array(range(10))])
    (before,) = family.segments()
    family.remove([4])
    (after,) = family.segments()
    assert before.n_live == 10
    assert after.n_live == 9
    assert after.slots is before.slots
    assert after.cache is before.cache  # what stages derived from constants stays good
    with pytest.raises(KeyError):
        family.constants(4)


def test_a_segment_mostly_of_queries_taken_out_is_rewritten():
    family = QueryFamily(SHAPE)
    family.add_many(np.arange(10, dtype=np.int32), [pa.array(range(10))])
    family.remove(range(6))
    (segment,) = family.segments()
    assert segment.ids.tolist() == [6, 7, 8, 9]
    family.remove(range(6, 10))
    assert family.segments() == ()


def test_a_query_taken_out_may_come_back_with_other_constants():
    family = QueryFamily(SHAPE)
    family.add(1, [10])
    family.add(2, [20])
    family.segments()
    family.remove([1])
    family.add(1, [11])
    assert constants(family) == {1: 11, 2: 20}
    assert [c.as_py() for c in family.constants(1)] == [11]
    family.remove([1, 2])
    assert constants(family) == {}


def test_any_history_leaves_the_last_constants_in_few_segments():
    rng = random.Random(5)
    family, expected = QueryFamily(SHAPE), {}
    for _ in range(400):
        query_id = rng.randrange(60)
        if query_id in expected:
            family.remove([query_id])
            del expected[query_id]
        else:
            expected[query_id] = rng.randrange(1000)
            family.add(query_id, [expected[query_id]])
        if rng.random() < 0.5:
            assert constants(family) == expected
            assert len(family.segments()) <= 6
