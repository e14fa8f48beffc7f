"""Callbacks that hear results or messages: in the round itself, or from a bounded queue by a thread of their own.

In the round, a callback hears everything before `push` returns, and a slow one makes rounds slow. With a queue a round only puts
its results there; the thread takes them in order. When the queue is full, `when_full` decides:

    drop_oldest    those that wait longest are dropped
    drop_newest    those that do not fit are dropped
    block          the round waits until there is room, and the next rounds wait for it

What is dropped is counted and announced, at most once in ANNOUNCE_EVERY_S for each subscriber; it stays readable by `results`.

A round that waits gives the lock away: queries come and go, results can be read, a callback can end itself. Only another round
cannot run, so a callback that may be waited for cannot push.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from eddyline.engine import RoundEngine
from eddyline.errors import PropertyError, did_you_mean
from eddyline.events import CallbackFailed, SubscriberOvertaken

Heard = TypeVar("Heard")  # a result, or a message

WhenFull: TypeAlias = Literal["drop_oldest", "drop_newest", "block"]
WHEN_FULL: tuple[str, ...] = get_args(WhenFull)
LONGEST_DRAIN_S = 5.0  # when the engine is closed: what a callback has not heard by then is dropped
ANNOUNCE_EVERY_S = 10.0
monotonic_s = time.monotonic


class Subscription:
    """A callback that gets what comes. Calling this ends it, also from inside the callback; what waits is dropped."""

    def __init__(self, end: Callable[[], None], queue: CallbackQueue[Any] | None) -> None:
        self._end = end
        self._queue = queue

    @property
    def n_waiting(self) -> int:
        """How many wait for the callback; none without a queue."""
        return 0 if self._queue is None else self._queue.n_waiting

    @property
    def n_dropped(self) -> int:
        """How many were dropped because the queue was full, or the engine closed; none without a queue."""
        return 0 if self._queue is None else self._queue.n_dropped

    def __call__(self) -> None:
        self._end()

    def __repr__(self) -> str:
        return f"<subscription: {self.n_waiting} waiting, {self.n_dropped} dropped>"


class Subscribers:
    """The callbacks of an engine that have queues, from the first to the closing of the engine."""

    def __init__(self, rounds: RoundEngine) -> None:
        self._rounds = rounds
        self._queues: list[CallbackQueue[Any]] = []
        self._closes_at: float | None = None
        rounds.on_dropped.append(self.forget)

    def open_queue(
        self,
        callback: Callable[[Heard], None],
        size: int | None,
        when_full: WhenFull,
        *,
        query: str = "",
        query_id: int | None = None,
    ) -> CallbackQueue[Heard] | None:
        """A queue as the user wants it, or None if the callback is to be called in the round. The lock is held."""
        if when_full not in WHEN_FULL:
            raise PropertyError(
                f"when_full is {when_full!r}", hint=did_you_mean(str(when_full), WHEN_FULL, noun="policy")
            )
        if size is None:
            if when_full != WHEN_FULL[0]:
                raise PropertyError(
                    f"when_full is {when_full!r}, but there is no queue", hint="Give one: queue=1000."
                )
            return None
        if type(size) is not int or size < 1:
            raise PropertyError(
                f"queue is {size!r}", hint="Say how many may wait, at least 1, or leave it out."
            )
        queue = CallbackQueue(self, self._rounds, callback, size, when_full, query, query_id)
        self._queues.append(queue)
        return queue

    def forget(self, query_ids: Iterable[int]) -> None:
        """End the callbacks of dropped queries, after what waits for them. The caller holds the lock."""
        dropped_ids = set(query_ids)
        self._rounds.callbacks.forget(dropped_ids)
        for queue in list(self._queues):
            if queue.query_id in dropped_ids:
                queue.finish()

    def ended(self, queue: CallbackQueue[Any]) -> None:
        """Its thread is at its end."""
        with self._rounds.lock:
            if queue in self._queues:
                self._queues.remove(queue)

    def check_may_run_round(self) -> None:
        """Raises PropertyError in a thread that a round may be waiting for."""
        queue = getattr(_calling, "queue", None)
        if queue is not None and queue.when_full == "block":
            raise PropertyError(
                'a callback with when_full="block" cannot run a round: that round may be waiting for it',
                hint="Push from another thread, or let its queue drop results.",
            )

    def patience_s(self) -> float | None:
        """How long a round may wait for room: for ever, until the engine is to be closed."""
        return None if self._closes_at is None else self._closes_at - monotonic_s()

    def drain(self) -> None:
        """The engine is to be closed: let callbacks hear what waits, for some seconds at most. Rounds no longer wait longer."""
        with self._rounds.lock:
            self._closes_at = monotonic_s() + LONGEST_DRAIN_S
            queues = self._others()
            for queue in queues:
                queue.look_again()
        for queue in queues:
            queue.wait_until_idle(self._closes_at)

    def close(self) -> None:
        """No round comes any more. End the threads; what callbacks have not taken within the time of `drain` is dropped."""
        with self._rounds.lock:
            queues, others = list(self._queues), self._others()
            for queue in queues:
                queue.finish()
        for queue in others:
            queue.wait_until_idle(self._closes_at or 0.0)
        for queue in queues:
            queue.give_up()
        for queue in others:
            queue.join(max(0.0, (self._closes_at or 0.0) - monotonic_s()))

    def _others(self) -> Sequence[CallbackQueue[Any]]:
        """Queues whose thread is not this one, which would wait for itself."""
        return [queue for queue in self._queues if queue is not getattr(_calling, "queue", None)]


class CallbackQueue(Generic[Heard]):
    """A bounded queue, and the thread that calls back what it holds, in order."""

    def __init__(
        self,
        subscribers: Subscribers,
        rounds: RoundEngine,
        callback: Callable[[Heard], None],
        size: int,
        when_full: str,
        query: str,
        query_id: int | None,
    ) -> None:
        """`query` is empty if messages of all queries are heard."""
        self.size = size
        self.when_full = when_full
        self.query_id = query_id
        self.n_dropped = 0
        self._subscribers = subscribers
        self._rounds = rounds
        self._callback = callback
        self._query = query
        self._waiting: deque[tuple[int, Heard]] = deque()  # with the round each is of
        self._changed = threading.Condition()  # of what waits, and of what the thread does
        self._room = rounds.condition()  # what a round waits for
        self._is_awaited = False
        self._is_calling = False
        self._takes_more = True
        self._n_announced = 0  # of those dropped
        self._announced_at: float | None = None
        self._failed_round = -1
        self._thread = threading.Thread(target=self._run, name="eddyline-subscriber", daemon=True)
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        return len(self._waiting)

    # ----------------------------------------------------------------------------------------- in the round

    def offer(self, round_number: int, n: int, heard: Callable[[int, int], Iterable[Heard]]) -> None:
        """Queue what a round has for the callback; `heard(first, last)` makes that part of `n`. The lock is held."""
        if self.when_full == "drop_oldest":
            first = max(0, n - self.size)  # older ones would leave the queue at once
            newest = [(round_number, each) for each in heard(first, n)]
            with self._changed:
                if not self._takes_more:
                    return
                n_over = max(0, len(self._waiting) + len(newest) - self.size)
                for _ in range(n_over):
                    self._waiting.popleft()
                self._waiting.extend(newest)
                self._changed.notify_all()
            self.n_dropped += first + n_over
        else:
            done = 0
            while done < n and (room := self._room_for_more()):
                part = [(round_number, each) for each in heard(done, min(n, done + room))]
                with self._changed:
                    self._waiting.extend(part)
                    self._changed.notify_all()
                done += len(part)
            if self._takes_more:
                self.n_dropped += n - done
        self._tell_dropped(round_number)

    def _room_for_more(self) -> int:
        """How many fit. With `block`, waits until one does; 0 if the subscription or the time to wait is over."""
        while True:
            with self._changed:
                room = self.size - len(self._waiting) if self._takes_more else 0
                self._is_awaited = self.when_full == "block" and self._takes_more and not room
            left_s = self._subscribers.patience_s()
            if not self._is_awaited or (left_s is not None and left_s <= 0):
                return room
            self._room.wait(left_s)

    def _tell_dropped(self, round_number: int, *, is_end: bool = False) -> None:
        """Announce what was dropped since the last time, unless that was just now. The lock is held."""
        n, now_s = self.n_dropped - self._n_announced, monotonic_s()
        if n and (is_end or self._announced_at is None or now_s - self._announced_at >= ANNOUNCE_EVERY_S):
            self._n_announced, self._announced_at = self.n_dropped, now_s
            self._rounds.announce(SubscriberOvertaken(round_number, self._query, n))

    # ----------------------------------------------------------------------------------------- in its thread

    def _run(self) -> None:
        _calling.queue = self
        while (call := self._next()) is not None:
            try:
                self._callback(call[1])
            except (
                BaseException
            ) as error:  # a subscriber's fault is an event, and ends neither others nor this thread
                self._tell_failed(call[0], error)
        self._subscribers.ended(self)

    def _next(self) -> tuple[int, Heard] | None:
        """Wait for what the callback gets next; None at the end."""
        with self._changed:
            self._is_calling = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or not self._takes_more)
            if not self._waiting:
                return None
            self._is_calling = True
            call = self._waiting.popleft()
            is_awaited = self._is_awaited
        if is_awaited:
            self.look_again()
        return call

    def _tell_failed(self, round_number: int, error: BaseException) -> None:
        """Once for a round."""
        if round_number != self._failed_round:
            self._failed_round = round_number
            error_text = f"{type(error).__name__}: {error}"
            self._rounds.tell(CallbackFailed(round_number, self._query, error_text))

    # ----------------------------------------------------------------------------------------- its end

    def look_again(self) -> None:
        """Wake the round that waits for room."""
        with self._rounds.lock:
            self._room.notify_all()

    def finish(self) -> None:
        """Take nothing more; the thread ends when the callback has taken what waits."""
        with self._changed:
            self._takes_more = False
            self._changed.notify_all()
        self.look_again()

    def stop(self) -> None:
        """Take nothing more, and forget what waits. A call under way is not waited for."""
        with self._rounds.lock:
            with self._changed:
                self._waiting.clear()
            self.finish()
            self._tell_dropped(self._rounds.last_round, is_end=True)

    def give_up(self) -> None:
        """Drop what waits still, and say so."""
        with self._rounds.lock:
            with self._changed:
                self.n_dropped += len(self._waiting)
                self._waiting.clear()
            self._tell_dropped(self._rounds.last_round, is_end=True)

    def wait_until_idle(self, at: float) -> None:
        """Wait until the callback has heard everything, or until that time."""
        with self._changed:
            left_s = max(0.0, at - monotonic_s())
            self._changed.wait_for(lambda: not self._waiting and not self._is_calling, left_s)

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)


def call_each(callback: Callable[[Heard], None], heard: Iterable[Heard]) -> None:
    """Call back in the round, for each of them; raises the first fault, after all the others were called."""
    failed: Exception | None = None
    for each in heard:
        try:
            callback(each)
        except Exception as error:
            failed = failed or error
    if failed is not None:
        raise failed


_calling = threading.local()  # in the thread of a queue: that queue
