"""An index that cannot be built with some query: which one it is, and that nothing is adopted by half."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import eddyline
from eddyline.errors import IndexBuildError
from eddyline.events import IndexBuildFailed, QueriesNotIndexed
from eddyline.filters import faults, index_part, predicate_index
from eddyline.filters.faults import MOST_FAULTS, isolate_faults
from eddyline.filters.index_part import IndexPart
from eddyline.model import ExecutionChoices, StructureChoices
from tests.faulty_queries import FAULTY, TIMES, armed


def building(*bad: int, error: type[Exception] = ValueError, n_tried: list[int] | None = None):
    def build(first: int, until: int) -> tuple[int, int]:
        if n_tried is not None:
            n_tried.append(until - first)
        if any(first <= each < until for each in bad):
            raise error("too large")
        return first, until

    return build


# --------------------------------------------------------------------------------------------- halving


def test_those_at_fault_are_found_and_the_others_built_in_large_groups():
    tried: list[int] = []
    found = isolate_faults(1000, building(700, n_tried=tried))
    assert list(found.faults) == [700]
    assert sum(until - first for first, until in found.built_parts) == 999
    assert found.built_parts == sorted(found.built_parts)
    assert len(tried) <= 2 * 10 + 1  # twice for each halving, and all


def test_work_is_bounded_where_nothing_can_be_built():
    tried: list[int] = []
    found = isolate_faults(100_000, building(*range(100_000), n_tried=tried))
    assert len(found.faults) == 100_000
    assert len(tried) < 4 * MOST_FAULTS


def test_a_query_that_wants_too_much_memory_gets_a_second_try():
    tried: list[int] = []

    def build(first: int, until: int) -> int:
        tried.append(until - first)
        if len(tried) <= 2:
            raise MemoryError
        return until - first

    found = isolate_faults(2, build)  # all, the first, the first again, the second
    assert tried == [2, 1, 1, 1]
    assert found.faults == {}
    assert found.built_parts == [1, 1]


def test_without_memory_no_query_is_to_blame(monkeypatch):
    monkeypatch.setattr(faults, "LEAST_MEMORY", 1 << 60)
    with pytest.raises(IndexBuildError) as refused:
        isolate_faults(4, building(2, error=MemoryError))
    assert refused.value.whys == {}
    assert "not enough memory" in refused.value.problem


def test_the_error_reaches_the_driver_as_it_was():
    error = faults.unbuildable_error({7: ValueError("odd")})
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.whys == {7: "the predicate index cannot be built with it: ValueError: odd"}


# --------------------------------------------------------------------------------------------- the index


@pytest.fixture
def engine():
    engine = eddyline.open(None)
    engine.stream("trades", "sym STRING, price DOUBLE")
    return engine


ROW = [{"sym": "A", "price": 1.0}]


def test_a_query_at_fault_among_many_of_its_shape_is_suspended_alone(engine):
    many = engine.query_many(FAULTY.format(n=":n"), params={"n": [1, 2, TIMES, 3, 4]}, name="q{n}")
    with armed():
        assert engine.push("trades", ROW).count == 4
        assert [query.state for query in many] == ["running"] * 2 + ["suspended"] + ["running"] * 2
        assert engine.push("trades", ROW).count == 4
    late = engine.query("SELECT sym FROM trades WHERE price < 5", name="late")
    with armed() as tried:
        assert engine.push("trades", ROW).count == 5
        assert engine.push("trades", ROW).count == 5
        assert len(tried) <= 3  # a query that no longer runs is set apart once
    assert len(late.results()) == 2
    for _, stage in engine.rounds.stages():
        stage.check()


def test_an_index_that_fails_stays_where_it_was(engine):
    engine.query("SELECT sym FROM trades WHERE price < 5", name="cheap")
    engine.push("trades", ROW)
    ((_, stage),) = engine.rounds.stages()
    plan, parts = stage.index.plan, stage.index.parts
    engine.query(FAULTY.format(n=TIMES), name="faulty")
    sample = engine.rounds.sample("trades", 10)
    for choices in (ExecutionChoices(), ExecutionChoices(structures=StructureChoices(small_index=3))):
        with armed(), pytest.raises(IndexBuildError) as refused:
            stage.prepare(engine.rounds.catalog.plan("trades"), sample, 2, choices)
        assert list(refused.value.whys) == [engine.get("faulty").id]
        assert stage.index.plan is plan
        assert stage.index.parts == parts
    assert stage.prepare(engine.rounds.catalog.plan("trades"), sample, 2)  # and can follow later
    assert stage.index.plan is not plan


def test_a_fault_in_a_structure_is_found_by_building_apart(engine, monkeypatch):
    engine.query_many("SELECT sym FROM trades WHERE price < :p", params={"p": [5.0, 6.0, 7.0]}, name="q{p}")
    engine.query("SELECT sym FROM trades WHERE sym = 'A'", name="other")
    whole = index_part.query_boxes
    faulty = engine.get("q6.0").id

    def asked(segment, positions, *rest, **options):
        if faulty in segment.ids[positions]:
            raise OverflowError("a fault of ours")
        return whole(segment, positions, *rest, **options)

    monkeypatch.setattr(index_part, "query_boxes", asked)
    assert engine.push("trades", ROW).count == 3
    query = engine.get("q6.0")
    assert query.suspended == "the predicate index cannot be built with it: OverflowError: a fault of ours"
    assert engine.get("q5.0").state == engine.get("other").state == "running"


def test_parts_that_can_only_be_built_apart_are_probed_apart(engine, monkeypatch):
    engine.query_many("SELECT sym FROM trades WHERE price < :p", params={"p": [5.0, 6.0, 7.0, 8.0]})
    build = IndexPart.build.__func__

    def scarce(cls, members, *rest, **options):
        if sum(len(positions) for _, positions in members) > 2:
            raise MemoryError
        return build(cls, members, *rest, **options)

    monkeypatch.setattr(IndexPart, "build", classmethod(scarce))
    assert engine.push("trades", ROW).count == 4
    ((_, stage),) = engine.rounds.stages()
    assert [part.n_queries for part in stage.index.parts] == [2, 2]
    stage.check()


def test_without_memory_a_push_is_refused_and_the_next_one_tries_again(engine, monkeypatch):
    query = engine.query("SELECT sym FROM trades WHERE price < 5")
    with monkeypatch.context() as scarce:
        scarce.setattr(faults, "LEAST_MEMORY", 1 << 60)
        scarce.setattr(IndexPart, "build", lambda *members, **options: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(IndexBuildError, match="not enough memory to build the predicate index"):
            engine.push("trades", ROW)
    assert query.state == "running"
    engine.push("trades", ROW)
    assert engine.rounds.last_round == 1
    assert len(query.results()) == 1


def test_a_new_base_that_fails_leaves_the_parts_there_are(engine, monkeypatch):
    told = []
    engine.rounds.listen(told.append)
    engine.query_many("SELECT sym FROM trades WHERE price < :p", params={"p": np.arange(2.0, 9.0)})
    engine.push("trades", ROW)
    engine.query("SELECT sym FROM trades WHERE sym = 'A'")

    build = IndexPart.build.__func__

    def large(cls, members, *rest, **options):
        if sum(len(positions) for _, positions in members) > 7:
            raise RuntimeError("no room for a base")
        return build(cls, members, *rest, **options)

    monkeypatch.setattr(
        predicate_index, "isolate_faults", lambda n, build: (_ for _ in ()).throw(RuntimeError("no room"))
    )
    monkeypatch.setattr(IndexPart, "build", classmethod(large))
    assert engine.push("trades", ROW).count == 8
    assert [event.message for event in told if isinstance(event, IndexBuildFailed)] == [
        "RuntimeError: no room"
    ]
    assert engine.push("trades", ROW).count == 8


def test_a_suspension_says_who_and_why(engine, caplog):
    told = []
    engine.rounds.listen(told.append)
    engine.query(FAULTY.format(n=TIMES), name="faulty", owner="anna")
    with armed(lambda: MemoryError("no room for it")):
        engine.push("trades", ROW)
    (event,) = [event for event in told if isinstance(event, QueriesNotIndexed)]
    why = "the predicate index cannot be built with it: MemoryError: no room for it"
    assert (event.message, event.n_queries, event.queries, event.owners) == (
        why,
        1,
        (("faulty", "anna"),),
        ("anna",),
    )
    assert "1 queries suspended (faulty): the predicate index cannot be built with it" in caplog.text
