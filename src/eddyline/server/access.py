"""Who asks, and what they may: every request passes `Gate` before its body is read.

    addressed to us?   a server on loopback answers to no other name, so that no page of another site can reach it under its own
    who is it?         `Authorization: Bearer edl_…`, or the session cookie of the dashboard; nothing under /api/ goes without
    from our page?     a change asked for by cookie needs the header `X-Eddyline: 1`, which another site cannot send
    too often?         a bucket for every token, and one for every address that has none
    too much?          a limit for the body, and for the time it takes

What is not allowed here is refused. The role a route needs is declared with the route.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Annotated, Any

from fastapi import Depends
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eddyline.catalog import ROLES, AccessToken
from eddyline.errors import AccessError, EddylineError, RequestError
from eddyline.server.errors import Refusal, failed, forbidden, not_there
from eddyline.server.limits import BODY_QUIET_S, body_limit, body_time_s
from eddyline.server.service import Service

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OWN_HEADER = "x-eddyline"
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]*)(?::[0-9]*)?")
_OPEN = (("POST", "/api/v1/session"),)  # under /api/, without a token

_logger = logging.getLogger("eddyline.server")


@dataclass(frozen=True, slots=True)
class Caller:
    """The client that holds a token."""

    token: AccessToken
    is_cookie: bool

    @property
    def id(self) -> str:
        return self.token.id

    @property
    def owner(self) -> str:
        return self.token.owner

    @property
    def role(self) -> str:
        return self.token.role

    @property
    def is_admin(self) -> bool:
        return self.role == "admin"

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    def acts_for(self, owner: str | None) -> str | None:
        """Whose queries are meant: an admin's are those of all owners (None) unless one is named, others have only their own."""
        if self.is_admin:
            return owner
        if owner is not None and owner != self.owner:
            raise not_there(f"there is no owner {owner!r} here", "A token sees the queries of its own owner.")
        return self.owner

    def registers_for(self, owner: str | None) -> str:
        """To whom a new query belongs."""
        if owner is None:
            return self.owner
        if not self.is_admin and owner != self.owner:
            raise forbidden(
                "queries can be registered for one's own owner only",
                "Leave out owner, or ask an admin.",
            )
        return owner


def service_of(request: Request) -> Service:
    """The service the request came to."""
    service: Service = request.app.state.service
    return service


async def _service(request: Request) -> Service:
    return service_of(request)


def needs(role: str) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency: the caller has at least this role."""

    async def caller(request: Request) -> Caller:
        found: Caller | None = request.scope.get("eddyline.caller")
        assert found is not None, f"{request.url.path} was reached without a token"
        if not found.may(role):
            raise forbidden(f"this needs a token of role {role}", f"This token has role {found.role}.")
        return found

    caller.__name__ = f"needs_{role}"
    caller.role = role  # type: ignore[attr-defined]  # routes.Route shows it
    return caller


Serves = Annotated[Service, Depends(_service)]
Reader = Annotated[Caller, Depends(needs("reader"))]
Author = Annotated[Caller, Depends(needs("author"))]
Admin = Annotated[Caller, Depends(needs("admin"))]


class Gate:
    """The app behind it sees only requests that may be answered."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._noting: set[str] = set()  # tokens whose use is being written down

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def guarded_send(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            self._admit(scope)
            body = _Body(scope, receive)
            await self._app(scope, body.receive, guarded_send)
        except Refusal as refusal:
            if has_started:
                raise
            await refusal.answer(scope, receive, guarded_send)
        except Exception as error:
            if has_started:
                raise
            await failed(scope["method"], scope["path"], error)(scope, receive, guarded_send)

    def _admit(self, scope: Scope) -> None:
        service, headers = self._service, Headers(scope=scope)
        self._check_host(headers)
        path, method = str(scope["path"]), str(scope["method"])
        is_api = path.startswith("/api/")
        caller = self._caller(headers) if is_api or path == "/metrics" else None
        address = (scope.get("client") or ("", 0))[0]
        if caller is None and (is_api or path == "/login"):  # where tokens could be tried out
            _check_rate(service.by_address.wait_s(address))
            if is_api and (method, path) not in _OPEN:
                raise Refusal(401, self._no_caller(headers), {"www-authenticate": "Bearer"})
        if caller is not None:
            _check_rate(service.by_token.wait_s(caller.id))
            if caller.is_cookie and method not in SAFE_METHODS and headers.get(OWN_HEADER) != "1":
                raise forbidden(
                    "a change requested with a cookie needs the header X-Eddyline: 1",
                    "It shows that the request comes from the dashboard, not from another site.",
                )
            self._note_use(caller.token)
        scope["eddyline.caller"] = caller
        declared = headers.get("content-length", "")
        if declared.isdigit() and int(declared) > body_limit(method, path):
            raise _too_large(method, path)

    def _check_host(self, headers: Headers) -> None:
        hosts = self._service.settings.hosts
        if hosts is None:
            return
        found = _HOST.fullmatch(headers.get("host", "").lower())
        if found is None or found[1] not in hosts:
            raise Refusal(
                421,
                RequestError(
                    "this server is not addressed by this name",
                    hint="Give eddyline serve --public-url the address users open.",
                ),
            )

    def _token_text(self, headers: Headers) -> tuple[str, bool]:
        """The token of a request, empty if it has none, and whether a cookie brought it."""
        authorization = headers.get("authorization")
        if authorization is None:
            return _cookie(headers.get("cookie", ""), self._service.settings.cookie), True
        kind, _, text = authorization.partition(" ")
        return text.strip() if kind.lower() == "bearer" else "", False

    def _no_caller(self, headers: Headers) -> AccessError:
        text, is_cookie = self._token_text(headers)
        if text:
            return AccessError(
                "the session has ended" if is_cookie else "this token is not valid",
                detail="It was dropped, has expired, or is not of this server.",
                hint="Log in again." if is_cookie else "Ask for another; eddyline token add makes one.",
            )
        return AccessError(
            "this needs a token",
            hint="Send it as Authorization: Bearer edl_…; eddyline token add makes one.",
        )

    def _caller(self, headers: Headers) -> Caller | None:
        text, is_cookie = self._token_text(headers)
        if not text:
            return None
        token = self._service.access.tokens.find(text, self._service.now_us())
        return None if token is None or token.is_single_use else Caller(token, is_cookie)

    def _note_use(self, token: AccessToken) -> None:
        tokens, now_us = self._service.access.tokens, self._service.now_us()
        if token.id in self._noting or not tokens.is_use_due(token, now_us):
            return
        self._noting.add(token.id)

        def note() -> None:
            try:
                tokens.note_use(token.id, now_us)
            except EddylineError as error:  # the request is answered all the same
                _logger.warning("the use of token %s could not be noted: %s", token.id, error.problem)
            finally:
                self._noting.discard(token.id)

        asyncio.get_running_loop().run_in_executor(None, note)


class _Body:
    """The body of a request, not more than allowed and not slower than bearable."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._method, self._path = str(scope["method"]), str(scope["path"])
        self._limit = body_limit(self._method, self._path)
        self._n_bytes = 0
        self._began = time.monotonic()
        self._is_whole = False

    async def receive(self) -> Message:
        if self._is_whole:
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), BODY_QUIET_S)
        except TimeoutError:
            raise _too_slow() from None
        if message["type"] == "http.request":
            self._n_bytes += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
            if self._n_bytes > self._limit:
                raise _too_large(self._method, self._path)
            if not self._is_whole and time.monotonic() - self._began > body_time_s(self._n_bytes):
                raise _too_slow()
        return message


def _check_rate(wait_s: float) -> None:
    if wait_s > 0:
        raise Refusal(
            429,
            RequestError(
                "too many requests", hint=f"Wait {wait_s:.2f} s; several requests fit into a bulk one."
            ),
            {"retry-after": str(max(1, round(wait_s + 0.5)))},
        )


def _too_large(method: str, path: str) -> Refusal:
    limit = body_limit(method, path)
    return Refusal(
        413,
        RequestError(f"the body has more than {limit:,} bytes", hint="Send it in several requests."),
        {"connection": "close"},
    )


def _too_slow() -> Refusal:
    return Refusal(
        408,
        RequestError(
            "the body of the request did not arrive in time", hint="Send it at once, or in several requests."
        ),
        {"connection": "close"},
    )


def _cookie(header: str, name: str) -> str:
    try:
        found: Any = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return "" if found is None else str(found.value)
