"""Facts about relations in the words of users: views without a name, which are called by what they do, by where they stand."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

from eddyline.engine import RoundEngine

# as sql/unnamed_views.py and catalog/aged_shapes.py name them
_NAME = re.compile(r"subquery [0-9a-f]{24}( of version \d+)?", re.IGNORECASE)


def in_words(rounds: RoundEngine, facts: Any, own: Container[int] | None = None) -> Any:
    """Facts of texts, lists and dicts, in which views without a name are named in words. The lock is held.

    `own` are the queries of a user who may see no others.
    """
    if isinstance(facts, str):
        return _NAME.sub(lambda found: _words(rounds, found[0].lower(), own), facts)
    if isinstance(facts, Mapping):
        return {in_words(rounds, key, own): in_words(rounds, value, own) for key, value in facts.items()}
    if type(facts) in (list, tuple):
        return type(facts)(in_words(rounds, each, own) for each in facts)
    return facts


def is_of_others(rounds: RoundEngine, name: str, own: Container[int]) -> bool:
    """Whether a relation is a view without a name that only queries of other users contain."""
    return _NAME.fullmatch(name) is not None and not _queries(rounds, name, own)


def _queries(rounds: RoundEngine, name: str, own: Container[int] | None) -> list[int]:
    """The queries that contain a view without a name."""
    view = rounds.catalog.views.relation(name)
    ids = () if view is None else rounds.catalog.views.queries_of(view.feeds[0].body_id)
    return sorted(each for each in ids if own is None or each in own)


def _words(rounds: RoundEngine, name: str, own: Container[int] | None) -> str:
    """What users call a view without a name: by the first query that contains it."""
    catalog, ids = rounds.catalog, _queries(rounds, name, own)
    if not ids:
        return "a subquery"
    first = ids[0]
    entries = catalog.queries.registration(first).shape.unnamed_views()
    words = next(entry.label for entry in entries if entry.stream.lower() == name)
    return f"{words} of {catalog.queries.name_of(first)}"
