"""Refusals as HTTP has them: a status, and the same words as everywhere else."""

from __future__ import annotations

import json
import logging
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from eddyline.catalog import without_tokens
from eddyline.control import error_to
from eddyline.errors import (
    AccessError,
    ClosedError,
    EddylineError,
    MemoryLimitError,
    QueryStateError,
    RequestError,
    UnknownNameError,
)

_logger = logging.getLogger("eddyline.server")

_SHOWN_MISTAKES = 5
RETRY_AFTER_S = 5  # when the process has no memory for rows


class Refusal(HTTPException):
    """An error that is answered with a status of its own; one of Starlette's, so that no layer takes it for a fault."""

    def __init__(self, status: int, error: EddylineError, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, error.problem, headers)
        self.error = error

    @property
    def answer(self) -> Answer:
        return problem_answer(self.status_code, self.error, dict(self.headers or {}))


def not_there(problem: str, hint: str | None = None) -> Refusal:
    """What was named in the address is not there, or belongs to another owner: the two look alike."""
    return Refusal(404, UnknownNameError(problem, hint=hint))


def forbidden(problem: str, hint: str | None = None) -> Refusal:
    return Refusal(403, AccessError(problem, hint=hint))


def status_of(error: EddylineError) -> int:
    """What an error of the engine means to HTTP."""
    if isinstance(error, (ClosedError, MemoryLimitError)):
        return 503
    return 409 if isinstance(error, QueryStateError) else 422


class Answer(Response):
    """JSON, written where it is made: in the thread of the command, not in the loop."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )


def problem_answer(status: int, error: EddylineError, headers: dict[str, str] | None = None) -> Answer:
    return Answer({"error": error_to(error)}, status_code=status, headers=headers)


def install(app: FastAPI) -> None:
    """Let every error of the app be answered in the same form."""

    async def refused(request: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, Refusal)
        return refusal.answer

    async def wrong(request: Request, error: Exception) -> Response:
        assert isinstance(error, EddylineError)
        headers = {"Retry-After": str(RETRY_AFTER_S)} if isinstance(error, MemoryLimitError) else None
        return problem_answer(status_of(error), error, headers)

    async def unfit(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem_answer(422, _unfit(error))

    async def plain(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        return problem_answer(error.status_code, _plain(error.status_code), headers)

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(EddylineError, wrong)
    app.add_exception_handler(RequestValidationError, unfit)
    app.add_exception_handler(HTTPException, plain)


def failed(method: str, path: str, error: BaseException) -> Answer:
    """A fault of ours: the log gets the trace, the caller only that it happened. Query strings, and tokens in them, stay out."""
    _logger.error("%s %s failed", method, without_tokens(path), exc_info=error)
    error_shown = EddylineError(
        f"the server failed on this request: {type(error).__name__}",
        hint="This is a bug in eddyline; its log has the details.",
    )
    return problem_answer(500, error_shown)


def _unfit(error: RequestValidationError) -> RequestError:
    problems = []
    for mistake in error.errors()[:_SHOWN_MISTAKES]:
        where = ".".join(str(part) for part in mistake["loc"])
        problems.append(f"{where}: {mistake['msg']}")
    return RequestError(
        "the request does not fit",
        detail="; ".join(problems),
        hint="/openapi.json describes each request.",
    )


def _plain(status: int) -> EddylineError:
    if status == 404:
        return UnknownNameError("there is nothing at this address", hint="See /openapi.json.")
    if status == 405:
        return RequestError("this address does not take this method", hint="See /openapi.json.")
    return RequestError(f"the request was refused with status {status}")
