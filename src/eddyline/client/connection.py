"""Requests to a server, and its answers; what it refuses is raised as what it was there."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

from eddyline.backoff import Backoff
from eddyline.documents import error_from
from eddyline.errors import ClosedError, EddylineError, PropertyError, RequestError

TRIES = 5  # of a request the server says comes too often
FIRST_PAUSE_S = 0.1  # before a stream of events is asked for again; doubles each time
LONGEST_PAUSE_S = 5.0
SILENT_S = 45.0  # the server says something every 15 s
_logger = logging.getLogger("eddyline.client")
wait = time.sleep


class Connection:
    """A server, a token, and the pool of sockets to it."""

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        if not url.startswith(("http://", "https://")):
            raise PropertyError(f"{url!r} is not the address of a server", hint="Write http://host:8321.")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.url = url.rstrip("/")
        self._client = httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=timeout_s)

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, **parameters: Any) -> Any:
        return self._ask("GET", path, params=_without_none(parameters))

    def get_bytes(self, path: str, **parameters: Any) -> bytes:
        """The body of an answer that is not JSON."""
        return self._answer("GET", path, params=_without_none(parameters)).content

    def post(
        self, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, **parameters: Any
    ) -> Any:
        return self._ask(
            "POST", path, params=_without_none(parameters), json=body, headers=dict(headers or {})
        )

    def put(self, path: str, body: Any, **parameters: Any) -> Any:
        return self._ask("PUT", path, params=_without_none(parameters), json=body)

    def delete(self, path: str, **parameters: Any) -> Any:
        return self._ask("DELETE", path, params=_without_none(parameters))

    def _ask(self, method: str, path: str, **request: Any) -> Any:
        return self._answer(method, path, **request).json()

    def _answer(self, method: str, path: str, **request: Any) -> httpx.Response:
        for attempt in range(TRIES):
            try:
                answer = self._client.request(method, path, **request)
            except httpx.TimeoutException as error:
                raise ClosedError(f"{self.url} did not answer in time", detail=_error_text(error)) from error
            except httpx.TransportError as error:
                raise ClosedError(
                    f"{self.url} cannot be reached",
                    detail=_error_text(error),
                    hint="Is eddyline serve running there?",
                ) from error
            if answer.status_code != 429 or attempt + 1 == TRIES:
                break
            wait(_retry_after(answer))  # nothing was done: asking again is safe
        if answer.status_code >= 400:
            raise refusal(answer.status_code, answer.content)
        return answer

    def events(
        self,
        path: str,
        *,
        after: str | None,
        on_lost: Callable[[int | None], None] | None,
        until: float | None = None,
        **parameters: Any,
    ) -> Iterator[dict[str, Any]]:
        """The events of a stream, each once; a connection that breaks is made again, from the last event on.

        `until` is a time of the monotonic clock, after which it ends.
        """
        backoff, last = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S), after
        while until is None or time.monotonic() < until:
            retry_s = 0.0  # how long the server wants to be left alone
            try:
                for kind, event_id, data in self._connected(path, last, until, parameters):
                    backoff.reset()
                    if event_id is not None:
                        last = event_id
                    if kind == "lost":
                        _tell_lost(data, on_lost)
                    elif data is not None:
                        yield data
            except httpx.TransportError as error:
                _logger.info("the stream from %s broke: %s", self.url, _error_text(error))
            except _Busy as busy:
                retry_s = busy.wait_s
            pause_s = backoff.pause(retry_s)
            if until is not None:
                pause_s = min(pause_s, max(0.0, until - time.monotonic()))
            wait(pause_s)

    def _connected(
        self, path: str, last: str | None, until: float | None, parameters: Mapping[str, Any]
    ) -> Iterator[tuple[str, str | None, Any]]:
        """Events of one connection: kind, id, data."""
        headers = {} if last is None else {"Last-Event-ID": last}
        silent_s = SILENT_S if until is None else max(0.05, min(SILENT_S, until - time.monotonic()))
        timeout = httpx.Timeout(SILENT_S, read=silent_s)
        request = self._client.stream(
            "GET", path, params=_without_none(parameters), headers=headers, timeout=timeout
        )
        with request as answer:
            if answer.status_code in (429, 502, 503, 504):
                raise _Busy(_retry_after(answer))
            if answer.status_code >= 400:
                raise refusal(answer.status_code, answer.read())
            yield from _parsed(answer.iter_lines())


class _Busy(Exception):
    """The server takes no streams now."""

    def __init__(self, wait_s: float) -> None:
        super().__init__()
        self.wait_s = wait_s


def _parsed(lines: Iterator[str]) -> Iterator[tuple[str, str | None, Any]]:
    """Server-sent events from their lines; one that was cut off is left out."""
    kind: str = "message"
    event_id: str | None = None
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                yield kind, event_id, json.loads("\n".join(data))
            kind, event_id, data = "message", None, []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "id":
            event_id = value
        elif name == "data":
            data.append(value)


def refusal(status: int, content: bytes) -> EddylineError:
    """The error a server answered with, as it was raised there."""
    try:
        body = json.loads(content)
        return error_from(body["error"])
    except (ValueError, KeyError, TypeError):
        text = content[:200].decode("utf-8", "replace")
        return RequestError(f"the server answered with status {status}", detail=text or None)


def _tell_lost(data: Any, on_lost: Callable[[int | None], None] | None) -> None:
    n = data.get("n") if isinstance(data, dict) else None
    if on_lost is not None:
        on_lost(n)
    else:
        _logger.warning("%s results were passed over", "some" if n is None else n)


def _retry_after(answer: httpx.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return min(float(text), 60.0) if text.isdigit() else 1.0


def _without_none(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__
