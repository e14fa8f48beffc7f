"""What routers decided, in words: filters by their SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from eddyline.events import Event, FilterDrifted, FiltersReordered, PolicySwitched
from eddyline.filters import conditions_from
from eddyline.routing import Decision
from eddyline.sql import render


@lru_cache(maxsize=4_096)
def filter_text(key: str) -> str:
    """A filter as SQL."""
    return " OR ".join(render(condition) for condition in conditions_from(key))


def filter_events(stream: str, decisions: Sequence[Decision], keys: Sequence[str]) -> Iterator[Event]:
    """The decisions of a router as events; new filters that came with queries are no event."""
    for made in decisions:
        order = tuple(filter_text(keys[k]) for k in made.order)
        why = made.why
        if made.kind == "reordered":
            yield FiltersReordered(
                made.round_number,
                stream,
                made.policy,
                order,
                filter_text(keys[why["came"]]),
                filter_text(keys[why["left"]]),
                why["at"],
                why["ratio_came"],
                why["ratio_left"],
            )
        elif made.kind == "switched":
            yield PolicySwitched(
                made.round_number, stream, why["before"], why["after"], why["before_s"], why["after_s"]
            )
        elif made.kind == "drifted":
            yield FilterDrifted(
                made.round_number,
                stream,
                filter_text(keys[why["filter"]]),
                why["what"],
                why["before"],
                why["after"],
            )
