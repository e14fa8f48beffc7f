"""Pauses between tries of something that fails: each is twice as long as the one before, up to a bound."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Backoff:
    """When something that failed may be tried again. It sleeps nowhere: the caller waits, or does other work meanwhile."""

    def __init__(
        self, first_s: float, longest_s: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._clock = clock
        self._next_s = first_s
        self._resume_at = -math.inf

    @property
    def wait_s(self) -> float:
        """How much of the pause is left; 0 if it is over."""
        return max(0.0, self._resume_at - self._clock())

    @property
    def is_paused(self) -> bool:
        return self._clock() < self._resume_at

    def pause(self, at_least_s: float = 0.0) -> float:
        """Start a pause after a failure; its seconds. A longer one that was asked for does not make later ones longer."""
        pause_s = max(self._next_s, at_least_s)
        self._resume_at = self._clock() + pause_s
        self._next_s = min(2 * self._next_s, self._longest_s)
        return pause_s

    def end_pause(self) -> None:
        """Allow a try at once. If it fails, the next pause is longer still."""
        self._resume_at = -math.inf

    def reset(self) -> None:
        """A try succeeded: the next pause is as short as the first. One that lasts goes on."""
        self._next_s = self._first_s
