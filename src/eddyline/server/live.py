"""Results and messages as they come, to thousands of listeners: each round is read once, written as events once, and handed out.

    hub thread    waits for rounds; reads what is new; makes an event of each result with a subscriber; hands all to the loop
    the loop      puts events into the queue of each subscription, which has a bound
    a stream      first catches up from what is kept, in a thread of a small pool, then empties its queue

A subscription joins in the hub's thread, between two rounds: from there on it is handed everything later, and catches up with
everything up to there. So nothing is missed and nothing comes twice; places have an order, and what is not after the last one
sent is passed over. A subscription whose queue is full follows its policy:

    catch_up   what is queued is let go, and read again from what is kept once the client is ready for it: nothing is lost
    drop       the oldest goes, and the client gets their number
    close      the stream ends; the client comes back with the id of its last event

A slow client delays only its own stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eddyline.api import Engine
from eddyline.catalog import ListedFile
from eddyline.errors import EddylineError
from eddyline.events import Event, RoundCommitted
from eddyline.hit_matches import distinct_ids
from eddyline.runtime import END, Ids, KeptResults, Owners, Place, place_of, results_of
from eddyline.server.stream_places import StreamPlaces
from eddyline.storage import OUTBOX, StoredPart

POLICIES = ("catch_up", "drop", "close")
KEEP_ALIVE_S = 15.0
LOOK_EVERY_S = 1.0  # whether the engine was closed, or alerts came without a round
ASK_EVERY_S = 1.0  # whether the client may still listen, also while much is sent
CATCH_UP_THREADS = 4
EVENTS_AT_ONCE = 500  # while catching up
MOST_RENDERED = 20_000  # events made of one round; above, its listeners read it themselves

Frame: TypeAlias = tuple[Place, bytes]


class EventSubscription:
    """One stream of events. Everything but `matches` belongs to the loop it was made in."""

    def __init__(
        self,
        kind: str,
        *,
        owner: str | None,
        ids: frozenset[int] | None,
        after: Place | None,
        policy: str,
        limit: int,
    ) -> None:
        """`kind`: results or alerts; `owner`, `ids`: only of this owner, these queries; `after`: None begins with what comes."""
        self.kind = kind
        self.owner = owner
        self.ids = ids
        self.place = after
        self.policy = policy
        self.limit = limit
        self.loop = asyncio.get_running_loop()
        self.queue: deque[Frame] = deque()
        self.n_lost = 0
        self.is_joining = False  # the hub has yet to take it in
        self.is_behind = True  # from when the queue was full until the hub takes it in again
        self.is_over = False
        self.joined_at: Place | None = None
        self.is_allowed: Callable[[], bool] = lambda: True
        self.token_id: str | None = None  # whose it is, if that counts
        self._checked_at_s = time.monotonic()
        self._changed = asyncio.Event()

    def matches(self, query_id: int, owner: str | None) -> bool:
        """Whether results of a query are meant for it."""
        return (self.owner is None or self.owner == owner) and (self.ids is None or query_id in self.ids)

    def joined(self, at: Place) -> None:
        """The hub hands it everything after this place from now on."""
        self.joined_at = at
        self.is_joining = self.is_behind = False
        self._changed.set()

    def push(self, frames: Sequence[Frame]) -> None:
        """Take events, as far as there is room."""
        if self.is_behind or self.is_over:
            return
        n_over = len(self.queue) + len(frames) - self.limit
        if n_over > 0 and self.policy == "drop":
            self.n_lost += n_over
            newest_frames = [*self.queue, *frames][n_over:]
            self.queue.clear()
            self.queue.extend(newest_frames)
        elif n_over > 0:
            self.fall_behind()
        else:
            self.queue.extend(frames)
        self._changed.set()

    def fall_behind(self, n: int = 0) -> None:
        """More came than it can hold: `n` events that were not written, or what was pushed."""
        if self.policy == "drop":
            self.n_lost += n
        else:
            self.queue.clear()
            self.is_behind = True
            self.is_over = self.is_over or self.policy == "close"
        self._changed.set()

    def end(self) -> None:
        self.is_over = True
        self._changed.set()

    def goes_on(self) -> bool:
        """Whether it is neither over nor forbidden by now."""
        now_s = time.monotonic()
        if now_s - self._checked_at_s >= ASK_EVERY_S:
            self._checked_at_s = now_s
            self.is_over = self.is_over or not self.is_allowed()
        return not self.is_over

    async def change(self, timeout_s: float) -> bool:
        """Wait until something changed; False if nothing did for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        is_changed = self._changed.is_set()
        self._changed.clear()
        return is_changed


class Hub:
    """All subscriptions to the results and alerts of one engine."""

    def __init__(self, engine: Engine, stored_results: KeptResults) -> None:
        self._engine = engine
        self._rounds = engine.rounds
        self._stored_results = stored_results
        self._guard = threading.Lock()
        self._joining: list[EventSubscription] = []
        self._leaving: list[EventSubscription] = []
        self._subscriptions: dict[str, list[EventSubscription]] = {"results": [], "alerts": []}
        self._owners = Owners(engine.rounds)
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._round = 0
        self._message = 0
        self.places = StreamPlaces()
        self.is_closed = False

    # ----------------------------------------------------------------------------------------- in the loop

    async def stream(
        self, subscription: EventSubscription, *, is_allowed: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[bytes]:
        """The events of a subscription, as bytes to send, until it ends; `is_allowed` is asked now and then."""
        self._start()
        sub = subscription
        sub.is_allowed = is_allowed
        try:
            yield b"retry: 1000\n: eddyline\n\n"
            if sub.place is not None:
                loss = await self._in_pool(self._loss, sub)
                if loss is not None:
                    yield loss
            while self._goes_on(sub):
                self._join(sub)
                while sub.is_joining and self._goes_on(sub):  # it may soon be behind again
                    if not await sub.change(KEEP_ALIVE_S):
                        yield b": waiting\n\n"
                async for events in self._catch_up(sub):
                    yield events
                while not sub.is_behind and self._goes_on(sub):
                    events = _queued_events(sub)
                    if sub.n_lost:
                        events = _lost_event(sub.n_lost, None) + events
                        sub.n_lost = 0
                    if events:
                        yield events
                    elif not await sub.change(KEEP_ALIVE_S) and self._goes_on(sub):
                        yield b": still here\n\n"
        finally:
            sub.end()
            with self._guard:
                self._leaving.append(sub)
            self._wake.set()

    async def _catch_up(self, sub: EventSubscription) -> AsyncIterator[bytes]:
        """What is kept between the last event sent and where the hub took the subscription in."""
        until = sub.joined_at
        if until is None or sub.is_over:
            return
        if sub.place is None:
            sub.place = until
        while sub.place < until and self._goes_on(sub):
            frames, place, is_end = await self._in_pool(self._page, sub, sub.place, until)
            sub.place = place
            if frames:
                yield b"".join(frame for _, frame in frames)
            if is_end:
                return

    def _goes_on(self, sub: EventSubscription) -> bool:
        return sub.goes_on() and not self.is_closed

    async def _in_pool(self, work: Callable[..., Any], *arguments: Any) -> Any:
        assert self._pool is not None, "the hub has not started"
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def _join(self, sub: EventSubscription) -> None:
        sub.is_joining = True
        with self._guard:
            self._joining.append(sub)
        self._wake.set()

    def _start(self) -> None:
        with self._guard:
            if self._thread is None and not self.is_closed:
                self._pool = ThreadPoolExecutor(CATCH_UP_THREADS, thread_name_prefix="eddyline catching up")
                with self._rounds.lock:
                    self._round = self._rounds.last_round
                    self._rounds.listen(self._on_event)
                self._thread = threading.Thread(target=self._run, name="eddyline live", daemon=True)
                self._thread.start()

    def end_streams(self) -> None:
        """End all streams, and let no other begin. Safe from any thread, also in a loop."""
        with self._guard:
            self.is_closed = True
            subscribers = [*self._joining, *self._subscriptions["results"], *self._subscriptions["alerts"]]
        self._wake.set()
        for sub in subscribers:
            _in_loop_of(sub, sub.end)

    def close(self) -> None:
        """End all streams, and the hub's own threads."""
        self.end_streams()
        thread, pool = self._thread, self._pool
        if thread is not None and thread is not threading.current_thread():
            thread.join(LOOK_EVERY_S * 2)
        if pool is not None:
            pool.shutdown(wait=False)
        self._rounds.unlisten(self._on_event)

    # ----------------------------------------------------------------------------------------- in the pool

    def _page(self, sub: EventSubscription, after: Place, until: Place) -> tuple[list[Frame], Place, bool]:
        if sub.kind == "alerts":
            messages = [m for m in self._engine.messages(after=after[0], owner=sub.owner) if m.id <= until[0]]
            matching_messages = [m for m in messages if sub.matches(m.query_id, m.owner)]
            return [_message_frame(message) for message in matching_messages], until, True
        ids: Ids = None
        if sub.ids is not None:
            ids = np.array(sorted(sub.ids), np.int32)
        elif sub.owner is not None:
            ids = Owners(self._rounds).queries_of(sub.owner)
        page = self._stored_results.after(ids, after, until=until[0], limit=EVENTS_AT_ONCE)
        return [_result_frame(result) for result in page.results], page.place, page.is_end

    def _loss(self, sub: EventSubscription) -> bytes | None:
        """The event for a client that comes back after so long that retention has taken some of what it missed."""
        if sub.kind == "alerts" or sub.place is None:
            return None
        n = self._stored_results.n_lost(sub.place)
        if not n:
            return None
        is_all = sub.owner is None and sub.ids is None
        return _lost_event(n if is_all else None, n)

    # ----------------------------------------------------------------------------------------- in the hub's thread

    def _on_event(self, event: Event) -> None:
        if isinstance(event, RoundCommitted):
            self._wake.set()

    def _run(self) -> None:
        while not self.is_closed and not self._rounds.is_closed:
            self._wake.wait(LOOK_EVERY_S)
            self._wake.clear()
            try:
                self._step()
            except EddylineError:  # closed, or files are missing: subscribers read again from their places
                self._all_behind()
        for sub in [*self._subscriptions["results"], *self._subscriptions["alerts"], *self._joining]:
            _in_loop_of(sub, sub.end)

    def _step(self) -> None:
        self._change_subscriptions()
        rounds, durable = self._rounds, self._rounds.durable
        files: list[ListedFile] = []
        with rounds.lock:
            rounds.check_open()
            last = rounds.last_round
            has_listeners = bool(self._subscriptions["results"])
            if last > self._round and has_listeners and durable is not None:
                files = durable.rounds.files.after(OUTBOX, self._round)
            if has_listeners and durable is None:
                self._hand_out_in_memory(last)
        before, self._round = self._round, last
        if durable is not None:
            for number in sorted({file.round_number for file in files if before < file.round_number <= last}):
                parts = [p for f in files if f.round_number == number for p in durable.parts(f)]
                self._hand_out_round(number, parts)
        if self._subscriptions["alerts"]:
            self._hand_out_messages()

    def _change_subscriptions(self) -> None:
        with self._guard:
            joining, self._joining = self._joining, []
            leaving, self._leaving = self._leaving, []
        if not joining and not leaving:
            return
        leaving_ids = set(map(id, leaving))
        if any(sub.kind == "alerts" for sub in joining) and not self._subscriptions["alerts"]:
            self._message = self._last_message()
        for kind, there in self._subscriptions.items():
            known = set(map(id, there))
            new = [sub for sub in joining if sub.kind == kind and id(sub) not in known]
            self._subscriptions[kind] = [sub for sub in [*there, *new] if id(sub) not in leaving_ids]
        for sub in joining:
            at = (self._round, END, 0) if sub.kind == "results" else (self._message, END, 0)
            _in_loop_of(sub, sub.joined, at)

    def _all_behind(self) -> None:
        for there in self._subscriptions.values():
            for sub in there:
                _in_loop_of(sub, sub.fall_behind)

    def _hand_out_round(self, number: int, parts: Sequence[StoredPart]) -> None:
        listeners = self._subscriptions["results"]
        present = distinct_ids(np.concatenate([np.empty(0, np.int32), *(part.query_ids for part in parts)]))
        subscribed_ids = self._subscribed_ids(present, listeners)
        if not len(subscribed_ids):
            return
        n_pairs = sum(int(np.isin(part.query_ids, subscribed_ids).sum()) for part in parts)
        if n_pairs > MOST_RENDERED:
            self._behind_on(parts, subscribed_ids)
            return
        self._hand_out(results_of(self._rounds, number, parts, subscribed_ids), listeners)

    def _hand_out_in_memory(self, last: int) -> None:
        """The same from the rings, with the lock held."""
        listeners = self._subscriptions["results"]
        if last <= self._round:
            return
        page = self._stored_results.after(
            lambda there: self._subscribed_ids(there, listeners),
            (self._round, END, 0),
            until=last,
            limit=MOST_RENDERED,
        )
        if page.is_end:
            self._hand_out(page.results, listeners)
        else:
            self._all_behind()

    def _subscribed_ids(
        self, present: npt.NDArray[np.int32], listeners: Sequence[EventSubscription]
    ) -> npt.NDArray[np.int32]:
        """Those of these queries that have subscribers."""
        if any(sub.ids is None and sub.owner is None for sub in listeners):
            return present
        fixed = set().union(*(sub.ids for sub in listeners if sub.ids is not None))
        is_subscribed = np.isin(present, np.fromiter(fixed, np.int32, len(fixed)))
        owners = {sub.owner for sub in listeners if sub.ids is None}
        if owners:
            is_subscribed |= np.array([self._owners.of(i) in owners for i in present.tolist()], dtype=bool)
        return present[is_subscribed]

    def _hand_out(self, results: Iterable[dict[str, Any]], listeners: Sequence[EventSubscription]) -> None:
        by_id: dict[int, list[EventSubscription]] = {}
        for sub in listeners:
            for query_id in sub.ids or ():
                by_id.setdefault(query_id, []).append(sub)
        general = [sub for sub in listeners if sub.ids is None]
        frames: dict[int, tuple[EventSubscription, list[Frame]]] = {}
        for result in results:
            query_id = result["query_id"]
            owner = self._owners.of(query_id)
            frame: Frame | None = None
            for sub in (*by_id.get(query_id, ()), *general):
                if sub.matches(query_id, owner):
                    frame = frame or _result_frame(result)
                    frames.setdefault(id(sub), (sub, []))[1].append(frame)
        _hand_over(frames.values())

    def _hand_out_messages(self) -> None:
        frames: dict[int, tuple[EventSubscription, list[Frame]]] = {}
        for message in self._engine.messages(after=self._message):
            frame = _message_frame(message)
            for sub in self._subscriptions["alerts"]:
                if sub.matches(message.query_id, message.owner):
                    frames.setdefault(id(sub), (sub, []))[1].append(frame)
            self._message = max(self._message, message.id)
        _hand_over(frames.values())

    def _last_message(self) -> int:
        newest = self._engine.messages(newest=1)
        return newest[-1].id if newest else 0

    def _behind_on(self, parts: Sequence[StoredPart], subscribed_ids: npt.NDArray[np.int32]) -> None:
        """A round has more than is worth writing here: its subscribers read it themselves, or learn how much they lost."""
        for sub in self._subscriptions["results"]:
            its = [i for i in subscribed_ids.tolist() if sub.matches(i, self._owners.of(i))]
            n = (
                sum(int(np.isin(part.query_ids, np.array(its, np.int32)).sum()) for part in parts)
                if its
                else 0
            )
            if n:
                _in_loop_of(sub, sub.fall_behind, n)


def _in_loop_of(sub: EventSubscription, work: Callable[..., None], *arguments: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended, and the stream with it
        sub.loop.call_soon_threadsafe(work, *arguments)


def _hand_over(frames: Iterable[tuple[EventSubscription, list[Frame]]]) -> None:
    """Into the queues, with one call for every loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[EventSubscription, list[Frame]]]] = {}
    for sub, its in frames:
        by_loop.setdefault(sub.loop, []).append((sub, its))

    def push(all_of_loop: list[tuple[EventSubscription, list[Frame]]]) -> None:
        for sub, its in all_of_loop:
            sub.push(its)

    for loop, all_of_loop in by_loop.items():
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(push, all_of_loop)


def _queued_events(sub: EventSubscription) -> bytes:
    """All events queued after the last one sent; the queue is empty then."""
    events: list[bytes] = []
    while sub.queue:
        place, frame = sub.queue.popleft()
        if sub.place is None or place > sub.place:
            events.append(frame)
            sub.place = place
    return b"".join(events)


def _result_frame(result: dict[str, Any]) -> Frame:
    data = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    return place_of(result), f"id: {result['cursor']}\nevent: result\ndata: {data}\n\n".encode(
        "utf-8", "replace"
    )


def _message_frame(message: Any) -> Frame:
    data = json.dumps(message.as_dict(), ensure_ascii=False, separators=(",", ":"))
    return (message.id, 0, 0), f"id: {message.id}\nevent: alert\ndata: {data}\n\n".encode("utf-8", "replace")


def _lost_event(n: int | None, at_most: int | None) -> bytes:
    return f"event: lost\ndata: {json.dumps({'n': n, 'at_most': n if at_most is None else at_most})}\n\n".encode()
