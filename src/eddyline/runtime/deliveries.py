"""Sinks at work: each is served by a thread of its own, so that a slow or a dead one delays neither a round nor another sink.

Nothing is queued for a sink of an engine with a home: the outbox is the queue, and the cursor says how far the sink is. It is
bounded by retention; for a sink that is overtaken an event says how much it lost.

An engine in memory has no outbox. There the last ROUNDS_IN_MEMORY rounds wait for sinks. When they are that far behind, rounds
wait for a sink that is at work; one that fails is not waited for, and an event says how much it lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TextIO

from eddyline.delivery import MessageFeed, SinkClosedError, SinkError, SinkFeed
from eddyline.engine import Outcome, RoundEngine
from eddyline.errors import ClosedError, EddylineError, QueryStateError, UnknownNameError, did_you_mean
from eddyline.events import SinkFailed, SinkOvertaken, SinkRecovered
from eddyline.pipeline import Pipeline, SinkSettings
from eddyline.runtime.endpoints import KnownQueries, open_sink
from eddyline.runtime.rate import RateMeter
from eddyline.runtime.supplies import LOOK_EVERY_S, Messages, Outbox, ResultsInMemory, RoundsInMemory, Supply
from eddyline.secrets import hidden

LONGEST_WAIT_S = 1.0
SHORTEST_WAIT_S = 0.01  # unless a round wakes it
TRIES_ONCE = 4  # a run of what is there does not wait for ever
LONGEST_ONCE_S = 60.0  # nor for a sink that asks for more than this
LONGEST_DRAIN_S = 20.0  # when a run ends: what a sink has not got by then it gets next time
LONGEST_CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """How far a sink is. `n_behind` counts rounds, or messages if it takes alerts; `message` says why it fails."""

    name: str
    type: str
    takes: str
    cursor: int
    n_behind: int
    is_failing: bool
    message: str
    n_delivered: int = 0  # since it was opened
    per_s: float = 0.0  # delivered
    last_error: str = ""  # also of a sink that has recovered
    failed_at_us: int | None = None
    retry_in_s: float | None = None


class Deliveries:
    """The sinks of a pipeline, from opening to closing."""

    def __init__(
        self,
        pipeline: Pipeline,
        rounds: RoundEngine,
        stdout: TextIO | None,
        *,
        on_reader_gone: Callable[[], None],
        on_fault: Callable[[], None],
    ) -> None:
        """Open all sinks; none is served yet. Raises SinkError.

        on_reader_gone   the reader of standard output has gone
        on_fault         a thread has ended with an error that is none of its sink; `check` raises it
        """
        self._rounds = rounds
        self._on_reader_gone = on_reader_gone
        self._on_fault = on_fault
        self._servings: list[_Serving] = []
        self._fault: BaseException | None = None
        self._in_memory = None if rounds.durable is not None else RoundsInMemory()
        facts = KnownQueries(rounds, {settings.name for settings in pipeline.sinks})
        try:
            for settings in pipeline.sinks:
                self._open(pipeline, rounds, settings, facts, stdout)
            if pipeline.text:  # without a file no sinks are declared
                with rounds.lock:
                    takers = [s.name for s in pipeline.sinks if s.takes == "alerts"]
                    rounds.alerting.set_sinks(takers)
        except BaseException:
            self.close()
            raise

    def _open(
        self,
        pipeline: Pipeline,
        rounds: RoundEngine,
        settings: SinkSettings,
        facts: KnownQueries,
        stdout: TextIO | None,
    ) -> None:
        try:
            feed = open_sink(pipeline, settings, rounds, facts, stdout)
        except SinkError as error:
            error.problem = hidden(error.problem, *settings.secrets)
            raise
        supply: Supply
        if isinstance(feed, MessageFeed):
            supply = Messages(rounds, feed)
        elif self._in_memory is not None:
            supply = self._in_memory.supply(feed)
        else:
            assert rounds.durable is not None
            supply = Outbox(rounds, rounds.durable, feed)
        self._servings.append(_Serving(self, self._rounds, settings, feed, supply))

    @property
    def feeds(self) -> list[SinkFeed]:
        return [serving.feed for serving in self._servings]

    def start(self) -> None:
        """Begin to serve."""
        for serving in self._servings:
            serving.thread.start()

    def wake(self) -> None:
        """A round has committed."""
        for serving in self._servings:
            serving.wake.set()

    def keep(self, outcome: Outcome) -> None:
        """Keep the results of a round for sinks, where there is no outbox. The caller holds the round lock."""
        if self._in_memory is not None and self._servings:
            self._in_memory.keep(self._rounds, outcome)
            self.wake()

    def make_room(self) -> None:
        """Wait until sinks at work have taken enough of what is kept in memory."""
        if self._in_memory is not None:
            at_work = [s for s in self._servings if isinstance(s.supply, ResultsInMemory)]
            self._in_memory.make_room(
                lambda: [s.feed for s in at_work if s.thread.is_alive() and not s.is_failing]
            )

    def check(self) -> None:
        """Raise what ended a thread, if something did that is no fault of its sink."""
        if self._fault is not None:
            raise self._fault

    def finish(self, *, once: bool, is_urged: Callable[[], bool]) -> None:
        """Let every sink make last what there is, and end. A run of what is there raises SinkError if one cannot.

        A sink that fails now and then is tried some more times, if everything has to leave (`once`) and no signal came.
        """
        ending = _State.EMPTYING if once else _State.ENDING
        for serving in self._servings:
            serving.turn_to(ending)
        since, far = time.monotonic(), 0
        while alive := [serving for serving in self._servings if serving.thread.is_alive()]:
            alive[0].thread.join(LOOK_EVERY_S)
            if once and is_urged():
                once, since = False, time.monotonic()
                for serving in alive:
                    serving.turn_to(_State.ENDING)
            now_far = sum(serving.feed.read_to for serving in self._servings)
            if (
                self._in_memory is not None and now_far != far
            ):  # there is no next time: who gets on is waited for
                since, far = time.monotonic(), now_far
            if not once and time.monotonic() - since > LONGEST_DRAIN_S:
                self._stop()
                break
        self.check()
        for serving in self._servings:
            if once and serving.error is not None:
                raise serving.error

    def status(self) -> list[SinkStatus]:
        """How far each sink is. Safe from any thread."""
        return [serving.status() for serving in self._servings]

    def retry(self, name: str) -> None:
        """Serve a sink at once, instead of after its pause. Raises UnknownNameError, and QueryStateError at the end."""
        serving = next((each for each in self._servings if each.settings.name == name), None)
        if serving is None:
            names = [each.settings.name for each in self._servings]
            raise UnknownNameError(f"there is no sink {name}", hint=did_you_mean(name, names, noun="sink"))
        if not serving.thread.is_alive():
            raise QueryStateError(f"sink {name} is not served any more", hint="Start the pipeline again.")
        serving.feed.retry()
        serving.wake.set()

    def close(self) -> None:
        """End at once; what a sink has not got for good comes again another time."""
        self._stop()
        for serving in self._servings:
            if not serving.thread.is_alive():
                serving.feed.sink.close()

    def _stop(self) -> None:
        for serving in self._servings:
            serving.turn_to(_State.STOPPED)
            serving.feed.sink.interrupt()
        if self._in_memory is not None:
            self._in_memory.stop()
        for serving in self._servings:
            if serving.thread.is_alive():
                serving.thread.join(LONGEST_CLOSE_S)

    def reader_gone(self) -> None:
        self._on_reader_gone()

    def failed_for_good(self, error: BaseException) -> None:
        self._fault = self._fault or error
        self._on_fault()


# --------------------------------------------------------------------------------------------- one sink


class _State(Enum):
    SERVING = "serving"
    ENDING = "ending"  # what there is, if the sink takes it at once
    EMPTYING = "emptying"  # what there is, with some patience
    STOPPED = "stopped"


class _Stopped(BaseException):
    """Thrown into the middle of giving."""


class _Serving:
    """One sink and the thread that serves it."""

    def __init__(
        self, owner: Deliveries, rounds: RoundEngine, settings: SinkSettings, feed: SinkFeed, supply: Supply
    ) -> None:
        self.settings = settings
        self.feed = feed
        self.supply = supply
        self.wake = threading.Event()
        self.is_failing = False
        self.error: SinkError | None = None  # why it could not be emptied
        self.thread = threading.Thread(target=self._run, name=f"eddyline-sink-{settings.name}", daemon=True)
        self._owner = owner
        self._rounds = rounds
        self._state = _State.SERVING
        self._message = ""
        self._failed_at_us: int | None = None
        self._n_failures = 0  # since it last went well
        self._failing_since = 0.0
        self._meter = RateMeter()

    def turn_to(self, state: _State) -> None:
        if self._state is not _State.STOPPED:
            self._state = state
        self.wake.set()

    def status(self) -> SinkStatus:
        settings, cursor = self.settings, self.feed.cursor
        n_behind = max(0, self.supply.last() - self.feed.complete_to)
        return SinkStatus(
            settings.name,
            settings.type,
            settings.takes,
            cursor,
            n_behind,
            self.is_failing,
            self._message if self.is_failing else "",
            self.feed.n_delivered,
            self._meter.per_s(),
            self._message,
            self._failed_at_us,
            round(self.feed.pause_s, 1) if self.is_failing and self.feed.is_paused else None,
        )

    def _run(self) -> None:
        try:
            while self._state is _State.SERVING:
                self._serve()
                self._wait(min(max(self.feed.wait_s, SHORTEST_WAIT_S), LONGEST_WAIT_S))
            self._end()
        except (_Stopped, SinkClosedError):
            return
        except ClosedError:  # the engine was closed first
            return
        except BaseException as error:
            self._owner.failed_for_good(error)

    def _wait(self, seconds: float) -> None:
        self.wake.wait(seconds)
        self.wake.clear()

    def _serve(self) -> None:
        """Give it what it has not been given, as far as it takes it now."""
        if not self.feed.is_paused:
            self._give(only_if_due=True)

    def _end(self) -> None:
        """Give the sink the rest before the run ends."""
        n_tries = 0
        if self._state is _State.ENDING and self.feed.is_paused and self._rounds.durable is not None:
            return  # it failed a moment ago, and nothing is lost
        while self._state is not _State.STOPPED:
            if not self.feed.is_waiting and self._give(only_if_due=False):
                return
            n_tries += 1
            is_patient = self._state is _State.EMPTYING
            if not is_patient or n_tries >= TRIES_ONCE or self.feed.pause_s > LONGEST_ONCE_S:
                return
            while self.feed.is_paused and self._state is _State.EMPTYING:
                self._wait(self.feed.pause_s)

    def _give(self, *, only_if_due: bool) -> bool:
        """False if it fails. Raises what is no fault of the sink, and SinkClosedError if the reader has gone."""
        before = self.feed.n_delivered
        try:
            self.supply.give(self._check_stopped, self._lost)
            self.feed.flush(only_if_due=only_if_due)
        except SinkError as error:
            self._check_stopped()
            self._failed(error)
            if isinstance(error, SinkClosedError):
                self._owner.reader_gone()
                raise
            self.error = error
            return False
        except ClosedError:
            raise
        except EddylineError as error:  # of the home, a full disk say: the sink keeps what it was given
            if self._is_lost():
                raise
            self.feed.pause()
            self._failed(error)
            self.error = SinkError(f"sink {self.settings.name}: {error.problem}", detail=error.detail)
            return False
        finally:
            self._meter.add(self.feed.n_delivered - before)
        if self.is_failing:
            seconds = round(time.monotonic() - self._failing_since, 3)
            name, n_failures = self.settings.name, self._n_failures
            self._rounds.tell(SinkRecovered(self._rounds.last_round, name, n_failures, seconds))
        self.is_failing, self._n_failures = False, 0
        self.error = None
        return True

    def _lost(self, n_results: int) -> None:
        self._rounds.tell(SinkOvertaken(self._rounds.last_round, self.settings.name, n_results))

    def _check_stopped(self) -> None:
        if self._state is _State.STOPPED:
            raise _Stopped

    def _failed(self, error: EddylineError) -> None:
        message = error.problem + (f": {error.detail}" if error.detail else "")
        self._message = hidden(message, *self.settings.secrets)
        self._failed_at_us = time.time_ns() // 1000
        self._failing_since = self._failing_since if self.is_failing else time.monotonic()
        self._n_failures += 1
        self.is_failing = True
        error.problem = hidden(error.problem, *self.settings.secrets)
        error.detail = None if error.detail is None else hidden(error.detail, *self.settings.secrets)
        self._rounds.tell(SinkFailed(self._rounds.last_round, self.settings.name, self._message))

    def _is_lost(self) -> bool:
        """Whether another process has taken the home."""
        with self._rounds.lock:
            return self._rounds.store.is_taken_over()
