"""A clock that stands still while this thread is ready to run and another one has its processor.

On a busy machine most of what a call takes by the wall may be such waiting, which says nothing about the call. Waiting for an
answer from elsewhere is part of it and counts. Linux keeps the time that a thread was ready and did not run; on other systems the
clock is the wall's.
"""

from __future__ import annotations

import os
import threading
import time

_SCHEDSTAT = "/proc/thread-self/schedstat"  # nanoseconds run, nanoseconds ready and not run, times run
_local = threading.local()


class _ReadyTime:
    """How long one thread was ready and did not run; its file stays open, since opening takes ten times as long as reading."""

    def __init__(self, thread_id: int) -> None:
        self.thread_id = thread_id
        self._file = -1
        if os.path.exists(_SCHEDSTAT):
            self._file = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)

    def seconds(self) -> float:
        return 1e-9 * int(os.pread(self._file, 64, 0).split()[1]) if self._file >= 0 else 0.0

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)


def own_time_s() -> float:
    """Seconds by the wall without those this thread waited for a processor; differences within one thread mean something."""
    thread_id = threading.get_native_id()
    ready: _ReadyTime | None = getattr(_local, "ready", None)
    if ready is None or ready.thread_id != thread_id:  # another thread, or a process that was forked
        ready = _local.ready = _ReadyTime(thread_id)
    return time.perf_counter() - ready.seconds()
