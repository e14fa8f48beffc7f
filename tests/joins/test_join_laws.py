"""What joins give depends neither on how rows are cut into rounds, nor on the policy that orders probes, nor on chance."""

from __future__ import annotations

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.joins.lives import Lived, lived, together, twin_results
from tests.joins.made_joins import Case, Maker, Step
from tests.oracles.joins import Twin
from tests.strategies import examples

sources_of_numbers = st.randoms(use_true_random=False)
POLICIES = ("auto", "a_greedy", "tickets", "random", "fixed")


def random_case(rng, **options) -> Case:
    case = Maker(rng, **options).case(n_steps=8, most_rows=7)
    note(str(case))
    return case


@examples(0.2)
@given(sources_of_numbers, st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_cutting_into_other_rounds_gives_the_same_where_nothing_is_late(rng, sizes):
    case = random_case(rng, is_late_possible=False, has_age=False)
    assert together(lived(case.cut(sizes))) == together(lived(case.cut([1_000_000])))


@examples(0.2)
@given(sources_of_numbers, st.integers(0, 1_000))
def test_neither_policy_nor_seed_changes_results(rng, seed):
    case = random_case(rng)
    first, *others = [lived(case, routing=policy, seed=seed + at) for at, policy in enumerate(POLICIES)]
    for policy, other in zip(POLICIES[1:], others, strict=True):
        assert other == first, policy


@examples(0.2)
@given(sources_of_numbers)
def test_registered_in_another_order_queries_have_the_same_results(rng):
    case = random_case(rng)
    first = next((at for at, step in enumerate(case.steps) if step.kind != "add"), len(case.steps))
    turned = Case(case.streams, (*case.steps[:first][::-1], *case.steps[first:]))
    assert together(lived(turned)) == together(lived(case))


@examples(0.2)
@given(sources_of_numbers)
def test_alone_a_query_has_the_results_it_has_among_others(rng):
    case = random_case(rng)
    all_of_them = together(lived(case))
    for name in {step.name for step in case.steps if step.kind == "add"}:
        alone = Case(case.streams, tuple(s for s in case.steps if s.kind == "round" or s.name == name))
        assert together(lived(alone)).get(name) == all_of_them.get(name), name


@examples(0.2)
@given(sources_of_numbers)
def test_no_more_rows_are_held_than_windows_cover(rng):
    case = random_case(rng)
    twin, life = Twin(case.streams), Lived(case)
    with life.engine:
        for step in case.steps:
            twin_results(twin, step)
            if life.do(step) is None:
                continue
            n_held = {stream: facts["rows"] for stream, facts in life.engine.joins().items()}
            for declared in case.streams:
                if not declared.key:
                    n_covered = twin.n_covered(declared.name)
                    assert n_held.get(declared.name, 0) <= n_covered, f"{declared.name} at {step}"


@examples(0.2)
@given(sources_of_numbers)
def test_when_all_queries_are_dropped_nothing_is_held(rng):
    case = random_case(rng)
    life = Lived(case)
    active_queries: set[str] = set()
    for step in case.steps:
        life.do(step)
        active_queries = active_queries | {step.name} if step.kind == "add" else active_queries
        active_queries = active_queries - {step.name} if step.kind == "drop" else active_queries
    for name in active_queries:
        life.do(Step("drop", name))
    life.do(Step("round"))
    keyed = {declared.name for declared in case.streams if declared.key}
    facts_by_stream = {stream: facts for stream, facts in life.engine.joins().items() if stream not in keyed}
    life.engine.close()
    assert all(facts["rows"] == 0 for facts in facts_by_stream.values()), facts_by_stream


@pytest.mark.parametrize("policy", POLICIES)
def test_a_star_of_four_is_the_same_under_every_policy(policy):
    """Literal: one row of each stream with key 1, and others that meet nothing."""
    life = Lived(Case((), ()), routing=policy)
    engine = life.engine
    for name in "abcd":
        engine.stream(name, "k BIGINT, n BIGINT")
    query = engine.query(
        "SELECT a.n AS a, b.n AS b, c.n AS c, d.n AS d FROM recent(a, 10) a JOIN recent(b, 10) b ON a.k = b.k "
        "JOIN recent(c, 10) c ON a.k = c.k JOIN recent(d, 10) d ON a.k = d.k"
    )
    engine.push({name: [(1, at), (10 + at, 99)] for at, name in enumerate("abcd")})
    assert [tuple(result.values()) for result in query.results()] == [(0, 1, 2, 3)]
    engine.push("b", [(1, 4)])
    engine.push("b", [(2, 5)])
    assert [tuple(result.values()) for result in query.results()] == [(0, 4, 2, 3)]
