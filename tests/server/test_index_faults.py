"""Queries whose constants go over a limit, or with which the index cannot be built, over HTTP."""

from __future__ import annotations

from tests.faulty_queries import TIMES, armed
from tests.server.served import house, in_process

EXPLODES = "SELECT sym FROM trades WHERE length(replace(repeat('a',1000000),'a',repeat('b',1000000))) > 0"


def test_an_exploding_text_is_refused_and_a_query_at_fault_suspended_for_its_owner_to_see():
    with house(None) as home, in_process(home.engine) as client:
        author, admin = home.headers("author"), home.headers("admin")
        for path, status in (("/api/v1/queries", 422), ("/api/v1/queries/check", 200)):
            answer = client.post(path, headers=author, json={"text": EXPLODES})
            assert answer.status_code == status
            assert "replace would make a text of 1,000,000,000,000 bytes" in answer.text
        text = f"SELECT sym FROM trades WHERE sym != repeat('x', {TIMES})"
        made = client.post("/api/v1/queries", headers=author, json={"text": text, "name": "faulty"})
        assert made.status_code == 201
        with armed():
            pushed = client.post(
                "/api/v1/streams/trades/rows", headers=admin, json=[{"sym": "D", "price": 5.0}]
            )
            asked = client.post(
                "/api/v1/queries/faulty/why", headers=author, json={"row": {"sym": "D", "price": 5.0}}
            )
            counted = client.get("/api/v1/queries/faulty/why_not", headers=author)
        assert (pushed.status_code, asked.status_code, counted.status_code) == (200, 200, 200)
        suspended = (
            "it is suspended, so it sees no rows: the predicate index cannot be built with it: MemoryError"
        )
        assert (asked.json()["matches"], asked.json()["notes"]) == (False, [suspended])
        assert asked.json()["error"] == "eddyline could not decide this row: MemoryError"
        assert suspended in counted.json()["notes"]
        shown = client.get("/api/v1/queries/faulty", headers=author).json()
        assert shown["state"] == "suspended"
        assert shown["suspended"]["why"] == "the predicate index cannot be built with it: MemoryError"
        cheap = client.get("/api/v1/queries/cheap/results", headers=author)
        assert '"D"' in cheap.text


def test_an_exploding_text_is_refused_wherever_a_text_can_be_sent():
    with house(None) as home, in_process(home.engine) as client:
        author, admin = home.headers("author"), home.headers("admin")
        view = f"CREATE OR REPLACE VIEW bang AS {EXPLODES}"
        for method, path, headers, body in (
            ("POST", "queries/try", author, {"text": EXPLODES}),
            ("POST", "queries/bulk", author, {"queries": {"bang": EXPLODES}}),
            ("PUT", "queries/cheap", author, {"text": EXPLODES}),
            ("POST", "rules/plan", admin, {"files": {"a.sql": view}}),
            ("POST", "rules/apply", admin, {"files": {"a.sql": view}}),
        ):
            answer = client.request(method, f"/api/v1/{path}", headers=headers, json=body)
            assert answer.status_code == (200 if path == "rules/plan" else 422), (path, answer.text)
            assert "replace would make a text of 1,000,000,000,000 bytes" in answer.text, path
        rows = [{"sym": "D", "price": 5.0}]
        assert client.post("/api/v1/streams/trades/rows", headers=admin, json=rows).json()["n_results"] == 2
