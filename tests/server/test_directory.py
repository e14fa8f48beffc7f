"""Lists of queries: the right order, the right status, and cheap also when there are very many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline
from eddyline.functions.declarations import DECLARED
from eddyline.server.directory import AT_ONCE, STATUSES, Directory
from eddyline.server.families import Folded, family_name
from eddyline.server.listing import COSTS, STATES
from tests.server.served import house, in_process


@pytest.fixture
def engine():
    with eddyline.open() as found:
        found.stream("trades", "sym STRING, price DOUBLE, note STRING")
        yield found


def statuses_of(engine, open_alerts=None) -> dict[str, str]:
    directory = Directory(engine.rounds)
    listing = directory.listing()
    statuses = directory.statuses(listing, np.arange(len(listing.ids)), open_alerts or {})
    return {name: STATUSES[status] for name, status in zip(listing.names, statuses.tolist(), strict=True)}


def test_a_query_is_in_the_first_status_that_applies(engine):
    engine.query("SELECT sym FROM trades WHERE price < 10", name="hit")
    engine.query("SELECT sym FROM trades WHERE price < 0", name="quiet")
    engine.query("SELECT sym FROM trades", name="everything")
    engine.query("SELECT cast(note AS INT) AS n FROM trades WHERE price < 10", name="bad")
    engine.query("SELECT sym FROM trades WHERE price < 10", name="loud")
    engine.query("SELECT sym FROM trades WHERE price < 10", name="resting").pause()
    engine.push("trades", [{"sym": "A", "price": 5.0, "note": "x"}])
    assert statuses_of(engine, {5: {"firing": 1, "held": 2}}) == {
        "hit": "matching",
        "quiet": "silent",
        "everything": "costly",
        "bad": "failing",
        "loud": "firing",
        "resting": "paused",
    }
    assert statuses_of(engine, {5: {"pending": 1}})["loud"] == "matching"


def test_a_query_without_a_result_for_an_hour_is_silent():
    now = [1_000_000_000_000]
    with eddyline.open(clock=lambda: now[0]) as engine:
        engine.stream("trades", "price DOUBLE")
        engine.query("SELECT price FROM trades WHERE price < 10", name="low")
        engine.push("trades", [{"price": 5.0}])
        now[0] += 3_599_000_000
        engine.push("trades", [{"price": 50.0}])
        assert statuses_of(engine) == {"low": "matching"}
        now[0] += 2_000_000
        engine.push("trades", [{"price": 50.0}])
        assert statuses_of(engine) == {"low": "silent"}
        engine.push("trades", [{"price": 5.0}])
        assert statuses_of(engine) == {"low": "matching"}


@pytest.fixture
def _own_functions():
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


@pytest.mark.usefixtures("_own_functions")
def test_a_query_whose_function_takes_most_of_the_time_is_costly_and_comes_first(engine):
    @eddyline.udf(returns="BOOLEAN")
    def slow_one(price: float) -> bool:
        return sum(range(20_000)) > price

    engine.query("SELECT sym FROM trades WHERE price < 10", name="plain")
    engine.query("SELECT sym FROM trades WHERE slow_one(price)", name="slow")
    engine.push("trades", [{"sym": "A", "price": 5.0}] * 200)
    directory = Directory(engine.rounds)
    listing = directory.listing()
    every = np.arange(2)
    assert statuses_of(engine) == {"plain": "matching", "slow": "costly"}
    assert [listing.names[at] for at in directory.sorted(listing, every, "cost")] == ["slow", "plain"]
    plain, slow = directory.cost_shares(listing, every)
    assert plain is not None
    assert slow is not None
    assert plain < slow <= 1


def test_lists_are_sorted_by_name_results_and_last_result(engine):
    for name, limit in [("b", 10), ("A", 100), ("c", 1000)]:
        engine.query(f"SELECT price FROM trades WHERE price < {limit} AND price > {limit / 10}", name=name)
    engine.push("trades", [{"price": 50.0}, {"price": 60.0}, {"price": 5.0}])
    engine.push("trades", [{"price": 5.0}])
    directory = Directory(engine.rounds)
    listing = directory.listing()

    def order(sort: str) -> list[str]:
        return [listing.names[at] for at in directory.sorted(listing, np.arange(3), sort)]

    assert order("name") == ["A", "b", "c"]
    assert order("results") == ["b", "A", "c"]
    assert order("last") == ["b", "A", "c"]
    engine.push("trades", [{"price": 50.0}])
    assert order("last") == ["A", "b", "c"]
    assert directory.last_results.of(listing.ids).tolist() == [2, 3, 0]


def test_a_list_follows_the_catalog(engine):
    directory = Directory(engine.rounds)
    assert directory.listing().names == []
    engine.query("SELECT sym FROM trades", name="one", owner="anna")
    first = directory.listing()
    assert (first.names, list(first.kinds.owners)) == (["one"], ["anna"])
    assert directory.listing() is first
    engine.push("trades", [{"sym": "A"}])  # rounds make no new list
    assert directory.listing() is first
    engine.drop(engine.get("one", owner="anna"))
    assert directory.listing().names == []


def test_a_page_of_very_many_queries_looks_up_only_what_it_shows(tmp_path):
    """Counted, not timed: facts are asked for the page alone, and the lock is let go between pieces."""
    n = 5 * AT_ONCE
    with house(None) as home:
        engine = home.engine
        engine.query_many(
            "SELECT sym FROM trades WHERE sym = :sym",
            params={"sym": [f"S{k:05d}" for k in range(n)]},
            name="w-{sym}",
            owner="anna",
        )
        engine.push("trades", [{"sym": "S00007"}, {"sym": "S00009"}, {"sym": "S00009"}])
        with in_process(engine) as client:
            asked: list[int] = []
            facts = client.service.commands.query_facts
            client.service.commands.query_facts = lambda query_id: asked.append(query_id) or facts(query_id)
            headers = home.headers("reader")
            page = client.get("/api/v1/queries?filter=w-&sort=results&per_page=3", headers=headers).json()
            assert (page["total"], page["n_pages"]) == (n, -(-n // 3))
            assert [(q["name"], q["n_results"]) for q in page["queries"][:2]] == [
                ("w-S00009", 2),
                ("w-S00007", 1),
            ]
            assert page["statuses"]["matching"] == 2
            assert page["statuses"]["silent"] == n - 2
            assert len(asked) == 3
            listing = client.service.directory.listing()
            last = client.get(f"/api/v1/queries?filter=w-&page={n}&per_page=1", headers=headers).json()
            assert [q["name"] for q in last["queries"]] == [f"w-S{n - 1:05d}"]
            assert client.service.directory.listing() is listing
            assert (
                client.get("/api/v1/queries?filter=w-&status=matching", headers=headers).json()["total"] == 2
            )


def test_a_query_dropped_while_a_list_is_made_is_left_out(tmp_path):
    with house(None) as home, in_process(home.engine) as client:
        client.service.directory.listing()
        real = client.service.commands.query_facts

        def facts(query_id: int) -> dict:
            if query_id == 1 and home.engine.get(1).state != "dropped":
                home.engine.drop(1)
            return real(query_id)

        client.service.commands.query_facts = facts
        page = client.get("/api/v1/queries", headers=home.headers("reader")).json()
        assert [q["name"] for q in page["queries"]] == ["counted"]


def rows_of(listing) -> list[tuple]:
    """A list, written out."""
    owners, shapes = list(listing.kinds.owners), listing.shapes
    columns = zip(
        listing.ids.tolist(), listing.names, listing.texts, listing.owner_numbers, listing.state_numbers,
        listing.shape_numbers, listing.costs, strict=True,
    )  # fmt: skip
    return [
        (query_id, name, text, owners[owner], STATES[state], id(shapes[shape]), COSTS[cost])
        for query_id, name, text, owner, state, shape, cost in columns
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "many", "drop", "pause", "replace"]), st.integers(0, 30)),
        max_size=30,
    )
)
def test_a_list_that_followed_every_change_is_the_list_made_anew(steps):
    """Whatever came, went, or changed, looked at after every change or after several."""
    with eddyline.open() as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        followed = Directory(engine.rounds)
        for at, (what, number) in enumerate(steps):
            there = engine.queries(per_page=1_000)
            chosen = there[number % len(there)] if there else None
            text = f"SELECT {'sym' if number % 2 else 'price'} FROM trades WHERE price < {number}"
            if what == "add":
                engine.query(text, name=f"{'Ab'[number % 2]}{number}", owner=("anna", "bob")[number % 3 > 0])
            elif what == "many":
                engine.query_many("SELECT sym FROM trades WHERE sym = :s", params={"s": ["x"] * (number % 4)})
            elif chosen is not None and what == "drop":
                chosen.drop()
            elif chosen is not None and what == "pause":
                chosen.resume() if chosen.state == "paused" else chosen.pause()
            elif chosen is not None:
                chosen.replace(text)
            if number % 3 or at + 1 == len(steps):
                listing, anew = followed.listing(), Directory(engine.rounds).listing()
                assert rows_of(listing) == rows_of(anew)
                assert [listing.names[p] for p in listing.by_name] == [anew.names[p] for p in anew.by_name]
                assert listing.of("anna").tolist() == anew.of("anna").tolist()
                assert sorted(listing.by_name.tolist()) == list(range(len(listing)))


# --------------------------------------------------------------------------------------------- families, parameters


def test_rules_of_one_template_are_one_line_also_after_a_change():
    with eddyline.open() as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        engine.query("SELECT sym FROM trades WHERE price < 1", name="single")
        params = [{"sym": f"S{n}", "most": n + 0.5} for n in range(5)]
        text = "SELECT sym FROM trades WHERE sym = :sym AND price < :most"
        engine.query_many(text, params=params, name="w-{sym}", owner="anna")
        engine.query_many(text, params=params[:2], name="w-{sym}", owner="bob")
        directory = Directory(engine.rounds)
        directory.listing()
        engine.get("w-S3", owner="anna").replace(text, params={"sym": "S3", "most": 99.0})
        listing = directory.listing()
        found = directory.found(listing, owner=None)
        folded = Folded(directory, listing, found, directory.statuses(listing, found, {}), "name")
        lines = folded.lines(0, 10)
        assert [(line.is_family, len(line.positions)) for line in lines] == [(False, 1), (True, 5), (True, 2)]
        assert [family_name(listing, line.family) for line in lines[1:]] == ["w-S…", "w-S…"]


def test_rules_are_found_by_values_of_their_parameters_also_while_paused():
    with eddyline.open() as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        params = [{"sym": "ACME", "most": 12.5}, {"sym": "BOLT", "most": 7.0}]
        engine.query_many(
            "SELECT sym FROM trades WHERE sym = :sym AND price < :most", params=params, name="w-{sym}"
        )
        engine.query("SELECT sym FROM trades WHERE sym = 'ACME'", name="other")
        engine.get("w-BOLT").pause()
        directory = Directory(engine.rounds)

        def names(pattern: str) -> list[str]:
            listing = directory.listing()
            return [listing.names[at] for at in directory.found(listing, owner=None, pattern=pattern)]

        assert names("12.5") == ["w-ACME"]
        assert names("most=7") == ["w-BOLT"]
        assert names("sym=bol") == ["w-BOLT"]
        assert names("price=7") == []
        assert names("acme") == ["w-ACME", "other"]
