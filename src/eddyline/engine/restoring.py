"""After opening a home: the state of an engine goes on where the last committed round ended."""

from __future__ import annotations

from eddyline.engine.after_commit import announce_removed
from eddyline.engine.durable import Durable
from eddyline.engine.engine_state import EngineState, old_rows
from eddyline.engine.restored_counts import restore_counts
from eddyline.events import StoreFileDamaged
from eddyline.storage import CAPTURE, DEAD_LETTERS, OUTBOX


def restore(state: EngineState, durable: Durable) -> None:
    """Take in what the home has, as far as the limits of memory let."""
    last = durable.rounds.last()
    if last is not None:
        state.last_round, state.last_arrival = last.round.number, last.last_arrival
        state.last_now_us = last.round.now_us
    state.next_derived = durable.rounds.next_derived()
    state.progress = durable.rounds.progress()
    state.flow.restore(state.progress, 0 if last is None else last.round.version, state.last_now_us)
    newest = durable.newest(OUTBOX, state.limits.result_bytes)
    if len(newest) < durable.rounds.files.count(OUTBOX):
        state.results.begin_later(newest[0].round_number if newest else state.last_round)
    for file in newest:
        for part in durable.parts(file):
            state.results.append(file.round_number, durable.rounds.version_of(file.round_number), part)
    dead = durable.newest(DEAD_LETTERS, state.limits.recent_bytes)
    for file in dead:
        state.dead_letters.add(durable.dead_letters(file))
    state.dead_letters.n_total = durable.rounds.n_dead()
    state.n_results_before = durable.rounds.n_results()
    held = {OUTBOX: newest, DEAD_LETTERS: dead}
    restore_counts(durable, state.last_round, state.results, state.dead_letters, held)
    for file in durable.newest(CAPTURE, state.limits.recent_bytes):
        for captured in durable.numbered_rows(file) or ():
            name = captured.stream
            if state.catalog.find_stream(name) is not None:
                version = durable.rounds.version_of(file.round_number)
                state.recent_rows(name).append(version, old_rows(name, captured.rows, captured.is_late))
    if state.alerting.cursor < state.last_round:
        state.alert(state.last_round, lambda: state.alerting.catch_up(state.last_round))
    announce_removed(state, durable)
    for name, message in durable.damaged.items():
        state.announce(StoreFileDamaged(state.last_round, name, message))
