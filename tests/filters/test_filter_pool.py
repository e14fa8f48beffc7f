"""Which conditions are filters, and which filters queries have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import eddyline
from eddyline.expressions import Context
from eddyline.filters import filter_pool
from eddyline.filters.filter_pool import FilterPool, conditions_from, filter_key


@eddyline.udf(returns="double", name="pool_score", takes=["double", "double"], cost=0.002)
def score(x, by):
    return [a * b for a, b in zip(x.to_pylist(), by.to_pylist(), strict=True)]


@eddyline.udf(returns="boolean", name="pool_flag", takes=["string"])
def flag(t):
    return [each == "a" for each in t.to_pylist()]


@eddyline.udf(returns="double", name="pool_chance", takes=["double"], deterministic=False)
def chance(x):
    return x


@pytest.fixture
def engine():
    engine = eddyline.open()
    engine.stream("s", "n BIGINT, x DOUBLE, t STRING")
    return engine


@dataclass
class Has:
    """What one query has in a pool."""

    filters: list[int]
    number: int  # of its class
    n_alone: int
    n_last: int


def entered(engine, declared=lambda call: None) -> tuple[FilterPool, dict[str, Has]]:
    """A pool that met all queries, and what each has in it."""
    pool, plan = FilterPool(Context(), declared), engine.rounds.catalog.plan("s")
    names = {query.id: query.name for query in engine.queries(per_page=10_000)}
    found = {}
    for segment in plan.segments:
        entry = pool.of(segment)
        for position, query_id in enumerate(segment.ids.tolist()):
            filters = [int(column[position]) for column in entry.filters]
            number = int(entry.classes[position])
            found[names[query_id]] = Has(filters, number, len(entry.alone), len(entry.last))
    return pool, found


def test_a_clause_that_calls_a_function_or_a_pattern_is_a_filter(engine):
    engine.query("SELECT n FROM s WHERE pool_flag(t) AND t RLIKE 'a+' AND n > 3 AND n % 2 = 1", name="q")
    pool, found = entered(engine)
    assert len(pool.filters) == 2
    assert pool.classes == [frozenset({0, 1})]
    assert found["q"] == Has(
        [0, 1], 0, n_alone=1, n_last=0
    )  # n % 2 = 1 is decided before, n > 3 by the index


def test_equal_clauses_of_different_queries_are_one_filter(engine):
    engine.query("SELECT n FROM s WHERE pool_flag(t) AND t RLIKE 'a+'", name="one")
    engine.query("SELECT t FROM s WHERE n > 1 AND pool_flag(t)", name="two")
    engine.query("SELECT x FROM s WHERE t RLIKE 'a+' AND pool_flag(t) AND n > 4", name="three")
    pool, found = entered(engine)
    assert len(pool.filters) == 2
    assert found["one"].number == found["three"].number != found["two"].number
    assert len(pool.classes) == 2


def test_few_constants_are_written_into_filters_and_many_are_left_to_pairs(engine, monkeypatch):
    monkeypatch.setattr(filter_pool, "MOST_VARIANTS", 3)
    text = "SELECT n FROM s WHERE pool_score(x, :by) > 1D AND pool_flag(t)"
    engine.query_many(text, params={"by": [1.0, 2.0, 1.5, 3.0, 4.0]}, name="many-{by}")
    engine.query_many(text + " AND n > 1", params={"by": [1.0, 2.0, 3.0]}, name="few-{by}")
    pool, found = entered(engine)
    few = [found[f"few-{by}"] for by in (1.0, 2.0, 3.0)]
    many = [found[f"many-{by}"] for by in (1.0, 2.0, 1.5, 3.0, 4.0)]
    assert len({each.filters[0] for each in few}) == 3
    assert len({each.filters[1] for each in few}) == 1
    assert len({each.number for each in few}) == 3
    assert all(each.filters == few[0].filters[1:] and each.n_last == 1 for each in many)
    assert len(pool.filters) == 4


def test_a_function_by_chance_is_never_a_filter(engine):
    engine.query("SELECT n FROM s WHERE pool_chance(x) > 1D AND pool_flag(t)", name="q")
    pool, found = entered(engine)
    assert len(pool.filters) == 1
    assert found["q"].n_last == 1


def test_thresholds_on_one_call_share_its_core(engine):
    engine.query("SELECT n FROM s WHERE pool_score(x, 2D) > 1D", name="a")
    engine.query("SELECT n FROM s WHERE pool_score(x, 2D) > 5D", name="b")
    engine.query("SELECT n FROM s WHERE pool_score(x, 3D) > 5D", name="c")
    engine.query("SELECT n FROM s WHERE pool_score(x, 2D) > 5D OR pool_flag(t)", name="d")
    pool, found = entered(engine)
    of = {name: pool.cores()[has.filters[0]] for name, has in found.items()}
    assert of["a"] == of["b"]
    assert len({of["a"], of["c"], of["d"]}) == 3


def test_a_declared_cost_is_the_first_guess(engine):
    engine.query("SELECT n FROM s WHERE pool_score(x, 2D) > 1D", name="a")
    engine.query("SELECT n FROM s WHERE pool_flag(t) AND t RLIKE 'b'", name="b")
    pool, found = entered(engine, declared=engine.rounds._declared_cost)
    guesses = {name: [pool.filters[k].declared_s for k in has.filters] for name, has in found.items()}
    assert guesses == {"a": [0.002], "b": [filter_pool.REGEX_S, filter_pool.OTHER_S]}  # functions last


def test_another_process_numbers_filters_the_same_way(engine):
    engine.query("SELECT n FROM s WHERE pool_flag(t) AND pool_score(x, 2D) > 1D", name="a")
    engine.query("SELECT n FROM s WHERE t RLIKE 'a+' AND NOT pool_flag(t)", name="b")
    pool, _ = entered(engine)
    other = FilterPool(Context())
    other.adopt(pool.keys[::-1], [frozenset({0, 1})])
    assert other.keys == pool.keys[::-1]
    assert [each.core for each in other.filters] == [each.core for each in pool.filters][::-1]
    for segment in engine.rounds.catalog.plan("s").segments:
        other.of(segment)
    assert set(other.keys) == set(pool.keys)
    assert other.begins_with(pool.keys[::-1], [frozenset({0, 1})])
    assert not other.begins_with(pool.keys, ())
    for each in pool.filters:
        assert filter_key(conditions_from(each.key)) == each.key


def test_a_full_pool_leaves_the_rest_to_pairs_and_says_so(engine, monkeypatch):
    monkeypatch.setattr(filter_pool, "MOST_FILTERS", 2)
    engine.query("SELECT n FROM s WHERE pool_flag(t) AND t RLIKE 'a'", name="fits")
    engine.query("SELECT n FROM s WHERE pool_flag(t) AND n > 2", name="has only what is there")
    engine.query("SELECT t FROM s WHERE pool_flag(t) AND t RLIKE 'b'", name="too many")
    pool, found = entered(engine)
    assert len(pool.filters) == 2
    assert pool.is_full
    assert found["has only what is there"].n_last == 0
    assert found["too many"].n_last == 1


def test_too_many_sets_of_filters_are_left_to_pairs(engine, monkeypatch):
    monkeypatch.setattr(filter_pool, "MOST_CLASSES", 1)
    engine.query("SELECT n FROM s WHERE pool_flag(t) AND t RLIKE 'a'", name="first")
    engine.query("SELECT t FROM s WHERE pool_flag(t)", name="second")
    pool, found = entered(engine)
    assert pool.is_full
    assert pool.classes == [frozenset({0, 1})]
    assert found["second"] == Has([], -1, n_alone=0, n_last=1)


def test_the_members_of_filters_are_bits_of_classes():
    pool = FilterPool(Context())
    for k in range(3):
        pool.add(filter_pool.Filter(f"f{k}", (), f"f{k}", 1e-6))
    for filters in ({0}, {1, 2}, {2}, {1}, {1, 2}):
        pool.add_class(frozenset(filters))
    assert pool.classes == [frozenset({0}), frozenset({1, 2}), frozenset({2}), frozenset({1})]
    assert pool.members().tolist() == [[0b0001], [0b1010], [0b0110]]
    assert pool.members() is pool.members()
    pool.add_class(frozenset({0, 1, 2}))
    assert pool.members().tolist() == [[0b10001], [0b11010], [0b10110]]
    assert pool.members().dtype == np.uint64
