"""Trades for the rounds: portion by portion while the demo is watched, or many at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from eddyline.api import Running
from eddyline.demo.market import STREAM, Market
from eddyline.demo.tally import DemoTally
from eddyline.errors import EddylineError

PATIENCE_S = 120.0  # for rounds that usually take less than a second


class Feeder:
    """Offers trades to running rounds. One portion is in flight at a time, so a slow machine sees fewer, not larger ones."""

    def __init__(self, running: Running, market: Market, tally: DemoTally) -> None:
        self._running = running
        self._market = market
        self._tally = tally

    def offer(self, n: int) -> int:
        """Let `n` trades be there at once; returns how many there will have been in all."""
        target = self._tally.n_trades + n
        self._running.add_source(STREAM, self._market.source(target))
        return target

    def wait_for(self, target: int) -> None:
        """Until rounds with so many trades in all are final. Raises what ended the rounds, or EddylineError."""
        deadline = time.monotonic() + PATIENCE_S
        while self._tally.n_trades < target:
            if self._running.wait(0.01) is not None:
                raise EddylineError("the rounds have ended")
            if time.monotonic() > deadline:
                raise EddylineError(
                    f"no round ended within {PATIENCE_S:.0f} s",
                    detail=self._tally.failures[-1] if self._tally.failures else None,
                )

    @contextmanager
    def trading(self, portion: int, every_s: float) -> Iterator[None]:
        """Offer portions beside whatever is done meanwhile; the last one is final when this ends."""
        is_over = threading.Event()
        failed: list[BaseException] = []

        def trade() -> None:
            try:
                while not is_over.is_set():
                    next_s = time.monotonic() + every_s
                    self.wait_for(self.offer(portion))
                    is_over.wait(next_s - time.monotonic())
            except BaseException as error:  # raised below
                failed.append(error)

        thread = threading.Thread(target=trade, name="eddyline-demo-trades", daemon=True)
        thread.start()
        try:
            yield
        except BaseException:
            is_over.set()  # the thread ends with the rounds
            raise
        is_over.set()
        thread.join()
        if failed:
            raise failed[0]
