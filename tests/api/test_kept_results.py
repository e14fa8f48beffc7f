"""Kept results, in order, some at a time: pages put together are everything, once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline
from eddyline.api import kept_results
from eddyline.api.kept_results import END, KeptResults, Owners, read_place, written
from eddyline.errors import PropertyError


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
