"""Step 2 of a round: rows as the schema of their stream has them, numbered in order of arrival; rows that do not fit apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from eddyline.batch import TupleBatch
from eddyline.engine.arrivals import arrival_numbers
from eddyline.engine.dataflow import Arrivals
from eddyline.engine.engine_state import EngineState
from eddyline.engine.event_time import LaneTimes, advanced, event_times, late_rows
from eddyline.engine.letters import misfit_letters
from eddyline.engine.round_output import RoundOutput
from eddyline.engine.round_work import Planned, Work
from eddyline.model import Round
from eddyline.operators import arrived_rows
from eddyline.sources import IngestedRows


def capture(
    state: EngineState, round_: Round, planned: Planned, inputs: Mapping[str, IngestedRows]
) -> tuple[Arrivals, Work]:
    """What the walk begins with, and the work so far. The rows are kept in the store."""
    numbers = arrival_numbers(inputs, round_.first_arrival)
    batches: dict[str, TupleBatch] = {}
    arrivals = Arrivals()
    work = Work(round_.n_rows, RoundOutput(state.dead_letters.capacity))
    for name, ingested in inputs.items():
        stream, before, n = planned.streams[name], planned.progress[name], ingested.rows.num_rows
        times = event_times(stream, ingested.rows, state.time_zone)
        is_late = late_rows(times, before.watermark_us, n)
        n_late = int(np.count_nonzero(is_late))
        batch = batches[name] = TupleBatch(
            stream.name, ingested.rows, numbers[name], np.ones(n, np.int8), is_late
        )
        if not stream.is_keyed:
            arrivals.batches[name] = batch
        if planned.flow is not None and (stream.is_keyed or (n and name in planned.flow.joins.plan.inputs)):
            rows = arrived_rows(batch, times, before.n_rows - before.n_late)
            arrivals.rows[name] = replace(rows, is_delete=ingested.is_delete)
        work.n_late += n_late
        came = LaneTimes()
        came.add(times, ingested.lanes.of(n))
        work.times[name] = came
        watched_us = state.event_clock.watch(name, round_.now_us)
        work.progress[name] = advanced(
            before,
            stream,
            n,
            n_late,
            came,
            ingested.lanes,
            now_us=round_.now_us,
            watched_us=watched_us,
        )
        if n:
            work.recent[name] = batches[name]
            work.last_arrival = max(work.last_arrival, int(numbers[name][-1]))
        work.output.add_letters(misfit_letters(round_.number, stream.name, ingested.misfits))
        work.ignored[name] = ingested.change.ignored
    deletes = {name: each.is_delete for name, each in inputs.items() if each.is_delete is not None}
    work.files += state.store.capture(round_.number, batches, deletes)
    return arrivals, work
