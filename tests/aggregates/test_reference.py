"""The reference that judges aggregates: the vectors, whose answers were found by hand, by DuckDB and by Spark."""

from __future__ import annotations

import random

import pytest

from tests.aggregates.cuts import (
    allows_cuts,
    closed_segments,
    recut,
    standing,
    standing_differences,
    with_ticks,
)
from tests.aggregates.reference import run_case
from tests.aggregates.scripts import VECTORS
from tests.aggregates.written_values import differences, folded, is_equal, units
from tests.conftest import SEED

CASES = VECTORS["cases"]


@pytest.mark.vectors
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_reference_gives_what_the_vectors_say(case):
    found = run_case(case)
    assert differences(case, found) == []
    assert found.get("deadlines") == case.get("deadlines")


def test_a_difference_is_named_with_its_step_and_query():
    case = {"steps": [{}, {}], "expected": [{}, {"q": [["insert", ["A", 1]], ["insert", ["A", 1]]]}]}
    found = {"expected": [{"q": [["delete", ["B", 2]]]}, {"q": [["insert", ["A", 1]]]}], "late": {"s": 1}}
    assert differences(case, found) == [
        "step 0, q: expected has also ['delete', ['B', 2]]",
        "step 1, q: expected has no ['insert', ['A', 1]]",
        "late rows: {'s': 1}, not None",
    ]


def test_images_of_an_update_belong_together():
    told = [["update_preimage", [1]], ["update_postimage", [2]], ["insert", [1]]]
    assert units(told) == [["update", [1], [2]], ["insert", [1]]]
    with pytest.raises(AssertionError, match="before a postimage"):
        units([["insert", [1]], ["update_postimage", [2]]])


def test_only_fractions_are_compared_with_tolerance():
    assert is_equal([1, 0.3, None, -0.0], [1, 0.1 + 0.2, None, 0.0])
    assert not is_equal(1, 1.0)
    assert not is_equal(1, True)
    assert not is_equal(2**53, 2**53 + 1)
    assert not is_equal("NaN", float("inf"))


def test_a_row_cannot_leave_before_it_came():
    assert folded([[["insert", [1]], ["insert", [1]]], [["delete", [1]]]]) == [[1]]
    with pytest.raises(AssertionError, match="never came"):
        folded([[["delete", [1]]]])


# --------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("case", list(filter(allows_cuts, CASES)), ids=lambda case: case["name"])
def test_the_reference_leaves_the_same_rows_however_rows_are_cut_into_rounds(case):
    whole, rng = closed_segments(case), random.Random(f"{SEED} {case['name']}")
    expected = standing(whole, run_case(whole, has_deadlines=False), at_extra=True)
    for cut in (recut(case, rng) for _ in range(2)):
        assert (
            standing_differences(expected, standing(cut, run_case(cut, has_deadlines=False), at_extra=True))
            == []
        )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_more_ticks_leave_the_same_rows_after_every_round_of_the_reference(case):
    ticked = with_ticks(case, random.Random(f"{SEED} {case['name']}"))
    found = standing(ticked, run_case(ticked, has_deadlines=False), at_extra=False)
    assert standing_differences(standing(case, case, at_extra=False), found) == []
