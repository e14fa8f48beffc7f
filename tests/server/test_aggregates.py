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
