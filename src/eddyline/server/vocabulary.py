"""The words a rule is written in: what an editor offers while one types. Streams and their columns are in /streams."""

from __future__ import annotations

from eddyline.expressions import FUNCTIONS
from eddyline.server import models
from eddyline.server.access import Reader, Serves
from eddyline.server.errors import Answer
from eddyline.server.routes import router
from eddyline.sql import PROPERTY_NAMES, SEVERITIES

routes = router("queries")


@routes.get("/vocabulary", response_model=models.VocabularyAnswer)
def vocabulary(service: Serves, caller: Reader) -> Answer:
    """Functions, properties and, for callers who may write rules, the names of sinks."""
    built_in = [
        {"name": name, "signature": entry.signature, "summary": entry.summary, "is_built_in": True}
        for name, entry in sorted(FUNCTIONS.items())
        if not entry.is_operator and name.isidentifier()
    ]
    own = [
        {"name": name, "signature": f"{name}(…)", "summary": "", "is_built_in": False}
        for name in sorted(service.engine.rounds.functions.names())
    ]
    sinks = [] if caller.role == "reader" else sorted(sink.name for sink in service.engine.sinks())
    return Answer(
        {
            "functions": own + built_in,
            "properties": list(PROPERTY_NAMES),
            "severities": list(SEVERITIES),
            "sinks": sinks,
        }
    )
