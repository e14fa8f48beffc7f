"""A lock that is handed on to the thread that waits longest.

Python's own locks go to the thread that asks at the right moment, which is hardly ever one that has slept: a few that let
go and ask again at once keep all others waiting for seconds. To hand the lock on each time would be fair and slow, for every
hand-over then waits until another thread gets to run. So a lock that a thread waits for may be taken by others some times, and
is then handed on: it is never free in between.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

BURST = 8  # times that others may take it before the thread that waits longest gets it


@dataclass(eq=False, slots=True)
class _Waiter:
    thread: int
    gate: threading.Lock = field(default_factory=threading.Lock)
    is_woken: bool = False

    def wake(self) -> None:
        if not self.is_woken:
            self.is_woken = True
            self.gate.release()


class FairLock:
    """A reentrant lock for `with`, and for a `threading.Condition` over it.

    With a `round_lock`, the thread that holds that one gets this one next, at once: all threads that wait for their round wait
    for it. It lets go between its steps, so that others get theirs.
    """

    def __init__(self, round_lock: FairLock | None = None, *, burst: int = BURST) -> None:
        self._round_lock = round_lock
        self._burst = burst
        self._guard = threading.Lock()  # of the attributes below; held for a few instructions only
        self._owner: int | None = None
        self._depth = 0
        self._n_passed = 0  # how often others took it since a thread waits
        self._waiting: deque[_Waiter] = deque()

    def acquire(self, blocking: bool = True) -> bool:
        me = threading.get_ident()
        if self._owner == me:  # no other thread can change that
            self._depth += 1
            return True
        with self._guard:
            if self._owner is None:
                self._n_passed = self._n_passed + 1 if self._waiting else 0
                self._owner, self._depth = me, 1
                return True
            if not blocking:
                return False
            waiter = _Waiter(me)
            waiter.gate.acquire()
            if self._holds_round_lock(me):
                self._waiting.appendleft(waiter)
            else:
                self._waiting.append(waiter)
        try:
            while not self._is_taken(waiter):
                pass
        except BaseException:  # an interrupt
            self._give_up(waiter)
            raise
        return True

    def release(self) -> None:
        assert self._owner == threading.get_ident(), "a lock is let go of by another thread than holds it"
        self._depth -= 1
        if self._depth == 0:
            self._let_go()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _holds_round_lock(self, thread: int) -> bool:
        return self._round_lock is not None and self._round_lock._owner == thread

    def _is_taken(self, waiter: _Waiter) -> bool:
        """Wait until woken; then it was handed on, or is free, or another thread was quicker."""
        waiter.gate.acquire()
        with self._guard:
            if self._owner == waiter.thread:
                return True
            waiter.is_woken = False
            if self._owner is None:
                self._waiting.remove(waiter)
                self._owner, self._depth, self._n_passed = waiter.thread, 1, 0
                return True
        return False

    def _let_go(self) -> None:
        with self._guard:
            self._owner = None
            if self._waiting:
                first = self._waiting[0]
                if self._n_passed >= self._burst or self._holds_round_lock(first.thread):
                    self._waiting.popleft()
                    self._owner, self._depth, self._n_passed = first.thread, 1, 0
                first.wake()

    def _give_up(self, waiter: _Waiter) -> None:
        with self._guard:
            is_waiting = waiter in self._waiting
            if is_waiting:
                self._waiting.remove(waiter)
                if self._owner is None and self._waiting:
                    self._waiting[0].wake()  # the next one may have relied on this one
        if not is_waiting:  # it was handed on to this thread meanwhile
            self._let_go()

    # what a condition asks of a lock that is held more than once

    def _is_owned(self) -> bool:
        return self._owner == threading.get_ident()

    def _release_save(self) -> int:
        depth, self._depth = self._depth, 0
        self._let_go()
        return depth

    def _acquire_restore(self, depth: int) -> None:
        self.acquire()
        self._depth = depth
