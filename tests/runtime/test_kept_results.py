"""Kept results, in order, some at a time: pages put together are everything, once."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline
from eddyline.errors import PropertyError
from eddyline.runtime import END, KeptResults, Owners, kept_results, read_place, written


@pytest.fixture(scope="module", params=["home", "memory"])
def engine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "home" if request.param == "home" else None
    with eddyline.open(folder) as found:
        found.stream("numbers", "n INT")
        found.query("SELECT n FROM numbers WHERE n % 2 = 0", name="even", owner="anna")
        found.query("SELECT n FROM numbers WHERE n % 3 = 0", name="third", owner="bob")
        found.query("SELECT n FROM numbers WHERE n < 0", name="never", owner="bob")
        for first in range(0, 60, 6):
            found.push("numbers", [{"n": n} for n in range(first, first + 6)])
            found.tick()
        yield found


EVERYTHING = [
    (2 * (n // 6) + 1, n + 1, query_id) for n in range(60) for query_id, by in ((1, 2), (2, 3)) if n % by == 0
]


def places(results) -> list[tuple[int, int, int]]:
    return [(r["round"], r["arrival"], r["query_id"]) for r in results]


@given(
    after=st.one_of(
        st.just((0, 0, 0)),
        st.sampled_from(EVERYTHING),
        st.integers(0, 25).map(lambda number: (number, END, 0)),
    ),
    until=st.integers(0, 25),
    limit=st.integers(1, 20),
    ids=st.sampled_from([None, (1,), (2,), (1, 2), (3,)]),
    rounds_at_once=st.integers(1, 30),
    bytes_at_once=st.sampled_from([1, 3_000, 1 << 20]),
)
def test_pages_put_together_are_everything_once(
    engine, after, until, limit, ids, rounds_at_once, bytes_at_once
):
    wanted = None if ids is None else np.array(ids, np.int32)
    found, place, n_pages = [], after, 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kept_results, "ROUNDS_AT_ONCE", rounds_at_once)
        patched.setattr(kept_results, "BYTES_AT_ONCE", bytes_at_once)
        while True:
            page = KeptResults(engine.rounds).after(wanted, place, until=until, limit=limit)
            assert len(page.results) <= limit
            assert page.place >= place
            assert read_place(written(page.place)) == page.place
            found += places(page.results)
            place, n_pages = page.place, n_pages + 1
            if page.is_end:
                break
            assert n_pages < 200
    assert found == [p for p in EVERYTHING if after < p and p[0] <= until and (ids is None or p[2] in ids)]


@given(n=st.integers(0, 60), ids=st.sampled_from([None, (1,), (2,), (1, 2), (3,)]))
def test_the_newest_are_the_last_in_order(engine, n, ids):
    wanted = None if ids is None else np.array(ids, np.int32)
    found = KeptResults(engine.rounds).newest(wanted, n)
    expected = [p for p in EVERYTHING if ids is None or p[2] in ids]
    assert places(found) == expected[max(0, len(expected) - n) :]


def test_queries_of_an_owner_are_picked_by_who_owns_them(engine):
    owners = Owners(engine.rounds)
    assert [owners.of(query_id) for query_id in (1, 2, 3, 99)] == ["anna", "bob", "bob", None]
    page = KeptResults(engine.rounds).after(owners.queries_of("bob"), (0, 0, 0), until=99, limit=99)
    assert places(page.results) == [p for p in EVERYTHING if p[2] == 2]


def test_the_owner_of_a_dropped_query_is_remembered_by_the_home(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        engine.stream("numbers", "n INT")
        engine.query("SELECT n FROM numbers", name="all", owner="anna").drop()
        made = engine.query_many(
            "SELECT n FROM numbers WHERE n = :n", params={"n": [1, 2]}, name="n-{n}", owner="bob"
        )
        made.drop()
        owners = Owners(engine.rounds)
        assert [owners.of(query_id) for query_id in (1, 2, 3, 4)] == ["anna", "bob", "bob", None]


@pytest.mark.parametrize("cursor", ["", "x", "1-", "-1", "1-2-3-4", "1--2", "٣", "1" * 19, "1-2-x"])
def test_what_is_not_a_cursor_is_refused(cursor):
    with pytest.raises(PropertyError, match="not a cursor"):
        read_place(cursor)


# --------------------------------------------------------------------------------------------- through a handle


def test_a_handle_reads_everything_the_home_keeps_also_after_reopening(tmp_path):
    little = {"results_per_query": 5, "result_bytes": 20_000}
    with eddyline.open(tmp_path / "home", **little) as engine:
        engine.stream("s", "n INT")
        query = engine.query("SELECT n FROM s", name="q")
        for start in range(0, 3000, 100):
            engine.push("s", [(n,) for n in range(start, start + 100)])
        assert not engine.rounds.results.is_whole(0)  # memory alone would not do
        found = query.results()
        assert [result["n"] for result in found] == list(range(3000))
        assert (found.n_dropped, query.n_dropped) == (0, 0)
        for start in range(3000, 6000, 100):
            engine.push("s", [(n,) for n in range(start, start + 100)])
        first = next(iter(query))
        assert (first["n"], first.round_number) == (3000, 31)
        assert [result["n"] for result in query] == list(range(3001, 6000))
        assert [result["n"] for result in query.latest(2500)] == list(range(3500, 6000))
    with eddyline.open(tmp_path / "home", **little) as engine:
        query = engine.get("q")
        assert [result["n"] for result in query.latest(2500)] == list(range(3500, 6000))
        assert [result["n"] for result in query.results(after=first.cursor)] == list(range(3001, 6000))
        assert query.to_arrow()["n"].to_pylist() == list(range(6000))
        assert query.to_arrow(newest=3)["n"].to_pylist() == [5997, 5998, 5999]
        engine.push("s", [(6000,)])
        found = query.results()
        assert [result["n"] for result in found] == list(range(6001))
        assert found.n_dropped == 0


def test_a_cursor_older_than_what_the_home_keeps_says_that_results_are_gone(tmp_path):
    with eddyline.open(tmp_path / "home", results_per_query=5, result_bytes=20_000) as engine:
        engine.stream("s", "n INT")
        query = engine.query("SELECT n FROM s", name="q")
        for start in range(0, 1000, 100):
            engine.push("s", [(n,) for n in range(start, start + 100)])
        assert query.results(after="0-0").n_dropped == 0
        durable = engine.rounds.durable
        durable.retention = dataclasses.replace(durable.retention, result_bytes=8_000)
        durable.collect_garbage()
        engine.push("s", [(1000,)])
        kept = query.results(after="0-0")
        assert kept.n_dropped is None
        assert [result["n"] for result in kept] == list(range(1001))[-len(kept) :]
        assert query.results(after=kept[0].cursor).n_dropped == 0
