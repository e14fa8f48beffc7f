"""The engine on random scripts of all that it has built: the reference is its judge, of final windows also DuckDB."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings

from tests.aggregates.cuts import closed_segments, recut, standing, standing_differences, with_ticks
from tests.aggregates.duckdb_answers import DuckDBAnswers
from tests.aggregates.random_scripts import ONCE, SEEDS, Script, script, smallest
from tests.aggregates.reference import run_case
from tests.aggregates.scripts import FEATURES, ScriptRun, features, script_differences
from tests.aggregates.written_values import without_equals
from tests.strategies import examples

pytestmark = pytest.mark.thorough

IN_TIME = FEATURES - {"temporal", "absence", "keep"}  # what cuts into rounds do not change


def unlike_reference(case: Script) -> list[str]:
    return script_differences({**case, **run_case(case, has_deadlines=True)})


def left_by_engine(case: Script, *, at_extra: bool = False) -> list[dict]:
    run = ScriptRun(case)
    with run.engine:
        return standing(case, run.run(), at_extra=at_extra)


@settings(examples(0.3), phases=ONCE)
@given(SEEDS)
def test_a_random_script_tells_what_the_reference_says(seed):
    case = script(seed, FEATURES)
    if unlike_reference(case):
        case = smallest(case, lambda each: bool(unlike_reference(each)))
        pytest.fail(f"{unlike_reference(case)} in\n{case}")


@settings(examples(0.2), phases=ONCE)
@given(SEEDS)
def test_more_ticks_leave_the_same_rows_after_every_round(seed):
    case = script(seed, FEATURES)
    expected = standing(case, run_case(case, has_deadlines=False), at_extra=False)
    assert standing_differences(expected, left_by_engine(with_ticks(case, random.Random(seed)))) == []


@settings(examples(0.2), phases=ONCE)
@given(SEEDS)
def test_other_cuts_leave_the_same_rows_where_none_is_late(seed):
    case = script(seed, IN_TIME, has_late=False)
    whole, cut = closed_segments(case), recut(case, random.Random(seed))
    expected = standing(whole, run_case(whole, has_deadlines=False), at_extra=True)
    assert standing_differences(expected, left_by_engine(cut, at_extra=True)) == []


@pytest.mark.skipif("final" not in FEATURES, reason="final windows are not built")
@settings(examples(0.2), phases=ONCE)
@given(SEEDS)
def test_final_windows_are_what_duckdb_finds_in_all_rows(seed):
    case = script(seed, FEATURES & {"windows", "sessions", "final"}, can_fail=False)
    left, answers = left_by_engine(case)[-1], DuckDBAnswers(case)
    for name, query, first in answers.queries():
        assert without_equals(answers.answer(query, first), left.get(name, [])) == ([], []), query
    answers.close()


def test_scripts_that_the_engine_runs_need_no_more_than_it_has():
    assert all(features(script(seed, FEATURES)) <= FEATURES for seed in range(30))
