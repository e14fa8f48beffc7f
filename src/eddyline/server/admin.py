"""Tokens and the audit log, and the session of a browser."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query as Parameter
from starlette.requests import Request
from starlette.responses import Response

from eddyline.api import token_document
from eddyline.catalog import AccessToken
from eddyline.errors import AccessError, UnknownNameError
from eddyline.model import iso_time
from eddyline.server import models
from eddyline.server.access import OWN_HEADER, Admin, Reader, Serves
from eddyline.server.errors import Answer, Refusal, forbidden
from eddyline.server.limits import MOST_NEWEST
from eddyline.server.routes import router
from eddyline.server.service import Service

routes = router("access")

SESSION_S = 30 * 86_400
SESSION_NOTE = "dashboard"


@routes.get("/tokens", response_model=list[models.TokenAnswer])
def tokens(service: Serves, caller: Admin) -> Answer:
    """All tokens, oldest first; what they are is not kept."""
    return Answer([token_document(token) for token in service.access.tokens.list()])


@routes.post("/tokens", status_code=201, response_model=models.NewTokenAnswer)
def add_token(service: Serves, caller: Admin, body: models.TokenBody) -> Answer:
    """Make a token. It is shown once."""
    token = service.commands.token_add(
        role=body.role, owner=body.owner, note=body.note, expires=body.expires, who=caller.id
    )
    return Answer(token, status_code=201)


@routes.delete("/tokens/{id}", response_model=dict[str, Any])
def drop_token(service: Serves, caller: Admin, id: str) -> Answer:
    """Make a token worthless, at once."""
    try:
        return Answer(service.commands.token_drop(token=id, who=caller.id))
    except UnknownNameError as error:
        raise Refusal(404, error) from None


@routes.get("/audit", response_model=list[models.AuditAnswer])
def audit(
    service: Serves,
    caller: Admin,
    newest: Annotated[int, Parameter(ge=0, le=MOST_NEWEST)] = 100,
    before: Annotated[int | None, Parameter(ge=0, lt=1 << 62)] = None,
) -> Answer:
    """Changes, newest first: who, what, when."""
    entries = service.access.audit.newest(newest, before=before)
    return Answer(
        [
            {
                "id": entry.id,
                "at": iso_time(entry.at_us),
                "who": entry.who,
                "owner": entry.owner,
                "what": entry.what,
                "detail": entry.detail,
            }
            for entry in entries
        ]
    )


@routes.post("/session", response_model=models.Me)
def log_in(service: Serves, request: Request, body: models.SessionBody) -> Answer:
    """Let a browser keep a token as a cookie that no script can read."""
    if request.headers.get(OWN_HEADER) != "1":
        raise forbidden(
            "a session needs the header X-Eddyline: 1", "It shows that no other site sent the request."
        )
    text = body.token.strip()
    token = service.access.tokens.find(text, service.now_us())
    if token is None:
        raise Refusal(
            401, AccessError("this is not a token that holds", hint="eddyline token add makes one.")
        )
    if token.is_single_use:
        token, text = session_token(service, text)
    answer = Answer({"id": token.id, "role": token.role, "owner": token.owner})
    set_cookie(service, answer, token, text)
    return answer


@routes.delete("/session", response_model=dict[str, Any])
def log_out(service: Serves, caller: Reader) -> Answer:
    """Forget the cookie; a token that was made for this browser alone ends."""
    if caller.is_cookie and caller.token.note == SESSION_NOTE:
        service.commands.token_drop(token=caller.id, who=caller.id)
    answer = Answer({"ended": True})
    answer.delete_cookie(service.settings.cookie, path="/", httponly=True, samesite="strict")
    return answer


def session_token(service: Service, single_use: str) -> tuple[AccessToken, str]:
    """A token for a browser in exchange for one that is good for a single use."""
    now_us = service.now_us()
    token = service.access.tokens.take(single_use, now_us)
    if token is None:
        raise Refusal(
            401,
            AccessError(
                "this link was used before, or is too old",
                hint="Start the server again for another, or use a token: eddyline token add --role admin.",
            ),
        )
    session = service.access.tokens.add(
        token.role, now_us, owner=token.owner, note=SESSION_NOTE, expires_us=now_us + SESSION_S * 1_000_000
    )
    service.audit(session[0].id, token.owner, "log in", {"by": token.id})
    return session


def set_cookie(service: Service, answer: Response, token: AccessToken, text: str) -> None:
    remaining_s = SESSION_S
    if token.expires_us is not None:
        remaining_s = min(remaining_s, max(0, (token.expires_us - service.now_us()) // 1_000_000))
    answer.set_cookie(
        service.settings.cookie,
        text,
        max_age=remaining_s,
        path="/",
        httponly=True,
        samesite="strict",
        secure=service.settings.url.startswith("https://"),
    )
