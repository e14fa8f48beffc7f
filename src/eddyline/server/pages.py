"""What lies outside the API: the dashboard and its files, the link for the first start, and what operators ask."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter
from fastapi import Query as Parameter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from eddyline.server import models
from eddyline.server.access import Serves
from eddyline.server.admin import session_token, set_cookie
from eddyline.server.errors import Answer, Refusal, not_there
from eddyline.server.routes import ERRORS

routes = APIRouter(tags=["pages"], responses={404: ERRORS[404]})

FOLDER = Path(__file__).parent / "dashboard"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
}


@routes.get("/", include_in_schema=False)
def dashboard(request: Request) -> Response:
    return _file(request, "index.html")


@routes.get("/favicon.ico", include_in_schema=False)
def icon(request: Request) -> Response:
    return _file(request, "favicon.svg")


@routes.get("/static/{name}", include_in_schema=False)
def static(request: Request, name: str) -> Response:
    return _file(request, name)


def _file(request: Request, name: str) -> Response:
    """A file of the dashboard: one of those that lie there, by its name alone, so that no name leads elsewhere."""
    there = {path.name: path for path in FOLDER.iterdir() if path.suffix in _TYPES and path.is_file()}
    path = there.get(name)
    if path is None:
        raise not_there("there is no such page")
    content = path.read_bytes()
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {
        "etag": etag,
        "cache-control": "no-cache",
    }  # kept, but asked for again: never an old page over a new API
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_TYPES[path.suffix], headers=headers)


@routes.get("/login", include_in_schema=False)
def login(service: Serves, token: Annotated[str, Parameter(max_length=200)] = "") -> Response:
    """The link of the first start: good once, it makes this browser an admin's."""
    try:
        session, text = session_token(service, token)
    except Refusal as refusal:
        refusal_text = f"{refusal.error.problem}\n{refusal.error.hint}\n"
        return Response(refusal_text, status_code=refusal.status_code, media_type="text/plain; charset=utf-8")
    answer = RedirectResponse("/", status_code=303)
    set_cookie(service, answer, session, text)
    return answer


@routes.get("/health", response_model=models.HealthAnswer)
def health() -> Answer:
    """The process lives."""
    return Answer({"ok": True})


@routes.get("/ready", response_model=models.HealthAnswer, responses={503: {"model": models.HealthAnswer}})
def ready(service: Serves) -> Answer:
    """Whether requests and rows are taken: the engine is open, rounds run if they should, and the server is not shutting down."""
    why: str | None
    if service.is_draining:
        why = "it is shutting down"
    elif service.engine.rounds.is_closed:
        why = "the engine is closed"
    else:
        why = service.trouble()
    return Answer({"ok": why is None, "why": why}, status_code=200 if why is None else 503)
