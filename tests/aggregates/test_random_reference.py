"""The reference on random scripts: DuckDB over whole rows finds what stands at their end, and the laws hold."""

from __future__ import annotations

import datetime
import random

import pytest
from hypothesis import given, settings

from tests.aggregates.cuts import (
    allows_cuts,
    closed_segments,
    recut,
    standing,
    standing_differences,
    with_ticks,
)
from tests.aggregates.duckdb_answers import DuckDBAnswers
from tests.aggregates.random_scripts import ONCE, SEEDS, Script, script, smallest
from tests.aggregates.reference import Reference, run_case
from tests.aggregates.reference_sql import MICROSECOND
from tests.aggregates.scripts import ALL_FEATURES, features
from tests.aggregates.written_values import without_equals
from tests.strategies import examples

TIMED = frozenset(("running", "temporal", "absence", "keep", "tables", "views"))


def left_by_reference(case: Script, *, at_extra: bool = False) -> list[dict]:
    return standing(case, run_case(case, has_deadlines=False), at_extra=at_extra)


def unlike_duckdb(case: Script) -> list[tuple]:
    """Queries of which the reference leaves other rows than DuckDB finds: name, rows of DuckDB only, of the reference only."""
    left = left_by_reference(case)[-1]
    answers = DuckDBAnswers(case)
    found = []
    for name, query, first in answers.queries():
        missing, extra = without_equals(answers.answer(query, first), left.get(name, []))
        found += [(name, missing, extra)] if missing or extra else []
    answers.close()
    return found


@settings(examples(0.3), phases=ONCE)
@given(SEEDS)
def test_the_reference_leaves_what_duckdb_finds_in_all_rows(seed):
    case = script(seed, ALL_FEATURES, can_fail=False)
    if unlike_duckdb(case):
        case = smallest(case, lambda each: bool(unlike_duckdb(each)))
        pytest.fail(f"{unlike_duckdb(case)} in\n{case}")


@settings(examples(0.2), phases=ONCE)
@given(SEEDS)
def test_more_ticks_leave_the_same_rows_after_every_round_of_a_random_script(seed):
    case = script(seed, ALL_FEATURES)
    ticked = with_ticks(case, random.Random(seed))
    assert standing_differences(left_by_reference(case), left_by_reference(ticked)) == []


@settings(examples(0.2), phases=ONCE)
@given(SEEDS)
def test_other_cuts_leave_the_same_rows_of_a_random_script_without_late_rows(seed):
    case = script(seed, ALL_FEATURES - {"temporal", "absence", "keep"}, has_late=False)
    assert allows_cuts(case)
    expected = left_by_reference(closed_segments(case), at_extra=True)
    cut = recut(case, random.Random(seed))
    assert standing_differences(expected, left_by_reference(cut, at_extra=True)) == []


@settings(examples(0.2), phases=ONCE)
@given(SEEDS)
def test_no_tick_before_the_deadline_tells_anything_and_one_at_the_deadline_does(seed):
    case = script(seed, TIMED, can_fail=False, max_rounds=5)
    engine, rng = Reference(case["streams"], case["queries"]), random.Random(seed)
    for step in case["steps"]:
        engine.step(step)
    now, deadline = engine.rounds[-1], engine.deadline()
    until = deadline or now + datetime.timedelta(hours=1)
    instants = [until - MICROSECOND, *(now + (until - now) * rng.random() for _ in range(5))]
    for instant in sorted(at for at in instants if now < at < until):
        assert not engine.tick(instant).changes, (instant, deadline, case)
    assert bool(engine.tick(until).changes) is (deadline is not None), (deadline, case)


def test_random_scripts_have_every_feature_and_none_that_is_not_asked_for():
    scripts = [script(seed, ALL_FEATURES) for seed in range(60)]
    assert set().union(*map(features, scripts)) == ALL_FEATURES
    for wanted in (
        {"running"},
        {"windows", "final"},
        {"over", "views", "running"},
        {"keep", "running", "tables"},
        set(),
    ):
        assert set().union(*(features(script(seed, wanted)) for seed in range(15))) <= wanted


def test_a_script_is_made_as_small_as_it_can_be_and_still_fail():
    case = script(7, {"running"}, max_rounds=8)
    arrivals = [row[0] for step in case["steps"] for rows in step.get("push", {}).values() for row in rows]

    def has_row(each: Script) -> bool:
        return any(
            row[0] == arrivals[3]
            for s in each["steps"]
            for rows in s.get("push", {}).values()
            for row in rows
        )

    small = smallest(case, has_row)
    assert (len(small["steps"]), small["queries"]) == (1, [])
    assert [row[0] for rows in small["steps"][0]["push"].values() for row in rows] == [arrivals[3]]
