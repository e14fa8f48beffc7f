"""The filter stage: which queries each row satisfies, whatever the path by which they are found."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.expressions import Context
from eddyline.filters import FilterStage
from tests.filters.structures import STRUCTURES, with_structure


@pytest.fixture
def engine():
    engine = eddyline.open()
    engine.stream("s", "n BIGINT, x DOUBLE, t STRING")
    return engine


def stage_of(engine) -> FilterStage:
    ((_, stage),) = engine.rounds.stages()
    return stage


def matched(engine, rows) -> set[tuple[int, int]]:
    offsets, ids = engine.push("s", rows).pairs()
    return {
        (int(row), int(q))
        for row, q in zip(np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), ids, strict=True)
    }


def test_needles_are_found_by_key_and_not_by_trying_every_query(engine):
    engine.query_many(
        "SELECT n FROM s WHERE n = :k AND x > :low", params={"k": list(range(10_000)), "low": [0.5] * 10_000}
    )
    pairs = matched(
        engine, [(7, 1.0, "a"), (8, 0.0, "a"), (9_999, 1.0, "a"), (10_000, 1.0, "a"), (None, 1.0, "a")]
    )
    assert pairs == {(0, 8), (2, 10_000)}
    assert stage_of(engine).snapshot()["n_candidates"] <= 3


def test_in_lists_name_their_candidates(engine):
    many = {"k": [[i, i + 1] for i in range(0, 4_000, 2)]}
    engine.query_many("SELECT n FROM s WHERE n IN (:k)", params=many)
    assert matched(engine, [(0, 1.0, "a"), (1, 1.0, "a"), (3_999, 1.0, "a"), (4_000, 1.0, "a")]) == {
        (0, 1),
        (1, 1),
        (2, 2_000),
    }
    assert stage_of(engine).snapshot()["n_candidates"] <= 4


@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_structure_finds_the_same(engine, structure):
    rng = random.Random(3)
    rows = [
        (rng.choice([1, 2, 3, None]), rng.choice([0.5, 1.5, None]), rng.choice("abc")) for _ in range(200)
    ]
    keys, texts = [rng.randrange(5) for _ in range(300)], [rng.choice("abcd") for _ in range(300)]
    expected = {
        (row, 1 + query)
        for row, (n, x, t) in enumerate(rows)
        for query, (k, wanted) in enumerate(zip(keys, texts, strict=True))
        if n == k and (t == wanted or (x is not None and x > 1))
    }
    with_structure(engine, structure)
    engine.query_many("SELECT n FROM s WHERE n = :k AND (t = :t OR x > 1)", params={"k": keys, "t": texts})
    assert matched(engine, rows) == expected
    engine.rounds.choices = replace(engine.rounds.choices, pairs_at_once=64)  # many small pieces
    assert matched(engine, rows) == expected


def test_errors_come_out_the_same_in_every_structure(engine):
    rows = [(k % 3, None if k % 7 == 0 else 1.0 * (k % 2), "a" if k % 5 else None) for k in range(60)]
    params = {"k": [k % 4 for k in range(40)]}
    text = "SELECT n FROM s WHERE n = :k AND 10 / n > :k AND (t = 'a' OR n / x > 1)"
    seen = []
    for structure in STRUCTURES:
        fresh = with_structure(eddyline.open(), structure)
        fresh.stream("s", "n BIGINT, x DOUBLE, t STRING")
        fresh.query_many(text, params=params)
        pairs = matched(fresh, rows)
        seen.append(
            (pairs, sorted((d.row["n"], d.query_id, d.arrival, d.error) for d in fresh.dead_letters()))
        )
    assert all(each == seen[0] for each in seen)
    assert seen[0][0]
    assert seen[0][1]


def test_each_distinct_function_call_is_made_once_per_row_for_all_queries(engine):
    calls: list[int] = []

    @eddyline.udf(returns="double", name="scored_by_stage")
    def scored(x, factor):
        calls.append(len(x))
        return pa.array([(a or 0) * b for a, b in zip(x.to_pylist(), factor.to_pylist(), strict=True)])

    limits = [k / 10 for k in range(100)]
    engine.query_many("SELECT n FROM s WHERE scored_by_stage(x, 2.0D) > :limit", params={"limit": limits})
    engine.push("s", [(k, k / 10, "a") for k in range(50)])
    assert sum(calls) == 50
    calls.clear()
    engine.query_many(
        "SELECT n FROM s WHERE n < 5 AND scored_by_stage(x, :factor) > 0",
        params={"factor": [3.0, 4.0, 3.0, 3.0]},
    )
    engine.push("s", [(k, k / 10, "a") for k in range(50)])
    assert sum(calls) == 50 + 2 * 5  # once per row and distinct constants, only where n < 5


def test_expressions_without_columns_are_decided_once_per_query(engine):
    engine.query_many("SELECT n FROM s WHERE :a < :b AND n > 0", params={"a": [1, 2], "b": [2, 1]})
    assert matched(engine, [(1, 1.0, "a")]) == {(0, 1)}


def test_a_constant_in_error_kills_the_rows_no_other_condition_refutes(engine):
    query = engine.query("SELECT n FROM s WHERE 1 / 0 > 1 AND n > 5")
    engine.push("s", [(1, 1.0, "a"), (6, 1.0, "a")])
    assert query.results() == []
    assert [letter.row["n"] for letter in engine.dead_letters(query=query)] == [6]


def test_a_condition_on_the_time_is_decided_anew_in_every_round():
    now = [1_000_000]
    engine = eddyline.open(clock=lambda: now[0])
    engine.stream("s", "n INT")
    query = engine.query("SELECT n FROM s WHERE now() >= TIMESTAMP '1970-01-01 00:00:10Z'")
    assert query.warnings == []
    engine.push("s", [(1,)])
    now[0] = 10_000_000
    engine.push("s", [(2,)])
    assert query.results() == [{"n": 2}]


def test_a_condition_too_large_to_take_apart_answers_the_same(engine):
    """2 ** 12 clauses if distributed: it stays whole."""
    big = " OR ".join(f"(n = {k} AND x > {k})" for k in range(12))
    query = engine.query(f"SELECT n FROM s WHERE {big}")
    engine.push("s", [(3, 3.5, "a"), (3, 2.5, "a"), (11, 11.5, "a"), (12, 50.0, "a"), (None, 50.0, "a")])
    assert query.results() == [{"n": 3}, {"n": 11}]


def test_a_condition_kept_whole_decides_errors_as_one_taken_apart(engine):
    """false and NULL beat error in an AND, true beats error in an OR, whatever the size of the condition."""
    atoms = "(n / x > 1 AND t = 'a')"
    small = engine.query(f"SELECT n FROM s WHERE {atoms} OR n = 77", name="small")
    rest = " OR ".join(f"(n = {100 + k} AND x = {k})" for k in range(12))
    large = engine.query(f"SELECT n FROM s WHERE {atoms} OR n = 77 OR {rest}", name="large")
    engine.push(
        "s", [(1, 0.0, "a"), (1, 0.0, "b"), (1, 0.0, None), (77, 0.0, "a"), (5, 1.0, "a"), (5, 1.0, None)]
    )
    assert small.results() == large.results() == [{"n": 77}, {"n": 5}]
    dead = [[d.row["t"] for d in engine.dead_letters(query=query)] for query in (small, large)]
    assert dead == [["a"], ["a"]]


def test_queries_taken_out_of_a_segment_find_nothing(engine):
    many = engine.query_many("SELECT n FROM s WHERE n > :k", params={"k": list(range(100))})
    many[0].drop()
    many[50].pause()
    assert matched(engine, [(1000, 1.0, "a")]) == {
        (0, q.id) for at, q in enumerate(many) if at not in (0, 50)
    }
    stage_of(engine).check()


def test_a_batch_without_rows_and_a_stream_without_queries_are_fine(engine):
    assert engine.push("s", [(1, 1.0, "a")]).count == 0
    engine.query("SELECT n FROM s WHERE n = 1")
    assert engine.push("s", []).count == 0


def test_the_stage_can_be_looked_at_saved_and_loaded(engine):
    engine.query("SELECT n FROM s WHERE n > 1")
    engine.push("s", [(1, 1.0, "a"), (2, 1.0, "a")])
    snapshot = stage_of(engine).snapshot()
    assert (snapshot["version"], snapshot["n_queries"], snapshot["n_parts"]) == (2, 1, 1)
    assert [each["kind"] for each in snapshot["structures"]] == ["bitset blocks"]
    assert (snapshot["n_rows"], snapshot["n_matches"], snapshot["n_dead"]) == (2, 1, 0)
    fresh = FilterStage(Context())
    fresh.load(stage_of(engine).save())
    assert fresh.snapshot()["version"] is None
    fresh.check()


@pytest.mark.parametrize("n_queries", [1, 70, 5_000])
@pytest.mark.parametrize("n_rows", [1, 333])
def test_ranges_of_many_queries_match_as_one_by_one(n_queries, n_rows, rng):
    engine = eddyline.open()
    engine.stream("s", "a BIGINT, b DOUBLE")
    low, high = rng.integers(0, 100, n_queries), rng.integers(0, 100, n_queries) / 2
    made = engine.query_many(
        "SELECT a FROM s WHERE a >= :low AND b < :high", params={"low": low.tolist(), "high": high.tolist()}
    )
    a, b = rng.integers(0, 100, n_rows), rng.integers(0, 100, n_rows) / 2
    offsets, ids = engine.push("s", pa.table({"a": a, "b": b})).pairs()
    rows, positions = np.nonzero((a[:, None] >= low) & (b[:, None] < high))
    found = np.repeat(np.arange(n_rows), np.diff(offsets))
    assert found.tolist() == rows.tolist()
    assert (ids - made[0].id)[np.lexsort((ids, found))].tolist() == positions.tolist()
