"""What requests took: counted by route, and one line of the access log for each.

The log has the path without its query string, and the id of a token, never the token, wherever the client put it.
"""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eddyline.catalog import without_tokens
from eddyline.explain import Histogram, Seconds

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "none"  # refused before it was known where it goes, or there is nothing
CLIENT_GONE = 499  # the client disconnected before there was an answer; a fault of ours is answered with 500
PROBES = frozenset({"/health", "/ready", "/metrics"})  # asked every few seconds; logged only if they fail
LONGEST_PATH = 200  # characters of the log

_logger = logging.getLogger("eddyline.access")


class HttpCounters:
    """Requests so far. Written in the loop, read from any thread."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str, str], int] = {}
        self._seconds: dict[str, Histogram] = {}

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        key = method, route, str(status)
        self._requests[key] = self._requests.get(key, 0) + 1
        histogram = self._seconds.get(route)
        if histogram is None:
            histogram = self._seconds[route] = Histogram(BUCKETS_S)
        histogram.add(seconds)

    def requests(self) -> dict[tuple[str, str, str], int]:
        """How many there were, by method, route and status."""
        return dict(self._requests)

    def seconds(self) -> dict[str, Seconds]:
        """What they took, by route; of a stream of events, until it began."""
        return {route: histogram.frozen() for route, histogram in list(self._seconds.items())}


class Traffic:
    """The outermost layer, so that refused requests are counted too."""

    def __init__(self, app: ASGIApp, counters: HttpCounters) -> None:
        self._app = app
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status, n_bytes, is_recorded = 0, 0, False

        def record() -> None:
            nonlocal is_recorded
            if not is_recorded:
                is_recorded = True
                self._record(scope, status or CLIENT_GONE, time.perf_counter() - began, n_bytes)

        async def counted_send(message: Message) -> None:
            nonlocal status, n_bytes
            if message["type"] == "http.response.start":
                status = int(message["status"])
                if _is_event_stream(message):
                    record()
            elif message["type"] == "http.response.body":
                n_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counted_send)
        finally:
            record()

    def _record(self, scope: Scope, status: int, seconds: float, n_bytes: int) -> None:
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = str(getattr(scope.get("route"), "path", NO_ROUTE))
        self._counters.add(method, route, status, seconds)
        level = logging.ERROR if status >= 500 and route not in PROBES else logging.INFO
        if route in PROBES and status < 400:
            level = logging.DEBUG
        if not _logger.isEnabledFor(level):
            return
        caller = scope.get("eddyline.caller")
        fields = {
            "method": method,
            "path": without_tokens(str(scope["path"]))[:LONGEST_PATH],
            "status": status,
            "ms": round(1e3 * seconds, 2),
            "bytes": n_bytes,
            "address": (scope.get("client") or ("", 0))[0],
            "token": None if caller is None else caller.id,
        }
        line_format = "%(method)s %(path)s %(status)s %(ms)s ms"
        _logger.log(level, line_format, fields, extra={"event": "Request", "fields": fields})


def _is_event_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )
