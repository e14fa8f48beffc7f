"""An operator's bad day: too little memory, and users who send what is made to break; a neighbour's rules miss nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import eddyline
from tests.journeys.conftest import Shell
from tests.server.browser.people import running

PIPELINE = """
[engine]
home = "home"

[streams.payments]
schema = "n BIGINT, card STRING, amount DECIMAL(10,2)"

[limits]
memory = "{memory}"
"""
EXPLODES = "SELECT n FROM payments WHERE length(replace(repeat('a',1000000),'a',repeat('b',1000000))) > 0"
HEAVY = "SELECT n FROM payments WHERE length(replace(repeat(card,100000),'c',repeat('b',1000))) > 0"
TEXTS = {
    "many-expressions": "n IN (" + ", ".join(f"n % {k} + {k}" for k in range(2, 602)) + ")",
    "ors-of-ands": " OR ".join(f"(n > {k} AND n < {k} AND card = 'x{k}')" for k in range(300)),
    "betweens": " OR ".join(f"n + {k} BETWEEN {k} AND -{k}" for k in range(1, 301)),
    "nested-calls": "abs(" * 190 + "n" + ")" * 190 + " < 0",
    "nested-cases": "CASE WHEN n < 0 THEN 1 ELSE " * 195 + "0" + " END" * 195 + " = 1",
    "many-groups": f"card RLIKE '{'(x)' * 1000}'",
    "many-digits": f"n > {'9' * 4300}",
    "long-interval": "timestamp_seconds(n) + INTERVAL '9999999999999' DAY > now()",
    "open-comments": "n < 0 " + "/* " * 15_000,
}  # conditions no row satisfies


class Api:
    """A server, by HTTP alone; each caller has a token."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.tokens: dict[str, str] = {}

    def call(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        headers["authorization"] = f"Bearer {self.tokens[who]}"
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers.setdefault("content-type", "application/json")
        answer = httpx.request(
            method, f"{self.url}/api/v1{path}", content=content, headers=headers, timeout=120
        )
        assert answer.status_code < 500 or answer.status_code == 503, f"{path}: {answer.text}"
        return answer

    def pay(self, numbers: range, **headers: str) -> httpx.Response:
        rows = [{"n": n, "card": "c", "amount": "9.50"} for n in numbers]
        return self.call("admin", "POST", "/streams/payments/rows", rows, **headers)


@contextmanager
def serving(folder: Path, memory: str) -> Iterator[Api]:
    (folder / "eddyline.toml").write_text(PIPELINE.format(memory=memory))
    with running(folder, "eddyline.toml") as served:
        api = Api(served.url)
        saved = folder / "tokens.json"
        if saved.exists():
            api.tokens = json.loads(saved.read_text())
        else:
            with httpx.Client(base_url=served.url, headers={"x-eddyline": "1"}) as browser:
                browser.get(served.link)
                made = {
                    "admin": {"role": "admin"},
                    "anna": {"role": "author", "owner": "anna"},
                    "mallory": {"role": "author", "owner": "mallory"},
                    "reader": {"role": "reader", "owner": "mallory"},
                }
                for who, body in made.items():
                    api.tokens[who] = browser.post("/api/v1/tokens", json=body).json()["token"]
            saved.write_text(json.dumps(api.tokens))
        yield api


@pytest.fixture
def bad_day(tmp_path: Path) -> Iterator[Api]:
    """A server that had too little memory at first, with a rule of anna and one of mallory."""
    small = {"text": "SELECT n FROM payments WHERE amount < 10", "name": "small"}
    with serving(tmp_path, memory="50 MB") as api:
        assert api.call("anna", "POST", "/queries", small).status_code == 201
        refused = api.pay(range(10), **{"idempotency-key": "first"})
        assert (refused.status_code, refused.headers["retry-after"].isdigit()) == (503, True)
        error = refused.json()["error"]
        assert error["problem"] == "these rows are refused: the process is at its memory limit"
        assert "Nothing of the round has happened." in error["detail"]
        assert "memory" in error["hint"]
        assert api.call("anna", "GET", "/queries/small/results").json()["results"] == []
    with serving(tmp_path, memory="1000 GB") as api:
        assert api.pay(range(10), **{"idempotency-key": "first"}).json()["n_results"] == 10
        large = {"text": "SELECT n FROM payments WHERE amount > 1000", "name": "large"}
        assert api.call("mallory", "POST", "/queries", large).status_code == 201
        yield api


def test_attacks_are_answered_with_words_and_a_neighbour_misses_nothing(bad_day: Api) -> None:
    api, n = bad_day, 10

    def go_on() -> None:
        """Payments come meanwhile."""
        nonlocal n
        assert api.pay(range(n, n + 10)).status_code == 200
        n += 10

    # a text whose constants would take all memory, as a query, a try, a rule file; then one whose rows would
    for path in ("/queries", "/queries/check", "/queries/try"):
        answer = api.call("mallory", "POST", path, {"text": EXPLODES})
        assert "replace would make a text of 1,000,000,000,000 bytes" in answer.text, path
    planned = api.call("admin", "POST", "/rules/plan", {"files": {"bad.sql": EXPLODES}})
    assert "replace would make a text of" in planned.text
    go_on()
    made = api.call("mallory", "POST", "/queries", {"text": HEAVY, "name": "heavy"})
    assert made.status_code == 201
    go_on()
    letters = api.call("mallory", "GET", "/dead_letters?query=heavy").json()
    assert "replace would make a text of 100,000,000 bytes" in json.dumps(letters)

    # numbers that once ended the process: asked about by a reader, and sent as rows
    for amount in ("1e-1000000000", "1e1000000000", "0." + "0" * 5_000 + "1"):
        asked = api.call("reader", "POST", "/queries/large/why", {"row": {"n": 1, "amount": amount}})
        assert (asked.status_code, "is not DECIMAL(10,2)" in asked.text) == (422, True)
    lines = b'{"n": 0, "amount": "1e-1000000000"}\n{"n": 1, "amount": 1e1000000000}\n{"n": 2, "amount": 50}\n'
    sent = api.call(
        "admin", "POST", "/streams/payments/rows", lines, **{"content-type": "application/x-ndjson"}
    )
    assert (sent.json()["n_rows"], sent.json()["n_dead"] >= 2) == (1, True)
    go_on()

    # texts that are long, deep or nested: refused, or registered and explained, and rounds go on
    answers: dict[str, int] = {}
    for name, condition in TEXTS.items():
        text = f"SELECT n FROM payments WHERE {condition}"
        answers[name] = api.call("mallory", "POST", "/queries", {"text": text, "name": name}).status_code
        assert answers[name] in (201, 422), name
        if answers[name] == 201:
            for path, body in (("explain", None), ("why_not", None), ("why", {"row": {"n": 1, "card": "x"}})):
                method = "GET" if body is None else "POST"
                answer = api.call("reader", method, f"/queries/{name}/{path}", body)
                assert answer.status_code == 200, f"{name} {path}: {answer.text}"
    assert answers["many-expressions"] == answers["ors-of-ands"] == answers["betweens"] == 201
    assert answers["open-comments"] == 422
    go_on()

    # strangers, and what is another owner's
    assert httpx.get(f"{api.url}/api/v1/queries").status_code == 401
    assert api.call("mallory", "GET", "/queries/small/results").status_code == 404
    assert api.call("reader", "POST", "/queries", {"text": "SELECT n FROM payments"}).status_code == 403
    assert "small" not in api.call("mallory", "GET", "/queries").text
    go_on()

    found = api.call("anna", "GET", "/queries/small/results?after=0&limit=1000").json()["results"]
    assert [result["row"]["n"] for result in found] == list(range(n))
    shown = api.call("anna", "GET", "/queries/small").json()
    assert (shown["state"], shown["n_results"]) == ("running", n)
    assert api.call("anna", "GET", "/dead_letters?query=small").json()["total"] == 0


def test_a_clock_that_jumps_takes_nothing_and_a_damaged_catalog_is_named(
    shell: Shell, tmp_path: Path
) -> None:
    now_us = [1_790_000_000_000_000]
    with eddyline.open(tmp_path / "home", clock=lambda: now_us[0]) as engine:
        engine.stream("payments", "n BIGINT, amount INT")
        small = engine.query("SELECT n FROM payments WHERE amount < 10", name="small")
        engine.push("payments", [{"n": n, "amount": 1} for n in range(62)])
        now_us[0] += 400 * 86_400_000_000
        for _ in range(70):  # retention looks every 64 rounds
            engine.push("payments", [])
        assert [result["n"] for result in small.results()] == list(range(62))
        engine.backup(tmp_path / "copy.tar")

    catalog = tmp_path / "home" / "catalog.db"
    damaged = catalog.read_bytes().replace(b"amount < 10", b"amount < 90")
    assert damaged != catalog.read_bytes()
    catalog.write_bytes(damaged)
    refused = shell("query", "list", "--home", str(tmp_path / "home"))
    assert (refused.code, refused.out) == (1, "")
    assert "Traceback" not in refused.err
    assert f"{catalog} is damaged" in refused.err
    assert "A row of the table queries is not what was written" in refused.err
    assert catalog.read_bytes() == damaged  # nothing was written
    assert shell("restore", "copy.tar", "again").code == 0
    with eddyline.open(tmp_path / "again") as engine:
        assert len(engine.get("small").results()) == 62
