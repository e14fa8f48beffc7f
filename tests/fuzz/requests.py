"""Fuzz target for HTTP: any method, path, header and body, answered by the app itself.

An input is written as a request is, with the name of a role in place of a token:

    POST /api/v1/queries/cheap/why
    reader application/json

    {"row": {"price": "1e-1000000000"}}
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import eddyline
from eddyline.server import Service, create_app
from tests.server.served import FAST, House, furnished

MOST_QUERIES = 50
ENDLESS = "/stream"  # of events


class Server:
    """An app and the house it serves, made anew when requests have filled it."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._open()

    def _open(self) -> None:
        self.house: House = furnished(eddyline.open())
        self.house.engine.stream(
            "paid", "n DECIMAL(10,2), l ARRAY<DECIMAL(5,1)>, t TIMESTAMP, v DATE, m MAP<STRING, INT>"
        )
        self.house.engine.query("SELECT n FROM paid WHERE n > 1", name="large", owner="anna")
        self.service = Service.of(self.house.engine, FAST)
        self.app = create_app(self.service)

    def answer(
        self, method: str, path: bytes, query: bytes, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> None:
        """Asserts that the answer is whole and is not about a failure of the server."""
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": unquote(path.decode("ascii", "replace")), "raw_path": path, "query_string": query, "root_path": "",
            "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        sent: list[dict[str, Any]] = []
        self._runner.run(self._call(scope, body, sent))
        status = sent[0]["status"]
        text = b"".join(part.get("body", b"") for part in sent[1:])
        assert 200 <= status < 500 or status == 503, (status, text)
        if dict(sent[0]["headers"]).get(b"content-type", b"").startswith(b"application/json"):
            json.loads(text)
        if self.house.engine.n_queries > MOST_QUERIES or not self.house.engine.streams():
            self._close()
            self._open()

    async def _call(self, scope: dict[str, Any], body: bytes, sent: list[dict[str, Any]]) -> None:
        parts = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            return next(parts, {"type": "http.disconnect"})

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)

    def _close(self) -> None:
        self.service.close()
        self.house.engine.close()


def http_requests(folder: Path) -> Callable[[bytes], None]:
    """Requests with bodies, paths, query strings and headers of any kind."""
    logging.disable(logging.CRITICAL)
    server = Server()

    def target(data: bytes) -> None:
        head, _, body = data.partition(b"\n\n")
        first, _, second = head.partition(b"\n")
        method, _, address = first.partition(b" ")
        who, _, kind = second.partition(b" ")
        path, _, query = address.partition(b"?")
        if ENDLESS in unquote(path.decode("ascii", "replace")).rstrip("/")[-len(ENDLESS) :]:
            return
        headers = [(b"host", b"127.0.0.1"), (b"content-type", kind), (b"content-length", b"%d" % len(body))]
        role = who.decode(errors="replace")
        token = server.house.tokens.get(role)
        headers.append((b"authorization", b"Bearer " + (who if token is None else token.encode())))
        server.answer(method.decode(errors="replace"), path, query, headers, body)

    return target
