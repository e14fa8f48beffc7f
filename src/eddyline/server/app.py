"""The app: routers, the gate before them, and the page that describes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

import eddyline
from eddyline.server import (
    admin,
    alerts,
    errors,
    metrics,
    pages,
    pipeline,
    queries,
    results,
    rules,
    status,
    streams,
    versions,
    vocabulary,
)
from eddyline.server.access import Gate
from eddyline.server.service import Service
from eddyline.server.traffic import HttpCounters, Traffic

_DESCRIPTION = """\
Standing SQL queries over shared live streams. Send `Authorization: Bearer edl_…`; `eddyline token add` creates a token.
A token of role reader sees the queries of its owner, an author also changes them, an admin may do everything.
"""


_PARTS = (
    status,
    streams,
    pipeline,
    queries,
    vocabulary,
    results,
    alerts,
    rules,
    versions,
    admin,
    metrics,
    pages,
)
# Of every app: what FastAPI makes of the routes at the first request takes a tenth of a second, and no app changes it.
_ROUTES = APIRouter()
for _part in _PARTS:
    _ROUTES.include_router(_part.routes)


def create_app(service: Service) -> FastAPI:
    """An ASGI app that serves an engine."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="eddyline",
        version=eddyline.__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    errors.install(app)
    app.router.routes += _ROUTES.routes
    app.state.traffic = HttpCounters()
    app.add_middleware(Gate, service=service)
    app.add_middleware(Traffic, counters=app.state.traffic)
    return app
