"""A small engine being served, for the tests of the server and of the client."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

import eddyline
from eddyline.server import Service, Serving, Settings, create_app, serve_in_thread

FAST = Settings(port=0, requests_per_s=100_000.0, burst=100_000)
TRADES = "sym STRING, price DOUBLE, note STRING"


@dataclass
class House:
    """An engine with a stream, queries of anna and bob, rows, and a token for everybody."""

    engine: eddyline.Engine
    tokens: dict[str, str]

    def headers(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[who]}"}


def furnished(engine: eddyline.Engine) -> House:
    engine.stream("trades", TRADES)
    engine.query("SELECT sym, price FROM trades WHERE price < 10", name="cheap", owner="anna")
    engine.query(
        "SELECT sym, price FROM trades WHERE price > 90",
        name="dear",
        owner="bob",
        per="sym",
        resolve="1 hour",
        message="{sym} at {price}",
    )
    engine.query("SELECT sym, cast(note AS INT) AS n FROM trades", name="counted", owner="anna")
    engine.push(
        "trades",
        [
            {"sym": "ACME", "price": 9.5, "note": "1"},
            {"sym": "BOLT", "price": 95.0, "note": "x"},
            {"sym": "CORE", "price": 50.0, "note": "3"},
        ],
    )
    made = {
        "reader": ("reader", "anna"),
        "author": ("author", "anna"),
        "bob": ("author", "bob"),
        "admin": ("admin", ""),
    }
    tokens = {who: engine.access.tokens.add(role, 0, owner=owner)[1] for who, (role, owner) in made.items()}
    return House(engine, tokens)


@contextmanager
def house(folder: Path | None) -> Iterator[House]:
    with eddyline.open(folder) as engine:
        yield furnished(engine)


class AppClient:
    """Calls the app itself, without a socket: one request after the other, each answered whole."""

    def __init__(self, service: Service, address: str = "127.0.0.1") -> None:
        self.service = service
        self.app = create_app(service)
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(address, 1))
        self._client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
        self._runner = asyncio.Runner()

    def request(self, method: str, path: str, **how: Any) -> httpx.Response:
        return self._runner.run(self._client.request(method, path, **how))

    def get(self, path: str, **how: Any) -> httpx.Response:
        return self.request("GET", path, **how)

    def post(self, path: str, **how: Any) -> httpx.Response:
        return self.request("POST", path, **how)

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        self.service.close()


@contextmanager
def in_process(engine: eddyline.Engine, settings: Settings = FAST) -> Iterator[AppClient]:
    client = AppClient(Service.of(engine, settings))
    try:
        yield client
    finally:
        client.close()


@contextmanager
def on_loopback(engine: eddyline.Engine, **changes: Any) -> Iterator[Serving]:
    """A real server, at a port of its own."""
    with serve_in_thread(engine, replace(FAST, **changes)) as serving:
        yield serving


def client_of(serving: Serving, token: str | None = None) -> httpx.Client:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=serving.url, headers=headers, timeout=30)


def events_in(text: str) -> list[tuple[str, str | None, str]]:
    """Kind, id and data of the whole events of a text."""
    found = []
    for block in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields.get("event", "message"), fields.get("id"), fields["data"]))
    return found


class Wire:
    """A connection that reads a stream of events byte by byte, and can be cut anywhere."""

    def __init__(self, url: str, token: str, query: str, last_id: str | None = None) -> None:
        address = urlsplit(url)
        self.socket = socket.create_connection((address.hostname, address.port), timeout=30)
        lines = [f"GET {query} HTTP/1.1", f"Host: {address.netloc}", f"Authorization: Bearer {token}"]
        lines.append("Connection: close")  # a stream the server ends is then seen to end
        if last_id is not None:
            lines.append(f"Last-Event-ID: {last_id}")
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._raw = b""

    def read(self, n_bytes: int) -> None:
        """At least so many bytes more."""
        wanted = len(self._raw) + n_bytes
        while len(self._raw) < wanted:
            chunk = self.socket.recv(65536)
            if not chunk:
                return
            self._raw += chunk

    def status(self) -> str:
        """The first line of the answer, once there is something after its head."""
        while b"\r\n\r\n" not in self._raw or self._raw.endswith(b"\r\n\r\n"):
            chunk = self.socket.recv(65536)
            assert chunk, self._raw
            self._raw += chunk
        return self._raw.partition(b"\r\n")[0].decode()

    def cut(self, at: int | None = None) -> list[tuple[str, str | None, str]]:
        """Break the connection as if no more than `at` bytes had come; the whole events among them."""
        self.socket.close()
        head, _, body = self._raw[:at].partition(b"\r\n\r\n")
        assert b"200 OK" in head, head
        return events_in(_unchunked(body).decode("utf-8", "ignore"))


def _unchunked(body: bytes) -> bytes:
    found = b""
    while b"\r\n" in body:
        size, _, rest = body.partition(b"\r\n")
        if not size:
            break
        length = int(size, 16)
        found += rest[:length]
        body = rest[length + 2 :]
    return found
