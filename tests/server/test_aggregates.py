"""Aggregates over HTTP: the groups of a query, and the changes after them."""

from __future__ import annotations

import json

import pytest

from tests.server.served import house, in_process

BUSY = "SELECT sym, count(*) AS n FROM trades GROUP BY sym HAVING n >= 2"


@pytest.fixture
def home():
    with house(None) as found:
        yield found


def test_groups_are_rows_with_a_cursor_after_which_their_changes_are(home):
    home.engine.query(BUSY, name="busy", owner="anna")
    anna = home.headers("author")
    home.engine.push("trades", [("A", 1.0, "1"), ("A", 2.0, "1"), ("B", 3.0, "1")])
    with in_process(home.engine) as client:
        asked = {"having": "false"}
        found = client.get("/api/v1/queries/busy/groups", params=asked, headers=anna).json()
        assert found["thresholds"] == [{"words": "n", "operator": ">=", "value": 2}]
        assert found["groups"] == [
            {
                "key": {"sym": "A"},
                "row": {"sym": "A", "n": 2},
                "is_result": True,
                "compared": [2],
                "error": "",
            },
            {
                "key": {"sym": "B"},
                "row": {"sym": "B", "n": 1},
                "is_result": False,
                "compared": [1],
                "error": "",
            },
        ]
        home.engine.push("trades", [("B", 4.0, "1")])
        asked = {"query": "busy", "after": found["next"]}
        later = client.get("/api/v1/results", params=asked, headers=anna).json()["results"]
        assert [(each["change"], each["row"]) for each in later] == [("insert", {"sym": "B", "n": 2})]
        asked = {"where": json.dumps({"sym": "B"})}
        one = client.get("/api/v1/queries/busy/groups", params=asked, headers=anna).json()
        assert [each["row"] for each in one["groups"]] == [{"sym": "B", "n": 2}]
        assert client.get("/api/v1/queries/busy/groups", headers=home.headers("bob")).status_code == 404


@pytest.mark.parametrize("where", ["sym=B", "[1]", '{"sym": {"a": 1}}', '"sym"'])
def test_what_groups_have_to_equal_is_an_object_of_plain_values(home, where):
    home.engine.query(BUSY, name="busy", owner="anna")
    with in_process(home.engine) as client:
        refused = client.get(
            "/api/v1/queries/busy/groups", params={"where": where}, headers=home.headers("author")
        )
    assert refused.status_code == 422
    assert refused.json()["error"]["problem"].startswith("where is not a JSON object of plain values: ")


NAMES_OF_BOB = ("bobs", "bobs_view", "7 minutes", "7 days")


@pytest.mark.parametrize(
    "document",
    ["/api/v1/queries/annas/explain", "/api/v1/queries/annas", "/api/v1/aggregates", "check"],
)
def test_what_owners_share_a_class_with_is_counted_and_says_nothing_of_the_others(home, document):
    engine = home.engine
    engine.sql("CREATE TABLE auths (card STRING, ts TIMESTAMP) TBLPROPERTIES (time = 'ts')")
    per_window = "SELECT card, count(*) AS n FROM auths GROUP BY card, window(ts, '{} minutes')"
    per_card = "SELECT card, count(*) AS n FROM auths GROUP BY card"
    engine.query(per_window.format(10), name="annas", owner="anna")
    engine.query(per_window.format(7), name="bobs", owner="bob")
    engine.query(per_card, name="bobs_view", owner="bob", keep="7 days")
    with in_process(engine) as client:

        def asked(who: str) -> str:
            if document != "check":
                owner = "?owner=anna" if who == "admin" and "queries" in document else ""
                return client.get(document + owner, headers=home.headers(who)).text
            body = {"text": per_window.format(10)}
            return client.post("/api/v1/queries/check", json=body, headers=home.headers(who)).text

        text = asked("author")
        assert not [name for name in NAMES_OF_BOB if name in text]
        found = json.loads(text)
        (facts,) = found.get("classes") or found.get("aggregates") or found["explain"]["aggregates"]
        assert (facts["n_queries"], [each["name"] for each in facts["queries"]]) == (3, ["annas"])
        by_kind = {each["kind"]: each for each in facts["structures"]}
        assert (by_kind["windows"]["words"], by_kind["windows"]["n_queries"]) == (
            ["windows of 10 minutes"],
            2,
        )
        if "running" in by_kind:
            assert (by_kind["running"]["words"], by_kind["running"]["n_queries"]) == ([], 1)
        if document in ("check", "/api/v1/aggregates"):  # which an admin asks of all owners
            assert "7 minutes" in asked("admin")


def test_an_owner_sees_the_classes_below_the_subqueries_of_their_queries(home):
    text = "SELECT n, count(*) AS m FROM (SELECT sym, count(*) AS n FROM trades GROUP BY sym) s GROUP BY n"
    home.engine.query(text, name="spread", owner="anna")
    with in_process(home.engine) as client:
        found = client.get("/api/v1/aggregates", headers=home.headers("reader")).json()["classes"]
        of_bob = client.get("/api/v1/aggregates", headers=home.headers("bob")).json()["classes"]
    read_by = {each["words"]: [query["name"] for query in each["queries"]] for each in found}
    assert read_by == {"FROM trades": ["spread"], "FROM the subquery at line 1 of spread": ["spread"]}
    assert [(each["words"], each["queries"], each["n_queries"]) for each in of_bob] == [(None, [], 1)] * 2


def test_windows_are_ordered_by_their_start_and_numbers_out_of_range_are_refused(home):
    engine = home.engine
    engine.sql(
        "CREATE TABLE auths (card STRING, ts TIMESTAMP) TBLPROPERTIES (time = 'ts', lateness = '1 hour')"
    )
    text = "SELECT card, count(*) AS n FROM auths GROUP BY card, window(ts, '10 minutes')"
    engine.query(text, name="per_window", owner="anna")
    engine.push(
        "auths", [{"card": card, "ts": f"2026-01-01T12:{m}:00Z"} for card, m in (("A", 21), ("B", 11))]
    )
    with in_process(engine) as client:

        def groups(**asked: object):
            params = {name: v if isinstance(v, str) else json.dumps(v) for name, v in asked.items()}
            address = "/api/v1/queries/per_window/groups"
            return client.get(address, params=params, headers=home.headers("reader"))

        assert [each["row"]["card"] for each in groups(order="window").json()["groups"]] == ["B", "A"]
        (one,) = groups(where={"window.start": "2026-01-01T12:20:00Z"}).json()["groups"]
        assert one["row"] == {"card": "A", "n": 1}
        assert groups().json()["noun"] == "window"
        refused = groups(where={"n": 1180591620717411303424})
    assert refused.status_code == 422
    assert refused.json()["error"]["problem"] == "n is BIGINT, and cannot equal 1180591620717411303424"
