"""Every route, with every role, and with another owner's data. The table below has to name every route there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi.routing import APIRoute

import eddyline
from eddyline.server import Service, create_app
from eddyline.server.limits import MOST_PROOFS
from tests.server.served import FAST, AppClient, House, house, in_process

RESULT = "1-1-1"  # of cheap, which is anna's
OTHER_RESULT = "1-2-2"  # of dear, which is bob's
ROLES = ("nobody", "reader", "author", "admin")


@dataclass(frozen=True)
class Case:
    """The least role a route needs, what to send, and what it answers."""

    role: str
    body: Any = None
    status: int = 200
    is_owned: bool = False  # it names something of an owner: somebody else's is not there
    query: str = ""


CASES = {
    ("GET", "/api/v1/status"): Case("reader"),
    ("GET", "/api/v1/me"): Case("reader"),
    ("GET", "/api/v1/rounds"): Case("reader"),
    ("GET", "/api/v1/versions"): Case("admin"),
    ("GET", "/api/v1/versions/{version}"): Case("admin"),
    ("POST", "/api/v1/versions/{version}/rollback"): Case("admin", {"dry_run": True}),
    ("GET", "/api/v1/sources"): Case("admin"),
    ("GET", "/api/v1/sinks"): Case("admin"),
    ("POST", "/api/v1/sources/{stream}/retry"): Case("admin", status=409),  # no pipeline runs
    ("POST", "/api/v1/sinks/{name}/retry"): Case("admin", status=409),
    ("GET", "/api/v1/vocabulary"): Case("reader"),
    ("GET", "/api/v1/index"): Case("admin"),
    ("GET", "/api/v1/joins"): Case("reader"),
    ("GET", "/api/v1/aggregates"): Case("reader"),
    ("GET", "/api/v1/events"): Case("admin"),
    ("GET", "/api/v1/dead_letters"): Case("reader", query="query={query}", is_owned=True),
    ("GET", "/api/v1/streams"): Case("reader"),
    ("GET", "/api/v1/streams/{name}"): Case("reader"),
    ("GET", "/api/v1/streams/{name}/filters"): Case("reader"),
    ("POST", "/api/v1/streams"): Case("admin", {"name": "quotes", "schema": "sym STRING"}, 201),
    ("DELETE", "/api/v1/streams/{name}"): Case("admin", status=422),  # queries stand on it
    ("POST", "/api/v1/streams/{name}/rows"): Case("admin", [{"sym": "D", "price": 5.0}]),
    ("GET", "/api/v1/queries"): Case("reader"),
    ("POST", "/api/v1/queries"): Case("author", {"text": "SELECT sym FROM trades", "name": "new"}, 201),
    ("POST", "/api/v1/queries/bulk"): Case("author", {"queries": {"new": "SELECT sym FROM trades"}}, 201),
    ("POST", "/api/v1/queries/check"): Case("reader", {"text": "SELECT sym FROM trades"}),
    ("POST", "/api/v1/queries/try"): Case("author", {"text": "SELECT sym FROM trades"}),
    ("GET", "/api/v1/queries/{query}"): Case("reader", is_owned=True),
    ("PUT", "/api/v1/queries/{query}"): Case("author", {"text": "SELECT sym FROM trades"}, is_owned=True),
    ("DELETE", "/api/v1/queries/{query}"): Case("author", is_owned=True),
    ("POST", "/api/v1/queries/{query}/pause"): Case("author", is_owned=True),
    ("POST", "/api/v1/queries/{query}/resume"): Case("author", is_owned=True),
    ("GET", "/api/v1/queries/{query}/explain"): Case("reader", is_owned=True),
    ("GET", "/api/v1/queries/{query}/groups"): Case("reader", is_owned=True, status=422),  # no GROUP BY
    ("POST", "/api/v1/queries/{query}/why"): Case("reader", {"row": {"price": 3.0}}, is_owned=True),
    ("GET", "/api/v1/queries/{query}/why_not"): Case("reader", is_owned=True),
    ("GET", "/api/v1/queries/{query}/results"): Case("reader", is_owned=True),
    ("GET", "/api/v1/queries/{query}/results/arrow"): Case("reader", is_owned=True),
    ("GET", "/api/v1/results"): Case("reader", query="query={query}", is_owned=True),
    ("GET", "/api/v1/results/stream"): Case("reader", query="query={query}", is_owned=True),
    ("GET", "/api/v1/results/{id}/why"): Case("reader", is_owned=True),
    ("GET", "/api/v1/results/{id}/receipt"): Case("reader", is_owned=True),
    ("POST", "/api/v1/results/{id}/prove"): Case("author", is_owned=True),
    ("GET", "/api/v1/alerts"): Case("reader", query="query={query}", is_owned=True),
    ("GET", "/api/v1/alerts/groups"): Case("reader", query="query={query}", is_owned=True),
    ("GET", "/api/v1/alerts/history"): Case("reader", None, 409, query="query={query}", is_owned=True),
    ("POST", "/api/v1/alerts/acknowledge"): Case("author", {"query": "cheap"}, 409),  # it has no alerts
    ("GET", "/api/v1/silences"): Case("reader", query="query={query}", is_owned=True),
    ("POST", "/api/v1/silences"): Case("author", {"query": "*", "for": "1 hour"}, 201),
    ("DELETE", "/api/v1/silences/{id}"): Case("author"),
    ("GET", "/api/v1/messages"): Case("reader", query="query={query}", is_owned=True),
    ("GET", "/api/v1/alerts/stream"): Case("reader", query="query={query}", is_owned=True),
    ("POST", "/api/v1/rules/plan"): Case("admin", {"files": {"a.sql": "SELECT sym FROM trades"}}),
    ("POST", "/api/v1/rules/apply"): Case("admin", {"files": {"a.sql": "SELECT sym FROM trades"}}),
    ("GET", "/api/v1/tokens"): Case("admin"),
    ("POST", "/api/v1/tokens"): Case("admin", {"role": "reader"}, 201),
    ("DELETE", "/api/v1/tokens/{id}"): Case("admin"),
    ("GET", "/api/v1/audit"): Case("admin"),
    ("POST", "/api/v1/session"): Case("nobody", {"token": "{token}"}),
    ("DELETE", "/api/v1/session"): Case("reader"),
}
OPEN = {"/", "/favicon.ico", "/static/{name}", "/login", "/health", "/ready", "/openapi.json", "/metrics"}
# what runs until somebody goes away is tried over a real connection, in test_live.py; what needs Spark, with Spark
ENDLESS = {"/api/v1/results/stream", "/api/v1/alerts/stream"}
SLOW = {"/api/v1/results/{id}/prove"}


@pytest.fixture
def home(tmp_path) -> Iterator[House]:
    with house(tmp_path / "home") as found:
        yield found


def routes_in(part: Any) -> Iterator[Any]:
    """Routes of an app or router, with those of the routers it includes."""
    for route in part.routes:
        inside = getattr(route, "original_router", None)
        if inside is None:
            yield route
        else:
            yield from routes_in(inside)


def test_every_route_has_a_case_here(home):
    app = create_app(Service.of(home.engine, FAST))
    there, outside = set(), set()
    for route in routes_in(app):
        path = getattr(route, "path", "")
        if not path.startswith("/api/"):
            outside.add(path)
            continue
        assert isinstance(route, APIRoute), path
        there |= {(method, path) for method in route.methods}
    assert there == set(CASES)
    assert outside <= OPEN


def address(case: Case, path: str, home: House, *, is_others: bool = False) -> str:
    query, result = ("dear", OTHER_RESULT) if is_others else ("cheap", RESULT)
    if path.startswith("/api/v1/tokens/"):
        result = home.engine.access.tokens.add("reader", 0)[0].id
    if path.startswith("/api/v1/silences/"):
        result = home.engine.silence("*", for_="1 hour", owner="anna").id
    filled = path.format(query=query, id=result, name="trades", stream="trades", version=1)
    return f"{filled}?{case.query.format(query=query)}" if case.query else filled


def ask(client: AppClient, home: House, who: str, method: str, path: str, case: Case, **how: bool) -> Any:
    headers = {} if who == "nobody" else home.headers(who)
    body = case.body
    if path == "/api/v1/session":
        headers["X-Eddyline"] = "1"
        body = {"token": home.tokens["reader"]} if method == "POST" else None
    given = {} if body is None else {"json": body}
    return client.request(method, address(case, path, home, **how), headers=headers, **given)


@pytest.mark.parametrize(("method", "path"), sorted(CASES), ids=lambda part: part)
def test_a_route_answers_those_who_may_and_no_others(home, method, path):
    case = CASES[method, path]
    if path in ENDLESS | SLOW:
        allowed: tuple[str, ...] = ()
    else:
        allowed = tuple(role for role in ROLES if ROLES.index(role) >= ROLES.index(case.role))
    with in_process(home.engine) as client:
        for role in ROLES:
            if ROLES.index(role) < ROLES.index(case.role):
                answer = ask(client, home, role, method, path, case)
                assert answer.status_code == (401 if role == "nobody" else 403), answer.text
                assert answer.json()["error"]["kind"] == "AccessError"
            elif role in allowed[-1:]:
                # the change is made once, by the highest role: it may not be possible twice
                owner = "owner=anna" if role == "admin" and case.is_owned and "results/" not in path else ""
                answer = ask(client, home, role, method, path, with_owner(case, owner))
                assert answer.status_code == case.status, answer.text
            elif role in allowed and method == "GET":
                answer = ask(client, home, role, method, path, case)
                assert answer.status_code == case.status, answer.text


def with_owner(case: Case, owner: str) -> Case:
    query = "&".join(part for part in (case.query, owner) if part)
    return Case(case.role, case.body, case.status, case.is_owned, query)


@pytest.mark.parametrize(
    ("method", "path"), sorted(key for key, case in CASES.items() if case.is_owned), ids=lambda part: part
)
def test_what_belongs_to_another_owner_is_not_there(home, method, path):
    case = CASES[method, path]
    before = home.engine.version
    with in_process(home.engine) as client:
        answer = ask(client, home, "author", method, path, case, is_others=True)
        assert answer.status_code == 404, answer.text
        body = answer.text
        if "{query}" in path or "{query}" in case.query:  # by number, too
            by_number = address(case, path, home, is_others=True).replace("dear", "q2")
            given = {} if case.body is None else {"json": case.body}
            answer = client.request(method, by_number, headers=home.headers("author"), **given)
            assert answer.status_code == 404, answer.text
            nobodys = by_number.replace("q2", "q777")
            missing = client.request(method, nobodys, headers=home.headers("author"), **given)
            assert missing.text.replace("q777", "q2") == answer.text  # the two cannot be told apart
    assert "price > 90" not in body
    assert home.engine.version == before
    assert home.engine.get(2).state == "running"


def test_lists_show_an_owner_only_its_own(home):
    with in_process(home.engine) as client:

        def seen(who, path):
            return client.get(f"/api/v1{path}", headers=home.headers(who)).json()

        assert [q["name"] for q in seen("reader", "/queries")["queries"]] == ["cheap", "counted"]
        assert [q["name"] for q in seen("bob", "/queries")["queries"]] == ["dear"]
        assert [q["name"] for q in seen("admin", "/queries")["queries"]] == ["cheap", "counted", "dear"]
        assert seen("reader", "/queries?filter=dear")["total"] == 0
        assert {r["query"] for r in seen("reader", "/results")["results"]} == {"cheap", "counted"}
        assert {r["query"] for r in seen("bob", "/results?after=0")["results"]} == {"dear"}
        assert {r["query"] for r in seen("admin", "/results?after=0")["results"]} == {
            "cheap",
            "counted",
            "dear",
        }
        assert [a["query"] for a in seen("bob", "/alerts")] == ["dear"]
        assert seen("reader", "/alerts") == []
        assert seen("reader", "/messages")["messages"] == []
        assert [m["message"] for m in seen("bob", "/messages")["messages"]] == ["BOLT at 95.0"]
        assert [x["query"] for x in seen("reader", "/dead_letters")["letters"]] == ["counted"]
        assert seen("bob", "/dead_letters")["letters"] == []
        assert "home" not in seen("reader", "/status")
        assert "home" in seen("admin", "/status")


def test_rows_that_did_not_fit_are_for_admins(home):
    home.engine.push("trades", [{"sym": "A", "price": "many"}])
    with in_process(home.engine) as client:
        letters = client.get("/api/v1/dead_letters", headers=home.headers("admin")).json()["letters"]
        assert {letter["query"] for letter in letters} == {"counted", None}
        letters = client.get("/api/v1/dead_letters", headers=home.headers("reader")).json()["letters"]
        assert {letter["query"] for letter in letters} == {"counted"}


def test_naming_another_owner_leads_nowhere(home):
    with in_process(home.engine) as client:
        for path in ("/queries", "/queries/dear", "/results", "/alerts", "/messages", "/dead_letters"):
            answer = client.get(f"/api/v1{path}?owner=bob", headers=home.headers("author"))
            assert answer.status_code == 404, path
        answer = client.get("/api/v1/queries/dear?owner=bob", headers=home.headers("admin"))
        assert answer.json()["id"] == 2


@pytest.mark.parametrize(
    "body",
    [
        {"text": "SELECT sym FROM trades", "name": "x", "properties": {"owner": "bob"}},
        {"text": "SELECT sym FROM trades", "name": "x", "properties": {"Owner_": "bob"}},
        {"text": "CREATE VIEW x TBLPROPERTIES (owner = 'bob') AS SELECT sym FROM trades"},
        {"text": "CREATE VIEW x TBLPROPERTIES (OWNER = 'bob') AS SELECT sym FROM trades"},
        {"text": "CREATE VIEW x TBLPROPERTIES (owner = 'anna', OWNER = 'bob') AS SELECT sym FROM trades"},
        {"text": "CREATE OR REPLACE VIEW dear TBLPROPERTIES ('owner' = 'bob') AS SELECT sym FROM trades"},
    ],
    ids=lambda body: body["text"][:70],
)
def test_no_spelling_registers_a_query_for_another_owner(home, body):
    before = home.engine.version
    with in_process(home.engine) as client:
        answer = client.post("/api/v1/queries", json=body, headers=home.headers("author"))
        assert answer.status_code in (403, 422), answer.text
        tried = {key: value for key, value in body.items() if key != "name"}
        checked = client.post("/api/v1/queries/check", json=tried, headers=home.headers("author"))
        assert checked.status_code in (200, 403)
    assert home.engine.version == before
    assert [q.name for q in home.engine.queries()] == ["cheap", "dear", "counted"]


def test_a_query_of_the_same_name_belongs_to_whoever_registers_it(home):
    with in_process(home.engine) as client:
        body = {"text": "SELECT sym FROM trades WHERE price > 1", "name": "dear"}
        made = client.post("/api/v1/queries", json=body, headers=home.headers("author"))
        assert (made.status_code, made.json()["owner"], made.json()["id"]) == (201, "anna", 4)
        shown = client.get("/api/v1/queries/dear", headers=home.headers("bob")).json()
        assert (shown["id"], shown["text"]) == (2, "SELECT sym, price FROM trades WHERE price > 90")
        # an admin who names neither owner nor number is asked which
        answer = client.get("/api/v1/queries/dear", headers=home.headers("admin"))
        assert answer.status_code == 404
        assert "q2, q4" in answer.json()["error"]["hint"]


def test_no_more_results_are_proven_at_once_than_there_is_room_for(home):
    with in_process(home.engine) as client:
        path = f"/api/v1/results/{RESULT}/prove"
        for _ in range(MOST_PROOFS):
            assert client.service.proofs.acquire(blocking=False)
        answer = client.post(path, headers=home.headers("author"))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert answer.json()["error"]["problem"] == "other results are being proven"
        assert client.post(path, headers=home.headers("bob")).status_code == 404


def test_a_name_that_is_taken_is_told_with_a_way_out_over_http(home):
    with in_process(home.engine) as client:
        body = {"text": "SELECT sym FROM trades WHERE price > 3", "name": "cheap"}
        answer = client.post("/api/v1/queries", json=body, headers=home.headers("author"))
        assert answer.status_code == 409
        assert answer.json()["error"]["hint"] == 'Send "replace": true to change it, or another name.'
        answer = client.post("/api/v1/queries", json=body | {"replace": True}, headers=home.headers("author"))
        assert (answer.status_code, answer.json()["generation"]) == (201, 2)


def test_a_result_of_a_dropped_query_stays_its_owners(home):
    home.engine.drop(2)
    with in_process(home.engine) as client:
        path = f"/api/v1/results/{OTHER_RESULT}/receipt"
        assert client.get(path, headers=home.headers("bob")).status_code == 200
        assert client.get(path, headers=home.headers("reader")).status_code == 404
        seen = client.get("/api/v1/results?after=0", headers=home.headers("bob")).json()["results"]
        assert [(r["query"], r["cursor"]) for r in seen] == [("dear", OTHER_RESULT)]


def test_every_mistake_is_told_with_its_field(home):
    with in_process(home.engine) as client:

        def fields(body):
            found = client.post("/api/v1/queries/check", json=body, headers=home.headers("author")).json()
            assert found["ok"] is not bool(found["errors"])
            return {each["field"]: each["problem"] for each in found["errors"]}

        text = "SELECT sym FROM trades WHERE price < :most"
        wrong = {"cooldown": "5 parsecs", "for": "1 minute", "per": "price", "colour": "red"}
        found = fields({"text": text, "name": "12", "params": {"most": 5}, "properties": wrong})
        assert set(found) == {"name", *(f"properties.{word}" for word in wrong)}
        assert "not a column of the result" in found["properties.per"]
        assert set(fields({"text": "SELECT sim FROM trades", "name": "cheap"})) == {"text", "name"}
        assert "already exists" in fields({"text": text, "params": {"most": 1}, "name": "cheap"})["name"]
        assert (
            fields({"text": text, "params": {"most": 1}, "name": "dear"}) == {}
        )  # bob's name is free to anna
        assert set(fields({"text": text, "params": {"most": 1, "least": 2}})) == {"params.least"}
        assert fields({"text": text, "params": {"most": 1}, "properties": {"severity": "info"}}) == {}


def test_earlier_names_of_the_status_are_still_understood(home):
    with in_process(home.engine) as client:

        def seen(address):
            return client.get(f"/api/v1/queries{address}", headers=home.headers("admin")).json()

        every = seen("?sort=mood")
        assert every["moods"] == every["statuses"]
        assert [q["mood"] for q in every["queries"]] == [q["status"] for q in every["queries"]]
        assert seen("?mood=firing")["queries"] == seen("?status=firing")["queries"]


def test_a_folded_list_has_a_line_for_a_template_which_opens_by_its_key(home):
    home.engine.query_many(
        "SELECT sym FROM trades WHERE sym = :sym",
        params=[{"sym": s} for s in ("ACME", "BOLT")],
        name="w-{sym}",
    )
    home.engine.push("trades", [{"sym": "BOLT"}])
    with in_process(home.engine) as client:

        def seen(address):
            return client.get(f"/api/v1/queries{address}", headers=home.headers("admin")).json()

        found = seen("?fold=true&trend=5&sort=name")
        assert [line["name"] for line in found["lines"]] == ["cheap", "counted", "dear", "w-…"]
        family = found["lines"][-1]
        assert (family["n_rules"], family["parameters"], family["n_results"]) == (2, ["sym"], 1)
        home.engine.query_many(
            "SELECT sym FROM trades WHERE price = :price",
            params=[{"price": 1.0}, {"price": 2.0}],
            name="p-{price}",
        )
        two = [line for line in seen("?fold=true&trend=5&sort=name")["lines"] if "family" in line]
        assert [(line["name"], sum(line["trend"])) for line in two] == [("p-….0", 0), ("w-…", 0)]
        home.engine.push("trades", [{"sym": "BOLT", "price": 9.0}])
        two = [line for line in seen("?fold=true&trend=5&sort=name")["lines"] if "family" in line]
        assert [sum(line["trend"]) for line in two] == [0, 1]  # what came before the server counts as before
        inside = seen(f"?family={family['family']}&trend=5&sort=results")
        assert [(q["name"], q["params"], q["template"]) for q in inside["queries"]] == [
            ("w-BOLT", {"sym": "BOLT"}, family["family"]),
            ("w-ACME", {"sym": "ACME"}, family["family"]),
        ]
        alone = seen("?fold=true&filter=sym=bolt")["lines"]
        assert [line["name"] for line in alone] == ["w-BOLT"]
        assert seen("?family=none")["total"] == 0


def test_a_version_says_what_it_changed(home):
    cheap = home.engine.get("cheap", owner="anna")
    cheap.replace("SELECT sym FROM trades WHERE price < 5", cooldown="1 minute")
    version = home.engine.version
    home.engine.query_many("SELECT sym FROM trades WHERE sym = :sym", params=[{"sym": "A"}, {"sym": "B"}])
    cheap.drop()
    with in_process(home.engine) as client:

        def seen(number):
            return client.get(f"/api/v1/versions/{number}", headers=home.headers("admin")).json()

        (changed,) = seen(version)["changes"]["changed"]
        assert (changed["name"], changed["text"][-9:], changed["before"][-10:]) == (
            "cheap",
            "price < 5",
            "price < 10",
        )
        assert changed["properties"] == {"cooldown": [None, "1 minute"]}
        assert (seen(version + 1)["added"], seen(version + 1)["changes"]["added"][0]["n_rules"]) == (2, 2)
        assert [each["name"] for each in seen(version + 2)["changes"]["removed"]] == ["cheap"]
        assert client.get("/api/v1/versions/999", headers=home.headers("admin")).status_code == 404


def test_results_of_a_join_have_ids_of_their_own_in_every_round(home):
    """Also numbers that a browser, which knows only doubles, tells apart."""
    home.engine.stream("news", "sym STRING, head STRING")
    text = "SELECT t.sym, n.head FROM recent(trades, 9) t JOIN recent(news, 9) n ON t.sym = n.sym"
    home.engine.query(text, name="met", owner="anna")
    home.engine.push("news", [("ACME", "fire"), ("ACME", "merger")])
    with in_process(home.engine) as client:
        for price in (1.0, 2.0):
            rows = [{"sym": "ACME", "price": price}]
            client.post("/api/v1/streams/trades/rows", headers=home.headers("admin"), json=rows)
        found = client.get("/api/v1/queries/met/results", headers=home.headers("reader")).json()["results"]
        receipts = [
            client.get(f"/api/v1/results/{result['cursor']}/receipt", headers=home.headers("reader")).json()
            for result in found
        ]
    identities = {(result["query_id"], result["generation"], float(result["arrival"])) for result in found}
    assert len(found) == len(identities) == 4
    assert [[row["arrival"] for row in each["rows"]] for each in receipts] == [r["arrivals"] for r in found]


def test_ids_of_results_of_a_join_are_unique_over_http_also_after_reopening(tmp_path):
    text = "SELECT t.sym, n.head FROM recent(trades, 9) t JOIN recent(news, 9) n ON t.sym = n.sym"
    with house(tmp_path / "home") as home:
        home.engine.stream("news", "sym STRING, head STRING")
        home.engine.query(text, name="met", owner="anna")
        home.engine.push("news", [("ACME", "fire"), ("ACME", "merger")])
        tokens = home.tokens
    found: list[dict[str, Any]] = []
    for price in (1.0, 2.0, 3.0):
        with eddyline.open(tmp_path / "home") as engine, in_process(engine) as client:
            rows = [{"sym": "ACME", "price": price}]
            headers = {who: {"Authorization": f"Bearer {token}"} for who, token in tokens.items()}
            client.post("/api/v1/streams/trades/rows", headers=headers["admin"], json=rows)
            page = client.get("/api/v1/queries/met/results?after=0", headers=headers["reader"]).json()
            assert page["results"][: len(found)] == found
            found = page["results"]
    assert len(found) == 6
    assert len({(each["query_id"], each["generation"], each["arrival"]) for each in found}) == 6
    assert len({each["cursor"] for each in found}) == 6
