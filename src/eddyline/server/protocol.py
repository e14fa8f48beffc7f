"""A connection that gives up on a client that does not finish its request.

uvicorn waits for the headers of a request as long as it takes, and for as many as come; a few thousand connections that dribble
would hold all of a server. So there is a time for the headers from the first byte on, and a size. Bodies are looked after by the
gate.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from eddyline.server.limits import HEADER_BYTES, HEADER_S


class ImpatientProtocol(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it, within limits."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._header_timer: asyncio.TimerHandle | None = None
        self._n_header_bytes = 0
        self._is_in_headers = True

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_in_headers = self._is_in_headers
        super().data_received(data)
        if was_in_headers and self._is_in_headers:
            self._n_header_bytes += len(data)
            if self._n_header_bytes > HEADER_BYTES:
                self._refuse(431)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._is_in_headers:
            self._await_headers()

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        self._n_header_bytes = 0
        self._stop_timer()
        super().on_headers_complete()

    def _await_headers(self) -> None:
        self._is_in_headers = True
        self._n_header_bytes = 0
        self._stop_timer()
        self._header_timer = self.loop.call_later(HEADER_S, self._refuse, 408)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _refuse(self, status: int) -> None:
        if self.transport.is_closing():
            return
        earlier: Any = self.cycle  # None before the first request
        if earlier is None or earlier.response_complete:  # else an earlier answer is being sent
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
