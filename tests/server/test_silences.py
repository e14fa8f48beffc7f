"""Silences and acknowledgements over HTTP: who may, whose, and what the audit log says."""

from __future__ import annotations

import pytest

from tests.server.served import house, in_process


@pytest.fixture
def home():
    with house(None) as found, in_process(found.engine) as client:
        found.engine.query(
            "SELECT sym FROM trades WHERE price < 10", name="low", owner="anna", per="sym", resolve="1 hour"
        )
        found.engine.push("trades", [{"sym": "ACME", "price": 1.0, "note": "1"}])
        found.client = client
        yield found


def ask(home, who, method, path, **how):
    return home.client.request(method, f"/api/v1{path}", headers=home.headers(who), **how)


def audit(home):
    entries = ask(home, "admin", "GET", "/audit").json()
    return [(entry["what"], entry["owner"], entry["detail"]) for entry in reversed(entries)]


def test_an_author_silences_and_the_badge_and_the_page_agree(home):
    before = ask(home, "author", "GET", "/status").json()["n_open_alerts"]
    page = ask(home, "author", "GET", "/alerts/groups", params={"silenced": False}).json()
    assert before == page["n"] == page["counts"]["open"] == 1
    made = ask(
        home, "author", "POST", "/silences", json={"query": "low", "for": "2 hours", "reason": "deploy"}
    )
    assert made.status_code == 201
    assert (made.json()["query"], made.json()["owner"], made.json()["by"]) == ("low", "anna", "anna")
    page = ask(home, "author", "GET", "/alerts/groups", params={"silenced": False}).json()
    assert ask(home, "author", "GET", "/status").json()["n_open_alerts"] == page["n"] == 0
    assert page["counts"] == {"open": 0, "unacknowledged": 0, "acknowledged": 0, "silenced": 1}
    (group,) = ask(home, "author", "GET", "/alerts/groups", params={"silenced": True}).json()["groups"]
    assert (group["query"], group["n"], group["alerts"][0]["silence"]["reason"]) == ("low", 1, "deploy")
    ended = ask(home, "author", "DELETE", f"/silences/{made.json()['id']}")
    assert (ended.status_code, ended.json()["ended_by"]) == (200, "anna")
    assert ask(home, "author", "GET", "/status").json()["n_open_alerts"] == 1
    assert [(what, owner) for what, owner, _ in audit(home)] == [
        ("silence alerts", "anna"),
        ("end silence", "anna"),
    ]


def test_a_reader_may_look_and_neither_silence_nor_acknowledge(home):
    assert ask(home, "reader", "GET", "/silences").json() == []
    assert ask(
        home, "reader", "GET", "/alerts/history", params={"query": "low", "key": '{"sym": "ACME"}'}
    ).json()
    for method, path, body in [
        ("POST", "/silences", {"query": "low", "for": "1 hour"}),
        ("DELETE", "/silences/1", None),
        ("POST", "/alerts/acknowledge", {"query": "low"}),
    ]:
        assert ask(home, "reader", method, path, json=body).status_code == 403
    assert audit(home) == []


def test_owners_act_on_their_own_alone(home):
    mine = ask(home, "bob", "POST", "/silences", json={"query": "dear", "for": "1 hour"}).json()
    assert ask(home, "author", "GET", "/silences").json() == []
    assert ask(home, "author", "DELETE", f"/silences/{mine['id']}").status_code == 404
    assert (
        ask(home, "author", "POST", "/silences", json={"query": "dear", "for": "1 hour"}).status_code == 404
    )
    assert ask(home, "author", "POST", "/alerts/acknowledge", json={"query": "dear"}).status_code == 404
    assert ask(home, "author", "GET", "/alerts/history", params={"query": "dear"}).status_code == 404
    every = ask(home, "author", "POST", "/silences", json={"query": "*", "for": "1 hour"}).json()
    assert (every["owner"], every["query_id"]) == ("anna", None)
    assert {a["query"] for a in ask(home, "admin", "GET", "/alerts", params={"silenced": True}).json()} == {
        "low",
        "dear",
    }
    assert [g["query"] for g in ask(home, "author", "GET", "/alerts/groups").json()["groups"]] == ["low"]


def test_an_admins_silence_of_everything_is_seen_by_owners_and_ended_by_admins(home):
    made = ask(home, "admin", "POST", "/silences", json={"query": "*", "for": "1 hour"}).json()
    assert made["owner"] is None
    (seen,) = ask(home, "author", "GET", "/silences").json()
    assert (seen["id"], seen["n_withheld"]) == (made["id"], None)
    (alert,) = ask(home, "author", "GET", "/alerts").json()
    assert (alert["silence"]["id"], alert["silence"]["n_withheld"]) == (made["id"], None)
    assert ask(home, "author", "DELETE", f"/silences/{made['id']}").status_code == 403
    assert ask(home, "admin", "DELETE", f"/silences/{made['id']}").status_code == 200


def test_an_acknowledgement_says_who(home):
    (alert,) = ask(
        home,
        "author",
        "POST",
        "/alerts/acknowledge",
        json={"query": "low", "key": {"sym": "ACME"}, "note": "on it"},
    ).json()
    assert (alert["acknowledgement"]["by"], alert["acknowledgement"]["note"]) == ("anna", "on it")
    counts = ask(home, "author", "GET", "/alerts/groups").json()["counts"]
    assert counts == {"open": 1, "unacknowledged": 0, "acknowledged": 1, "silenced": 0}
    found = ask(
        home, "reader", "GET", "/alerts/history", params={"query": "low", "key": '{"sym": "ACME"}'}
    ).json()
    assert [entry["event"] for entry in found] == ["firing", "acknowledged"]
    assert audit(home) == [
        (
            "acknowledge alerts",
            "anna",
            {"query": "low", "key": {"sym": "ACME"}, "n_alerts": 1, "note": "on it"},
        )
    ]
    again = ask(home, "author", "POST", "/alerts/acknowledge", json={"query": "low", "key": {"sym": "X"}})
    assert (again.status_code, again.json()["error"]["problem"]) == (
        409,
        "no alert of low with sym=X is open",
    )


def test_groups_are_searched_filtered_and_counted(home):
    home.engine.query(
        "SELECT sym FROM trades", name="all", owner="anna", severity="critical", per="sym", resolve="1 day"
    )
    home.engine.push("trades", [{"sym": sym, "price": 1.0, "note": "1"} for sym in ("ACME", "BOLT")])

    def found(**params):
        body = ask(home, "author", "GET", "/alerts/groups", params=params).json()
        return [(group["query"], group["n"], len(group["alerts"])) for group in body["groups"]], body

    groups, body = found(alerts=1)
    assert groups == [("all", 2, 1), ("low", 2, 1)], "the gravest first"
    assert (body["n"], body["n_groups"], body["severities"]["critical"]) == (4, 2, 2)
    assert found(filter="bolt")[0] == [("all", 1, 1), ("low", 1, 1)]
    assert found(filter="sym=BOLT", severity="critical")[0] == [("all", 1, 1)]
    groups, body = found(severity="critical")
    assert (groups, body["severities"]["warning"]) == ([("all", 2, 2)], 2)
    assert found(state="pending")[0] == []
    assert found(filter="nothing of this")[0] == []


@pytest.mark.parametrize(
    ("path", "body", "wanted"),
    [
        ("/silences", {"query": "low"}, "a silence needs an end"),
        ("/silences", {"query": "low", "for": "soon"}, "soon"),
        ("/silences", {"query": "low", "for": "1 hour", "key": {"x": 1}}, "have no key column x"),
        ("/alerts/acknowledge", {"query": "low", "key": {"x": 1}}, "have no key column x"),
    ],
)
def test_wrong_requests_are_refused_in_words(home, path, body, wanted):
    answer = ask(home, "author", "POST", path, json=body)
    assert answer.status_code == 422
    assert wanted in answer.text
    assert (
        ask(home, "author", "GET", "/alerts/history", params={"query": "low", "key": "[1]"}).status_code
        == 422
    )
