"""The end of a run: the first reason given for it, from whichever thread or signal it came."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class RunEnd:
    """Whether a run is over and why: the first reason counts. `wake` is called so that the loop takes notice."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.reason: str | None = None
        self.signal: int | None = None
        self._wake = wake

    def is_over(self) -> bool:
        return self.reason is not None

    def request(self, reason: str) -> None:
        """End the run after the round in flight. Safe from any thread."""
        self.reason = self.reason or reason
        self._wake()

    @property
    def signal_name(self) -> str | None:
        """Name of the signal that ended the run, if one did."""
        return None if self.signal is None else signal.Signals(self.signal).name

    @contextmanager
    def on_signals(self, is_wanted: bool) -> Iterator[None]:
        """SIGINT and SIGTERM request the end; the same signal again does what it always does."""
        if not is_wanted or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def request_end(number: int, frame: FrameType | None) -> None:
            self.signal = number
            self.request("signal")
            signal.signal(number, before[signal.Signals(number)])

        for number in before:
            signal.signal(number, request_end)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
