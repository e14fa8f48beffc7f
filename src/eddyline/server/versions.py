"""Versions of the catalog: what each changed, and going back to one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from eddyline.delivery import jsonable
from eddyline.errors import HomeError, UnknownNameError
from eddyline.server import models
from eddyline.server.access import Admin, Serves
from eddyline.server.errors import Answer, Refusal
from eddyline.server.routes import router
from eddyline.server.status import Newest

routes = router("versions")

Version = Annotated[int, Path(ge=0, lt=1 << 62)]


@routes.get("/versions", response_model=list[models.VersionAnswer])
def versions(service: Serves, caller: Admin, newest: Newest = 20) -> Answer:
    """The newest versions, newest first, and what made each. An engine in memory keeps none."""
    try:
        return Answer(jsonable(service.commands.versions(newest=newest)))
    except HomeError:
        return Answer([])


@routes.get("/versions/{version}", response_model=models.VersionChangesAnswer)
def version(service: Serves, caller: Admin, version: Version) -> Answer:
    """What a version changed: rules by name, with their texts before and after."""
    try:
        return Answer(jsonable(service.commands.version(version=version)))
    except (HomeError, UnknownNameError) as error:
        raise Refusal(404, error) from None


@routes.post("/versions/{version}/rollback", response_model=models.RollbackAnswer)
def rollback(service: Serves, caller: Admin, version: Version, body: models.RollbackBody) -> Answer:
    """Deploy the queries of an earlier version again, as a new version; with `dry_run` only say what that would change."""
    done = service.commands.rollback(version=version, dry_run=body.dry_run)
    if done["version"] != done["from"]:
        counts = {kind: done[kind] for kind in ("added", "changed", "removed")}
        service.audit(caller.id, "", "roll back", {"to": version, "version": done["version"]} | counts)
    return Answer(jsonable(done))
