"""What all routers share: how bodies are read, and which errors every route may answer with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from eddyline.errors import RequestError
from eddyline.server import models
from eddyline.server.errors import Refusal

_BEARER = HTTPBearer(auto_error=False)  # for /openapi.json: the gate has looked at it before
LARGE_BODY = 64 << 10  # bytes, from which on reading it is not left to the loop
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": models.ErrorAnswer, "description": description}
    for status, description in (
        (401, "No token that holds"),
        (403, "The role of the token does not allow this"),
        (404, "Does not exist, or belongs to another owner"),
        (408, "The body did not arrive in time"),
        (409, "The query is in a state that does not allow this"),
        (413, "Too large"),
        (422, "The text, the data or the request is wrong"),
        (429, "Too many requests"),
        (503, "The engine is closed, or everything is taken"),
    )
}


class _Request(Request):
    """Large bodies are read in a thread."""

    async def json(self) -> Any:
        body = await self.body()
        return json_of(body) if len(body) < LARGE_BODY else await run_in_threadpool(json_of, body)


class Route(APIRoute):
    """A route that says in /openapi.json which role it needs, as `x-eddyline-role`; none if no token is needed."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        needed = (getattr(each.call, "role", None) for each in self.dependant.dependencies)
        role = next(filter(None, needed), None)
        if role is not None:
            self.openapi_extra = (self.openapi_extra or {}) | {"x-eddyline-role": role}

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_with(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return handle_with


def router(tag: str) -> APIRouter:
    return APIRouter(
        prefix="/api/v1", tags=[tag], route_class=Route, responses=ERRORS, dependencies=[Depends(_BEARER)]
    )


def json_of(body: bytes) -> Any:
    """A JSON document, or a refusal; numbers JSON does not have and halves of characters are refused, too."""
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
        if _LONE_SURROGATE.search(body):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise _unreadable("it is nested too deep") from None
    except ValueError as error:  # not JSON, not UTF-8, or a number of thousands of digits
        raise _unreadable(str(error)) from None
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _unreadable(why: str) -> Refusal:
    return Refusal(
        422,
        RequestError(
            "the body is not JSON",
            detail=why,
            hint="Send one JSON value in UTF-8; /openapi.json describes each request.",
        ),
    )
