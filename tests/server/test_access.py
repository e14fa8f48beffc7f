"""Tokens, cookies, and what no request gets past."""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import replace

import pytest

import eddyline
from eddyline.server.limits import Buckets
from tests.server.served import FAST, client_of, house, in_process, on_loopback


@pytest.fixture
def home(tmp_path):
    with house(tmp_path / "home") as found:
        yield found


# --------------------------------------------------------------------------------------------- tokens


def test_the_link_of_the_first_start_logs_one_browser_in_once(tmp_path):
    with (
        eddyline.open(tmp_path / "home") as engine,
        on_loopback(engine) as serving,
        client_of(serving) as browser,
    ):
        assert serving.link is not None
        assert serving.link.startswith(f"{serving.url}/login?token=edl_")
        answer = browser.get(serving.link)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Max-Age=25" in cookie  # of 2,592,000
        me = browser.get("/api/v1/me").json()
        assert (me["role"], me["owner"]) == ("admin", "")
        with client_of(serving) as another:
            assert another.get(serving.link).status_code == 401
            assert "set-cookie" not in another.get(serving.link).headers


def test_a_link_that_nobody_used_is_replaced_at_the_next_start_and_none_is_made_once_there_is_an_admin(
    tmp_path,
):
    with eddyline.open(tmp_path / "home") as engine:
        with on_loopback(engine) as serving:
            first = serving.link
        with on_loopback(engine) as serving, client_of(serving) as browser:
            assert serving.link not in (None, first)
            assert browser.get(first.replace(first.split("/login")[0], serving.url)).status_code == 401
            assert browser.get(serving.link).status_code == 303
        with on_loopback(engine) as serving:
            assert serving.link is None


def test_the_token_of_a_link_opens_nothing_else(tmp_path):
    with eddyline.open(tmp_path / "home") as engine, on_loopback(engine) as serving:
        token = serving.link.partition("token=")[2]
        with client_of(serving, token) as client:
            assert client.get("/api/v1/status").status_code == 401


def test_tokens_survive_a_restart_and_are_nowhere_in_clear(tmp_path):
    home = tmp_path / "home"
    with eddyline.open(home) as engine:
        token, text = engine.access.tokens.add("author", 5, owner="anna", note="ci")
        assert text.startswith(f"edl_{token.id}_")
    with eddyline.open(home) as engine:
        assert engine.access.tokens.find(text, 6) == token
        assert engine.access.tokens.find(text + "x", 6) is None
        assert engine.access.tokens.find(text.replace(token.id, "0" * 12), 6) is None
    secret = text.rpartition("_")[2].encode() if text.count("_") == 2 else text.split("_", 2)[2].encode()
    for file in home.rglob("*"):
        if file.is_file():
            assert secret not in file.read_bytes(), file
    stored = sqlite3.connect(home / "catalog.db").execute("SELECT * FROM tokens").fetchall()
    assert len(stored) == 1
    assert len(stored[0][1]) == 64  # SHA-256


def test_a_token_ends_when_it_expires_and_at_once_when_it_is_dropped(home):
    tokens = home.engine.access.tokens
    token, text = tokens.add("reader", 0, expires_us=1_000)
    assert tokens.find(text, 999) == token
    assert tokens.find(text, 1_000) is None
    with in_process(home.engine) as client:
        assert client.get("/api/v1/me", headers=home.headers("reader")).status_code == 200
        reader = tokens.find(home.tokens["reader"], 0).id
        answer = client.request("DELETE", f"/api/v1/tokens/{reader}", headers=home.headers("admin"))
        assert answer.json() == {"dropped": reader}
        assert client.get("/api/v1/me", headers=home.headers("reader")).status_code == 401


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer edl_",
        "Bearer edl__",
        "Bearer edl_x_y",
        "Basic YTpi",
        "edl_x_y",
        "Bearer \x80",
    ],
)
def test_what_is_not_a_token_is_refused(home, header):
    with in_process(home.engine) as client:
        answer = client.get("/api/v1/status", headers={"Authorization": header.encode("latin-1")})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_that_was_made_is_shown_once(home):
    with in_process(home.engine) as client:
        body = {"role": "author", "owner": "carl", "note": "for carl", "expires": "30 days"}
        made = client.post("/api/v1/tokens", json=body, headers=home.headers("admin")).json()
        assert (made["role"], made["owner"], made["note"]) == ("author", "carl", "for carl")
        me = client.get("/api/v1/me", headers={"Authorization": f"Bearer {made['token']}"}).json()
        assert me == {"id": made["id"], "role": "author", "owner": "carl"}
        listed = client.get("/api/v1/tokens", headers=home.headers("admin"))
        assert made["token"] not in listed.text
        assert made["id"] in listed.text


def test_tokens_are_in_no_log_no_answer_and_no_audit_entry(tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    with (
        eddyline.open(tmp_path / "home") as engine,
        on_loopback(engine) as serving,
        client_of(serving) as browser,
    ):
        texts = [serving.link.partition("token=")[2]]
        browser.get(serving.link)
        texts.append(browser.cookies[f"eddyline-{serving.service.settings.port}"])
        made = browser.post("/api/v1/tokens", json={"role": "admin"}, headers={"X-Eddyline": "1"}).json()
        texts.append(made["token"])
        own = {"Authorization": f"Bearer {made['token']}"}
        answers = [
            browser.get(f"/api/v1/nothing?token={made['token']}", headers=own),
            browser.get(f"/login?token={made['token']}"),
            browser.post(
                "/api/v1/session", json={"token": made["token"], "x": 1}, headers={"X-Eddyline": "1"}
            ),
            browser.post("/api/v1/queries", content=b"{", headers=own | {"content-type": "application/json"}),
            browser.get(f"/api/v1/{made['token']}", headers=own),
            browser.get("/api/v1/audit", headers=own),
            browser.get("/api/v1/tokens", headers=own),
            browser.get("/api/v1/events", headers=own),
        ]
    said = capfd.readouterr()
    for text in texts:
        secret = text.split("_", 2)[2]
        for record in caplog.records:
            if record.name.split(".")[0] not in ("httpx", "httpcore"):  # the client's own, in this process
                assert secret not in record.getMessage()
        assert secret not in said.err
        assert secret not in said.out
        for answer in answers:
            assert secret not in answer.text


# --------------------------------------------------------------------------------------------- browsers


def session(client, home, who="admin"):
    answer = client.post("/api/v1/session", json={"token": home.tokens[who]}, headers={"X-Eddyline": "1"})
    assert answer.status_code == 200, answer.text
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


def test_a_change_by_cookie_needs_the_header_no_other_site_can_send(home):
    with in_process(home.engine) as client:
        cookie = session(client, home)
        assert client.get("/api/v1/me", headers=cookie).json()["role"] == "admin"
        before = home.engine.version
        for method, path in [("POST", "/queries"), ("DELETE", "/queries/q1"), ("POST", "/queries/q1/pause")]:
            answer = client.request(method, f"/api/v1{path}", headers=cookie, json={"text": "SELECT 1"})
            assert answer.status_code == 403
            assert "X-Eddyline" in answer.json()["error"]["problem"]
        assert home.engine.version == before
        assert (
            client.post("/api/v1/queries/q1/pause", headers=cookie | {"X-Eddyline": "1"}).status_code == 200
        )


def test_no_other_site_can_log_a_browser_in(home):
    with in_process(home.engine) as client:
        answer = client.post("/api/v1/session", json={"token": home.tokens["reader"]})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
        plain = {"X-Eddyline": "1", "content-type": "text/plain"}
        answer = client.post("/api/v1/session", content=b'{"token": "x"}', headers=plain)
        assert answer.status_code == 422


def test_ending_a_session_ends_the_token_that_was_made_for_it(tmp_path):
    with (
        eddyline.open(tmp_path / "home") as engine,
        on_loopback(engine) as serving,
        client_of(serving) as browser,
    ):
        browser.get(serving.link)
        text = browser.cookies[f"eddyline-{serving.service.settings.port}"]
        assert browser.delete("/api/v1/session", headers={"X-Eddyline": "1"}).status_code == 200
        assert engine.access.tokens.find(text, 0) is None


def test_ending_a_session_leaves_a_token_somebody_was_given(home):
    with in_process(home.engine) as client:
        cookie = session(client, home, "reader")
        answer = client.request("DELETE", "/api/v1/session", headers=cookie | {"X-Eddyline": "1"})
        assert "Max-Age=0" in answer.headers["set-cookie"]
        assert client.get("/api/v1/me", headers=home.headers("reader")).status_code == 200


def test_other_sites_get_nothing(home):
    """No CORS: a page of another site cannot read an answer, nor send what needs to be asked for first."""
    with in_process(home.engine) as client:
        origin = {"Origin": "https://evil.example"}
        asked = origin | {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-eddyline",
        }
        for answer in (
            client.get("/api/v1/status", headers=origin | home.headers("admin")),
            client.request("OPTIONS", "/api/v1/queries", headers=asked),
            client.get("/health", headers=origin),
        ):
            assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_every_answer_has_the_headers_that_keep_browsers_safe(home):
    with in_process(home.engine) as client:
        for path in (
            "/",
            "/health",
            "/api/v1/status",
            "/nothing",
            "/static/app.js",
            "/login",
            "/openapi.json",
        ):
            headers = client.get(path).headers
            assert headers["content-security-policy"].startswith("default-src 'self'"), path
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "no-referrer"
            assert "server" not in headers


def test_a_server_on_loopback_answers_to_no_other_name(home):
    settings = replace(FAST, public_url="https://rules.example.org").at_port(8321)
    with in_process(home.engine, settings) as client:
        for host, status in [
            ("127.0.0.1:8321", 200), ("localhost:8321", 200), ("[::1]:8321", 200), ("LOCALHOST", 200),
            ("rules.example.org", 200), ("evil.example", 421), ("evil.example:8321", 421), ("", 421),
        ]:  # fmt: skip
            assert client.get("/health", headers={"Host": host}).status_code == status, host


# --------------------------------------------------------------------------------------------- rates


def test_a_bucket_lets_a_burst_through_and_then_what_the_pace_allows():
    now = [0.0]
    buckets = Buckets(per_s=10, burst=3, clock=lambda: now[0])
    assert [buckets.wait_s("a") for _ in range(3)] == [0, 0, 0]
    assert buckets.wait_s("a") == pytest.approx(0.1)
    assert buckets.wait_s("b") == 0  # others have their own
    now[0] = 0.1
    assert buckets.wait_s("a") == 0
    assert buckets.wait_s("a") == pytest.approx(0.1)


def test_who_asks_too_often_is_told_when_to_come_back_and_others_are_served(home):
    with in_process(home.engine, replace(FAST, requests_per_s=0.001, burst=2)) as client:
        assert [client.get("/api/v1/me", headers=home.headers("reader")).status_code for _ in range(3)] == [
            200,
            200,
            429,
        ]
        answer = client.get("/api/v1/me", headers=home.headers("reader"))
        assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/api/v1/me", headers=home.headers("author")).status_code == 200
        assert [client.get("/api/v1/me").status_code for _ in range(3)] == [401, 401, 429]
        assert client.get("/health").status_code == 200


# --------------------------------------------------------------------------------------------- the audit log


def test_every_change_is_in_the_audit_log_with_who_made_it(home):
    with in_process(home.engine) as client:

        def do(who, method, path, body=None):
            given = {} if body is None else {"json": body}
            answer = client.request(method, f"/api/v1{path}", headers=home.headers(who), **given)
            assert answer.status_code in (200, 201), answer.text
            return answer.json()

        do("author", "POST", "/queries", {"text": "SELECT sym FROM trades WHERE price > 3", "name": "some"})
        do("author", "PUT", "/queries/some", {"text": "SELECT sym FROM trades WHERE price > 4"})
        do("author", "POST", "/queries/some/pause")
        do("author", "POST", "/queries/some/resume")
        do("author", "DELETE", "/queries/some")
        do("author", "POST", "/queries/bulk", {"queries": {"a": "SELECT sym FROM trades"}})
        do("admin", "POST", "/streams", {"name": "quotes", "schema": "sym STRING"})
        do("admin", "DELETE", "/streams/quotes")
        made = do("admin", "POST", "/tokens", {"role": "reader", "owner": "dora"})
        do("admin", "DELETE", f"/tokens/{made['id']}")
        do("admin", "POST", "/rules/apply", {"files": {"b.sql": "SELECT sym FROM trades WHERE price > 5"}})
        entries = do("admin", "GET", "/audit")[::-1]
        author = home.engine.access.tokens.find(home.tokens["author"], 0).id
        assert [(entry["what"], entry["who"] == author) for entry in entries] == [
            ("register query", True), ("replace query", True), ("pause query", True), ("resume query", True),
            ("drop query", True), ("register queries", True), ("declare stream", False), ("drop stream", False),
            ("add token", False), ("drop token", False), ("apply rules", False),
        ]  # fmt: skip
        assert entries[0]["owner"] == "anna"
        assert entries[0]["detail"] == {"query": "some", "id": 4}
        older = do("admin", "GET", f"/audit?before={entries[2]['id']}")
        assert [entry["what"] for entry in older] == ["replace query", "register query"]


def test_what_changes_nothing_is_not_in_the_audit_log(home):
    with in_process(home.engine) as client:
        body = {"text": "SELECT sym, price FROM trades WHERE price < 10", "name": "cheap"}
        assert client.post("/api/v1/queries", json=body, headers=home.headers("author")).status_code == 201
        client.post(
            "/api/v1/queries", json={"text": "SELECT nothing FROM trades"}, headers=home.headers("author")
        )
        client.post("/api/v1/queries/q2/pause", headers=home.headers("author"))
        assert client.get("/api/v1/audit", headers=home.headers("admin")).json() == []


# --------------------------------------------------------------------------------------------- what strangers try


def test_a_wrong_token_is_told_apart_from_none(home):
    with in_process(home.engine) as client:
        none = client.get("/api/v1/queries").json()["error"]
        wrong = client.get("/api/v1/queries", headers={"authorization": "Bearer edl_nothing"}).json()["error"]
    assert none["problem"] == "this needs a token"
    assert wrong["problem"] == "this token is not valid"
    assert wrong["detail"] == "It was dropped, has expired, or is not of this server."


def test_logging_in_is_limited_like_every_other_place_where_tokens_can_be_tried(home):
    with in_process(home.engine, replace(FAST, requests_per_s=0.001, burst=3)) as client:
        answers = [client.get("/login?token=edl_guess").status_code for _ in range(5)]
    assert answers[-2:] == [429, 429]
    assert 429 not in answers[:3]


@pytest.mark.parametrize(
    "host", ["[::1].evil", "[::1]evil:80", "127.0.0.1.evil", "[::1]:80:80", "localhost:x"]
)
def test_a_host_that_only_begins_like_this_machine_is_refused(home, host):
    hosts = frozenset({"127.0.0.1", "localhost", "[::1]"})
    with in_process(home.engine, replace(FAST, hosts=hosts)) as client:
        assert client.get("/api/v1/queries", headers={"host": host}).status_code == 421
        assert client.get("/api/v1/queries", headers={"host": "[::1]:8321"}).status_code == 401


def test_explain_has_no_error_of_a_row_that_another_owner_sees(home):
    @eddyline.udf(returns="boolean", name="telltale")
    def telltale(sym: str) -> bool:
        raise ValueError(f"secret of {sym}")

    home.engine.query(
        "SELECT sym FROM trades WHERE sym = 'BOLT' AND telltale(sym)", name="hers", owner="anna"
    )
    home.engine.query("SELECT sym FROM trades WHERE sym = 'ACME' AND telltale(sym)", name="his", owner="bob")
    home.engine.push("trades", [{"sym": "ACME"}])
    (hers,) = home.engine.get("hers", owner="anna").explain().facts["functions"]
    (his,) = home.engine.get("his", owner="bob").explain().facts["functions"]
    assert (hers["n_failed"], hers["last_message"]) == (1, "")
    assert his["last_message"] == "function telltale raised ValueError: secret of ACME"


def test_a_suspended_query_does_not_quote_rows_of_another_owner(home):
    """The breaker suspends the queries of all who call the function; each owner reads its own errors in its dead letters."""

    @eddyline.udf(returns="boolean", name="blabbing")
    def blabbing(sym: str) -> bool:
        raise ValueError(f"secret of {sym}")

    for name, owner, sym in (("hers", "anna", "BOLT"), ("his", "bob", "ACME")):
        home.engine.query(
            f"SELECT sym FROM trades WHERE sym = '{sym}' AND blabbing(sym)", name=name, owner=owner
        )
    for _ in range(3):
        home.engine.push("trades", [{"sym": "ACME"}] * 400)
    home.engine.push("trades", [{"sym": "BOLT"}])
    reason = (
        "function blabbing is not called any more: it failed on each of the last 1,200 rows, the last time: "
        "function blabbing raised ValueError"
    )
    assert home.engine.get("hers", owner="anna").suspended == reason
    with in_process(home.engine) as client:

        def read(who: str, path: str) -> str:
            answer = client.get(f"/api/v1/{path}", headers=home.headers(who))
            assert answer.status_code == 200, answer.text
            return answer.text

        hers = [read("reader", path) for path in ("queries/hers", "queries", "queries/hers/explain")]
        assert all(reason in text and "secret" not in text for text in hers)
        assert "secret" not in read("reader", "dead_letters?newest=1000")
        assert "secret of ACME" in read("bob", "dead_letters?newest=1000")
        assert "secret of ACME" in read("admin", "dead_letters?newest=1000")
