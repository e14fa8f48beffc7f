"""A receiver of webhooks for tests: a real HTTP server on this machine that answers as it is told."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LONGEST_S = 60  # after which a test has failed


@dataclass(frozen=True)
class Received:
    path: str
    headers: Mapping[str, str]
    body: bytes
    port: int  # of whoever sent it: the same as long as the connection is kept

    @property
    def delivery(self) -> str:
        return self.headers["Eddyline-Delivery"]

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def ids(self) -> list[int]:
        return [message["id"] for message in self.document["messages"]]


@dataclass(frozen=True)
class Reply:
    """An answer; `do` is what else happens: nothing, hang, close (without an answer), cut (in the middle of it), drip."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    do: str = ""


class Receiver:
    """Takes requests; the first of `replies` is used up by each, the last of them stays."""

    def __init__(self) -> None:
        self.replies: list[Reply] = [Reply()]
        self.requests: list[Received] = []
        self.released = threading.Event()  # those that hang are let go
        self.changed = threading.Condition()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                owner._take(self)

            def log_message(self, format: str, *args: object) -> None:
                """Tests are quiet."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Whoever sent it has gone."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def deliveries(self) -> list[str]:
        return [request.delivery for request in self.requests]

    def answer(self, *replies: Reply | int) -> None:
        self.replies = [Reply(each) if isinstance(each, int) else each for each in replies]

    def wait_for(self, n: int) -> list[Received]:
        """The first requests, once there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.requests) >= n, LONGEST_S), self.deliveries
            return self.requests[:n]

    def wait_for_ids(self, *ids: int) -> None:
        """Until these messages are there."""

        def has_all() -> bool:
            return set(ids) <= {each for request in self.requests for each in request.ids}

        with self.changed:
            assert self.changed.wait_for(has_all, LONGEST_S), self.deliveries

    def once_each(self) -> list[int]:
        """The messages of a receiver that drops a delivery it has seen."""
        seen: dict[str, list[int]] = {}
        for request in self.requests:
            seen.setdefault(request.delivery, request.ids)
        return [each for ids in seen.values() for each in ids]

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self.changed:
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            self.requests.append(
                Received(handler.path, dict(handler.headers.items()), body, handler.client_address[1])
            )
            self.changed.notify_all()
        if reply.do == "hang":
            self.released.wait(LONGEST_S)
        if reply.do in ("close", "hang"):
            handler.close_connection = True
            return
        if reply.do == "cut":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")
            handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            return
        handler.send_response(reply.status)
        for name, value in reply.headers:
            handler.send_header(name, value)
        if reply.do == "drip":
            handler.end_headers()
            while not self.released.wait(0.01):
                handler.wfile.write(b".")
            handler.close_connection = True
            return
        handler.send_header("Content-Length", str(len(reply.body)))
        handler.end_headers()
        handler.wfile.write(reply.body)


@contextmanager
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    try:
        yield made
    finally:
        made.close()
