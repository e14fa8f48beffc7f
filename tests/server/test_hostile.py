"""Requests that mean harm: too large, too slow, made up, and words that try to be something else."""

from __future__ import annotations

import json
import socket
import threading
from urllib.parse import urlsplit

import pytest

from eddyline.server import access, limits, protocol
from eddyline.server.limits import BODY_BYTES, LARGE_BODY_BYTES, body_limit
from tests import nasty_texts
from tests.server.served import client_of, house, in_process, on_loopback


@pytest.fixture
def home(tmp_path):
    with house(tmp_path / "home") as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """For what changes nothing."""
    with house(tmp_path_factory.mktemp("home") / "home") as found, in_process(found.engine) as client:
        yield found, client


# --------------------------------------------------------------------------------------------- too large


def test_bodies_have_limits_by_what_they_are_for():
    assert body_limit("POST", "/api/v1/queries") == BODY_BYTES
    assert body_limit("PUT", "/api/v1/queries/x") == BODY_BYTES
    for path in ("/streams/trades/rows", "/queries/bulk", "/rules/plan", "/rules/apply"):
        assert body_limit("POST", f"/api/v1{path}") == LARGE_BODY_BYTES
    assert body_limit("PUT", "/api/v1/queries/rows") == BODY_BYTES


@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "in chunks"])
def test_a_body_that_is_too_large_is_refused_before_it_is_read(home, monkeypatch, is_declared):
    monkeypatch.setattr(limits, "BODY_BYTES", 1_000)
    with on_loopback(home.engine) as serving, client_of(serving, home.tokens["author"]) as client:
        body = json.dumps({"text": "SELECT sym FROM trades", "name": "x" * 2_000}).encode()
        sent = body if is_declared else iter([body[:1500], body[1500:]])
        answer = client.post("/api/v1/queries", content=sent, headers={"content-type": "application/json"})
        assert answer.status_code == 413
        assert "1,000 bytes" in answer.json()["error"]["problem"]
        assert client.get("/api/v1/me").status_code == 200
    assert home.engine.n_queries == 3


def test_a_text_that_is_too_long_is_refused(shared):
    home, client = shared
    text = f"SELECT sym FROM trades WHERE sym = '{'x' * 100_000}'"
    for path in ("/queries", "/queries/check"):
        answer = client.post(f"/api/v1{path}", json={"text": text}, headers=home.headers("author"))
        assert answer.status_code == 422
        assert "100000 characters" in answer.json()["error"]["detail"]


def test_headers_that_never_end_are_cut_off(home):
    with on_loopback(home.engine) as serving:
        wire = connected(serving)
        wire.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        with pytest.raises(OSError):  # noqa: PT012, whichever of the two notices
            for _ in range(1_000):
                wire.sendall(b"X-A: " + b"a" * 1_000 + b"\r\n")
            if b"431" not in wire.recv(1_000):
                raise ConnectionResetError
            raise ConnectionAbortedError
        wire.close()
        with client_of(serving) as client:
            assert client.get("/health").status_code == 200


def test_a_deeply_nested_body_is_refused(shared):
    home, client = shared
    headers = home.headers("author") | {"content-type": "application/json"}
    body = b'{"text": "SELECT 1", "params": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert client.post("/api/v1/queries", content=body, headers=headers).status_code == 422


def test_texts_that_try_to_break_the_reader_are_refused_or_answered(home):
    """From a thread of the server, which is deep in calls of its own."""
    headers = home.headers("author")
    with in_process(home.engine) as client:
        home.engine.stream("s", nasty_texts.SCHEMA)
        for name in (
            "calls, 201",
            "types",
            "comments",
            "a number",
            "years",
            "an interval compared",
            "groups of patterns",
        ):
            text = f"SELECT a FROM s WHERE {nasty_texts.REFUSED[name]}"
            if len(text) <= 60_000:
                for path in ("/queries", "/queries/check"):
                    answer = client.post(f"/api/v1{path}", json={"text": text}, headers=headers)
                    is_refused = answer.status_code == 422 or answer.json().get("error") is not None
                    assert is_refused, (name, answer.text[:500])
            files = {"files": {"rules.sql": f"CREATE VIEW v AS {text};"}}
            planned = client.post("/api/v1/rules/plan", json=files, headers=home.headers("admin"))
            assert '"shown":"rules.sql:1' in planned.text, (name, planned.text[:500])
        for k, text in enumerate(nasty_texts.nested(190).values()):
            body = {"text": f"SELECT a FROM s WHERE {text}", "name": f"deep{k}"}
            assert client.post("/api/v1/queries", json=body, headers=headers).status_code == 201
            home.engine.push("s", [nasty_texts.ROW])
            path = f"/api/v1/queries/deep{k}"
            assert client.get(f"{path}/explain", headers=headers).status_code == 200
            assert client.get(f"{path}/why_not", headers=headers).status_code == 200
            why = client.post(f"{path}/why", json={"row": nasty_texts.ROW}, headers=headers)
            assert why.json()["matches"] is True, why.text[:500]
        assert client.get("/api/v1/index", headers=home.headers("admin")).status_code == 200


# --------------------------------------------------------------------------------------------- too slow


def connected(serving) -> socket.socket:
    address = urlsplit(serving.url)
    return socket.create_connection((address.hostname, address.port), timeout=30)


@pytest.mark.parametrize(
    "begun", [b"", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "], ids=["nothing", "headers"]
)
def test_who_does_not_finish_asking_is_let_go(home, monkeypatch, begun):
    monkeypatch.setattr(protocol, "HEADER_S", 0.2)
    with on_loopback(home.engine) as serving:
        wires = [connected(serving) for _ in range(50)]
        for wire in wires:
            wire.sendall(begun)
        for wire in wires:
            assert wire.recv(1_000).startswith(b"HTTP/1.1 408 ")
            assert wire.recv(1_000) == b""
            wire.close()


def test_dribbling_headers_do_not_win_time(home, monkeypatch):
    monkeypatch.setattr(protocol, "HEADER_S", 0.2)
    with on_loopback(home.engine) as serving:
        wire = connected(serving)
        wire.sendall(b"GET /health HTTP/1.1\r\n")
        ended = threading.Event()

        def dribble() -> None:
            try:
                while not ended.wait(0.02):
                    wire.sendall(b"X: y\r\n")
            except OSError:
                return

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            assert wire.recv(1_000).startswith(b"HTTP/1.1 408 ")
        finally:
            ended.set()
            thread.join()
            wire.close()


def test_a_second_request_of_a_connection_has_its_own_time(home, monkeypatch):
    monkeypatch.setattr(protocol, "HEADER_S", 0.3)
    whole = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with on_loopback(home.engine) as serving:
        wire = connected(serving)
        for _ in range(3):
            wire.sendall(whole)
            assert wire.recv(4_000).startswith(b"HTTP/1.1 200 ")
        wire.sendall(whole[:20])
        assert wire.recv(1_000).startswith(b"HTTP/1.1 408 ")
        wire.close()


def test_a_body_that_does_not_come_is_not_waited_for(home, monkeypatch):
    monkeypatch.setattr(access, "BODY_QUIET_S", 0.2)
    with on_loopback(home.engine) as serving:
        wire = connected(serving)
        wire.sendall(
            b"POST /api/v1/queries HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer " + home.tokens["author"].encode() + b"\r\nContent-Length: 100\r\n\r\n{"
        )
        said = wire.recv(4_000)
        assert said.startswith(b"HTTP/1.1 408 ")
        wire.close()


def test_a_body_that_dribbles_has_an_end(home, monkeypatch):
    monkeypatch.setattr(limits, "BODY_QUIET_S", 0.1)
    monkeypatch.setattr(limits, "BODY_BYTES_PER_S", 1_000_000)
    with on_loopback(home.engine) as serving:
        wire = connected(serving)
        wire.sendall(
            b"POST /api/v1/queries HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer "
            + home.tokens["author"].encode()
            + b"\r\nContent-Length: 1000000\r\n\r\n"
        )
        ended = threading.Event()

        def dribble() -> None:
            try:
                while not ended.wait(0.02):
                    wire.sendall(b" ")
            except OSError:
                return

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            assert wire.recv(1_000).startswith(b"HTTP/1.1 408 ")
        finally:
            ended.set()
            thread.join()
            wire.close()


# --------------------------------------------------------------------------------------------- words


WORDS = [
    "'; DROP TABLE queries; --",
    '" OR 1=1 --',
    "x' OR 'a'='a",
    "cheap; DROP VIEW cheap",
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "<script>alert(1)</script>",
    "${jndi:ldap://x}",
    "{query.__class__}",
    "%00",
    "a\u0000b",
    "\u202e",
    "q99999999999999999999",
    "-1",
]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_in_an_address_is_a_name_and_nothing_else(shared, word):
    home, client = shared
    before = home.engine.version
    for path in (
        f"/queries/{word}", f"/queries/{word}/results", f"/queries/{word}/explain", f"/streams/{word}",
        f"/results/{word}/receipt", f"/results/{word}/why", f"/static/{word}",
    ):  # fmt: skip
        base = "" if path.startswith("/static") else "/api/v1"
        answer = client.get((base + path).replace("\0", "%00"), headers=home.headers("admin"))
        assert answer.status_code in (404, 422), (path, answer.text)
    for path in ("/queries", "/results", "/dead_letters", "/alerts", "/messages"):
        for name in ("query", "filter", "owner", "stream", "state", "after"):
            answer = client.get(f"/api/v1{path}", params={name: word}, headers=home.headers("reader"))
            assert answer.status_code in (200, 404, 422), (path, name, answer.text)
            assert "price > 90" not in answer.text
    assert home.engine.version == before
    assert home.engine.n_queries == 3


@pytest.mark.parametrize("word", WORDS)
def test_a_word_as_a_value_stays_a_value(home, word):
    """In params, in rows, in names: it is compared, kept and shown as it is."""
    with in_process(home.engine) as client:
        author, admin = home.headers("author"), home.headers("admin")
        body = {
            "text": "SELECT sym FROM trades WHERE sym = :word",
            "name": f"n {word}",
            "params": {"word": word},
        }
        made = client.post("/api/v1/queries", json=body, headers=author)
        if not body["name"].isprintable():
            assert made.status_code == 422
            body["name"] = "plain"
            made = client.post("/api/v1/queries", json=body, headers=author)
        assert (made.status_code, made.json()["name"]) == (201, body["name"])
        pushed = client.post(
            "/api/v1/streams/trades/rows", json=[{"sym": word, "price": 50.0}], headers=admin
        )
        assert pushed.json()["n_rows"] == 1
        results = client.get(f"/api/v1/queries/q{made.json()['id']}/results", headers=author).json()[
            "results"
        ]
        assert [result["row"] for result in results] == [{"sym": word}]
        assert home.engine.n_queries == 4


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE trades",
        "SELECT sym FROM trades; DROP VIEW cheap",
        "CREATE TABLE x (a INT)",
        "CREATE VIEW a AS SELECT sym FROM trades; CREATE VIEW b AS SELECT sym FROM trades",
        "ALTER VIEW cheap SET TBLPROPERTIES (owner = 'bob')",
        "/* x */ CREATE VIEW a TBLPROPERTIES (owner = 'bob') AS SELECT sym FROM trades",
        "SELECT * FROM queries",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM parquet.`/etc/passwd`",
        "SELECT reflect('java.lang.Runtime', 'exec') FROM trades",
        "SELECT sym FROM trades WHERE price < (SELECT max(price) FROM trades)",
        "",
        "   ",
        ";",
        "\u0000",
    ],
)
def test_only_one_select_can_be_registered(shared, text):
    home, client = shared
    before = home.engine.version
    answer = client.post("/api/v1/queries", json={"text": text}, headers=home.headers("author"))
    assert answer.status_code in (403, 422), answer.text
    named = {"queries": {"one": "SELECT sym FROM trades", "two": text}}
    answer = client.post("/api/v1/queries/bulk", json=named, headers=home.headers("author"))
    assert answer.status_code == 422, answer.text
    answer = client.request(
        "PUT", "/api/v1/queries/cheap", json={"text": text}, headers=home.headers("author")
    )
    assert answer.status_code == 422, answer.text
    assert home.engine.version == before


def test_a_message_cannot_reach_into_python(shared):
    home, client = shared
    for message in ("{sym.__class__}", "{sym[0]}", "{0}", "{sym!r:{price}}"):
        body = {"text": "SELECT sym, price FROM trades", "properties": {"per": "sym", "message": message}}
        answer = client.post("/api/v1/queries/check", json=body, headers=home.headers("reader"))
        assert answer.json()["ok"] is False, message


@pytest.mark.parametrize("name", ["q1", "12", "q007"])
def test_a_query_cannot_be_named_like_a_number(shared, name):
    home, client = shared
    body = {"text": "SELECT sym FROM trades", "name": name}
    assert client.post("/api/v1/queries", json=body, headers=home.headers("author")).status_code == 422


def test_a_number_leads_to_the_query_it_belongs_to_whatever_others_are_called(home):
    home.engine.query("SELECT sym FROM trades WHERE price > 7", name="q1", owner="anna")  # not over HTTP
    with in_process(home.engine) as client:
        shown = client.get("/api/v1/queries/q1", headers=home.headers("author")).json()
        assert (shown["id"], shown["name"]) == (1, "cheap")
        assert client.get("/api/v1/queries/q4", headers=home.headers("author")).json()["name"] == "q1"
        explained = client.get("/api/v1/queries/q1/explain", headers=home.headers("author")).json()
        assert explained["name"] == "cheap"


@pytest.mark.parametrize(
    "name",
    [
        "../a.sql",
        "/etc/a.sql",
        "a/../../b.sql",
        "..",
        ".",
        "",
        "a\\b.sql",
        "a\u0000.sql",
        "x" * 300,
        "a.sql/b.sql",
    ],
)
def test_a_rule_file_cannot_lie_outside(shared, name, tmp_path):
    home, client = shared
    before = home.engine.version
    body = {"files": {"a.sql": "SELECT sym FROM trades", name: "SELECT sym FROM trades"}}
    for path in ("/rules/plan", "/rules/apply"):
        answer = client.post(f"/api/v1{path}", json=body, headers=home.headers("admin"))
        assert answer.status_code == 422, answer.text
    assert home.engine.version == before


def test_a_rule_file_cannot_declare_a_table_of_files_of_the_server(shared, tmp_path):
    home, client = shared
    before = home.engine.version
    rules = (
        f"CREATE TABLE stolen (sym STRING PRIMARY KEY) USING csv OPTIONS (path '{tmp_path}') "
        "TBLPROPERTIES (static = 'true')"
    )
    for path in ("/rules/plan", "/rules/apply"):
        answer = client.post(
            f"/api/v1{path}", json={"files": {"a.sql": rules}}, headers=home.headers("admin")
        )
        assert answer.status_code == 422, answer.text
        assert "static table stolen cannot be declared from afar" in answer.text
    assert home.engine.version == before


def test_a_rule_file_cannot_name_a_table_elsewhere(shared, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("sym,limit\nTOPSECRET,1\n")
    home, client = shared
    rules = f"CREATE VIEW `w-{{sym}}` TBLPROPERTIES (rules_table = '{secret}') AS SELECT sym FROM trades WHERE sym = :sym"
    answer = client.post(
        "/api/v1/rules/plan", json={"files": {"a.sql": rules}}, headers=home.headers("admin")
    )
    assert "TOPSECRET" not in answer.text


# --------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "path",
    [
        "/static/..%2f__init__.py", "/static/%2e%2e/app.py", "/static/../app.py", "/static//etc/passwd",
        "/static/%2fetc%2fpasswd", "/static/....//app.py", "/static/app.py", "/static/", "/static/.", "/static/..",
        "/static/app.js%00.css", "/static/dashboard/app.js", "/static/..\\app.py",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_dashboard(home, path):
    with on_loopback(home.engine) as serving:
        address = urlsplit(serving.url)
        wire = connected(serving)  # as it is: clients tidy paths up
        wire.sendall(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n\r\n".encode())
        said = b""
        while chunk := wire.recv(65_536):
            said += chunk
        wire.close()
        assert said.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 400 ")), said[:200]


def test_files_of_the_dashboard_have_their_types_and_are_asked_for_again(shared):
    _, client = shared
    for path, kind in [
        ("/", "text/html"),
        ("/static/app.js", "text/javascript"),
        ("/static/style.css", "text/css"),
    ]:
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["cache-control"] == "no-cache"
        again = client.get(path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


# --------------------------------------------------------------------------------------------- bodies that are none


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b'{"text": NaN}',
        b'{"text": "\\ud800"}',
        b'{"text": 1}',
        b"1" * 5_000,
    ],
    ids=lambda body: repr(body[:20]),
)
@pytest.mark.parametrize(
    "path", ["/queries", "/queries/check", "/queries/bulk", "/streams/trades/rows", "/rules/plan", "/tokens"]
)
def test_what_is_no_request_is_refused_with_words(shared, path, body):
    home, client = shared
    headers = home.headers("admin") | {"content-type": "application/json"}
    answer = client.post(f"/api/v1{path}", content=body, headers=headers)
    if path.endswith("/rows") and body == b"[]":
        assert answer.status_code == 200  # a round without rows
        return
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["problem"]


def test_half_a_character_in_a_value_is_refused(shared):
    home, client = shared
    headers = home.headers("admin") | {"content-type": "application/json"}
    body = b'[{"sym": "\\ud800", "price": 1.0}]'
    assert client.post("/api/v1/streams/trades/rows", content=body, headers=headers).status_code == 422
    whole = b'[{"sym": "\\ud83d\\ude00", "price": 1.0}]'
    assert client.post("/api/v1/streams/trades/rows", content=whole, headers=headers).status_code == 200


def test_a_decimal_with_an_exponent_out_of_range_is_refused_to_readers_and_costs_its_row(home):
    home.engine.stream("paid", "sym STRING, amount DECIMAL(10,2), parts ARRAY<DECIMAL(10,2)>")
    home.engine.query("SELECT sym FROM paid WHERE amount > 1", name="large", owner="anna")
    with in_process(home.engine) as client:
        for row in (
            {"amount": "1e-1000000000"},
            {"amount": "0." + "0" * 5_000 + "1"},
            {"amount": "1e1000000000"},
        ):
            answer = client.post(
                "/api/v1/queries/large/why", json={"row": {"sym": "A", **row}}, headers=home.headers("reader")
            )
            assert answer.status_code == 422, answer.text
            assert "is not DECIMAL(10,2)" in answer.text
        pushed = client.post(
            "/api/v1/streams/paid/rows",
            content=b'{"amount": 1e-1000000000, "sym": "a DOUBLE, 0"}\n{"amount": "1e-1000000000"}\n'
            b'{"parts": [1e-1000000000]}\n{"amount": 2}',
            headers=home.headers("admin") | {"content-type": "application/x-ndjson"},
        )
        assert (pushed.json()["n_rows"], pushed.json()["n_dead"]) == (2, 2)


def test_a_decimal_with_an_exponent_out_of_range_is_no_parameter(home):
    home.engine.stream("paid", "sym STRING, amount DECIMAL(10,2)")
    text = "SELECT sym FROM paid WHERE amount > :least"
    with in_process(home.engine) as client:
        for value in ("1e-1000000000", "1e1000000000"):
            for body in (
                f'{{"text": "{text}", "name": "large", "params": {{"least": {value}}}}}',
                f'{{"text": "{text}", "name": "large", "params": {{"least": "{value}"}}}}',
                f'{{"text": "SELECT sym FROM paid WHERE amount > {value}BD", "name": "large"}}',
            ):
                for path in ("queries", "queries/try", "queries/check"):
                    headers = home.headers("author") | {"content-type": "application/json"}
                    answer = client.post(f"/api/v1/{path}", content=body.encode(), headers=headers)
                    assert answer.status_code in (200, 201, 422), answer.text
        pushed = client.post(
            "/api/v1/streams/paid/rows", json=[{"sym": "A", "amount": "2.50"}], headers=home.headers("admin")
        )
        assert (pushed.status_code, pushed.json()["n_dead"]) == (200, 0)
