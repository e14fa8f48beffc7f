"""After the commit of a round: alerts, callbacks, statistics, cleanup. The round has happened, and nothing here makes it fail."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import partial

from eddyline.engine.durable import GC_EVERY, Durable
from eddyline.engine.engine_state import EngineState
from eddyline.engine.restored_counts import COUNTS_EVERY
from eddyline.engine.round_work import Outcome, Work
from eddyline.errors import EddylineError
from eddyline.events import (
    CallbackFailed,
    CleanupFailed,
    MemoryRanOut,
    RetentionRemoved,
    RoundCommitted,
)
from eddyline.statistics import RoundRecord

MESSAGES_KEPT = 10_000  # of alerts, in memory; a home has its retention


def follow_up(state: EngineState, outcome: Outcome, work: Work, began: float) -> None:
    """Steps 4b to 7, with the lock held."""
    round_ = outcome.round
    state.at_step("4b alert")
    messages = state.alert(round_.number, lambda: state.alerting.after(round_, work))
    state.at_step("5 deliver")
    ended = time.perf_counter()
    with _afterwards(state, round_.number, "callbacks"):
        _deliver(state, outcome, work, ended - began)
        state.send(messages)
    with _afterwards(state, round_.number, "statistics"):
        for event in state.function_watch.after(round_.number, work.output.functions, round_.now_us):
            state.announce(event)
        state.records.add(_record(outcome, work, began, ended))
        if round_.number % COUNTS_EVERY == 0:
            state.store.save_counts(state.last_round, state.results, state.dead_letters)
    if round_.number % GC_EVERY == 0:
        state.at_step("7 gc")
        with _afterwards(state, round_.number, "cleanup"):
            _collect_garbage(state, round_.number)
    state.at_step("end")


@contextlib.contextmanager
def _afterwards(state: EngineState, round_number: int, step: str) -> Iterator[None]:
    """Around a step after the commit: if there is no memory for it, that is an event."""
    try:
        yield
    except MemoryError as error:
        state.memory.let_go(error)
        state.announce(MemoryRanOut(round_number, step, "there was not enough memory"))


def _deliver(state: EngineState, outcome: Outcome, work: Work, seconds: float) -> None:
    round_ = outcome.round
    state.announce(
        RoundCommitted(
            round_.number,
            round_.version,
            sum(round_.n_rows.values()),
            outcome.n_results,
            outcome.n_dead,
            outcome.n_late,
            seconds,
        )
    )
    state.delivered.notify_all()
    fault = partial(_callback_failed, state, round_.number)
    state.callbacks.deliver(round_, work.matches, work.outputs, state.catalog.queries.name_of, fault)


def _callback_failed(state: EngineState, round_number: int, name: str, error: Exception) -> None:
    state.announce(CallbackFailed(round_number, name, f"{type(error).__name__}: {error}"))


def _collect_garbage(state: EngineState, round_number: int) -> None:
    """The round has happened: if its files cannot be removed, that is an event, and tried again later."""
    if state.durable is None:
        while state.alerting.forget(MESSAGES_KEPT):
            pass
    else:
        try:
            state.durable.collect_garbage(read_to=state.alerting.cursor)
        except EddylineError as error:
            state.announce(CleanupFailed(round_number, str(error)))
        announce_removed(state, state.durable, round_number)


def announce_removed(state: EngineState, durable: Durable, round_number: int | None = None) -> None:
    """Announce what retention has removed."""
    for removal, most in durable.removed():
        state.announce(
            RetentionRemoved(
                state.last_round if round_number is None else round_number,
                removal.what,
                removal.n,
                removal.until_us,
                len(removal.of),
                tuple(most),
            )
        )


def _record(outcome: Outcome, work: Work, began: float, ended: float) -> RoundRecord:
    return RoundRecord(
        round_number=outcome.round.number,
        version=outcome.round.version,
        at_us=outcome.round.now_us,
        n_tasks=work.n_tasks,
        n_rows=sum(outcome.round.n_rows.values()),
        n_results=outcome.n_results,
        n_dead=outcome.n_dead,
        n_late=outcome.n_late,
        seconds=ended - began,
        plan_s=work.planned_at - began,
        work_s=work.worked_at - work.planned_at,
        waiting_s=work.waiting_s,
        commit_s=ended - work.worked_at,
        stages=tuple(work.output.records.values()),
    )
