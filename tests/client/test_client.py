"""The Python client against a real server: the words of the engine, over HTTP."""

from __future__ import annotations

import asyncio
import builtins
import datetime
import threading

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import eddyline
from eddyline.client import connection
from eddyline.errors import (
    AccessError,
    ClosedError,
    PropertyError,
    QueryStateError,
    RequestError,
    UnknownNameError,
)
from eddyline.server import alerts
from tests.server.served import house, on_loopback


@pytest.fixture
def home(tmp_path):
    with house(tmp_path / "home") as found:
        yield found


@pytest.fixture
def serving(home):
    with on_loopback(home.engine) as found:
        yield found


@pytest.fixture
def anna(home, serving):
    with eddyline.connect(serving.url, home.tokens["author"]) as client:
        yield client


@pytest.fixture
def bob(home, serving):
    with eddyline.connect(serving.url, home.tokens["bob"]) as client:
        yield client


@pytest.fixture
def admin(home, serving):
    with eddyline.connect(serving.url, home.tokens["admin"]) as client:
        yield client


def test_streams_are_declared_pushed_to_and_dropped(admin):
    quotes = admin.stream("quotes", {"sym": "STRING", "bid": "DOUBLE"})
    assert quotes.columns == {"sym": "STRING", "bid": "DOUBLE"}
    pushed = quotes.push([{"sym": "A", "bid": 1.5}, {"sym": "B", "bid": "x"}], token="once")
    assert (pushed.round_number, pushed.n_rows, pushed.n_dead, pushed.is_repeat) == (2, 1, 1, False)
    assert admin.push("quotes", [{"sym": "A"}], token="once").is_repeat
    assert [(s.name, s.n_rows) for s in admin.streams()] == [("trades", 3), ("quotes", 1)]
    letters = admin.dead_letters(stream="quotes")
    assert [letter.row for letter in letters] == [{"sym": "B", "bid": "x"}]
    admin.drop_stream("quotes")
    assert [s.name for s in admin.streams()] == ["trades"]


@pytest.mark.parametrize("table", [pa.table, pl.DataFrame, pd.DataFrame], ids=["arrow", "polars", "pandas"])
def test_rows_may_be_a_table(admin, home, table):
    pushed = admin.push("trades", table({"sym": ["X", "Y"], "price": [1.5, 2.5]}))
    assert (pushed.n_rows, pushed.count, pushed.n_dead) == (2, 4, 0)
    results = admin.get("cheap", owner="anna").latest(2)
    assert [dict(result) for result in results] == [{"sym": "X", "price": 1.5}, {"sym": "Y", "price": 2.5}]


def test_what_alerts_did_is_asked_of_one_query_or_owner(home, serving, admin):
    with eddyline.connect(serving.url, home.tokens["bob"]) as bob:
        dear = bob.get("dear")
        assert dear.alert_counts == home.engine.get(2).alert_counts
        assert dear.alert_counts.n_fired == 1
        assert dear.suspended is None
        assert [m["query"] for m in bob.messages(query=dear)] == ["dear"]
    assert [a["query"] for a in admin.alerts(2)] == ["dear"]
    assert [a["query"] for a in admin.alerts("dear", owner="bob", state="firing")] == ["dear"]
    assert admin.alerts(owner="anna") == []
    assert [m["query"] for m in admin.messages(owner="bob", newest=5)] == ["dear"]
    assert admin.messages(owner="anna") == []


def test_more_messages_than_one_answer_holds_all_come(home, serving, monkeypatch):
    monkeypatch.setattr(alerts, "MOST_NEWEST", 2)
    home.engine.push("trades", [{"sym": f"S{n}", "price": 99.0} for n in range(5)])
    with eddyline.connect(serving.url, home.tokens["bob"]) as bob:
        assert [m["id"] for m in bob.messages()] == [1, 2, 3, 4, 5, 6]


def test_an_admin_looks_at_the_engine_itself(admin, home):
    assert (admin.version, admin.n_queries) == (home.engine.version, 3)
    assert "RoundCommitted" in {event["event"] for event in admin.events()}
    assert str(admin.explain_index()) == str(home.engine.explain_index())
    assert [s.lateness_us for s in admin.streams()] == [0]


def test_joins_are_seen_from_afar_as_the_engine_sees_them(anna, admin, home):
    admin.stream("quotes", "sym STRING, bid DOUBLE", key="sym")
    admin.stream("news", "sym STRING, head STRING", window="10 rows")
    text = "SELECT t.sym, n.head, q.bid FROM trades t JOIN news n ON t.sym = n.sym JOIN quotes q ON t.sym = q.sym"
    query = anna.query(text, name="met")
    admin.push("quotes", [{"sym": "ACME", "bid": 2.0}])
    admin.push("news", [{"sym": "ACME", "head": "merger"}])
    admin.push("trades", [{"sym": "ACME", "price": 1.0}])
    (result,) = query.results()
    (local,) = home.engine.get(query.id).latest()
    assert dict(result) == {"sym": "ACME", "head": "merger", "bid": 2.0}
    assert (result.arrivals, result.arrival) == (local.arrivals, local.arrival)
    assert len(result.arrivals) == 3
    facts = query.facts()
    assert (facts["stream"], facts["streams"]) == ("trades, news, quotes", ["trades", "news", "quotes"])
    assert admin.joins().signatures == home.engine.joins().signatures
    assert anna.joins()["news"]["rows"] == 1
    rows = {"t": {"sym": "ACME"}, "n": {"sym": "BOLT"}, "q": {"sym": "ACME"}}
    assert str(query.why(rows)) == str(home.engine.get(query.id).why(rows))
    assert str(query.why_not()) == str(home.engine.get(query.id).why_not())


def test_aggregates_are_explained_as_the_engine_explains_them_and_others_show_their_sizes_only(
    anna, admin, home
):
    home.engine.query("SELECT sym, count(*) AS n FROM trades GROUP BY sym", name="mine", owner="anna")
    home.engine.query(
        "SELECT sym, count(*) AS n FROM trades WHERE price > 77 GROUP BY sym", name="bobs", owner="bob"
    )
    home.engine.push("trades", [{"sym": "ACME", "price": 100.0}])
    assert admin.explain_aggregates().as_dict() == home.engine.explain_aggregates("trades").as_dict()
    found = {facts["words"]: facts for facts in anna.explain_aggregates("trades")}
    assert found.keys() == {"FROM trades", None}
    assert [each["name"] for each in found["FROM trades"]["queries"]] == ["mine"]
    assert (found[None]["queries"], found[None]["keys"], found[None]["n_queries"]) == ([], [], 1)
    (structure,) = found[None]["structures"]
    assert (structure["groups"], structure["words"]) == (1, [])
    assert "a class of other owners: 1 query" in str(anna.explain_aggregates())
    assert "77" not in str(anna.explain_aggregates().as_dict())
    with pytest.raises(UnknownNameError, match="there is no stream"):
        anna.explain_aggregates("tardes")


def test_groups_are_those_of_the_engine(anna, admin, home):
    query = anna.query("SELECT sym, count(*) AS n FROM trades GROUP BY sym HAVING n >= 2", name="busy")
    home.engine.push(
        "trades", [{"sym": "A", "price": 1.0}, {"sym": "A", "price": 1.0}, {"sym": "B", "price": 1.0}]
    )
    for asked in (
        {},
        {"having": False, "order": "n DESC", "limit": 1},
        {"having": False, "where": {"sym": "B"}},
    ):
        assert query.groups(**asked).as_dict() == home.engine.get(query.id).groups(**asked).as_dict()
    assert [each.row for each in query.groups()] == [{"sym": "A", "n": 2}]


def test_filters_are_explained_as_the_engine_explains_them_and_others_have_no_text(anna, admin, home):
    home.engine.query("SELECT sym FROM trades WHERE sym RLIKE '^A'", name="mine", owner="anna")
    home.engine.query("SELECT sym FROM trades WHERE sym RLIKE '^B'", name="bobs", owner="bob")
    home.engine.push("trades", [{"sym": "ACME", "price": 1.0}])
    assert str(admin.explain_filters()) == str(home.engine.explain_filters())
    assert admin.explain_filters("trades").as_dict() == home.engine.explain_filters("trades").as_dict()
    (facts,) = anna.explain_filters().streams
    assert [each["text"] for each in facts["filters"]] == ["sym RLIKE '^A'", None]
    assert "another owner's filter" in str(anna.explain_filters("trades", bound=False))
    (condition,) = anna.get("mine").explain().as_dict()["conditions"]
    assert (condition["filter"]["place"], condition["filter"]["n_filters"]) == (1, 2)
    with pytest.raises(UnknownNameError, match="there is no stream"):
        anna.explain_filters("tardes")


def test_a_query_is_registered_asked_changed_and_dropped(anna, home):
    query = anna.query("SELECT sym FROM trades WHERE price > :limit", name="high", params={"limit": 40.0})
    assert (query.name, query.state, query.generation) == ("high", "running", 1)
    assert (
        anna.query("SELECT sym FROM trades WHERE price > :limit", name="high", params={"limit": 40.0}).id
        == query.id
    )
    home.engine.push("trades", [{"sym": "X", "price": 41.0}, {"sym": "Y", "price": 1.0}])
    assert [dict(result) for result in query.latest()] == [{"sym": "X"}]
    assert query.n_results == 1
    why = query.why({"price": 39.0})
    assert not why
    assert "no " in str(why)
    told = query.why_not()
    assert (told.n_rows, told.n_matched, told.stopped) == (2, 1, (1,))
    assert "stopped      1" in str(told)
    assert str(query.explain()).startswith("high: running since version")
    query.pause()
    assert query.state == "paused"
    query.resume()
    assert (query.state, query.generation) == ("running", 2)
    query.replace("SELECT sym, price FROM trades WHERE price > 45", severity="warning", per="sym")
    assert query.text == "SELECT sym, price FROM trades WHERE price > 45"
    assert query.facts()["properties"]["severity"] == "warning"
    query.drop()
    with pytest.raises(UnknownNameError, match="there is no query"):
        query.facts()


def test_many_queries_are_registered_at_once(anna):
    made = anna.query_many(
        "SELECT sym FROM trades WHERE sym = :sym", params=[{"sym": "A"}, {"sym": "B"}], name="watch-{sym}"
    )
    assert [query.name for query in made] == ["watch-A", "watch-B"]
    more = anna.query_many({"x": "SELECT sym FROM trades", "y": "SELECT price FROM trades"})
    assert [query.name for query in more] == ["x", "y"]
    page = anna.queries("watch", per_page=1)
    assert (page.total, page.n_pages, [query.name for query in page]) == (2, 2, ["watch-A"])
    assert anna.get("watch-B").id == made[1].id
    anna.drop("watch-B")
    assert anna.queries("watch").total == 1


def test_results_since_the_last_call_and_after_a_cursor(anna, home):
    cheap = anna.get("cheap")
    (first,) = cheap.results()
    assert (dict(first), first.cursor, first.query, first.change) == (
        {"sym": "ACME", "price": 9.5}, "1-1-1", "cheap", "insert",
    )  # fmt: skip
    assert cheap.results() == []
    home.engine.push("trades", [{"sym": "D", "price": 1.0}, {"sym": "E", "price": 2.0}])
    assert [result["sym"] for result in cheap.results()] == ["D", "E"]
    assert [result["sym"] for result in cheap.results(after=first.cursor)] == ["D", "E"]
    assert cheap.results(timeout=0.05) == []
    threading.Timer(0.1, home.engine.push, ["trades", [{"sym": "F", "price": 3.0}]]).start()
    assert [result["sym"] for result in cheap.results(timeout=30)] == ["F"]
    assert cheap.results() == []


def test_following_goes_on_where_it_broke(home):
    """The server is stopped and started again at another port's place; the client notices nothing."""
    got: list[str] = []
    with on_loopback(home.engine) as first:
        port = first.service.settings.port
        client = eddyline.connect(first.url, home.tokens["author"])
        coming = client.get("cheap").follow(after="0")
        got.append(next(coming).cursor)
        home.engine.push("trades", [{"sym": "D", "price": 1.0}])
        got.append(next(coming).cursor)
    home.engine.push("trades", [{"sym": "E", "price": 2.0}])
    with on_loopback(home.engine, port=port):
        got.append(next(coming).cursor)
        home.engine.push("trades", [{"sym": "F", "price": 3.0}])
        got.append(next(coming).cursor)
        coming.close()
    client.close()
    assert got == ["1-1-1", "2-4-1", "3-5-1", "4-6-1"]


def test_alerts_are_silenced_and_acknowledged_from_afar(home, serving):
    with eddyline.connect(serving.url, home.tokens["bob"]) as bob:
        made = bob.silence("dear", {"sym": "BOLT"}, for_=datetime.timedelta(hours=2), reason="deploy")
        assert (made["query"], made["by"], made["reason"]) == ("dear", "bob", "deploy")
        assert [silence["id"] for silence in bob.silences(bob.get("dear"))] == [made["id"]]
        assert [alert["key"] for alert in bob.alerts(silenced=True)] == [{"sym": "BOLT"}]
        assert bob.end_silence(made)["ended_by"] == "bob"
        assert (bob.silences(), len(bob.silences(over=None))) == ([], 1)
        (alert,) = bob.acknowledge("dear", {"sym": "BOLT"}, note="on it")
        assert alert["acknowledgement"]["by"] == "bob"
        assert bob.alerts(acknowledged=False) == []
        events = [entry["event"] for entry in bob.alert_history("dear", {"sym": "BOLT"})]
        assert events == ["firing", "silenced", "silence ended", "acknowledged"]
        with pytest.raises(PropertyError, match="a silence needs an end"):
            bob.silence("dear")


def test_following_all_one_may_see_and_what_alerts_say(home, serving, anna):
    with eddyline.connect(serving.url, home.tokens["bob"]) as bob:
        assert next(bob.follow(after="0")).query == "dear"
        assert next(bob.follow_messages(after=0))["message"] == "BOLT at 95.0"
        assert list(bob.follow(timeout=0.05)) == []
        assert [(a["query"], a["state"]) for a in bob.alerts()] == [("dear", "firing")]
        assert [m["status"] for m in bob.messages()] == ["firing"]
    assert anna.alerts() == []
    assert [letter.query for letter in anna.dead_letters()] == ["counted"]


def test_an_admin_acts_for_an_owner(home, serving):
    with eddyline.connect(serving.url, home.tokens["admin"], owner="bob") as client:
        assert [query.name for query in client.queries()] == ["dear"]
        made = client.query("SELECT sym FROM trades", name="all")
        assert made.facts()["owner"] == "bob"


def test_a_result_has_its_receipt(anna):
    (result,) = anna.get("cheap").latest()
    receipt = anna.receipt(result)
    assert (receipt["id"], receipt["result"]) == ("1-1-1", {"sym": "ACME", "price": 9.5})


def test_a_union_is_asked_about_part_by_part(anna, admin, home):
    text = "SELECT sym FROM trades WHERE price > 1000\nUNION ALL SELECT sym FROM trades WHERE price > 10"
    union = anna.query(text, name="either")
    admin.push("trades", [{"sym": "CORN", "price": 99.0}])
    local = home.engine.get("either", owner="anna")
    first, second = "part 1 of UNION ALL, line 1", "part 2 of UNION ALL, line 2"
    found = union.why({"price": 99.0})
    assert (found.matches, found.part, [other.part for other in found.others]) == (True, second, [first])
    assert str(found) == str(local.why({"price": 99.0}))
    not_found = union.why_not()
    assert (not_found.part, not_found.others[0].part) == (first, second)
    assert str(not_found) == str(local.why_not())
    tried = anna.try_query(text)
    assert [(part.part, part.n_matched) for part in tried.parts] == [(first, 0), (second, tried.n_matched)]
    assert str(tried) == str(home.engine.try_query(text))
    (result,) = union.latest()
    assert anna.receipt(result)["part"] == second


def test_errors_are_the_same_classes_with_the_same_words(anna, admin, home, serving):
    with pytest.raises(UnknownNameError) as caught:
        anna.query("SELECT prce FROM trades")
    assert caught.value.problem == "there is no column prce in trades"
    assert str(caught.value).splitlines()[1:3] == ["  SELECT prce FROM trades", "         ^^^^"]
    assert caught.value.hint == "Did you mean price?"
    with pytest.raises(UnknownNameError):
        anna.explain("SELECT prce FROM trades")
    assert anna.explain("SELECT sym FROM trades").facts["stream"] == "trades"
    with pytest.raises(AccessError, match="role admin"):
        anna.push("trades", [])
    with pytest.raises(UnknownNameError):
        anna.get("dear")
    with pytest.raises(PropertyError):
        anna.query("SELECT sym FROM trades", name="q7")
    with pytest.raises(QueryStateError):
        anna.query("CREATE VIEW cheap AS SELECT sym FROM trades")
    with pytest.raises(AccessError):
        eddyline.connect(serving.url, "edl_no_token").status()
    with pytest.raises(RequestError):
        admin.dead_letters(newest=10**9)
    with pytest.raises(PropertyError, match="not the address"):
        eddyline.connect("localhost:8321")


def test_a_server_that_is_not_there_is_said_to_be_so(home):
    with on_loopback(home.engine) as serving:
        url = serving.url
    with pytest.raises(ClosedError, match="cannot be reached"):
        eddyline.connect(url).status()


def test_a_request_that_comes_too_often_waits(home, monkeypatch):
    waited: list[float] = []
    monkeypatch.setattr(connection, "wait", waited.append)
    with (
        on_loopback(home.engine, requests_per_s=0.001, burst=1) as serving,
        eddyline.connect(serving.url, home.tokens["author"]) as client,
    ):
        client.status()
        with pytest.raises(RequestError, match="too many requests"):
            client.status()
    assert len(waited) == 4
    assert all(seconds >= 1 for seconds in waited)


@pytest.mark.parametrize(
    ("missing", "call", "extra"),
    [
        ("httpx", lambda: eddyline.connect("http://127.0.0.1:1"), "eddyline[client]"),
        ("fastapi", lambda: eddyline.open().serve(port=0), "eddyline[server]"),
    ],
)
def test_a_library_that_is_not_installed_is_named_with_what_to_install(monkeypatch, missing, call, extra):
    import sys

    for name in [
        n
        for n in sys.modules
        if n.split(".")[0] == missing or n.startswith(("eddyline.client", "eddyline.server"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=missing)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(PropertyError) as caught:
        call()
    assert extra in str(caught.value)


def test_results_come_as_tables_with_the_types_of_the_query(home, anna, admin):
    anna.query("SELECT sym, price FROM trades WHERE price > 0", name="tables")
    admin.push("trades", [{"sym": "T", "price": 2.5}, {"sym": "U", "price": 3.5}])
    there = anna.get("tables")
    assert there.to_arrow().schema == home.engine.get("tables", owner="anna").schema
    assert there.to_arrow()["sym"].to_pylist() == ["T", "U"]
    assert there.to_arrow(newest=1)["sym"].to_pylist() == ["U"]
    first = there.latest(2)[0]
    assert there.to_arrow(after=first.cursor.rpartition("-")[0], marks=True)["_arrival"].to_pylist() == [
        first.arrival + 1
    ]
    assert there.to_pandas()["price"].tolist() == [2.5, 3.5]
    assert there.to_polars()["price"].to_list() == [2.5, 3.5]


def test_loops_over_a_query_take_what_is_unread(anna, admin):
    query = anna.query("SELECT sym FROM trades WHERE price > 0", name="looped")
    admin.push("trades", [{"sym": sym, "price": 1.0} for sym in "ABC"])
    for result in query:
        assert result == {"sym": "A"}
        break
    assert [result["sym"] for result in query] == ["B", "C"]
    admin.push("trades", [{"sym": "D", "price": 1.0}])

    async def listen() -> list[str]:
        heard = []
        async for result in query:
            heard.append(result["sym"])
            if result["sym"] == "D":
                await asyncio.to_thread(admin.push, "trades", [{"sym": "E", "price": 1.0}])
            if result["sym"] == "E":
                break
        return heard

    assert asyncio.run(asyncio.wait_for(listen(), 60)) == ["D", "E"]
    assert query.results() == []


def test_a_query_is_tried_on_recent_rows_from_afar(anna):
    found = anna.try_query(
        "SELECT sym, cast(note AS INT) AS n FROM trades WHERE price > :least", params={"least": 5}
    )
    assert (found.n_rows, found.n_matched, found.n_in_error) == (3, 2, 1)
    assert found.samples == ({"sym": "CORE", "n": 3}, {"sym": "ACME", "n": 1})
    assert found.errors[0].row["sym"] == "BOLT"
    with pytest.raises(UnknownNameError):
        anna.try_query("SELECT prise FROM trades")


def test_a_reader_may_not_try_queries(home, serving):
    with (
        eddyline.connect(serving.url, home.tokens["reader"]) as reader,
        pytest.raises(AccessError, match="author"),
    ):
        reader.try_query("SELECT sym FROM trades")


def test_an_admin_sees_versions_and_goes_back(admin, home):
    before = admin.version
    home.engine.get("cheap", owner="anna").drop()
    assert admin.versions(1)[0]["version"] == before + 1
    plan = admin.rollback(before, dry_run=True)
    assert (plan["added"], plan["changes"]["added"][0]["name"], admin.version) == (1, "cheap", before + 1)
    assert admin.rollback(before)["version"] == before + 2
    assert admin.get("cheap", owner="anna").state == "running"


def test_without_a_pipeline_streams_are_pushed_to_and_there_is_nothing_to_retry(admin):
    (trades,) = admin.sources()
    assert (trades["stream"], trades["type"], trades["n_stream_rows"]) == ("trades", "push", 3)
    assert admin.sinks() == []
    with pytest.raises(QueryStateError, match="no pipeline runs"):
        admin.retry_source("trades")


@pytest.mark.parametrize("name", ["eu/west", "..", "a/b=c", "</b>"])
def test_a_query_whose_name_no_address_can_hold_is_found_by_it(anna, bob, name):
    for client in (bob, anna):
        client.query("SELECT sym FROM trades WHERE price < 5", name=name)
    found = anna.get(name)
    assert (found.name, found.facts()["owner"]) == (name, "anna")
    anna.drop(name)
    with pytest.raises(UnknownNameError, match="there is no query"):
        anna.get(name)
    assert bob.get(name).state == "running"


def test_why_and_trials_of_groups_are_those_of_the_engine(admin, home):
    admin.stream("bets", {"who": "STRING", "stake": "BIGINT"})
    text = "SELECT who FROM bets WHERE stake > 1 GROUP BY who HAVING count(*) >= 3"
    query = admin.query(text, name="often", keep="1 day")
    admin.push("bets", [{"who": "A", "stake": 5}, {"who": "A", "stake": 6}, {"who": "B", "stake": 1}])
    local = home.engine.get(query.id)
    row = {"who": "A", "stake": 7}
    assert str(query.why(row)) == str(local.why(row))
    assert str(query.why_not()) == str(local.why_not())
    assert query.why_not().groups[0].values == {"count(*)": 2}
    assert str(admin.try_query(text)) == str(home.engine.try_query(text))
