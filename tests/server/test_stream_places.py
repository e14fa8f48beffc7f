"""How many streams of events a token may have open, over real connections: each is counted, and frees its place when it ends."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from eddyline.server import Service, create_app, process
from tests.server.served import FAST, Wire, client_of, house, on_loopback

PATH = "/api/v1/results/stream"
pytestmark = pytest.mark.thorough


@pytest.fixture
def home(tmp_path):
    with house(tmp_path / "home") as found:
        yield found


def wait_for(condition) -> None:
    """The server notices by and by that a client is gone; a test that waits in vain is ended by its timeout."""
    waiting = threading.Event()
    while not condition():
        waiting.wait(0.005)


def open_stream(serving, token: str, path: str = PATH) -> Wire:
    wire = Wire(serving.url, token, path)
    assert wire.status() == "HTTP/1.1 200 OK"
    return wire


def test_one_reader_cannot_take_all_streams_of_events(home):
    reader, other = home.tokens["reader"], home.tokens["bob"]
    with on_loopback(home.engine, streams_per_token=2) as serving:
        first, second = open_stream(serving, reader), open_stream(serving, reader, "/api/v1/alerts/stream")
        with client_of(serving, reader) as client:
            refused = client.get(PATH)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        error = refused.json()["error"]
        assert error["problem"] == "this token has 2 streams of events open, and may have no more"
        assert "--streams" in error["hint"]
        open_stream(serving, other).socket.close()
        first.socket.close()
        places = serving.service.hub.places
        wait_for(lambda: sum(places.n_by_token.values()) == 1)
        third = open_stream(serving, reader)
        assert Wire(serving.url, reader, PATH).status() == "HTTP/1.1 429 Too Many Requests"
        for wire in (second, third):
            wire.socket.close()
        wait_for(lambda: not places.n_by_token and places.n_streams == 0)


def test_requests_that_come_together_are_counted_one_by_one(home):
    """Twenty requests in one turn of the loop: none sees the place of another as free before its stream has begun."""
    service = Service.of(home.engine, replace(FAST, streams_per_token=3))
    app = create_app(service)
    headers = [(name.lower().encode(), value.encode()) for name, value in home.headers("reader").items()]
    statuses: list[int] = []

    async def ask(is_over: asyncio.Event) -> None:
        asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> dict[str, Any]:
            if (message := next(asked, None)) is None:
                await is_over.wait()
            return message or {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                if len(statuses) == 20:
                    is_over.set()

        scope = {"type": "http", "method": "GET", "path": PATH, "query_string": b"", "headers": headers}
        await app(scope | {"asgi": {"spec_version": "2.3"}, "client": ("127.0.0.1", 1)}, receive, send)

    async def ask_all() -> None:
        is_over = asyncio.Event()
        await asyncio.gather(*(ask(is_over) for _ in range(20)))

    asyncio.run(ask_all())
    assert sorted(statuses) == [200] * 3 + [429] * 17
    assert (service.hub.places.n_streams, dict(service.hub.places.n_by_token)) == (0, {})
    service.close()


@pytest.mark.parametrize("is_full", [False, True], ids=["idle", "full"])
def test_a_client_that_vanishes_leaves_its_place(home, is_full):
    """It resets the connection without a word; in the second case while the server waits for it to read."""
    with on_loopback(home.engine, streams_per_token=1) as serving:
        wire = open_stream(serving, home.tokens["reader"], PATH + "?after=0")
        if is_full:
            long = "7" + " " * 100_000
            for _ in range(100):
                home.engine.push("trades", [{"sym": long, "price": 1.0, "note": "1"}] * 5)
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets
        wire.socket.close()
        wait_for(lambda: not serving.service.hub.places.n_by_token)
        open_stream(serving, home.tokens["reader"]).socket.close()


def test_a_client_without_a_network_is_given_up(home):
    """No end of the connection ever comes from it: what it does not confirm within a minute ends it."""
    with on_loopback(home.engine) as serving, closing(open_stream(serving, home.tokens["reader"]).socket):
        (connection,) = serving._server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


def test_a_server_with_open_streams_ends_by_itself(home):
    with on_loopback(home.engine) as serving:
        wires = [open_stream(serving, home.tokens[who]) for who in ("reader", "bob", "admin")]
        wires.append(open_stream(serving, home.tokens["admin"], "/api/v1/alerts/stream?after=0"))
        places = serving.service.hub.places
    for wire in wires:
        while wire.socket.recv(65536):  # up to the end
            pass
        wire.socket.close()
    assert (places.n_streams, dict(places.n_by_token)) == (0, {})


def test_a_client_that_does_not_read_does_not_keep_a_server_from_ending(home, monkeypatch):
    monkeypatch.setattr(process, "REQUESTS_END_S", 1)
    with on_loopback(home.engine) as serving:
        stuck = open_stream(serving, home.tokens["reader"], PATH + "?after=0")
        long = "7" + " " * 100_000
        for _ in range(100):
            home.engine.push("trades", [{"sym": long, "price": 1.0, "note": "1"}] * 5)
        places = serving.service.hub.places
    assert (places.n_streams, dict(places.n_by_token)) == (0, {})
    stuck.socket.close()
