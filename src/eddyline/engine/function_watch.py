"""Functions that only fail: after a round, the queries that need one are suspended, and the others go on.

What functions did comes from wherever the round was worked on, this process or workers. The breaker (functions/breaker.py) says
when it is enough. It starts from zero as soon as the queries are suspended; so resuming one, or registering another, tries again,
also after a restart: that a query is suspended is kept in the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eddyline.catalog import Catalog, suspend_callers
from eddyline.errors import EddylineError
from eddyline.events import Event, FunctionRestarted, FunctionSuspended
from eddyline.functions import Breaker, FunctionActivity, FunctionKey, FunctionRegistry, stopped_text

NAMED = 100  # queries in an event; all of them are in the catalog


class FunctionWatch:
    """Adds up the calls of functions, and suspends queries that need one that only fails."""

    def __init__(self, catalog: Catalog, functions: FunctionRegistry) -> None:
        self._catalog = catalog
        self._functions = functions
        self._breaker = Breaker()

    def after(
        self, round_number: int, elsewhere: Iterable[Mapping[FunctionKey, FunctionActivity]], now_us: int
    ) -> list[Event]:
        """A round has committed; `elsewhere` is what functions did for it in other processes. Returns the events to announce."""
        every: list[Mapping[FunctionKey, FunctionActivity]] = [self._functions.drain()]
        for observed in elsewhere:
            self._functions.add(observed)
            every.append(observed)
        opened: dict[FunctionKey, str] = {}
        restarted: dict[FunctionKey, FunctionRestarted] = {}
        for observed in every:
            for key, what in observed.items():
                why = self._breaker.add(key, what.streaks)
                if why:
                    opened[key] = why
                if what.counters.n_lost:
                    before = restarted.get(key)
                    n_lost = what.counters.n_lost + (0 if before is None else before.n_lost)
                    restarted[key] = FunctionRestarted(
                        round_number, key[0], n_lost, what.counters.last_message
                    )
        events: list[Event] = list(restarted.values())
        for key, why in opened.items():
            events += self._suspend(round_number, key, why, now_us)
        return events

    def _suspend(self, round_number: int, key: FunctionKey, why: str, now_us: int) -> list[Event]:
        function, version = key
        message = stopped_text(function, why)
        try:
            ids = suspend_callers(self._catalog, function, version, message, now_us)
        except EddylineError as error:
            # The round has happened. The breaker stays open, so it is tried again when the function was called the next time.
            return [FunctionSuspended(round_number, function, version, f"{message}; {error}", 0, (), ())]
        self._breaker.close(key)
        self._functions.rest(key)
        if not ids:
            return []
        named = tuple(
            (self._catalog.queries.name_of(i), self._catalog.queries.owner_of(i)) for i in ids[:NAMED]
        )
        owners = tuple(sorted({*map(self._catalog.queries.owner_of, ids)} - {""}))
        return [FunctionSuspended(round_number, function, version, message, len(ids), named, owners)]
