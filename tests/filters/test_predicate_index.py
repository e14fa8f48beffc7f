"""The predicate index under change: whatever the structure, the parts and the moment of a new base, the answer is the same."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline
from eddyline.events import IndexBuildFailed, IndexBuilt
from eddyline.filters import FilterStage
from eddyline.filters.index_part import IndexPart
from eddyline.filters.saved_index import write_base, write_overlay
from eddyline.model import ExecutionChoices, StructureChoices
from tests.filters.structures import STRUCTURES, with_structure
from tests.laws import check, open_engine
from tests.oracles.duckdb_oracle import DuckDBOracle, comparable
from tests.oracles.selection import judged
from tests.strategies import (
    FALLIBLE_COLUMNS,
    FALLIBLE_VALUES,
    arrow_schema,
    examples,
    fallible_selections,
    lives,
    tables,
)
from tests.test_oracle_duckdb import told


def stage_of(engine: eddyline.Engine) -> FilterStage:
    ((_, stage),) = engine.rounds.stages()
    return stage


def kinds(engine: eddyline.Engine) -> list[str]:
    return [each["kind"] for each in stage_of(engine).snapshot()["structures"]]


def matched(engine: eddyline.Engine, rows: pa.Table) -> set[tuple[int, int]]:
    matches = engine.push("s", rows)
    _, ids = matches.pairs()
    assert len(ids) == matches.count
    return set(zip(matches.rows().tolist(), ids.tolist(), strict=True))


# ----------------------------------------------------------------------------------------------- oracles


@pytest.mark.parametrize("structure", STRUCTURES)
@given(data=st.data())
@examples(0.2)
def test_every_structure_tells_what_duckdb_finds(structure, data):
    life = data.draw(lives())
    heard = told(with_structure(open_engine(), structure), life)
    oracle = DuckDBOracle(life.rows)
    for name, periods in life.visible.items():
        expected = []
        for selection, start, stop in periods:
            expected += [(row, values) for row, values in oracle.answer(selection) if start <= row < stop]
        assert heard[name] == expected, (name, [selection.text("s") for selection, _, _ in periods])
    oracle.close()


@pytest.mark.parametrize("structure", STRUCTURES)
@given(data=st.data())
@examples(0.4)
def test_every_structure_matches_and_dies_as_judged_one_by_one(structure, data):
    rows = data.draw(tables(FALLIBLE_COLUMNS, 15, values=FALLIBLE_VALUES))
    selections = data.draw(st.lists(fallible_selections(), min_size=1, max_size=4))
    engine = with_structure(open_engine(), structure)
    engine.stream("s", arrow_schema(FALLIBLE_COLUMNS))
    queries = [engine.query(q.text("s"), params=q.parameters() or None) for q in selections]
    engine.push("s", rows)
    check(engine)
    for query, selection in zip(queries, selections, strict=True):
        verdicts = [judged(selection, row) for row in rows.to_pylist()]
        found = [(r.arrival, comparable(tuple(r.values()))) for r in query.results()]
        assert found == [(n, comparable(v)) for n, (kind, v) in enumerate(verdicts, 1) if kind == "match"]
        dead = sorted(d.arrival for d in engine.dead_letters(query=query))
        assert dead == [n for n, (kind, _) in enumerate(verdicts, 1) if kind == "dead"], query.text


# ----------------------------------------------------------------------------------------------- choice


def test_needles_stand_in_key_lists_narrow_ranges_in_leaves_and_the_rest_in_bitsets(rng):
    engine = eddyline.open()
    engine.stream("s", "k BIGINT, x DOUBLE, y DOUBLE")
    n = 1_200
    low = rng.random(n)
    engine.query_many("SELECT k FROM s WHERE k = :k", params={"k": rng.integers(0, 200, n)})
    engine.query_many(
        "SELECT k FROM s WHERE x BETWEEN :a AND :b AND y BETWEEN :a AND :b",
        params={"a": low, "b": low + 0.02},
    )
    engine.query_many("SELECT k FROM s WHERE x > :a", params={"a": rng.random(n)})
    engine.query("SELECT k FROM s")
    engine.push("s", {"k": rng.integers(0, 200, 500), "x": rng.random(500), "y": rng.random(500)})
    assert sorted(kinds(engine)) == ["bitset blocks", "key lists", "leaf blocks"]
    by_kind = {each["kind"]: each["n_queries"] for each in stage_of(engine).snapshot()["structures"]}
    assert by_kind["key lists"] == 1_200
    assert by_kind["bitset blocks"] >= 1_201
    check(engine)


@pytest.mark.parametrize("null_share", [0.0, 0.3])
def test_queries_with_the_same_key_and_other_conditions_look_it_up_together(rng, null_share):
    engine = eddyline.open()
    engine.stream("s", "k BIGINT, x DOUBLE, y DOUBLE")
    n = 500
    conditions = {"": (False, False), " AND x < :a": (True, False), " AND x < :a AND y > :b": (True, True)}
    asked = {}
    for text, (has_x, has_y) in conditions.items():
        keys, a, b = rng.integers(0, 100, n), rng.random(n), rng.random(n)
        values = {"k": keys} | ({"a": a} if has_x else {}) | ({"b": b} if has_y else {})
        made = engine.query_many(f"SELECT k FROM s WHERE k = :k{text}", params=values)
        for at, query_id in enumerate(made.ids):
            asked[query_id] = keys[at], a[at] if has_x else None, b[at] if has_y else None

    def column(values: np.ndarray) -> list:
        return [None if rng.random() < null_share else value for value in values.tolist()]

    rows = {
        "k": column(rng.integers(0, 100, 300)),
        "x": column(rng.random(300)),
        "y": column(rng.random(300)),
    }
    expected = {
        (row, query_id)
        for row, (k, x, y) in enumerate(zip(rows["k"], rows["x"], rows["y"], strict=True))
        for query_id, (key, a, b) in asked.items()
        if k == key and (a is None or (x is not None and x < a)) and (b is None or (y is not None and y > b))
    }
    assert matched(engine, rows) == expected
    assert kinds(engine) == ["key lists"]
    gone = [query_id for query_id in asked if query_id % 3 == 0]
    for query_id in gone:
        engine.drop(query_id)
    assert matched(engine, rows) == {(row, i) for row, i in expected if i % 3}
    stage_of(engine).check()


def test_an_equality_that_many_queries_share_names_nothing(rng):
    engine = eddyline.open()
    engine.stream("s", "sector STRING, x DOUBLE")
    sectors = [f"sector {k % 5}" for k in range(1000)]
    engine.query_many(
        "SELECT x FROM s WHERE sector = :s AND x < :x", params={"s": sectors, "x": rng.random(1000)}
    )
    engine.push("s", {"sector": ["sector 1", "sector 7", None], "x": [0.5, 0.5, 0.5]})
    assert kinds(engine) == ["bitset blocks"]


def test_a_query_that_can_never_match_is_in_no_structure():
    engine = eddyline.open()
    engine.stream("s", "a BIGINT, t STRING")
    engine.query_many("SELECT a FROM s WHERE a > :low AND a < :high", params={"low": [7, 1], "high": [3, 9]})
    engine.query("SELECT a FROM s WHERE a > 9223372036854775807")
    assert engine.push("s", {"a": [2, 5, 8], "t": ["x"] * 3}).count == 3
    assert stage_of(engine).snapshot()["n_queries"] == 1


def test_extremes_of_every_type_are_told_apart():
    engine = eddyline.open()
    engine.stream("s", "a BIGINT, x DOUBLE, d DECIMAL(38, 2), t STRING, b BOOLEAN")
    texts = {
        "a = -9223372036854775808": {0},
        "a < -9223372036854775807": {0},
        "a >= 9223372036854775807": {1},
        "a != 9223372036854775807": {0, 2, 3},
        "x = double('NaN')": {2},
        "x > double('Infinity')": {2},
        "x = -0.0D": {0, 1},
        "d > 999999999999999999999999999999999998.99BD": {1},
        "d = 0.01BD": {0},
        "t LIKE 'ab%'": {0, 1},
        "t LIKE 'ab'": {0},
        "t LIKE 'a_c%'": {1},
        "t < 'ab\u00e4'": {0, 1},
        "t IS NULL": {3},
        "b": {0},
        "NOT b": {1},
        "b IS NULL OR a = 7": {2, 3},
        "t IN ('ab', 'zz') OR x > 1": {0, 2},
    }
    names = {engine.query(f"SELECT a FROM s WHERE {text}").id: text for text in texts}
    rows = {
        "a": [-(2**63), 2**63 - 1, 7, 0],
        "x": [0.0, -0.0, float("nan"), None],
        "d": ["0.01", "999999999999999999999999999999999999.99", None, "-5"],
        "t": ["ab", "abc", "b", None],
        "b": [True, False, None, None],
    }
    for structure in STRUCTURES:
        fresh = with_structure(eddyline.open(), structure)
        fresh.stream("s", "a BIGINT, x DOUBLE, d DECIMAL(38, 2), t STRING, b BOOLEAN")
        ids = {fresh.query(f"SELECT a FROM s WHERE {text}").id: text for text in texts}
        pairs = matched(fresh, rows)
        found = {text: {row for row, i in pairs if i == query_id} for query_id, text in ids.items()}
        assert found == texts, structure
    assert len(names) == len(texts)


# ----------------------------------------------------------------------------------------------- change


def brute(rows: dict, queries: dict[int, tuple[int, float]]) -> set[tuple[int, int]]:
    """(row, id) of queries k = :k AND x > :low, one by one."""
    return {
        (row, query_id)
        for row, (k, x) in enumerate(zip(rows["k"], rows["x"], strict=True))
        for query_id, (key, low) in queries.items()
        if k == key and x > low
    }


@pytest.mark.parametrize("in_background", [True, False])
def test_adds_drops_and_new_bases_never_change_an_answer(rng, in_background):
    engine = eddyline.open()
    small = StructureChoices(small_index=50, small_part=8, most_parts=3)
    engine.rounds.choices = ExecutionChoices(structures=small)
    engine.stream("s", "k BIGINT, x DOUBLE")
    text = "SELECT k FROM s WHERE k = :k AND x > :low"
    standing: dict[int, tuple[int, float]] = {}

    def add(n: int) -> None:
        keys, lows = rng.integers(0, 40, n), rng.random(n)
        made = engine.query_many(text, params={"k": keys, "low": lows})
        standing.update(zip(made.ids, zip(keys.tolist(), lows.tolist(), strict=True), strict=True))

    add(200)
    stage = None
    for round_ in range(80):
        for _ in range(int(rng.integers(0, 4))):
            add(int(rng.integers(1, 12)))
        for query_id in rng.choice(list(standing), min(6, len(standing)), replace=False).tolist():
            engine.drop(query_id)
            del standing[query_id]
        if round_ == 40:
            for query_id in list(standing)[: len(standing) * 3 // 4]:
                engine.drop(query_id)
                del standing[query_id]
        rows = {"k": rng.integers(0, 40, 60), "x": rng.random(60)}
        assert matched(engine, rows) == brute(rows, standing), round_
        stage = stage_of(engine)
        stage._in_background = stage.index._in_background = in_background
        stage.check()
    assert any(isinstance(event, IndexBuilt) for event in engine.events())
    engine.close()


def test_a_replaced_query_answers_by_its_new_text_alone(rng):
    engine = with_structure(eddyline.open(), "many parts")
    engine.stream("s", "a BIGINT")
    queries = [engine.query(f"SELECT a FROM s WHERE a = {k}", name=f"q{k}") for k in range(20)]
    engine.push("s", {"a": [1]})
    queries[3].replace("SELECT a FROM s WHERE a = 100")
    queries[4].replace("SELECT a FROM s WHERE a > 90 AND a < 102")
    queries[5].pause()
    pairs = matched(engine, {"a": [3, 4, 5, 100, 101]})
    assert pairs == {(3, queries[3].id), (3, queries[4].id), (4, queries[4].id)}
    queries[5].resume()
    assert matched(engine, {"a": [5]}) == {(0, queries[5].id)}
    stage_of(engine).check()


def test_an_index_is_built_anew_when_other_structures_are_chosen():
    engine = eddyline.open()
    engine.stream("s", "k BIGINT")
    query = engine.query("SELECT k FROM s WHERE k = 3")
    for structure, kind in [
        ("as chosen", "bitset blocks"),
        ("key lists", "key lists"),
        ("leaf blocks", "leaf blocks"),
    ]:
        with_structure(engine, structure)
        assert matched(engine, {"k": [1, 3]}) == {(1, query.id)}
        assert kinds(engine) == [kind]
        assert kind in str(query.explain())
        stage_of(engine).check()


def test_bytes_go_back_when_what_was_added_is_dropped(rng):
    engine = eddyline.open()
    engine.stream("s", "k BIGINT, x DOUBLE")
    text = "SELECT k FROM s WHERE k = :k AND x > :low"
    engine.query_many(text, params={"k": rng.integers(0, 900, 5_000), "low": rng.random(5_000)})
    rows = {"k": rng.integers(0, 900, 50), "x": rng.random(50)}
    engine.push("s", rows)
    stage = stage_of(engine)
    before = stage.snapshot()["nbytes"]
    for _ in range(20):
        made = engine.query_many(text, params={"k": rng.integers(0, 900, 300), "low": rng.random(300)})
        engine.push("s", rows)
        made.drop()
        engine.push("s", rows)
        stage.index.wait()
    engine.push("s", rows)
    stage.index.wait()
    engine.push("s", rows)
    assert stage.snapshot()["n_queries"] == 5_000
    assert stage.snapshot()["nbytes"] <= 1.1 * before


def test_a_base_that_cannot_be_built_is_told_and_the_rounds_go_on(rng, monkeypatch):
    engine = eddyline.open()
    engine.stream("s", "a BIGINT")
    engine.query_many("SELECT a FROM s WHERE a > :low", params={"low": list(range(600))})
    engine.push("s", {"a": [5]})
    sound = IndexPart.build.__func__

    def faulty(cls, members, *args, **options):
        if sum(len(positions) for _, positions in members) > 600:
            raise RuntimeError("no memory")
        return sound(cls, members, *args, **options)

    monkeypatch.setattr(IndexPart, "build", classmethod(faulty))
    engine.query_many("SELECT a FROM s WHERE a > :low", params={"low": list(range(500))})
    assert engine.push("s", {"a": [5]}).count == 10
    stage_of(engine).index.wait()
    assert engine.push("s", {"a": [5]}).count == 10
    (told_,) = [event for event in engine.events() if isinstance(event, IndexBuildFailed)]
    assert (told_.stream, told_.message) == ("s", "RuntimeError: no memory")


# ----------------------------------------------------------------------------------------------- files

_OTHER_PROCESS = """
import json, sys
import numpy as np, pyarrow as pa
from eddyline.batch import TupleBatch
from eddyline.expressions import Context
from eddyline.filters.matching import merged_hits
from eddyline.filters.saved_index import read_parts
from eddyline.filters.batch_evaluation import BatchEvaluation

base, overlay, rows = (pa.memory_map(path).read_buffer() for path in sys.argv[1:])
parts = read_parts(base, overlay)
batch = pa.ipc.open_stream(rows).read_next_batch()
n = batch.num_rows
evaluation = BatchEvaluation(
    TupleBatch("s", batch, np.arange(n), np.ones(n, np.int8), np.zeros(n, bool)), Context()
)
hits = [found for part in parts for _, found in part.probe(part.columns(evaluation), n)]
found = merged_hits(n, hits)
print(json.dumps([found.rows.tolist(), found.ids.tolist()]))
"""


@pytest.mark.thorough
def test_a_version_is_mapped_by_another_process_as_base_and_overlay(rng, tmp_path):
    engine = eddyline.open()
    engine.stream("s", "k BIGINT, x DOUBLE, t STRING")
    n = 600
    low = rng.random(n)
    engine.query_many(
        "SELECT k FROM s WHERE k = :k AND x > :low", params={"k": rng.integers(0, 99, n), "low": low}
    )
    engine.query_many("SELECT k FROM s WHERE x BETWEEN :a AND :b", params={"a": low, "b": low + 0.01})
    engine.query_many("SELECT k FROM s WHERE t LIKE :p OR x > :a", params={"p": ["a%"] * n, "a": low})
    engine.query("SELECT k FROM s WHERE t = 'b' AND k * 2 > 100")
    rows = pa.record_batch(
        {
            "k": rng.integers(0, 99, 80),
            "x": rng.random(80),
            "t": [("a", "ab", "b", None)[k % 4] for k in range(80)],
        }
    )
    engine.push("s", rows)
    stage = stage_of(engine)
    index = stage.index
    base = index.parts[0]
    version = index.plan.version
    with open(tmp_path / "base", "wb") as file:
        write_base(file, base, "s", version)
    for query_id in range(1, 400, 3):
        engine.drop(query_id)
    engine.query_many(
        "SELECT k FROM s WHERE k = :k AND x > :low", params={"k": rng.integers(0, 99, 100), "low": low[:100]}
    )
    expected = matched(engine, rows)
    assert len(index.parts) == 2
    changed = index.plan.changes.between(version, index.plan.version)
    masked = np.unique(np.concatenate(list(changed.values())))
    with open(tmp_path / "overlay", "wb") as file:
        write_overlay(file, masked, index.parts[1:], "s", index.plan.version)
    with pa.ipc.new_stream(str(tmp_path / "rows"), rows.schema) as writer:
        writer.write_batch(rows)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            _OTHER_PROCESS,
            *(str(tmp_path / name) for name in ("base", "overlay", "rows")),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found_rows, found_ids = json.loads(done.stdout)
    exact = {(row, i) for row, i in zip(found_rows, found_ids, strict=True) if i <= 2 * n or i > 3 * n + 1}
    assert exact == {(row, i) for row, i in expected if i <= 2 * n or i > 3 * n + 1}
    assert set(zip(found_rows, found_ids, strict=True)) >= expected  # open structures name candidates
