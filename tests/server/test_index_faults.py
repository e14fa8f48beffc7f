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
        assert pushed.status_code == 200
        shown = client.get("/api/v1/queries/faulty", headers=author).json()
        assert shown["state"] == "suspended"
        assert shown["suspended"]["why"] == "the predicate index cannot be built with it: MemoryError"
        cheap = client.get("/api/v1/queries/cheap/results", headers=author)
        assert '"D"' in cheap.text
