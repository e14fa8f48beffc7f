"""Sizes of what is kept, over time: some hundred points, however long the engine runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eddyline.engine import RoundEngine
from eddyline.events import Event, RoundCommitted

HISTORY_POINTS = 240  # when there are more, every second one goes
FIRST_SPACING_US = 1_000_000  # of round time, between two of them

Sizes = Mapping[Any, Mapping[str, int]]


class SizeHistory:
    """What `sizes` gives after rounds: of streams by name, or of classes by number, as `of` says."""

    def __init__(self, rounds: RoundEngine, of: str, sizes: Callable[[RoundEngine], Sizes]) -> None:
        self._rounds = rounds
        self._of = of
        self._sizes = sizes
        self._points: list[dict[str, Any]] = []
        self._spacing_us = FIRST_SPACING_US

    def heard(self, event: Event) -> None:
        """Take the sizes after a round. The caller holds the lock."""
        if not isinstance(event, RoundCommitted):
            return
        now_us = self._rounds.context().now_us
        if self._points and now_us - self._points[-1]["at_us"] < self._spacing_us:
            return
        sizes = self._sizes(self._rounds)
        if not self._points and not sizes:
            return
        self._points.append(self._point(event.round_number, now_us, sizes))
        if len(self._points) > HISTORY_POINTS:
            del self._points[1::2]
            self._spacing_us *= 2

    def points(self) -> list[dict[str, Any]]:
        """The oldest first, how it is now last. The lock is held."""
        last = self._rounds.last_round
        if not self._points or self._points[-1]["round"] == last:
            return list(self._points)
        now_us = max(self._rounds.context().now_us, self._points[-1]["at_us"])
        return [*self._points, self._point(last, now_us, self._sizes(self._rounds))]

    def _point(self, round_number: int, now_us: int, sizes: Sizes) -> dict[str, Any]:
        return {"round": round_number, "at_us": now_us, self._of: sizes}
