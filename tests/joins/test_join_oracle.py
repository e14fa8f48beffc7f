"""Random joins over random streams give, round by round, what a twin finds that tries every combination of rows."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.joins.lives import Lived, expected, lived, told
from tests.joins.made_joins import Case, Maker
from tests.on_workers import opener
from tests.oracles.joins import Twin
from tests.strategies import examples

sources_of_numbers = st.randoms(use_true_random=False)


def judged(case: Case, **options: object) -> None:
    """Raises AssertionError at the first round in which the engine says something else than the twin."""
    twin, life = Twin(case.streams), Lived(case, **options)
    with life.engine:
        for number, step in enumerate(case.steps):
            due, heard = told(twin, step), life.do(step)
            assert heard == due, f"step {number} of\n{case}"


@given(sources_of_numbers)
def test_joins_that_come_and_go_are_told_what_the_twin_finds(rng):
    case = Maker(rng).case(n_steps=8, most_rows=7)
    note(str(case))
    assert lived(case) == expected(case)


@examples(0.3)
@given(sources_of_numbers)
def test_rows_without_numbers_arrive_a_stream_after_the_other(rng):
    case = Maker(rng).case(n_steps=6, most_rows=7).unnumbered()
    note(str(case))
    assert lived(case, numbers_rows=False) == expected(case)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(20))
def test_joins_of_many_small_lives_are_told_what_the_twin_finds(seed):
    for more in range(10):
        judged(Maker(random.Random(1_000 * seed + more)).case(n_steps=10, most_rows=8))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(5))
def test_joins_of_rows_worked_on_in_tasks_are_told_what_the_twin_finds(seed, tmp_path):
    """Every engine has a home, and the rows of streams without a key go through tasks in three pieces."""
    for more in range(6):
        case = Maker(random.Random(500 + 10 * seed + more)).case(n_steps=10, most_rows=12)
        judged(case.unnumbered(), numbers_rows=False, open_engine=opener(tmp_path))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(12))
def test_joins_of_long_lives_are_told_what_the_twin_finds(seed):
    judged(Maker(random.Random(seed)).case(n_steps=40, most_rows=25))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_joins_of_very_many_lives_are_told_what_the_twin_finds(seed):
    for more in range(50):
        judged(Maker(random.Random(1_000 * seed + more)).case(n_steps=14, most_rows=12))
